"""Moved landmarks: slopes by finite differences, gains by the ridge solver."""

import numpy as np
from scipy import sparse
from scipy.optimize import check_grad

from manyone.solvers.landmark_positions import (
    position_objective,
    solve_landmark_positions,
)
from manyone.solvers.two_layers import gram

RNG = np.random.default_rng(0)
CODES = np.repeat([0, 1, 2, -1], 50)
X = RNG.normal(size=(200, 3)) + 0.7 * CODES[:, None]
WEIGHT = RNG.uniform(0.5, 2.0, size=200)


def loss(Z, alpha):
    """The objective by least squares on stacked rows."""
    R = np.sqrt(WEIGHT)[:, None] * (CODES[:, None] == np.arange(3))
    K = np.sqrt(WEIGHT)[:, None] * gram(X, Z, 1.0)
    L = np.linalg.cholesky(gram(Z, Z, 1.0))
    stacked = np.vstack([K, np.sqrt(alpha) * L.T])
    target = np.vstack([R, np.zeros((len(Z), 3))])
    found = np.linalg.lstsq(stacked, target, rcond=None)[0]
    return np.sum((stacked @ found - target) ** 2)


def test_value_and_slope():
    root = np.sqrt(WEIGHT / WEIGHT.sum())
    responses = sparse.csr_array(root[:, None] * (CODES[:, None] == np.arange(3)))
    Z = X[::25].ravel()
    given = X, root, responses, 0.3 / WEIGHT.sum()
    value, slope = position_objective(Z, *given)
    np.testing.assert_allclose(value * WEIGHT.sum(), loss(X[::25], 0.3), rtol=1e-8)
    off = check_grad(
        lambda z: position_objective(z, *given)[0],
        lambda z: position_objective(z, *given)[1],
        Z,
    )
    assert off < 1e-5 * np.linalg.norm(slope)


def test_moved_landmarks_serve_better_than_as_many_rows():
    moved = solve_landmark_positions(X[::25], X, CODES, WEIGHT, 3, 0.3)
    others = [loss(X[RNG.choice(200, 8, replace=False)], 0.3) for _ in range(20)]
    assert loss(moved, 0.3) < min(others)


def test_landmarks_on_one_spot_are_no_error():
    moved = solve_landmark_positions(np.zeros((4, 3)), X, CODES, WEIGHT, 3, 0.0)
    assert np.isfinite(moved).all()
