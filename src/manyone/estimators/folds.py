"""Folds for thresholds, cut so that neither order nor repetition of rows matters."""

from __future__ import annotations

import numpy as np

from manyone.kernels import Array
from manyone.tasks import Codes


def deal(key: Array, codes: Codes, n_tasks: int, n_folds: int) -> Codes:
    """Number of the fold of each row, folds cut inside each task.

    Rows of a task are dealt in the order of their key. Rows with the same key, as identical rows
    have, share a fold: else a row would be judged by a model that has seen its twin.

    Parameters
    ----------
    key : ndarray of shape (n,)
        For example the summed similarity to all rows.
    codes : ndarray of shape (n,)
    n_tasks, n_folds : int

    Returns
    -------
    ndarray of shape (n,)
        0 to `n_folds` - 1, or -1 in a task that has one distinct row only.
    """
    order = np.lexsort((key, codes))
    sorted_key, sorted_codes = key[order], codes[order]
    hair = 1e-9 * np.max(np.abs(key), initial=0.0)
    fresh = np.ones(len(key), dtype=bool)
    fresh[1:] = (np.diff(sorted_key) > hair) | (np.diff(sorted_codes) != 0)
    groups = np.bincount(sorted_codes[fresh], minlength=n_tasks)
    place = np.cumsum(fresh) - 1 - (np.cumsum(groups) - groups)[sorted_codes]
    count = groups[sorted_codes]
    fold = np.empty(len(key), dtype=np.intp)
    fold[order] = np.where(count > 1, place % np.clip(count, 1, n_folds), -1)
    return fold
