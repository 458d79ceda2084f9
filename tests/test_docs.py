"""What the documentation says is run: doctests of modules and pages, the README's example."""

import doctest
import importlib
import pkgutil
import re
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


def test_every_public_name_is_documented():
    api = (ROOT / "docs" / "api.rst").read_text()
    for name in manyone.__all__:
        assert name in api, f"docs/api.rst does not list {name}"
        assert getattr(manyone, name).__doc__


def test_no_links_to_nowhere_in_markdown():
    for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
            if not target.startswith("https://"):
                assert (ROOT / target).exists(), f"{page} points to {target}"
