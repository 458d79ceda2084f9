"""Scorers as values, each beside its formula written out."""

import pickle

import numpy as np
import pytest

from manyone.kernels.gram import Expansion, Points
from manyone.kernels.kernel import Kernel
from manyone.metric.shrinkage import pooled_whitening
from manyone.models.scorers import Balls, InMetric, Projection, TwoLayers, behind_metric
from manyone.models.solution import Solution
from manyone.models.task_expansions import TaskExpansions

RNG = np.random.default_rng(0)
T = 3
SIZES = np.array([4, 2, 5])
CODES = np.repeat(np.arange(T), SIZES)
STARTS = np.append(0, np.cumsum(SIZES))
N = len(CODES)
POINTS = Points(Kernel("rbf", gamma=(0.3,)), RNG.normal(size=(N, 2)))
NEW = RNG.normal(size=(7, 2))
CLAIMS = np.array([2, 0, 1, 1, 0, 2, 2])
COEF = RNG.normal(size=(N, T))
TARGET = np.array([0.9, 0.5, 0.7])
NOWHERE = np.full((1, 2), 1e4)
CENTRES = RNG.normal(size=(6, T))
SECOND = RNG.normal(size=(6, T))
LANDED = RNG.normal(size=(N, 2))
TARGETS = RNG.normal(size=(T, 2))
OWN = np.eye(T)[CODES] * RNG.uniform(0.1, 1.0, N)[:, None]


def kernel_values(X):
    distance2 = np.sum((X[:, None] - POINTS.X) ** 2, axis=2)
    return np.exp(-0.3 * distance2)


def expansion(X):
    return -np.abs(kernel_values(X) @ COEF - TARGET)


def one_sided(X):
    return kernel_values(X) @ COEF - TARGET


def two_layers(X):
    Y = kernel_values(X) @ COEF
    distance2 = np.sum((Y[:, None] - CENTRES) ** 2, axis=2)
    return -np.abs(np.exp(-0.2 * distance2) @ SECOND - TARGET)


def projection(X):
    gap = (kernel_values(X) @ LANDED)[:, None] - TARGETS
    return -np.sqrt(np.sum(gap**2, axis=2))


def balls(X):
    norm2 = np.diag(OWN.T @ kernel_values(POINTS.X) @ OWN)
    return 2.0 * kernel_values(X) @ OWN - norm2 - 1.0


def of_tasks(X):
    return -np.abs(kernel_values(X) @ OWN - TARGET)


SCORERS = {
    "expansion": (Expansion(POINTS, COEF, TARGET), expansion),
    "one-sided": (Expansion(POINTS, COEF, TARGET, one_sided=True), one_sided),
    "two layers": (TwoLayers(POINTS, COEF, CENTRES, SECOND, 0.2, TARGET), two_layers),
    "projection": (Projection(POINTS, LANDED, TARGETS), projection),
    "balls": (
        Balls(
            POINTS,
            STARTS,
            OWN.sum(axis=1),
            np.diag(OWN.T @ kernel_values(POINTS.X) @ OWN),
        ),
        balls,
    ),
    "tasks": (
        TaskExpansions(POINTS, STARTS, OWN.sum(axis=1), np.empty((0, T)), TARGET),
        of_tasks,
    ),
}
every_scorer = pytest.mark.parametrize(
    ("scorer", "formula"), SCORERS.values(), ids=SCORERS.keys()
)


@every_scorer
def test_scores_are_the_formula(scorer, formula):
    expected = formula(NEW)
    np.testing.assert_allclose(scorer.all(NEW), expected, rtol=1e-12, atol=1e-13)
    own = scorer.own(NEW, CLAIMS)
    np.testing.assert_allclose(
        own, expected[np.arange(7), CLAIMS], rtol=1e-12, atol=1e-13
    )


@every_scorer
def test_far_is_the_score_of_a_row_far_away(scorer, formula):
    np.testing.assert_allclose(scorer.far(), scorer.all(NOWHERE)[0], atol=1e-13)


@every_scorer
def test_a_row_scores_the_same_alone_and_after_pickling(scorer, formula):
    again = pickle.loads(pickle.dumps(scorer))
    together = scorer.own(NEW, CLAIMS)
    for i, claim in enumerate(CLAIMS):
        alone = again.own(NEW[[i]], np.array([claim]))
        np.testing.assert_allclose(alone, together[i], rtol=1e-12, atol=1e-13)


def test_many_rows_of_each_task_score_as_single_ones_do():
    """Rows of a task are scored by one product from four rows on."""
    scorer = SCORERS["expansion"][0]
    rows = np.tile(NEW, (6, 1))
    claims = np.tile(CLAIMS, 6)
    expected = np.tile(scorer.own(NEW, CLAIMS), 6)
    np.testing.assert_allclose(scorer.own(rows, claims), expected, rtol=1e-12)


def test_points_that_tasks_share_are_in_every_expansion():
    shared = np.array([N - 2, N - 1])
    alone = np.arange(N - 2)
    starts = np.append(0, np.cumsum(np.bincount(CODES[alone], minlength=T)))
    coef = OWN.sum(axis=1) * (np.arange(N) < N - 2)
    of_shared = RNG.normal(size=(2, T))
    scorer = TaskExpansions(POINTS, starts, coef, of_shared, TARGET)
    dual = OWN.copy()
    dual[shared] = of_shared
    expected = -np.abs(kernel_values(NEW) @ dual - TARGET)
    np.testing.assert_allclose(scorer.all(NEW), expected, rtol=1e-12)
    np.testing.assert_allclose(
        scorer.own(NEW, CLAIMS), expected[np.arange(7), CLAIMS], rtol=1e-12
    )


def test_a_scorer_behind_a_metric_scores_rows_as_they_are():
    X = RNG.normal(size=(40, 2)) @ np.diag([5.0, 0.1])
    metric = pooled_whitening(X, np.repeat(np.arange(4), 10), np.ones(40))
    scorer = SCORERS["expansion"][0]
    solution = behind_metric(Solution(scorer), metric)
    assert isinstance(solution.scorer, InMetric) and solution.fixed == "metric"
    expected = expansion(metric.apply(NEW))
    np.testing.assert_allclose(solution.all(NEW), expected, rtol=1e-12)
    assert behind_metric(Solution(scorer), None).scorer is scorer
    twice = behind_metric(Solution(scorer, fixed="structure"), metric)
    assert twice.fixed == "structure and metric"


def test_large_batches_are_scored_in_parts():
    scorer = SCORERS["expansion"][0]
    solution = Solution(scorer)
    rows = np.tile(NEW, (1500, 1))
    claims = np.tile(CLAIMS, 1500)
    expected = np.tile(scorer.all(NEW), (1500, 1))
    np.testing.assert_allclose(solution.all(rows), expected, rtol=1e-12)
    own = expected[np.arange(len(rows)), claims]
    np.testing.assert_allclose(solution.own(rows, claims), own, rtol=1e-12)
    assert solution.own(rows[:0], claims[:0]).shape == (0,)


def test_what_was_learned_cannot_be_changed():
    solution = Solution(SCORERS["expansion"][0], learned={"dual_coef": COEF})
    with pytest.raises(ValueError, match="read-only"):
        solution.fitted("dual_coef")[0] = 0.0
    assert solution.fitted("n_iter") == 1
