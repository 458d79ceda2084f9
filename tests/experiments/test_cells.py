"""What is computed and kept of a fit."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from manyone import (
    IndependentOCKSR,
    JointOCKSR,
    LinearOCKSR,
    NonlinearOCKSR,
    SparseOCKSR,
)
from manyone.experiments import Cell
from manyone.experiments.cells import compute, sum_of_squared_errors


@pytest.fixture
def three():
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1, 2], [8, 9, 10])
    return rng.normal(size=(27, 3)) + 2 * np.eye(3)[task], task


@pytest.mark.filterwarnings("ignore")
def test_squared_errors_of_ridge_regressions(three):
    X, task = three
    K = rbf_kernel(X, gamma=0.2)
    R = np.eye(3)[task]
    joint = JointOCKSR(gamma=0.2, alpha=0.3).fit(X, task=task)
    residual = R - K @ np.linalg.solve(K + 0.3 * np.eye(27), R)
    assert sum_of_squared_errors(joint) == pytest.approx(np.sum(residual**2))
    alone = IndependentOCKSR(gamma=0.2, alpha=0.3).fit(X, task=task)
    total = 0.0
    for t in range(3):
        block = K[np.ix_(task == t, task == t)]
        ones = np.ones(len(block))
        total += np.sum(
            (ones - block @ np.linalg.solve(block + 0.3 * np.eye(len(ones)), ones)) ** 2
        )
    assert sum_of_squared_errors(alone) == pytest.approx(total)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [NonlinearOCKSR, SparseOCKSR])
def test_squared_errors_of_two_layers(three, kind):
    X, task = three
    model = kind(gamma=0.2, alpha=0.3).fit(X, task=task)
    Y = rbf_kernel(X, model.X_fit_, gamma=0.2) @ model.dual_coef_
    F = rbf_kernel(Y, model.centres_, gamma=model.theta_) @ model.second_coef_
    expected = np.sum((F - np.eye(3)[task]) ** 2)
    assert sum_of_squared_errors(model) == pytest.approx(expected, rel=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_weaker_ridges_fit_closer(three):
    X, task = three
    for kind in (IndependentOCKSR, JointOCKSR, LinearOCKSR):
        errors = [
            sum_of_squared_errors(kind(alpha=alpha).fit(X, task=task))
            for alpha in (1.0, 0.1, 0.01)
        ]
        assert errors == sorted(errors, reverse=True)


def test_kept_with_a_cell():
    def keys(family, setting, repetition=0):
        name = family if setting == "tuned" else f"{family} (as in the paper)"
        return set(
            compute(Cell("mnist", "seen", name, family, setting, 0, repetition, 15))
        )

    assert "sse" in keys("C-OCKSR", "alpha=1", 4)
    assert not {"sse", "alarms"} & keys("SVDD", "alpha=1")
    tuned = keys("OCKSR-N", "tuned")
    assert {"auc", "alarms", "tasks", "structure", "second_kernel"} <= tuned
    assert not {"second_kernel", "tasks"} & keys("OCKSR-N", "alpha=1", 1)
    assert "alarms" not in keys("C-OCKSR", "tuned", 9)


def test_second_kernel_is_the_one_between_responses():
    cell = Cell("mnist", "unseen", "OCKSR-N", "OCKSR-N", "tuned", 0, 0, 15)
    J = np.array(compute(cell)["second_kernel"])
    assert J.shape == (75, 75)
    assert np.array_equal(J, J.T) and np.all(np.diag(J) == 1) and J.min() >= 0
    assert np.array_equal(J, J.round(3))
