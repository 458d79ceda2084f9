"""Chance is counted exactly: other formulas and simulations give the same."""

import numpy as np
import pytest
from scipy import stats

from manyone.report.chance import (
    alarm_law,
    attained,
    band_of,
    chance_of,
    evidence,
    tail_pvalues,
    total_law,
)


@pytest.mark.parametrize(
    ("m", "n", "rate"), [(40, 30, 0.1), (1, 19, 0.05), (7, 400, 0.05)]
)
def test_number_of_rows_below_a_left_out_score_is_negative_hypergeometric(m, n, rate):
    # Alarms: new rows met before the k-th lowest of n left-out ones in one ordering of all.
    k = int(rate * (n + 1) + 1e-9)
    law = alarm_law(m, n, attained(rate, n))
    np.testing.assert_allclose(
        law, stats.nhypergeom(n + m, m, k).pmf(np.arange(m + 1)), atol=1e-12
    )


def test_law_is_that_of_thresholds_set_on_left_out_rows():
    rng = np.random.default_rng(0)
    left_out, new = (
        np.sort(rng.normal(size=(20_000, 25))),
        rng.normal(size=(20_000, 12)),
    )
    alarms = (new < left_out[:, [1]]).sum(axis=1)  # the second lowest: 2 / 26
    seen = np.bincount(alarms, minlength=13) / len(alarms)
    law = alarm_law(12, 25, attained(0.1, 25))
    assert np.abs(np.cumsum(seen) - np.cumsum(law)).max() < 1.7 / np.sqrt(len(alarms))


def test_no_alarm_where_the_rate_cannot_be_attained():
    assert attained(0.05, 10) == 0.0
    assert alarm_law(5, 10, 0.0).tolist() == [1, 0, 0, 0, 0, 0]
    assert alarm_law(2, 10, 1.0).tolist() == [0, 0, 1]


def test_band_leaves_out_what_is_promised_at_most():
    for law in (alarm_law(40, 30, 0.1), alarm_law(1000, 1000, 0.05), np.ones(1)):
        low, high = band_of(law)
        assert law[:low].sum() <= 0.025 and law[high + 1 :].sum() <= 0.025
        assert law[: low + 1].sum() > 0.025 or low == 0
        assert law[high:].sum() > 0.025


def test_total_is_the_law_of_the_sum():
    laws = [
        alarm_law(m, n, attained(0.1, n))
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
        left_out, new = np.sort(rng.normal(size=60)), rng.normal(size=15)
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


def test_tail_goes_on_where_ranks_end():
    rng = np.random.default_rng(2)
    left_out = np.sort(-rng.gamma(3, size=300))
    scores = np.array(
        [0.0, left_out[100], left_out[0], left_out[0] - 1, left_out[0] - 10]
    )
    p = tail_pvalues(scores, left_out)
    assert p[:3].tolist() == [1.0, 102 / 301, 2 / 301]
    assert p[4] < p[3] <= 1 / 301
    # Too few rows, or all alike: ranks only.
    assert tail_pvalues(np.array([-99.0]), left_out[:20]).tolist() == [1 / 21]
    assert tail_pvalues(np.array([-99.0]), np.full(300, -1.0)).tolist() == [1 / 301]


def test_weights_are_rows_of_the_same_score():
    rng = np.random.default_rng(2)
    left_out, weight = np.sort(-rng.gamma(3, size=300)), rng.integers(1, 4, size=300)
    scores = np.append(-rng.gamma(3, size=50), left_out[0] - [0.1, 1.0, 10.0])
    found = tail_pvalues(scores, left_out, weight.astype(float))
    copies = tail_pvalues(scores, np.repeat(left_out, weight))
    inside = scores >= left_out[0]
    np.testing.assert_allclose(found[inside], copies[inside], rtol=1e-12)
    np.testing.assert_allclose(
        found, copies, rtol=0.1
    )  # a tail through about as many scores


@pytest.mark.parametrize(
    "rows", [stats.norm(), stats.expon(), stats.t(3), stats.lognorm(1.0)]
)
def test_tail_does_not_exaggerate(rows):
    rng = np.random.default_rng(3)
    levels = np.logspace(-6, 0, 1001)
    true = {1e-2: [], 1e-3: [], 1e-4: []}
    for _ in range(200):
        p = tail_pvalues(-rows.isf(levels), np.sort(-rows.rvs(300, random_state=rng)))
        for level, found in true.items():
            found.append(levels[p <= level].max(initial=0.0))
    for (
        level,
        found,
    ) in true.items():  # how often normal rows are given a p-value so low
        assert np.mean(found) < 1.7 * level
