"""Views of a row as values: tail values, and their sum."""

import numpy as np
import pytest

from manyone.kernels.gram import Expansion, Points
from manyone.kernels.kernel import Kernel
from manyone.models.combined import CombinedScorer, Tail, lowest_scores
from manyone.models.guards import Guarded
from manyone.models.scale import Scale
from manyone.models.solution import Solution

SCALE = Scale(np.ones(2), np.zeros(2), np.ones(2))


class Wall:
    """A guard: rows whose first value exceeds 10 are outside, by 3."""

    def outside(self, X, codes, largest=None):
        return 3.0 * (X[:, 0] > 10.0)

    def sure(self):
        return 3.0


def view(seed):
    """A view of two tasks: its scorer and its tail."""
    rng = np.random.default_rng(seed)
    points = Points(Kernel("rbf", gamma=(0.5,)), rng.normal(size=(6, 2)))
    scorer = Expansion(points, rng.normal(size=(6, 2)), np.array([0.8, 0.6]))
    pool = np.sort(-rng.gamma(3.0, 0.1, 200))
    return scorer, Tail.of(pool, np.ones(200), SCALE, scorer.far())


def test_tail_values_count_inside_the_pool_and_go_on_below_it():
    pool = np.linspace(-1.0, -0.01, 100)
    tail = Tail.of(pool, np.ones(100), SCALE)
    values = tail.pooled_value(np.linspace(-3.0, 0.0, 301))
    assert np.all(np.diff(values) <= 1e-12), "lower scores are rarer"
    # Half of the pool scores lower than its median.
    assert tail.pooled_value(np.array([-0.5])) == pytest.approx(np.log(2.0), abs=0.02)
    beyond = tail.pooled_value(np.array([-2.0, -3.0]))
    assert beyond[1] - beyond[0] == pytest.approx(tail.slope, rel=1e-9)


def test_the_tail_of_an_exponential_law_has_its_slope():
    pool = np.sort(-np.random.default_rng(0).exponential(0.2, 20_000))
    tail = Tail.of(pool, np.ones(len(pool)), SCALE)
    assert tail.slope == pytest.approx(1.0 / 0.2, rel=0.05)
    # P(a row scores lower) = exp(-5 |score|): far below the pool, too.
    deep = np.array([-0.5, -1.0, -4.0])
    np.testing.assert_allclose(tail.pooled_value(deep), -5.0 * deep, rtol=0.05)


def test_a_combination_is_minus_the_weighted_sum_of_its_tail_values():
    first, first_tail = view(0)
    second, second_tail = view(1)
    weights = np.array([1.0, 0.3])
    views = (Solution(first), Solution(second))
    scorer = CombinedScorer(views, (first_tail, second_tail), weights)
    rng = np.random.default_rng(2)
    X = rng.normal(size=(9, 2))
    codes = rng.integers(0, 2, 9)
    expected = -first_tail.value(first.own(X, codes), codes)
    expected -= 0.3 * second_tail.value(second.own(X, codes), codes)
    np.testing.assert_allclose(scorer.own(X, codes), expected, rtol=1e-12)
    np.testing.assert_allclose(scorer.all(X)[np.arange(9), codes], expected, rtol=1e-12)
    assert scorer.far() is None


def test_only_guards_can_be_sure_that_a_row_is_unlike_all_seen():
    scorer, tail = view(0)
    assert lowest_scores(scorer) is None
    guarded = Guarded(scorer, (Wall(),), unit=2.0)
    np.testing.assert_allclose(lowest_scores(guarded), scorer.far() - 6.0)
    views = (Solution(guarded), Solution(guarded))
    combined = CombinedScorer(views, (tail, tail), np.ones(2))
    lowest = lowest_scores(combined)
    outside = combined.all(np.array([[1e3, 0.0]]))[0]
    np.testing.assert_allclose(outside, lowest, rtol=1e-9)
    mixed = CombinedScorer((Solution(guarded), Solution(scorer)), (tail, tail), [1, 1])
    assert lowest_scores(mixed) is None
