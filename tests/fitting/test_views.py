"""Views by passes, and one alarm: as in memory, wherever the rows are."""

from importlib import import_module

import numpy as np
import pytest

import manyone
from manyone import CombinedOneClass, IndependentOCKSR, JointOCKSR, NonlinearOCKSR

RNG = np.random.default_rng(2)
CODES = RNG.integers(0, 6, 3000)
CODES[:8] = 6  # a small task beside six larger ones
X = RNG.normal(size=(3000, 4)) + (3.0 * RNG.normal(size=(7, 4)))[CODES]
TASK = np.array([f"pump {code}" for code in CODES])
NEW = RNG.permutation(3000)[:500]


def views():
    faults = IndependentOCKSR(
        kernel="laplacian", width=3.0, landmarks=30, random_state=0
    )
    joint = JointOCKSR(landmarks=60, random_state=0)
    return CombinedOneClass([("strangers", joint), ("faults", faults)], alarm_rate=0.1)


@pytest.fixture
def mapped(tmp_path, monkeypatch):
    monkeypatch.setattr("manyone.fitting.plan._FEWEST", 1000)
    np.save(tmp_path / "rows.npy", X)
    return np.load(tmp_path / "rows.npy", mmap_mode="r")


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_views_of_a_file_are_those_of_a_function_and_of_dask(mapped, tmp_path):
    da = pytest.importorskip("dask.array")
    one = views().fit(mapped, task=TASK)
    assert one.training_.X.shape[0] == 0  # nothing as long as the rows is kept
    parts = np.array_split(RNG.permutation(3000), 5)
    other = views().fit(lambda: ((X[part], TASK[part]) for part in parts))
    lazy = views().fit(da.from_array(X, chunks=(700, 4)), task=TASK)
    for again in (other, lazy):
        np.testing.assert_allclose(
            again.score_tasks(X[NEW]), one.score_tasks(X[NEW]), atol=1e-8
        )
        np.testing.assert_allclose(again.offset_, one.offset_, atol=1e-8)
    manyone.save(one, tmp_path / "m.manyone")
    loaded = manyone.load(tmp_path / "m.manyone")
    np.testing.assert_array_equal(loaded.score_tasks(X[NEW]), one.score_tasks(X[NEW]))


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_alarms_hold_and_both_kinds_are_found(mapped):
    model = views().fit(mapped, task=TASK)
    memory = views().fit(X, task=TASK)
    np.testing.assert_allclose(model.weights_, memory.weights_, atol=0.05)
    rng = np.random.default_rng(7)
    centres = np.array([X[code == CODES].mean(axis=0) for code in range(6)])
    codes = rng.integers(0, 6, 3000)
    fresh = centres[codes] + rng.normal(size=(3000, 4))
    claim = [f"pump {c}" for c in codes]
    assert np.mean(model.predict(fresh, task=claim) < 0) == pytest.approx(0.1, abs=0.03)
    fault = fresh + 5.0
    other = [f"pump {(c + 1) % 6}" for c in codes]
    assert np.mean(model.predict(fault, task=claim) < 0) > 0.9
    assert np.mean(model.predict(fresh, task=other) < 0) > 0.7


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_models_with_landmarks_refuse_changes(mapped):
    model = views().fit(mapped, task=TASK)
    before = model.score_tasks(X[:50])
    with pytest.raises(ValueError, match=r"enroll\(\) needs the rows .* landmarks"):
        model.enroll(X[:3], task=TASK[:3])
    with pytest.raises(ValueError, match=r"forget\(\) needs the rows .* landmarks"):
        model.forget("pump 3")
    np.testing.assert_array_equal(model.score_tasks(X[:50]), before)


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_views_with_landmarks_beside_exact_ones_are_fitted_again():
    """The combination has the rows: it becomes that of a fit to all of them."""
    mixed = [
        ("strangers", JointOCKSR(landmarks=60, random_state=0)),
        ("faults", IndependentOCKSR()),
    ]
    model = CombinedOneClass(mixed).fit(X[:500], task=TASK[:500])
    model.enroll(X[500:600], task=TASK[500:600])
    known = CombinedOneClass(mixed).fit(X[:600], task=TASK[:600])
    np.testing.assert_array_equal(model.score_tasks(X), known.score_tasks(X))
    np.testing.assert_array_equal(model.offset_, known.offset_)


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("metric", ["plain", "whitened"])
def test_rows_in_memory_are_those_of_blocks(metric):
    given = {f"{name}__metric": metric for name in ("strangers", "faults")}
    one = (
        views()
        .set_params(**given)
        .fit(lambda: [(X[:300], TASK[:300]), (X[300:700], TASK[300:700])])
    )
    again = views().set_params(**given).fit(X[:700], task=TASK[:700])
    np.testing.assert_allclose(
        one.score_tasks(X[NEW]), again.score_tasks(X[NEW]), atol=1e-8
    )
    np.testing.assert_allclose(one.offset_, again.offset_, atol=1e-8)
    assert (again.calibration_.source == "folds") == (metric == "whitened")


