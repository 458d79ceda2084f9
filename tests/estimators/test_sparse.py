"""OCKSR-NS: exact zeros, agreement with the lasso, folds that do not depend on order."""

import numpy as np
import pytest

from manyone import SparseOCKSR
from manyone.estimators.two_layer import distinct_folds
from manyone.solvers.nonlinear import gram
from manyone.solvers.sparse_group_lasso import sparse_group_lasso

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


def test_structure_has_exact_zeros_and_is_the_block_norms(fleet):
    X, task = fleet
    model = SparseOCKSR(group=0.5).fit(X, task=task)
    assert model.structure_.shape == (5, 5)
    assert np.sum(model.structure_ == 0) > 5
    assert np.all(np.diag(model.structure_) > 0)
    for s in range(5):
        norms = np.linalg.norm(model.second_coef_[model.codes_ == s], axis=0)
        np.testing.assert_allclose(norms, model.structure_[s], atol=1e-8)


def test_second_layer_is_the_lasso(fleet):
    X, task = fleet
    model = SparseOCKSR().fit(X, task=task)
    J, R = gram(model.responses_, model.responses_, model.theta_), np.eye(5)[model.codes_]
    found = sparse_group_lasso(J, R, model.codes_, model.l1, model.group, tol=1e-9)
    np.testing.assert_allclose(J @ model.second_coef_, J @ found.B, atol=1e-4)
    assert model.duality_gap_ < 1e-9


def test_outliers_of_every_task_have_a_block_of_their_own(fleet):
    X, task = fleet
    rows = np.vstack([X, np.full((3, 4), 9.0)])
    labels = [*task.tolist(), None, None, None]
    model = SparseOCKSR().fit(rows, task=labels, outlier=np.arange(len(rows)) >= len(X))
    assert model.structure_.shape == (5, 5)


def test_equal_rows_share_a_fold():
    Y = np.array([[0.9, 0.0], [0.8, 0.0], [0.9, 0.0], [0.0, 0.7], [0.5, 0.0], [0.0, 0.0]])
    codes = np.array([0, 0, 0, 1, 0, 0])
    normal = np.array([True] * 5 + [False])
    folds = distinct_folds(Y, codes, normal, 2)
    assert folds[0] == folds[2] and folds[5] == -1 and folds[3] == 0
    order = np.array([2, 1, 0, 3, 4, 5])
    assert np.array_equal(distinct_folds(Y[order], codes, normal, 2), folds[order])
