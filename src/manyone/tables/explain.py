"""Reasons in the user's words: the column, its value, what was expected, and who says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from manyone._types import Array, Codes, Labels, Mask
from manyone.alerts.evidence import ENOUGH_FOR_DEPTH, depth_pvalues
from manyone.data.labels import find
from manyone.data.rows import MISSING
from manyone.estimators.combined import CombinedOneClass
from manyone.metric.reasons import find_reasons, precision
from manyone.metric.shrinkage import TaskWhitenings, task_whitenings
from manyone.models.combined import combined_scorer
from manyone.models.guards import column_range_in
from manyone.progress import counted
from manyone.tables.answers import Answers
from manyone.tables.encoder import Encoder
from manyone.tables.frames import Column, Columns, Frame, Table, like
from manyone.tables.gaps import completed
from manyone.tables.maps import (
    LEVEL_HEIGHT,
    DateMap,
    LevelMap,
    Map,
    NumberMap,
    PastMap,
    level_map,
)
from manyone.tables.needed import needed_values
from manyone.tables.past import carried
from manyone.tables.reading import claimed_tasks

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

Texts = NDArray[np.object_]
# Rows that are explained at a time, and training rows named beside each.
_BLOCK = 2048
_NEAREST = 3
# Share of what is unusual about a row below which a column is no reason.
_LITTLE = 0.01
# What is written for a value that is not there.
_MISSING = "missing"
# Rows that the tasks' common scales and covariance count for beside a task's own.
_PRIORS = (2.0, 20.0)
# Parts of a task's rows that are held out in turn to see how far rows lie from it.
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Reference:
    """Normal rows that others are compared with.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Encoded, sorted by task; none where the model keeps no rows.
    codes, numbers : ndarray of shape (n,)
        Their tasks, and where they stood in the training table.
    metric : TaskWhitenings
        What rows of each task are like, shrunk to what all tasks are like.
    low, high : ndarray of shape (D,)
        Range of the rows.
    kept_counts : ndarray of shape (T,) or None
    kept_depths : ndarray of shape (m,) or None
        What `counts` and `left_out_depths` were before the rows were dropped.
    """

    X: Array
    codes: Codes
    numbers: Codes
    metric: TaskWhitenings
    low: Array
    high: Array
    kept_counts: Codes | None = None
    kept_depths: Array | None = None

    @classmethod
    def of(cls, model: TableModel) -> Reference:
        """The training rows of a model."""
        training = model.training_
        codes = find(training.labels, model.tasks_)[0]
        X = model.encoder_.encode(training.columns, codes)
        normal = np.flatnonzero(~training.outlier)
        kept = normal[np.argsort(codes[normal], kind="stable")]
        X = X[kept]
        codes = codes[kept]
        metric = task_whitenings(X, codes, np.ones(len(X)), len(model.tasks_), *_PRIORS)
        numbers = training.numbers[kept]
        return cls(X, codes, numbers, metric, X.min(axis=0), X.max(axis=0))

    def without_rows(self) -> Reference:
        """What explains rows as before, and names no closest ones."""
        return replace(
            self,
            X=self.X[:0],
            codes=self.codes[:0],
            numbers=self.numbers[:0],
            kept_counts=self.counts,
            kept_depths=self.left_out_depths,
        )

    @property
    def counts(self) -> Codes:
        """Rows of each task, shape (T,)."""
        if self.kept_counts is not None:
            return self.kept_counts
        return np.bincount(self.codes, minlength=len(self.metric.mean))

    @cached_property
    def has_depth(self) -> Mask:
        """Tasks with rows enough to tell how far their further rows lie, shape (T,)."""
        return np.asarray(self.counts >= ENOUGH_FOR_DEPTH)

    @cached_property
    def left_out_depths(self) -> Array:
        """Distances of rows of those tasks from their task without them, shape (m,).

        A fifth of each task's rows, one after the other, is held out at a time.
        """
        if self.kept_depths is not None:
            return self.kept_depths
        n_tasks = len(self.metric.mean)
        counts = self.counts
        starts = np.cumsum(counts) - counts
        place = np.arange(len(self.codes)) - starts[self.codes]
        speaks = self.has_depth[self.codes]
        fold = np.where(speaks, place * _FOLDS // counts[self.codes], -1)
        depths = np.empty(len(self.codes))
        for number in range(_FOLDS if speaks.any() else 0):
            held_out = fold == number
            X = self.X[~held_out]
            weight = np.ones(len(X))
            metric = task_whitenings(
                X, self.codes[~held_out], weight, n_tasks, *_PRIORS
            )
            depths[held_out] = _depths(metric, self.X[held_out], self.codes[held_out])
        return depths[speaks]

    def depth_pvalues(self, depth: Array, codes: Codes) -> Array:
        """P-values of distances of rows from their tasks, each of shape (n,)."""
        tells = np.where(self.has_depth, self.counts, 0)
        tasks = np.repeat(np.arange(len(tells)), tells)
        return depth_pvalues(depth, codes, self.left_out_depths, tasks)

    def depths(self, Z: Array, codes: Codes) -> Array:
        """Distances of encoded rows (n, D) from their tasks, shape (n,)."""
        return _depths(self.metric, Z, codes)


def _depths(metric: TaskWhitenings, X: Array, codes: Codes) -> Array:
    """Length of each row in the metric of its task, shape (n,)."""
    return np.asarray(np.linalg.norm(metric.apply(X, codes), axis=1))


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why rows look as they do.

    Parameters
    ----------
    column, value, expected : ndarray of str of shape (n, k)
        Columns that did it, the most to blame first.
    number, expected_number : ndarray of shape (n, k)
        Value and expected value of columns of numbers, NaN elsewhere and where there
        is none. The expected value is the recent one where the change since is unusual,
        and none where it is how much the column moves.
    share : ndarray of shape (n, k)
        Of what is unusual about the row.
    view : ndarray of str of shape (n,)
        Who raised it: ``"strangers"``, ``"faults"``, ``"range"`` or ``"unknown"``.
    nearest : ndarray of str of shape (n,)
        Numbers of the closest training rows of the task.
    sentence : ndarray of str of shape (n, k)
        What is unusual about the past of a column; empty where its value is.
    """

    column: Texts
    value: Texts
    expected: Texts
    number: Array
    expected_number: Array
    share: Array
    view: Texts
    nearest: Texts
    sentence: Texts

    @property
    def tells(self) -> Mask:
        """Which reasons say something, shape (n, k): the value is not the expected."""
        differs = np.asarray(self.value != self.expected, dtype=bool)
        differs |= np.asarray(self.sentence != "", dtype=bool)
        counts = self.share > _LITTLE
        counts[:, :1] = True
        return np.asarray(differs & counts)

    def leading(self) -> list[str]:
        """The column of each row's first reason that says something, or an empty text."""
        names = np.where(self.tells, self.column, "")
        return [next(filter(None, line), "") for line in names.tolist()]

    def sentences(self) -> Texts:
        """Each reason as a text, shape (n, k), those that say something first."""
        tells = self.tells
        texts = np.full(self.column.shape, "", dtype=object)
        for row in range(len(texts)):
            for place, rank in enumerate(np.flatnonzero(tells[row]).tolist()):
                texts[row, place] = self.sentence[row, rank] or _sentence(
                    str(self.column[row, rank]),
                    str(self.value[row, rank]),
                    str(self.expected[row, rank]),
                )
        return texts


