"""The null space transform as an estimator."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from manyone import KNFST, IndependentOCKSR
from manyone.models.guards import unguarded
from manyone.models.scorers import Projection

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 0.1])
def test_one_task_is_proportional_to_regression_with_the_same_ridge(ridge):
    """With the origin it is the regression at alpha = 0, with a ridge beyond."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 6))
    Z = 2 * rng.normal(size=(30, 6))
    null = KNFST(gamma=0.3, ridge=ridge).fit(X)
    regression = IndependentOCKSR(gamma=0.3, alpha=ridge).fit(X)
    coef = np.linalg.solve(
        null.kernel_.gram(null.X_fit_) + ridge * np.eye(15), np.ones(15)
    )
    np.testing.assert_allclose(
        null.projection_[:, 0] / coef, null.projection_[0, 0] / coef[0]
    )
    ratio = null.score_samples(Z) / regression.score_samples(Z)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("origin", "n_directions"), [("auto", 2), (False, 2), (True, 3)]
)
def test_tasks_are_points_without_a_ridge(origin, n_directions):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(3), 8)
    X = rng.normal(size=(24, 10)) + rng.normal(size=(3, 10))[task]
    X[1] = X[0]
    model = KNFST(gamma=0.3, ridge=0.0, origin=origin).fit(X, task=task)
    assert model.projection_.shape == (24, n_directions)
    np.testing.assert_allclose(model.score_samples(X, task=task), 0.0, atol=1e-8)
    # Directions of unit length, and targets apart.
    K = model.kernel_.gram(model.X_fit_)
    gram = model.projection_.T @ K @ model.projection_
    np.testing.assert_allclose(gram, np.eye(n_directions), atol=1e-8)
    assert np.linalg.matrix_rank(model.targets_ - model.targets_[0]) == 2


def test_the_origin_keeps_rows_unlike_all_others_away():
    """Without it such rows land between targets, or on the only one left."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(3), [20, 20, 20])
    X = rng.normal(size=(60, 3)) + 4.0 * np.eye(3)[task]
    nowhere = np.full((1, 3), 1e3)
    for origin in ("auto", True):
        model = KNFST(origin=origin, alarm_rate=0.1).fit(X, task=task)
        np.testing.assert_allclose(
            unguarded(model.solution_.scorer).all(nowhere)[0],
            -np.linalg.norm(model.targets_, axis=1),
        )
    assert model.predict_task(nowhere)[0] == -1


def test_tasks_on_the_same_rows_have_no_null_direction():
    X = np.random.default_rng(0).normal(size=(8, 3))
    with pytest.warns(ConvergenceWarning, match="No direction"):
        KNFST(ridge=0.0).fit(np.vstack([X, X]), task=np.repeat([0, 1], 8))


def test_copies_that_differ_by_rounding_count_once(fleet):
    X, task = fleet
    again = np.vstack([X, np.nextafter(X[:10], 9.0)])
    plain = KNFST(gamma=0.2).fit(X, task=task)
    copied = KNFST(gamma=0.2).fit(again, task=np.r_[task, task[:10]])
    np.testing.assert_allclose(copied.score_tasks(X), plain.score_tasks(X), atol=1e-8)


def test_targets_are_apart_by_definition():
    rng = np.random.default_rng(0)
    targets = rng.normal(size=(5, 3))
    apart = Projection(None, None, targets).apart()
    squares = cdist(targets, targets, "sqeuclidean").sum(axis=1) / 4
    np.testing.assert_allclose(apart, np.sqrt(squares))


def test_a_wide_task_beside_a_narrow_one_keeps_the_rate():
    """Normal rows of the wide task lie farther from its target than far rows do."""
    task = np.repeat([0, 1], 10)
    new_task = np.repeat([0, 1], 200)
    false_alarms = []
    for draw in range(60):
        rng = np.random.default_rng([8, draw])
        centre = 2.0 * rng.normal(size=(2, 30))
        spread = np.array([[1.0], [3.0]])
        X = centre[task] + spread[task] * rng.normal(size=(20, 30))
        new = centre[new_task] + spread[new_task] * rng.normal(size=(400, 30))
        model = KNFST(alarm_rate=0.1).fit(X, task=task)
        false_alarms.append(np.mean(model.predict(new, task=new_task) == -1))
    assert 0.05 < np.mean(false_alarms) < 0.1
