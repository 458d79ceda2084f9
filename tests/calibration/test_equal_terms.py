"""Left-out scores of folds beside what the model of all rows says of new rows."""

import numpy as np
import pytest

from manyone import KNFST, IndependentOCKSR
from manyone.calibration.equal_terms import (
    Round,
    on_equal_terms,
    with_a_row_more,
)
from manyone.calibration.folds import assign_folds, folds_of_two
from manyone.data.rows import TrainingRows

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")

SIZES = np.tile([4, 6, 9, 14], 30)
CODES = np.repeat(np.arange(120), SIZES)
N = SIZES[CODES].astype(float)


def depths(rng, kept, slope=1.5):
    return rng.gamma(3.0, size=len(kept)) * np.exp(slope / kept)


@pytest.mark.parametrize("leave", [1, 2])
@pytest.mark.parametrize("slope", [0.0, 1.5])
def test_what_a_row_more_is_worth_is_taken_off(slope, leave):
    rng = np.random.default_rng(0)
    gamma = rng.gamma(3.0, size=len(CODES))
    kept = N - leave
    once = Round(-gamma * np.exp(slope / kept), kept)
    twice = Round(-gamma * np.exp(slope / (kept - 1.0)), kept - 1.0)
    found = on_equal_terms(once, twice, CODES, np.ones(len(CODES)), SIZES * 1.0, None)
    found = found.scores
    # One row, of however many were left out.
    np.testing.assert_allclose(found, -gamma * np.exp(slope / (kept + 1.0)), rtol=0.04)


@pytest.mark.parametrize("n", [3, 8, 30])
@pytest.mark.parametrize("same", [0.05, 0.5, 0.95])
def test_left_out_rows_respond_as_new_rows_do_to_a_model_with_one_row_more(n, same):
    """Ridge regressions of rows that all have one kernel value with each other."""
    alpha = 0.1

    def response(kernel_value, rows):
        """Of a row with this kernel value to all rows, over their mean response."""
        K = np.full((rows, rows), same) + (1.0 - same) * np.eye(rows)
        coef = np.linalg.solve(K + alpha * np.eye(rows), np.ones(rows))
        return kernel_value * coef.sum() / np.mean(K @ coef)

    tasks = np.repeat([0, 1], n)
    near = np.full(n, same)
    left_out = np.array([response(value, n - 1) for value in near])
    # In the second task one row is near no other.
    left_out = np.append(left_out, left_out)
    left_out[-1] = 0.0
    known = np.column_stack([left_out, np.ones(2 * n)])
    jitter = 1e-6 * np.arange(2 * n)  # or all would be copies
    found = with_a_row_more(
        -np.abs(left_out - 1.0) - jitter, known, tasks, np.ones(2 * n), np.ones(2)
    )
    expected = np.full(2 * n, -abs(response(same, n) - 1.0))
    expected[-1] = -1.0
    np.testing.assert_allclose(found + jitter, expected, atol=1e-12)


def test_rows_that_did_not_leave_and_copies_stay_where_they_are():
    rng = np.random.default_rng(0)
    once = Round(-depths(rng, N - 1.0), N - 1.0)
    twice = Round(-depths(rng, N - 2.0), N - 2.0)
    once.scores[:4] = np.nan
    copies = np.flatnonzero(CODES == 5)[:2]
    once.scores[copies] = -1.25
    found = on_equal_terms(once, twice, CODES, np.ones(len(CODES)), SIZES * 1.0, None)
    found = found.scores
    assert np.isnan(found[:4]).all() and np.all(found[copies] == -1.25)
    moved = np.flatnonzero(~np.isnan(once.scores) & (once.scores != -1.25))
    assert np.all(found[moved] != once.scores[moved])
    # Where a fifth of the rows have copies, scores have few values: nothing is moved.
    tied = Round(np.round(once.scores, 0), once.kept)
    found = on_equal_terms(tied, twice, CODES, np.ones(len(CODES)), SIZES * 1.0, None)
    found = found.scores
    np.testing.assert_array_equal(found, tied.scores)


def test_nothing_is_moved_where_nothing_is_known():
    few = np.zeros(4, dtype=int)
    once = Round(-np.arange(1.0, 5.0), np.full(4, 3.0))
    twice = Round(-np.arange(2.0, 6.0), np.full(4, 2.0))
    found = on_equal_terms(once, twice, few, np.ones(4), np.array([4.0]), None)
    np.testing.assert_array_equal(found.scores, once.scores)
    assert found.drift == 0.0


