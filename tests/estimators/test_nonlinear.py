"""OCKSR-N and -NS: the formula, what learning helps, the anchor, the rate."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import normalize

from manyone import JointOCKSR, NonlinearOCKSR, SparseOCKSR, tune
from manyone.datasets import load_mnist
from manyone.solvers.two_layers import gram

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
both = pytest.mark.parametrize("method", [NonlinearOCKSR, SparseOCKSR])


def digits(n_train, n_test, seed):
    """Rows and labels of digits to fit, then of others to score."""
    data = load_mnist()
    X = normalize(data.data)
    y = data.target
    order = np.random.default_rng(seed).permutation(len(X))
    parts = [order[y[order] == t] for t in range(10)]
    train = np.concatenate([rows[:n_train] for rows in parts])
    test = np.concatenate([rows[n_train : n_train + n_test] for rows in parts])
    return X[train], y[train], X[test], y[test]


def reduced_objective(model, K, R, W_dual, beta):
    """Objective of the second layer's best answer to a first layer, written out."""
    Y = np.vstack([K @ W_dual, np.zeros(R.shape[1])])
    weight = np.append(np.ones(len(R)), 0.1 * len(R) / R.shape[1])
    target = np.vstack([R, np.zeros(R.shape[1])])
    J = gram(Y, Y, model.theta_)
    B = np.linalg.solve(J + beta * np.diag(1 / weight), target)
    return beta * np.sum(B * target) + model.alpha * np.sum(W_dual * (K @ W_dual)), Y, B


def test_without_iterations_it_is_one_more_solve(fleet):
    X, task = fleet
    model = NonlinearOCKSR(max_iter=0).fit(X, task=task)
    joint = JointOCKSR().fit(X, task=task)
    K = joint.kernel_.gram(joint.X_fit_)
    R = np.eye(5)[model.training_.codes]
    value, Y, B = reduced_objective(model, K, R, joint.dual_coef_, model.beta)
    np.testing.assert_allclose(model.centres_, Y, atol=1e-9)
    np.testing.assert_allclose(model.second_coef_, B, atol=1e-9)
    assert model.objective_path_ == pytest.approx([value])
    response = gram(Y[:-1], Y, model.theta_) @ B
    mean = np.sum(response * R, axis=0) / R.sum(axis=0)
    np.testing.assert_allclose(model.mean_response_, mean, atol=1e-9)
    np.testing.assert_allclose(
        model.score_tasks(model.X_fit_), -np.abs(response - mean), atol=1e-9
    )
    np.testing.assert_allclose(
        model.second_kernel_, gram(Y[:-1], Y[:-1], model.theta_), atol=1e-9
    )


def test_learned_layers_have_the_objective_they_report(fleet):
    X, task = fleet
    model = NonlinearOCKSR().fit(X, task=task)
    K = model.kernel_.gram(model.X_fit_)
    R = np.eye(5)[model.training_.codes]
    value, Y, B = reduced_objective(model, K, R, model.dual_coef_, model.beta)
    assert model.objective_path_[-1] == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(model.centres_, Y, atol=1e-9)
    np.testing.assert_allclose(model.second_coef_, B, atol=1e-8)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1):  # no step in a random direction is better
        step = (
            size
            * np.abs(model.dual_coef_).max()
            * rng.normal(size=model.dual_coef_.shape)
        )
        other = reduced_objective(model, K, R, model.dual_coef_ + step, model.beta)[0]
        assert other > value * (1 - 1e-5)


def test_structure_is_the_mean_second_kernel_of_two_tasks(fleet):
    X, task = fleet
    model = NonlinearOCKSR().fit(X, task=task)
    J = model.second_kernel_
    codes = model.training_.codes
    expected = [
        [J[codes == s][:, codes == t].mean() for t in range(5)] for s in range(5)
    ]
    np.testing.assert_allclose(model.structure_, expected, atol=1e-12)


@both
def test_the_anchor_keeps_strangers_out(method):
    """Without an anchor the wide one of two tasks settles at the origin."""
    rng = np.random.default_rng(0)
    X = np.vstack(
        [3.0 * rng.normal(size=(40, 3)), 0.3 * rng.normal(size=(10, 3)) + 6.0]
    )
    task = np.repeat(["wide", "narrow"], [40, 10])
    stranger = np.full((1, 3), 1e3)
    gaps = {}
    for anchor in (True, False):
        model = method(anchor=anchor).fit(X, task=task)
        own = [
            np.median(model.score_samples(X[task == t], task=task[task == t]))
            for t in task[[0, -1]]
        ]
        far = [model.score_samples(stranger, task=[t])[0] for t in task[[0, -1]]]
        gaps[anchor] = np.min(np.subtract(own, far))
    assert gaps[True] > 0.5
    assert gaps[False] < gaps[True]


