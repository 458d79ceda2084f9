"""Threads: what they do side by side is what one does, and what NumPy does."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from manyone import JointOCKSR, LinearOCKSR
from manyone.engines import AddUp
from manyone.threads import (
    blas_threads,
    on_threads,
    one_blas_thread,
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
    taken = 0
    most = 0

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
]


@pytest.mark.parametrize(
    "model", MODELS, ids=lambda model: f"{type(model).__name__}-{model.kernel}"
)
def test_a_fit_is_the_same_to_the_last_bit_on_any_number_of_threads(model, monkeypatch):
    monkeypatch.setattr("manyone.data.blocks._FLOATS", 2**14)  # many blocks
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
    add_up = AddUp._sums
    calls = []

    def broken(self, rows):
        calls.append(len(rows.codes))
        if len(calls) > 5:
            raise ZeroDivisionError("in a block")
        return add_up(self, rows)

    monkeypatch.setattr("manyone.data.blocks._FLOATS", 2**12)
    monkeypatch.setattr(AddUp, "_sums", broken)
    X = np.random.default_rng(0).normal(size=(11_000, 2))
    task = np.arange(11_000) % 3
    with pytest.raises(ZeroDivisionError, match="in a block"):
        JointOCKSR(landmarks=3, random_state=0).fit(X, task=task)


@pytest.mark.parametrize("m", [1, 30, 64, 200])
def test_triangular_solves_are_those_of_numpy(m):
    rng = np.random.default_rng(0)
    L = np.tril(rng.normal(size=(m, m))) + 3.0 * m * np.eye(m)
    K = rng.normal(size=(50, m))
    expected = np.linalg.solve(L, K.T).T
    above = L + np.triu(np.full((m, m), np.nan), 1)  # the upper triangle is not read
    for factor in (above, np.asfortranarray(above)):
        for order in ("C", "F"):
            X = solve_lower(factor, K.copy(order=order))
            np.testing.assert_allclose(X, expected, rtol=1e-10)
    assert solve_lower(L, K[:0]).shape == (0, m)


def test_triangular_solves_are_accurate_where_the_factor_is_nearly_singular():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(150, 2))
    distance = np.square(points[:, None] - points).sum(axis=2)
    L = np.linalg.cholesky(np.exp(-distance / 4) + 1e-11 * np.eye(150))
    K = np.exp(-np.square(rng.normal(size=(40, 1, 2)) - points).sum(axis=2) / 4)
    X = solve_lower(L, K.copy())
    np.testing.assert_allclose(X @ L.T, K, atol=1e-12)


def test_one_blas_thread_lasts_until_the_last_of_two_threads_has_left(threads):
    entered = threading.Barrier(2, timeout=20)
    first_left = threading.Event()
    seen = []

    def first():
        with one_blas_thread():
            entered.wait()
        first_left.set()

    def second():
        with one_blas_thread():
            entered.wait()
            first_left.wait(20)
            seen.append(blas_threads())

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(first), pool.submit(second)]:
            done.result()
    assert seen == [1]
    assert blas_threads() == threads


def test_an_error_under_one_blas_thread_restores_the_threads(threads):
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert blas_threads() == threads
