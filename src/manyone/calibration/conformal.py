r"""Exact p-values: a new row joins its task, and every row of it is left out.

**One row (full conformal prediction).** Let the new row join the n rows of its task. If
it is exchangeable with them, the left-out score of each of the n + 1 rows is equally
likely to be the lowest. So :math:`p = \#\{\text{left-out scores no higher than that of
the new row}\} / (n + 1)` has :math:`P(p \le a) \le a`, for every a and n. All scores
are by models of the same rows: nothing has to be brought to equal terms. Ridge
regressions have closed forms for both, joining and leaving.

**Several rows (a permutation test).** The n rows of the task and m new ones are dealt
anew. Each deal leaves m of them out together, and the mean of their scores is compared
with that of the new rows.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from manyone._types import Array, Codes
from manyone.data.rows import row_blocks
from manyone.solvers.ridge import left_out_mean

# Deals that are tried at most.
_DEALS = 5000


def full_conformal(
    residual: Array,
    one_minus_leverage: Array,
    weight: Array,
    error: Array,
    influence: Array,
    self_influence: Array,
) -> Array:
    """Exact p-values of new rows of a task, each alone; see the module.

    When row x joins, the residual of row i changes by its influence. When row i then
    leaves, its residual is divided by one minus its leverage, and the mean response is
    :func:`manyone.solvers.ridge.left_out_mean`.

    Parameters
    ----------
    residual, one_minus_leverage, weight : ndarray of shape (n,)
        Of the normal rows of the task.
    error : ndarray of shape (m,)
        1 - f_t(x) of the new rows.
    influence : ndarray of shape (m, n)
        phi(x)' (Phi' W Phi + alpha I)^-1 phi_i: how far a unit of weight at x moves the
        response of row i.
    self_influence : ndarray of shape (m,)
        The same for x with itself.

    Returns
    -------
    ndarray of shape (m,)
    """
    grown = 1.0 + self_influence[:, None]
    count = np.minimum(weight, 1.0)
    moved = residual - influence * error[:, None] / grown
    left_out = moved / (one_minus_leverage + count * influence**2 / grown)
    new_residual = error / grown[:, 0]
    total = np.array(weight.sum() + 1.0)
    residual_sum = moved @ weight + new_residual
    lost = count * left_out * moved
    scores = -np.abs(
        left_out - left_out_mean(residual_sum[:, None], lost, total, count)
    )
    new = -np.abs(
        error - left_out_mean(residual_sum, error * new_residual, total, np.array(1.0))
    )
    # Equal scores may differ by rounding. To count them as equal can only enlarge p.
    tied = 1e-10 * (1.0 + np.abs(new))
    return (1.0 + (scores <= (new + tied)[:, None]) @ weight) / total


class TaskRidge(NamedTuple):
    """The kernel ridge regression that judges the rows of one task.

    Attributes
    ----------
    which : ndarray of shape (n,) or slice
        Its rows, by number among the points of the model.
    factor : ndarray of shape (n, n)
        Of S K S + alpha I, see :mod:`manyone.solvers.ridge`.
    coef : ndarray of shape (n,)
        Coefficients of the task's function.
    one_minus_leverage, weight : ndarray of shape (n,)
    alpha : float
    members : ndarray
        The normal rows of the task, by number among its rows.
    """

    which: Codes | slice
    factor: Array
    coef: Array
    one_minus_leverage: Array
    weight: Array
    alpha: float
    members: Codes

    def pull(self, K: Array) -> Array:
        """How far a unit of weight at new rows moves each response, shape (m, n)."""
        root = np.sqrt(self.weight)
        solved = cho_solve((self.factor, True), (K * root).T, check_finite=False)
        return root * solved.T

    @property
    def residual(self) -> Array:
        """1 - f(x) of the task's normal rows."""
        return self.alpha * self.coef[self.members] / self.weight[self.members]


