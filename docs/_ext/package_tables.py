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
    """One row per declared field: what it means, and the methods that have it.

    Fields that are marked ``field(metadata={"internal": True})`` or hold more than
    one value are not shown.
    """

    def run(self) -> list[nodes.Node]:
        """Table."""
        declared = {f":class:`~manyone.{m.__name__}`": m.can for m in METHODS.values()}
        any_of_them = next(iter(declared.values()))
        meaning = {
            entry.name: entry.desc
            for entry in ClassDoc(type(any_of_them))["Attributes"]
        }
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: 16 40 44", ""]
        lines += ["   * -", "     - what it is", "     - methods"]
        for field in dataclasses.fields(any_of_them):
            values = {
                method: getattr(can, field.name) for method, can in declared.items()
            }
            hidden = isinstance(getattr(any_of_them, field.name), (Mapping, tuple))
            if not (hidden or field.metadata.get("internal")):
                lines += [f"   * - {field.name.replace('_', ' ')}"]
                lines += [
                    f"     - {' '.join(meaning[field.name])}",
                    f"     - {_owners(values)}",
                ]
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
            functions = inspect.getmembers(
                importlib.import_module(place), inspect.isfunction
            )
            names = [
                n
                for n, f in functions
                if n.startswith("solve_") and f.__module__ == place
            ]
            table += "".join(f"   ~{module.name}.{name}\n" for name in names)
            if names:
                full += f"{place}\n{'-' * len(place)}\n\n.. automodule:: {place}\n\n"
                full += "".join(
                    f".. autofunction:: {place}.{name}\n\n" for name in names
                )
        if not full:
            raise self.error(
                "manyone.solvers has no function whose name begins with solve_"
            )
        text = full if "full" in self.options else table
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def _owners(values: dict[str, Any]) -> str:
    """Who has what of one field: methods by value, or those that have it, or lack it."""
    if all(isinstance(value, bool) for value in values.values()):
        able = [method for method, value in values.items() if value]
        others = [method for method in values if method not in able]
        if len(others) < len(able):
            return "all" if not others else f"all but {', '.join(others)}"
        return ", ".join(able)
    groups: dict[str, list[str]] = {}
    for method, value in values.items():
        groups.setdefault(str(value), []).append(method)
    return "; ".join(
        f"{value}: {', '.join(methods)}" for value, methods in groups.items()
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("capabilities", CapabilityTable)
    app.add_directive("solvers", SolverTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
