"""How columns vary inside tasks: means, scales, and columns of two values."""

from __future__ import annotations

import numpy as np

from manyone._types import Array, Codes, Mask


def task_means(X: Array, codes: Codes, weight: Array, n_tasks: int = 0) -> Array:
    """Weighted mean of the rows (n, d) of each task, shape (T, d); of equal values, their value."""
    counts = np.bincount(codes, weight, n_tasks)
    share = (weight / np.where(counts > 0, counts, 1.0)[codes])[:, None]
    # About one row of each task: the rounding of a large constant would pass for its variation.
    mean = np.zeros((len(counts), X.shape[1]))
    mean[codes] = X
    np.add.at(mean, codes, share * X - share * mean[codes])
    return mean


def task_scales(
    centred: Array, X: Array, codes: Codes, weight: Array, freedom: Array, prior: float
) -> Array:
    """Standard deviation of each column in each task (T, d), shrunk to the pooled one."""
    # In units of the largest deviation, so that squares neither overflow nor vanish.
    unit = np.abs(centred).max(axis=0)
    # What differs by rounding does not vary.
    varies = unit > 1e-12 * np.abs(X).max(axis=0)
    unit = np.where(varies, unit, 1.0)
    squares = np.zeros((len(freedom), X.shape[1]))
    np.add.at(squares, codes, weight[:, None] * (centred / unit) ** 2)
    pooled = squares.sum(axis=0) / max(freedom.sum(), np.finfo(float).tiny)
    own = (squares + prior * pooled) / np.maximum(
        freedom + prior, np.finfo(float).tiny
    )[:, None]
    own = np.where((freedom + prior > 0)[:, None], own, pooled)
    scale = unit * np.sqrt(own)
    # Columns that vary between tasks only, or not at all: in units of what is known of them.
    largest = np.abs(X).max(axis=0)
    between = (X / np.where(largest > 0, largest, 1.0)).std(axis=0)
    fallback = np.where(between > 1e-12, between * largest, 1.0)
    return np.where(varies & (scale > 0), scale, fallback)


def scales_like(
    centred: Array,
    codes: Codes,
    weight: Array,
    freedom: Array,
    prior: float,
    common: Array,
    others: Array,
) -> Array:
    """The same (T, d), shrunk to the common scales (d,) that `others` (t, d) were shrunk to."""
    squares = np.zeros((len(freedom), centred.shape[1]))
    np.add.at(squares, codes, weight[:, None] * (centred / common) ** 2)
    own = (squares + prior) / np.maximum(freedom + prior, np.finfo(float).tiny)[:, None]
    # What varies inside no task stays in units of what is known of it.
    never = np.all(others == common, axis=0) & (squares.max(axis=0) < 1e-20)
    return common * np.sqrt(np.where((own > 0.0) & ~never, own, 1.0))


def switches(X: Array, codes: Codes, weight: Array, n_tasks: int) -> Mask:
    """Which columns of rows (n, d) have two values and vary inside tasks as much as between them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    codes, weight : ndarray of shape (n,)
        Task and count of each row.
    n_tasks : int

    Returns
    -------
    ndarray of bool of shape (d,)
    """
    low, high = X.min(axis=0), X.max(axis=0)
    found = np.asarray(
        (high > low) & np.all((low == X) | (high == X), axis=0), dtype=bool
    )
    upper = (X[:, found] == high[found]).astype(np.float64)
    share = weight @ upper / weight.sum()
    inside = weight @ (upper - task_means(upper, codes, weight, n_tasks)[codes]) ** 2
    freedom = np.maximum(np.bincount(codes, weight, n_tasks) - 1.0, 0.0).sum()
    found[found] = inside > freedom * share * (1.0 - share) / 2.0
    return found
