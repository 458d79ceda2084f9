"""Kernel null space: directions that map every class onto a single point."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh, qr, svd

from manyone._types import Array, Codes


class NullSpaceSolution(NamedTuple):
    """Solution of :func:`solve_null_space`.

    Attributes
    ----------
    projection : array of shape (n, m)
        P; a new row projects to k_x'P, with plain kernel values.
    targets : array of shape (n_classes, m)
        Mean projection of every class.
    objective : float
        Within-class over total scatter of the projected training rows.
    rank : int
        Dimension of the centred training rows in feature space.
    converged : bool
        False when no null direction exists, and the least bad direction stands in.
    """

    projection: Array
    targets: Array
    objective: float
    rank: int
    converged: bool


def distinct_rows(K: Array, labels: Codes) -> Codes:
    """Rows without those that equal an earlier one of the same class in feature space.

    To rounding: whether the bits of two copies agree is a matter of the processor.

    Parameters
    ----------
    K : array of shape (n, n)
    labels : array of shape (n,)
        Class of every row.

    Returns
    -------
    array of shape (m,)
        Sorted row numbers.
    """
    diagonal = np.diagonal(K)
    size = np.abs(diagonal)
    distance2 = np.abs(diagonal[:, None] + diagonal - 2 * K)
    equal = distance2 <= 1e-12 * np.maximum(size[:, None], size)
    equal &= labels[:, None] == labels
    np.fill_diagonal(equal, True)
    first_equal = equal.argmax(axis=1)
    return np.flatnonzero(first_equal == np.arange(len(K)))


def solve_null_space(K: Array, labels: Codes, rtol: float = 1e-12) -> NullSpaceSolution:
    r"""Minimise w'S_w w / w'S_t w over orthonormal w in the range of S_t.

    S_w and S_t are the within-class and total scatter in feature space. Let K_c = V L
    V' be the centred kernel. A direction with coordinates L^-1/2 u sends the training
    rows to V u. So null directions are where range(V) meets the span of the class
    indicators, at principal angles of zero. That needs no eigendecomposition but that
    of K_c, and does not depend on how L decays.

    Parameters
    ----------
    K : array of shape (n, n)
        Positive semi-definite.
    labels : array of shape (n,)
        Class of every row, 0 to n_classes - 1, each occurring, n_classes >= 2.
    rtol : float, default=1e-12
        Eigenvalues of K_c below ``rtol`` times the largest count as zero (duplicated
        rows).

    Returns
    -------
    NullSpaceSolution
        With m <= n_classes - 1 columns; one column when the null space is empty.
    """
    indicator = (labels[:, None] == np.arange(labels.max() + 1)).astype(float)
    counts = indicator.sum(axis=0)
    row_mean = K.mean(axis=0)
    values, vectors = eigh(K - row_mean - row_mean[:, None] + row_mean.mean())
    keep = values > rtol * max(values[-1], 0.0)
    if not keep.any():  # All rows coincide.
        projection = np.zeros((len(K), 1))
        targets = np.zeros((len(counts), 1))
        return NullSpaceSolution(projection, targets, 1.0, 0, converged=False)
    roots = np.sqrt(values[keep])
    vectors = vectors[:, keep]

    # Orthonormal basis of the class-constant vectors that sum to zero: in coordinates
    # of the unit indicators the constant vector is sqrt(counts), and its direction is
    # dropped.
    classes = indicator / np.sqrt(counts) @ qr(np.sqrt(counts)[:, None])[0][:, 1:]
    left, cosines, _ = svd(vectors.T @ classes, full_matrices=False)
    null = 1.0 - cosines**2 <= 1e-9
    if null.any():
        coordinates = qr(left[:, null] / roots[:, None], mode="economic")[0]
        # A null space has no axes of its own: take those along which the classes spread
        # most.
        axes = svd(roots[:, None] * coordinates, full_matrices=False)[2]
        coordinates = coordinates @ axes.T
    else:
        outside = (vectors - classes @ (classes.T @ vectors)) * roots
        coordinates = eigh(outside.T @ outside, subset_by_index=(0, 0))[1]
    projection = vectors @ (coordinates / roots[:, None])
    projection -= projection.mean(axis=0)

    projected = K @ projection
    targets = indicator.T @ projected / counts[:, None]
    # Signs are arbitrary: let the farthest target of every direction be positive.
    peak = np.abs(targets).argmax(axis=0)
    flip = np.where(targets[peak, np.arange(targets.shape[1])] < 0, -1.0, 1.0)
    within = np.square(projected - targets[labels]).sum()
    total = np.square(projected - projected.mean(axis=0)).sum()
    return NullSpaceSolution(
        projection * flip,
        targets * flip,
        float(within / total),
        int(keep.sum()),
        bool(null.any()),
    )
