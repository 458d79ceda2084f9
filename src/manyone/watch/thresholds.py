r"""Thresholds that follow the rows: adaptive conformal inference.

P-values are taken among the *reference* of a task: the scores of its last 100 rows that
were taken as normal. At first these are its left-out scores, moved so that the first
threshold is the model's own. New rows replace low and high ones evenly. A row raises
the alarm where its p-value is at most the level q of its task. Every row taken as
normal moves that level (Gibbs & Candes 2021),

.. math:: q \leftarrow q + \eta\, w\, (\text{rate} - \text{alarm}),

where w is the probability that the row is normal. In a task whose alarms are answered q
may fall below 0: it has raised too many alarms, a debt that rows without an alarm pay
back. A task in debt raises alarms only for rows beyond the bound described below, and
none once the debt is D = `MOST_DEBT` alarms. So q never falls below
:math:`-\eta (D + 1)`.
Summed over n rows of weight 1 there are at most
:math:`\text{rate}\, n + q_0 / \eta + D + 1` alarms, whatever the rows do. q is at most
1/2. For an alarm that nobody has answered yet w is a guess, which may add one.

Rows without an alarm are learned from. So that slow faults cannot move a threshold
without end, it has bounds that such rows do not change. A threshold stays below the
median of the left-out scores. It falls below the first threshold by at most the
distance of that one from the median. Only a row that a person has called normal may
move it further.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.estimators.base import OneClassEstimator
from manyone.watch.model import resolved

#: Scores in a reference.
WINDOW = 100
#: Step of the level once somebody has answered an alarm.
STEP = 0.02
#: Step of the level until then.
GUARDED_STEP = 0.005
#: Debt, in alarms, up to which a task still raises alarms for rows that are far out. At
#: 0 a sensor that died raised 1 alarm in 12 rows, after a week with six false alarms.
MOST_DEBT = 25
# Until somebody has answered, the level stays within this factor of the rate.
_FACTOR = 2.0
#: Moving average of alarms above which they are a run. Rows of a run are not learned
#: from until somebody has answered.
RUN = 0.5
# Share of that average that stays when a row comes: it is over about five rows.
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
        Left-out scores of each task, ascending, padded with NaN. A task that has too
        few gets those of all tasks, in its own unit.
    opening : ndarray of shape (T, WINDOW)
        The same, moved so that the first threshold is that of the model.
    low, high : ndarray of shape (T,)
        Bounds of thresholds.
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
    pool = _thinned(np.repeat(pool, _as_counts(weight)))
    too_few = calibration.too_few(rate)
    for t in range(n_tasks):
        task_scores = scale.undone(pool, t)
        if not too_few[t]:
            rows = slice(calibration.starts[t], calibration.starts[t + 1])
            counts = _as_counts(calibration.weight[rows])
            task_scores = _thinned(np.repeat(calibration.scores[rows], counts))
        scores[t, : len(task_scores)] = task_scores
    scores = resolved(scores)
    opening = _moved_to_offsets(scores, offset, rate)
    middle = np.nanmedian(opening, axis=1)
    first = np.minimum(offset, middle)
    # Where scores are too few for the rate, no rank is low enough: the threshold of the
    # model is its own bound.
    ranked = _places(np.full(n_tasks, rate), scores) >= 0
    low = np.where(ranked, first - (middle - first), first)
    return Anchors(scores, opening, low, middle)


def _moved_to_offsets(scores: Array, offset: Array, rate: float) -> Array:
    """Scores (T, WINDOW) moved so that the threshold among them is the offset (T,).

    Ascending scores stay ascending: those on the wrong side of the offset are set to
    it. Tasks that borrow need this, as their offset is no quantile of their own scores.
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
    """First references (T, WINDOW), in the order in which new rows replace scores.

    Empty places come first. Scores are replaced evenly, low and high ones in turn, by
    multiples of the golden ratio: if the lowest went first, thresholds would rise.
    """
    turn = (np.arange(WINDOW) + 0.5) * (np.sqrt(5.0) - 1.0) / 2.0 % 1.0
    replaced = np.where(np.isnan(scores), -1.0, turn)
    return np.take_along_axis(
        scores, np.argsort(replaced, axis=1, kind="stable"), axis=1
    )


