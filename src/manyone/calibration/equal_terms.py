r"""Left-out scores of folds, brought to the terms of new rows.

A model without a fold has fewer rows of the task than the model that scores new rows.
It scores rows lower, so thresholds from such scores would be too low and raise fewer
alarms than were asked for. What a row more is worth is measured by leaving out twice as
many rows: for depths (minus scores) of models with k rows of the task,

.. math:: \log d_k = \log d_\infty + \beta / k .

:math:`\beta` is one number for all tasks: the mean difference of logarithms of upper
quantiles of the depths at the two sizes, over the mean difference of 1/k. Depths are
then multiplied by :math:`\exp(-\beta (1/k - 1/n))`.

Copies are not moved, nor anything where many rows have copies: rows of few values have
scores of few values, and a threshold just above one of them lets all its rows through.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes
from manyone.calibration.thresholds import (
    saturates,
    sizes_of,
    stretched,
    tied_scores,
    unstretched,
)

# Upper quantiles of depths that are compared.
_LEVELS = np.array([0.05, 0.1, 0.2, 0.3, 0.4])
# Fewer rows than this say nothing of quantiles.
_FEWEST = 10
# With a larger share of copies nothing is moved.
_MOST_TIED = 0.1
# Depths change at most so much.
_LEAST = 0.5
_MOST = 1.25


class Round(NamedTuple):
    """Scores of rows by models without their fold.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        NaN for rows that were in no fold.
    kept : ndarray of shape (n,)
        Rows of its task, counted by weights, that the model of each row has kept.
    """

    scores: Array
    kept: Array


def on_equal_terms(
    once: Round, twice: Round, codes: Codes, weight: Array, far: Array | None
) -> Array:
    """Scores as a model of all rows would have given them, had it not seen the row.

    Parameters
    ----------
    once, twice : Round
        Folds, and folds with about twice as many rows.
    codes, weight : ndarray of shape (n,)
        Task and count of each row; tasks of rows without a score do not matter.
    far : ndarray of shape (T,) or None
        Scores of rows far away.

    Returns
    -------
    ndarray of shape (n,)
    """
    n_tasks = int(codes.max(initial=0)) + 1 if far is None else len(far)
    size = sizes_of(far, n_tasks)[np.maximum(codes, 0)]
    judged = ~np.isnan(once.scores)
    tied = tied_scores(once.scores, codes, weight)
    if np.sum(weight[tied]) > _MOST_TIED * np.sum(weight[judged]):
        return once.scores
    values = once.scores / size
    fewer = twice.scores / size
    stretch = far is not None and saturates(values)
    if stretch:
        values = stretched(values)
        fewer = stretched(fewer)
    slope = _slope(values, fewer, once.kept, twice.kept, codes, weight, n_tasks)
    counts = np.bincount(codes[judged], weight[judged], n_tasks)
    # (Rows of no task are known outliers, which are not judged.)
    total = np.maximum(counts[np.maximum(codes, 0)], once.kept)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.exp(-slope * (1.0 / once.kept - 1.0 / total))
    moved = values * np.clip(factor, _LEAST, _MOST)
    if stretch:
        moved = unstretched(moved)
    return np.where(judged & ~tied, moved * size, once.scores)


def _slope(
    values: Array,
    fewer: Array,
    kept: Array,
    kept_fewer: Array,
    codes: Codes,
    weight: Array,
    n_tasks: int,
) -> float:
    r"""The :math:`\beta` of the module; 0 where too few rows tell it."""
    both = np.flatnonzero(~np.isnan(values) & ~np.isnan(fewer) & (kept_fewer > 0.0))
    if len(both) < _FEWEST:
        return 0.0
    codes = codes[both]
    counts = np.bincount(codes, weight[both], n_tasks)
    # Tasks are units, and large depths of one task must not stand for all.
    share = weight[both] / counts[codes]
    depths = np.abs(values[both])
    fewer_depths = np.abs(fewer[both])
    mean = np.bincount(codes, share * (depths + fewer_depths), n_tasks)[codes]
    if not np.all(mean > 0.0):
        return 0.0
    upper = _upper_quantiles(depths / mean, share)
    upper_fewer = _upper_quantiles(fewer_depths / mean, share)
    step = np.average(1.0 / kept_fewer[both] - 1.0 / kept[both], weights=share)
    if not step > 0.0 or not np.all((upper > 0.0) & (upper_fewer > 0.0)):
        return 0.0
    return float(np.mean(np.log(upper_fewer / upper)) / step)


def _upper_quantiles(values: Array, share: Array) -> Array:
    """Values (n,) exceeded by each of the levels of their shares (n,)."""
    order = np.argsort(-values, kind="stable")
    mass = np.cumsum(share[order])
    place = np.searchsorted(mass, _LEVELS * mass[-1], side="right")
    return values[order[np.minimum(place, len(order) - 1)]]
