r"""Kernel ridge regression without whole blocks of rows, in closed form.

For the problem of :mod:`manyone.solvers.ridge`,

.. math:: \min_f \sum_i w_i \lVert f(x_i) - r_i \rVert^2 + \alpha \lVert f \rVert_k^2,

let :math:`\rho = S (r - f)` be the scaled residuals and :math:`C = \alpha M^{-1}`. Under
the model without the rows B, their scaled residuals are :math:`u = C_{BB}^{-1} \rho_B`,
and the weighted sum of all residuals of a task falls by :math:`\rho_B' u`. That is one
solve of the size of the block, and no refit.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from scipy.linalg import blas, solve

from manyone._types import Array, Codes
from manyone.data.groups import LeftOut
from manyone.solvers.ridge import BLOCK, in_terms_of_all, left_out_mean


def solve_without_blocks(
    L: Array, alpha: float, scaled: Array, blocks: list[Codes]
) -> Iterator[Array]:
    """Scaled residuals (k,) of each block under the model refitted without it.

    Parameters
    ----------
    L : ndarray of shape (n, n)
        Lower Cholesky factor of S K S + alpha I.
    alpha : float
    scaled : ndarray of shape (n,)
        Residuals times the square roots of the weights.
    blocks : list of ndarray
        Rows that are left out together.
    """
    n = len(L)
    for batch, rows, ends in _batches(blocks):
        first = int(rows.min())  # columns of L^-1 vanish above their diagonal
        width = len(rows)
        columns = np.zeros((n - first, width), order="F")
        columns[rows - first, np.arange(width)] = 1.0
        corner = L[first:, first:]
        half = blas.dtrsm(1.0, corner, columns, lower=1, overwrite_b=1)
        for block, part in zip(batch, np.split(half, ends, axis=1), strict=True):
            C = alpha * (part.T @ part)
            yield solve(C, scaled[block], assume_a="pos", check_finite=False)


def solve_primal_without_blocks(
    features: Callable[[Codes], Array],
    weight: Array,
    scaled: Array,
    blocks: list[Codes],
) -> Iterator[Array]:
    """The same from features z (k, m) of rows (k,): a leverage is ``w |z|^2``."""
    for batch, rows, ends in _batches(blocks):
        Z = np.sqrt(weight[rows])[:, None] * features(rows)
        for block, part in zip(batch, np.split(Z, ends), strict=True):
            size, m = part.shape
            if size <= m:
                C = np.eye(size) - part @ part.T
                yield solve(C, scaled[block], assume_a="pos", check_finite=False)
            else:  # C^-1 = I + Z (I - Z'Z)^-1 Z'
                right = part.T @ scaled[block]
                inner = solve(np.eye(m) - part.T @ part, right, assume_a="pos")
                yield scaled[block] + part @ inner


def _batches(blocks: list[Codes]) -> Iterator[tuple[list[Codes], Codes, Codes]]:
    """Blocks in batches: the blocks, all their rows, and where to split the rows."""
    start = 0
    while start < len(blocks):
        stop = start + 1
        width = len(blocks[start])
        while stop < len(blocks) and width + len(blocks[stop]) <= BLOCK:
            width += len(blocks[stop])
            stop += 1
        batch = blocks[start:stop]
        ends = np.cumsum([len(block) for block in batch])[:-1]
        yield batch, np.concatenate(batch), ends
        start = stop


def scores_without_blocks(
    solved: Iterable[Array],
    leaving: list[LeftOut],
    residual: Array,
    weight: Array,
    codes: Codes,
    total: Array,
    mean: Array,
) -> Array:
    """Score of normal rows under models refitted without their block.

    The scores are those of :class:`manyone.solvers.ridge.LeftOutRows`.

    Parameters
    ----------
    solved : iterable of ndarray
        Scaled residuals of each block without it.
    leaving : list of LeftOut
        Blocks, each of normal rows of one task, and which of their rows to score.
    residual : ndarray of shape (n,)
        1 - f_t(x) of each normal row for its own task t; NaN for known outliers.
    weight, codes : ndarray of shape (n,)
    total, mean : ndarray of shape (T,)
        What all normal rows of each task weigh, and their mean response.

    Returns
    -------
    ndarray of shape (n,)
        NaN: the row never leaves.
    """
    scores = np.full(len(codes), np.nan)
    root = np.sqrt(weight)
    summed = total * (1.0 - mean)
    for without, (gone, judged) in zip(solved, leaving, strict=True):
        task = codes[gone[0]]
        lost = (root[gone] * residual[gone]) @ without
        removed = weight[gone].sum()
        mean_of_others = left_out_mean(summed[task], lost, total[task], removed)
        distance = np.abs(without / root[gone] - mean_of_others)[judged]
        is_guide = total[task] - removed > 1.0
        factor = in_terms_of_all(1.0 - mean_of_others, mean[task], is_guide)
        scores[gone[judged]] = -factor * distance
    return scores
