"""Gaps between rows: when an entity has been silent for too long."""

import numpy as np
import pytest

from manyone.alerts.silence import REMEMBERED, gap_pvalues, gap_table

LEVEL = 0.01


def regular(rng, n):
    return 1.0 + 0.05 * rng.uniform(-1.0, 1.0, n)


def poisson(rng, n):
    return rng.exponential(size=n)


def bursts(rng, n):
    """Ten rows at a time, then a long pause."""
    is_long = rng.uniform(size=n) < 0.1
    return rng.exponential(size=n) * np.where(is_long, 30.0, 0.2)


def shifts(rng, n):
    """Hourly by day, off at night and at the end of the week."""
    hour = np.arange(n) + rng.integers(50)
    gaps = regular(rng, n)
    gaps[hour % 10 == 9] = rng.uniform(13.5, 14.5)
    gaps[hour % 50 == 49] = rng.uniform(61.0, 63.0)
    return gaps


ARRIVALS = (regular, poisson, bursts, shifts)


def fleet(rng, arrivals, sizes):
    """Gaps of tasks with a pace of their own, and one more gap of each."""
    gaps = [np.exp(rng.normal()) * arrivals(rng, n + 1) for n in sizes]
    current = np.array([each[-1] for each in gaps])
    return gap_table([each[:-1] for each in gaps]), current


def one_by_one(gaps, current, level):
    """The same p-values, task by task and gap by gap."""
    lists = [line[~np.isnan(line)] for line in gaps]
    sizes = [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91]
    p = []
    for t, (own, c) in enumerate(zip(lists, current, strict=True)):
        n = len(own)
        if n == 0:
            p.append(1.0)
            continue
        p_own = (1 + sum(g >= c for g in own)) / (n + 1)
        if (n + 1) * level >= 1 - 1e-9:
            p.append(p_own)
            continue
        k = max(size for size in sizes if size <= n)
        wanted = c / np.mean(own[-k:])
        shares = []
        for s, other in enumerate(lists):
            ratios = [
                other[i] / np.mean(other[i - k : i]) for i in range(k, len(other))
            ]
            if s != t and ratios:
                shares.append(np.mean([ratio >= wanted for ratio in ratios]))
        value = (p_own + sum(shares)) / (len(shares) + 1)
        p.append(max(value, p_own / 3) if c <= max(own) else value)
    return np.array(p)


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_p_values_are_those_of_the_formula(arrivals):
    rng = np.random.default_rng(3)
    sizes = [0, 1, 1, 2, 5, 9, 30, 60, 98, 99, 150, *rng.integers(1, 40, 8)]
    gaps, current = fleet(rng, arrivals, sizes)
    current *= rng.choice([0.5, 1.0, 3.0, 30.0], len(current))
    np.testing.assert_allclose(
        gap_pvalues(gaps, current, LEVEL), one_by_one(gaps, current, LEVEL), rtol=1e-9
    )


@pytest.mark.parametrize("arrivals", ARRIVALS)
@pytest.mark.parametrize("sizes", [(300, 300), (99, 99), (5, 60), (1, 6)])
def test_few_gaps_are_flagged_by_chance(arrivals, sizes):
    """At most the level, by a test of its own level 1e-4 for each of the cases."""
    rng = np.random.default_rng(7)
    low, high = sizes
    flagged = []
    for _ in range(40):
        gaps, current = fleet(rng, arrivals, rng.integers(low, high + 1, 60))
        flagged.append(np.mean(gap_pvalues(gaps, current, LEVEL) <= LEVEL))
    error = np.std(flagged) / np.sqrt(len(flagged))
    assert np.mean(flagged) <= LEVEL + 3.7 * error


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_a_dead_task_is_flagged_soon(arrivals):
    rng = np.random.default_rng(11)
    gaps, _ = fleet(rng, arrivals, [REMEMBERED] * 200)
    if arrivals is regular:
        limit = 3.0 * np.median(gaps, axis=1)
    else:
        limit = 1.5 * np.quantile(gaps, 0.99, axis=1)
    flagged = gap_pvalues(gaps, limit, LEVEL) <= LEVEL
    assert flagged.mean() >= 0.99


def test_regular_tasks_with_few_gaps_are_flagged_within_three():
    rng = np.random.default_rng(13)
    gaps, _ = fleet(rng, regular, rng.integers(8, 60, 100))
    limit = 3.0 * np.nanmedian(gaps, axis=1)
    assert np.all(gap_pvalues(gaps, limit, LEVEL) <= LEVEL)


def test_p_values_fall_while_a_gap_grows_and_know_no_units():
    rng = np.random.default_rng(17)
    gaps, current = fleet(rng, poisson, rng.integers(1, 150, 40))
    p = [gap_pvalues(gaps, factor * current, LEVEL) for factor in np.geomspace(0.1, 50)]
    assert np.all(np.diff(p, axis=0) <= 1e-12)
    scale = 2.0 ** rng.integers(-20, 20, 40)
    scaled = gap_pvalues(gaps * scale[:, None], current * scale, LEVEL)
    np.testing.assert_allclose(scaled, gap_pvalues(gaps, current, LEVEL), rtol=1e-12)
    order = rng.permutation(40)
    np.testing.assert_allclose(
        gap_pvalues(gaps[order], current[order], LEVEL),
        gap_pvalues(gaps, current, LEVEL)[order],
        rtol=1e-12,
    )


def test_a_single_task_with_few_gaps_cannot_be_flagged():
    gaps = gap_table([np.ones(50)])
    assert gap_pvalues(gaps, np.array([1e9]), LEVEL)[0] == 1 / 51
    nothing = gap_table([np.empty(0), np.empty(0)])
    assert gap_pvalues(nothing, np.array([1e9, 0.0]), LEVEL).tolist() == [1.0, 1.0]


def weekly(rng, n):
    """A row a week, at some hour of Monday."""
    return 7.0 + rng.uniform(-0.4, 0.4, n)


def weekly_with_holidays(rng, n):
    """The same, but two weeks at the turn of the year."""
    gaps = weekly(rng, n)
    gaps[n - 10 :: -52] += 7.0
    return gaps


@pytest.mark.parametrize("arrivals", [weekly, weekly_with_holidays])
def test_one_of_eight_weekly_shops_is_told_within_three_gaps(arrivals):
    """Too few gaps for its own rank: 82, of 99 that 1 % takes."""
    rng = np.random.default_rng(19)
    gaps, _ = fleet(rng, arrivals, [82] * 8)
    current = 0.3 * np.nanmedian(gaps, axis=1)
    current[5] *= 10.0
    assert np.flatnonzero(gap_pvalues(gaps, current, LEVEL) <= LEVEL).tolist() == [5]
