r"""Left-out scores, brought to the terms of new rows.

A model without a fold has fewer rows of the task than the model that scores new rows.
It scores rows lower, so thresholds from such scores would be too low and raise fewer
alarms than were asked for. What a row more is worth is measured by leaving out twice as
many rows: for depths (minus scores) of models with k rows of the task,

.. math:: \log d_k = \log d_\infty + \beta / k .

:math:`\beta` is one number for all tasks: the mean difference of logarithms of upper
quantiles of the depths at the two sizes, over the mean difference of 1/k. Depths of
models with k rows are then multiplied by :math:`\exp(-\beta (1/k - 1/(k + 1)))`, what
one row more is worth. (Moved from 18 to all 20 rows, adaptive metrics raised 10.9 % of
10: ``python benchmarks/bench_promises.py "gaussian 20" "bimodal 20" --methods IndA``.)

**Closed forms** leave out one row. Let q be its response, over the mean response of the
n - 1 rows that are left, under their model. Suppose that rows of a task have about the
same kernel value with each other, c, and a new row :math:`\kappa` with them. All rows
then have the same coefficient, and :math:`q = (n-1) \kappa / (k(x, x) + (n-2) c)`. With
n rows it is :math:`n \kappa / (k(x, x) + (n-1) c)`. Written with :math:`q_c`, the q
where :math:`\kappa = c`, that is

.. math:: q \cdot \frac{n}{n - 1 + q_c}, \qquad q_c \approx \sum q^2 / \sum q .

The mean is weighted by the responses: rows that are near no other are in no model's
way. A row far away, with q = 0, stays where it is. So do tasks whose rows respond as
their mean does. Without this, ``IndependentOCKSR`` raised 15 instead of 19 % of 20 with
60 columns and 8 rows, and 11 instead of 19 with 3 rows (``python
benchmarks/bench_promises.py "wide 8" "gaussian 3" --methods Ind Joint``).

**Rows in time.** A block of time is judged by earlier blocks. Without the oldest of
them the model has fewer rows; so :math:`\beta` is measured. Without the latest of them
it has as few, and lies a block of time further back. By how much depths are larger then
is what a block of time costs: nothing where rows do not drift. New rows come for as
long as training rows did, on average two blocks further away than the next one, so
depths are multiplied by that twice. The rows that they lack are many, and depths are
brought to those of all n.

Only tasks that were left out twice are moved. With groups these are the long ones in
time: what a row more is worth to them says nothing of tasks with a tenth of their rows.
Copies are not moved, nor anything where many rows have copies: rows of few values have
scores of few values, and a threshold just above one of them lets all its rows through.
Rows beyond the far score are not moved either: stretched (:mod:`manyone.models.scale`),
smaller ones would all lie on one side of it, and new rows are on both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes
from manyone.calibration.copies import has_few_values, tied_scores
from manyone.models.scale import bend_of, sizes_of, stretched, unstretched

# Upper quantiles of depths that are compared: those that alarm rates are asked at.
_LEVELS = np.array([0.05, 0.1, 0.2, 0.3, 0.4])
# Fewer rows than this say nothing of quantiles.
_FEWEST = 10
# Depths change at most so much: models of half the rows are no guide beyond.
_LEAST = 0.5
_MOST = 1.25
# Of five blocks. New rows come for as long as training rows did: half of that lies
# between them and the model on average, and half a block between the model and the
# blocks that are judged.
_BLOCKS_AHEAD = 2.0
# In larger tasks a row more is worth nothing.
_MOST_ROWS = 512
# Rows that drift make depths at most twice as large.
_LOG_DRIFT = float(np.log(2.0))


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


class Moved(NamedTuple):
    """Scores (n,) on the terms of new rows, and by how much rows in time were moved.

    That is a logarithm: depths are multiplied by its exponential.
    """

    scores: Array
    drift: float = 0.0


def on_equal_terms(
    once: Round,
    twice: Round,
    codes: Codes,
    weight: Array,
    counts: Array,
    far: Array | None,
    later: Round | None = None,
) -> Moved:
    """Scores of folds on the terms of new rows, see the module.

    Parameters
    ----------
    once, twice : Round
        Folds, and folds with about twice as many rows.
    codes, weight : ndarray of shape (n,)
        Task and count of each row; tasks of rows without a score do not matter.
    counts : ndarray of shape (T,)
        Rows of each task that the model of all rows has.
    far : ndarray of shape (T,) or None
        Scores of rows far away.
    later : Round or None
        Of blocks of time, by models of as many rows as those of `twice` that end a
        block earlier.

    Returns
    -------
    Moved
    """
    n_tasks = len(counts)
    size = sizes_of(far, n_tasks)[np.maximum(codes, 0)]
    judged = ~np.isnan(once.scores)
    if has_few_values(once.scores, codes, weight):
        return Moved(once.scores)  # (moved, yes/no columns raised 11 % of 10)
    tied = tied_scores(once.scores, codes, weight)
    values = once.scores / size
    bend = 0.0
    beyond_far = np.zeros(len(values), dtype=bool)
    if far is not None:
        bend = bend_of(values, weight)
        beyond_far = values <= -1.0
    values = stretched(values, bend)
    fewer = stretched(twice.scores / size, bend)
    depths = _Depths(codes, weight, n_tasks)
    slope = depths.slope(values, fewer, once.kept, twice.kept)
    # (Rows of no task are known outliers, which are not judged.)
    total = np.maximum(counts[np.maximum(codes, 0)], once.kept)
    if later is None:
        total = np.minimum(total, once.kept + 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.exp(-slope * (1.0 / once.kept - 1.0 / total))
    factor = np.clip(factor, _LEAST, _MOST)
    has_twice = np.zeros(n_tasks, dtype=bool)
    has_twice[codes[~np.isnan(fewer)]] = True
    moved = values * np.where(has_twice[codes] & ~beyond_far, factor, 1.0)
    drift = 0.0
    if later is not None:
        far_off = stretched(later.scores / size, bend)
        growth = _BLOCKS_AHEAD * depths.growth(fewer, far_off)
        drift = float(np.clip(growth, 0.0, _LOG_DRIFT))
        moved = moved * np.exp(drift)
    moved = unstretched(moved, bend) * size
    return Moved(np.where(judged & ~tied, moved, once.scores), drift)


def with_a_row_more(
    scores: Array, responses: Array, codes: Codes, weight: Array, size: Array
) -> Array:
    """Left-out scores of closed forms on the terms of new rows, see the module.

    Parameters
    ----------
    scores, codes, weight : ndarray of shape (n,)
        Scores, NaN where there is none, tasks and counts.
    responses : ndarray of shape (n, 2)
        See :class:`~manyone.solvers.ridge.LeftOutRows`; NaN: unknown, and nothing is
        moved in that task.
    size : ndarray of shape (T,)
        Sizes of the scores of rows far away.

    Returns
    -------
    ndarray of shape (n,)
    """
    if has_few_values(scores, codes, weight):
        return scores
    tied = tied_scores(scores, codes, weight)
    judged = np.flatnonzero(~np.isnan(scores))
    codes = codes[judged]
    response = responses[judged, 0]
    counts = np.bincount(codes, weight[judged], len(size))
    mass = weight[judged] * np.maximum(response, 0.0)
    total = np.bincount(codes, mass, len(size))
    squares = np.bincount(codes, mass * response, len(size))
    with np.errstate(invalid="ignore", divide="ignore"):
        typical = np.minimum(squares / total, 1.0)
        factor = counts / (counts - 1.0 + typical)
    is_known = ~np.isnan(typical) & (counts > 2.0) & (counts <= _MOST_ROWS)
    factor = np.where(is_known, factor, 1.0)
    moved = response * np.where(tied[judged], 1.0, factor[codes])
    deeper = np.abs(moved - 1.0) - np.abs(response - 1.0)
    scores = scores.copy()
    scores[judged] -= size[codes] * np.nan_to_num(deeper)
    return scores


class _Depths(NamedTuple):
    """Task and count (n,) of rows, and the number of tasks, for comparisons."""

    codes: Codes
    weight: Array
    n_tasks: int

    def slope(
        self, values: Array, fewer: Array, kept: Array, kept_fewer: Array
    ) -> float:
        r"""The :math:`\beta` of the module; 0 where too few rows tell it."""
        both = np.flatnonzero(~np.isnan(values) & ~np.isnan(fewer) & (kept_fewer > 0.0))
        if len(both) < _FEWEST:
            return 0.0
        step = 1.0 / kept_fewer[both] - 1.0 / kept[both]
        mean_step = np.average(step, weights=self._shares(both))
        if not mean_step > 0.0:
            return 0.0
        return self.growth(values, fewer) / float(mean_step)

    def growth(self, values: Array, others: Array) -> float:
        """Mean logarithm of the ratio of upper quantiles of depths, else 0.

        Of minus the other values (n,) over minus the values (n,), where both are known.
        """
        both = np.flatnonzero(~np.isnan(values) & ~np.isnan(others))
        if len(both) < _FEWEST:
            return 0.0
        share = self._shares(both)
        codes = self.codes[both]
        depths = np.abs(values[both])
        other_depths = np.abs(others[both])
        mean = np.bincount(codes, share * (depths + other_depths), self.n_tasks)[codes]
        if not np.all(mean > 0.0):
            return 0.0
        upper = _upper_quantiles(depths / mean, share)
        upper_others = _upper_quantiles(other_depths / mean, share)
        if not np.all((upper > 0.0) & (upper_others > 0.0)):
            return 0.0
        return float(np.mean(np.log(upper_others / upper)))

    def _shares(self, rows: Codes) -> Array:
        """Shares of rows in their tasks, so that tasks count alike."""
        codes = self.codes[rows]
        counts = np.bincount(codes, self.weight[rows], self.n_tasks)
        return self.weight[rows] / counts[codes]


def _upper_quantiles(values: Array, share: Array) -> Array:
    """Values (n,) exceeded by each of the levels of their shares (n,)."""
    order = np.argsort(-values, kind="stable")
    mass = np.cumsum(share[order])
    place = np.searchsorted(mass, _LEVELS * mass[-1], side="right")
    return values[order[np.minimum(place, len(order) - 1)]]
