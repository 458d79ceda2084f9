"""What the project declares about itself is true."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import manyone

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
# Where the name of a module is not that of its distribution.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "mlflow": "mlflow-skinny",
    "sklearn": "scikit-learn",
}


def names(requirements):
    return {re.match(r"[\w.-]+", requirement)[0] for requirement in requirements}


def imported(path):
    """Names of the modules that a file imports, by statement or by function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            yield from (a.value for a in node.args if isinstance(a, ast.Constant))


def test_every_imported_package_is_declared():
    files = (ROOT / "src").rglob("*.py")
    found = {name.partition(".")[0] for path in files for name in imported(path)}
    found -= {*sys.stdlib_module_names, "manyone"}
    assert {
        "numpy",
        "sklearn",
        "matplotlib",
        "pyod",
    } <= found  # the search finds what is there
    declared = names(PROJECT["dependencies"])
    for extra in PROJECT["optional-dependencies"].values():
        declared |= names(extra)
    assert {DISTRIBUTIONS.get(name, name) for name in found} <= declared


def test_what_comes_with_scikit_learn_and_is_imported_is_declared():
    assert {"joblib", "narwhals", "threadpoolctl"} <= names(PROJECT["dependencies"])


def test_python_versions_agree():
    lowest = PROJECT["requires-python"].removeprefix(">=")
    prefix = "Programming Language :: Python :: 3."
    versions = [
        c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith(prefix)
    ]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert versions[0] == lowest
    assert f"python: [{', '.join(map(repr, versions))}]".replace("'", '"') in workflow


def test_citation_names_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {manyone.__version__}\n" in citation


def test_no_install_line_names_a_registry_that_has_no_manyone():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.rst")]
    pages += (ROOT / "src" / "manyone").rglob("*.py")
    for page in pages:
        wrong = re.findall(
            r"pip install ['\"]?manyone.*", page.read_text(encoding="utf-8")
        )
        assert not wrong, f"{page.name}: {wrong}"
