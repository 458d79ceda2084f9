"""The promise itself: simulated false-alarm rates against the rate that was asked for.

The promise is an average over draws of the training set, so each simulated data set
contributes one number per task, and the band is that of their mean.
"""

import numpy as np
import pytest
from scipy.stats import binom

from manyone import IndependentOCKSR, JointOCKSR
from manyone.datasets import load_mnist
from manyone.estimators import METHODS as REGISTRY

pytestmark = [
    pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning"),
    pytest.mark.slow,
]
RATES = (0.05, 0.1, 0.2)
DATA_SETS = 300
METHODS = pytest.mark.parametrize("method", [IndependentOCKSR, JointOCKSR])


def simulate(seed, n_rows, n_tasks=4, n_test=1):
    """Related tasks: centres from one population, rows skewed about them."""
    rng = np.random.default_rng(seed)
    centres = 1.5 * rng.normal(size=(n_tasks, 3))

    def draw(k):
        noise = rng.normal(size=(n_tasks, k, 3)) * rng.gamma(
            2.0, 0.5, size=(n_tasks, k, 1)
        )
        return (centres[:, None] + noise).reshape(-1, 3), np.repeat(
            np.arange(n_tasks), k
        )

    return draw(n_rows), draw(n_test)


def alarms(method, n_rows, in_sample=False, data_sets=DATA_SETS):
    """Alarms on one fresh normal row per task, (data sets, T) for each rate."""
    found = {rate: [] for rate in RATES}
    for seed in range(data_sets):
        (X, task), (Z, claim) = simulate(seed, n_rows)
        model = method().fit(X, task=task)
        if in_sample:
            model.calibrate(X, task=task)
        for rate in RATES:
            found[rate].append(model.recalibrate(rate).predict(Z, task=claim) == -1)
    return {rate: np.array(rows) for rate, rows in found.items()}


def too_many(alarm, rate):
    """Whether false alarms are outside the binomial 99.9 % band of the promise."""
    return alarm.sum() > binom.ppf(0.999, alarm.size, rate)


@METHODS
@pytest.mark.parametrize("n_rows", [6, 25, 80])
def test_rate_holds_for_each_task_and_over_all(method, n_rows):
    for rate, alarm in alarms(method, n_rows).items():
        assert not too_many(alarm, rate), f"pooled rate {alarm.mean():.3f} > {rate}"
        for t in range(alarm.shape[1]):
            assert not too_many(alarm[:, t], rate)
        # Nor is the rate held by never raising an alarm: it comes near what n_t rows
        # can resolve.
        resolvable = np.floor(rate * (n_rows + 1) + 1e-9) / (n_rows + 1)
        assert alarm.sum() >= binom.ppf(0.001, alarm.size, 0.75 * resolvable)
        if resolvable == 0:  # pooled over tasks: some alarms all the same
            assert alarm.mean() > rate / 5


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REGISTRY.keys() - {"OCKSR", "C-OCKSR"}))
def test_rate_holds_for_every_other_method(name):
    few = 10 if REGISTRY[name].can.folds else 30  # refits take their time
    for rate, alarm in alarms(REGISTRY[name], 20, data_sets=few).items():
        assert not too_many(alarm, rate), f"rate {alarm.mean():.3f} > {rate}"
        assert alarm.sum() >= binom.ppf(0.001, alarm.size, rate / 2)


@METHODS
def test_in_sample_thresholds_fail_the_same_test(method):
    found = alarms(method, 6, in_sample=True)
    assert all(too_many(alarm, rate) for rate, alarm in found.items() if rate >= 0.1)


@METHODS
@pytest.mark.parametrize("n_rows", [6, 25])
def test_exact_pvalues_are_super_uniform(method, n_rows):
    p = []
    for seed in range(DATA_SETS):
        (X, task), (Z, claim) = simulate(seed, n_rows)
        p.append(method(gamma=0.3).fit(X, task=task).pvalues(Z, task=claim, exact=True))
    p = np.array(p)
    for level in np.arange(1, n_rows + 1) / (n_rows + 1):
        hits = p <= level + 1e-12
        # Without ties the law is exactly uniform on k/(n + 1): both sides are tested.
        assert binom.ppf(0.0005, hits.size, level) <= hits.sum()
        assert hits.sum() <= binom.ppf(0.9995, hits.size, level)


@METHODS
def test_measured_rate_on_real_digits(method):
    digits = load_mnist()
    rates = []
    for seed in range(40):  # the rate of one draw scatters by two points
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(digits.data))
        train = np.concatenate(
            [order[digits.target[order] == t][:20] for t in range(10)]
        )
        test = np.concatenate(
            [order[digits.target[order] == t][20:320] for t in range(10)]
        )
        model = method(alarm_rate=0.1).fit(
            digits.data[train], task=digits.target[train]
        )
        alarm = model.predict(digits.data[test], task=digits.target[test]) == -1
        rates.append(alarm.mean())
    assert 0.08 <= np.mean(rates) <= 0.105, f"measured rates {np.round(rates, 3)}"


def test_whitened_metric_keeps_the_promise():
    counts = []
    for seed in range(60):
        (X, task), (Z, claim) = simulate(seed, 30, n_test=5)
        model = JointOCKSR(metric="whitened", alarm_rate=0.1).fit(X, task=task)
        counts.append(model.predict(Z, task=claim) == -1)
    rate = np.mean(counts)
    assert 0.05 < rate < 0.13


def test_exact_pvalues_are_refused_where_they_would_not_be_exact(fleet):
    """A whitener has seen the training rows, not the new one."""
    X, task = fleet
    model = JointOCKSR(metric="whitened").fit(X, task=task)
    for call in (model.pvalues,):
        with pytest.raises(ValueError, match="exact=False"):
            call(X, task=task, exact=True)
