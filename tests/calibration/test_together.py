"""New rows of a task together: rank sums by enumeration, refits, simulation."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.preprocessing import StandardScaler

from every_method import methods
from fleets import gaussian_tasks
from manyone import IndependentOCKSR, JointOCKSR, make_pipeline
from manyone.calibration.together import rank_sum_pvalue

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


def enumerated(known, new):
    """The p-value over all choices of the new rows' places."""
    ranks = rankdata(np.concatenate([known, new]))
    sums = [sum(chosen) for chosen in combinations(ranks, len(new))]
    return np.mean(np.array(sums) <= ranks[len(known) :].sum() + 1e-9)


@pytest.mark.parametrize("values", [2, 3, 6, 10**6])
def test_law_is_that_of_all_choices_of_places(values):
    rng = np.random.default_rng(values)
    for _ in range(60):
        n, m = rng.integers(1, 8, 2)
        scores = rng.integers(0, values, n + m).astype(float)
        p = rank_sum_pvalue(scores[:n], scores[n:])
        assert p == pytest.approx(enumerated(scores[:n], scores[n:]), abs=1e-12)


def test_floor_is_one_over_the_number_of_choices():
    known = np.arange(10.0)
    for m in (1, 2, 3, 5):
        p = rank_sum_pvalue(known, -1.0 - np.arange(m))
        assert p == pytest.approx(1 / comb(10 + m, m))


def test_large_tied_samples_get_a_bound_that_is_never_too_small():
    rng = np.random.default_rng(0)
    for share in (0.5, 0.05):
        known = (rng.random(60) > share).astype(float)
        new = (rng.random(15) > 3 * share).astype(float)
        exact = rank_sum_pvalue(known, new)
        bound = rank_sum_pvalue(known, new, most_additions=0.0)
        assert exact <= bound <= 20 * exact + 0.05


def test_scores_that_differ_by_rounding_are_ties():
    known = np.full(5, -0.3)
    assert rank_sum_pvalue(known, known[:2] - 1e-13) == 1.0


@pytest.mark.parametrize("method", [IndependentOCKSR, JointOCKSR])
def test_exact_is_the_permutation_test_by_refits(method):
    X, task = gaussian_tasks([5, 7, 6], 3, apart=2.0)
    X[1] = X[0]
    new = X[2:4] + 0.7
    outlier = np.arange(len(X)) == 4
    settings = {"gamma": 0.3, "alpha": 0.5, "alarm_rate": None}
    model = method(gamma=0.3, alpha=0.5).fit(X, task=task, outlier=outlier)
    bag = np.vstack([X[(task == 0) & ~outlier], new])
    others = np.vstack([X[task != 0], X[outlier]])
    claims = np.append(task[task != 0], 0)
    is_outlier = np.append(np.zeros(len(others) - 1, dtype=bool), True)
    means = []
    for dealt in combinations(range(len(bag)), 2):
        rest = np.delete(bag, dealt, axis=0)
        refit = method(**settings).fit(
            np.vstack([rest, others]),
            task=np.append([0] * len(rest), claims),
            outlier=np.append([False] * len(rest), is_outlier),
        )
        means.append(refit.score_samples(bag[list(dealt)], task=[0, 0]).mean())
    tasks, p = model.pvalues_together(new, task=[0, 0])
    assert model.together_source_ == "exact"
    assert tasks.tolist() == [0]
    assert p[0] == pytest.approx(np.mean(np.array(means) <= means[-1] + 1e-9))
    assert 1 / 15 <= p[0] < 1.0


@methods
def test_tasks_that_moved_have_low_pvalues(method):
    X, task = gaussian_tasks([15, 20, 25], 3, apart=2.0)
    model = method().fit(X, task=task)
    rng = np.random.default_rng(3)
    claims = np.repeat([2, 0], 6)
    new = X[rng.permutation(np.flatnonzero(task == 2))[:6]] + 0.1
    batch = np.vstack([new, X[:6] + 8.0])
    tasks, p = model.pvalues_together(batch, task=claims)
    assert tasks.tolist() == [0, 2]
    assert p[0] < 0.001 < p[1] <= 1.0
    shuffled = rng.permutation(12)
    again = model.pvalues_together(batch[shuffled], task=claims[shuffled])[1]
    np.testing.assert_allclose(again, p, rtol=1e-9)
    tasks, p = model.pvalues_together(batch[:0], task=[])
    assert len(tasks) == len(p) == 0


def test_what_rows_are_compared_with_is_said():
    X, task = gaussian_tasks([20, 20], 2, apart=2.0)
    held_out, claims = gaussian_tasks([10, 10], 2, apart=2.0)
    scaled = make_pipeline(StandardScaler(), JointOCKSR()).fit(X, task=task)
    assert scaled.together_source_ == scaled.model_.calibration_.source
    assert np.all(scaled.pvalues_together(X, task=task)[1] <= 1.0)
    model = JointOCKSR().fit(X, task=task).calibrate(held_out, task=claims)
    assert model.together_source_ == "held-out"
    model = JointOCKSR(landmarks=8, random_state=0).fit(X, task=task)
    assert model.together_source_ != "exact"
    model = JointOCKSR().fit(X, task=task, groups=np.arange(40) // 2)
    assert model.together_source_ == model.calibration_.source


@pytest.mark.parametrize("kind", ["t2", "yes/no"])
def test_exact_rate_holds_whatever_the_tails(kind):
    rng = np.random.default_rng(0)
    below = []
    for _ in range(100):
        rows = rng.normal(size=(44, 2))
        if kind == "t2":
            rows /= np.sqrt(rng.chisquare(2, 44) / 2)[:, None]
        else:
            rows = (rows > [0.5, 1.5]).astype(float)
        claims = np.repeat(np.arange(4), 5)
        model = IndependentOCKSR(gamma=0.5).fit(rows[:20], task=claims)
        p = model.pvalues_together(rows[20:], task=np.repeat(np.arange(4), 6))[1]
        below.append(p <= 0.05)
    # 400 tasks that know nothing of each other: two standard errors are 0.022.
    assert np.mean(below) < 0.072
