"""The documentation is run: doctests of modules and pages, the README."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import manyone

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(manyone.__path__, "manyone.")
)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_doctests(name):
    import matplotlib

    matplotlib.use("Agg")
    result = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.ELLIPSIS
    )
    assert result.failed == 0


@pytest.mark.parametrize(
    "page", sorted(path.name for path in (ROOT / "docs").glob("*.rst"))
)
@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_examples_of_pages(page):
    import matplotlib

    matplotlib.use("Agg")
    result = doctest.testfile(str(ROOT / "docs" / page), module_relative=False)
    assert result.failed == 0


def test_readme_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    scope: dict = {}
    exec(compile(code, "README.md", "exec"), scope)
    assert scope["alarm"].mean() > 0.05  # a quarter of the test rows are faults
    assert (tmp_path / "model.manyone").exists()
    assert scope["why"].shape == (len(scope["alarm"]), 2)


@pytest.mark.slow
def test_readme_commands_print_what_it_shows(tmp_path):
    text = (ROOT / "README.md").read_text()
    sessions = re.findall(r"```console\n(.*?)```", text, flags=re.S)
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(sessions), re.M)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    assert len(steps) == 5
    for command, shown in steps:
        if command.startswith("pip install"):
            continue
        printed = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True
        )
        assert printed.returncode == 0, printed.stderr
        lines = printed.stdout.decode().splitlines()
        wanted = [line for line in shown.splitlines() if line and line != "..."]
        if wanted:
            assert lines[-len(wanted) :] == wanted


def test_lines_of_the_readme_fit_a_screen():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert max(map(len, lines)) <= 120


def test_every_public_name_is_documented():
    api = (ROOT / "docs" / "api.rst").read_text()
    for name in manyone.__all__:
        assert name in api, f"docs/api.rst does not list {name}"
        assert getattr(manyone, name).__doc__


def test_no_links_to_nowhere_in_markdown():
    for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        text = (ROOT / page).read_text()
        named = re.findall(r"^\[\w+\]: (\S+)", text, flags=re.M)
        for target in [*re.findall(r"\]\(([^)#]+)\)", text), *named]:
            if not target.startswith("https://"):
                assert (ROOT / target).exists(), f"{page} points to {target}"


def test_contributing_names_every_file_and_none_that_is_gone():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    package = ROOT / "src" / "manyone"
    folders = text.partition("### One guess each")[0]
    rows = dict(re.findall(r"^\| `(\w+)/` \| (.*) \|$", folders, flags=re.M))
    assert set(rows) == {path.parent.name for path in package.glob("*/__init__.py")}
    for folder, row in rows.items():
        files = {path.stem for path in (package / folder).glob("*.py")}
        missing = files - set(re.findall(r"`(\w+)`", row)) - {"__init__"}
        assert not missing or "one file per" in row, f"{folder}: {missing}"
    for path in package.glob("*.py"):
        assert path.name in ("__init__.py", "__main__.py") or f"`{path.name}`" in text
    places = re.findall(r"`(\w+/[\w/]+\.py)`(?:: `([\w.]+)`)?", text)
    for place, name in places:
        if place.endswith("/yours.py"):
            continue
        found = [base / place for base in (package, ROOT) if (base / place).exists()]
        assert found, f"CONTRIBUTING.md points to {place}"
        for part in filter(None, name.split(".")):
            assert re.search(rf"\b{part}\b", found[0].read_text()), f"{place}: {name}"
