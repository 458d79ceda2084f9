"""Rows that come and go: the functions of a fit to what is left, in the same landmarks."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import manyone
from manyone import CalibrationWarning, IndependentOCKSR, JointOCKSR
from manyone.data.hashing import row_hashes
from manyone.data.sweeps import Swept, local_sweep
from manyone.engines import Block
from manyone.estimators.task_ridges import independent_solution
from manyone.fitting.independent import TaskPlans, independent_passes
from manyone.fitting.joint import joint_passes
from manyone.models.guards import Nearness, guard_in, unguarded

RNG = np.random.default_rng(8)
TASK = np.array(["a", "b", "c", "d"])[RNG.integers(0, 4, 400)]
OTHERS = TASK != "b"


def data(d):
    centres = {label: RNG.normal(size=d) for label in "abcd"}
    return RNG.normal(size=(400, d)) + np.array([centres[label] for label in TASK])


def passed_again(plan, block, nearness=None):
    """Solution and tails of a block of rows on the landmarks of a plan."""
    source = Swept(local_sweep([block]), plan.tasks)
    if isinstance(plan, TaskPlans):
        return independent_passes(plan, source, 0.1, independent_solution, nearness)
    return joint_passes(plan, source, 0.1, nearness)


def refitted(model, block):
    """Solution and tails of a block of rows on the landmarks of a model, with its guard."""
    nearness = guard_in(model.solution_.scorer, Nearness)
    return passed_again(model.solution_.state.plan, block, nearness)


def model():
    return JointOCKSR(landmarks=30, random_state=0, alarm_rate=0.1)


@pytest.mark.parametrize("d", [2, 30])  # ill and well conditioned landmarks
def test_enrolled_rows_are_added(d):
    X = data(d)
    grown = (
        model().fit(X[OTHERS], task=TASK[OTHERS]).enroll(X[~OTHERS], task=TASK[~OTHERS])
    )
    assert grown.tasks_.tolist() == list("abcd")
    again, tails = refitted(grown, Block(X, TASK))
    np.testing.assert_allclose(
        unguarded(again.scorer).all(X),
        unguarded(grown.solution_.scorer).all(X),
        atol=1e-8,
    )
    own = tails.calibration(4, "leave-one-out")
    b = slice(own.starts[1], own.starts[2])
    np.testing.assert_allclose(grown.calibration_.scores[b], own.scores[b], atol=1e-8)
    assert np.mean(grown.predict(X[~OTHERS], task=TASK[~OTHERS]) < 0) < 0.2
    more = model().fit(X[::2], task=TASK[::2]).enroll(X[1::2], task=TASK[1::2])
    np.testing.assert_array_equal(
        more.calibration_.counts, np.unique(TASK, return_counts=True)[1]
    )


@pytest.mark.parametrize("d", [2, 30])
def test_forgotten_rows_are_subtracted(d, tmp_path):
    X = data(d)
    full = model().fit(X, task=TASK)
    manyone.save(full, tmp_path / "full.manyone")
    full = manyone.load(tmp_path / "full.manyone")
    left = full.forget("b", X=X[~OTHERS])
    assert left.tasks_.tolist() == list("acd")
    plan = left.solution_.state.plan
    gone = {row.tobytes() for row in X[~OTHERS]}
    assert not any(row.tobytes() in gone for row in plan.points.X)
    again, _ = refitted(left, Block(X[OTHERS], TASK[OTHERS]))
    np.testing.assert_allclose(
        unguarded(again.scorer).all(X),
        unguarded(left.solution_.scorer).all(X),
        atol=1e-6,
    )
    assert np.mean(left.predict(X[OTHERS], task=TASK[OTHERS]) < 0) < 0.2


def test_what_cannot_be_forgotten():
    X = data(3)
    fitted = model().fit(X, task=TASK)
    with pytest.raises(ValueError, match="X=its rows"):
        fitted.forget("b")
    with pytest.raises(ValueError, match="needs all rows of the task"):
        fitted.forget("b", X=X[~OTHERS][:5])


def test_a_word_about_landmarks_that_are_gone():
    X = data(3)
    half = np.where(np.arange(400) < 250, "most", TASK)
    fitted = model().fit(X, task=half)
    gone = np.isin(row_hashes(fitted.X_fit_), row_hashes(X[half == "most"])).sum()
    with pytest.warns(UserWarning, match=f"{gone} of 30 landmarks were rows of 'most'"):
        fitted.forget("most", X=X[half == "most"])
    assert len(fitted.X_fit_) == 30 - gone


@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_others_take_the_place_of_landmarks_that_go(method):
    """With the rows that stay: the model of a fit without the task, wherever these rows are."""
    X = data(3)
    stay = {"X": X[OTHERS], "task": TASK[OTHERS]}
    fitted = method(landmarks=30, random_state=0).fit(X, task=TASK).recalibrate(0.1)
    fitted.forget("b", others={"X": lambda: [(stay["X"][:90], stay["task"][:90]),
                                             (stay["X"][90:], stay["task"][90:])]})  # fmt: skip
    known = method(landmarks=30, random_state=0, alarm_rate=0.1).fit(**stay)
    np.testing.assert_allclose(fitted.score_tasks(X), known.score_tasks(X), atol=1e-8)
    np.testing.assert_allclose(fitted.offset_, known.offset_, atol=1e-8)
    assert len(fitted.X_fit_) == len(known.X_fit_)
    with pytest.raises(
        ValueError, match="that stay, 'a', 'c'; they are of 'a', 'c', 'd'"
    ):
        fitted.forget("d", others=stay)
    assert fitted.tasks_.tolist() == list("acd")


# --------------------------------------------------------------------------------- each task alone

SIZES = {"big": 300, "mid": 90, "small": 25, "one": 1}
LABEL = np.repeat(list(SIZES), list(SIZES.values())).astype(object)
N = len(LABEL)
ROWS = (
    RNG.normal(size=(N, 3))
    + 2.0 * RNG.normal(size=(4, 3))[np.unique(LABEL, return_inverse=True)[1]]
)
ODD = (np.arange(N) % 29 == 0) & (np.arange(N) < 400)
LABEL[[29, 58, 87]] = None  # outliers of every task
COUNT = RNG.integers(1, 3, N).astype(float)
NAME = LABEL.astype(str)


def alone(**options):
    return IndependentOCKSR(landmarks=40, random_state=0, alarm_rate=0.1, **options)


def given(rows):
    return {"task": LABEL[rows], "outlier": ODD[rows], "sample_weight": COUNT[rows]}


def few(rng):
    """Rows to begin with: of one task none, of another fewer than landmarks."""
    first = (rng.uniform(size=N) < 0.6) & (NAME != "small")
    first[np.flatnonzero(NAME == "mid")[20:]] = False
    return first | (NAME == "one")


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_each_task_are_added_to_it_alone(seed, tmp_path):
    first = few(np.random.default_rng(seed))
    model = alone().fit(ROWS[first], **given(first))
    manyone.save(model, tmp_path / "m.manyone")
    model = manyone.load(tmp_path / "m.manyone").enroll(ROWS[~first], **given(~first))
    whole = alone(gamma=model.gamma_).fit(ROWS, **given(slice(None)))
    found = unguarded(model.solution_.scorer).all(ROWS)
    known = unguarded(whole.solution_.scorer).all(ROWS)
    # New and small tasks, and one that has more rows than landmarks only now: a fit to all rows.
    big, *others = (
        model.tasks_.tolist().index(name) for name in ("big", "mid", "small", "one")
    )
    np.testing.assert_allclose(found[:, others], known[:, others], atol=1e-8)
    # A large task: the fit to all rows with the landmarks that it had.
    again, tails = refitted(model, Block(ROWS, LABEL, ODD, COUNT))
    np.testing.assert_allclose(found, unguarded(again.scorer).all(ROWS), atol=1e-8)
    own = tails.calibration(4, "leave-one-out")
    np.testing.assert_array_equal(model.calibration_.counts, own.counts)
    for code in others:
        part = slice(own.starts[code], own.starts[code + 1])
        np.testing.assert_allclose(
            model.calibration_.scores[part], own.scores[part], atol=1e-8
        )
    part = slice(own.starts[big], own.starts[big + 1])
    gap = np.abs(np.sort(model.calibration_.scores[part]) - own.scores[part])
    assert np.median(gap) < 0.05 * np.ptp(own.scores[part])


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("name", ["big", "mid", "small"])
def test_a_task_alone_goes_with_all_that_it_was(name, tmp_path):
    gone = name == NAME
    stay = name != NAME
    model = alone().fit(ROWS, **given(slice(None)))
    left = manyone_again(model, tmp_path).forget(name)
    known = alone(gamma=model.gamma_).fit(ROWS[stay], **given(stay))
    assert left.tasks_.tolist() == known.tasks_.tolist()
    found = unguarded(left.solution_.scorer).all(ROWS)
    np.testing.assert_allclose(
        found, unguarded(known.solution_.scorer).all(ROWS), atol=1e-8
    )
    np.testing.assert_array_equal(left.calibration_.counts, known.calibration_.counts)
    assert np.mean(left.predict(ROWS[stay & ~ODD], task=NAME[stay & ~ODD]) < 0) < 0.2
    manyone.save(left, tmp_path / "left.manyone")
    texts = [
        path.read_bytes()
        for path in (tmp_path / "m.manyone", tmp_path / "left.manyone")
    ]
    rows = [row.tobytes() for row in ROWS[gone & ~np.isin(NAME, ["None"])]]
    hits = [sum(row in text for row in rows) for text in texts]
    assert hits[0] >= 25 and hits[1] == 0
    # What it had is what it gets when it comes back.
    left.enroll(ROWS[gone], **given(gone))
    back = unguarded(left.solution_.scorer).all(ROWS)
    np.testing.assert_allclose(
        back, unguarded(model.solution_.scorer).all(ROWS), atol=1e-8
    )


def manyone_again(model, folder):
    manyone.save(model, folder / "m.manyone")
    return manyone.load(folder / "m.manyone")


def test_a_metric_of_all_rows_takes_the_rows_that_stay(monkeypatch):
    monkeypatch.setattr("manyone.fitting.plan._FEWEST", 100)
    rows = data(3)
    task = TASK
    white = IndependentOCKSR(landmarks=20, random_state=0, metric="whitened")
    fitted = clone(white).fit(rows, task=task)
    with pytest.raises(ValueError, match=r"'b' may have shaped the metric.* others="):
        fitted.forget("b")
    fitted.forget("b", others={"X": rows[OTHERS], "task": task[OTHERS]})
    known = white.fit(rows[OTHERS], task=task[OTHERS])
    np.testing.assert_array_equal(fitted.score_tasks(rows), known.score_tasks(rows))
    np.testing.assert_array_equal(fitted.offset_, known.offset_)


@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
@pytest.mark.parametrize("own", [np.asarray, sparse.csr_array])
def test_rows_come_and_go_dense_or_sparse(method, own):
    X = data(4)
    X[np.abs(X) < 0.5] = 0.0
    found = []
    gone = X[TASK == "c"]
    for held in (np.asarray, sparse.csr_array):
        one = method(landmarks=30, random_state=0, alarm_rate=0.1)
        one.fit(own(X[OTHERS]), task=TASK[OTHERS]).enroll(
            held(X[~OTHERS]), task=TASK[~OTHERS]
        )
        one.forget("c", X=held(gone))
        left = one.X_fit_.toarray() if sparse.issparse(one.X_fit_) else one.X_fit_
        assert not {row.tobytes() for row in left} & {row.tobytes() for row in gone}
        found.append(one.score_tasks(X))
    np.testing.assert_array_equal(*found)


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_few_rows_in_a_metric_grow_in_it(method):
    """The functions of a fit in the same metric and landmarks; only new rows are judged in it."""
    X = data(5)
    white = method(landmarks=30, random_state=0, metric="whitened", alarm_rate=0.1)
    grown = white.fit(X[OTHERS], task=TASK[OTHERS])
    assert grown.calibration_.source == "folds"
    before = grown.calibration_
    grown.enroll(X[~OTHERS], task=TASK[~OTHERS])
    plan = grown.solution_.state.plan
    again, tails = refitted(grown, Block(X, TASK))
    found = unguarded(grown.solution_.scorer).scorer.all(plan.metric.apply(X))
    np.testing.assert_allclose(
        found, unguarded(again.scorer).all(plan.metric.apply(X)), atol=1e-8
    )
    own = tails.calibration(4, "leave-one-out")
    found = grown.calibration_
    np.testing.assert_allclose(
        found.scores[slice(*found.starts[1:3])], own.scores, atol=1e-8
    )
    ratio = found.scores[: found.starts[1]] / before.scores[: before.starts[1]]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)


@pytest.mark.parametrize("metric", ["plain", "whitened"])
def test_alarms_of_the_tasks_that_were_there_hold_beside_new_ones(metric):
    rates = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        centres = 2.0 * rng.normal(size=(8, 10))
        codes = np.repeat(np.arange(8), 30)
        mix = rng.normal(size=(10, 10)) / 3.0
        old = codes < 6
        claim = np.repeat(np.arange(8), 200)
        X, fresh = (
            centres[own] + rng.normal(size=(len(own), 10)) @ mix
            for own in (codes, claim)
        )
        few = JointOCKSR(landmarks=40, random_state=0, alarm_rate=0.1, metric=metric)
        few.fit(X[old], task=codes[old]).enroll(X[~old], task=codes[~old])
        alarm = few.predict(fresh, task=claim) < 0
        rates.append([alarm[claim < 6].mean(), alarm[claim >= 6].mean()])
    assert np.all(np.mean(rates, axis=0) < 0.125)


# ------------------------------------------------------------------------- rows that leave together

DAY = np.arange(400) // 8  # eight rows, of several tasks, share a day


def without_groups(plan, X, task, day, code):
    """Scores of the rows of a task by refits, on the same landmarks, without their day."""
    scores = np.full(len(X), np.nan)
    mine = task == plan.tasks[code]
    for one in np.unique(day[mine]):
        held = mine & (day == one)
        part, _ = passed_again(plan, Block(X[~held], task[~held]))
        scores[held] = unguarded(part.scorer).own(X[held], np.full(held.sum(), code))
    return np.sort(scores[mine])


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_new_rows_leave_with_their_group(method, tmp_path):
    X = data(3)
    one = method(landmarks=30, random_state=0, kernel="poly", degree=2, gamma="scale")
    one.fit(X[OTHERS], task=TASK[OTHERS])
    one = manyone_again(one, tmp_path)
    one.enroll(X[~OTHERS], task=TASK[~OTHERS], groups=DAY[~OTHERS])
    plan = one.solution_.state.plan
    again, _ = refitted(one, Block(X, TASK))
    np.testing.assert_allclose(
        one.score_tasks(X), unguarded(again.scorer).all(X), atol=1e-8
    )
    found = one.calibration_
    expected = without_groups(plan, X, TASK, DAY, 1)
    np.testing.assert_allclose(
        found.scores[slice(*found.starts[1:3])], expected, atol=1e-8
    )
    assert len(one.training_.codes) == 0


@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_groups_of_landmarks_are_left_out_exactly(method):
    """What a fit to rows in memory says of each task is what refits without each group say."""
    X = data(3)
    one = method(
        landmarks=30,
        random_state=0,
        kernel="poly",
        degree=2,
        gamma="scale",
        alarm_rate=0.1,
    )
    one.fit(X, task=TASK, groups=DAY)
    assert one.calibration_.source == "leave-group-out"
    plan = one.solution_.state.plan
    found = one.calibration_
    for code in range(4):
        expected = without_groups(plan, X, TASK, DAY, code)
        scores = found.scores[slice(*found.starts[code : code + 2])]
        np.testing.assert_allclose(scores, expected, atol=1e-7)


def adaptive(**options):
    return alone(metric="adaptive", robust=False, **options)


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("method", ["enroll", "forget"])
def test_groups_and_adaptive_metrics_with_landmarks_want_a_new_fit(method):
    X = data(3)
    grouped = model().fit(X, task=TASK, groups=DAY)
    by_task = adaptive().fit(X, task=TASK)
    for fitted, words in ((grouped, "groups="), (by_task, "adaptive")):
        before = fitted.score_tasks(X)
        changes = {
            "enroll": lambda fitted=fitted: fitted.enroll(X[:5], task=["new"] * 5),
            "forget": lambda fitted=fitted: fitted.forget(fitted.tasks_[0]),
        }
        with pytest.raises(ValueError, match=f"{words}.* fit it again"):
            changes[method]()
        np.testing.assert_array_equal(fitted.score_tasks(X), before)


def test_sums_without_left_out_scores_grow_without_thresholds():
    X = data(3)
    model = JointOCKSR(landmarks=30, random_state=0, alarm_rate=None).fit(X, task=TASK)
    judged = JointOCKSR(landmarks=30, random_state=0).fit(X, task=TASK)
    model.calibrate(X + 0.01, task=TASK)
    more = X[:20] + 4.0
    with pytest.warns(CalibrationWarning, match="thresholds now are gone"):
        model.enroll(more, task=["new"] * 20)
    with pytest.raises(NotFittedError, match="has no thresholds"):
        model.predict(X, task=TASK)
    judged.enroll(more, task=["new"] * 20)
    scores = model.score_tasks(X)
    np.testing.assert_allclose(scores, judged.score_tasks(X), atol=1e-9)
    np.testing.assert_allclose(model.structure_, judged.structure_, atol=1e-9)
