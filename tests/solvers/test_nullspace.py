import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space as scipy_null_space
from scipy.linalg import orth, subspace_angles
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from manyone.solvers.nullspace import distinct_rows, solve_null_space


def classes(seed, sizes=(5, 1, 8), d=30):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(sum(sizes), d)), np.repeat(np.arange(len(sizes)), sizes)


def one_class_null_space(K):
    """Training rows against the origin: no similarity to anything, itself included."""
    n = len(K)
    solution = solve_null_space(np.pad(K, (0, 1)), np.repeat([0, 1], [n, 1]))
    return solution._replace(
        projection=solution.projection[:n], targets=solution.targets[:1]
    )


def explicit_null_directions(X, labels):
    """Null Foley-Sammon in input space, straight from the scatter matrices."""
    centred = X - X.mean(axis=0)
    within = (
        X
        - np.stack([X[labels == c].mean(axis=0) for c in range(labels.max() + 1)])[
            labels
        ]
    )
    basis = orth(centred.T)
    return basis @ scipy_null_space(within @ basis, rcond=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_linear_kernel_equals_explicit_scatter_matrices(seed):
    X, labels = classes(seed)
    solution = solve_null_space(linear_kernel(X), labels)
    directions = X.T @ solution.projection
    expected = explicit_null_directions(X, labels)
    assert solution.converged
    assert directions.shape == expected.shape == (30, 2)
    np.testing.assert_allclose(directions.T @ directions, np.eye(2), atol=1e-10)
    assert subspace_angles(directions, expected).max() < 1e-7


@given(st.integers(0, 10_000), st.integers(2, 5), st.booleans())
@settings(max_examples=50, deadline=None)
def test_training_classes_collapse(seed, n_classes, duplicates):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 8, n_classes)
    X, labels = classes(seed, tuple(sizes), d=4)
    if duplicates:
        repeated = rng.integers(0, len(X), 3)
        X = np.vstack([X, X[repeated]])
        labels = np.append(labels, labels[repeated])
    K = rbf_kernel(X, gamma=0.5)
    solution = solve_null_space(K, labels)
    projected = K @ solution.projection
    assert solution.converged
    assert solution.objective < 1e-16 * 1e4
    np.testing.assert_allclose(projected, solution.targets[labels], atol=1e-8)
    assert solution.rank == sizes.sum() - 1
    # The class points are distinct, in n_classes - 1 dimensions.
    assert (
        np.linalg.matrix_rank(solution.targets - solution.targets[0]) == n_classes - 1
    )


def test_duplicates_do_not_change_the_projection():
    X, labels = classes(0)
    again = [0, 0, 7]
    K = rbf_kernel(X, gamma=0.02)
    copies = np.vstack([X, X[again]])
    plain = solve_null_space(K, labels)
    repeated = solve_null_space(
        rbf_kernel(copies, gamma=0.02), np.append(labels, labels[again])
    )
    new = rbf_kernel(np.random.default_rng(1).normal(size=(20, 30)), copies, gamma=0.02)

    def distances(solution, kernel):
        return np.linalg.norm(
            kernel @ solution.projection - solution.targets[:, None], axis=-1
        )

    np.testing.assert_allclose(
        distances(plain, new[:, : len(X)]), distances(repeated, new), atol=1e-9
    )


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_copies_are_found_also_where_rounding_tells_them_apart(scale):
    X, labels = classes(1, (4, 4), d=3)
    X[2] = X[1]
    X[6] = X[1]
    X[7] = np.nextafter(X[5], 9.0)
    for kernel in (rbf_kernel, linear_kernel):
        found = distinct_rows(scale * kernel(X), labels)
        assert found.tolist() == [0, 1, 3, 4, 5, 6]
    assert distinct_rows(np.zeros((3, 3)), np.array([0, 1, 0])).tolist() == [0, 1]


def test_two_classes_on_the_same_rows_have_no_null_direction():
    X, _ = classes(0, (4,))
    K = rbf_kernel(np.vstack([X, X]), gamma=0.02)
    solution = solve_null_space(K, np.repeat([0, 1], 4))
    assert not solution.converged
    assert solution.projection.shape == (8, 1)
    assert solution.objective > 0.99


def test_without_null_space_the_smallest_scatter_is_taken():
    X, labels = classes(3, (20, 30), d=3)
    solution = solve_null_space(linear_kernel(X), labels)
    direction = X.T @ solution.projection[:, 0]
    assert not solution.converged
    assert np.linalg.norm(direction) == pytest.approx(1)
    within = X - np.stack([X[labels == c].mean(axis=0) for c in (0, 1)])[labels]
    smallest = np.linalg.eigvalsh(within.T @ within)[0]
    assert direction @ within.T @ within @ direction == pytest.approx(smallest)


@pytest.mark.parametrize("n", [1, 2, 15])
def test_one_class_is_proportional_to_the_kernel_solve(n):
    X, _ = classes(4, (n,))
    K = rbf_kernel(X, gamma=0.02)
    solution = one_class_null_space(K)
    expected = np.linalg.solve(K, np.ones(n))
    expected /= np.sqrt(expected @ K @ expected)
    assert solution.converged
    assert solution.objective < 1e-12
    np.testing.assert_allclose(
        solution.projection[:, 0], expected, rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        K @ solution.projection, solution.targets[0, 0], atol=1e-8
    )
    assert solution.targets.shape == (1, 1)
    assert solution.targets[0, 0] > 0


def test_one_class_with_duplicates_uses_the_pseudo_inverse():
    X, _ = classes(5, (10,))
    X = np.vstack([X, X[:4]])
    K = rbf_kernel(X, gamma=0.02)
    expected = np.linalg.pinv(K, hermitian=True, rcond=1e-10) @ np.ones(14)
    solution = one_class_null_space(K)
    ratio = solution.projection[:, 0] / expected
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-8)


def test_one_class_scores_are_those_of_a_kernel_fit_without_ridge():
    X, _ = classes(6, (12,))
    K = rbf_kernel(X, gamma=0.02)
    new = rbf_kernel(np.random.default_rng(8).normal(size=(20, 30)), X, gamma=0.02)
    solution = one_class_null_space(K)
    ours = np.abs(new @ solution.projection - solution.targets)[:, 0]
    theirs = np.abs(new @ np.linalg.solve(K, np.ones(12)) - 1)
    assert np.corrcoef(ours, theirs)[0, 1] == pytest.approx(1, abs=1e-12)


def test_one_class_around_the_origin_is_flagged():
    X, _ = classes(9, (50,), d=2)
    solution = one_class_null_space(linear_kernel(X))
    assert not solution.converged
    assert np.isfinite(solution.projection).all()


@pytest.mark.parametrize("K", [np.zeros((3, 3)), np.ones((3, 3))])
def test_coinciding_rows(K):
    solution = solve_null_space(K, np.array([0, 0, 1]))
    assert not solution.converged
    np.testing.assert_array_equal(solution.projection, np.zeros((3, 1)))


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scale_of_the_kernel_does_not_matter(scale):
    X, labels = classes(10)
    K = rbf_kernel(X, gamma=0.02)
    plain = solve_null_space(K, labels)
    scaled = solve_null_space(scale * K, labels)
    assert scaled.converged
    np.testing.assert_allclose(
        scaled.projection * np.sqrt(scale), plain.projection, rtol=1e-6, atol=1e-9
    )
