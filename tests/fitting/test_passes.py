"""Fits by passes: one model whatever the blocks, exact with all rows."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from manyone import JointOCKSR, LinearOCKSR
from manyone.engines import AddUp, Block, TakeSample, fit, local_sweep
from manyone.fitting.plan import Plan

RNG = np.random.default_rng(0)
N = 400
T = 7
TASK = np.array([f"task {t}" for t in range(T)])[RNG.integers(0, T, N)]
X = (
    RNG.normal(size=(N, 3))
    + 2.0 * RNG.normal(size=(T, 3))[np.unique(TASK, return_inverse=True)[1]]
)
X[3] = X[4]
TASK[3] = TASK[4]
X[9] = 40.0
OUTLIER = np.arange(N) % 37 == 0
WEIGHT = RNG.integers(0, 3, N).astype(float)
NEW = np.vstack([X[:60] + 0.05, 30.0 * RNG.normal(size=(9, 3))])
CLAIM = np.concatenate([TASK[:60], TASK[:9]])


def cut(places):
    """Blocks of the rows between some places, in a shuffled order."""
    order = np.random.default_rng(len(places)).permutation(N)
    parts = np.split(order, sorted(places))
    return [Block(X[p], TASK[p], OUTLIER[p], WEIGHT[p]) for p in parts if len(p)]


def assert_same(one, other, tol):
    np.testing.assert_array_equal(one.tasks_, other.tasks_)
    np.testing.assert_allclose(one.score_tasks(NEW), other.score_tasks(NEW), atol=tol)
    np.testing.assert_allclose(one.offset_, other.offset_, atol=tol)
    np.testing.assert_allclose(
        one.pvalues(NEW, task=CLAIM), other.pvalues(NEW, task=CLAIM), atol=tol
    )


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "rbf+laplacian", "poly"])
def test_all_rows_as_landmarks_are_exact(kernel):
    given = {"task": TASK, "outlier": OUTLIER, "sample_weight": WEIGHT}
    exact = JointOCKSR(kernel=kernel).fit(X, **given)
    assert_same(
        exact,
        JointOCKSR(kernel=kernel, landmarks=N, random_state=0).fit(X, **given),
        1e-6,
    )


@settings(max_examples=15, deadline=None)
@given(places=st.lists(st.integers(0, N), max_size=12), m=st.sampled_from([5, 40]))
def test_blocks_do_not_matter(places, m):
    whole = JointOCKSR(landmarks=m, random_state=1)
    whole.fit(X, task=TASK, outlier=OUTLIER, sample_weight=WEIGHT)
    blocks = fit(JointOCKSR(landmarks=m, random_state=1), local_sweep(cut(places)))
    assert_same(whole, blocks, 1e-8)
    np.testing.assert_allclose(whole.structure_, blocks.structure_, atol=1e-7)


@pytest.mark.parametrize(
    "setting", [{}, {"frobenius": 2.0}, {"nuclear": 0.3}, {"frobenius": 1e6}]
)
def test_linear_structures(setting):
    """All rows as landmarks are exact, whatever the blocks, also in a collapse."""
    given = {"task": TASK, "outlier": OUTLIER, "sample_weight": WEIGHT}
    exact = LinearOCKSR(**setting).fit(X, **given)
    few = LinearOCKSR(**setting, landmarks=N, random_state=0)
    tol = 1e-5 if "nuclear" in setting else 1e-6
    for found in (
        clone(few).fit(X, **given),
        fit(clone(few), local_sweep(cut([90, 200]))),
    ):
        scores = found.score_tasks(NEW), exact.score_tasks(NEW)
        np.testing.assert_allclose(*scores, rtol=1e-5, atol=tol)
        np.testing.assert_allclose(found.offset_, exact.offset_, atol=tol)
        np.testing.assert_allclose(found.structure_, exact.structure_, atol=10 * tol)
        assert found.calibration_.source == exact.calibration_.source


@pytest.mark.parametrize("m", [3, 5, 40])
def test_structure_is_the_mean_response(m):
    model = JointOCKSR(landmarks=m, random_state=0)
    model.fit(X, task=TASK, sample_weight=WEIGHT)
    responses = model.kernel_(X, model.X_fit_) @ model.dual_coef_
    for place, name in enumerate(model.tasks_):
        own = name == TASK
        mean = np.average(responses[own], axis=0, weights=WEIGHT[own])
        np.testing.assert_allclose(model.structure_[place], mean, atol=1e-8)


def test_landmarks_follow_content_not_names():
    """Other names, another order: the same landmarks, to the last bit."""
    one = JointOCKSR(landmarks=9, random_state=0).fit(X, task=TASK)
    order = np.random.default_rng(5).permutation(N)
    names = np.array([name[::-1] for name in TASK])
    other = JointOCKSR(landmarks=9, random_state=0).fit(X[order], task=names[order])
    np.testing.assert_array_equal(one.X_fit_, other.X_fit_)
    assert one.gamma_ == pytest.approx(other.gamma_, rel=1e-12)


def test_sample_misses_no_small_task():
    sizes = [5000, 5000, 1, 3]
    task = np.repeat(["a", "b", "c", "d"], sizes)
    rows = np.random.default_rng(0).normal(size=(len(task), 2))
    step = TakeSample(100)
    sample = step.partial(Block(rows, task))
    assert np.bincount(sample.codes).tolist() == [48, 48, 1, 3]
    weight = np.bincount(sample.rows().codes, sample.rows().weight)
    np.testing.assert_allclose(weight, sizes)
    halves = [step.partial(Block(rows[i::2], task[i::2])) for i in (1, 0)]
    again = step.merge(*halves)
    np.testing.assert_array_equal(again.hashes, sample.hashes)
    np.testing.assert_array_equal(again.X, sample.X)


def test_sparse_rows():
    rows = np.where(RNG.uniform(size=X.shape) < 0.4, 0.0, X)
    exact = JointOCKSR(gamma=0.2).fit(sparse.csr_array(rows), task=TASK)
    few = JointOCKSR(gamma=0.2, landmarks=N, random_state=0).fit(
        sparse.csr_array(rows), task=TASK
    )
    np.testing.assert_allclose(
        few.score_tasks(rows), exact.score_tasks(rows), atol=1e-6
    )
    np.testing.assert_allclose(few.offset_, exact.offset_, atol=1e-6)


def test_statistics_of_blocks_add_up():
    model = JointOCKSR(landmarks=20, random_state=0).fit(X, task=TASK)
    points = model.solution_.scorer.points
    factor = np.linalg.cholesky(points.kernel.gram(points.X))
    step = AddUp(Plan(model.tasks_, points, factor))

    def statistics(rows):
        return step.of(Block(X[rows], TASK[rows]).checked().coded(model.tasks_))

    whole = statistics(slice(None))
    added = step.merge(statistics(slice(90)), statistics(slice(90, None)))
    np.testing.assert_allclose(added.moments, whole.moments, atol=1e-10)
    np.testing.assert_allclose(added.sums, whole.sums, atol=1e-10)
    assert added.n_rows == whole.n_rows


def _partial(work):
    step, block = pickle.loads(work)
    return step.partial(block)


def test_process_pool():
    """What a Spark or Ray user writes: any map over blocks is an engine."""
    blocks = cut([100, 250])
    with ProcessPoolExecutor(2) as pool:

        def sweep(step):
            work = [pickle.dumps((step, block)) for block in blocks]
            return reduce(step.merge, pool.map(_partial, work))

        found = fit(JointOCKSR(landmarks=30, random_state=0), sweep)
    assert_same(
        fit(JointOCKSR(landmarks=30, random_state=0), local_sweep(blocks)), found, 1e-8
    )


def test_what_passes_return_does_not_grow_with_the_rows(monkeypatch):
    """Ten times the rows: statistics of the same size, few more rounded scores."""
    monkeypatch.setattr("manyone.calibration.tails._MOST", 600)
    monkeypatch.setattr("manyone.fitting.plan._FEWEST", 4096)
    rng = np.random.default_rng(0)

    def fitted(n):
        rows = rng.normal(size=(n, 3))
        task = rng.integers(0, 3, n)
        return JointOCKSR(landmarks=10, random_state=0, alarm_rate=0.01).fit(
            rows, task=task
        )

    small = fitted(20_000)
    large = fitted(200_000)
    assert len(pickle.dumps(large)) < 1.3 * len(pickle.dumps(small))
    assert len(large.calibration_.scores) < 2 * len(small.calibration_.scores)


def test_blocks_that_do_not_fit_together():
    blocks = [Block(X, TASK), Block(X[:, :2], TASK)]
    with pytest.raises(ValueError, match="same columns; two of them have 3 and 2"):
        fit(JointOCKSR(landmarks=5), local_sweep(blocks))
    with pytest.raises(ValueError, match="no block"):
        fit(JointOCKSR(landmarks=5), local_sweep([]))
