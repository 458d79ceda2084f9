"""Estimated strengths of what tasks have in common, against simulations and refits."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import polygamma

from manyone import IndependentOCKSR, TaskWhitener
from manyone.metric import strength
from manyone.metric.shrinkage import task_whitenings


def draws(n_tasks, n_rows, d, mixing, seed=0):
    """Rows about a centre for each task, mixed by one matrix or one for each."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_tasks), n_rows)
    mix = np.broadcast_to(mixing, (n_tasks, d, d))[codes]
    noise = rng.normal(size=(len(codes), d))
    centre = 3.0 * rng.normal(size=(n_tasks, d))
    return centre[codes] + np.einsum("ni,nij->nj", noise, mix), codes


@pytest.mark.parametrize("k", [3.0, 10.0, 40.0])
def test_scale_strength_of_simulated_variances(k):
    rng = np.random.default_rng(1)
    freedom = rng.integers(3, 30, 4000).astype(float)
    variance = 7.0 * k / rng.chisquare(k, size=(4000, 2))
    squares = variance * rng.chisquare(freedom[:, None], size=(4000, 2))
    found = strength.scale_strengths(squares, freedom)
    np.testing.assert_allclose(found, k, rtol=0.15)
    np.testing.assert_allclose(
        strength.scale_strengths(1e-6 * squares, freedom), found, rtol=1e-9
    )


def test_scale_strength_is_the_root_of_what_variances_differ_by():
    rng = np.random.default_rng(2)
    freedom = np.full(30, 9.0)
    squares = np.exp(0.6 * rng.normal(size=30)) * rng.chisquare(9.0, size=30)
    # With equal degrees of freedom, what is subtracted from logarithms is a constant.
    excess = np.log(squares).var(ddof=1) - polygamma(1, 4.5)
    root = brentq(lambda half: polygamma(1, half) - excess, 1.0, 1e6)
    found = strength.scale_strengths(squares[:, None], freedom)
    np.testing.assert_allclose(found, 2.0 * root, rtol=1e-8)


def test_scale_strength_at_its_ends():
    rng = np.random.default_rng(3)
    freedom = np.full(40, 11.0)
    alike = np.full(40, 11.0)
    unlike = 11.0 * np.exp(4.0 * rng.normal(size=40))
    constant = np.zeros(40)
    once = np.where(np.arange(40) == 3, 5.0, 0.0)
    squares = np.column_stack([alike, unlike, constant, once])
    with np.errstate(all="raise"):
        found = strength.scale_strengths(squares, freedom)
        alone = strength.scale_strengths(squares[:1], freedom[:1])
        single_rows = strength.scale_strengths(squares[:5], np.zeros(5))
    assert found[0] > 1e5
    np.testing.assert_allclose(found[1:], 2.0, rtol=1e-9)
    np.testing.assert_allclose(np.r_[alone, single_rows], 2.0, rtol=1e-9)


@pytest.mark.parametrize("d", [3, 9])
def test_densities_of_left_out_rows_are_those_of_refits(d):
    """Whitened rows without one, with mean, scatter and covariance made anew."""
    n_tasks = 6
    n_rows = 5
    X, codes = draws(n_tasks, n_rows, d, np.eye(d), seed=4)
    stack = X.reshape(n_tasks, n_rows, d)
    stack = stack - stack.mean(axis=1, keepdims=True)
    freedom = n_tasks * (n_rows - 1)
    pooled = np.einsum("tni,tnj->ij", stack, stack) / freedom
    stack = stack @ np.linalg.inv(np.linalg.cholesky(pooled)).T
    values, vectors = np.linalg.eigh(np.einsum("tni,tnj->tij", stack, stack))
    kept = min(n_rows, d)
    basis = np.swapaxes(vectors, 1, 2)[:, -kept:]
    weight = np.ones((n_tasks, n_rows))
    found = strength._left_out_densities(
        stack, weight, basis, values[:, -kept:], float(freedom)
    )
    expected = np.zeros_like(found)
    for task in range(n_tasks):
        for row in range(n_rows):
            others = np.delete(stack[task], row, axis=0)
            mean = others.mean(axis=0)
            scatter = (others - mean).T @ (others - mean)
            rest = np.delete(stack, task, axis=0)
            W = (np.einsum("tni,tnj->ij", rest, rest) + scatter) / (freedom - 1)
            for number, k in enumerate(strength._COVARIANCE_PRIORS):
                C = (scatter + k * W) / (n_rows - 2 + k)
                C *= 1.0 + 1.0 / (n_rows - 1)
                z = stack[task, row] - mean
                square = z @ np.linalg.solve(C, z)
                expected[number, task] -= (
                    0.5 * (np.linalg.slogdet(C)[1] + square) / n_rows
                )
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_one_covariance_is_pooled_and_own_ones_are_kept():
    rng = np.random.default_rng(5)
    one = np.eye(6) + 0.4 * rng.normal(size=(6, 6))
    own = rng.normal(size=(20, 6, 6))
    strengths = []
    for mixing in (one, own):
        X, codes = draws(20, 15, 6, mixing, seed=6)
        metric = task_whitenings(X, codes, np.ones(300), 20, "auto", "auto")
        strengths.append((np.median(metric.scale_prior), metric.covariance_prior))
    assert strengths[0][0] > 20.0 and strengths[0][1] > 90.0
    assert strengths[1][0] < 10.0 and strengths[1][1] == 3.0
    few = codes < 7
    metric = task_whitenings(X[few], codes[few], np.ones(105), 7, "auto", "auto")
    assert metric.covariance_prior == 3.0


