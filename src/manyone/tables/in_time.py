"""What of the past of rows is used: chosen by faults that are made in later rows.

A model of the earlier rows of every task scores the later ones, as they are and with
faults made in them (:mod:`manyone.history.faults`). Later rows that have drifted away
score low without a fault. So what drifts is worth less, as it will be tomorrow.

A single column that drifts would do so for all of them: prices that creep upwards make
every later row unusual, and a threshold that lets them pass hides faults of all
columns. So the values of a column that drifts are not used beside its past.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.data.labels import encode
from manyone.data.rows import MISSING
from manyone.estimators.independent import IndependentOCKSR
from manyone.history.faults import KINDS, RowsInTime, RowsToSpoil
from manyone.messages import shortlist
from manyone.selection.criteria import own_aucs, rounded
from manyone.selection.search import ERRORS_OF_FAULTS, Judged, preferred
from manyone.tables.choice import ChoiceLine
from manyone.tables.columns import Column, Columns
from manyone.tables.maps import PARTS, swing_scale
from manyone.tables.training import TrainingTable

#: Part of each task's rows, the last in time, that is judged by the rows before.
LATER = 0.25
#: Normal rows from which on a task has a last quarter.
FEWEST_ROWS = 8
#: Spans of a usual task from which on its rows are compared in time, unless somebody
#: asks for it. The past of the first rows is short, and differs more than that of later
#: ones.
ENOUGH_SPANS = 8
# What may be used of columns of numbers, the preferred first.
_CANDIDATES = {
    "values and past": PARTS,
    "values": PARTS[:1],
    "past": PARTS[1:],
}
# Enough to choose: rows of a task to learn from, rows of it to judge by, and tasks
# (`benchmarks/bench_history.py rows`).
_EARLIER_ROWS = 100
_LATER_ROWS = 50
_MOST_TASKS = 50
# A column drifts if later values are so many times as far from the mean of earlier ones
# as these.
_DRIFTS = 1.5


def earlier_and_later(training: TrainingTable) -> tuple[Mask, Mask]:
    """Which rows come before the last quarter of their task, and which are in it.

    All rows of one moment are in the same part. Abnormal rows are in no last quarter,
    nor are rows of a group that has earlier rows.
    """
    times = training.times
    assert times is not None
    codes = training.codes()
    normal = ~training.outlier & (codes != MISSING)
    n_tasks = int(codes.max()) + 1
    # The last entry is that of rows without a task.
    last_earlier = np.full(n_tasks + 1, np.inf)
    order = np.flatnonzero(normal)
    order = order[np.lexsort((times[order], codes[order]))]
    sizes = np.bincount(codes[order], minlength=n_tasks)
    starts = np.cumsum(sizes) - sizes
    enough = np.flatnonzero(sizes >= FEWEST_ROWS)
    places = starts[enough] + np.ceil((1.0 - LATER) * sizes[enough]).astype(np.intp)
    last_earlier[enough] = times[order[places - 1]]
    is_earlier = times <= last_earlier[codes]
    is_later = normal & ~is_earlier
    if training.groups is not None:
        groups = encode(training.groups)[1]
        pairs = groups + (groups.max() + 2) * codes
        is_later &= (groups == MISSING) | ~np.isin(pairs, pairs[is_earlier])
    return is_earlier, is_later


class PartsChoice(NamedTuple):
    """What is used of columns of numbers.

    Attributes
    ----------
    parts : sequence of str
        Among `PARTS`.
    lines : sequence of ChoiceLine
        What was tried; none where there was no choice.
    drifting : tuple of str
        Columns of which the past is used and the value is not.
    """

    parts: Sequence[str]
    lines: Sequence[ChoiceLine] = ()
    drifting: tuple[str, ...] = ()


def choose_parts(training: TrainingTable) -> PartsChoice:
    """Choose what is used of columns of numbers, of rows with a past."""
    past = training.past
    assert past is not None
    parts: Sequence[str] = PARTS[:1]
    drifting: tuple[str, ...] = ()
    scores = {"values": np.nan}
    settled = training.settled()
    columns = columns_with_past(settled)
    if not has_enough_rows(training):
        enough = ENOUGH_SPANS * past.span
        reason = f"a usual task has fewer than {enough} rows, too short a past"
    elif columns and not any(map(_has_difference, columns.values())):
        reason = f"no row has {past.span} earlier times of its task"
    else:
        drifting = drifting_columns(settled)
        judged = _judged(settled, drifting)
        if not judged:
            return PartsChoice(parts)
        parts = [*_CANDIDATES.values()][preferred(judged, ERRORS_OF_FAULTS)]
        scores = {
            name: candidate.score
            for name, candidate in zip(_CANDIDATES, judged, strict=True)
        }
        reason = "by faults made in later rows"
        if parts != PARTS:
            drifting = ()
        if drifting:
            named = shortlist(drifting, 3)
            reason += f"; values drift, and only their past counts, of {named}"
    lines = []
    for name, score in scores.items():
        setting = "" if name == "values" else f"{past.span} rows"
        chosen = _CANDIDATES[name] == parts
        why = reason if chosen else ""
        lines.append(
            ChoiceLine(
                "rows in time", name, setting, score, "faults in time", chosen, why
            )
        )
    return PartsChoice(parts, lines, drifting)


def has_enough_rows(training: TrainingTable) -> bool:
    """Whether a usual task has rows enough to be compared in time."""
    assert training.past is not None
    normal = np.flatnonzero(~training.outlier)
    firsts = normal[np.unique(training.codes()[normal], return_index=True)[1]]
    enough = ENOUGH_SPANS * training.past.span
    return bool(np.median(training.totals[firsts]) >= enough)


def columns_with_past(training: TrainingTable) -> Columns:
    """The columns of numbers that have a past."""
    return {
        name: column
        for name, column in training.columns.items()
        if column.past is not None and column.kind == "number"
    }


def _has_difference(column: Column) -> bool:
    """Whether the past of any row is long enough to be compared with."""
    return column.past is not None and bool(np.isfinite(column.past[:, 0]).any())


def _earlier_rows(training: TrainingTable, is_earlier: Mask) -> Mask:
    """Which of the earlier rows are normal rows of a task."""
    return is_earlier & ~training.outlier & (training.codes() != MISSING)


@np.errstate(over="ignore", invalid="ignore")  # what overflows tells nothing
def drifting_columns(training: TrainingTable) -> tuple[str, ...]:
    """Columns whose later values lie farther from the mean than earlier ones.

    Both are distances from the mean of the earlier values of their task. A column
    drifts if they differ by a factor, on average over tasks, and by three standard
    errors.
    """
    is_earlier, is_later = earlier_and_later(training)
    is_earlier = _earlier_rows(training, is_earlier)
    codes = training.codes()
    n_tasks = int(codes.max()) + 1
    drifting = []
    for name, column in columns_with_past(training).items():
        is_known = np.isfinite(column.level)
        before = np.flatnonzero(is_earlier & is_known)
        after = np.flatnonzero(is_later & is_known)
        mean = _task_means(column.level[before], codes[before], n_tasks)
        distance = np.abs(column.level - mean[codes])
        usual = _task_means(distance[before], codes[before], n_tasks)
        later = _task_means(distance[after], codes[after], n_tasks)
        comparable = np.flatnonzero((usual > 0.0) & (later > 0.0))
        if len(comparable) < 2:
            continue
        growth = np.log(later[comparable] / usual[comparable])
        error = growth.std(ddof=1) / np.sqrt(len(comparable))
        if growth.mean() > max(np.log(_DRIFTS), ERRORS_OF_FAULTS * error):
            drifting.append(name)
    return tuple(drifting)


@np.errstate(invalid="ignore")
def _task_means(values: Array, codes: Codes, n_tasks: int) -> Array:
    """Mean of values, (n,) or (n, p), of each task, (T,) or (T, p); NaN for none."""
    counts = np.bincount(codes, minlength=n_tasks)
    sums = np.zeros((n_tasks, *values.shape[1:]))
    np.add.at(sums, codes, values)
    return np.asarray((sums.T / counts).T)


def _task_spreads(values: Array, codes: Codes) -> Array:
    """Standard deviation of values (n, p) inside each task, (T, p)."""
    n_tasks = int(codes.max()) + 1
    mean = _task_means(values, codes, n_tasks)
    return np.sqrt(_task_means((values - mean[codes]) ** 2, codes, n_tasks))


def _judged(training: TrainingTable, drifting: tuple[str, ...] = ()) -> list[Judged]:
    """How well each candidate tells faulty rows from later ones, if there are any.

    Values of `drifting` columns are no part of values and past.
    """
    rows, names = _rows_in_time(training)
    steady = np.flatnonzero(~np.isin(names, drifting))
    is_earlier, is_later = earlier_and_later(training)
    codes = training.codes()
    is_earlier = _earlier_rows(training, is_earlier)
    earlier = _spaced_rows(is_earlier, training, _EARLIER_ROWS)
    later = _spaced_rows(is_later, training, _LATER_ROWS)
    later = later[np.isin(codes[later], codes[earlier])]
    if not names or not len(later):
        return []
    assert training.past is not None
    learned = RowsInTime(*(part[earlier] for part in rows))
    learned_codes = codes[earlier]
    tested = RowsToSpoil(
        RowsInTime(*(part[later] for part in rows)),
        codes[later],
        training.hashes[later],
        _task_spreads(learned.level, learned_codes)[codes[later]],
        _task_spreads(learned.difference, learned_codes)[codes[later]],
        training.past.span,
    )
    faulty = [tested.with_faults(kind) for kind in KINDS]
    judged = []
    for name, parts in _CANDIDATES.items():
        columns = {part: np.arange(len(names)) for part in parts}
        if parts == PARTS:
            columns["level"] = steady
        areas = _areas(columns, learned, learned_codes, tested, faulty)
        judged.append(Judged({"parts": name}, areas, "faults in time"))
    return judged


def _rows_in_time(training: TrainingTable) -> tuple[RowsInTime, list[str]]:
    """The columns of numbers with a past that vary, and their names.

    What is missing is the mean of the column.
    """
    columns = []
    names = []
    for name, column in columns_with_past(training).items():
        assert column.past is not None
        values = np.column_stack([column.level, column.past])
        is_known = np.isfinite(values)
        total = np.where(is_known, values, 0.0).sum(axis=0)
        mean = total / np.maximum(is_known.sum(axis=0), 1)
        values = np.where(is_known, values, mean)
        if np.ptp(values[:, 0]) > 0.0:
            columns.append(values)
            names.append(name)
    nothing = np.empty((len(training.labels), 0, len(PARTS)))
    stacked = np.stack(columns, axis=1) if columns else nothing
    return RowsInTime(*np.moveaxis(stacked, -1, 0)), names


def _spaced_rows(mask: Mask, training: TrainingTable, number: int) -> Codes:
    """At most so many rows of a task, evenly spaced in time, of the largest tasks."""
    assert training.times is not None
    codes = training.codes()
    rows = np.flatnonzero(mask)
    if not len(rows):
        return rows
    rows = rows[np.lexsort((training.hashes[rows], training.times[rows], codes[rows]))]
    of_tasks = []
    for task_rows in np.split(rows, np.flatnonzero(np.diff(codes[rows])) + 1):
        size = len(task_rows)
        places = np.linspace(0, size - 1, min(number, size)).astype(np.intp)
        of_tasks.append(task_rows[places])
    # Of tasks of equal size, the content of their rows decides.
    of_tasks.sort(key=lambda rows: (-len(rows), int(training.hashes[rows].min())))
    return np.concatenate(of_tasks[:_MOST_TASKS])


def _areas(
    columns: dict[str, Codes],
    learned: RowsInTime,
    learned_codes: Codes,
    later: RowsToSpoil,
    faulty: list[RowsInTime],
) -> Array:
    """AUC of later rows against their faulty twins, for each kind and task (k, T).

    Of each part (one of `PARTS`) some columns are used.
    """

    def joined(rows: RowsInTime) -> Array:
        """The columns of all parts side by side."""
        # As in the model: see `Curve.learn_swing`.
        median = np.median(learned.swing, axis=0)
        rests = median <= 0.0
        scaled = swing_scale(rows.swing, np.where(rests, 1.0, median))
        rows = rows._replace(swing=np.where(rests, rows.swing, scaled))
        parts = (getattr(rows, part)[:, places] for part, places in columns.items())
        return np.hstack([*parts])

    X = joined(learned)
    mean = X.mean(axis=0)
    scale = X.std(axis=0)
    moves = scale > 0.0
    model = IndependentOCKSR(
        metric="adaptive", kernel="laplacian", width=3.0, alarm_rate=None
    )
    if moves.any():
        model.fit((X - mean)[:, moves] / scale[moves], task=learned_codes)

    def scores(rows: RowsInTime) -> Array:
        """Score of each row; all are alike where nothing moves in what was learned."""
        if not moves.any():
            return np.zeros(len(later.codes))
        standard = (joined(rows) - mean)[:, moves] / scale[moves]
        return rounded(model.score_samples(standard, task=later.codes))

    usual = scores(later.rows)
    n_tasks = int(later.codes.max()) + 1
    codes = np.tile(later.codes, 2)
    is_faulty = np.repeat([False, True], len(usual))
    return np.stack(
        [
            own_aucs(np.append(usual, scores(rows)), codes, is_faulty, n_tasks)
            for rows in faulty
        ]
    )
