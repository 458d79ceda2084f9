"""Which season rows are compared by: chosen by how close it brings later rows to it.

A season is used where rows of later training days are closer to what was usual in their
phase than to what was usual at all, by :mod:`manyone.history.seasons`, and where that
makes their differences from a running mean smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes
from manyone.data.rows import MISSING
from manyone.history.clocks import NUMBERS
from manyone.history.past import Past, PastColumns, past_columns
from manyone.history.seasons import SEASONS, Season, Seasonal, level_of
from manyone.messages import plural
from manyone.tables.choice import ChoiceLine
from manyone.tables.in_time import (
    columns_with_past,
    earlier_and_later,
    has_enough_rows,
)
from manyone.tables.training import TrainingTable

# Periods before the last quarter of a usual task, from which on a season is tried.
_FEWEST_PERIODS = 5
# Logarithm of what deviations have to shrink by, both kinds together.
_WORTH = -2.0 * np.log(0.8)
# A season of more phases has to bring so much more.
_FURTHER = 0.05


class SeasonChoice(NamedTuple):
    """The season of a table.

    Attributes
    ----------
    season : str
        Its name; empty for none.
    columns : tuple of str
        That have it.
    lines : sequence of ChoiceLine
        What was tried; none where tasks have too few rows.
    """

    season: str = ""
    columns: tuple[str, ...] = ()
    lines: Sequence[ChoiceLine] = ()


def choose_season(training: TrainingTable) -> SeasonChoice:
    """Choose the season of rows with a past, and the columns that have it."""
    assert training.past is not None
    if not has_enough_rows(training):
        return SeasonChoice()
    if training.past.clock == NUMBERS:
        return _no_season("times are numbers, which have no hours and weekdays")
    if not earlier_and_later(training)[1].any():
        return _no_season("every group has earlier rows, so no rows are later ones")
    seasons = [season for season in SEASONS.values() if _is_seen(training, season)]
    names = [
        name
        for name, column in columns_with_past(training).items()
        if len(np.unique(column.values[np.isfinite(column.values)])) > 2
    ]
    if not seasons or not names:
        return _no_season(
            f"a usual task shows fewer than {_FEWEST_PERIODS} days or weeks"
        )
    gains = np.array([_gains(training, names, season) for season in seasons])
    gains = np.where(gains > _WORTH, gains, 0.0)
    worth = gains.mean(axis=1)
    best = 0
    for number in range(1, len(seasons)):
        if worth[number] > worth[best] + _FURTHER:
            best = number
    if not worth[best]:
        return _no_season(
            "values at the same hour or weekday are no closer than others"
        )
    is_used = gains[best] > 0.0
    used = tuple(np.array(names)[is_used].tolist())
    share = 1.0 - np.exp(-gains[best][is_used].mean() / 2.0)
    reason = (
        f"later rows of {plural(len(used), 'column')} are {share:.0%} closer to what "
        "is usual then"
    )
    lines = [
        _line(season.name, reason if season is seasons[best] else "")
        for season in seasons
    ]
    return SeasonChoice(seasons[best].name, used, lines)


def _no_season(why: str) -> SeasonChoice:
    return SeasonChoice(lines=[_line("", f"none is used: {why}")])


def _line(season: str, reason: str) -> ChoiceLine:
    """A line about one season; that which was chosen has a reason."""
    chosen = bool(season and reason)
    return ChoiceLine(
        "seasons", season, stage="later rows", chosen=chosen, reason=reason
    )


def _is_seen(training: TrainingTable, season: Season) -> bool:
    """Whether a usual task has several phases and periods before its last quarter."""
    assert training.times is not None
    codes = training.codes()
    rows = np.flatnonzero(earlier_and_later(training)[0] & (codes != MISSING))
    visits = season.visits(training.times[rows])
    periods = _usual_number(codes[rows], visits // season.phases)
    phases = _usual_number(codes[rows], visits % season.phases)
    return periods >= _FEWEST_PERIODS and phases >= 2


def _usual_number(codes: Codes, values: Array) -> float:
    """How many different values (n,) a task has, the median over tasks."""
    pairs = np.unique(np.column_stack([codes, values]), axis=0)
    return float(np.median(np.unique(pairs[:, 0], return_counts=True)[1]))


def _gains(training: TrainingTable, names: list[str], season: Season) -> Array:
    """Logarithm of what deviations of later rows shrink by, a mean over tasks, (p,).

    Two kinds of deviations count: from what is usual in the phase, against what is
    usual in as long a time; and differences from the running mean, with a season and
    without. Where tasks do not agree there is no gain.
    """
    columns = [training.columns[name] for name in names]
    X = np.column_stack([column.values for column in columns])
    in_phases = _past_by(season, training, X)
    in_all = _past_by(season.whole(), training, X)
    differences = np.column_stack(
        [column.past[:, 0] for column in columns if column.past is not None]
    )
    later = np.flatnonzero(earlier_and_later(training)[1])
    codes = training.codes()[later]
    # Where nobody knows what is usual in the phase, nothing is compared.
    is_known = (np.isfinite(in_phases.usual) & np.isfinite(in_all.usual))[later]

    def size(deviations: Array) -> Array:
        """Logarithm of the sum of deviations of later rows by task (T, p)."""
        absolute = np.abs(deviations[later])
        absolute = np.where(is_known & np.isfinite(absolute), absolute, 0.0)
        sums = np.zeros((codes.max() + 1, len(names)))
        np.add.at(sums, codes, absolute)
        tiny = 1e-9 * np.maximum(sums.max(axis=0), 1e-300)
        return np.log(np.maximum(sums, tiny))

    gains = size(level_of(X, in_all.usual)) - size(level_of(X, in_phases.usual))
    gains += size(differences) - size(in_phases.difference)
    gains = gains[np.unique(codes)]
    error = gains.std(axis=0) / np.sqrt(len(gains))
    mean = gains.mean(axis=0)
    is_sure = (mean > 3.0 * error) & (is_known.mean(axis=0) > 0.5)
    return np.where(is_sure, mean, 0.0)


def _past_by(season: Season, training: TrainingTable, X: Array) -> PastColumns:
    """What the past of the kept rows (n, p) is by a season, from nothing."""
    assert training.times is not None
    assert training.past is not None
    codes = training.codes()
    width = X.shape[1]
    past = Past.none(int(codes.max()) + 1, width, season.phases)
    seasonal = Seasonal(season, np.ones(width, dtype=bool))
    rows = np.flatnonzero(codes != MISSING)
    made, _ = past_columns(
        X[rows], codes[rows], training.times[rows], past, training.past.span, seasonal
    )
    values = np.full((len(X), made.values.shape[1]), np.nan)
    values[rows] = made.values
    return PastColumns(values, width)
