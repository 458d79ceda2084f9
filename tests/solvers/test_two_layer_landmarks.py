"""Two layers on centres: slopes by differences; all rows as centres are exact."""

import numpy as np
import pytest

from manyone.solvers.nonlinear import reduced_objective, solve_nonlinear
from manyone.solvers.sparse import (
    SparseObjective,
    solve_sparse,
    sparse_problem,
    sparse_strengths,
)
from manyone.solvers.two_layer_landmarks import landmark_objective
from manyone.solvers.two_layers import Descent, two_layer_problem

RNG = np.random.default_rng(0)
N = 60
M = 12
T = 4
CODES = np.arange(N) % T
PHI = RNG.normal(size=(N, M)) / 3 + np.eye(T, M)[CODES]
START = 0.3 * RNG.normal(size=(M, T))
WEIGHT = RNG.uniform(0.5, 2.0, N)
PROBLEM = two_layer_problem(
    PHI, np.ones(N), np.eye(T)[CODES], WEIGHT, CODES, 0.1, theta=1.3
)
CENTRES = np.array([0, 3, 8, 9, 20, 33, 34, 35, 60])
EVERY = np.arange(N + 1)


@pytest.mark.parametrize("sparse", [False, True])
def test_slopes_are_differences(sparse):
    def evaluate(W, theta):
        if sparse:
            return SparseObjective(sparse_problem(PROBLEM), 0.05, 0.05, CENTRES)(
                W, theta
            )
        return landmark_objective(PROBLEM, 0.7, CENTRES, W, theta)

    _, gradient, by_log_theta = evaluate(START, 1.3)
    step = RNG.normal(size=START.shape)
    h = 1e-5
    along = (
        evaluate(START + h * step, 1.3)[0] - evaluate(START - h * step, 1.3)[0]
    ) / (2 * h)
    assert np.vdot(gradient, step) == pytest.approx(along, rel=1e-5)
    along = (
        evaluate(START, 1.3 * np.exp(h))[0] - evaluate(START, 1.3 * np.exp(-h))[0]
    ) / (2 * h)
    assert by_log_theta == pytest.approx(along, rel=1e-4)


def test_all_rows_as_centres():
    """The same objective and slopes, and the same minimum."""
    buffers = np.empty((2, N + 1, N + 1))
    one = landmark_objective(PROBLEM, 0.7, EVERY, START, 1.3)
    other = reduced_objective(PROBLEM, 0.7, buffers, START, 1.3)
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-7)
    how = Descent(1e-9, 500)
    few = solve_nonlinear(PROBLEM, 0.7, how, EVERY)
    all_rows = solve_nonlinear(PROBLEM, 0.7, how)
    assert few.objective_path[-1] == pytest.approx(
        all_rows.objective_path[-1], rel=1e-5
    )
    np.testing.assert_allclose(few.B, all_rows.B, atol=1e-2)


def test_all_rows_as_centres_of_a_lasso():
    problem = sparse_problem(PROBLEM)
    strengths = sparse_strengths(problem, "auto", "auto")
    assert strengths == pytest.approx(sparse_strengths(problem, "auto", "auto", EVERY))
    all_rows = solve_sparse(problem, *strengths, Descent(1e-6, 0))
    few = solve_sparse(problem, *strengths, Descent(1e-6, 0), EVERY)
    assert few.objective_path[-1] == pytest.approx(
        all_rows.objective_path[-1], rel=1e-6
    )
    np.testing.assert_allclose(few.structure, all_rows.structure, atol=1e-5)


def test_more_centres_fit_better():
    """Functions over more centres include those over fewer, at every first layer."""
    values = [
        landmark_objective(PROBLEM, 0.7, EVERY[:q], START, 1.3)[0]
        for q in (8, 20, 40, 61)
    ]
    assert np.all(np.diff(values) < 0)
