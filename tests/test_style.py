"""The style of the code: one assignment a statement, imports down, no cycles.

They hold everywhere: in the package, its tests, benchmarks and examples.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "manyone"

#: Where the rules hold, from the root of the checkout.
PLACES = ("src", "tests", "benchmarks", "examples")

#: Rooms of the package from the lowest to the highest. A room imports from lower ones;
#: modules at the top level of the package may also import from their own layer. A
#: module with a dot is a room of its own, apart from its folder.
LAYERS = (
    ("_types",),
    ("_sklearn", "files", "messages", "progress", "routing", "threads"),
    ("capabilities",),
    ("data",),
    ("history", "kernels"),
    ("metric",),
    ("solvers",),
    ("models",),
    ("calibration",),
    ("fitting",),
    ("engines",),
    ("estimators",),
    ("pipelines",),
    ("selection",),
    ("metrics",),
    ("alerts",),
    ("plots",),
    ("page",),
    ("tablefiles",),
    ("tables",),
    ("model_files",),
    ("watch",),
    ("datasets",),
    ("__init__",),
    ("experiments", "mlflow", "serve"),
    ("cli",),
    ("__main__",),
)


def packed_assignments(tree):
    """Lines that assign a row of values to more than two targets, or values of calls.

    Brackets do not matter: a tuple is as packed as a list.
    """
    row = (ast.Tuple, ast.List)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, row):
            for target in node.targets:
                if isinstance(target, row):
                    parts = ast.walk(node.value)
                    calls = any(isinstance(part, ast.Call) for part in parts)
                    if calls or len(target.elts) > 2:
                        yield node.lineno


def own_imports(tree):
    """Line, room and whether it is late, of each import of our own modules."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    late = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, functions)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            modules = [node.module]
            if node.module == "manyone":
                modules = [f"manyone.{name}" for name in names]
            if node.level:
                raise AssertionError(f"line {node.lineno}: name the package in imports")
        for module in modules:
            package, *rest = module.split(".")
            if package == "manyone":
                yield node.lineno, room_of(rest), id(node) in late


def room_of(parts):
    """Room of the package that a dotted name, without the first part, lies in."""
    apart = ".".join(parts[:2])
    if any(apart in rooms for rooms in LAYERS):
        return apart
    first = parts[0] if parts else "__init__"
    place = PACKAGE / first
    if place.is_dir() or place.with_suffix(".py").exists():
        return first
    return "__init__"  # a public name, such as manyone.auto


def layer_of(room):
    for height, rooms in enumerate(LAYERS):
        if room in rooms:
            return height
    raise AssertionError(f"{room}: give this room its place in LAYERS.")


def broken_rules(source, room):
    """Broken rules of a file in a room; None is outside of the package."""
    tree = ast.parse(source)
    for line in packed_assignments(tree):
        yield f"line {line}: give each of these names its own statement"
    if room is None:
        return
    for line, imported, late in own_imports(tree):
        if late and room != "__main__":
            yield f"line {line}: import {imported} at the top of the module"
        below = layer_of(imported) < layer_of(room)
        loose = imported in LAYERS[layer_of(room)] and not (PACKAGE / room).is_dir()
        if not (below or loose or imported == room):
            yield f"line {line}: {room} imports from {imported}, which is no lower"


def room_of_file(path):
    if not path.is_relative_to(PACKAGE):
        return None
    return room_of(path.relative_to(PACKAGE).with_suffix("").parts)


@cache
def rooms_imported_by_packages():
    edges = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        room = room_of_file(path)
        if (PACKAGE / room).is_dir():
            for _, imported, _ in own_imports(ast.parse(path.read_text("utf-8"))):
                if imported != room and (PACKAGE / imported).is_dir():
                    edges[room].add(imported)
    return edges


def reachable(edges, start):
    """Rooms that can be reached from one over one import or more."""
    rooms = set()
    waiting = list(edges[start])
    while waiting:
        room = waiting.pop()
        if room not in rooms:
            rooms.add(room)
            waiting += edges[room]
    return rooms


@pytest.mark.parametrize("place", PLACES)
def test_every_file_keeps_the_rules(place):
    files = sorted((ROOT / place).rglob("*.py"))
    assert files, f"{place}: there is no such place"
    problems = [
        f"{path.relative_to(ROOT)}, {problem}"
        for path in files
        for problem in broken_rules(path.read_text("utf-8"), room_of_file(path))
    ]
    assert not problems, "\n".join(problems)


def test_no_package_is_in_a_cycle():
    edges = rooms_imported_by_packages()
    circular = [room for room in list(edges) if room in reachable(edges, room)]
    assert not circular, f"{circular} import themselves, through others"


def test_every_room_has_a_layer():
    for path in PACKAGE.rglob("*.py"):
        layer_of(room_of_file(path))


# --- The rules find what is planted.


@pytest.mark.parametrize(
    "line",
    [
        "a, b, c = 1, 2, 3",
        "[a, b, c] = 1, 2, 3",
        "a, b = [len(x), 2]",
        "a, *b, c = 1, 2, 3",
        "a, b = len(x), 2",
        "a = b, c, d = 1, 2, 3",
        "a, b = len(x) - 1, 2",
        "def f():\n    from manyone.kernels import Gram",
        "def f():\n    import manyone.kernels",
        "from manyone.page.html import Page",
        "from manyone import page",
        "import manyone.page.html",
        "from manyone import auto",
        "from manyone.solvers.ridge import solve",
    ],
)
def test_what_is_planted_is_found(line):
    assert list(broken_rules(line, "metric"))


@pytest.mark.parametrize(
    "line",
    [
        "a, b = b, a",
        "a, b = f(x)",
        "a = b = 0",
        "a, b, c = values",
        "def f():\n    import matplotlib",
        "from manyone.kernels import Gram",
        "from manyone.metric.shrinkage import shrink",
        "from manyone import kernels",
    ],
)
def test_what_is_allowed_is_not_found(line):
    assert not list(broken_rules(line, "metric"))


def test_relative_imports_are_refused():
    with pytest.raises(AssertionError, match="name the package"):
        list(broken_rules("from ..kernels import Gram", "metric"))


def test_commands_import_at_the_top_and_tests_are_outside_of_the_layers():
    assert list(broken_rules("def f():\n    from manyone.tables import A", "cli"))
    assert not list(broken_rules("from manyone.page.html import Page", None))
    assert list(broken_rules("a, b = f(), g()", None))


def test_a_planted_cycle_is_found():
    edges = defaultdict(set, {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert "a" in reachable(edges, "a") and "d" not in reachable(edges, "d")
