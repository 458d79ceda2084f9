"""Rivals are what their packages make of them."""

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf, ShrunkCovariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import OneClassSVM

from manyone.experiments.rivals import base, distances, pyod_detectors, scikit_learn


@pytest.fixture
def rows():
    """Two tasks of 20 rows with a constant column, and 11 new rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    Z = rng.normal(size=(11, 6))
    X[:, 3] = 0.0
    Z[:5, 3] = 0.0
    return X, np.repeat(["a", "b"], 20), Z


@pytest.mark.parametrize(("n", "d"), [(15, 40), (60, 7)])
def test_shrunk_mahalanobis_agrees_with_scikit_learn(n, d):
    rng = np.random.default_rng(1)
    C = rng.normal(size=(n, d)) * rng.uniform(0.5, 2, d)
    Z = rng.normal(size=(9, d))
    expected = LedoitWolf(assume_centered=True).fit(C).mahalanobis(Z)
    found = distances.ShrunkMahalanobis(C).whiten(Z)
    np.testing.assert_allclose(np.sum(found**2, axis=1), expected)
    shrunk = ShrunkCovariance(shrinkage=0.3, assume_centered=True).fit(C)
    ours = distances.ShrunkMahalanobis(C, 0.3)
    np.testing.assert_allclose(
        np.sum(ours.whiten(Z) ** 2, axis=1), shrunk.mahalanobis(Z)
    )
    solved = ours.whiten(ours.whiten(Z))
    np.testing.assert_allclose(solved, Z @ shrunk.precision_, rtol=1e-9, atol=1e-9)


def test_mahalanobis_of_one_task_and_of_all(rows):
    X, task, Z = rows
    own = LedoitWolf().fit(X[:20]).mahalanobis(Z)
    scores = distances.PerTaskMahalanobis().fit(X, task=task).score_tasks(Z)
    np.testing.assert_allclose(scores[:, 0], -np.sqrt(own))
    centred = X - np.repeat([X[:20].mean(axis=0), X[20:].mean(axis=0)], 20, axis=0)
    shared = LedoitWolf(assume_centered=True).fit(centred)
    scores = distances.PooledMahalanobis().fit(X, task=task).score_tasks(Z)
    expected = shared.mahalanobis(Z - X[20:].mean(axis=0))
    np.testing.assert_allclose(scores[:, 1], -np.sqrt(expected))


@pytest.mark.parametrize("rate", [0.05, 0.3])
@pytest.mark.parametrize(
    ("rival", "detector"),
    [
        (scikit_learn.PerTaskIsolationForest(), IsolationForest(random_state=0)),
        (
            scikit_learn.PerTaskLocalOutlierFactor(n_neighbors=5),
            LocalOutlierFactor(5, novelty=True),
        ),
    ],
)
def test_contamination_of_scikit_learn(rows, rival, detector, rate):
    X, task, Z = rows
    rival.fit(X, task=task).recalibrate(rate)
    expected = detector.set_params(contamination=rate).fit(X[20:]).decision_function(Z)
    np.testing.assert_allclose(
        rival.decision_function(Z, task=np.repeat("b", 11)), expected
    )


def test_few_rows_bound_the_neighbours():
    X = np.random.default_rng(0).normal(size=(9, 2))
    task = np.repeat([0, 1, 2], [2, 3, 4])
    scores = scikit_learn.PerTaskLocalOutlierFactor().fit(X, task=task).score_tasks(X)
    assert np.all(np.isfinite(scores))


def test_one_class_svms_are_asked_through_nu(rows):
    X, task, Z = rows
    rival = (
        scikit_learn.PerTaskOneClassSVM(gamma="scale")
        .fit(X, task=task)
        .recalibrate(0.3)
    )
    detector = OneClassSVM(gamma=1 / (6 * X.var()), nu=0.3).fit(X[:20])
    found = rival.decision_function(Z, task=np.repeat("a", 11))
    np.testing.assert_allclose(found, detector.decision_function(Z), atol=1e-6)


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_detectors_of_pyod(rows, rate):
    ecod = pytest.importorskip("pyod.models.ecod", reason="needs manyone[experiments]")
    kpca = pytest.importorskip("pyod.models.kpca")
    X, task, Z = rows
    rival = pyod_detectors.PerTaskECOD().fit(X, task=task).recalibrate(rate)
    detector = ecod.ECOD(contamination=rate).fit(X[20:])
    alone = np.concatenate([detector.decision_function(row[None]) for row in Z])
    np.testing.assert_allclose(rival.score_tasks(Z)[:, 1], -alone)
    assert rival.offset_[1] == pytest.approx(-detector.threshold_)

    rival = (
        pyod_detectors.PerTaskKPCA(n_components=3).fit(X, task=task).recalibrate(rate)
    )
    gamma = 1 / ((X[:, None] - X) ** 2).sum(axis=2).mean()
    detector = kpca.KPCA(gamma=gamma, n_components=3, contamination=rate).fit(X[20:])
    np.testing.assert_allclose(
        rival.score_tasks(Z)[:, 1], -detector.decision_function(Z)
    )
    assert rival.offset_[1] == pytest.approx(-detector.threshold_)


@pytest.mark.parametrize(("norm", "p"), [("euclidean", 2), ("cityblock", 1)])
def test_nearest_neighbours(rows, norm, p):
    X, task, Z = rows
    rival = distances.PerTaskNearestNeighbour(norm=norm).fit(X, task=task)
    expected = NearestNeighbors(n_neighbors=1, p=p).fit(X[20:]).kneighbors(Z)[0][:, 0]
    np.testing.assert_allclose(
        rival.score_samples(Z, task=np.repeat("b", 11)), -expected
    )
    between = NearestNeighbors(n_neighbors=1, p=p).fit(X[:20]).kneighbors()[0][:, 0]
    assert rival.recalibrate(0.25).offset_[0] == pytest.approx(
        np.quantile(-between, 0.25)
    )


def test_the_largest_deviation_is_that_of_the_moved_column(rows):
    X, task, Z = rows
    rival = distances.LargestDeviation().fit(X, task=task)
    Z[:, 1] = X[20:, 1].mean() + 50.0
    spread = np.concatenate(
        [X[:20, 1] - X[:20, 1].mean(), X[20:, 1] - X[20:, 1].mean()]
    ).std()
    np.testing.assert_allclose(rival.score_tasks(Z)[:, 1], -50.0 / spread)


def test_one_forest_for_all_tasks(rows):
    X, task, Z = rows
    rival = scikit_learn.PooledIsolationForest(centred=False).fit(X, task=task)
    expected = IsolationForest(random_state=0).fit(X).score_samples(Z)
    np.testing.assert_allclose(
        rival.score_samples(Z, task=np.repeat("a", 11)), expected
    )
    np.testing.assert_allclose(rival.score_tasks(Z)[:, 0], expected)
    moved = X + np.where(task == "a", 100.0, 0.0)[:, None]
    scores = [
        scikit_learn.PooledIsolationForest()
        .fit(rows, task=task)
        .score_samples(rows, task=task)
        for rows in (X, moved)
    ]
    np.testing.assert_allclose(*scores)


def test_own_scales_undo_the_units_of_each_task(rows):
    X, task, Z = rows
    label = np.repeat("a", 11)
    units = np.array([1e3, 1.0, 1e-3, 1.0, 1.0, 10.0])
    rival = base.OwnScales(distances.PerTaskNearestNeighbour(), prior=0.0)
    plain = rival.fit(X, task=task).score_samples(Z, task=label)
    there = X * np.where((task == "a")[:, None], units, 1.0)
    scaled = rival.fit(there, task=task)
    np.testing.assert_allclose(scaled.score_samples(Z * units, task=label), plain)
    np.testing.assert_allclose(scaled.score_tasks(Z * units)[:, 0], plain)
    margin = scaled.recalibrate(0.3).decision_function(Z * units, task=label)
    assert np.ptp(margin - plain) < 1e-9


@pytest.mark.parametrize("T", [2, 3])
def test_discriminants_give_the_posterior_of_scikit_learn(T):
    rng = np.random.default_rng(2)
    codes = np.repeat(np.arange(T), 12)
    X = rng.normal(size=(12 * T, 4)) + rng.normal(size=(T, 4))[codes]
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(X, codes)
    scores = scikit_learn.LinearDiscriminants().fit(X, task=codes).score_tasks(X)
    np.testing.assert_allclose(scores, model.predict_log_proba(X))
