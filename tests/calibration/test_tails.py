"""Scores in bounded memory: exact in the tail, p-values never too small."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from manyone.calibration import Calibration
from manyone.calibration.tails import Tails, exact_scores, rounded_down

RNG = np.random.default_rng(0)
N = 5000
T = 3
SCORES = -RNG.gamma(2.0, size=N)
CODES = RNG.integers(0, T, N)
WEIGHT = RNG.integers(1, 3, N).astype(float)


@settings(max_examples=20, deadline=None)
@given(places=st.lists(st.integers(0, N), max_size=6), seed=st.integers(0, 9))
def test_order_and_cuts_do_not_matter(places, seed):
    whole = Tails.of(SCORES, CODES, WEIGHT, 50)
    order = np.random.default_rng(seed).permutation(N)
    parts = [
        Tails.of(SCORES[p], CODES[p], WEIGHT[p], 50)
        for p in np.split(order, sorted(places))
    ]
    merged = parts[0].merged(*parts[1:])
    for name in ("scores", "codes", "rounded", "weight"):
        np.testing.assert_allclose(
            getattr(merged, name), getattr(whole, name), rtol=1e-12
        )


def test_exact_in_the_tail_and_safe_above():
    exact = Calibration.from_scores(SCORES, CODES, WEIGHT, T, "leave-one-out")
    tails = Tails.of(SCORES, CODES, WEIGHT, 50)
    assert len(tails.scores) < 0.4 * N
    sketch = tails.calibration(T, "leave-one-out")
    new = -RNG.gamma(2.0, size=2000)
    claim = RNG.integers(0, T, 2000)
    p, q = (c.at(0.05).pvalues(new, claim) for c in (exact, sketch))
    assert np.all(q >= p - 1e-12)
    lowest = [np.sort(SCORES[t == CODES])[49] for t in range(T)]
    tail = new < np.array(lowest)[claim]
    np.testing.assert_allclose(q[tail], p[tail], rtol=1e-12)
    assert np.max(q - p) < 0.02
    np.testing.assert_allclose(
        exact.at(0.01).offsets()[0], sketch.at(0.01).offsets()[0]
    )
    np.testing.assert_array_equal(exact.counts, sketch.counts)


def test_rounding_goes_down_by_little():
    scores = np.concatenate([-np.logspace(-12, 3, 400), [0.0]])
    down = rounded_down(scores)
    assert np.all(down <= scores)
    assert np.all(scores - down <= np.abs(scores) / 64)


def test_more_tasks_keep_fewer_each():
    assert exact_scores(1) == 2**16
    assert exact_scores(10_000) == 512
