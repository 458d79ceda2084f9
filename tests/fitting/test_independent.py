"""Each task alone: large tasks on landmarks of their own, the others exactly."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import manyone
from manyone import IndependentOCKSR, JointOCKSR, TimeBlocks
from manyone.data.rows import training_rows
from manyone.engines import Block, fit, local_sweep
from manyone.models.guards import LeftOutGuard, Nearness, guard_in, unguarded

RNG = np.random.default_rng(4)
SIZES = {"big": 300, "large": 120, "small": 25, "b": 1, "a": 1}
TASK = np.repeat(list(SIZES), list(SIZES.values())).astype(object)
N = len(TASK)
X = (
    RNG.normal(size=(N, 3))
    + 2.0 * RNG.normal(size=(5, 3))[np.unique(TASK, return_inverse=True)[1]]
)
X[5] = X[6]
OUTLIER = (np.arange(N) % 29 == 0) & (np.arange(N) < 440)
TASK[[29, 58, 87]] = None  # outliers of every task
WEIGHT = RNG.integers(1, 3, N).astype(float)
GIVEN = {"task": TASK, "outlier": OUTLIER, "sample_weight": WEIGHT}
CLAIM = np.where(OUTLIER, "big", TASK)


def cut(places):
    order = np.random.default_rng(len(places)).permutation(N)
    parts = np.split(order, sorted(places))
    return [Block(X[p], TASK[p], OUTLIER[p], WEIGHT[p]) for p in parts if len(p)]


def assert_same(one, other, tol):
    np.testing.assert_array_equal(one.tasks_, other.tasks_)
    np.testing.assert_allclose(one.score_tasks(X), other.score_tasks(X), atol=tol)
    np.testing.assert_allclose(one.offset_, other.offset_, atol=tol)
    np.testing.assert_allclose(
        one.pvalues(X, task=CLAIM), other.pvalues(X, task=CLAIM), atol=tol
    )


def test_tasks_without_more_rows_than_landmarks_are_exact():
    exact = IndependentOCKSR().fit(X, **GIVEN)
    model = IndependentOCKSR(landmarks=N, random_state=0)
    assert_same(clone(model).fit(X, **GIVEN), exact, 1e-8)
    assert_same(fit(model, local_sweep(cut([100, 300]))), exact, 1e-8)


@settings(max_examples=15, deadline=None)
@given(places=st.lists(st.integers(0, N), max_size=12), m=st.sampled_from([4, 40, 150]))
def test_blocks_do_not_matter(places, m):
    whole = IndependentOCKSR(landmarks=m, random_state=1).fit(X, **GIVEN)
    blocks = fit(
        IndependentOCKSR(landmarks=m, random_state=1), local_sweep(cut(places))
    )
    assert_same(whole, blocks, 1e-8)


def test_every_task_is_its_own_fit():
    """Small tasks as in the exact model; a large one as a joint model of that task alone."""
    model = IndependentOCKSR(gamma=0.2, landmarks=40, random_state=0).fit(X, **GIVEN)
    exact = IndependentOCKSR(gamma=0.2).fit(X, **GIVEN)
    scores = unguarded(model.solution_.scorer).all(X)
    known = unguarded(exact.solution_.scorer).all(X)
    codes = [list(model.tasks_).index(name) for name in ("small", "a", "b")]
    np.testing.assert_allclose(scores[:, codes], known[:, codes], atol=1e-10)
    own = np.isin(TASK.astype(str), ["big", "None"])
    alone = JointOCKSR(gamma=0.2, landmarks=40, random_state=0)
    part = training_rows(alone, X[own], ["big"] * own.sum(), OUTLIER[own], WEIGHT[own])[
        0
    ]
    found = alone._learn(part, left_out=False).scorer.all(X)[:, 0]
    code = list(model.tasks_).index("big")
    np.testing.assert_allclose(scores[:, code], found, atol=1e-8)


def test_wide_kernels_need_few_landmarks():
    """Where landmarks explain the kernel, scores and left-out scores are the exact ones."""
    rows = training_rows(IndependentOCKSR(), X, **GIVEN)[0]
    model = IndependentOCKSR(gamma=0.01, landmarks=100, random_state=0)
    exact = IndependentOCKSR(gamma=0.01)._learn(rows, left_out=True)
    tasks = np.arange(rows.n_tasks)
    sweep = model._sweep_of_rows(rows, tasks)
    found = model._solved(sweep, left_out=True).solution
    assert len(unguarded(found.scorer).points) < len(unguarded(exact.scorer).points)
    judge = replace(found.judge, guard=LeftOutGuard(None, 0.0))
    plans = judge.plan.plans
    small = np.isin(rows.codes, list(plans), invert=True)
    left_out = judge.judged(rows)[~small]
    np.testing.assert_allclose(left_out, exact.left_out[~small], atol=1e-6)
    scores = unguarded(found.scorer).all(X)
    np.testing.assert_allclose(scores, unguarded(exact.scorer).all(X), atol=1e-6)


def test_saved_sparse_whitened_and_groups(tmp_path):
    model = IndependentOCKSR(landmarks=40, random_state=0).fit(X, **GIVEN)
    manyone.save(model, tmp_path / "model.manyone")
    assert_same(manyone.load(tmp_path / "model.manyone"), model, 0.0)
    rows = sparse.csr_array(np.where(np.abs(X) < 0.3, 0.0, X))
    few = IndependentOCKSR(gamma=0.01, landmarks=100, random_state=0).fit(rows, **GIVEN)
    exact = IndependentOCKSR(gamma=0.01).fit(rows, **GIVEN)
    np.testing.assert_allclose(
        few.score_tasks(rows), exact.score_tasks(rows), atol=1e-6
    )
    white = IndependentOCKSR(landmarks=40, random_state=0, metric="whitened")
    assert_same(clone(white).fit(X, **GIVEN), fit(white, local_sweep(cut([90]))), 1e-8)
    groups = IndependentOCKSR(landmarks=40, random_state=0)
    groups.fit(X, **GIVEN, groups=np.arange(N) // 3)
    assert groups.calibration_.source == "leave-group-out"


@pytest.mark.parametrize("groups", [np.arange(N) // 3, TimeBlocks(np.arange(N))])
def test_groups_of_small_tasks_leave_as_in_exact_fits(groups):
    """All tasks are small here: they are solved exactly, and so are their thresholds."""
    few = IndependentOCKSR(landmarks=10 * N, random_state=0)
    few.fit(X, **GIVEN, groups=groups)
    exact = IndependentOCKSR().fit(X, **GIVEN, groups=groups)
    assert few.calibration_.source == exact.calibration_.source == "leave-group-out"
    np.testing.assert_allclose(few.calibration_.counts, exact.calibration_.counts)
    np.testing.assert_allclose(few.offset_, exact.offset_, atol=1e-8)


def test_too_many_outliers_of_every_task():
    with pytest.raises(ValueError, match="3 or more outliers without a task"):
        IndependentOCKSR(landmarks=2).fit(X, **GIVEN)


@pytest.mark.slow
def test_one_task_of_many_rows_beside_tasks_of_one():
    """Memory is that of landmarks and blocks, and alarm rates hold."""

    def rows(seed):
        rng = np.random.default_rng(seed)
        for _ in range(10):
            task = np.repeat(["pump"], 10_000).astype(object)
            part = rng.normal(size=(10_000, 8)) + 1.0
            yield part, task
        lonely = np.arange(50) + 50 * (seed > 0)
        yield (
            rng.normal(size=(50, 8)) - 2.0,
            np.array([f"fan {k}" for k in lonely], dtype=object),
        )

    model = IndependentOCKSR(landmarks=200, random_state=0, alarm_rate=0.02)
    tracemalloc.start()
    model.fit(lambda: rows(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150 * 2**20
    assert model.calibration_.counts.sum() == 100_050
    fresh, task = next(rows(1))
    assert np.mean(model.predict(fresh, task=task) < 0) == pytest.approx(
        0.02, abs=0.006
    )
    assert np.mean(model.predict(fresh + 6.0, task=task) < 0) > 0.99
    assert model.predict(np.full((1, 8), -2.0), task=["fan 7"])[0] == 1


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
@pytest.mark.parametrize("method", [IndependentOCKSR, JointOCKSR])
def test_alarms_of_small_tasks_hold_beside_one_with_nearly_all_rows(method):
    rng = np.random.default_rng(0)
    codes = np.concatenate(
        [np.zeros(100_000, int), np.arange(1, 61), np.repeat(np.arange(61, 81), 30)]
    )
    centres = 4.0 * rng.normal(size=(81, 5))
    claim = np.repeat(np.arange(81), 60)
    rows, fresh = (
        centres[own] + rng.normal(size=(len(own), 5)) for own in (codes, claim)
    )
    few = method(landmarks=100, random_state=0).fit(rows, task=codes)
    alarm = few.predict(fresh, task=claim) < 0
    assert alarm[claim > 60].mean() < 0.08  # 1 of 31 on average over fits
    single = (claim > 0) & (claim < 61)
    assert not alarm[single].any()  # a single row sets no threshold
    far = few.predict(fresh[~single] + 30.0, task=claim[~single])
    assert np.mean(far < 0) > 0.95


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_rows_that_are_not_trusted_say_what_is_usual_on_landmarks_too():
    """Else rows of heavy tails would lose far more of their score than in an exact model."""
    rng = np.random.default_rng(0)
    rows = rng.standard_t(2, size=(300, 4))
    task = np.repeat(["a", "b", "c"], 100)
    limits = []
    for landmarks in (None, 40):
        model = IndependentOCKSR(metric="adaptive", landmarks=landmarks, random_state=0)
        model.fit(rows, task=task)
        guard = guard_in(model.solution_.scorer, Nearness)
        limits.append(guard.usual.limit)
    assert limits[1] == pytest.approx(limits[0], rel=1e-9)
