r"""Left-out scores on the terms of new rows.

**The problem.** All n rows of a task judge a new row. A left-out row is judged by fewer,
and models of fewer rows score lower. Thresholds from such scores are too low, and raise
fewer alarms than were promised. So left-out depths (minus scores) are divided by what
the missing rows are worth.

**Folds.** A model without a fold has k rows of the task. Let its depths follow

.. math:: \log d_k = \log d_\infty + \beta / k

with one :math:`\beta` for all tasks. It is measured by leaving out twice as many rows:
the mean difference of the logarithms of upper quantiles of depths at the two sizes,
over the mean difference of 1/k. Depths are then multiplied by
:math:`\exp(-\beta (1/k - 1/(k + 1)))`, what one row more is worth. (With all n rows
instead of one more, 20 instead of 19 after folds of two, adaptive metrics raised 10.9 %
of 10: ``benchmarks/bench_promises.py "gaussian 20" "bimodal 20" --methods IndA``.)

**Closed forms** leave out one row. Let q be the response of a row over the mean
response of the n - 1 rows that are left, under their model. Suppose that the rows of a
task have about the same kernel value c with each other, and a row has :math:`\kappa`
with them. All coefficients are then equal, and

.. math:: q = \frac{(n-1) \kappa}{k(x, x) + (n-2) c}, \qquad
          q' = \frac{n \kappa}{k(x, x) + (n-1) c}

with n rows. Written with :math:`q_c`, the q where :math:`\kappa = c`, this is

.. math:: q' = q \cdot \frac{n}{n - 1 + q_c}, \qquad q_c \approx \sum q^2 / \sum q .

The mean is weighted by the responses themselves: rows that are near no other row change
no model. A row far away has q = 0 and keeps it. So do tasks whose rows respond as their
mean does, :math:`q_c = 1`. (Without this, ``IndependentOCKSR`` raised 15 instead of 19
% of 20 with 60 columns and 8 rows, and 11 instead of 19 with 3 rows:
``benchmarks/bench_promises.py "wide 8" "gaussian 3" --methods Ind Joint``.)

**Rows in time.** Earlier blocks of time judge a block. Two models are compared with
that of the earlier blocks:

- without the oldest of them, which has fewer rows: this measures :math:`\beta`;
- without the latest of them, which has as few, and ends a block earlier. By how much
  depths are larger then is what a block of time costs: nothing where rows do not drift.

New rows come for as long as training rows did. On average they are two blocks farther
away than the next one, so depths are multiplied by that cost twice. Such models lack
many rows, and depths are brought to those of all n.

**What is not moved:**

- tasks that were not left out twice. With groups, only long tasks in time are: what a
  row more is worth to them says nothing of tasks with a tenth of their rows;
- copies, and anything where many rows have copies. A row of few values has a score of
  few values, and a threshold just above one of them lets all its rows through;
- rows beyond the far score. Stretched (:mod:`manyone.models.scale`), smaller depths
  would all lie on one side of it, and new rows lie on both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes
from manyone.calibration.borrowing import MOST_ROWS
from manyone.calibration.copies import find_copies
from manyone.models.scale import bend_of, sizes_of, stretched, unstretched

# Shares of depths above the quantiles that are compared: usual alarm rates, and more
# for the sake of precision.
_LEVELS = np.array([0.05, 0.1, 0.2, 0.3, 0.4])
# Fewer rows than this say nothing of quantiles.
_FEWEST = 10
# Of five blocks. New rows come for as long as training rows did. So half of the five
# lies between them and the model on average, and half a block between the model and the
# block that it judges.
_BLOCKS_AHEAD = 2.0


class Round(NamedTuple):
    """Scores of rows by models without their fold, and the size of these models.

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
    """Scores (n,) on the terms of new rows, and how much of that is for drift.

    That is a logarithm: depths were multiplied by its exponential.
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
        By models without a fold, and without about twice as many rows.
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
    copies = find_copies(once.scores, codes, weight)
    if copies.are_many:
        return Moved(once.scores)  # (moved, yes/no columns raised 11 % of 10)
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
    # (Outliers of every task have no task of their own; they are not judged.)
    total = np.maximum(counts[np.maximum(codes, 0)], once.kept)
    if later is None:
        total = np.minimum(total, once.kept + 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.exp(-slope * (1.0 / once.kept - 1.0 / total))
    # Models of half the rows are no guide to larger changes.
    factor = np.clip(factor, 0.5, 1.25)
    has_twice = np.zeros(n_tasks, dtype=bool)
    has_twice[codes[~np.isnan(fewer)]] = True
    moved = values * np.where(has_twice[codes] & ~beyond_far, factor, 1.0)
    drift = 0.0
    if later is not None:
        far_off = stretched(later.scores / size, bend)
        growth = _BLOCKS_AHEAD * depths.growth(fewer, far_off)
        drift = float(np.clip(growth, 0.0, np.log(2.0)))  # twice as deep at most
        moved = moved * np.exp(drift)
    moved = unstretched(moved, bend) * size
    return Moved(np.where(judged & ~copies.tied, moved, once.scores), drift)


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
        Sizes of the scores of rows far from everything.

    Returns
    -------
    ndarray of shape (n,)
    """
    judged = np.flatnonzero(~np.isnan(scores))
    codes = codes[judged]
    weight = weight[judged]
    copies = find_copies(scores[judged], codes, weight)
    if copies.are_many:
        return scores
    response = responses[judged, 0]
    counts = np.bincount(codes, weight, len(size))
    mass = weight * np.maximum(response, 0.0)
    total = np.bincount(codes, mass, len(size))
    squares = np.bincount(codes, mass * response, len(size))
    with np.errstate(invalid="ignore", divide="ignore"):
        typical = np.minimum(squares / total, 1.0)
        factor = counts / (counts - 1.0 + typical)
    is_known = ~np.isnan(typical) & (counts > 2.0) & (counts <= MOST_ROWS)
    factor = np.where(is_known, factor, 1.0)
    moved = response * np.where(copies.tied, 1.0, factor[codes])
    deeper = np.abs(moved - 1.0) - np.abs(response - 1.0)
    scores = scores.copy()
    scores[judged] -= size[codes] * np.nan_to_num(deeper)
    return scores