def tasks_with_ties(scores: Array) -> Mask:
    """Tasks (T,) of which more than a tenth of the scores tie."""
    ascending = np.sort(scores.astype(np.float32), axis=1)  # NaN last, equal to nothing
    like_next = np.zeros(ascending.shape, dtype=bool)
    like_next[:, :-1] = ascending[:, 1:] == ascending[:, :-1]
    like_last = np.roll(like_next, 1, axis=1)  # the last is like no next one
    tied = np.count_nonzero(like_next | like_last, axis=1)
    return tied > _MOST_TIED * np.count_nonzero(~np.isnan(scores), axis=1)


def _as_counts(weight: Array) -> Codes:
    """Weights rounded to whole numbers, at least 1."""
    return np.maximum(np.rint(weight), 1.0).astype(np.intp)


def _thinned(ascending: Array) -> Array:
    """At most `WINDOW` of ascending values, evenly spaced."""
    if len(ascending) <= WINDOW:
        return ascending
    return ascending[np.linspace(0, len(ascending) - 1, WINDOW).round().astype(np.intp)]


def reference_pvalues(window: Array, scores: Array) -> Array:
    """P-value (k,) of each score among its reference (k, W), which may hold NaN."""
    below = np.count_nonzero(window <= scores[:, None], axis=1)
    return (1.0 + below) / (1.0 + np.count_nonzero(~np.isnan(window), axis=1))


def current_thresholds(
    window: Array, level: Array, low: Array, high: Array, answered: Mask
) -> Array:
    """Thresholds (k,): a row that scores below has a p-value of at most the level.

    They stay within their bounds. A task whose alarms are answered and whose debt is
    too large raises none: its threshold is minus infinity.
    """
    ascending = np.sort(window, axis=1)  # NaN last
    valid = np.count_nonzero(~np.isnan(window), axis=1)
    place = _places(level, window)
    inside = np.clip(place, 0, WINDOW - 1)[:, None]
    threshold = np.take_along_axis(ascending, inside, axis=1)[:, 0]
    threshold = np.where(place < valid, threshold, np.inf)
    threshold = np.where(place < 0, -np.inf, threshold)
    threshold = np.clip(threshold, low, high)
    in_deep_debt = answered & (level <= -STEP * MOST_DEBT)
    return np.where(in_deep_debt, -np.inf, threshold)


def confirmed_low(low: Array, window: Array, confirmed: Mask) -> Array:
    """Lower bounds (k,), moved down to the lowest score that somebody called normal."""
    return np.minimum(
        low, np.where(confirmed & ~np.isnan(window), window, np.inf).min(axis=1)
    )


def highest_level(rate: float) -> float:
    """The level that no task exceeds."""
    return max(0.5, rate)


def moved_level(
    level: Array, weight: Array, alarm: Mask, rate: float, answered: Mask
) -> Array:
    """Levels (k,) after rows that are normal with probability `weight`.

    Only a task of which an alarm was answered may have a level below 0.
    """
    moved = level + STEP * weight * (rate - alarm)
    moved = np.minimum(moved, highest_level(rate))
    return np.where(answered, moved, np.maximum(moved, 0.0))


def guarded_level(level: Array, weight: Array, alarm: Mask, rate: float) -> Array:
    """The same until somebody has answered: small steps, near the promised rate."""
    moved = level + GUARDED_STEP * weight * (rate - alarm)
    return np.clip(moved, rate / _FACTOR, rate * _FACTOR)


def moved_run(run: Array, alarm: Mask) -> Array:
    """Moving average (k,) of alarms."""
    return _MEMORY * run + (1.0 - _MEMORY) * alarm
