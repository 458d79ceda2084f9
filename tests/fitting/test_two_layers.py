"""Two layers of many rows: those of a sample, judged by passes over the others."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from manyone import JointOCKSR, NonlinearOCKSR, SparseOCKSR, load, save
from manyone.data.hashing import row_hashes
from manyone.data.memory import NotEnoughMemory
from manyone.datasets import make_fleet
from manyone.engines import Block, fit, local_sweep

RNG = np.random.default_rng(0)
N = 500
T = 5
TASK = np.array([f"task {t}" for t in range(T)])[RNG.integers(0, T, N)]
CODES = np.unique(TASK, return_inverse=True)[1]
X = RNG.normal(size=(N, 3)) + 2.0 * RNG.normal(size=(T, 3))[CODES]
X[3] = X[4]
TASK[3] = TASK[4]
CODES[3] = CODES[4]
OUTLIER = np.arange(N) % 37 == 0
WEIGHT = RNG.integers(0, 3, N).astype(float)
NEW = np.vstack([X[:60] + 0.05, 30.0 * RNG.normal(size=(9, 3))])
CLAIM = np.concatenate([TASK[:60], TASK[:9]])

both = pytest.mark.parametrize("method", [NonlinearOCKSR, SparseOCKSR])


@pytest.fixture
def few_drawn(monkeypatch):
    """So few rows are drawn that most are seen by passes only."""
    monkeypatch.setattr("manyone.fitting.plan._FEWEST", 10)
    for method in (NonlinearOCKSR, SparseOCKSR):
        monkeypatch.setattr(method, "can", replace(method.can, sample_rows=150))


def make(method, landmarks=12, **setting):
    return method(landmarks=landmarks, random_state=1, **setting)


def cut(places):
    """Blocks of the rows between some places, in a shuffled order."""
    order = np.random.default_rng(len(places)).permutation(N)
    parts = np.split(order, sorted(places))
    return [Block(X[p], TASK[p], OUTLIER[p], WEIGHT[p]) for p in parts if len(p)]


def assert_same(one, other, tol):
    np.testing.assert_array_equal(one.tasks_, other.tasks_)
    np.testing.assert_allclose(one.score_tasks(NEW), other.score_tasks(NEW), atol=tol)
    np.testing.assert_allclose(one.offset_, other.offset_, atol=tol)
    np.testing.assert_allclose(one.structure_, other.structure_, atol=10 * tol)
    np.testing.assert_allclose(
        one.pvalues(NEW, task=CLAIM), other.pvalues(NEW, task=CLAIM), atol=tol
    )


@both
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_all_rows_as_landmarks_are_exact(method, kernel):
    some = {"task": TASK[:120], "outlier": OUTLIER[:120], "sample_weight": WEIGHT[:120]}
    exact = method(kernel=kernel).fit(X[:120], **some)
    found = make(method, 120, kernel=kernel).fit(X[:120], **some)
    np.testing.assert_allclose(
        found.score_tasks(NEW), exact.score_tasks(NEW), atol=1e-6
    )
    np.testing.assert_allclose(found.structure_, exact.structure_, atol=1e-5)


@both
@settings(max_examples=5, deadline=None)
@given(
    places=st.lists(st.integers(0, N), max_size=12),
    drawn=st.sampled_from([150, 20_000]),
)
def test_blocks_do_not_matter(method, places, drawn):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("manyone.fitting.plan._FEWEST", 10)
        patch.setattr(method, "can", replace(method.can, sample_rows=drawn))
        whole = make(method, max_iter=20, tol=1e-2)
        whole.fit(X, task=TASK, outlier=OUTLIER, sample_weight=WEIGHT)
        blocks = fit(make(method, max_iter=20, tol=1e-2), local_sweep(cut(places)))
        assert_same(whole, blocks, 1e-8)


def drawn_rows(model, monkeypatch):
    """Which of the rows shape the layers."""
    seen = []
    original = type(model)._of_sample

    def spy(self, plan, rows):
        seen.append(row_hashes(rows.X))
        return original(self, plan, rows)

    monkeypatch.setattr(type(model), "_of_sample", spy)
    model.fit(X, task=TASK)
    return np.isin(row_hashes(X), seen[0])


@both
def test_large_and_small_tasks_together(method, few_drawn):
    """Small tasks are drawn whole, so only their thresholds come from folds."""
    task = np.where(np.arange(N) < 470, "large", TASK)
    model = make(method, max_iter=20, tol=1e-2).fit(X, task=task)
    sizes = dict(zip(*np.unique(task, return_counts=True), strict=True))
    counts = dict(zip(model.tasks_.tolist(), model.calibration_.counts, strict=True))
    assert all(counts[name] == size for name, size in sizes.items() if name != "large")
    assert 200 < counts["large"] < 470
    assert np.all(np.isfinite(model.offset_))


@both
def test_one_task_is_scored_by_the_first_layer(method, few_drawn):
    model = make(method, 15, alpha=0.2).fit(X)  # both choose them from 150 rows
    joint = make(JointOCKSR, 15, alpha=0.2).fit(X)
    np.testing.assert_allclose(
        model.score_samples(NEW), joint.score_samples(NEW), atol=1e-8
    )
    np.testing.assert_allclose(model.offset_, joint.offset_, atol=1e-8)


@both
def test_files_functions_and_dask(method, few_drawn, tmp_path, monkeypatch):
    monkeypatch.setattr("manyone.fitting.sources._ROWS", 64)
    setting = {"max_iter": 20, "tol": 1e-2}
    whole = make(method, **setting).fit(X, task=TASK)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert_same(make(method, **setting).fit(mapped, task=TASK), whole, 1e-8)
    called = make(method, **setting).fit(
        lambda: [(X[:99], TASK[:99]), (X[99:], TASK[99:])]
    )
    assert_same(called, whole, 1e-8)
    da = pytest.importorskip("dask.array")
    rows = da.from_array(X, chunks=(120, 3))
    lazy = make(method, **setting).fit(rows, task=TASK)
    assert_same(lazy, whole, 1e-8)
    scores = lazy.score_samples(rows, task=TASK).compute(scheduler="sync")
    np.testing.assert_allclose(scores, whole.score_samples(X, task=TASK), atol=1e-8)


@both
def test_saved_and_whitened(method, few_drawn, tmp_path):
    model = make(method, metric="whitened", max_iter=20, tol=1e-2).fit(X, task=TASK)
    save(model, tmp_path / "model")
    twin = load(tmp_path / "model")
    assert np.array_equal(twin.score_tasks(NEW), model.score_tasks(NEW))
    assert twin.responses_.shape[1] == T
    assert (
        len(twin.second_kernel_) == len(twin.responses_) <= len(twin.centres_) < N / 2
    )
    assert np.array_equal(twin.pvalues(NEW, task=CLAIM), model.pvalues(NEW, task=CLAIM))
    # The metric makes directions alike: a column in other units changes little but
    # rounding.
    scaled = X * [1.0, 1e3, 1.0]
    other = clone(model).fit(scaled, task=TASK)
    assert (
        np.mean(other.predict(scaled, task=TASK) == model.predict(X, task=TASK)) > 0.92
    )


def test_names_and_order_do_not_matter(few_drawn):
    one = make(NonlinearOCKSR).fit(X, task=TASK)
    order = np.random.default_rng(5).permutation(N)
    names = np.array([name[::-1] for name in TASK])
    other = make(NonlinearOCKSR).fit(X[order], task=names[order])
    mine = one.score_samples(X, task=TASK)
    theirs = other.score_samples(X, task=names)
    np.testing.assert_allclose(mine, theirs, atol=1e-8)


def test_memory_is_that_of_a_block(few_drawn):
    """It grows by left-out scores alone: less than by rows times tasks.

    They take some 150 bytes a row while they are sorted, up to a million rows.
    """
    centres = 3.0 * np.random.default_rng(0).normal(size=(40, 3))

    def peak(n_blocks):
        def blocks():
            for seed in range(n_blocks):
                rng = np.random.default_rng(seed)
                task = rng.integers(0, 40, 2000)
                yield rng.normal(size=(2000, 3)) + centres[task], task

        tracemalloc.start()
        make(NonlinearOCKSR, 40, max_iter=2, tol=1.0).fit(blocks)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(1)  # imports
    few = peak(10)
    many = peak(40)
    assert many - few < 200 * 30 * 2000
    assert many < 8 * 40 * 2000 * 40


@both
def test_what_cannot_be_done_is_said(method, few_drawn, monkeypatch):
    with pytest.raises(ValueError, match="groups= needs all rows"):
        make(method).fit(lambda: [(X, TASK)], groups=TASK)
    with pytest.raises(ValueError, match="Without landmarks"):
        method().fit(lambda: [(X, TASK)])
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        make(method, max_iter=1, tol=0.0).fit(X, task=TASK)
    monkeypatch.setattr("manyone.data.memory.available_bytes", lambda: 1e4)
    with pytest.raises(
        NotEnoughMemory, match=r"12 landmarks and 5 tasks take .* JointOCKSR"
    ):
        make(method).fit(lambda: [(X, TASK)])


@pytest.mark.slow
@both
def test_alarm_rate_holds(method, few_drawn):
    """Rows of tasks of which few were drawn, like those of thresholds."""
    rates = []
    for seed in range(8):
        fleet = make_fleet(
            n_tasks=10, n_samples=120, n_test=200, fault_rate=0.0, random_state=seed
        )
        model = make(method, 40, alarm_rate=0.1).fit(fleet.data, task=fleet.task)
        assert model.calibration_.counts.sum() < len(fleet.data)
        rates.append(
            np.mean(model.predict(fleet.test_data, task=fleet.test_task) == -1)
        )
    # A rate from 105 rows of each of ten tasks and 200 new ones scatters by 0.011 a
    # fit.
    assert abs(np.mean(rates) - 0.1) < 0.012


def test_better_than_joint_on_strangers(few_drawn):
    from sklearn.metrics import roc_auc_score

    gain = []
    for seed in range(3):
        fleet = make_fleet(
            n_tasks=12, n_samples=80, n_test=60, fault="stranger", random_state=seed
        )
        scores = [
            make(method, 30).fit(fleet.data, task=fleet.task)
            .score_samples(fleet.test_data, task=fleet.test_task)
            for method in (NonlinearOCKSR, JointOCKSR)
        ]  # fmt: skip
        aucs = [roc_auc_score(~fleet.test_fault, score) for score in scores]
        gain.append(aucs[0] - aucs[1])
    assert np.mean(gain) > 0


@both
def test_thresholds_come_from_rows_that_are_new_to_both_layers(
    method, few_drawn, monkeypatch
):
    model = make(method, kernel="poly")
    drawn = drawn_rows(model, monkeypatch)
    assert 100 < drawn.sum() < 200
    scores = model.score_samples(X, task=TASK)[~drawn]
    assert model.calibration_.counts.sum() == (~drawn).sum()
    order = np.lexsort((scores, CODES[~drawn]))
    np.testing.assert_allclose(model.calibration_.scores, scores[order], atol=1e-9)
    assert model.calibration_.source == "rows not drawn"