def test_rows_beyond_the_far_score_stay_there_where_scores_saturate():
    rng = np.random.default_rng(0)
    gamma = rng.gamma(40.0, size=len(CODES)) / 40.0  # in units of the far score
    once = Round(-gamma * np.exp(0.2 / (N - 1.0)), N - 1.0)
    twice = Round(-gamma * np.exp(0.2 / (N - 2.0)), N - 2.0)
    far = -np.ones(len(SIZES))
    moved = on_equal_terms(once, twice, CODES, np.ones(len(CODES)), SIZES * 1.0, far)
    moved = moved.scores
    beyond = once.scores < -1.0
    assert 0.3 < beyond.mean() < 0.7
    np.testing.assert_allclose(moved[beyond], once.scores[beyond], rtol=1e-12)
    assert np.all(moved[~beyond] > once.scores[~beyond])


def test_tasks_that_were_left_out_once_only_are_not_moved():
    """Small tasks leave in blocks beside a long task in time."""
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [100, 8, 20])
    kept = np.repeat([60.0, 6.0, 16.0], [100, 8, 20])
    gamma = rng.gamma(3.0, size=len(codes))
    once = Round(-gamma, kept)
    twice = Round(np.where(codes == 0, -1.2 * gamma, np.nan), kept - 20.0)
    counts = np.array([100.0, 8.0, 20.0])
    moved = on_equal_terms(once, twice, codes, np.ones(len(codes)), counts, None)
    moved = moved.scores
    assert np.all(moved[codes == 0] > once.scores[codes == 0])
    np.testing.assert_array_equal(moved[codes > 0], once.scores[codes > 0])


def test_rows_in_time_are_moved_by_twice_what_a_block_of_time_costs():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(10), 100)
    gamma = rng.gamma(3.0, size=len(codes))
    once = Round(-gamma, np.full(len(codes), 60.0))
    twice = Round(-gamma, np.full(len(codes), 40.0))
    later = Round(-1.1 * gamma, np.full(len(codes), 40.0))
    counts = np.full(10, 100.0)
    moved = on_equal_terms(once, twice, codes, np.ones(1000), counts, None, later)
    assert moved.drift == pytest.approx(2.0 * np.log(1.1))
    np.testing.assert_allclose(moved.scores, 1.21 * once.scores)


def rows_of(codes):
    n = len(codes)
    content = np.random.default_rng(0).permutation(n)
    none = np.zeros(n, dtype=bool)
    return TrainingRows(
        np.zeros((n, 1)), codes, none, np.ones(n), content, codes.max() + 1
    )


def test_two_folds_of_every_small_task_leave_together():
    sizes = [1, 2, 3, 8, 40, 150]
    codes = np.repeat(np.arange(6), sizes)
    rows = rows_of(codes)
    fold = assign_folds(rows, np.random.default_rng(1).normal(size=len(codes)), 10)
    refits = folds_of_two(rows, fold)
    assert len(refits) == 5
    held = np.concatenate([out for _, out in refits])
    # Up to three rows cannot spare two folds, and many do not miss one.
    assert np.array_equal(np.unique(codes[held]), [3, 4])
    assert len(np.unique(held)) == len(held) == 48
    for kept, out in refits:
        assert not np.intersect1d(kept, out).size and len(kept) + len(out) == len(codes)
        folds_left = [len(np.unique(fold[out][codes[out] == t])) for t in (3, 4)]
        assert max(folds_left) <= 2


def test_rows_far_out_in_their_tasks_do_not_leave_together():
    """A metric that all tasks share would else lose them all at once."""
    codes = np.repeat(np.arange(8), 8)
    fold = assign_folds(rows_of(codes), np.tile(np.arange(8.0), 8), 10)
    farthest = fold[np.arange(0, 64, 8)]
    assert len(np.unique(farthest)) == 8


@pytest.mark.parametrize(
    "method",
    [
        KNFST(alarm_rate=0.2),
        IndependentOCKSR(
            metric="adaptive", kernel="laplacian", width=3.0, alarm_rate=0.2
        ),
    ],
)
def test_the_rate_is_used_and_held(method):
    """Without equal terms 8 rows a task raised half of what was asked for."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(20), 8)
    fresh = np.repeat(np.arange(20), 100)
    rates = []
    for _ in range(15):
        centre = 2.0 * rng.normal(size=(20, 6))
        method.fit(centre[task] + rng.normal(size=(160, 6)), task=task)
        Z = centre[fresh] + rng.normal(size=(2000, 6))
        rates.append(np.mean(method.predict(Z, task=fresh) < 0))
    error = np.std(rates) / np.sqrt(len(rates))
    assert 0.16 - error < np.mean(rates) < 0.2 + 2.0 * error
