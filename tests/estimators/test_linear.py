"""OCKSR-L: what it reduces to, its certificate, its iterations and its promise."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manyone import JointOCKSR, LinearOCKSR
from manyone.datasets import load_mnist
from manyone.solvers.eigenbasis import eigenbasis, left_out_scores_of_structure

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


def measured_rate(method, splits=4, **params):
    """Alarms on held-out digits, 20 per task, where 0.1 was promised."""
    digits = load_mnist()
    rates = []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(digits.data))
        train = np.concatenate(
            [order[digits.target[order] == t][:20] for t in range(10)]
        )
        test = np.concatenate(
            [order[digits.target[order] == t][20:220] for t in range(10)]
        )
        model = method(alarm_rate=0.1, **params)
        model.fit(digits.data[train], task=digits.target[train])
        alarm = model.predict(digits.data[test], task=digits.target[test]) == -1
        rates.append(alarm.mean())
    return float(np.mean(rates))


def test_structure_is_a_certified_square_root(fleet):
    X, task = fleet
    model = LinearOCKSR().fit(X, task=task)
    B = model.structure_
    np.testing.assert_allclose(B, B.T, atol=1e-12)
    assert np.linalg.eigvalsh(B).min() > -1e-12
    assert 0 <= model.duality_gap_ < 1e-9
    assert np.all(np.diff(model.objective_path_) <= 1e-12)
    assert len(model.objective_path_) == model.n_iter_ + 1


def test_the_identity_as_structure_is_the_joint_model(fleet):
    X, task = fleet
    joint = JointOCKSR().fit(X, task=task)
    # So strong that only zero is left: the model is the joint one.
    model = LinearOCKSR(frobenius=1e6).fit(X, task=task)
    assert np.array_equal(model.structure_, np.eye(5))
    np.testing.assert_allclose(model.score_tasks(X), joint.score_tasks(X), atol=1e-10)
    np.testing.assert_allclose(model.offset_, joint.offset_, atol=1e-10)


def test_left_out_scores_with_the_identity_are_those_of_the_joint_model(fleet):
    X, task = fleet
    weight = np.random.default_rng(0).uniform(0.3, 3.0, len(X))
    joint = JointOCKSR(alarm_rate=0.1).fit(X, task=task, sample_weight=weight)
    K = joint.kernel_.gram(joint.X_fit_)
    R = joint.training_.responses()
    lam, U = eigenbasis(K, joint.alpha_, np.sqrt(joint.training_.weight))
    left_out, _ = left_out_scores_of_structure(
        lam,
        U,
        R,
        np.eye(5),
        joint.alpha_,
        joint.training_.weight,
        joint.training_.codes,
    )
    expected = joint.solution_.left_out
    ratio = joint.solution_.responses[:, 1]
    np.testing.assert_allclose(left_out.responses[:, 1], ratio, atol=1e-11)
    # Where means under the structure are larger, distances are as they are.
    is_equal = np.abs(left_out.scores - expected) < 1e-11
    assert np.all(is_equal | (left_out.scores < expected))
    assert np.mean(is_equal) > 0.5


def test_left_out_scores_are_refits_with_the_structure_held(fleet):
    X, task = fleet
    model = LinearOCKSR(gamma=0.2).fit(X, task=task)
    K = model.kernel_.gram(model.X_fit_)
    singular, Q = np.linalg.eigh(model.structure_)
    n = len(K)
    for i in (0, 17, 40):
        kept = np.delete(np.arange(n), i)
        R = model.training_.responses()[kept]
        lam, U = np.linalg.eigh(K[np.ix_(kept, kept)])
        M = U.T @ R @ Q
        coef = U @ (M * singular**2 / (lam[:, None] * singular**2 + model.alpha_)) @ Q.T
        own = model.training_.codes[i]
        mean = (K[np.ix_(kept, kept)] @ coef)[
            model.training_.codes[kept] == own, own
        ].mean()
        unit = max(model.mean_response_[own] / mean, 1.0)
        expected = -unit * abs(K[i, kept] @ coef[:, own] - mean)
        assert model.solution_.left_out[i] == pytest.approx(expected, abs=1e-9)


def test_objective_of_one_task_is_that_of_its_coefficients(fleet):
    X, _ = fleet
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 30)
    model = LinearOCKSR(nuclear=0.3).fit(
        X[:30], sample_weight=weight, outlier=np.arange(30) < 3
    )
    K = model.kernel_.gram(model.X_fit_)
    coef = model.dual_coef_[:, 0]
    misfit = model.training_.weight @ (K @ coef - ~model.training_.outlier) ** 2
    expected = misfit + model.alpha_ * coef @ K @ coef + 0.1 + 0.3
    np.testing.assert_allclose(model.objective_path_, [expected], rtol=1e-12)


def test_nuclear_norm_removes_directions(fleet):
    X, task = fleet
    ranks = []
    for nuclear in (0.0, 3.0):
        model = LinearOCKSR(alpha=1.0, nuclear=nuclear).fit(X, task=task)
        ranks.append(np.sum(np.linalg.eigvalsh(model.structure_) > 1e-8))
        assert np.isnan(model.duality_gap_) == (nuclear > 0)
    assert ranks[0] == 5 and ranks[1] <= 5


def test_papers_algorithm_descends_to_the_same_structure(fleet):
    X, task = fleet
    with pytest.warns(ConvergenceWarning, match="max_iter=60"):
        model = LinearOCKSR(solver="paper", max_iter=60).fit(X, task=task)
    assert np.all(np.diff(model.objective_path_) < 0)
    best = LinearOCKSR().fit(X, task=task).objective_path_[-1]
    assert model.objective_path_[-1] >= best - 1e-9


def test_few_iterations_warn(fleet):
    X, task = fleet
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        LinearOCKSR(max_iter=1).fit(X, task=task)


@pytest.mark.slow
def test_measured_rate_on_real_digits():
    assert 0.05 <= measured_rate(LinearOCKSR) <= 0.13
