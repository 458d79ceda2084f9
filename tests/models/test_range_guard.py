"""Values outside everything ever seen."""

import numpy as np

from manyone.models.range_guard import RangeGuard


def test_guarded_scores_against_the_formula_row_by_row():
    rng = np.random.default_rng(0)
    lower, upper = -rng.uniform(size=3), rng.uniform(size=3)
    below, above = np.array([0.5, np.inf, 0.2]), np.array([0.5, 0.1, np.inf])
    guard = RangeGuard(lower, upper, below, above, floor=np.array([-3.0]), reach=10.0)
    X, scores = rng.normal(scale=2.0, size=(200, 3)), -rng.uniform(0, 4, size=200)
    margins = np.maximum((lower - X) / below, (X - upper) / above).max(axis=1)
    fall = np.clip(margins - 1, 0, 1) * np.maximum(scores + 3.0, 0.0)
    expected = scores - fall - 10.0 * np.clip((margins - 2) / 50, 0, 1)
    assert np.array_equal(guard.guarded(scores, np.full(200, -3.0), X), expected)
    inside = np.tile((lower + upper) / 2, (200, 1))
    assert np.array_equal(guard.guarded(scores, np.full(200, -3.0), inside), scores)
