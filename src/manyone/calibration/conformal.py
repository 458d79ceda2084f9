"""Exact p-values by full conformal prediction, and false-discovery control."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve

from manyone._types import Array, Codes, Mask
from manyone.messages import warn_user
from manyone.solvers.ridge import left_out_mean


def full_conformal(
    residual: Array,
    one_minus_leverage: Array,
    weight: Array,
    error: Array,
    influence: Array,
    self_influence: Array,
) -> Array:
    """Exact p-values of rows of one task: each joins the task, then every row is left out.

    Nothing is refitted. Adding a row x moves the residual of row i by its influence, and leaving
    row i out of the augmented model is again the closed form of
    :func:`manyone.solvers.ridge.left_out_scores`.

    Parameters
    ----------
    residual, one_minus_leverage, weight : ndarray of shape (n,)
        Of the normal rows of the task.
    error : ndarray of shape (m,)
        1 - f_t(x) of the new rows.
    influence : ndarray of shape (m, n)
        phi(x)' (Phi' W Phi + alpha I)^-1 phi_i: by how much a unit of weight at x pulls row i.
    self_influence : ndarray of shape (m,)
        The same for x with itself.

    Returns
    -------
    ndarray of shape (m,)
        P(p <= a) <= a exactly, for every a and n, if rows of the task are exchangeable.
    """
    grown = 1.0 + self_influence[:, None]
    count = np.minimum(weight, 1.0)
    moved = residual - influence * error[:, None] / grown
    left_out = moved / (one_minus_leverage + count * influence**2 / grown)
    own = error / grown[:, 0]
    total = np.array(weight.sum() + 1.0)
    residual_sum = moved @ weight + own
    lost = count * left_out * moved
    scores = -np.abs(
        left_out - left_out_mean(residual_sum[:, None], lost, total, count)
    )
    new = -np.abs(
        error - left_out_mean(residual_sum, error * own, total, np.array(1.0))
    )
    # Equal scores may differ by rounding; counting them as equal can only enlarge p.
    tied = 1e-10 * (1.0 + np.abs(new))
    return (1.0 + (scores <= (new + tied)[:, None]) @ weight) / total


def ridge_pvalues(
    K: Array,
    diagonal: Array,
    factor: Array,
    coef: Array,
    one_minus_leverage: Array,
    weight: Array,
    alpha: float,
    members: Codes,
) -> Array:
    """Exact p-values of new rows of one task of a kernel ridge regression.

    Parameters
    ----------
    K : ndarray of shape (m, n)
        Kernel values of the new rows.
    diagonal : ndarray of shape (m,)
        Their self-similarities.
    factor : ndarray of shape (n, n)
        Of S K S + alpha I, see :mod:`manyone.solvers.ridge`.
    coef : ndarray of shape (n,)
        Coefficients of the task's function.
    one_minus_leverage, weight : ndarray of shape (n,)
    alpha : float
    members : ndarray
        Numbers of the normal rows of the task.

    Returns
    -------
    ndarray of shape (m,)
    """
    root = np.sqrt(weight)
    pull = root * cho_solve((factor, True), (K * root).T, check_finite=False).T
    return full_conformal(
        alpha * coef[members] / weight[members],
        one_minus_leverage[members],
        weight[members],
        1.0 - K @ coef,
        pull[:, members] / weight[members],
        (diagonal - np.einsum("ij,ij->i", K, pull)) / alpha,
    )


def benjamini_hochberg(p: Array, fdr: float) -> Mask:
    """Rows to reject so that at most a share `fdr` of them is expected to be false, shape (m,)."""
    ascending = np.sort(p)
    passing = np.flatnonzero(
        ascending <= fdr * (1 + 1e-12) * np.arange(1, len(p) + 1) / len(p)
    )
    return p <= (ascending[passing[-1]] if len(passing) else -1.0)


def select_rows(p: Array, fdr: float, floor: float) -> Mask:
    """Rows of a batch to call abnormal, shape (m,), by p-values of which none can be below `floor`.

    Warns where there are none because of that.
    """
    chosen = benjamini_hochberg(p, fdr)
    needed = int(np.ceil(len(p) * floor / fdr - 1e-9))
    if not chosen.any() and needed > 1:
        warn_user(
            f"No row selected. The smallest p-value possible here is {floor:.3g}, so "
            f"Benjamini-Hochberg at fdr={fdr:g} can select rows of this batch only if at least "
            f"{needed} of its {len(p)} rows look that abnormal. Use smaller batches, more "
            "calibration rows, or a larger fdr."
        )
    return chosen
