"""Chance is counted exactly: other formulas and simulations give the same."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.signal import lfilter

from manyone.alerts.evidence import (
    ENOUGH_FOR_DEPTH,
    STANDS_OUT,
    Runs,
    alarm_law,
    chance_of,
    chance_of_rows,
    depth_pvalues,
    evidence,
    highest_rate,
    lowest_evidence,
    most_by_chance,
    total_law,
)


def one_task(depth, reference):
    """P-values of distances where there is one task."""
    tasks = (np.zeros(len(part), dtype=int) for part in (depth, reference))
    return depth_pvalues(depth, next(tasks), reference, next(tasks))


@pytest.mark.parametrize(
    ("m", "n", "rate"), [(40, 30, 0.1), (1, 19, 0.05), (7, 400, 0.05)]
)
def test_number_of_rows_below_a_left_out_score_is_negative_hypergeometric(m, n, rate):
    # Alarms: new rows met before the k-th lowest of n left-out ones in one ordering of
    # all.
    k = int(rate * (n + 1) + 1e-9)
    law = alarm_law(m, n, k / (n + 1))
    np.testing.assert_allclose(
        law, stats.nhypergeom(n + m, m, k).pmf(np.arange(m + 1)), atol=1e-12
    )


def test_law_is_that_of_thresholds_set_on_left_out_rows():
    rng = np.random.default_rng(0)
    left_out = np.sort(rng.normal(size=(20_000, 25)))
    new = rng.normal(size=(20_000, 12))
    alarms = (new < left_out[:, [1]]).sum(axis=1)  # the second lowest: 2 / 26
    seen = np.bincount(alarms, minlength=13) / len(alarms)
    law = alarm_law(12, 25, 2 / 26)
    assert np.abs(np.cumsum(seen) - np.cumsum(law)).max() < 1.7 / np.sqrt(len(alarms))


def test_tasks_that_borrow_raise_at_most_what_their_lowest_row_allows():
    assert highest_rate(0.05, 10) == pytest.approx(1 / 11)
    assert highest_rate(0.05, 0) == 1.0
    assert highest_rate(0.1, 25) == 0.1
    assert alarm_law(5, 10, 0.0).tolist() == [1, 0, 0, 0, 0, 0]
    assert alarm_law(2, 10, 1.0).tolist() == [0, 0, 1]


def test_chance_of_rows_is_the_tail_of_the_law():
    law = alarm_law(40, 30, 0.1)
    for number in (0, 1, 7, 40):
        tail = chance_of_rows(number, 40, 30, 0.1)
        assert tail == pytest.approx(chance_of(number, law), rel=1e-9)


def test_no_more_alarms_by_chance_than_the_level_allows():
    for law in (alarm_law(40, 30, 0.1), alarm_law(1000, 1000, 0.05), np.ones(1)):
        most = most_by_chance(law, 0.025)
        assert law[most + 1 :].sum() <= 0.025
        assert law[most:].sum() > 0.025


def test_total_is_the_law_of_the_sum():
    laws = [
        alarm_law(m, n, highest_rate(0.1, n))
        for m, n in ((3, 10), (600, 50), (5, 30), (300, 99))
    ]
    total = total_law(laws)
    count = np.arange(len(total))
    means = [law @ np.arange(len(law)) for law in laws]
    variances = [
        law @ np.arange(len(law)) ** 2 - e**2
        for law, e in zip(laws, means, strict=True)
    ]
    assert len(total) == 909 and total.sum() == pytest.approx(1)
    assert total @ count == pytest.approx(sum(means))
    assert total @ count**2 - (total @ count) ** 2 == pytest.approx(sum(variances))
    assert total_law([]).tolist() == [1.0]


def test_evidence_is_seldom_small_for_normal_rows():
    rng = np.random.default_rng(1)
    found = []
    for _ in range(3000):
        left_out = np.sort(rng.normal(size=60))
        new = rng.normal(size=15)
        p = (1 + np.searchsorted(left_out, new)) / 61
        low = p[p <= 0.1]
        found.append(evidence(low, 15, 60) if len(low) else 1.0)
    for level in (0.2, 0.05, 0.01):
        assert np.mean(np.array(found) <= level) <= level + 2 * np.sqrt(
            level / len(found)
        )


def test_evidence_grows_with_count_and_with_depth():
    assert evidence(np.full(5, 0.04), 20, 100) < evidence(np.full(2, 0.04), 20, 100)
    assert evidence(np.array([1e-6, 0.04]), 20, 100) < evidence(
        np.array([0.04, 0.04]), 20, 100
    )
    # One deep row counts nearly as much among others that are not.
    assert evidence(np.array([1e-6, 0.04, 0.05]), 20, 100) < 4 * evidence(
        np.array([1e-6]), 20, 100
    )
    assert chance_of(0, alarm_law(5, 30, 0.1)) == pytest.approx(1.0)


def test_rows_that_are_chosen_by_looking_do_not_make_more_evidence():
    rng = np.random.default_rng(2)
    for _ in range(200):
        p = rng.uniform(size=16)
        chosen = np.sort(p)[: rng.integers(1, 17)]
        assert evidence(chosen, 16, 40) >= evidence(p, 16, 40) - 1e-15


def in_runs(rng, size, likeness):
    """P-values in time; their normal scores are correlated with those before."""
    noise = rng.normal(size=size + 50) * np.sqrt(1.0 - likeness**2)
    return stats.norm.cdf(lfilter([1.0], [1.0, -likeness], noise)[50:])


def test_strongest_run_is_the_best_of_all_windows():
    rng = np.random.default_rng(0)
    left_out = in_runs(rng, 3000, 0.5)
    runs = Runs([left_out])
    for _ in range(50):
        p = in_runs(rng, 30, 0.7)
        sums = [
            -np.log(p[begin:end]).sum() - 2.0 * (end - begin)
            for begin in range(30)
            for end in range(begin + 1, 31)
        ]
        found = runs.pvalues(p).min(initial=1.0)
        if max(sums) <= 0.0:
            assert found == 1.0
            continue
        # A single row that is as strong.
        alone = runs.pvalues(np.array([np.exp(-2.0 - max(sums))]))
        assert found == pytest.approx(alone[0], rel=1e-6)


def test_runs_of_independent_rows_fall_off_as_theory_says():
    # Karlin and Altschul: the mean of exp(a (-log p - 2)) is 1, so exp(2 a) (1 - a) =
    # 1.
    scale = brentq(lambda a: np.exp(2.0 * a) * (1.0 - a) - 1.0, 0.1, 0.999)
    rng = np.random.default_rng(1)
    runs = Runs(rng.uniform(size=(50, 4000)))
    strength = np.array([6.0, 12.0])
    weak, strong = np.concatenate([runs.pvalues(np.exp([-2.0 - s])) for s in strength])
    assert np.log(weak / strong) / 6.0 == pytest.approx(scale, rel=0.05)


@pytest.mark.parametrize("likeness", [0.0, 0.5, 0.9])
def test_runs_of_normal_rows_seldom_stand_out(likeness):
    """Tables of six tasks: ranks of runs, of many runs and of distances."""
    rng = np.random.default_rng(2)
    found = []
    by_rows = []
    for _ in range(60):
        runs = Runs([in_runs(rng, 300, likeness) for _ in range(6)])
        for _ in range(10):
            for _ in range(6):
                p = in_runs(rng, 100, likeness)
                in_run = runs.pvalues(p)
                least = lowest_evidence(in_run, 100, 300)
                found.append(18 * min(least, evidence(in_run, 100, 300)))
                by_rows.append(12 * evidence(p, 100, 300))
    tables = len(found) / 6
    assert np.sum(np.array(found) < STANDS_OUT) / tables <= 0.05
    # They are used, and rows taken as independent would be far from that.
    assert 0.1 < np.sum(np.array(found) < 1.0) / tables < 1.5
    if likeness == 0.9:
        assert np.sum(np.array(by_rows) < STANDS_OUT) / tables > 0.1


def test_rows_that_are_chosen_by_looking_do_not_make_stronger_runs():
    rng = np.random.default_rng(3)
    runs = Runs([in_runs(rng, 1000, 0.5)])
    for _ in range(200):
        p = in_runs(rng, 40, 0.5)
        chosen = np.where(rng.uniform(size=40) < 0.6, p, 1.0)
        lowest = runs.pvalues(chosen).min(initial=1.0)
        assert lowest >= runs.pvalues(p).min(initial=1.0) - 1e-15


def test_few_rows_tell_nothing_of_runs():
    sequence = np.random.default_rng(4).uniform(size=100)
    runs = Runs([sequence])
    assert (
        runs.are_comparable(300, 20)
        and runs.are_comparable(80, 60)
        and not runs.are_comparable(80, 20)
    )
    assert not Runs([]).are_comparable(300, 200)
    assert Runs([sequence]).pvalues(np.ones(3)).tolist() == []
    assert lowest_evidence(np.empty(0), 10, 30) == 1.0


def test_depth_counts_beyond_all_left_out_rows_only():
    rng = np.random.default_rng(5)
    reference = rng.gamma(3, size=300)
    largest = reference.max()
    p = one_task(np.array([0.0, largest, 1.5 * largest, 9 * largest]), reference)
    assert p[:2].tolist() == [1.0, 1.0]
    assert p[3] < p[2] <= 1 / 301
    # No rows, or all alike: nothing is told.
    assert one_task(np.array([99.0]), reference[:0]).tolist() == [1.0]
    assert one_task(np.array([99.0]), np.ones(300)).tolist() == [1.0]


def test_a_task_with_a_heavy_tail_is_not_judged_by_the_others_alone():
    rng = np.random.default_rng(7)
    task = np.repeat(np.arange(5), 40)
    heavy = task == 0
    found = []
    for _ in range(200):
        draws = np.where(heavy, rng.standard_t(2, 200), rng.normal(size=200))
        new = np.where(heavy, rng.standard_t(2, 200), rng.normal(size=200))
        p = depth_pvalues(np.abs(new), task, np.abs(draws), task)
        found.append(200 * p.min() < 0.01)
    # Two standard errors of 1 % are 1.4 %.
    assert np.mean(found) <= 0.024
    # A row far beyond all tasks is still found where they are alike.
    alike = np.abs(rng.normal(size=200))
    far = depth_pvalues(np.array([40.0]), np.array([3]), alike, task)
    assert far[0] < 1e-4


@pytest.mark.parametrize(
    "rows", [stats.norm(), stats.expon(), stats.t(2), stats.lognorm(1.0)]
)
@pytest.mark.parametrize("trained", [ENOUGH_FOR_DEPTH, 30, 300])
def test_depth_does_not_exaggerate(rows, trained):
    """How often the largest of a hundred normal rows is called rare."""
    rng = np.random.default_rng(6)
    smallest = []
    for _ in range(400):
        reference = np.abs(rows.rvs(trained, random_state=rng))
        new = np.abs(rows.rvs(100, random_state=rng))
        smallest.append(100 * one_task(new, reference).min())
    for level in (0.05, 0.01):
        share = np.mean(np.array(smallest) <= level)
        assert share <= level + 2 * np.sqrt(level / 400)