def _sentence(name: str, value: str, expected: str) -> str:
    """A reason; it begins with the name of the column."""
    if value == _MISSING:
        return f"{name} is empty (usually about {expected})"
    if expected == _MISSING:
        return f"{name} = {value} (usually empty)"
    return f"{name} = {value}, expected about {expected}"


def alarm_reasons(
    model: TableModel, frame: Frame, answers: Answers, number: int
) -> list[Texts]:
    """Some reasons for each alarm, as texts (n,); empty where there is none."""
    reasons = [np.full(len(answers.rows), "", dtype=object) for _ in range(number)]
    alarms = np.flatnonzero(answers.alarm)
    if number and len(alarms):
        part = frame[answers.rows[alarms].tolist()]
        found = explain_rows(model, part, answers.codes[alarms], number).sentences()
        for texts, reason in zip(reasons, found.T, strict=False):
            texts[alarms] = reason
    return reasons


def explanation_table(
    model: TableModel, frame: Frame, task: list[str], top: int, needed: bool
) -> Table:
    """The most unusual columns of every row, as a table of the library it came in."""
    claims = claimed_tasks(frame, task, model.tasks_, "pooled")
    found = explain_rows(model, frame, claims.codes, top)
    k = found.column.shape[1]
    rows = np.repeat(claims.rows, k)
    columns = {
        "row": rows,
        "task": np.repeat(claims.labels, k),
        "rank": np.tile(np.arange(1, k + 1), len(claims.rows)),
    }
    for name in ("column", "value", "expected", "share", "view", "nearest"):
        values = getattr(found, name)
        columns[name] = values.ravel() if values.ndim == 2 else np.repeat(values, k)
    if needed:
        values = model.encoder_.read(frame)
        columns["needed"] = needed_values(model, values, claims.codes, found).ravel()
    return like(frame, columns, rows)


