"""How much code there is to read: ``python benchmarks/code_size.py [--list]``.

A code line is a physical line that is neither blank, nor only a comment, nor part of a docstring.
Exits with 1 where a promise is broken.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "manyone"
# 8,200 before tables, time and rows beyond memory; 16,000 before every method and table model took
# rows in blocks; 17,600 before combinations did, landmarks moved, and workers were measured; 17,800
# before combinations with landmarks grew and missing numbers were expected from the others; 17,950
# before rows came and went in models with landmarks and groups or a metric for each task.
MOST_LINES, LONGEST_MODULE, LONGEST_FUNCTION = 18_300, 350, 60
_LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def docstring_lines(node: ast.AST) -> set[int]:
    """Physical lines of the docstring of a module, class or function."""
    if not isinstance(node, (ast.Module, ast.ClassDef, Function)):
        return set()
    if ast.get_docstring(node, clean=False) is None:
        return set()
    text = node.body[0]
    return set(range(text.lineno, (text.end_lineno or text.lineno) + 1))


def code_lines(source: str, tree: ast.Module) -> set[int]:
    """Physical lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines.difference(*(docstring_lines(node) for node in ast.walk(tree)))


def long_functions(tree: ast.Module) -> list[tuple[str, int]]:
    """Name and physical lines, without the docstring, of the functions that are too long."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, Function):
            lines = (
                (node.end_lineno or node.lineno)
                - node.lineno
                + 1
                - len(docstring_lines(node))
            )
            if lines > LONGEST_FUNCTION:
                found.append((node.name, lines))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--list", action="store_true", help="also print the lines of every module"
    )
    every = parser.parse_args().list
    folders: Counter[str] = Counter()
    modules, too_long = {}, []
    for path in sorted(ROOT.rglob("*.py")):
        name, source = (
            path.relative_to(ROOT).as_posix(),
            path.read_text(encoding="utf-8"),
        )
        tree = ast.parse(source)
        modules[name] = len(code_lines(source, tree))
        folders[name.rpartition("/")[0] or "."] += modules[name]
        physical = len(source.splitlines())
        if physical > LONGEST_MODULE:
            too_long.append(
                f"{name}: {physical} lines, at most {LONGEST_MODULE} promised"
            )
        too_long += [
            f"{name}: {function}() {lines} lines, at most {LONGEST_FUNCTION} promised"
            for function, lines in long_functions(tree)
        ]
    for name, lines in sorted(modules.items() if every else folders.items()):
        print(f"{lines:>6}  {name}")
    total = sum(modules.values())
    print(f"{total:>6}  code lines in all, at most {MOST_LINES} promised")
    print("\n".join(too_long) or "no module and no function is too long")
    return int(total > MOST_LINES or bool(too_long))


if __name__ == "__main__":
    sys.exit(main())
