"""What a loader returns is known to mypy from its ``return_X_y``."""

import inspect

import pytest

from manyone import datasets

api = pytest.importorskip("mypy.api")
LOADERS = [name for name in datasets.__all__ if name.startswith(("load_", "make_"))]


def complaints(tmp_path, lines):
    """What mypy says about a script of these lines."""
    script = tmp_path / "script.py"
    script.write_text("from manyone import datasets\n" + "\n".join(lines) + "\n")
    cache = str(tmp_path / "cache")
    return api.run(["--strict", "--cache-dir", cache, str(script)])[0]


@pytest.mark.slow
def test_both_kinds_of_answer_are_typed(tmp_path):
    lines = []
    for name in LOADERS:
        lines.append(f"datasets.{name}().data")
        lines.append(f"X, y = datasets.{name}(return_X_y=True)")
        lines.append("X.mean(), y.max()")
    assert "Success" in complaints(tmp_path, lines)
    wrong = complaints(tmp_path, [f"datasets.{LOADERS[0]}(return_X_y=True).data"])
    assert "has no attribute" in wrong
    assert "error" in complaints(tmp_path, ["datasets.load_faces(window=3)"])


@pytest.mark.parametrize("name", LOADERS)
def test_the_signature_at_run_time_names_every_option(name):
    signature = inspect.signature(getattr(datasets, name))
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    assert signature.parameters["return_X_y"].default is False
