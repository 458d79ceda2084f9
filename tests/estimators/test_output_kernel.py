"""Output kernel learning as an estimator."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manyone import OutputKernelOCKSR

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


def test_structure_is_semidefinite_and_stationary(fleet):
    X, task = fleet
    weight = np.random.default_rng(0).uniform(0.5, 3.0, len(X))
    model = OutputKernelOCKSR(alpha=0.05).fit(X, task=task, sample_weight=weight)
    assert np.linalg.eigvalsh(model.structure_).min() >= -1e-12
    K = model.kernel_.gram(model.X_fit_)
    np.testing.assert_allclose(
        model.structure_, model.coef_.T @ K @ model.coef_ / 2, atol=1e-8
    )
    assert np.all(np.diff(model.objective_path_) <= 1e-12 * model.objective_path_[0])
    assert len(model.objective_path_) == model.n_iter_ + 1


def test_left_out_scores_are_refits_with_the_structure_fixed(fleet):
    X, task = fleet
    weight = np.random.default_rng(1).integers(1, 3, len(X)).astype(float)
    model = OutputKernelOCKSR(gamma=0.2).fit(X, task=task, sample_weight=weight)
    X = model.X_fit_
    codes = model.training_.codes
    weight = model.training_.weight
    K = model.kernel_.gram(X)
    Y = np.eye(5)[codes]
    L = model.structure_
    for i in range(0, len(X), 7):
        fewer = weight.copy()
        fewer[i] -= 1
        kept = fewer > 0
        root = np.sqrt(fewer[kept])
        system = np.kron(L, root[:, None] * K[np.ix_(kept, kept)] * root)
        system += model.alpha_ * np.eye(len(system))
        solved = np.linalg.solve(system, (root[:, None] * Y[kept]).T.ravel())
        coef = root[:, None] * solved.reshape(5, -1).T @ L
        response = K[:, kept] @ coef[:, codes[i]]
        mine = fewer * (codes == codes[i])
        mean = mine @ response / mine.sum()
        unit = max(model.mean_response_[codes[i]] / mean, 1.0)
        expected = -unit * abs(response[i] - mean)
        assert model.solution_.left_out[i] == pytest.approx(expected, abs=1e-9)


def test_too_few_steps_are_reported(fleet):
    X, task = fleet
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        OutputKernelOCKSR(alpha=1e-4, max_iter=1).fit(X, task=task)
