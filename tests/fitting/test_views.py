"""Views by passes, and one alarm: as in memory, wherever the rows are."""

from copy import deepcopy
from importlib import import_module

import numpy as np
import pytest

import manyone
from manyone import CombinedOneClass, IndependentOCKSR, JointOCKSR, NonlinearOCKSR
from manyone.data.hashing import row_hashes
from manyone.models.guards import unguarded

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


def wherever(where, rows, task):
    """Rows for `fit`: in memory, or yielded by a function."""
    return (
        {"X": rows, "task": task}
        if where == "memory"
        else {"X": lambda: [(rows, task)]}
    )


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("where", ["memory", "blocks"])
def test_rows_come_to_every_view_and_then_to_the_alarm(where, mapped, tmp_path):
    """Views as if each had enrolled alone; one scale for rows that were there and for new ones."""
    first = CODES != 3
    last = CODES == 3
    model = views().fit(**wherever(where, X[first], TASK[first]))
    assert model.training_.X.shape[0] == 0
    alone = {name: deepcopy(view) for name, view in model.views_.items()}
    old = deepcopy(alone)
    before = model.score_samples(X[first], task=TASK[first])
    manyone.save(model, tmp_path / "m.manyone")
    model = manyone.load(tmp_path / "m.manyone").enroll(X[last], task=TASK[last])
    for name, view in model.views_.items():
        alone[name].enroll(X[last], task=TASK[last])
        np.testing.assert_array_equal(
            view.score_tasks(X[NEW]), alone[name].score_tasks(X[NEW])
        )
    drawn = np.isin(row_hashes(X), alone["strangers"].solution_.state.plan.drawn)
    counts = np.bincount(CODES[~drawn])
    np.testing.assert_array_equal(model.calibration_.counts, counts)
    # Each task alone has not changed, the joint view a little, but for rows that were far from
    # everything and are near the new task.
    after = model.score_samples(X[first], task=TASK[first])
    near = [
        view.solution_.scorer.penalty(X[first]) == 0.0
        for view in (*alone.values(), *old.values())
    ]
    near = np.all(near, axis=0)
    assert near.mean() > 0.98
    assert np.corrcoef(before[near], after[near])[0, 1] > 0.85
    rng = np.random.default_rng(7)
    for code in (2, 3):
        fresh = X[code == CODES].mean(axis=0) + rng.normal(size=(3000, 4))
        assert np.mean(
            model.predict(fresh, task=[f"pump {code}"] * 3000) < 0
        ) == pytest.approx(0.1, abs=0.04)
        assert (
            np.mean(model.predict(fresh + 5.0, task=[f"pump {code}"] * 3000) < 0) > 0.9
        )
    with pytest.raises(ValueError, match="7 tasks: say with task="):
        model.enroll(X[:3])
    with pytest.raises(ValueError, match="2 features"):
        model.enroll(X[:3, :2], task=TASK[:3])


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_forgetting_takes_the_rows_that_stay(mapped):
    stay = CODES != 3
    model = views().fit(mapped, task=TASK).recalibrate(0.2)
    with pytest.raises(
        ValueError, match=r"X=its rows\), or others=what `fit` is to be given"
    ):
        model.forget("pump 3")
    with pytest.raises(ValueError, match=r"shaped the landmarks.* others="):
        model.forget("pump 3", X=X[~stay])
    with pytest.raises(ValueError, match="'pump 9'"):
        model.forget("pump 9")
    assert len(model.tasks_) == 7 == len(model.views_["faults"].tasks_)
    model.forget("pump 3", others={"X": lambda: [(X[stay], TASK[stay])]})
    known = views().set_params(alarm_rate=0.2).fit(lambda: [(X[stay], TASK[stay])])
    np.testing.assert_array_equal(model.score_tasks(X[NEW]), known.score_tasks(X[NEW]))
    np.testing.assert_array_equal(model.offset_, known.offset_)


@pytest.mark.filterwarnings(
    "ignore::manyone.CalibrationWarning", "ignore:.*landmarks were rows"
)
@pytest.mark.parametrize("where", ["memory", "blocks"])
def test_rows_of_a_task_are_taken_from_every_view(where, tmp_path):
    """Views as if each had forgotten alone, and a task that comes and goes leaves no trace."""
    some = np.arange(900)  # too few to move landmarks
    rows = X[some]
    task = TASK[some]
    gone = TASK[some] == "pump 3"
    model = views().fit(**wherever(where, rows, task))
    alone = {name: deepcopy(view) for name, view in model.views_.items()}
    manyone.save(model, tmp_path / "m.manyone")
    model = manyone.load(tmp_path / "m.manyone").forget("pump 3", X=rows[gone])
    for name, view in model.views_.items():
        alone[name].forget("pump 3", X=rows[gone])
        np.testing.assert_array_equal(
            view.score_tasks(rows), alone[name].score_tasks(rows)
        )
    counts = np.unique(task[~gone], return_counts=True)[1]
    np.testing.assert_array_equal(model.calibration_.counts, counts)
    known = views().fit(rows[~gone], task=task[~gone])
    fresh = X[900:][CODES[900:] != 3]
    claim = TASK[900:][CODES[900:] != 3]
    rate = [np.mean(one.predict(fresh, task=claim) < 0) for one in (model, known)]
    assert rate[0] == pytest.approx(rate[1], abs=0.03) == pytest.approx(0.1, abs=0.05)
    before = [
        unguarded(view.solution_.scorer).all(rows) for view in model.views_.values()
    ]
    scores = model.calibration_.scores
    model.enroll(rows[gone], task=task[gone]).forget("pump 3", X=rows[gone])
    for view, known in zip(model.views_.values(), before, strict=True):
        np.testing.assert_allclose(
            unguarded(view.solution_.scorer).all(rows), known, atol=1e-8
        )
    np.testing.assert_array_equal(model.calibration_.scores, scores)


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_views_with_landmarks_beside_exact_ones_are_fitted_again():
    mixed = [
        ("strangers", JointOCKSR(landmarks=60, random_state=0)),
        ("faults", IndependentOCKSR()),
    ]
    model = CombinedOneClass(mixed).fit(X[:600], task=TASK[:600])
    before = model.score_tasks(X)
    with pytest.raises(ValueError, match="'strangers', must be fitted again"):
        model.enroll(X[:5], task=["new"] * 5)
    np.testing.assert_array_equal(model.score_tasks(X), before)


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
def test_what_auto_and_tune_choose_can_grow():
    """With landmarks, of rows in memory."""
    rows = X[:600]
    task = TASK[:600]
    old = CODES[:600] != 3
    model = manyone.auto(rows[old], task=task[old], anomalies="strangers", landmarks=30)
    grid = {"alpha": [0.1, 1.0]}
    tuned = manyone.tune(JointOCKSR(landmarks=30), rows[old], task=task[old], grid=grid)
    for one in (model, tuned):
        one.enroll(rows[~old], task=task[~old])
        assert "pump 3" in one.tasks_
        assert np.mean(one.predict(rows[~old], task=task[~old]) < 0) < 0.15


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
