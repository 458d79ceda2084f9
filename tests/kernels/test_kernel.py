"""Kernel values against scikit-learn's, widths against their definitions."""

import numpy as np
import pytest
import sklearn
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.stats import chi2
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from manyone.data.rows import row_blocks
from manyone.kernels import KERNELS, MIXTURE, resolve_kernel, widths
from manyone.kernels.kernel import kernel_grams
from manyone.kernels.widths import weighted_median

NAMED = sorted(KERNELS - {MIXTURE, "precomputed"})
METRICS = {"rbf": "sqeuclidean", "laplacian": "cityblock"}


@pytest.fixture
def X():
    return np.abs(np.random.default_rng(0).normal(size=(23, 5)))


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("gamma", [0.37, "mean"])
def test_equals_scikit_learn(X, name, gamma):
    kernel = resolve_kernel(name, X, gamma=gamma, coef0=0.5, degree=2)
    params = {"gamma": kernel.reported_gamma} if kernel.gamma else {}
    if name in ("poly", "polynomial", "sigmoid"):
        params["coef0"] = 0.5
    if name in ("poly", "polynomial"):
        params["degree"] = 2
    expected = pairwise_kernels(X, X[:7], metric=name, **params)
    np.testing.assert_allclose(kernel(X, X[:7]), expected, rtol=1e-10)
    np.testing.assert_allclose(kernel.gram(X)[:, :7], expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(kernel.gram(X)), rtol=1e-10)
    np.testing.assert_allclose(
        kernel_grams(kernel, X[:20].reshape(4, 5, 5))[1],
        kernel.gram(X[5:10]),
        rtol=1e-10,
        atol=1e-14,
    )


def test_mixture_is_the_mean(X):
    mixture = resolve_kernel(MIXTURE, X)
    parts = [resolve_kernel(name, X) for name in ("rbf", "laplacian")]
    expected = (parts[0](X, X) + parts[1](X, X)) / 2
    np.testing.assert_allclose(mixture(X, X), expected, rtol=1e-12)
    np.testing.assert_allclose(mixture.gram(X), expected, rtol=1e-10)
    assert mixture.reported_gamma == tuple(part.reported_gamma for part in parts)


def test_gram_is_symmetric_with_unit_diagonal():
    X = np.random.default_rng(1).normal(size=(700, 3))  # several blocks
    for name in ("rbf", "laplacian", MIXTURE):
        K = resolve_kernel(name, X).gram(X)
        assert np.array_equal(K, K.T)
        assert np.all(np.diag(K) == 1.0)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_mean_and_median_width_by_definition(X, name, kind):
    weight = np.random.default_rng(2).integers(1, 4, len(X)).astype(float)
    again = np.repeat(X, weight.astype(int), axis=0)
    distances = cdist(again, again, METRICS[name])
    data = kind(X)
    mean = resolve_kernel(name, data, gamma="mean", weight=weight)
    assert mean.reported_gamma == pytest.approx(1 / distances.mean())
    median = resolve_kernel(name, data, gamma="median", weight=weight)
    assert median.reported_gamma == pytest.approx(1 / np.median(distances))
    scale = resolve_kernel(name, data, gamma="scale", weight=weight)
    assert scale.reported_gamma == pytest.approx(1 / (5 * again.var()))
    wide = resolve_kernel(name, data, gamma="mean", width=2.0, weight=weight)
    assert wide.reported_gamma == pytest.approx(0.5 / distances.mean())


def test_chi2_width_and_product_width(X):
    chi2 = resolve_kernel("chi2", X)
    distances = -pairwise_kernels(X, X, metric="additive_chi2")
    assert chi2.reported_gamma == pytest.approx(1 / distances.mean())
    poly = resolve_kernel("poly", X)
    assert poly.reported_gamma == pytest.approx(1 / np.mean((X**2).sum(axis=1)))


@pytest.mark.parametrize("name", ["rbf", "laplacian", MIXTURE, "linear", "cosine"])
def test_sparse_rows_give_the_same_values(X, name):
    X = np.where(X > 0.7, X, 0.0)
    dense = resolve_kernel(name, X)
    thin = resolve_kernel(name, sparse.csr_array(X))
    np.testing.assert_allclose(
        thin.gram(sparse.csr_array(X)), dense.gram(X), atol=1e-10
    )
    np.testing.assert_allclose(
        thin(X[:3], sparse.csr_array(X)), dense(X[:3], X), atol=1e-10
    )
    np.testing.assert_allclose(
        dense(sparse.csr_array(X[:3]), X), dense(X[:3], X), atol=1e-10
    )


@pytest.mark.parametrize("name", ["rbf", "laplacian", MIXTURE])
@pytest.mark.parametrize("factor", [1e-160, 1e-8, 1e8, 1e160])
def test_data_driven_width_ignores_the_units(X, name, factor):
    plain = resolve_kernel(name, X).gram(X)
    scaled = X * factor
    np.testing.assert_allclose(
        resolve_kernel(name, scaled).gram(scaled), plain, rtol=1e-9
    )


def test_large_offsets_do_not_cancel():
    X = np.random.default_rng(0).normal(size=(30, 3))
    moved = resolve_kernel("rbf", X + 1e7, gamma=0.5)
    expected = resolve_kernel("rbf", X, gamma=0.5).gram(X)
    np.testing.assert_allclose(moved.gram(X + 1e7), expected, atol=1e-7)


def test_callable_gets_its_parameters(X):
    def power(x, y, exponent):
        return float(x @ y) ** exponent

    kernel = resolve_kernel(power, X, params={"exponent": 2})
    np.testing.assert_allclose(kernel(X, X), (X @ X.T) ** 2)


@pytest.mark.parametrize("memory", [1e-6, 1, 1024])
def test_blocks_cover_all_rows_within_memory(memory):
    with sklearn.config_context(working_memory=memory):
        blocks = list(row_blocks(1000, 300))
    rows = np.concatenate([np.arange(b.start, b.stop) for b in blocks])
    assert np.array_equal(rows, np.arange(1000))
    largest = max(b.stop - b.start for b in blocks)
    assert largest == 1 or largest * 300 * 8 <= memory * 2**20


@pytest.mark.parametrize("n", [1, 4, 5])
def test_weighted_median(n):
    rng = np.random.default_rng(n)
    values = rng.normal(size=n)
    weight = rng.integers(1, 4, n).astype(float)
    expected = np.median(np.repeat(values, weight.astype(int)))
    assert weighted_median(values, weight) == pytest.approx(expected)


def test_a_diagonal_is_that_of_the_matrix(X):
    for name in NAMED:
        kernel = resolve_kernel(name, X, gamma=0.3)
        np.testing.assert_allclose(
            kernel.diagonal(X), np.diagonal(kernel(X, X)), atol=1e-12
        )
        if name not in ("chi2", "additive_chi2"):
            rows = sparse.csr_array(X)
            np.testing.assert_allclose(
                kernel.diagonal(rows), kernel.diagonal(X), atol=1e-12
            )


@pytest.mark.parametrize("seed", range(3))
def test_the_median_of_many_rows_is_that_of_a_sample_to_few_percent(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6000, 4))
    weight = rng.integers(1, 4, 6000).astype(float)
    median = widths.median_distance("sqeuclidean", X, weight)
    assert median == pytest.approx(2.0 * chi2.median(4), rel=0.06)


def test_all_of_scikit_learns_names_are_known():
    assert {*PAIRWISE_KERNEL_FUNCTIONS, MIXTURE, "precomputed"} == KERNELS