def ridge_pvalues(K: Array, diagonal: Array, ridge: TaskRidge) -> Array:
    """Exact p-values of new rows of one task, each judged alone.

    Parameters
    ----------
    K : ndarray of shape (m, n)
        Kernel values of the new rows.
    diagonal : ndarray of shape (m,)
        Their self-similarities.
    ridge : TaskRidge

    Returns
    -------
    ndarray of shape (m,)
    """
    members = ridge.members
    pull = ridge.pull(K)
    return full_conformal(
        ridge.residual,
        ridge.one_minus_leverage[members],
        ridge.weight[members],
        1.0 - K @ ridge.coef,
        pull[:, members] / ridge.weight[members],
        (diagonal - np.einsum("ij,ij->i", K, pull)) / ridge.alpha,
    )


def exact_pvalue_together(K: Array, kernel: Array, ridge: TaskRidge) -> float:
    """Exact p-value of "these rows are as normal as the task's own", by permutation.

    See the module. If rows are exchangeable, all deals are equally likely. Nothing is
    refitted. Let r be the residuals of the model of all rows, and C = I - hat matrix.
    Rows S that leave together have the residuals e = C_SS^-1 r_S, and the others r -
    C_:S e.

    Parameters
    ----------
    K : ndarray of shape (n + m, N)
        Kernel values of the task's rows, then of the new ones, with those of the model.
    kernel : ndarray of shape (m, m)
        Kernel values among the new rows.
    ridge : TaskRidge

    Returns
    -------
    float
        At least one over the number of deals: all, or thousands of them, always the
        same.
    """
    n_new = len(kernel)
    residual, complement = _joined_by(K, kernel, ridge)
    total = len(residual)
    deals = _deals(total, n_new)
    sums = complement.sum(axis=0)
    means = np.empty(len(deals))
    for deal_block in row_blocks(len(deals), 3 * n_new**2):
        S = deals[deal_block]
        block = complement[S[:, :, None], S[:, None, :]]
        left_out = np.linalg.solve(block, residual[S][:, :, None])[:, :, 0]
        taken = (sums[S] - block.sum(axis=1)) * left_out
        rest = residual.sum() - residual[S].sum(axis=1) - taken.sum(axis=1)
        rest_mean = rest / max(total - n_new, 1)
        means[deal_block] = -np.abs(left_out - rest_mean[:, None]).mean(axis=1)
    # The first deal is the true one. Equal means may differ by rounding.
    return float(np.mean(means <= means[0] + 1e-10 * (1.0 + np.abs(means[0]))))


def _joined_by(K: Array, kernel: Array, ridge: TaskRidge) -> tuple[Array, Array]:
    """Residuals (n + m,), and I - hat matrix, of a task's rows after new rows joined."""
    n_new = len(kernel)
    members = ridge.members
    counts = np.rint(ridge.weight[members]).astype(np.intp)
    pull = ridge.pull(K)
    known_hat = np.repeat(pull[:, members] / ridge.weight[members], counts, axis=1)
    known_places = np.repeat(np.arange(len(members)), counts)
    rows = np.append(known_places, np.arange(len(members), len(K)))
    new = slice(len(known_places), None)
    hat = np.empty((len(rows), len(rows)))
    hat[:, : len(known_places)] = known_hat[rows]
    hat[: len(known_places), new] = hat[new, : len(known_places)].T
    hat[new, new] = (kernel - K[-n_new:] @ pull[-n_new:].T) / ridge.alpha
    errors = np.append(ridge.residual[known_places], 1.0 - K[-n_new:] @ ridge.coef)
    grown = cho_factor(np.eye(n_new) + hat[new, new], lower=True)
    moves = cho_solve(grown, np.column_stack([errors[new], hat[new]]))
    residual = errors - hat[:, new] @ moves[:, 0]
    return residual, np.eye(len(rows)) - hat + hat[:, new] @ moves[:, 1:]


def _deals(total: int, size: int) -> Codes:
    """Subsets (B, size) of all rows; the first is that of the last rows."""
    true_deal = np.arange(total - size, total)
    if comb(total, size) <= _DEALS:
        every = np.array(list(combinations(range(total), size)), dtype=np.intp)
        return every[::-1]
    # A deal costs one solve of its size: about 2e8 flops are spent on all of them.
    number = int(np.clip(2e8 / size**3, 199, _DEALS - 1))
    keys = np.random.default_rng(0).random((number, total))
    return np.vstack([true_deal, np.argpartition(keys, size - 1, axis=1)[:, :size]])
