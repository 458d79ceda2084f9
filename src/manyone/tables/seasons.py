"""Which season rows are compared by: chosen by how close it brings later rows to it.

A season is used where rows of later training days are closer to what was usual in their
phase than to what was usual at all, by :mod:`manyone.history.seasons`, and where that
makes their differences from a running mean smaller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes
from manyone.data.rows import MISSING
from manyone.history.clocks import NUMBERS
from manyone.history.past import Past, PastColumns, past_columns
from manyone.history.seasons import SEASONS, Season, Seasonal, level_of
from manyone.messages import plural
from manyone.selection.search import columns_of
from manyone.tables.frames import Labels
from manyone.tables.in_time import earlier_and_later, has_enough_rows
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
    lines : dict of arrays
        What was tried, as in `choice_`; none where rows have no past.
    """

    season: str
    columns: tuple[str, ...]
    lines: dict[str, Labels]


def choose_season(training: TrainingTable) -> SeasonChoice:
    """Choose the season of a table, and the columns that have it."""
    if training.past is None or not has_enough_rows(training):
        return SeasonChoice("", (), {})
    if training.past.clock == NUMBERS:
        return _none("times are numbers, which have no hours and weekdays")
    seasons = [season for season in SEASONS.values() if _is_seen(training, season)]
    names = _names(training)
    if not seasons or not names:
        return _none(f"a usual task shows fewer than {_FEWEST_PERIODS} days or weeks")
    gains = np.array([_gains(training, names, season) for season in seasons])
    worth = np.where(gains > _WORTH, gains, 0.0).mean(axis=1)
    best = 0
    for number in range(1, len(seasons)):
        if worth[number] > worth[best] + _FURTHER:
            best = number
    if not worth[best]:
        return _none("values at the same hour or weekday are no closer than others")
    is_used = (gains[best] > _WORTH).tolist()
    used = tuple(name for name, uses in zip(names, is_used, strict=True) if uses)
    share = 1.0 - np.exp(-gains[best][gains[best] > _WORTH].mean() / 2.0)
    reason = (
        f"later rows of {plural(len(used), 'column')} are {share:.0%} closer to what "
        "is usual then"
    )
    lines = [
        _line(season.name, reason if number == best else "")
        for number, season in enumerate(seasons)
    ]
    return SeasonChoice(seasons[best].name, used, columns_of(lines))


def _none(why: str) -> SeasonChoice:
    return SeasonChoice("", (), columns_of([_line("", f"none is used: {why}")]))


def _line(season: str, reason: str) -> dict[str, object]:
    """A line of `choice_`; what was chosen has a reason."""
    return {
        "view": "seasons",
        "method": season,
        "setting": "",
        "score": np.nan,
        "stage": "later rows",
        "chosen": bool(season and reason),
        "reason": reason,
    }


def _names(training: TrainingTable) -> list[str]:
    """Columns of measurements that have a past."""
    return [
        name
        for name, column in training.columns.items()
        if column.past is not None
        and column.kind == "number"
        and len(np.unique(column.values[np.isfinite(column.values)])) > 2
    ]


def _is_seen(training: TrainingTable, season: Season) -> bool:
    """Whether a usual task shows several phases and periods in its first part."""
    assert training.times is not None
    rows = np.flatnonzero(earlier_and_later(training, training.times)[0])
    codes = training.codes()[rows]
    rows = rows[codes != MISSING]
    codes = codes[codes != MISSING]
    visits = season.visits(training.times[rows])
    periods = _median_number(codes, visits // season.phases)
    phases = _median_number(codes, visits % season.phases)
    return periods >= _FEWEST_PERIODS and phases >= 2


def _median_number(codes: Codes, values: Array) -> float:
    """Different values that a usual task has."""
    pairs = np.unique(np.column_stack([codes, values]), axis=0)
    return float(np.median(np.unique(pairs[:, 0], return_counts=True)[1]))


def _gains(training: TrainingTable, names: list[str], season: Season) -> Array:
    """Logarithm of what deviations of later rows shrink by, a mean over tasks, (p,).

    Two kinds of deviations count: from what is usual in the phase, against what is
    usual in as long a time; and differences from the running mean, with a season and
    without. Where tasks do not agree there is no gain.
    """
    assert training.times is not None
    values = [training.columns[name].values for name in names]
    X = np.column_stack(values)
    in_phases = _columns(training, X, season)
    in_all = _columns(training, X, season.whole())
    plain = [training.columns[name].past for name in names]
    differences = np.column_stack([past[:, 0] for past in plain if past is not None])
    later = np.flatnonzero(earlier_and_later(training, training.times)[1])
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


def _columns(training: TrainingTable, X: Array, season: Season) -> PastColumns:
    """What the past of the kept rows is by a season."""
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