def explain_rows(
    model: TableModel, frame: Frame, codes: Codes, top: int
) -> Explanation:
    """Explain every row of a table, given the number of its task."""
    parts = []
    for start in counted(range(0, max(len(frame), 1), _BLOCK)):
        stop = min(start + _BLOCK, len(frame))
        block = frame if len(frame) <= _BLOCK else frame[start:stop]
        parts.append(_explain_block(model, block, codes[start:stop], top))
    return Explanation(*map(np.concatenate, zip(*parts, strict=True)))


def _explain_block(
    model: TableModel, frame: Frame, codes: Codes, top: int
) -> tuple[Labels, ...]:
    encoder = model.encoder_
    reference = model._reference()
    metric = reference.metric
    columns = encoder.read(frame)
    Z = encoder.encode(columns, codes)
    own = codes
    if np.any(codes == MISSING):
        # Rows of unknown tasks are compared with the task that they are closest to.
        closest = cdist(Z, metric.mean, "cityblock").argmin(axis=1)
        own = np.where(codes == MISSING, closest, codes)
    outside = _columns_outside(model, encoder, Z, columns)
    wild = (np.insert(outside, 0, 0.0, axis=1) > 0.0)[:, encoder.source + 1]
    # Nothing is expected from a value beyond all that was seen.
    tame = _without(wild, Z, own, metric)
    reasons = find_reasons(
        metric, tame, own, encoder.source, reference.low, reference.high
    )
    gain = np.maximum(reasons.gain, 0.0)
    for number in np.flatnonzero(outside.any(axis=0)):
        step = np.where(wild & (encoder.source == number), Z - reasons.expected, 0.0)
        gain[:, number] += (metric.apply(metric.mean[own] + step, own) ** 2).sum(axis=1)
    is_empty = np.column_stack(
        [np.isnan(columns[name].values) for name in encoder.used]
    )
    # Fields are often empty together, so one makes the other expected. Where a field is
    # empty, what counts is the task's own rows.
    usually_empty = np.where(
        is_empty,
        _empty_columns(encoder, metric.mean[own]),
        _empty_columns(encoder, reasons.expected),
    )
    # An empty field that is usually empty says nothing.
    silent = is_empty & usually_empty
    gain[silent] = 0.0
    outside[silent] = 0.0
    order = np.lexsort((-gain, silent, -outside))[:, :top]
    share = gain / np.maximum(gain.sum(axis=1, keepdims=True), 1e-300)
    names = np.array(encoder.used, dtype=object)
    value = np.empty(order.shape, dtype=object)
    expected = np.empty(order.shape, dtype=object)
    value_number = np.full(order.shape, np.nan)
    expected_number = np.full(order.shape, np.nan)
    sentence = np.full(order.shape, "", dtype=object)
    deviation = np.abs(Z - reasons.expected)
    deviation /= np.maximum(metric.scale[own], 1e-9)
    for place in np.unique(order).tolist():
        rows, ranks = np.nonzero(order == place)
        column = columns[names[place]]
        column_map = encoder.maps[place]
        own_places = slice(encoder.starts[place], encoder.starts[place + 1])
        coordinates = reasons.expected[rows, own_places]
        value[rows, ranks] = value_texts(column, rows)
        texts = expected_texts(column_map, column.kind, coordinates)
        no_value = usually_empty[rows, place]
        expected[rows, ranks] = np.where(no_value, _MISSING, texts)
        level = level_map(column_map)
        if level is not None and column.kind == "number":
            value_number[rows, ranks] = column.values[rows]
            undone = level.undo(coordinates[:, :1])
            expected_number[rows, ranks] = np.where(no_value, np.nan, undone)
        if isinstance(column_map, PastMap):
            said = np.flatnonzero(~is_empty[rows, place])
            past = carried(frame, names[place])
            assert past is not None
            parts = (*column_map.parts, "swing")
            # Beyond all swings that were seen nothing else needs to be unusual.
            swings = Z[rows[said], own_places][:, -1] > 0.0
            worst = deviation[rows[said], own_places].argmax(axis=1)
            blamed = np.where(swings, len(parts) - 1, worst).tolist()
            told = past_texts(
                names[place],
                column.values[rows[said]],
                past[rows[said]],
                [parts[part] for part in blamed],
            )
            for line, about in zip(said.tolist(), told, strict=True):
                if about is not None:
                    value[rows[line], ranks[line]] = about.value
                    expected[rows[line], ranks[line]] = about.expected
                    sentence[rows[line], ranks[line]] = about.sentence
                    number = column.values[rows[line]]
                    value_number[rows[line], ranks[line]] = number
                    expected_number[rows[line], ranks[line]] = about.expected_number
    return (
        names[order],
        value,
        expected,
        value_number,
        expected_number,
        np.take_along_axis(share, order, axis=1),
        _views(model, Z, codes, outside.max(axis=1, initial=0.0) > 0.0),
        _nearest(reference, Z, own),
        sentence,
    )