def test_what_cannot_be_combined_in_blocks():
    two = CombinedOneClass([("two", NonlinearOCKSR(landmarks=20))])
    with pytest.raises(ValueError, match="'two' is a NonlinearOCKSR"):
        two.fit(lambda: [(X, TASK)])
    with pytest.raises(ValueError, match="landmarks"):
        CombinedOneClass([("one", JointOCKSR())]).fit(lambda: [(X, TASK)])


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("anomalies", ["any", "strangers", "faults"])
def test_auto_chooses_for_rows_that_are_not_in_memory(anomalies, monkeypatch):
    da = pytest.importorskip("dask.array")
    module = import_module("manyone.selection.auto")  # the package has a function auto
    monkeypatch.setattr(module, "SAMPLE_ROWS", 300)
    monkeypatch.setattr("manyone.fitting.plan._FEWEST", 1000)
    given = {"anomalies": anomalies, "landmarks": 40, "alarm_rate": 0.1}
    one = manyone.auto(lambda: [(X[:900], TASK[:900]), (X[900:], TASK[900:])], **given)
    other = manyone.auto(
        da.from_array(X, chunks=(800, 4)), task=da.from_array(TASK), **given
    )
    np.testing.assert_allclose(
        one.score_tasks(X[NEW]), other.score_tasks(X[NEW]), atol=1e-8
    )
    kind = {
        "any": CombinedOneClass,
        "strangers": JointOCKSR,
        "faults": IndependentOCKSR,
    }
    assert type(one) is kind[anomalies]
    assert np.mean(one.predict(X, task=TASK) < 0) < 0.12
    assert "of 3,000 rows were looked at" in " ".join(one.choice_["reason"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_the_rate_holds_with_few_rows_a_task():
    """Whether views have landmarks or not, which take other ways to the same promise."""
    rates = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        centres = 2.0 * rng.normal(size=(20, 5))
        task = np.repeat(np.arange(20), 8)
        claimed = np.repeat(np.arange(20), 50)
        rows = rng.normal(size=(160, 5)) + centres[task]
        fresh = rng.normal(size=(1000, 5)) + centres[claimed]
        for landmarks in (None, 160):
            joint = JointOCKSR(landmarks=landmarks, random_state=0)
            alone = IndependentOCKSR(
                landmarks=landmarks, random_state=0, kernel="laplacian"
            )
            model = CombinedOneClass(
                [("joint", joint), ("alone", alone)], alarm_rate=0.1
            )
            alarm = model.fit(rows, task=task).predict(fresh, task=claimed) < 0
            rates.append(alarm.mean())
    rates = np.reshape(rates, (12, 2))
    error = rates.std(axis=0, ddof=1) / np.sqrt(12)
    assert np.all(rates.mean(axis=0) <= 0.1 + 3.0 * error)
