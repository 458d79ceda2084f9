"""The multi-task one-class SVM as an estimator."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.svm import OneClassSVM

from manyone import MultiTaskOneClassSVM
from manyone.solvers.task_svm import task_svm

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


def responses(model, Z):
    return model._kernel_values(Z) @ model.dual_coef_


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


@pytest.mark.parametrize("shared_offset", [False, True])
def test_dual_is_that_of_the_solver(fleet, shared_offset):
    X, task = fleet
    order = np.argsort(task, kind="stable")
    X, codes = X[order], np.unique(task[order], return_inverse=True)[1]
    model = MultiTaskOneClassSVM(gamma=0.2, nu=0.2, mu=2.0, shared_offset=shared_offset)
    model.fit(X, task=codes)
    total = np.full(5, len(X)) if shared_offset else np.bincount(codes)
    K = model.kernel_.gram(X)
    solution = task_svm(K, codes, 2.0, 1 / (0.2 * total[codes]), shared_offset)
    assert model.objective_ == pytest.approx(solution.objective, rel=1e-7)
    np.testing.assert_allclose(model.margin_, solution.offset, atol=1e-6)


def test_scores_rank_as_responses(fleet):
    X, task = fleet
    model = MultiTaskOneClassSVM().fit(X, task=task)
    Z = 2 * np.random.default_rng(0).normal(size=(40, 4))
    for t in range(5):
        order = np.argsort(responses(model, Z)[:, t])
        assert np.all(np.diff(model.score_tasks(Z)[order, t]) >= 0)


@pytest.mark.slow
def test_alarm_rate_is_kept():
    alarms = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        task = np.repeat(np.arange(3), 20)
        centres = rng.normal(size=(3, 3))
        X = centres[task] + rng.normal(size=(60, 3))
        model = MultiTaskOneClassSVM(alarm_rate=0.1).fit(X, task=task)
        alarms.extend(model.predict(centres + rng.normal(size=(3, 3)), task=np.arange(3)) == -1)
    assert np.sum(alarms) <= binom.ppf(0.999, len(alarms), 0.1)
