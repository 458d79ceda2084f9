"""Folds: copies leave together, and nothing else does."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from fleets import gaussian_tasks
from manyone import (
    KNFST,
    MORVR,
    SVDD,
    IndependentOCKSR,
    MultiTaskOneClassSVM,
    NonlinearOCKSR,
    TimeBlocks,
)
from manyone.calibration import folds
from manyone.calibration.folds import (
    assign_folds,
    content_order,
    halved_splits,
    similarity_of,
)
from manyone.data.rows import TrainingRows, training_rows
from manyone.kernels.kernel import Kernel

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


def rows_of(content, codes, outlier=None):
    n = len(codes)
    mask = np.zeros(n, dtype=bool) if outlier is None else np.array(outlier)
    return TrainingRows(
        np.zeros((n, 1)),
        np.array(codes),
        mask,
        np.ones(n),
        np.array(content),
        max(codes) + 1,
    )


def test_copies_share_a_fold_and_level_rows_do_not():
    rows = rows_of([7, 1, 1, 2, 5, 5, 3], [0, 0, 0, 0, 1, 1, 0])
    similarity = np.array([3.0, 1.0, 1.0 + 1e-12, 1.0, 5.0, 5.0, 2.0])
    fold = assign_folds(rows, similarity, 10)
    assert fold.tolist() == [3, 0, 0, 1, -1, -1, 2]
    order = np.random.default_rng(0).permutation(7)
    assert np.array_equal(
        assign_folds(rows.take(order), similarity[order], 10), fold[order]
    )


def test_known_outliers_are_in_no_fold():
    rows = rows_of([0, 1, 2, 3], [0, 0, 0, -1], [False, False, True, True])
    assert assign_folds(rows, np.arange(4.0), 10).tolist() == [0, 1, -1, -1]


@pytest.mark.parametrize(
    "groups",
    [None, np.arange(60) // 2, TimeBlocks(np.tile(np.arange(15), 4))],
    ids=["rows", "groups", "blocks of time"],
)
def test_outliers_are_dealt_by_their_content_whatever_their_task_is_called(groups):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    task = np.repeat(np.arange(4), 15)
    outlier = np.isin(np.arange(60), [0, 7, 20, 33, 34, 50, 51, 52])
    trained_on = []
    for names in (task, 9 - task):
        rows, _, source = training_rows(
            IndependentOCKSR(), X, names, outlier, groups=groups
        )
        splits = halved_splits(rows, "seen")
        trained_on.append([sorted(source[split.train]) for split in splits])
    assert trained_on[0] == trained_on[1]
    assert len(trained_on[0]) == 6


def test_halves_share_no_task_and_a_single_row_stays():
    rows = rows_of(range(13), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4])
    splits = list(halved_splits(rows, "unseen"))
    assert len(splits) == 6
    for train, test, enrolled in splits:
        assert not np.any(train & test) and np.all(train <= enrolled)
        assert np.all(test[~enrolled])
        single = rows.codes == 4
        assert np.array_equal(train[single], enrolled[single])
    in_model = np.any([split.enrolled for split in splits], axis=0)
    assert in_model.all()


def test_settings_are_judged_by_whole_stretches_of_time_as_thresholds_are():
    """Six blocks make three folds of two neighbours, not of every third one."""
    X = np.random.default_rng(0).normal(size=(48, 3))
    blocks = TimeBlocks(np.tile(np.arange(12), 4), number=6)
    task = np.repeat(np.arange(4), 12)
    rows, _, source = training_rows(IndependentOCKSR(), X, task, groups=blocks)
    for train, test, enrolled in halved_splits(rows, "seen"):
        for code in np.unique(rows.codes[train]):
            held = np.sort(source[test & enrolled & (rows.codes == code)] % 12)
            assert np.array_equal(held, held[0] + np.arange(4))


@pytest.mark.parametrize("method", [KNFST, MultiTaskOneClassSVM, NonlinearOCKSR])
@pytest.mark.parametrize("kind", ["one-hot", "6 bits"])
def test_symmetric_rows_are_not_copies(method, kind):
    """Rows with equal sums of similarities are no copies: they leave one by one."""
    if kind == "one-hot":
        X = np.eye(40)
        task = np.repeat([0, 1], 20)
    else:
        X = ((np.arange(64)[:, None] >> np.arange(6)) & 1).astype(float)
        task = X[:, 0].astype(int)
    model = method(alarm_rate=0.1).fit(X, task=task)
    rows = model.training_
    fold = assign_folds(rows, np.ones(len(rows.codes)), 5)
    assert np.bincount(fold).max() - np.bincount(fold).min() <= 2
    own = model.score_samples(X, task=task)
    left_out = model.solution_.left_out
    # A row scored by a model that has seen it scores as the full model does: better
    # than left out.
    assert np.mean(np.sort(left_out) < np.sort(own) - 1e-9) > 0.9


def test_rounding_in_a_centred_kernel_orders_no_rows():
    """Names of tasks change in which order sums are taken, and so their rounding."""
    X, task = gaussian_tasks([21, 16, 13, 7, 8], 4, apart=1.5)
    scores = []
    for names in (task, 9 - task):
        model = SVDD(kernel="linear", metric="adaptive", nu=1.0).fit(X, task=names)
        scores.append(np.sort(model.calibration_.scores))
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9)


@pytest.mark.parametrize("method", [KNFST, NonlinearOCKSR])
def test_folds_side_by_side_are_folds_one_after_the_other(method, fleet, monkeypatch):
    X, task = fleet
    alone = method(alarm_rate=0.2).fit(X, task=task)
    monkeypatch.setattr("manyone.calibration.folds.blas_threads", lambda: 2)
    together = method(alarm_rate=0.2).fit(X, task=task)
    np.testing.assert_array_equal(together.solution_.left_out, alone.solution_.left_out)


def test_tasks_of_few_blocks_leave_tasks_in_time_whole():
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1, 2], [30, 30, 3])
    X = rng.normal(size=(63, 3)) + 3.0 * task[:, None]
    blocks = TimeBlocks(np.arange(63))
    model = NonlinearOCKSR(alarm_rate=0.2, max_iter=5).fit(X, task=task, groups=blocks)
    # The first two of five blocks have no score.
    assert np.bincount(model.calibration_.codes).tolist() == [18, 18, 3]
    assert np.isfinite(model.calibration_.scores).all()


@pytest.mark.parametrize("method", [KNFST, NonlinearOCKSR])
def test_models_side_by_side_are_models_one_by_one(method, fleet, monkeypatch):
    X, task = fleet
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(folds, "blas_threads", lambda threads=threads: threads)
        model = method().fit(X, task=task)
        found.append([*model.solution_.left_out, *model.score_samples(X, task=task)])
    assert found[0] == found[1]


def test_copies_that_rounding_tells_apart_count_as_their_weight():
    """A metric gives copies of a row other last digits, depending on the processor."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    task = np.tile([0, 1], 20)
    weight = rng.integers(1, 4, 40)
    again = np.repeat(np.arange(40), weight)
    weighted, _, first = training_rows(
        IndependentOCKSR(), X, task, sample_weight=weight
    )
    repeated, _, source = training_rows(IndependentOCKSR(), X[again], task[again])
    kernel = Kernel("rbf", gamma=(0.3,))
    expected = np.empty(40)
    expected[first] = similarity_of(weighted.X, weighted, kernel)
    rounded = repeated.X * (1.0 + 1e-14 * rng.normal(size=repeated.X.shape))
    found = similarity_of(rounded, repeated, kernel)
    np.testing.assert_allclose(found, expected[again[source]], rtol=1e-11)


