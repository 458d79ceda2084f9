"""Files: whole or not at all, damaged ones refused, hostile ones powerless."""

import hashlib
import io
import json
import os
import zipfile

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import manyone
from manyone import IndependentOCKSR, JointOCKSR, TaskWhitener, load, save
from manyone.persistence import (
    FORMAT_VERSION,
    ModelFileError,
    read_header,
    trusted_types,
)

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


def test_only_our_own_types_need_trust(path):
    import skops.io

    content = path.read_bytes()
    payload = content[content.index(b"\n") + 1 :]
    assert set(skops.io.get_untrusted_types(data=payload)) <= set(trusted_types())
    assert all(
        name.startswith(("manyone.", "scipy.sparse.", "numpy.dtype"))
        for name in trusted_types()
    )


def test_header_is_readable(path):
    header = read_header(path)
    assert header["model"] == "JointOCKSR"
    assert header["manyone"] == manyone.__version__


def test_small_files_for_large_kernels(tmp_path):
    X = np.random.default_rng(0).normal(size=(600, 3))
    model = JointOCKSR().fit(X)
    save(model, tmp_path / "m")
    assert os.path.getsize(tmp_path / "m") < 600 * 600 * 8 / 10


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
            reach = content.index(b"\n") + 1 if trial % 4 == 1 else len(content)
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


def test_flips_behind_a_right_checksum(path, fleet, model, tmp_path):
    """Even a forger who knows the checksum gets a clean exception or a model, never a crash."""
    X, _ = fleet
    content = path.read_bytes()
    start = content.index(b"\n") + 1
    rng = np.random.default_rng(0)
    for _ in range(150):
        payload = bytearray(content[start:])
        payload[rng.integers(0, len(payload))] ^= 1 << rng.integers(0, 8)
        write_forged(tmp_path / "forged", bytes(payload))
        try:
            twin = load(tmp_path / "forged")
        except ModelFileError:
            continue
        assert type(twin) is JointOCKSR


def write_forged(path, payload):
    header = {
        "format": "manyone model",
        "format_version": FORMAT_VERSION,
        "model": "JointOCKSR",
        "bytes": len(payload),
        "sha256": hashlib.sha256(payload).hexdigest(),
    }
    path.write_bytes(json.dumps(header).encode() + b"\n" + payload)


def test_hostile_file_executes_nothing(path, tmp_path):
    content = path.read_bytes()
    payload = content[content.index(b"\n") + 1 :]
    source = zipfile.ZipFile(io.BytesIO(payload))
    buffer = io.BytesIO()
    trap = tmp_path / "trap"
    with zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "schema.json":
                schema = json.loads(data)
                schema.update(
                    __class__="partial",
                    __module__="functools",
                    __loader__="PartialNode",
                )
                call = {
                    "__class__": "system",
                    "__module__": "os",
                    "__loader__": "FunctionNode",
                }
                schema["content"] = {"func": call, "args": str(trap)}
                data = json.dumps(schema).encode()
            target.writestr(name, data)
    write_forged(tmp_path / "hostile", buffer.getvalue())
    with pytest.raises(ModelFileError):
        load(tmp_path / "hostile")
    import pickle

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
    newer = content.replace(b'"format_version": 3', b'"format_version": 9', 1)
    (tmp_path / "new").write_bytes(newer)
    with pytest.raises(ModelFileError, match="Upgrade"):
        load(tmp_path / "new")
    (tmp_path / "new").write_bytes(
        content.replace(b'"format_version": 3', b'"format_version": 1', 1)
    )
    with pytest.raises(ModelFileError, match="Fit the model again"):
        load(tmp_path / "new")


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
