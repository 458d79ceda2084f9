"""Views with landmarks beside exact ones, and `auto` wherever the rows are."""

from importlib import import_module

import numpy as np
import pytest

import manyone
from manyone import CombinedOneClass, IndependentOCKSR, JointOCKSR

RNG = np.random.default_rng(2)
CODES = RNG.integers(0, 6, 3000)
CODES[:8] = 6  # a small task beside six larger ones
X = RNG.normal(size=(3000, 4)) + (3.0 * RNG.normal(size=(7, 4)))[CODES]
TASK = np.array([f"pump {code}" for code in CODES])
NEW = RNG.permutation(3000)[:500]


def views():
    faults = IndependentOCKSR(kernel="laplacian", width=3.0)
    joint = JointOCKSR(landmarks=60, random_state=0)
    return CombinedOneClass([("strangers", joint), ("faults", faults)], alarm_rate=0.1)


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_alarms_hold_and_both_kinds_are_found(monkeypatch):
    monkeypatch.setattr("manyone.fitting.plan._FEWEST", 1000)
    model = views().fit(X, task=TASK)
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
def test_views_that_all_have_landmarks_refuse_changes():
    joint = JointOCKSR(landmarks=60, random_state=0)
    wide = JointOCKSR(landmarks=60, random_state=0, width=3.0)
    model = CombinedOneClass([("narrow", joint), ("wide", wide)]).fit(X, task=TASK)
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
@pytest.mark.parametrize("anomalies", ["any", "strangers", "faults"])
def test_auto_keeps_the_same_rows_wherever_they_are(anomalies, monkeypatch, tmp_path):
    """Of a function, of Dask and of a file; and those in memory where all are kept."""
    da = pytest.importorskip("dask.array")
    module = import_module("manyone.selection.auto")  # the package has a function auto
    given = {"anomalies": anomalies, "landmarks": 40, "alarm_rate": 0.1}
    for most in (600, 5000):
        monkeypatch.setattr(module, "MOST_ROWS", most)
        parts = np.array_split(np.random.default_rng(0).permutation(3000), 5)
        blocks = [(X[part], TASK[part]) for part in parts]
        model = manyone.auto(lambda rows=blocks: rows, **given)
        rows = da.from_array(X, chunks=(800, 4))
        lazy = manyone.auto(rows, task=da.from_array(TASK), **given)
        np.save(tmp_path / "rows.npy", X)
        mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
        others = [lazy, manyone.auto(mapped, task=TASK, **given)]
        words = " ".join(model.choice_["reason"])
        assert ("of 3,000 rows were kept" in words) == (most == 600)
        if most == 5000:
            others.append(manyone.auto(X, task=TASK, **given))
        for other in others:
            expected = model.score_tasks(X[NEW])
            np.testing.assert_allclose(other.score_tasks(X[NEW]), expected, atol=1e-8)
            np.testing.assert_allclose(other.offset_, model.offset_, atol=1e-8)
        assert np.mean(model.predict(X, task=TASK) < 0) < 0.15


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_the_rate_holds_with_few_rows_a_task():
    """Views with and without landmarks, which take other ways to one promise."""
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
            alone = IndependentOCKSR(kernel="laplacian")
            model = CombinedOneClass(
                [("joint", joint), ("alone", alone)], alarm_rate=0.1
            )
            alarm = model.fit(rows, task=task).predict(fresh, task=claimed) < 0
            rates.append(alarm.mean())
    rates = np.reshape(rates, (12, 2))
    error = rates.std(axis=0, ddof=1) / np.sqrt(12)
    assert np.all(rates.mean(axis=0) <= 0.1 + 3.0 * error)


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_alarms_of_small_tasks_hold_beside_one_with_nearly_all_rows():
    rng = np.random.default_rng(0)
    codes = np.concatenate(
        [np.zeros(100_000, int), np.arange(1, 61), np.repeat(np.arange(61, 81), 30)]
    )
    centres = 4.0 * rng.normal(size=(81, 5))
    claim = np.repeat(np.arange(81), 60)
    rows, fresh = (
        centres[own] + rng.normal(size=(len(own), 5)) for own in (codes, claim)
    )
    few = JointOCKSR(landmarks=100, random_state=0).fit(rows, task=codes)
    alarm = few.predict(fresh, task=claim) < 0
    assert alarm[claim > 60].mean() < 0.08  # 1 of 31 on average over fits
    single = (claim > 0) & (claim < 61)
    assert not alarm[single].any()  # a single row sets no threshold
    far = few.predict(fresh[~single] + 30.0, task=claim[~single])
    assert np.mean(far < 0) > 0.95
