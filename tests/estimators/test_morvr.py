"""Multi-output relevance vector regression as an estimator."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manyone import MORVR
from manyone.datasets import load_mnist
from manyone.experiments.data import DATASETS
from manyone.solvers.morvr import solve_morvr

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


def sorted_fleet(fleet):
    X, task = fleet
    order = np.argsort(task, kind="stable")
    codes = np.unique(task[order], return_inverse=True)[1]
    return X[order], codes, np.eye(5)[codes]


def responses(model, Z):
    return model.kernel_(Z, model.X_fit_) @ model.dual_coef_ + model.intercept_


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_is_the_solver_called_by_hand(fleet, fit_intercept):
    X, codes, R = sorted_fleet(fleet)
    model = MORVR(gamma=0.2, fit_intercept=fit_intercept).fit(X, task=codes)
    X = model.X_fit_
    K = model.kernel_.gram(X)
    design = np.column_stack([K, np.ones((len(K), int(fit_intercept)))])
    by_hand = solve_morvr(design, R, shrinkage=0.03, tol=1e-6)
    vectors = by_hand.active[by_hand.active < len(K)]
    np.testing.assert_array_equal(model.relevance_, vectors)
    np.testing.assert_array_equal(np.flatnonzero(model.dual_coef_.any(axis=1)), vectors)
    np.testing.assert_allclose(model.noise_cov_, by_hand.noise, rtol=1e-10)
    np.testing.assert_allclose(model.objective_path_, by_hand.objective_path)
    fitted = design[:, by_hand.active] @ by_hand.mean
    np.testing.assert_allclose(responses(model, X), fitted, atol=1e-10)
    means = [fitted[codes == t, t].mean() for t in range(5)]
    np.testing.assert_allclose(model.mean_response_, means, atol=1e-10)
    np.testing.assert_allclose(
        model.score_tasks(X), -np.abs(fitted - means), atol=1e-10
    )


def test_noise_is_positive_definite_and_the_objective_falls(fleet):
    X, task = fleet
    model = MORVR().fit(X, task=task)
    assert np.linalg.eigvalsh(model.noise_cov_)[0] > 0
    assert np.all(np.diff(model.objective_path_) <= 1e-9)
    assert len(model.objective_path_) == model.n_iter_ + 1


def test_few_rows_are_relevant():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(3), 60)
    X = rng.normal(size=(180, 2)) + 4.0 * np.array([[0, 0], [1, 0], [0, 1]])[task]
    model = MORVR(alarm_rate=0.1).fit(X, task=task)
    assert len(model.relevance_) < 40
    assert np.mean(model.predict_task(X) == task) > 0.8


def test_a_single_task_learns_no_constant():
    X = np.random.default_rng(0).normal(size=(40, 3))
    with_constant = MORVR(fit_intercept=True, alarm_rate=0.1).fit(X)
    without = MORVR(fit_intercept=False, alarm_rate=0.1).fit(X)
    assert not np.any(with_constant.intercept_)
    np.testing.assert_array_equal(
        with_constant.score_samples(X), without.score_samples(X)
    )
    assert with_constant.predict(np.full((1, 3), 50.0))[0] == -1


def test_too_few_changes_are_reported(fleet):
    X, task = fleet
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        MORVR(max_iter=2).fit(X, task=task)


@pytest.mark.slow
def test_beats_the_paper_on_digits():
    """The paper's protocol on the embedded digits; the paper prints 95.43."""
    digits = load_mnist()
    X = digits.data / np.linalg.norm(digits.data, axis=1, keepdims=True)
    aucs = []
    for seed in range(2):
        split = DATASETS["mnist"].protocols["seen"].split(X, digits.target, seed=seed)
        model = MORVR().fit(X[split.train], task=split.task)
        aucs.append(100 * split.aucs(split.scores(model, X)).mean())
    assert np.mean(aucs) > 95.43