class _Depths(NamedTuple):
    """Depths of rows by two models, compared; with tasks and counts (n,) of the rows."""

    codes: Codes
    weight: Array
    n_tasks: int

    def slope(
        self, values: Array, fewer: Array, kept: Array, kept_fewer: Array
    ) -> float:
        r"""The :math:`\beta` of the module; 0 where rows are too few to tell."""
        both = np.flatnonzero(~np.isnan(values) & ~np.isnan(fewer) & (kept_fewer > 0.0))
        if len(both) < _FEWEST:
            return 0.0
        step = 1.0 / kept_fewer[both] - 1.0 / kept[both]
        mean_step = np.average(step, weights=self._shares(both))
        if not mean_step > 0.0:
            return 0.0
        return self.growth(values, fewer) / float(mean_step)

    def growth(self, values: Array, others: Array) -> float:
        """Mean logarithm of how much larger upper quantiles of other depths are.

        Of minus `others` (n,) over minus `values` (n,), where both are known; 0 where
        rows are too few to tell.
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
        """Shares (k,) of rows in their tasks: all tasks count alike."""
        codes = self.codes[rows]
        counts = np.bincount(codes, self.weight[rows], self.n_tasks)
        return self.weight[rows] / counts[codes]


def _upper_quantiles(values: Array, share: Array) -> Array:
    """Values (n,) exceeded by each of the levels of their shares (n,)."""
    descending = np.argsort(-values, kind="stable")
    mass = np.cumsum(share[descending])
    place = np.searchsorted(mass, _LEVELS * mass[-1], side="right")
    place = np.minimum(place, len(values) - 1)
    return values[descending[place]]