def test_estimates_are_the_numbers_that_they_stand_for():
    X, codes = draws(12, 10, 4, np.eye(4), seed=7)
    weight = np.random.default_rng(8).integers(1, 3, 120).astype(float)
    auto = task_whitenings(X, codes, weight, 12, "auto", "auto")
    fixed = task_whitenings(X, codes, weight, 12, "auto", auto.covariance_prior)
    np.testing.assert_array_equal(auto.apply(X, codes), fixed.apply(X, codes))
    copies = np.repeat(np.arange(120), weight.astype(int))
    again = task_whitenings(
        X[copies], codes[copies], np.ones(len(copies)), 12, "auto", "auto"
    )
    assert again.covariance_prior == auto.covariance_prior
    np.testing.assert_allclose(again.scale_prior, auto.scale_prior, rtol=1e-6)
    numbers = task_whitenings(X, codes, weight, 12, 5.0, 7.0)
    assert numbers.covariance_prior == 7.0 and np.all(numbers.scale_prior == 5.0)


def test_strengths_do_not_depend_on_order_names_or_units():
    X, codes = draws(10, 12, 5, np.eye(5), seed=9)
    whitener = TaskWhitener(adaptive=True)
    one = whitener.fit(X, task=codes).whitening_
    order = np.random.default_rng(10).permutation(120)
    units = np.array([1e-8, 1e8, 1.0, -3.0, 1e3])
    other = whitener.fit((units * X)[order], task=-codes[order]).whitening_
    assert one.covariance_prior == other.covariance_prior > 3.0
    np.testing.assert_allclose(one.scale_prior, other.scale_prior, rtol=1e-6)


def test_rows_of_one_covariance_are_told_from_faults_better():
    """Estimated strengths find faults of tasks that differ only in place."""
    gains = []
    for seed in range(4):
        mixing = np.random.default_rng(seed).normal(size=(8, 8)) + 2.0 * np.eye(8)
        X, codes = draws(20, 58, 8, mixing, seed=seed)
        place = np.arange(len(X)) % 58
        train = place < 8
        new = X[~train]
        faulty = new.copy()
        column = np.random.default_rng(seed).integers(8, size=len(new))
        faulty[np.arange(len(new)), column] += 2.5 * X.std(axis=0)[column]
        areas = []
        for priors in ((2.0, 3.0), ("auto", "auto")):
            model = IndependentOCKSR(metric="adaptive", alarm_rate=None)
            model.set_params(scale_prior=priors[0], covariance_prior=priors[1])
            model.fit(X[train], task=codes[train])
            normal = model.score_samples(new, task=codes[~train])
            fault = model.score_samples(faulty, task=codes[~train])
            areas.append(np.mean(normal > fault))
        gains.append(areas[1] - areas[0])
    assert np.mean(gains) > 0.005


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_folds_keep_the_strength_that_was_chosen_for_all_rows():
    """With another strength in the folds, alarms are none or twice the rate."""
    task = np.repeat(np.arange(20), 8)
    fresh_task = np.repeat(np.arange(20), 50)
    for seed in (0, 3, 5):
        rng = np.random.default_rng(seed)
        centre = 2.0 * rng.normal(size=(20, 60))
        X = centre[task] + rng.normal(size=(len(task), 60))
        fresh = centre[fresh_task] + rng.normal(size=(len(fresh_task), 60))
        model = IndependentOCKSR(metric="adaptive", kernel="laplacian", width=3.0)
        model.fit(X, task=task)
        alarms = np.mean(model.predict(fresh, task=fresh_task) == -1)
        assert 0.01 < alarms < 0.08
