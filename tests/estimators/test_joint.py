"""What is particular to the joint model."""

import numpy as np
import pytest

from manyone import IndependentOCKSR, JointOCKSR
from manyone.models.guards import unguarded


def overlapping(n_tasks=10, n_rows=30):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(n_tasks), n_rows)
    return rng.normal(size=(len(task), 5)) + 0.5 * rng.normal(size=(n_tasks, 5))[
        task
    ], task


def test_rows_like_nothing_seen_raise_an_alarm_where_responses_cannot_tell():
    """Where tasks overlap, a far row responds as normal rows of a neighbour do."""
    X, task = overlapping()
    model = JointOCKSR().fit(X, task=task)
    far = np.full((10, 5), 1e9)
    claim = np.arange(10)
    bare = unguarded(model.solution_.scorer).own(far, claim)
    assert np.any(bare >= model.offset_)
    assert np.all(model.predict(far, task=claim) == -1)


def test_null_space_as_the_ridge_vanishes():
    """The theorem: all normal rows of a task are mapped to one point."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(3), 20)
    X = rng.normal(size=(60, 6))
    model = JointOCKSR(alpha=0.0, alarm_rate=0.1).fit(X, task=task)
    scores = model.score_samples(X, task=task)
    assert np.abs(scores).max() < 1e-8


def test_structure_is_the_mean_left_out_response(fleet):
    X, task = fleet
    model = JointOCKSR(gamma=0.2, alarm_rate=0.2).fit(X, task=task)
    sums = np.zeros((5, 5))
    for i in range(len(X)):
        kept = np.arange(len(X)) != i
        refit = JointOCKSR(gamma=0.2, alarm_rate=0.2).fit(X[kept], task=task[kept])
        response = refit.kernel_(X[[i]], refit.X_fit_) @ refit.dual_coef_
        sums[np.searchsorted(model.tasks_, task[i])] += response[0]
    counts = np.unique(task, return_counts=True)[1]
    np.testing.assert_allclose(model.structure_, sums / counts[:, None], atol=1e-8)


def test_landmarks_approach_the_exact_model(fleet):
    X, task = fleet
    exact = JointOCKSR(alarm_rate=0.2).fit(X, task=task)
    gaps = []
    for m in (5, 25, 60):
        model = JointOCKSR(alarm_rate=0.2, landmarks=m, random_state=0).fit(
            X, task=task
        )
        assert model.X_fit_.shape[0] == m
        gaps.append(np.abs(model.score_tasks(X) - exact.score_tasks(X)).max())
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-6
    np.testing.assert_allclose(model.offset_, exact.offset_, atol=1e-6)
    assert np.array_equal(
        JointOCKSR(landmarks=9, random_state=3).fit(X, task=task).score_tasks(X),
        JointOCKSR(landmarks=9, random_state=3).fit(X, task=task).score_tasks(X),
    )


def test_one_column_that_drowns_the_others_is_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * [1.0, 1e6, 1.0]
    with pytest.warns(UserWarning, match=r"column 1 .*StandardScaler"):
        JointOCKSR(alarm_rate=0.1).fit(X)


@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_no_ridge_on_a_kernel_of_low_rank_is_least_squares(method):
    """Thirty rows in three directions: the rest does not drown in rounding."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    Z = 2 * rng.normal(size=(500, 3))
    model = method(kernel="linear", alpha=0.0).fit(X)
    w = np.linalg.lstsq(X, np.ones(30), rcond=None)[0]
    expected = -np.abs(Z @ w - (X @ w).mean())
    np.testing.assert_allclose(model.score_samples(Z), expected, atol=5e-3)
    one_by_one = np.concatenate([model.score_samples(z[None]) for z in Z])
    np.testing.assert_allclose(one_by_one, model.score_samples(Z), atol=5e-3)


def test_unsigned_labels_that_fit_are_integers_too(fleet):
    X, task = fleet
    codes = np.unique(task, return_inverse=True)[1].astype(np.uint64)
    found = JointOCKSR().fit(X, task=codes).predict_task(np.full((1, X.shape[1]), 1e6))
    assert found.dtype == np.int64 and found[0] in (-1, *range(5))
