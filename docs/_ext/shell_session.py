"""``.. shell::`` runs commands while the site is built, and shows them with what they print.

All sessions of a page share one empty folder. A command that fails, unless ``:exit:`` says that it
should, is a warning, and with ``-W`` an error: what a page shows is what this version prints.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

_WIDTH = 86  # columns of the terminal: what fits into a page of the site
_SECONDS = 600


class Shell(SphinxDirective):
    """One command a line, with what it prints on standard output.

    ``:most:`` and ``:last:`` show that many lines of each output, from its beginning or
    its end; ``:silent:`` shows nothing.
    """

    has_content = True
    option_spec: ClassVar = {
        "most": directives.positive_int,
        "last": directives.positive_int,
        "exit": directives.nonnegative_int,
        "silent": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """A block of text."""
        folder = _folder_of(self.env, self.env.docname)
        lines: list[str] = []
        for command in self.content:
            done = _run(command, folder)
            if done.returncode != self.options.get("exit", 0):
                raise self.error(f"{command}: exit {done.returncode}\n{done.stderr}")
            printed = [line.rstrip() for line in done.stdout.splitlines()]
            most = self.options.get("most", len(printed))
            last = self.options.get("last", len(printed))
            before = ["..."] if len(printed) > last else []
            after = ["..."] if len(printed) > most else []
            lines += [f"$ {command}", *before, *printed[-last:][:most], *after]
        if "silent" in self.options:
            return []
        text = "\n".join(lines)
        block = nodes.literal_block(text, text, language="console")
        return [block]


def _folder_of(env: Any, page: str) -> Path:
    """A folder that the sessions of a page share until the site is built."""
    folders = env.temp_data.setdefault("shell_folders", {})
    if page not in folders:
        folders[page] = tempfile.TemporaryDirectory(prefix="manyone-docs-")
    return Path(folders[page].name)


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would, in a terminal of a fixed width and without colours."""
    place = Path(sys.executable).parent
    path = f"{place}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": str(_WIDTH), "NO_COLOR": "1"}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("shell", Shell)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
