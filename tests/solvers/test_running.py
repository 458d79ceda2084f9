"""How iterations run: what is solved while other threads run is what NumPy solves."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from manyone.solvers.running import solve_definite


@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 3), (130, 20)])
def test_definite_systems_are_solved_from_one_triangle(n: int, k: int) -> None:
    rng = np.random.default_rng(n)
    F, R = rng.normal(size=(n, n)), np.asfortranarray(rng.normal(size=(n, k)))
    M, given = F @ F.T + n * np.eye(n), R.copy()
    upper = np.triu(M) + np.tril(np.full((n, n), np.nan), -1)  # the lower triangle is not read
    np.testing.assert_allclose(solve_definite(upper, R), np.linalg.solve(M, R), rtol=1e-10)
    np.testing.assert_array_equal(R, given)
    np.testing.assert_allclose(np.triu(upper).T @ np.triu(upper), M, rtol=1e-10)  # its factor


def test_indefinite_systems_have_no_answer() -> None:
    assert solve_definite(np.diag([1.0, -1.0]), np.ones((2, 1))) is None


def test_threads_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(0)
    F, R = rng.normal(size=(20, 90, 90)), rng.normal(size=(90, 5))
    systems = F @ F.transpose(0, 2, 1) + 90.0 * np.eye(90)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda M: solve_definite(M.copy(), R), systems))
    for M, X in zip(systems, found, strict=True):
        np.testing.assert_array_equal(X, solve_definite(M.copy(), R))
