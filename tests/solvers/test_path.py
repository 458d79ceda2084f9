"""A grid of ridges from one eigendecomposition, against refits one by one."""

import numpy as np
import pytest

from manyone.kernels import resolve_kernel
from manyone.solvers.path import left_out_gaps

ALPHAS = np.array([1e-4, 0.03, 2.0])


def problem():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2, 3], [6, 9, 6, 1])
    X = rng.normal(size=(len(codes), 3)) + codes[:, None]
    weight = rng.integers(1, 3, len(codes)).astype(float)
    weight[-1] = 1.0
    outlier = np.zeros(len(codes), dtype=bool)
    outlier[2] = True
    R = np.eye(4)[codes] * ~outlier[:, None]
    K = resolve_kernel("laplacian", X, weight=weight).gram(X)
    return K, R, codes, weight


def refit(K, R, weight, alpha):
    kept = weight > 0
    G = K[np.ix_(kept, kept)] + alpha * np.diag(1 / weight[kept])
    return K[:, kept] @ np.linalg.solve(G, R[kept])


@pytest.mark.parametrize("whole_tasks", [False, True])
def test_left_out_gaps_equal_refits(whole_tasks):
    K, R, codes, weight = problem()
    groups = [np.flatnonzero(codes == t) for t in range(4)] if whole_tasks else None
    gaps = left_out_gaps(K.copy(), R, ALPHAS, weight, groups)
    for k, alpha in enumerate(ALPHAS):
        for i in range(len(codes)):
            for t in range(4):
                left = weight.copy()
                if whole_tasks and R[i, t] == 0:
                    left[codes == codes[i]] = 0
                else:
                    left[i] -= 1
                if left @ R[:, t] == 0:
                    continue  # nothing is left of the task
                f = refit(K, R, left, alpha)[:, t]
                gap = f[i] - (left * R[:, t]) @ f / (left @ R[:, t])
                assert gaps[k, i, t] == pytest.approx(gap, abs=1e-8)


@pytest.mark.parametrize("whole_tasks", [False, True])
def test_a_grid_equals_its_ridges_one_by_one(whole_tasks):
    K, R, codes, weight = problem()
    groups = [np.flatnonzero(codes == t) for t in range(4)] if whole_tasks else None
    alphas = np.geomspace(1e-6, 1e2, 20)
    gaps = left_out_gaps(K.copy(), R, alphas, weight, groups)
    for k, alpha in enumerate(alphas):
        alone = left_out_gaps(K.copy(), R, alphas[k : k + 1], weight, groups)
        np.testing.assert_allclose(gaps[k], alone[0], atol=1e-8, err_msg=str(alpha))


def test_rounding_below_zero_is_cut_off():
    K = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-13]])
    ridge = np.array([1e-14])
    R = np.eye(2)
    exact = left_out_gaps(np.ones((2, 2)), R, ridge, np.ones(2))
    np.testing.assert_allclose(left_out_gaps(K, R, ridge, np.ones(2)), exact, atol=1e-6)
