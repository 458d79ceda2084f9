"""The public surface: what is there, and that importing it costs nothing extra."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import manyone
from manyone.estimators import METHODS, MultiTaskOneClass

CONTRACT = {
    "fit": ["X", "y", "task", "outlier", "sample_weight", "groups"],
    "score_samples": ["X", "task"],
    "decision_function": ["X", "task"],
    "predict": ["X", "task"],
    "pvalues": ["X", "task", "exact"],
    "score_tasks": ["X"],
    "predict_task": ["X"],
    "recalibrate": ["alarm_rate"],
    "calibrate": ["X", "task", "sample_weight"],
    "select": ["X", "task", "fdr"],
    "pvalues_together": ["X", "task"],
}


@pytest.mark.parametrize("cls", METHODS.values(), ids=METHODS.keys())
def test_methods_have_the_same_signatures(cls):
    for name, expected in CONTRACT.items():
        assert list(inspect.signature(getattr(cls, name)).parameters)[1:] == expected
    for name, parameter in inspect.signature(cls).parameters.items():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, name
        assert f"{name} :" in cls.__doc__ or f"{name}," in cls.__doc__, (
            f"{name} is undocumented"
        )
    assert {"kernel", "gamma", "alarm_rate"} <= set(inspect.signature(cls).parameters)


def test_every_method_is_exported():
    for cls in METHODS.values():
        assert getattr(manyone, cls.__name__) is cls
        assert cls.__name__ in manyone.__all__
        assert issubclass(cls, MultiTaskOneClass)


def test_all_is_sorted_and_complete():
    assert sorted(manyone.__all__) == sorted(set(manyone.__all__))
    for name in manyone.__all__:
        assert hasattr(manyone, name)


def test_packages_need_no_import_of_their_own():
    make = "manyone.datasets.make_fleet(n_tasks=2, random_state=0)"
    call = f"import manyone; print({make}.data.shape)"
    subprocess.run([sys.executable, "-c", call], check=True)
    assert "datasets" in dir(manyone)


BLOCKED = """
import sys
from pathlib import Path
banned = "matplotlib typer rich polars pandas pyarrow dask skops pooch pyod numba"
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in banned.split():
            raise ImportError(name)
sys.meta_path.insert(0, Block())
import numpy as np, manyone, manyone.datasets
X, task = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
print(manyone.tune(manyone.JointOCKSR(), X, task=task).predict(X, task=task).sum())
import sys, tempfile
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
with tempfile.TemporaryDirectory() as folder:
    model = manyone.JointOCKSR().fit(X)
    manyone.save(model, folder + "/m")
    loaded = manyone.load(folder + "/m")
    print(np.array_equal(loaded.score_samples(X), model.score_samples(X)))
try:
    pipeline = make_pipeline(StandardScaler(), manyone.JointOCKSR())
    manyone.save(pipeline.fit(X), "nowhere")
except ImportError as error:
    print(error)
"""


def test_core_needs_no_optional_dependency():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BLOCKED],
        capture_output=True,
        text=True,
        check=True,
    )
    total, same, message = done.stdout.splitlines()
    assert same == "True"
    assert int(total) > 40
    assert ".[io]" in message


def test_type_checkers_see_what_python_finds():
    tree = ast.parse(Path(manyone.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.name: node.module
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        for alias in node.names
    }
    assert sorted(seen) == sorted(manyone.__all__)
    for name, module in seen.items():
        assert getattr(importlib.import_module(module), name) is getattr(manyone, name)
    assert set(manyone.__all__) <= set(dir(manyone))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        manyone.Nothing  # noqa: B018


def test_methods_are_imported_without_tables_and_pages():
    program = "from manyone import JointOCKSR; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name for name in done.stdout.split() if name.startswith("manyone.")}
    assert "manyone.estimators.joint" in loaded
    rooms = {name.split(".")[1] for name in loaded}
    assert not rooms & {
        "selection",
        "tables",
        "watch",
        "plots",
        "report",
        "datasets",
    }