def _empty_columns(encoder: Encoder, Z: Array) -> Mask:
    """Which used columns (n, p) are rather empty than not, by coordinates (n, D)."""
    is_empty = np.zeros((len(Z), len(encoder.maps)), dtype=bool)
    gaps = Z[:, encoder.starts[-1] : -1]
    is_empty[:, encoder.indicators] = gaps > LEVEL_HEIGHT / 2
    return is_empty


def _without(wild: Mask, Z: Array, codes: Codes, metric: TaskWhitenings) -> Array:
    """Rows (n, D) with what their others make one expect where they are wild (n, D)."""
    found = Z.copy()
    for task in np.unique(codes[wild.any(axis=1)]).tolist():
        rows = np.flatnonzero(codes == task)
        mean = metric.mean[task]
        found[rows] = mean + completed(
            Z[rows] - mean, wild[rows], precision(metric, task)
        )
    return found


def _columns_outside(
    model: TableModel, encoder: Encoder, Z: Array, columns: Columns
) -> Array:
    """Margins that each column (n, p) is out of its range, 0 within the first."""
    guard = column_range_in(model.model_.solution_.scorer)
    assert guard is not None
    margins = guard.margins(Z)
    outside = np.zeros((len(Z), len(encoder.maps)))
    for place, column in enumerate(encoder.source[:-1]):
        outside[:, column] = np.maximum(outside[:, column], margins[:, place])
    for number in np.setdiff1d(np.arange(len(encoder.maps)), encoder.indicators):
        missing = np.isnan(columns[encoder.used[number]].values)
        outside[:, number] = np.where(missing, margins[:, -1], outside[:, number])
    return np.where(outside > 1.0, outside, 0.0)


def _views(model: TableModel, Z: Array, codes: Codes, is_outside: Mask) -> Texts:
    """Who finds each row unusual."""
    estimator = model.model_
    views = np.full(
        len(Z), "strangers" if estimator.can.joint else "faults", dtype=object
    )
    if isinstance(estimator, CombinedOneClass) and len(Z):
        scorer = combined_scorer(estimator.solution_)
        with np.errstate(under="ignore"):
            values = scorer.values(Z, np.maximum(codes, 0))
        views = np.array(list(estimator.views_), dtype=object)[values.argmax(axis=1)]
    views[is_outside] = "range"
    views[codes == MISSING] = "unknown"
    return views


