"""Rows that come and go: the functions of a fit to what is left, in the same landmarks."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import manyone
from manyone import IndependentOCKSR, JointOCKSR, TimeBlocks
from manyone.engines import Block
from manyone.engines.fitting import local_sweep
from manyone.engines.independent import TaskPlans, independent_passes
from manyone.engines.joint import joint_passes
from manyone.estimators.task_ridges import independent_solution
from manyone.hashing import row_hashes
from manyone.models.guards import unguarded
from manyone.models.scorers import behind_metric

RNG = np.random.default_rng(8)
TASK = np.array(["a", "b", "c", "d"])[RNG.integers(0, 4, 400)]
OTHERS = TASK != "b"


def data(d):
    centres = {label: RNG.normal(size=d) for label in "abcd"}
    return RNG.normal(size=(400, d)) + np.array([centres[label] for label in TASK])


def model():
    return JointOCKSR(landmarks=30, random_state=0, alarm_rate=0.1)


@pytest.mark.parametrize("d", [2, 30])  # ill and well conditioned landmarks
def test_enrolled_rows_are_added(d):
    X = data(d)
    grown = (
        model().fit(X[OTHERS], task=TASK[OTHERS]).enroll(X[~OTHERS], task=TASK[~OTHERS])
    )
    assert grown.tasks_.tolist() == list("abcd")
    plan = grown.solution_.learned["sums"].plan
    again, tails = joint_passes(plan, local_sweep([Block(X, TASK)]), 0.1)
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
    plan = left.solution_.learned["sums"].plan
    gone = {row.tobytes() for row in X[~OTHERS]}
    assert not any(row.tobytes() in gone for row in plan.points.X)
    again, _ = joint_passes(plan, local_sweep([Block(X[OTHERS], TASK[OTHERS])]), 0.1)
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
    plan = model.solution_.learned["sums"].plan
    block = Block(ROWS, LABEL, ODD, COUNT)
    again, tails = independent_passes(
        plan, local_sweep([block]), 0.1, independent_solution
    )
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
    gone, stay = name == NAME, name != NAME
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
    monkeypatch.setattr("manyone.engines.plan._FEWEST", 100)
    rows, task = data(3), TASK
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
    found, gone = [], X[TASK == "c"]
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
    plan, block = grown.solution_.learned["sums"].plan, Block(X, TASK)
    if method is JointOCKSR:
        again, tails = joint_passes(plan, local_sweep([block]), 0.1)
    else:
        again, tails = independent_passes(
            plan, local_sweep([block]), 0.1, independent_solution
        )
    found = unguarded(grown.solution_.scorer).scorer.all(plan.metric.apply(X))
    np.testing.assert_allclose(
        found, unguarded(again.scorer).all(plan.metric.apply(X)), atol=1e-8
    )
    own, found = tails.calibration(4, "leave-one-out"), grown.calibration_
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
        centres, codes = 2.0 * rng.normal(size=(8, 10)), np.repeat(np.arange(8), 30)
        mix, old, claim = (
            rng.normal(size=(10, 10)) / 3.0,
            codes < 6,
            np.repeat(np.arange(8), 200),
        )
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


def without_groups(plan, X, task, day, code, alpha=0.1):
    """Scores of the rows of a task by refits, on the same landmarks, without their day."""
    scores, mine = np.full(len(X), np.nan), task == plan.tasks[code]
    for one in np.unique(day[mine]):
        held = mine & (day == one)
        blocks = local_sweep([Block(X[~held], task[~held])])
        if isinstance(plan, TaskPlans):
            part, _ = independent_passes(plan, blocks, alpha, independent_solution)
        else:
            part, _ = joint_passes(plan, blocks, alpha)
        scores[held] = unguarded(part.scorer).own(X[held], np.full(held.sum(), code))
    return np.sort(scores[mine])


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
@pytest.mark.parametrize("began", [True, False])  # with groups, or without any
def test_new_rows_leave_with_their_group(method, began, tmp_path):
    X, known = data(3), {"groups": DAY[OTHERS]} if began else {}
    one = method(landmarks=30, random_state=0, kernel="poly", degree=2, gamma="scale")
    one.fit(X[OTHERS], task=TASK[OTHERS], **known)
    one = manyone_again(one, tmp_path)
    one.enroll(X[~OTHERS], task=TASK[~OTHERS], groups=DAY[~OTHERS])
    plan, block = one.solution_.learned["sums"].plan, Block(X, TASK)
    if method is JointOCKSR:
        again, _ = joint_passes(plan, local_sweep([block]), 0.1)
    else:
        again, _ = independent_passes(
            plan, local_sweep([block]), 0.1, independent_solution
        )
    np.testing.assert_allclose(
        one.score_tasks(X), unguarded(again.scorer).all(X), atol=1e-8
    )
    found, expected = one.calibration_, without_groups(plan, X, TASK, DAY, 1)
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
    plan, found = one.solution_.learned["sums"].plan, one.calibration_
    for code in range(4):
        expected = without_groups(plan, X, TASK, DAY, code)
        scores = found.scores[slice(*found.starts[code : code + 2])]
        np.testing.assert_allclose(scores, expected, atol=1e-7)


@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_a_task_with_groups_goes(method, tmp_path):
    X = data(30)
    full = manyone_again(
        method(landmarks=30, random_state=0).fit(X, task=TASK, groups=DAY), tmp_path
    )
    left = full.forget("b", X=X[~OTHERS])
    plan, block = left.solution_.learned["sums"].plan, Block(X[OTHERS], TASK[OTHERS])
    if method is JointOCKSR:
        again, _ = joint_passes(plan, local_sweep([block]), 0.1)
    else:
        again, _ = independent_passes(
            plan, local_sweep([block]), 0.1, independent_solution
        )
    np.testing.assert_allclose(
        unguarded(left.solution_.scorer).all(X),
        unguarded(again.scorer).all(X),
        atol=1e-6,
    )
    rates = np.mean(left.predict(X[OTHERS], task=TASK[OTHERS]) < 0)
    assert left.tasks_.tolist() == list("acd") and rates < 0.1
    manyone.save(left, tmp_path / "left.manyone")
    content = (tmp_path / "left.manyone").read_bytes()
    assert not any(row.tobytes() in content for row in X[~OTHERS])


def test_new_blocks_of_time_are_judged_by_earlier_ones():
    X, code, new = data(3), 1, np.arange(400) >= 300
    one = JointOCKSR(
        landmarks=30, random_state=0, kernel="poly", degree=2, gamma="scale"
    )
    one.fit(X[~new], task=TASK[~new], groups=TimeBlocks(np.arange(300)))
    before = one.calibration_
    one.enroll(X[new], task=TASK[new], groups=TimeBlocks(np.arange(100)))
    plan, mine = one.solution_.learned["sums"].plan, np.flatnonzero(new & (TASK == "b"))
    block, expected = np.arange(len(mine)) * 5 // len(mine), []
    for k in range(5):
        kept = np.delete(np.arange(400), mine[block >= k])
        part, _ = joint_passes(plan, local_sweep([Block(X[kept], TASK[kept])]), 0.1)
        held = mine[block == k]
        expected.append(unguarded(part.scorer).own(X[held], np.full(len(held), code)))
    old, found = (
        c.scores[slice(*c.starts[code : code + 2])] for c in (before, one.calibration_)
    )
    np.testing.assert_allclose(
        found, np.sort(np.concatenate([old, *expected])), atol=1e-8
    )


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_what_is_tuned_and_chosen_with_groups_can_change():
    X, old, new = data(4), {"task": TASK[OTHERS]}, {"task": TASK[~OTHERS]}
    old, new = old | {"groups": DAY[OTHERS]}, new | {"groups": DAY[~OTHERS]}
    bare = manyone.tune(
        JointOCKSR(landmarks=30),
        X[OTHERS],
        **old,
        grid={"alpha": [0.1]},
        calibrate=False,
    )
    assert not np.any(bare.enroll(X[~OTHERS], **new).offset_)
    chosen = manyone.auto(X[OTHERS], **old, landmarks=30, alarm_rate=0.1)
    chosen.enroll(X[~OTHERS], **new)
    assert np.mean(chosen.predict(X, task=TASK) < 0) < 0.12
    chosen.forget("a", X=X[TASK == "a"])
    assert chosen.tasks_.tolist() == list("bcd")


def test_a_new_task_of_one_group_borrows_scores():
    X = data(3)
    grown = model().fit(X[OTHERS], task=TASK[OTHERS], groups=DAY[OTHERS])
    with pytest.warns(manyone.CalibrationWarning, match="'b'"):
        grown.enroll(X[~OTHERS], task=TASK[~OTHERS])
    assert grown.calibration_.counts[1] == 0.0
    assert np.mean(grown.predict(X[~OTHERS], task=TASK[~OTHERS]) < 0) < 0.2


# ----------------------------------------------------------------------- a metric for each task


def adaptive(**options):
    return alone(metric="adaptive", robust=False, **options)


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("seed", range(2))
def test_rows_come_to_tasks_with_metrics_of_their_own(seed, tmp_path):
    first = few(np.random.default_rng(seed))
    before = adaptive().fit(ROWS[first], **given(first))
    model = manyone_again(before, tmp_path).enroll(ROWS[~first], **given(~first))
    plan = model.solution_.learned["sums"].plan
    big, mid, one, small = range(4)
    assert model.tasks_.tolist() == ["big", "mid", "one", "small"]
    # The functions are those of a fit in the same metrics and landmarks.
    block = Block(ROWS, LABEL, ODD, COUNT)
    spread = plan_rows(block, plan.tasks)
    again, _ = independent_passes(
        plan, local_sweep([spread]), 0.1, independent_solution
    )
    again = behind_metric(again, plan.metric)
    np.testing.assert_allclose(
        unguarded(model.solution_.scorer).all(ROWS),
        unguarded(again.scorer).all(ROWS),
        atol=1e-8,
    )
    # A task that was large keeps its metric; others are those of their rows, shrunk to what all
    # tasks had in common before.
    old = unguarded(before.solution_.scorer).metric
    np.testing.assert_array_equal(plan.metric.mean[big], old.mean[0])
    for code, name in ((mid, "mid"), (small, "small")):
        mine = (name == NAME) & ~ODD
        expected = own_distances(ROWS[mine], COUNT[mine], old, ROWS[:50])
        Z = plan.metric.apply(ROWS[:50], np.full(50, code))
        np.testing.assert_allclose(np.einsum("ij,ij->i", Z, Z), expected, rtol=1e-6)
    untouched = plan.metric.apply(ROWS[:50], np.full(50, one))
    known = old.apply(ROWS[:50], np.full(50, before.tasks_.tolist().index("one")))
    np.testing.assert_allclose(untouched, known, rtol=1e-9)
    # Faults are found as by a fit to all rows, which learns what is common anew.
    whole = adaptive(gamma=before.gamma_).fit(ROWS, **given(slice(None)))
    normal, claim = ROWS[~ODD] + 0.1, NAME[~ODD]
    for name in ("mid", "small"):
        rows = np.concatenate([normal[claim == name], normal[claim == name] + 2.5])
        wrong, own = np.arange(len(rows)) >= len(rows) // 2, np.full(len(rows), name)
        found, known = (
            roc_auc_score(wrong, -m.score_samples(rows, task=own))
            for m in (model, whole)
        )
        assert found == pytest.approx(known, abs=0.01)


def plan_rows(block, tasks):
    """The rows of a block, outliers of every task as one of each."""
    rows = block.checked()
    codes = np.array(
        [list(tasks).index(one) if one is not None else -1 for one in rows.task]
    )
    known, shared = codes >= 0, np.flatnonzero(codes < 0)
    parts = [np.flatnonzero(known), *([shared] * len(tasks))]
    label = np.concatenate([rows.task[known], np.repeat(tasks, len(shared))])
    take = np.concatenate(parts)
    return Block(rows.X[take], label, rows.outlier[take], rows.weight[take])


def own_distances(rows, weight, old, Z, k_scale=2.0, k_cov=3.0):
    """Squared distances of rows Z in the metric of a task, by its definition."""
    n, mean = weight.sum() - 1.0, np.average(rows, axis=0, weights=weight)
    about = (rows - mean) / old.common
    scale = old.common * np.sqrt((weight @ about**2 + k_scale) / (n + k_scale))
    root = old.pooled.apply(np.eye(len(mean)))
    about = (rows - mean) / scale @ root
    M = (about.T @ (weight[:, None] * about) + k_cov * np.eye(len(mean))) / (n + k_cov)
    z = (Z - mean) / scale @ root
    return np.einsum("ij,ij->i", z @ np.linalg.inv(M), z)


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("name", ["big", "small"])
def test_a_task_goes_with_its_metric(name, tmp_path):
    """All others stay what they were, to the last bit; what tasks have in common stays, too."""
    before = adaptive().fit(ROWS, **given(slice(None)))
    left = manyone_again(before, tmp_path)
    with pytest.warns(UserWarning, match="stays: forget.* others="):
        left.forget(name)
    kept = np.flatnonzero(before.tasks_ != name)
    found = unguarded(left.solution_.scorer).all(ROWS)
    known = unguarded(before.solution_.scorer).all(ROWS)
    np.testing.assert_allclose(found, known[:, kept], atol=1e-10)
    for new, old in enumerate(kept):
        one, other = (m.calibration_.scores[slice(*m.calibration_.starts[c : c + 2])]
                      for m, c in ((left, new), (before, old)))  # fmt: skip
        np.testing.assert_allclose(one, other, atol=1e-10)
    manyone.save(left, tmp_path / "left.manyone")
    content = (tmp_path / "left.manyone").read_bytes()
    assert not any(row.tobytes() in content for row in ROWS[name == NAME])


def fleet(seed, codes, d=6):
    """Rows of tasks with scales and relations of their own, and clumps of rows that are alike."""
    rng = np.random.default_rng(seed)
    centres, scales = (
        2.0 * rng.normal(size=(8, d)),
        np.exp(0.5 * rng.normal(size=(8, d))),
    )
    mix = rng.normal(size=(d, d)) / 2.0

    def draw(own, clump):
        noise = rng.normal(size=(len(own), d))
        if clump:
            noise = (
                0.8 * np.repeat(noise[::clump], clump, axis=0)[: len(own)] + 0.6 * noise
            )
        return centres[own] + scales[own] * (noise @ mix)

    return draw


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize(
    "kind", ["groups", "groups alone", "adaptive", "adaptive groups", "both"]
)
def test_alarms_hold_where_rows_come_to_groups_and_metrics(kind):
    rates = []
    for seed in range(6):
        codes, claim = np.repeat(np.arange(8), 60), np.repeat(np.arange(8), 240)
        draw, clump = fleet(seed, codes), 0 if kind == "adaptive" else 4
        X, fresh = draw(codes, clump), draw(claim, clump)
        options = {"landmarks": 40, "random_state": 0, "alarm_rate": 0.1}
        own = IndependentOCKSR(metric="adaptive", **options)
        joint = JointOCKSR(**options)
        both = manyone.CombinedOneClass([("one", joint), ("two", own)], alarm_rate=0.1)
        alike = {
            "groups": joint,
            "groups alone": IndependentOCKSR(**options),
            "both": both,
        }
        few = clone(alike.get(kind, own))
        groups = np.arange(len(codes)) // 4
        first = (
            (codes < 6)
            & (np.arange(len(codes)) % 60 < 48)
            & ((codes > 0) | (groups % 15 < 4))
        )

        def told(rows, groups=groups, codes=codes, clump=clump):
            return {"task": codes[rows], **({"groups": groups[rows]} if clump else {})}

        few.fit(X[first], **told(first)).enroll(X[~first], **told(~first))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            few.forget(5, X=X[codes == 5])
        some = claim != 5
        alarm = few.predict(fresh[some], task=claim[some]) < 0
        rates.append([alarm[claim[some] < 6].mean(), alarm[claim[some] >= 6].mean()])
    assert np.all(np.mean(rates, axis=0) < 0.125), np.mean(rates, axis=0)
