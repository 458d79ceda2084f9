"""The multi-task one-class SVM as an estimator."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

from manyone import MultiTaskOneClassSVM
from manyone.models.guards import unguarded
from manyone.solvers.task_svm import solve_task_svm

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


def responses(model, Z):
    return model.kernel_(Z, model.X_fit_) @ model.dual_coef_


@pytest.mark.parametrize("mu", [1e9, np.inf])
def test_dear_common_part_gives_independent_machines(fleet, mu):
    X, task = fleet
    model = MultiTaskOneClassSVM(gamma=0.2, nu=0.3, mu=mu).fit(X, task=task)
    Z = np.random.default_rng(0).normal(size=(30, 4))
    for t, name in enumerate(model.tasks_):
        svm = OneClassSVM(gamma=0.2, nu=0.3, tol=1e-10).fit(X[task == name])
        scale = 0.3 * np.sum(task == name)
        np.testing.assert_allclose(
            responses(model, Z)[:, t], svm.score_samples(Z) / scale, atol=1e-6
        )
        assert model.margin_[t] == pytest.approx(svm.offset_[0] / scale, abs=1e-3)


def test_dual_is_that_of_the_solver(fleet):
    X, task = fleet
    order = np.argsort(task, kind="stable")
    X = X[order]
    codes = np.unique(task[order], return_inverse=True)[1]
    model = MultiTaskOneClassSVM(gamma=0.2, nu=0.2, mu=2.0).fit(X, task=codes)
    K = model.kernel_.gram(X)
    solution = solve_task_svm(K, codes, 2.0, 1 / (0.2 * np.bincount(codes)[codes]))
    assert model.objective_ == pytest.approx(solution.objective, rel=1e-7)
    np.testing.assert_allclose(model.margin_, solution.offset, atol=1e-6)


def test_weights_count_and_far_outliers_change_nothing(fleet):
    """An outlier far from everything changes nothing."""
    X, task = fleet
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    again = np.repeat(np.arange(len(X)), weight)
    model = MultiTaskOneClassSVM(gamma=0.2, nu=0.2, mu=2.0)
    scores = model.fit(X, task=task, sample_weight=weight).score_tasks(X)
    np.testing.assert_allclose(
        model.fit(X[again], task=task[again]).score_tasks(X), scores, atol=1e-6
    )
    plain = model.fit(X, task=task).score_tasks(X)
    rows = np.vstack([X, [[1e3] * 4]])
    far = np.arange(len(X) + 1) == len(X)
    told = model.fit(rows, task=[*task, task[0]], outlier=far)
    np.testing.assert_allclose(told.score_tasks(X), plain, atol=1e-6)


def test_score_is_the_function_minus_the_margin(fleet):
    X, task = fleet
    model = MultiTaskOneClassSVM(gamma=0.2, nu=0.3, mu=5.0).fit(X, task=task)
    Z = 2 * np.random.default_rng(0).normal(size=(40, 4))
    np.testing.assert_allclose(
        unguarded(model.solution_.scorer).all(Z), responses(model, Z) - model.margin_
    )
    # f_t = sum_s (1 / mu + [s = t]) sum_i a_i k(x_i, x): the common part is the same
    # for all.
    own = model.dual_coef_ - model.dual_coef_.min(axis=1, keepdims=True)
    np.testing.assert_allclose(own.sum(axis=0), 1.0)
    np.testing.assert_allclose(
        model.dual_coef_ - own, np.tile(own.sum(axis=1) / 5.0, (5, 1)).T, atol=1e-12
    )


@pytest.mark.parametrize("nu", [0.1, 0.4])
def test_at_most_a_share_nu_of_training_rows_is_below_the_margin(fleet, nu):
    X, task = fleet
    model = MultiTaskOneClassSVM(nu=nu).fit(X, task=task)
    below = model.score_samples(X, task=task) < -1e-8
    for name in model.tasks_:
        assert below[task == name].mean() <= nu


def test_the_default_common_part_does_not_drown_the_tasks():
    """A common part as strong as that of tasks makes their rows look alike."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(10), 15)
    centres = rng.normal(size=(10, 5))
    X = centres[task] + 0.7 * rng.normal(size=(150, 5))
    Z = centres[task] + 0.7 * rng.normal(size=(150, 5))

    def auc(**params):
        scores = MultiTaskOneClassSVM(**params).fit(X, task=task).score_tasks(Z)
        return np.mean([roc_auc_score(task == t, scores[:, t]) for t in range(10)])

    assert auc() > auc(mu=np.inf) - 0.01
    assert auc(mu=1.0) < auc() - 0.02
