"""Files: whole or not at all, damaged ones refused, hostile ones powerless."""

import os
import pickle

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import manyone
from manyone import (
    IndependentOCKSR,
    JointOCKSR,
    ModelFileError,
    TaskWhitener,
    load,
    save,
)
from manyone.model_files import read_header

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


@pytest.fixture
def model(fleet):
    X, task = fleet
    return JointOCKSR(alarm_rate=0.2).fit(X, task=task)


@pytest.fixture
def path(model, tmp_path):
    save(model, tmp_path / "a.manyone")
    return tmp_path / "a.manyone"


@pytest.mark.parametrize(
    "estimator",
    [
        IndependentOCKSR(),
        JointOCKSR(metric="whitened"),
        JointOCKSR(landmarks=20, random_state=0),
        JointOCKSR(kernel="rbf+laplacian"),
        JointOCKSR(kernel="precomputed"),
    ],
    ids=str,
)
def test_round_trip(estimator, fleet, tmp_path):
    X, task = fleet
    rows = X @ X.T if estimator.kernel == "precomputed" else X
    estimator.fit(rows, task=task)
    save(estimator, tmp_path / "m")
    twin = load(tmp_path / "m")
    assert np.array_equal(twin.score_tasks(rows), estimator.score_tasks(rows))
    assert np.array_equal(
        twin.pvalues(rows, task=task), estimator.pvalues(rows, task=task)
    )
    assert twin.get_params() == estimator.get_params()


def test_pipelines_and_transformers(fleet, tmp_path):
    X, task = fleet
    pipe = make_pipeline(StandardScaler(), JointOCKSR()).fit(X)
    save(pipe, tmp_path / "p")
    assert np.array_equal(load(tmp_path / "p").score_samples(X), pipe.score_samples(X))
    whitener = TaskWhitener().fit(X, task=task)
    save(whitener, tmp_path / "w")
    assert np.array_equal(load(tmp_path / "w").transform(X), whitener.transform(X))


def test_imputers_and_requests_in_pipelines(fleet, tmp_path):
    X, task = fleet
    with sklearn.config_context(enable_metadata_routing=True):
        model = JointOCKSR().set_fit_request(task=True).set_predict_request(task=True)
        whitener = TaskWhitener().set_fit_request(task=True)
        pipe = make_pipeline(SimpleImputer(), whitener, model).fit(X, task=task)
        save(pipe, tmp_path / "p")
        twin = load(tmp_path / "p")
        assert np.array_equal(twin.predict(X, task=task), pipe.predict(X, task=task))


def test_unfitted_models_and_missing_folders_are_refused(tmp_path, model):
    with pytest.raises(NotFittedError):
        save(JointOCKSR(), tmp_path / "m")
    with pytest.raises(FileNotFoundError, match="no folder"):
        save(model, tmp_path / "nowhere" / "m")


def test_header_is_readable(path):
    header = read_header(path)
    assert header["type"] == "JointOCKSR"
    assert header["manyone"] == manyone.__version__


def test_small_files_for_large_kernels(tmp_path):
    X = np.random.default_rng(0).normal(size=(600, 3))
    model = JointOCKSR().fit(X)
    save(model, tmp_path / "m")
    assert os.path.getsize(tmp_path / "m") < 600 * 600 * 8 / 10


def test_files_hold_rows_and_coefficients_once(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 500))
    save(JointOCKSR().fit(X, task=np.arange(60) % 20), tmp_path / "rows")
    assert os.path.getsize(tmp_path / "rows") < 1.5 * X.nbytes
    task = np.arange(4000) % 2000
    model = JointOCKSR(landmarks=60, random_state=0, alarm_rate=None)
    model.fit(rng.normal(size=(4000, 3)), task=task)
    save(model, tmp_path / "landmarks")
    size = os.path.getsize(tmp_path / "landmarks")
    assert size < 1.5 * model.dual_coef_.nbytes
    assert load(tmp_path / "landmarks").structure_.shape == (2000, 2000)


def test_requests_of_our_pipelines_are_kept(fleet, tmp_path):
    X, task = fleet
    pipeline = manyone.make_pipeline(StandardScaler(), JointOCKSR())
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline.set_fit_request(task=True).fit(X, task=task)
        save(pipeline, tmp_path / "p")
        twin = load(tmp_path / "p")
        assert twin.get_metadata_routing().fit.requests["task"] is True
    assert np.array_equal(
        twin.score_samples(X, task=task), pipeline.score_samples(X, task=task)
    )


@pytest.mark.slow
def test_a_thousand_damaged_files(model, path, fleet, tmp_path):
    X, _ = fleet
    expected = model.score_tasks(X)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    outcomes = {"refused": 0, "same": 0}
    broken = tmp_path / "broken"
    for trial in range(1000):
        damaged = bytearray(content)
        if trial % 2:
            # Half of the flips hit the header, where they are most dangerous.
            reach = content.index(b"\n{", 20) if trial % 4 == 1 else len(content)
            for position in rng.integers(0, reach, size=rng.integers(1, 4)):
                damaged[position] ^= 1 << rng.integers(0, 8)
        else:
            del damaged[rng.integers(0, len(content)) :]
        broken.write_bytes(bytes(damaged))
        try:
            twin = load(broken)
        except ModelFileError as error:
            assert str(broken) in str(error)
            outcomes["refused"] += 1
        else:
            assert np.array_equal(twin.score_tasks(X), expected)
            outcomes["same"] += 1
    assert outcomes["refused"] > 900


def test_pickles_are_no_models(tmp_path):
    trap = tmp_path / "trap"

    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(trap),))

    (tmp_path / "pickled").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError, match="not a manyone model"):
        load(tmp_path / "pickled")
    assert not trap.exists()


def test_foreign_and_missing_files(tmp_path, model):
    (tmp_path / "text").write_text("hello\nworld")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "list").write_text("[1, 2]\n")
    for name in ("text", "empty", "list"):
        with pytest.raises(ModelFileError, match=name):
            load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere")
    save(model, tmp_path / "new")
    content = (tmp_path / "new").read_bytes()
    newer = content.replace(b"manyone archive 4", b"manyone archive 9", 1)
    (tmp_path / "new").write_bytes(newer)
    with pytest.raises(ModelFileError, match="Upgrade"):
        load(tmp_path / "new")
    for first_line in (
        b'{"format": "manyone model", "format_version": 3, ',
        b"manyone archive 3",
    ):
        (tmp_path / "old").write_bytes(first_line + b"\n" + content)
        with pytest.raises(
            ModelFileError, match=r"old has .*format.* Fit the model again"
        ):
            load(tmp_path / "old")


def test_unsavable_models_say_why(fleet, tmp_path):
    X, _ = fleet
    custom = JointOCKSR(kernel=lambda x, y: float(x @ y)).fit(X)
    with pytest.raises(ValueError, match="cannot be saved"):
        save(custom, tmp_path / "m")
    foreign = make_pipeline(FunctionTransformer(os.path.join), JointOCKSR()).fit
    assert callable(foreign)
    assert not list(tmp_path.iterdir())


def test_failed_write_leaves_the_old_file(model, path, monkeypatch):
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(model, path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
