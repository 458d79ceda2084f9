r"""Thresholds that follow the rows: adaptive conformal inference.

The reference of a task is its last 100 rows taken as normal. At first it is its
left-out scores, moved so that the first threshold is the model's own; they give way to
rows evenly, low and high ones alike. A row raises the alarm where its p-value is at
most the level q of its task. Every row taken as normal moves that level (Gibbs & Candes
2021),

.. math:: q \leftarrow q + \eta\, w\, (\text{rate} - \text{alarm}),

with w the weight of the belief that the row is normal. In a task whose alarms are
answered q may fall below 0: alarms that were raised are a debt, and rows without an
alarm pay it back. In debt only rows beyond the bound below raise an alarm, and none
once the debt is D = `MOST_DEBT` alarms. So q never falls below :math:`-\eta (D + 1)`.
Summed over n rows of weight 1 there are at most
:math:`\text{rate}\, n + q_0 / \eta + D + 1` alarms, whatever the rows do. q is at most
1/2. An alarm that waits for its answer counts by a guess, and may add one.

Accepted rows are learned from, so thresholds have bounds that no accepted row can move.
They stay below the median of the left-out scores, and fall below the first threshold by
at most its distance from that median. Only a row that a person has called
normal may move them further.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.estimators.base import OneClassEstimator
from manyone.watch.model import resolved

#: Rows of a reference.
WINDOW = 100
#: Step of the level once there are answers.
STEP = 0.02
#: Step of the level as long as there are none.
GUARDED_STEP = 0.005
#: Alarms that a task may owe and still raise one, for rows that are far out. With none,
#: a sensor that died raised 1 alarm in 12 rows, after a week with six false alarms.
MOST_DEBT = 25
# Without answers the level stays within this factor of the rate.
_FACTOR = 2.0
#: Moving average of alarms, over about five rows, above which there is a run of them.
#: Without answers, rows of a run are not learned from.
RUN = 0.5
_MEMORY = 0.8
# With this share of tied scores and fewer, unchanged yes/no rows raised no more drift
# flags than continuous ones. From a fifth on they raised more
# (tests/watch/test_drift_of_discrete_rows.py).
_MOST_TIED = 0.1


class Anchors(NamedTuple):
    """What each task starts from, and the bounds that follow from it.

    Attributes
    ----------
    scores : ndarray of shape (T, WINDOW)
        Its left-out scores, ascending, NaN where a task has fewer; those of all tasks,
        in its own units, where it has too few.
    opening : ndarray of shape (T, WINDOW)
        The same, moved so that the first threshold is that of the model.
    low, high : ndarray of shape (T,)
        Between these a threshold may move.
    """

    scores: Array
    opening: Array
    low: Array
    high: Array


def anchors_of(estimator: OneClassEstimator) -> Anchors:
    """Anchors of the tasks of a fitted estimator, at the rate that it promises."""
    rate = estimator._check_calibrated()
    calibration = estimator.calibration_
    offset = estimator.offset_
    n_tasks = len(offset)
    scores = np.full((n_tasks, WINDOW), np.nan)
    pool, weight = calibration.pooled()
    scale = calibration.scale
    pool = _thinned(np.repeat(pool, _whole(weight)))
    too_few = calibration.too_few(rate)
    for t in range(n_tasks):
        task_scores = scale.undone(pool, t)
        if not too_few[t]:
            rows = slice(calibration.starts[t], calibration.starts[t + 1])
            counts = _whole(calibration.weight[rows])
            task_scores = _thinned(np.repeat(calibration.scores[rows], counts))
        scores[t, : len(task_scores)] = task_scores
    scores = resolved(scores)
    opening = _through(offset, scores, rate)
    middle = np.nanmedian(opening, axis=1)
    first = np.minimum(offset, middle)
    # Among too few scores for the rate no rank is low enough: the bound is the
    # threshold.
    ranked = _places(np.full(n_tasks, rate), scores) >= 0
    low = np.where(ranked, first - (middle - first), first)
    return Anchors(scores, opening, low, middle)


def _through(offset: Array, scores: Array, rate: float) -> Array:
    """Ascending scores (T, WINDOW), moved so that as many as the rate allows lie below.

    Tasks that borrow have thresholds that are no rank among their own scores.
    """
    place = _places(np.full(len(offset), rate), scores)[:, None]
    number = np.arange(WINDOW)
    limit = offset[:, None]
    moved = np.where(number < place, np.minimum(scores, limit), scores)
    moved = np.where(number > place, np.maximum(scores, limit), moved)
    return np.where((number == place) & ~np.isnan(scores), limit, moved)


def _places(level: Array, window: Array) -> Codes:
    """Place (k,) of the threshold among ascending scores of references (k, W)."""
    valid = np.count_nonzero(~np.isnan(window), axis=1)
    return np.floor(level * (valid + 1.0) - 1.0 + 1e-9).astype(np.intp)


def first_window(scores: Array) -> Array:
    """References (T, WINDOW) to start from, in the order in which scores leave.

    Empty places are filled first. Then those of the left-out scores leave that lie
    evenly among them (multiples of the golden ratio): if the lowest left first,
    thresholds would rise.
    """
    turn = (np.arange(WINDOW) + 0.5) * (np.sqrt(5.0) - 1.0) / 2.0 % 1.0
    leaving = np.where(np.isnan(scores), -1.0, turn)
    return np.take_along_axis(
        scores, np.argsort(leaving, axis=1, kind="stable"), axis=1
    )


def tasks_with_ties(scores: Array) -> Mask:
    """Tasks (T,) of which more than a tenth of the scores tie."""
    ascending = np.sort(scores.astype(np.float32), axis=1)  # NaN last, equal to nothing
    like_next = np.zeros(ascending.shape, dtype=bool)
    like_next[:, :-1] = ascending[:, 1:] == ascending[:, :-1]
    like_last = np.roll(like_next, 1, axis=1)  # the last is like no next one
    tied = np.count_nonzero(like_next | like_last, axis=1)
    return tied > _MOST_TIED * np.count_nonzero(~np.isnan(scores), axis=1)


def _whole(weight: Array) -> Codes:
    """Weights as counts, at least one."""
    return np.maximum(np.rint(weight), 1.0).astype(np.intp)


def _thinned(ascending: Array) -> Array:
    """At most `WINDOW` of ascending values, evenly spaced."""
    if len(ascending) <= WINDOW:
        return ascending
    return ascending[np.linspace(0, len(ascending) - 1, WINDOW).round().astype(np.intp)]


def reference_pvalues(window: Array, scores: Array) -> Array:
    """P-value (k,) of each score among its reference (k, W); NaN without one."""
    below = np.count_nonzero(window <= scores[:, None], axis=1)
    return (1.0 + below) / (1.0 + np.count_nonzero(~np.isnan(window), axis=1))


def current_thresholds(
    window: Array, level: Array, low: Array, high: Array, answered: Mask
) -> Array:
    """Scores (k,) below which a row raises the alarm: its p-value is at most the level.

    They stay within bounds. Tasks whose alarms are answered, and that owe too many,
    raise none: not even rows far out do.
    """
    ascending = np.sort(window, axis=1)  # NaN last
    valid = np.count_nonzero(~np.isnan(window), axis=1)
    place = _places(level, window)
    inside = np.clip(place, 0, WINDOW - 1)[:, None]
    threshold = np.take_along_axis(ascending, inside, axis=1)[:, 0]
    threshold = np.where(place < valid, threshold, np.inf)
    threshold = np.where(place < 0, -np.inf, threshold)
    threshold = np.clip(threshold, low, high)
    owes_most = answered & (level <= -STEP * MOST_DEBT)
    return np.where(owes_most, -np.inf, threshold)


def confirmed_low(low: Array, window: Array, confirmed: Mask) -> Array:
    """The bound (k,), lowered to what a person has called normal."""
    return np.minimum(
        low, np.where(confirmed & ~np.isnan(window), window, np.inf).min(axis=1)
    )


def highest_level(rate: float) -> float:
    """The level that no task exceeds."""
    return max(0.5, rate)


def moved_level(
    level: Array, weight: Array, alarm: Mask, rate: float, answered: Mask
) -> Array:
    """Levels (k,) after rows that count as normal with some weight.

    In tasks without an answer of their own the level stays at 0 or above.
    """
    moved = level + STEP * weight * (rate - alarm)
    moved = np.minimum(moved, highest_level(rate))
    return np.where(answered, moved, np.maximum(moved, 0.0))


def guarded_level(level: Array, weight: Array, alarm: Mask, rate: float) -> Array:
    """The same if no answer was ever given: in small steps, and never far."""
    moved = level + GUARDED_STEP * weight * (rate - alarm)
    return np.clip(moved, rate / _FACTOR, rate * _FACTOR)


def moved_run(run: Array, alarm: Mask) -> Array:
    """Moving average (k,) of alarms."""
    return _MEMORY * run + (1.0 - _MEMORY) * alarm