@both
def test_iterations_descend_and_beat_the_start(method, fleet):
    X, task = fleet
    model = method().fit(X, task=task)
    start = method(max_iter=0).fit(X, task=task)
    assert np.all(np.diff(model.objective_path_) <= 1e-9)
    assert model.n_iter_ > 1 and start.n_iter_ == 0
    assert model.objective_path_[-1] < start.objective_path_[-1]
    assert model.calibration_.source == start.calibration_.source == "folds"


@both
def test_papers_algorithm_descends(method, fleet):
    X, task = fleet
    with pytest.warns(ConvergenceWarning, match="max_iter=5"):
        model = method(solver="paper", max_iter=5, tol=0.0).fit(X, task=task)
    assert np.all(np.diff(model.objective_path_) < 0)


@both
def test_few_iterations_warn(method, fleet):
    X, task = fleet
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        method(max_iter=1, tol=1e-8).fit(X, task=task)


@both
def test_theta_is_a_number_or_follows_the_responses(method, fleet):
    X, task = fleet
    assert method(theta=3.0, max_iter=0).fit(X, task=task).theta_ == 3.0
    model = method(max_iter=0).fit(X, task=task)
    assert model.theta_ == pytest.approx(
        10 / np.mean(np.sum(model.responses_**2, axis=1))
    )
    with pytest.warns(ConvergenceWarning):
        learned = method(learn_theta=True, max_iter=3, tol=1e-9).fit(X, task=task)
    assert learned.theta_ != model.theta_


@pytest.mark.slow
@both
def test_measured_rate_on_real_digits(method):
    rates = []
    for seed in range(4):
        X, y, X_new, y_new = digits(20, 200, seed)
        model = method(alarm_rate=0.1).fit(X, task=y)
        rates.append(np.mean(model.predict(X_new, task=y_new) == -1))
    assert 0.05 <= np.mean(rates) <= 0.13


@pytest.mark.slow
def test_measured_rate_after_tuning():
    """Folds repeat the fit but not the choice of the setting; the rate holds."""
    rates = []
    for seed in range(4):
        X, y, X_new, y_new = digits(15, 200, seed)
        model = tune(NonlinearOCKSR(alarm_rate=0.1), X, task=y, criterion="seen")
        rates.append(np.mean(model.predict(X_new, task=y_new) == -1))
    assert 0.03 <= np.mean(rates) <= 0.13


def test_a_first_layer_near_zero_is_no_end():
    """The first step nearly ends at zero, where the objective is flat."""
    X = np.array([0.22949019, -0.66777424, 0.76615287, -0.02720475, 1.17189518])[
        :, None
    ]
    task = np.array(["fan", "fan", "pump", "fan", "fan"])
    settings = {"kernel": "linear", "alpha": 0.1, "alarm_rate": 0.5}
    found = NonlinearOCKSR(**settings).fit(X, task=task)
    exact = NonlinearOCKSR(tol=1e-12, **settings).fit(X, task=task)
    assert found.objective_path_[-1] == pytest.approx(
        exact.objective_path_[-1], abs=1e-6
    )
    assert np.ptp(found.score_samples(X, task=task)) > 0.01


@both
@pytest.mark.parametrize(
    "options", [{}, {"metric": "whitened"}, {"kernel": "precomputed"}, {"landmarks": 9}]
)
def test_names_of_tasks_do_not_matter(method, options):
    """With a small ridge, rounding decides after how many of 300 iterations it ends."""
    rng = np.random.default_rng(122)
    n_tasks = 13 if method is NonlinearOCKSR else 5
    task = np.repeat(np.arange(n_tasks), 6)
    X = rng.normal(size=(len(task), 4)) + 0.1 * rng.normal(size=(n_tasks, 4))[task]
    new = rng.normal(size=(len(task), 4))
    if "kernel" in options:
        new = rbf_kernel(new, X)
        X = rbf_kernel(X)
    options = {"alpha": 1e-3, "random_state": 0, **options}
    first = method(**options).fit(X, task=task)
    second = method(**options).fit(X, task=-task)
    assert first.n_iter_ == second.n_iter_
    scores = first.score_samples(new, task=task)
    assert second.score_samples(new, task=-task) == pytest.approx(scores, abs=1e-9)
    assert second.structure_[::-1, ::-1] == pytest.approx(first.structure_, abs=1e-9)
    p = first.pvalues(new, task=task)
    assert second.pvalues(new, task=-task) == pytest.approx(p, abs=1e-9)