def test_tasks_that_share_rows_have_an_order_whatever_they_are_called():
    """Tasks of yes and no share their smallest row."""
    content = [[1, 2, 3], [1, 1, 2], [1, 2], [1, 3]]
    names = np.array([2, 0, 3, 1])
    in_order = []
    for called in (np.arange(4), names):
        codes = np.repeat(called, [len(rows) for rows in content])
        rows = rows_of(np.concatenate(content), codes.tolist())
        in_order.append([called.tolist().index(k) for k in content_order(rows)])
    assert in_order[0] == in_order[1]


def test_folds_tell_what_a_row_did_to_the_depths_of_the_others():
    rng = np.random.default_rng(5)
    task = np.repeat(np.arange(4), 6)
    X = rng.normal(size=(24, 3)) + 3.0 * task[:, None]
    X[2] += 20.0
    model = MORVR(alarm_rate=0.2, gamma=0.1).fit(X, task=task)
    rows = model.training_
    out = int(np.argmax(np.abs(rows.X).max(axis=1)))
    fold = assign_folds(rows, rbf_kernel(rows.X, gamma=0.1).mean(axis=1), 10)
    kept = np.flatnonzero(fold != fold[out])
    fewer = MORVR(alarm_rate=None, gamma=0.1).fit(rows.X[kept], task=rows.codes[kept])
    others = kept[rows.codes[kept] == rows.codes[out]]

    def mean_root(fitted):
        far = np.abs(fitted.solution_.scorer.far()[rows.codes[out]])
        scores = fitted.score_samples(rows.X[others], task=rows.codes[others])
        return np.mean(np.sqrt(np.abs(scores) / far))

    expected = mean_root(fewer) - mean_root(model)
    assert model.solution_.shift[out] == pytest.approx(expected, abs=1e-9)
    assert expected < -0.01  # beside a row far out the others seem deep


def test_groups_and_large_tasks_are_not_asked_what_they_did_to_others():
    rng = np.random.default_rng(6)
    task = np.repeat([0, 1], [120, 12])
    X = rng.normal(size=(132, 3))
    model = MultiTaskOneClassSVM().fit(X, task=task)
    assert not model.solution_.shift[model.training_.codes == 0].any()
    assert model.solution_.shift[model.training_.codes == 1].any()
    groups = np.arange(132) // 3
    grouped = MultiTaskOneClassSVM().fit(X, task=task, groups=groups)
    assert not grouped.solution_.shift.any()
