"""Views by passes, and one alarm: as in memory, wherever the rows are."""

from copy import deepcopy

import numpy as np
import pytest

import manyone
from manyone import CombinedOneClass, IndependentOCKSR, JointOCKSR, NonlinearOCKSR
from manyone.engines.hashing import row_hashes

RNG = np.random.default_rng(2)
CODES = RNG.integers(0, 6, 3000)
CODES[:8] = 6  # a small task beside six larger ones
X = RNG.normal(size=(3000, 4)) + (3.0 * RNG.normal(size=(7, 4)))[CODES]
TASK = np.array([f"pump {code}" for code in CODES])
NEW = RNG.permutation(3000)[:500]


def views():
    faults = IndependentOCKSR(kernel="laplacian", width=3.0, landmarks=30, random_state=0)
    joint = JointOCKSR(landmarks=60, random_state=0)
    return CombinedOneClass([("strangers", joint), ("faults", faults)], alarm_rate=0.1)


@pytest.fixture
def mapped(tmp_path, monkeypatch):
    monkeypatch.setattr("manyone.engines.plan._FEWEST", 1000)
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
        np.testing.assert_allclose(again.score_tasks(X[NEW]), one.score_tasks(X[NEW]), atol=1e-8)
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
    fresh, claim = centres[codes] + rng.normal(size=(3000, 4)), [f"pump {c}" for c in codes]
    assert np.mean(model.predict(fresh, task=claim) < 0) == pytest.approx(0.1, abs=0.03)
    fault, other = fresh + 5.0, [f"pump {(c + 1) % 6}" for c in codes]
    assert np.mean(model.predict(fault, task=claim) < 0) > 0.9
    assert np.mean(model.predict(fresh, task=other) < 0) > 0.7


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_rows_come_to_every_view_and_then_to_the_alarm(mapped, tmp_path):
    """Views as if each had enrolled alone; one scale for rows that were there and for new ones."""
    first, last = CODES != 3, CODES == 3
    model = views().fit(lambda: [(X[first], TASK[first])])
    alone = {name: deepcopy(view) for name, view in model.views_.items()}
    before = model.score_samples(X[first], task=TASK[first])
    manyone.save(model, tmp_path / "m.manyone")
    model = manyone.load(tmp_path / "m.manyone").enroll(X[last], task=TASK[last])
    for name, view in model.views_.items():
        alone[name].enroll(X[last], task=TASK[last])
        np.testing.assert_array_equal(view.score_tasks(X[NEW]), alone[name].score_tasks(X[NEW]))
    drawn = np.isin(row_hashes(X), alone["strangers"].solution_.learned["sums"].plan.drawn)
    counts = np.bincount(CODES[~drawn])
    np.testing.assert_array_equal(model.calibration_.counts, counts)
    # Each task alone has not changed, the joint view hardly.
    assert np.corrcoef(before, model.score_samples(X[first], task=TASK[first]))[0, 1] > 0.99
    rng = np.random.default_rng(7)
    for code in (2, 3):
        fresh = X[code == CODES].mean(axis=0) + rng.normal(size=(3000, 4))
        assert np.mean(model.predict(fresh, task=[f"pump {code}"] * 3000) < 0) == pytest.approx(
            0.1, abs=0.04
        )
        assert np.mean(model.predict(fresh + 5.0, task=[f"pump {code}"] * 3000) < 0) > 0.9
    with pytest.raises(ValueError, match="7 tasks: say with task="):
        model.enroll(X[:3])
    with pytest.raises(ValueError, match="2 features"):
        model.enroll(X[:3, :2], task=TASK[:3])


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_forgetting_takes_the_rows_that_stay(mapped):
    stay = CODES != 3
    model = views().fit(mapped, task=TASK).recalibrate(0.2)
    with pytest.raises(ValueError, match=r"others=what `fit` is to be given for the rows that sta"):
        model.forget("pump 3")
    with pytest.raises(ValueError, match="'pump 9'"):
        model.forget("pump 9")
    model.forget("pump 3", others={"X": lambda: [(X[stay], TASK[stay])]})
    known = views().set_params(alarm_rate=0.2).fit(lambda: [(X[stay], TASK[stay])])
    np.testing.assert_array_equal(model.score_tasks(X[NEW]), known.score_tasks(X[NEW]))
    np.testing.assert_array_equal(model.offset_, known.offset_)


def test_few_rows_are_fitted_in_memory():
    few = CombinedOneClass(views().estimators, alarm_rate=0.1)
    one = few.fit(lambda: [(X[8:], TASK[8:])])
    again = CombinedOneClass(views().estimators, alarm_rate=0.1).fit(X[8:], task=TASK[8:])
    np.testing.assert_allclose(one.score_tasks(X[NEW]), again.score_tasks(X[NEW]), atol=1e-8)


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
    monkeypatch.setattr("manyone.selection.sampled._SAMPLE", 300)
    monkeypatch.setattr("manyone.engines.plan._FEWEST", 1000)
    given = {"anomalies": anomalies, "landmarks": 40, "alarm_rate": 0.1}
    one = manyone.auto(lambda: [(X[:900], TASK[:900]), (X[900:], TASK[900:])], **given)
    other = manyone.auto(da.from_array(X, chunks=(800, 4)), task=da.from_array(TASK), **given)
    np.testing.assert_allclose(one.score_tasks(X[NEW]), other.score_tasks(X[NEW]), atol=1e-8)
    kind = {"any": CombinedOneClass, "strangers": JointOCKSR, "faults": IndependentOCKSR}
    assert type(one) is kind[anomalies]
    assert np.mean(one.predict(X, task=TASK) < 0) < 0.12
    assert "of 3,000 rows were looked at" in " ".join(one.choice_["reason"])
