"""The whitener against its definition and scikit-learn's Ledoit-Wolf."""

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import ledoit_wolf

from manyone import TaskWhitener


@pytest.mark.parametrize(("n", "d"), [(40, 5), (20, 60)])
def test_whitens_the_shrunk_within_task_covariance(n, d):
    rng = np.random.default_rng(0)
    task = rng.integers(0, 4, n)
    X = rng.normal(size=(n, d)) * rng.uniform(0.1, 5, d) + rng.normal(size=(4, d))[task]
    centred = np.vstack([X[task == t] - X[task == t].mean(axis=0) for t in range(4)])
    covariance, shrinkage = ledoit_wolf(centred, assume_centered=True)
    whitener = TaskWhitener().fit(X, task=task)
    assert whitener.shrinkage_ == pytest.approx(shrinkage)
    W = whitener.transform(np.eye(d))
    np.testing.assert_allclose(W @ covariance @ W, np.eye(d), atol=1e-9)
    np.testing.assert_allclose(W, W.T, atol=1e-9)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0, np.int64(1), np.float32(0.5)])
def test_fixed_shrinkage(shrinkage):
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1, 2, 5]
    whitener = TaskWhitener(shrinkage=shrinkage).fit(X)
    S = np.cov(X.T, bias=True)
    target = (1 - shrinkage) * S + shrinkage * np.trace(S) / 3 * np.eye(3)
    W = whitener.transform(np.eye(3))
    np.testing.assert_allclose(W @ target @ W, np.eye(3), atol=1e-9)


def test_units_do_not_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    task = np.arange(30) % 3
    plain = TaskWhitener().fit_transform(X, task=task)
    for factor in (1e-140, 1e140):
        scaled = TaskWhitener().fit_transform(X * factor, task=task)
        np.testing.assert_allclose(scaled, plain, rtol=1e-9)


def test_nothing_varies_and_column_names():
    X = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "who": ["x", "y"]})
    whitened = TaskWhitener().fit_transform(X, task="who")
    np.testing.assert_allclose(whitened, X[["a", "b"]])
    fitted = TaskWhitener().fit(X, task="who")
    np.testing.assert_allclose(fitted.transform(X), fitted.transform(X[["a", "b"]]))
    with pytest.raises(ValueError, match=r"scale_prior.*inf"):
        TaskWhitener(adaptive=True, scale_prior=np.inf).fit(X[["a", "b"]])
    with pytest.raises(ValueError, match=r"covariance_prior.*None"):
        TaskWhitener(covariance_prior=None).fit(X[["a", "b"]])
    with pytest.raises(ValueError, match="shrinkage"):
        TaskWhitener(shrinkage=2.0).fit(X[["a", "b"]])


def test_weights_are_counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    task = np.arange(20) % 4
    weight = rng.integers(0, 4, 20)
    again = np.repeat(np.arange(20), weight)
    weighted = TaskWhitener().fit(X, task=task, sample_weight=weight)
    repeated = TaskWhitener().fit(X[again], task=task[again])
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-10)
