"""Threads: what they do side by side is what one does, and what NumPy does."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from manyone import IndependentOCKSR, JointOCKSR, LinearOCKSR
from manyone.engines import AddUp
from manyone.threads import (
    add_squares,
    blas_threads,
    on_threads,
    one_blas_thread,
    solve_definite,
    solve_lower,
    threads_for_blocks,
)


@pytest.fixture(params=[2, 3])
def threads(request):
    with threadpool_limits(request.param, user_api="blas"):
        assert blas_threads() == request.param
        yield request.param
        assert blas_threads() == request.param  # whatever happened


def test_what_is_found_comes_in_the_order_of_the_parts(threads):
    def work(part):
        time.sleep(0.02 * (part % 3 == 0))  # every third is slow
        return part, blas_threads(), threading.current_thread()

    found = list(on_threads(work, range(20)))
    assert [part for part, *_ in found] == list(range(20))
    assert {limit for _, limit, _ in found} == {1}
    assert (
        len({thread for *_, thread in found} - {threading.current_thread()}) == threads
    )


@pytest.mark.parametrize("broken", [0, 7, 19])
def test_an_error_in_a_part_is_raised_and_later_parts_are_not_begun(threads, broken):
    begun = []

    def work(part):
        begun.append(part)
        if part == broken:
            raise FloatingPointError(f"part {part}")
        return part

    found = on_threads(work, range(100))
    assert [next(found) for _ in range(broken)] == list(range(broken))
    with pytest.raises(FloatingPointError, match=f"part {broken}"):
        next(found)
    assert max(begun) <= broken + threads + 1


def test_few_parts_are_in_flight(threads):
    taken, most = 0, 0

    def parts():
        nonlocal most
        for k in range(50):
            most = max(most, k + 1 - taken)
            yield k

    for _ in on_threads(lambda part: part, parts()):
        taken += 1
    assert taken == 50
    assert most <= threads + 2  # one more than threads, and the one that is handed over


def test_who_stops_early_leaves_nothing_behind(threads):
    before = threading.active_count()
    for found in on_threads(lambda part: part, range(100)):
        if found == 3:
            break
    assert threading.active_count() == before


def test_parts_of_parts_stay_on_their_thread_but_a_single_part_is_spread(threads):
    def inner(_):
        return threading.current_thread()

    def outer(_):
        return set(on_threads(inner, range(10))), threading.current_thread()

    for used, own in on_threads(outer, range(4)):
        assert used == {own}
    with threads_for_blocks():
        ((used, _),) = on_threads(outer, [0])
        assert 1 <= len(used - {threading.current_thread()}) <= threads
    with one_blas_thread():
        assert outer(0)[0] == {threading.current_thread()}


def test_settings_of_the_caller_hold_on_the_threads(threads):
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        list(on_threads(lambda part: np.ones(1) / np.zeros(1), range(3)))


MODELS = [
    JointOCKSR(landmarks=600, random_state=0),
    JointOCKSR(landmarks=40, kernel="laplacian", metric="whitened", random_state=0),
    LinearOCKSR(landmarks=30, random_state=0),
    IndependentOCKSR(landmarks=20, random_state=0),
]


@pytest.mark.parametrize(
    "model", MODELS, ids=lambda model: f"{type(model).__name__}-{model.kernel}"
)
def test_a_fit_is_the_same_to_the_last_bit_on_any_number_of_threads(model, monkeypatch):
    monkeypatch.setattr("manyone.engines.blocks._FLOATS", 2**14)  # many blocks
    rng = np.random.default_rng(0)
    task = rng.integers(0, 5, 12_000)
    X = rng.normal(size=(12_000, 3)) + rng.normal(size=(5, 3))[task]
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            fitted = model.fit(X, task=task)
            found.append((fitted.offset_, fitted.score_samples(X, task=task)))
    for offsets, scores in found[1:]:
        np.testing.assert_array_equal(offsets, found[0][0])
        np.testing.assert_array_equal(scores, found[0][1])


def test_an_error_in_a_block_of_a_fit_is_raised(threads, monkeypatch):
    found = AddUp._sums

    def broken(self, rows, blocks):
        if blocks[0].start > 5000:
            raise ZeroDivisionError("in a block")
        return found(self, rows, blocks)

    monkeypatch.setattr("manyone.engines.blocks._FLOATS", 2**12)
    monkeypatch.setattr(AddUp, "_sums", broken)
    X, task = np.random.default_rng(0).normal(size=(11_000, 2)), np.arange(11_000) % 3
    with pytest.raises(ZeroDivisionError, match="in a block"):
        JointOCKSR(landmarks=3, random_state=0).fit(X, task=task)


def test_triangular_solves_and_squares_are_those_of_numpy():
    rng = np.random.default_rng(0)
    L = np.tril(rng.normal(size=(30, 30))) + 9.0 * np.eye(30)
    K = rng.normal(size=(50, 30))
    for one, other in ((L, K), (np.asfortranarray(L), np.asfortranarray(K))):
        np.testing.assert_allclose(
            solve_lower(one, other.copy(order="K")),
            np.linalg.solve(L, K.T).T,
            rtol=1e-10,
        )
    G = np.asfortranarray(rng.normal(size=(30, 30)))
    expected = np.tril(G + K.T @ K) + np.triu(G, 1)
    add_squares(G, K)
    np.testing.assert_allclose(G, expected, rtol=1e-10)
    assert solve_lower(L, K[:0]).shape == (0, 30)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 3), (130, 20)])
def test_definite_systems_are_solved_from_one_triangle(n: int, k: int) -> None:
    rng = np.random.default_rng(n)
    F, R = rng.normal(size=(n, n)), np.asfortranarray(rng.normal(size=(n, k)))
    M, given = F @ F.T + n * np.eye(n), R.copy()
    upper = np.triu(M) + np.tril(
        np.full((n, n), np.nan), -1
    )  # the lower triangle is not read
    np.testing.assert_allclose(
        solve_definite(upper, R), np.linalg.solve(M, R), rtol=1e-10
    )
    np.testing.assert_array_equal(R, given)
    np.testing.assert_allclose(
        np.triu(upper).T @ np.triu(upper), M, rtol=1e-10
    )  # its factor


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
