"""OCKSR-N: the closed solution, its left-out scores against refits, and the learned ones."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manyone import IndependentOCKSR, JointOCKSR, NonlinearOCKSR, SparseOCKSR
from manyone.datasets import load_mnist
from manyone.solvers.nonlinear import gram

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
both = pytest.mark.parametrize("method", [NonlinearOCKSR, SparseOCKSR])


def measured_rate(method, splits=4, **params):
    """Alarms on held-out digits, 20 per task, where 0.1 was promised."""
    digits, rates = load_mnist(), []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(digits.data))
        train = np.concatenate([order[digits.target[order] == t][:20] for t in range(10)])
        test = np.concatenate([order[digits.target[order] == t][20:220] for t in range(10)])
        model = method(alarm_rate=0.1, **params)
        model.fit(digits.data[train], task=digits.target[train])
        alarm = model.predict(digits.data[test], task=digits.target[test]) == -1
        rates.append(alarm.mean())
    return float(np.mean(rates))


def test_closed_solution_is_the_formula(fleet):
    X, task = fleet
    model = NonlinearOCKSR().fit(X, task=task)
    joint = JointOCKSR().fit(X, task=task)
    K = joint.kernel_.gram(joint.X_fit_)
    Y = K @ joint.dual_coef_
    np.testing.assert_allclose(model.responses_, Y, atol=1e-9)
    R = np.eye(5)[model.codes_]
    J = gram(Y, Y, model.theta_)
    B = np.linalg.solve(J + model.beta * np.eye(len(Y)), R)
    expected = -np.abs(J @ B - ((J @ B) * R).sum(axis=0) / R.sum(axis=0))
    np.testing.assert_allclose(model.score_tasks(model.X_fit_), expected, atol=1e-9)
    np.testing.assert_allclose(model.second_kernel_, J, atol=1e-9)
    assert model.objective_path_[1] < model.objective_path_[0]


def test_two_stage_left_out_scores_are_refits(fleet):
    """First layer without the row; second layer without it, at the full model's responses."""
    X, task = fleet
    model = NonlinearOCKSR(gamma=0.2).fit(X, task=task)
    joint = JointOCKSR(gamma=0.2)
    Y, R = model.responses_, np.eye(5)[model.codes_]
    for i in (0, 15, 44):
        kept = np.delete(np.arange(len(Y)), i)
        refit = joint.fit(model.X_fit_[kept], task=model.codes_[kept])
        held = refit.kernel_(model.X_fit_[[i]], refit.X_fit_) @ refit.dual_coef_
        J = gram(Y[kept], Y[kept], model.theta_)
        B = np.linalg.solve(J + model.beta * np.eye(len(kept)), R[kept])
        own = model.codes_[i]
        mean = (J @ B)[model.codes_[kept] == own, own].mean()
        response = (gram(held, Y[kept], model.theta_) @ B)[0, own]
        assert model.left_out_[i] == pytest.approx(-abs(response - mean), abs=1e-8)


@both
def test_one_task_ranks_strangers_as_the_independent_model(method, fleet):
    X, _ = fleet
    rows = np.vstack([X[:30] + step for step in (0.0, 2.0, 4.0, 8.0)])
    for estimator in (IndependentOCKSR(), method()):
        scores = estimator.fit(X[:30]).score_samples(rows).reshape(4, 30)
        assert np.all(np.diff(np.median(scores, axis=1)) < 0)
        assert scores[3].max() < np.median(scores[0])


@both
def test_learned_layers_descend(method, fleet):
    X, task = fleet
    model = method(solver="lbfgs").fit(X, task=task)
    assert np.all(np.diff(model.objective_path_) <= 1e-9)
    assert model.n_iter_ > 1
    closed = method().fit(X, task=task)
    assert model.objective_path_[0] == pytest.approx(closed.objective_path_[-1], rel=1e-6)
    assert model.calibration_.source == "leave-one-out, structure fixed"


@both
def test_papers_algorithm_descends_and_calibrates_by_folds(method, fleet):
    X, task = fleet
    with pytest.warns(ConvergenceWarning, match="max_iter=5"):
        model = method(solver="paper", max_iter=5, tol=0.0).fit(X, task=task)
    assert np.all(np.diff(model.objective_path_) < 0)
    assert model.calibration_.source == "folds"


@both
def test_iterations_warn_warm_start_and_report(method, fleet, capsys):
    X, task = fleet
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        method(solver="lbfgs", max_iter=1).fit(X, task=task)
    model = method(solver="lbfgs", warm_start=True, verbose=2).fit(X, task=task)
    assert "iteration 0, objective" in capsys.readouterr().err
    first = model.n_iter_
    assert model.fit(X, task=task).n_iter_ < first


@both
def test_theta_is_a_number_or_follows_the_responses(method, fleet):
    X, task = fleet
    assert method(theta=3.0).fit(X, task=task).theta_ == 3.0
    assert method().fit(X, task=task).theta_ in (10.0, 40.0)
    with pytest.warns(ConvergenceWarning):
        learned = method(solver="lbfgs", learn_theta=True, max_iter=3).fit(X, task=task)
    assert learned.theta_ != 10.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "params"),
    [(NonlinearOCKSR, {}), (NonlinearOCKSR, {"solver": "lbfgs"}), (SparseOCKSR, {})],
)
def test_measured_rate_on_real_digits(method, params):
    assert 0.05 <= measured_rate(method, **params) <= 0.13
