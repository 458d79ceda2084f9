"""Tables that are read from the package while the site is built, so that they cannot go stale.

``.. capabilities::`` shows what each method declares that it can do (``can``), and what that means.
``.. solvers::`` lists the functions ``solve_*`` of ``manyone.solvers``; ``:full:`` documents them.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from numpydoc.docscrape import ClassDoc
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import manyone.solvers
from manyone.estimators import METHODS


class CapabilityTable(SphinxDirective):
    """One row per method, one column per declared field, then what the fields mean.

    Fields that are marked ``field(metadata={"internal": True})`` or hold a mapping are not shown.
    """

    def run(self) -> list[nodes.Node]:
        """Table and legend."""
        declared = {method.__name__: method.can for method in METHODS.values()}
        any_of_them = next(iter(declared.values()))
        shown = [
            field.name
            for field in dataclasses.fields(any_of_them)
            if not field.metadata.get("internal")
            and not any(isinstance(getattr(can, field.name), Mapping) for can in declared.values())
        ]
        rows = [["method", *map(_words, shown)]]
        for method, can in declared.items():
            rows.append([f":class:`~manyone.{method}`", *(_cell(getattr(can, n)) for n in shown)])
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for first, *others in rows:
            lines += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
        meaning = {entry.name: entry.desc for entry in ClassDoc(type(any_of_them))["Attributes"]}
        for name in shown:
            lines += ["", _words(name), *(f"   {line}" for line in meaning[name])]
        return self.parse_text_to_nodes("\n".join(lines))


class SolverTable(SphinxDirective):
    """Solver functions with the first line of their documentation, or all of it."""

    option_spec: ClassVar = {"full": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Table, or one section per module."""
        table = ".. currentmodule:: manyone.solvers\n\n.. autosummary::\n   :nosignatures:\n\n"
        full = ""
        for module in pkgutil.iter_modules(manyone.solvers.__path__):
            place = f"manyone.solvers.{module.name}"
            functions = inspect.getmembers(importlib.import_module(place), inspect.isfunction)
            names = [n for n, f in functions if n.startswith("solve_") and f.__module__ == place]
            table += "".join(f"   ~{module.name}.{name}\n" for name in names)
            if names:
                full += f"{place}\n{'-' * len(place)}\n\n.. automodule:: {place}\n\n"
                full += "".join(f".. autofunction:: {place}.{name}\n\n" for name in names)
        if not full:
            raise self.error("manyone.solvers has no function whose name begins with solve_")
        text = full if "full" in self.options else table
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: Any) -> str:
    """Yes or a dash, names, or a number."""
    if isinstance(value, tuple):
        return ", ".join(f"``{name}``" for name in value) or "–"
    if isinstance(value, bool) or value is None:
        return "yes" if value else "–"
    return str(value)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("capabilities", CapabilityTable)
    app.add_directive("solvers", SolverTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
