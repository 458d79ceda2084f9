"""OCKSR-NS: exact zeros, the lasso, strengths that never empty a function."""

import numpy as np
import pytest

from manyone import SparseOCKSR
from manyone.solvers.sparse_group_lasso import solve_sparse_group_lasso
from manyone.solvers.two_layers import gram

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


def test_structure_has_exact_zeros_and_is_the_block_norms(fleet):
    X, task = fleet
    model = SparseOCKSR(group=0.5).fit(X, task=task)
    assert model.structure_.shape == (5, 5)
    assert np.sum(model.structure_ == 0) > 5
    assert np.all(np.diag(model.structure_) > 0)
    for s in range(5):
        norms = np.linalg.norm(
            model.second_coef_[:-1][model.training_.codes == s], axis=0
        )
        np.testing.assert_allclose(norms, model.structure_[s], atol=1e-8)


def test_second_layer_is_the_lasso(fleet):
    X, task = fleet
    model = SparseOCKSR(anchor=False).fit(X, task=task)
    J = gram(model.responses_, model.responses_, model.theta_)
    R = np.eye(5)[model.training_.codes]
    found = solve_sparse_group_lasso(
        J, R, model.training_.codes, model.l1_, model.group_, tol=1e-11
    )
    np.testing.assert_allclose(J @ model.second_coef_, J @ found.B, atol=1e-5)
    assert model.duality_gap_ < 1e-9
    penalty = model.alpha * np.sum(model.first_layer_**2)
    assert model.objective_path_[-1] == pytest.approx(
        found.objective_path[-1] + penalty, rel=1e-4
    )


def test_strengths_are_numbers_or_follow_the_data(fleet):
    X, task = fleet
    model = SparseOCKSR(max_iter=0, anchor=False).fit(X, task=task)
    J = model.second_kernel_
    R = np.eye(5)[model.training_.codes]
    largest = np.abs(2 * J.T @ R).max(axis=0).min()
    assert model.l1_ == model.group_ == pytest.approx(0.01 * largest)
    assert SparseOCKSR(max_iter=0, l1=0.3).fit(X, task=task).l1_ == pytest.approx(0.3)
    strong = SparseOCKSR(max_iter=0, anchor=False, l1=1e9, group=1e9).fit(X, task=task)
    assert strong.l1_ == pytest.approx(0.1 * largest)
    assert np.all(np.diag(strong.structure_) > 0)


def test_outliers_of_every_task_have_a_block_of_their_own(fleet):
    X, task = fleet
    rows = np.vstack([X, np.full((3, 4), 9.0)])
    labels = [*task.tolist(), None, None, None]
    model = SparseOCKSR().fit(rows, task=labels, outlier=np.arange(len(rows)) >= len(X))
    assert model.structure_.shape == (5, 5)
