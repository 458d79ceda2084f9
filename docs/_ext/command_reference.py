"""``.. commands::`` lists every command with its arguments, options and examples.

They are read from the signatures of the commands while the site is built, so that they cannot
go stale.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.models import ArgumentInfo

from manyone.cli import COMMANDS, function_of


class Commands(SphinxDirective):
    """One section for each command."""

    def run(self) -> list[nodes.Node]:
        """Sections."""
        lines: list[str] = []
        for name in COMMANDS:
            lines += section(*function_of(name))
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def section(command: Any, epilog: str) -> list[str]:
    """Help, arguments, options and examples of a command, as reStructuredText."""
    title = f"manyone {command.__name__}"
    lines = [title, "-" * len(title), "", _literal(inspect.getdoc(command) or ""), ""]
    lines += [".. list-table::", "   :widths: 36 64", ""]
    for spelling, meaning in sorted(_parameters(command), key=_arguments_first):
        lines += [f"   * - ``{spelling}``", f"     - {meaning}"]
    commands = [line.strip() for line in epilog.splitlines() if "manyone " in line]
    if commands:
        lines += ["", ".. code-block:: console", ""]
        lines += [f"   $ {line}" for line in commands]
    return [*lines, ""]


def _parameters(command: Any) -> Iterator[tuple[str, str]]:
    """How each parameter is written, and what it means."""
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        kind, said = get_args(hints[name])
        meaning = _literal((said.help or "").replace("*", r"\*"))
        if parameter.default is parameter.empty:
            meaning += " Required."
        elif parameter.default not in (None, False, ""):
            meaning += f" Default: ``{parameter.default}``."
        if isinstance(said, ArgumentInfo):
            yield name.upper(), meaning
            continue
        # An annotation holds the spelling of its option where a default would stand.
        is_spelled = isinstance(said.default, str) and said.default.startswith("--")
        option = said.default if is_spelled else f"--{name.replace('_', '-')}"
        yield f"{option} {_value(name, kind, said.metavar)}".strip(), meaning


def _literal(text: str) -> str:
    """Options as literals: two hyphens in text would become a dash."""
    return re.sub(r"(?<![`\w-])(--[a-z][a-z-]*)", r"``\1``", text)


def _arguments_first(parameter: tuple[str, str]) -> tuple[bool, str]:
    return parameter[0].startswith("--"), parameter[0]


def _value(name: str, kind: Any, metavar: str | None) -> str:
    """What follows an option; nothing after a switch."""
    if kind is bool:
        return ""
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    return metavar or name.upper()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
