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
from manyone.selection.search import ERRORS_OF_FAULTS, Judged, columns_of, preferred
from manyone.tables.frames import Labels
from manyone.tables.maps import PARTS
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
# Rows of a task to learn from and to judge by, and tasks, that are enough to choose.
_EARLIER_ROWS = 100
_LATER_ROWS = 50
_MOST_TASKS = 50
# A column drifts if later values are so many times as far from the mean of earlier ones
# as these.
_DRIFTS = 1.5


def earlier_and_later(training: TrainingTable, times: Array) -> tuple[Mask, Mask]:
    """Which rows come before the last quarter of their task, and which are in it.

    Rows of one time stay together. Rows of a group that has earlier rows are in neither
    part, and of the last quarter rows known to be abnormal are not.
    """
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
    lines : dict of arrays
        What was tried, as in :func:`manyone.auto`; none where nothing was to be chosen.
    drifting : tuple of str
        Columns of which the past is used and the value is not.
    """

    parts: Sequence[str]
    lines: dict[str, Labels]
    drifting: tuple[str, ...] = ()


def choose_parts(training: TrainingTable) -> PartsChoice:
    """Choose what is used of columns of numbers, of rows with a past or without one."""
    if training.past is None:
        return PartsChoice(PARTS[:1], {})
    if not has_enough_rows(training):
        enough = ENOUGH_SPANS * training.past.span
        reason = f"a usual task has fewer than {enough} rows, too short a past"
        line = _line(training, "values", np.nan, reason)
        return PartsChoice(PARTS[:1], columns_of([line]))
    training = training.settled()
    drifting = drifting_columns(training)
    judged = _judged(training, drifting)
    if not judged:
        return PartsChoice(PARTS[:1], {})
    number = preferred(judged, ERRORS_OF_FAULTS)
    parts = [*_CANDIDATES.values()][number]
    if parts != PARTS:
        drifting = ()
    chosen = "by faults made in later rows"
    if drifting:
        chosen += (
            f"; values drift, and only their past counts, of {shortlist(drifting, 3)}"
        )
    lines = []
    for place, (name, one) in enumerate(zip(_CANDIDATES, judged, strict=True)):
        lines.append(
            _line(training, name, one.score, chosen if place == number else "")
        )
    return PartsChoice(parts, columns_of(lines), drifting)


@np.errstate(over="ignore", invalid="ignore")  # what overflows tells nothing
def drifting_columns(training: TrainingTable) -> tuple[str, ...]:
    """Columns whose later values lie farther from the mean than earlier ones.

    Both from the mean of the earlier ones of their task; on average over tasks by a
    factor, and by three standard errors.
    """
    assert training.times is not None
    is_earlier, is_later = earlier_and_later(training, training.times)
    codes = training.codes()
    is_earlier &= ~training.outlier & (codes != MISSING)
    n_tasks = int(codes.max()) + 1
    found = []
    for name, column in training.columns.items():
        if column.past is None or column.kind != "number":
            continue
        is_known = np.isfinite(column.level)
        before = np.flatnonzero(is_earlier & is_known)
        after = np.flatnonzero(is_later & is_known)
        mean = _task_means(column.level[before], codes[before], n_tasks)
        distance = np.abs(column.level - mean[codes])
        usual = _task_means(distance[before], codes[before], n_tasks)
        later = _task_means(distance[after], codes[after], n_tasks)
        tell = np.flatnonzero((usual > 0.0) & (later > 0.0))
        if len(tell) < 2:
            continue
        growth = np.log(later[tell] / usual[tell])
        error = growth.std(ddof=1) / np.sqrt(len(tell))
        least = max(np.log(_DRIFTS), ERRORS_OF_FAULTS * error)
        if growth.mean() > least:
            found.append(name)
    return tuple(found)


def _task_means(values: Array, codes: Codes, n_tasks: int) -> Array:
    """Mean of values (n,) of each task (T,); NaN where there are none."""
    counts = np.bincount(codes, minlength=n_tasks)
    sums = np.bincount(codes, values, n_tasks)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def has_enough_rows(training: TrainingTable) -> bool:
    """Whether a usual task has rows enough to be compared in time."""
    assert training.past is not None
    normal = np.flatnonzero(~training.outlier)
    firsts = normal[np.unique(training.codes()[normal], return_index=True)[1]]
    enough = ENOUGH_SPANS * training.past.span
    return bool(np.median(training.totals[firsts]) >= enough)


def _line(
    training: TrainingTable, name: str, score: float, reason: str
) -> dict[str, object]:
    """A line of `choice_`; what was chosen has a reason."""
    assert training.past is not None
    return {
        "view": "rows in time",
        "method": name,
        "setting": f"{training.past.span} rows" if name != "values" else "",
        "score": score,
        "stage": "faults in time",
        "chosen": bool(reason),
        "reason": reason,
    }


def _judged(training: TrainingTable, drifting: tuple[str, ...] = ()) -> list[Judged]:
    """How well each candidate tells faulty rows from later ones, if there are any.

    Values of `drifting` columns are no part of values and past.
    """
    values, names = _rows_in_time(training)
    steady = np.flatnonzero(~np.isin(names, drifting))
    assert training.times is not None
    assert training.past is not None
    is_earlier, is_later = earlier_and_later(training, training.times)
    codes = training.codes()
    is_earlier &= ~training.outlier & (codes != MISSING)
    earlier = _some_rows(is_earlier, codes, training, _EARLIER_ROWS)
    later = _some_rows(is_later, codes, training, _LATER_ROWS)
    later = later[np.isin(codes[later], codes[earlier])]
    if not values.level.shape[1] or not len(later):
        return []
    own = codes[earlier]
    level_spread = _spread(values.level[earlier], own)
    difference_spread = _spread(values.difference[earlier], own)
    tested = RowsToSpoil(
        RowsInTime(*(part[later] for part in values)),
        codes[later],
        training.hashes[later],
        level_spread[codes[later]],
        difference_spread[codes[later]],
        training.past.span,
    )
    faulty = [tested.with_faults(kind) for kind in KINDS]
    learned = RowsInTime(*(part[earlier] for part in values))
    judged = []
    for name, parts in _CANDIDATES.items():
        columns = {part: np.arange(len(names)) for part in parts}
        if parts == PARTS:
            columns["level"] = steady
        areas = _areas(columns, learned, own, tested, faulty)
        judged.append(Judged({"parts": name}, areas, "faults in time"))
    return judged


def _rows_in_time(training: TrainingTable) -> tuple[RowsInTime, list[str]]:
    """Columns of numbers with a past, and their names.

    What is missing is the mean of the column.
    """
    parts = []
    names = []
    for name, column in training.columns.items():
        if column.past is None or column.kind != "number":
            continue
        three = np.column_stack([column.level, column.past])
        is_known = np.isfinite(three)
        total = np.where(is_known, three, 0.0).sum(axis=0)
        mean = total / np.maximum(is_known.sum(axis=0), 1)
        three = np.where(is_known, three, mean)
        if np.ptp(three[:, 0]) > 0.0:
            parts.append(three)
            names.append(name)
    number = len(training.labels)
    stacked = np.stack(parts, axis=1) if parts else np.empty((number, 0, 3))
    return RowsInTime(*np.moveaxis(stacked, -1, 0)), names


def _some_rows(mask: Mask, codes: Codes, training: TrainingTable, number: int) -> Codes:
    """At most so many rows of a task, evenly spaced in time, of at most some tasks."""
    assert training.times is not None
    rows = np.flatnonzero(mask)
    rows = rows[np.lexsort((training.hashes[rows], training.times[rows], codes[rows]))]
    parts = np.split(rows, np.flatnonzero(np.diff(codes[rows])) + 1)
    parts = [_spaced(part, number) for part in parts if len(part)]
    # The largest tasks tell most; of equal ones, whichever content decides.
    parts.sort(key=lambda part: (-len(part), int(training.hashes[part].min())))
    return np.concatenate([np.empty(0, dtype=np.intp), *parts[:_MOST_TASKS]])


def _spaced(rows: Codes, number: int) -> Codes:
    places = np.linspace(0, len(rows) - 1, min(number, len(rows)))
    return rows[places.astype(np.intp)]


def _spread(values: Array, codes: Codes) -> Array:
    """Standard deviation inside each task, (T, p)."""
    n_tasks = int(codes.max()) + 1
    counts = np.maximum(np.bincount(codes, minlength=n_tasks), 1)[:, None]
    mean = np.zeros((n_tasks, values.shape[1]))
    np.add.at(mean, codes, values)
    mean /= counts
    square = np.zeros_like(mean)
    np.add.at(square, codes, (values - mean[codes]) ** 2)
    return np.asarray(np.sqrt(square / counts))


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
        return np.hstack(
            [getattr(rows, part)[:, some] for part, some in columns.items()]
        )

    X = joined(learned)
    mean = X.mean(axis=0)
    scale = X.std(axis=0)
    moves = scale > 0.0
    model = IndependentOCKSR(
        metric="adaptive", kernel="laplacian", width=3.0, alarm_rate=None
    )
    model.fit((X - mean)[:, moves] / scale[moves], task=learned_codes)

    def scores(rows: RowsInTime) -> Array:
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