def _nearest(reference: Reference, Z: Array, codes: Codes) -> Texts:
    """Numbers of the closest training rows of each row's task, as texts."""
    texts = np.empty(len(Z), dtype=object)
    starts = np.searchsorted(reference.codes, np.arange(len(reference.metric.mean) + 1))
    for task in np.unique(codes):
        task_rows = np.flatnonzero(codes == task)
        own = slice(starts[task], starts[task + 1])
        scale = reference.metric.scale[task]
        distance = cdist(Z[task_rows] / scale, reference.X[own] / scale, "cityblock")
        closest = np.argsort(distance, axis=1, kind="stable")[:, :_NEAREST]
        numbers = reference.numbers[own][closest]
        texts[task_rows] = [", ".join(map(str, line)) for line in numbers.tolist()]
    return texts


def value_texts(column: Column, rows: Codes) -> list[str]:
    """Values of some rows as a user writes them."""
    values = column.values[rows].tolist()
    if column.levels is not None:
        return [_MISSING if v != v else str(column.levels[int(v)]) for v in values]
    return [_MISSING if v != v else _text(v, column.kind) for v in values]


def _text(value: float, kind: str) -> str:
    if kind == "boolean":
        return "true" if value > 0.5 else "false"
    if kind == "date":
        return str(np.datetime64(int(value), "s")).replace("T", " ")
    return plain_text(value, 6)


def plain_text(value: float, digits: int) -> str:
    """A number to some digits, or to the unit if it has more before its point."""
    text = format(value, f".{digits}g")
    return format(value, ".0f") if "e+" in text and abs(value) < 1e15 else text


class PastTexts(NamedTuple):
    """What is unusual about the past of a column."""

    value: str
    expected: str
    sentence: str
    expected_number: float = np.nan


def past_texts(
    name: str, values: Array, past: Array, parts: Sequence[str]
) -> list[PastTexts | None]:
    """What is unusual about rows, in words; None where it is their values.

    Parameters
    ----------
    name : str
        Of the column.
    values : ndarray of shape (n,)
    past : ndarray of shape (n, 3)
        Difference, swing, and rows without a movement.
    parts : sequence of str
        Which of `PARTS`, or "swing", is unusual about each row.
    """
    texts: list[PastTexts | None] = []
    for value, (difference, swing, still), part in zip(
        values.tolist(), past.tolist(), parts, strict=True
    ):
        recent = plain_text(value - difference, 3)
        now = plain_text(value, 6)
        if part == "difference" and difference:
            verb = "rose" if difference > 0 else "fell"
            by = plain_text(abs(difference), 3)
            sentence = f"{name} {verb} by {by} from its recent {recent}"
            texts.append(PastTexts(now, recent, sentence, value - difference))
        elif part == "swing" and swing < 0 and still > 1:
            sentence = f"{name} has not moved for {still:.0f} rows"
            texts.append(PastTexts(f"{now} for {still:.0f} rows", "moves", sentence))
        elif part == "swing":
            times = plain_text(np.exp(swing), 2)
            sentence = f"{name} swings {times} times as much as usual"
            texts.append(PastTexts(f"{times} times its steps", "usual steps", sentence))
        else:
            texts.append(None)
    return texts


def expected_texts(one: Map, kind: str, coordinates: Array) -> list[str]:
    """What a column was expected to be, from its coordinates (n, width)."""
    if isinstance(one, PastMap):
        level = level_map(one)
        if level is None:
            return ["a number"] * len(coordinates)
        return expected_texts(level, kind, coordinates[:, :1])
    if isinstance(one, NumberMap):
        texts = one.undo(coordinates).tolist()
        return [
            _text(v, kind) if kind == "boolean" else plain_text(v, 3) for v in texts
        ]
    if isinstance(one, LevelMap):
        names = one.names()
        return [names[k] for k in coordinates[:, :-1].argmax(axis=1)]
    assert isinstance(one, DateMap)
    return one.moments(coordinates)
