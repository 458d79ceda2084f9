"""Reasons in the user's words: a column, its value, and what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from manyone._types import Array, Codes, Mask
from manyone.data.rows import MISSING
from manyone.estimators.combined import CombinedOneClass
from manyone.metric.reasons import find_reasons, precision
from manyone.metric.shrinkage import TaskWhitenings
from manyone.models.column_range import ColumnRange
from manyone.models.combined import combined_scorer
from manyone.models.guards import guard_in
from manyone.progress import counted
from manyone.tables.answers import Answers
from manyone.tables.encoder import Encoder
from manyone.tables.frames import Frame, Table, like
from manyone.tables.gaps import completed
from manyone.tables.maps import LEVEL_HEIGHT, NumberMap
from manyone.tables.needed import needed_values
from manyone.tables.reference import Reference
from manyone.tables.rows import TableRows
from manyone.tables.wording import AboutPast, Words, past_words, reason, words_of

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

Texts = NDArray[np.object_]
# Rows that are explained at a time.
_BLOCK = 2048
# A column with a smaller share of what is unusual about a row is no reason.
_LITTLE = 0.05
# So many usual deviations of a column are far: hardly any normal row is as far out.
_FAR = 3.0


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
    depth : ndarray of shape (n,)
        Distance of the row from its task; 0 where the task has too few rows to tell.
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
    depth: Array

    @property
    def tells(self) -> Mask:
        """Which reasons say something, shape (n, k): the value is not the expected."""
        differs = np.asarray(self.value != self.expected, dtype=bool)
        differs |= np.asarray(self.sentence != "", dtype=bool)
        counts = self.share > _LITTLE
        counts[:, :1] = True
        return np.asarray(differs & counts)

    def leading(self) -> list[str]:
        """The column of each row's first reason, or an empty text."""
        names = np.where(self.tells, self.column, "")
        return [next(filter(None, line), "") for line in names.tolist()]

    def sentences(self) -> Texts:
        """Each reason as a text, shape (n, k), those that say something first."""
        tells = self.tells
        texts = np.full(self.column.shape, "", dtype=object)
        for row, rank in np.argwhere(tells).tolist():
            texts[row, tells[row, :rank].sum()] = self.sentence[row, rank] or reason(
                self.column[row, rank], self.value[row, rank], self.expected[row, rank]
            )
        return texts


def alarm_reasons(
    model: TableModel, rows: TableRows, answers: Answers, number: int
) -> list[Texts]:
    """Some reasons for each alarm, as texts (n,); empty where there is none."""
    reasons = np.full((number, len(answers.rows)), "", dtype=object)
    alarms = np.flatnonzero(answers.alarm)
    if number and len(alarms):
        sentences = explain_answers(model, rows, answers, alarms, number).sentences()
        reasons[: sentences.shape[1], alarms] = sentences.T
    return list(reasons)


def explanation_table(
    model: TableModel, frame: Frame, rows: TableRows, top: int, needed: bool
) -> Table:
    """The most unusual columns of every row, as a table of the library of `frame`."""
    explanation = explain_rows(model, rows, top)
    k = explanation.column.shape[1]
    numbers = np.repeat(np.arange(len(rows)), k)
    columns = {
        "row": numbers,
        "task": np.repeat(rows.labels, k),
        "rank": np.tile(np.arange(1, k + 1), len(rows)),
    }
    for name in ("column", "value", "expected", "share", "view", "nearest"):
        values = getattr(explanation, name)
        columns[name] = values.ravel() if values.ndim == 2 else np.repeat(values, k)
    if needed:
        columns["needed"] = needed_values(model, rows, explanation).ravel()
    return like(frame, columns, numbers)


def explain_answers(
    model: TableModel, rows: TableRows, answers: Answers, chosen: Codes, top: int
) -> Explanation:
    """Explain some of the rows that were answered, by their places among these."""
    return explain_rows(model, rows.take(answers.rows[chosen]), top)


def explain_rows(model: TableModel, rows: TableRows, top: int) -> Explanation:
    """Explain every row."""
    parts = []
    for start in counted(range(0, max(len(rows), 1), _BLOCK)):
        places = np.arange(start, min(start + _BLOCK, len(rows)))
        parts.append(_explain_block(model, rows.take(places), top))
    joined = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Explanation)
    }
    return Explanation(**joined)


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Rows beside what was expected of them.

    Parameters
    ----------
    Z, expected : ndarray of shape (n, D)
        Coordinates, and what each would be if its column alone were as expected.
    tasks : ndarray of shape (n,)
        Numbers of the tasks that rows are compared with.
    gain : ndarray of shape (n, p)
        How much each column has to do with it.
    outside : ndarray of shape (n, p)
        Margins that each column is out of its range; 0 within the first.
    is_empty, is_usually_empty : ndarray of bool of shape (n, p)
        Where a value is missing, and where it was expected to be.
    """

    Z: Array
    expected: Array
    tasks: Codes
    gain: Array
    outside: Array
    is_empty: Mask
    is_usually_empty: Mask

    @classmethod
    def of(cls, model: TableModel, rows: TableRows) -> _Comparison:
        """Rows beside the normal rows of their tasks.

        Rows of unknown tasks are compared with the task that they are closest to.
        """
        encoder = model.encoder_
        reference = model._reference()
        means = reference.metric.mean
        Z = encoder.encode(rows.columns, rows.codes)
        tasks = rows.codes
        if np.any(tasks == MISSING):
            closest = cdist(Z, means, "cityblock").argmin(axis=1)
            tasks = np.where(tasks == MISSING, closest, tasks)
        is_empty = np.column_stack(
            [np.isnan(rows.columns[name].values) for name in encoder.layout.used]
        )
        outside = _columns_outside(model, Z, is_empty)
        gain, expected = _blamed(encoder, reference, Z, tasks, outside)
        # Fields are often empty together, so one makes the other expected. Where a
        # field is empty, what counts is the task's own rows.
        is_usually_empty = np.where(
            is_empty,
            _empty_columns(encoder, means[tasks]),
            _empty_columns(encoder, expected),
        )
        says_nothing = is_empty & is_usually_empty
        gain[says_nothing] = 0.0
        outside[says_nothing] = 0.0
        return cls(Z, expected, tasks, gain, outside, is_empty, is_usually_empty)

    def ranked(self) -> Codes:
        """Numbers of the columns (n, p) of each row, the most to blame first."""
        says_nothing = self.is_empty & self.is_usually_empty
        return np.lexsort((-self.gain, says_nothing, -self.outside))


def _explain_block(model: TableModel, rows: TableRows, top: int) -> Explanation:
    reference = model._reference()
    comparison = _Comparison.of(model, rows)
    order = comparison.ranked()[:, :top]
    share = comparison.gain / np.maximum(
        comparison.gain.sum(axis=1, keepdims=True), 1e-300
    )
    words = np.empty((*order.shape, len(Words._fields)), dtype=object)
    for number in np.unique(order).tolist():
        places, ranks = np.nonzero(order == number)
        words[places, ranks] = _words(model, rows, comparison, number, places)
    value, expected, number, expected_number, sentence = np.moveaxis(words, -1, 0)
    has_depth = (rows.codes != MISSING) & reference.has_depth[comparison.tasks]
    return Explanation(
        column=np.array(model.encoder_.layout.used, dtype=object)[order],
        value=value,
        expected=expected,
        number=number.astype(np.float64),
        expected_number=expected_number.astype(np.float64),
        share=np.take_along_axis(share, order, axis=1),
        view=_views(
            model,
            comparison.Z,
            rows.codes,
            comparison.outside.max(axis=1, initial=0.0) > 0.0,
        ),
        nearest=_nearest(reference, comparison.Z, comparison.tasks),
        sentence=sentence,
        depth=np.where(
            has_depth, reference.depths(comparison.Z, comparison.tasks), 0.0
        ),
    )


def _blamed(
    encoder: Encoder, reference: Reference, Z: Array, tasks: Codes, outside: Array
) -> tuple[Array, Array]:
    """How much each column (n, p) has to do with it, and the rows (n, D) expected.

    `outside` (n, p) says how far each column is out of its range.
    """
    metric = reference.metric
    source = encoder.layout.source
    # The last coordinate comes from no column.
    is_wild = np.insert(outside > 0.0, 0, False, axis=1)[:, source + 1]
    # Nothing is expected from a value beyond all that was seen.
    tame = _without(is_wild, Z, tasks, metric)
    reasons = find_reasons(metric, tame, tasks, source, reference.low, reference.high)
    gain = np.maximum(reasons.gain, 0.0)
    for number in np.flatnonzero(outside.any(axis=0)):
        step = np.where(is_wild & (source == number), Z - reasons.expected, 0.0)
        moved = metric.apply(metric.mean[tasks] + step, tasks)
        gain[:, number] += (moved**2).sum(axis=1)
    return gain, reasons.expected


def _words(
    model: TableModel,
    rows: TableRows,
    comparison: _Comparison,
    number: int,
    places: Codes,
) -> list[Words]:
    """What there is to say about one column, by its number, of some rows (k,)."""
    layout = model.encoder_.layout
    name = layout.used[number]
    column_map = layout.maps[number]
    column = rows.columns[name].take(places)
    coordinates = slice(layout.starts[number], layout.starts[number + 1])
    expected = comparison.expected[places, coordinates]
    words = words_of(
        column, column_map, expected, comparison.is_usually_empty[places, number]
    )
    past = model.training_.past
    if not isinstance(column_map, NumberMap) or not column_map.has_past or past is None:
        return words
    assert column.past is not None
    scale = model._reference().metric.scale[comparison.tasks[places], coordinates]
    deviation = (comparison.Z[places, coordinates] - expected) / np.maximum(scale, 1e-9)
    is_known = ~np.isnan(column_map.numbers(column))
    when = [""] * len(places)
    if column.usual is not None:
        when = rows.season_words(places, past)
    about = AboutPast(
        past=np.column_stack([column.past, rows.still[name][places]]),
        parts=_unusual_parts(column_map.parts, deviation, is_known),
        swings=column_map.undo(expected, "swing"),
        when=when,
    )
    return past_words(name, words, about)


def _unusual_parts(parts: Sequence[str], deviation: Array, is_known: Mask) -> list[str]:
    """What is most unusual about a column, its value or its past, of each row.

    A value far out makes its column swing, too: then it is the value that is said.
    A past that was only estimated is never said.

    Parameters
    ----------
    parts : sequence of str
        Which of `PARTS` are used.
    deviation : ndarray of shape (n, k)
        Of each part from what was expected, in what is usual.
    is_known : ndarray of shape (n, k)
        Whether a row has such a part: not without a value, or too short a past.
    """
    is_swing = np.array(parts) == "swing"
    size = np.where(is_known, np.abs(deviation), 0.0)
    is_far = size[:, ~is_swing].max(axis=1, initial=0.0) > _FAR
    size[is_far[:, None] & is_swing & (deviation > 0.0)] = 0.0
    return [parts[part] for part in size.argmax(axis=1).tolist()]


def _empty_columns(encoder: Encoder, Z: Array) -> Mask:
    """Which used columns (n, p) are rather empty than not, by coordinates (n, D)."""
    layout = encoder.layout
    is_empty = np.zeros((len(Z), len(layout.maps)), dtype=bool)
    gaps = Z[:, layout.starts[-1] : -1]
    is_empty[:, layout.indicators] = gaps > LEVEL_HEIGHT / 2
    return is_empty


def _without(is_wild: Mask, Z: Array, tasks: Codes, metric: TaskWhitenings) -> Array:
    """Rows (n, D) with what their others make one expect where they are wild (n, D)."""
    tame = Z.copy()
    for task in np.unique(tasks[is_wild.any(axis=1)]).tolist():
        places = np.flatnonzero(tasks == task)
        mean = metric.mean[task]
        tame[places] = mean + completed(
            Z[places] - mean, is_wild[places], precision(metric, task)
        )
    return tame


def _columns_outside(model: TableModel, Z: Array, is_empty: Mask) -> Array:
    """Margins that each column (n, p) is out of its range, 0 within the first."""
    guard = guard_in(model.model_.solution_.scorer, ColumnRange)
    assert guard is not None
    layout = model.encoder_.layout
    margins = guard.margins(Z)
    outside = np.zeros(is_empty.shape)
    np.maximum.at(outside.T, layout.source[:-1], margins.T[:-1])
    # A column that had no more than one gap has no coordinate for it but the last.
    is_news = is_empty.copy()
    is_news[:, layout.indicators] = False
    outside = np.where(is_news, margins[:, -1:], outside)
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


def _nearest(reference: Reference, Z: Array, codes: Codes, most: int = 3) -> Texts:
    """Numbers of the closest training rows of each row's task, as texts."""
    texts = np.empty(len(Z), dtype=object)
    starts = np.searchsorted(reference.codes, np.arange(len(reference.metric.mean) + 1))
    for task in np.unique(codes):
        task_rows = np.flatnonzero(codes == task)
        task_places = slice(starts[task], starts[task + 1])
        scale = reference.metric.scale[task]
        distance = cdist(
            Z[task_rows] / scale, reference.X[task_places] / scale, "cityblock"
        )
        closest = np.argsort(distance, axis=1, kind="stable")[:, :most]
        numbers = reference.numbers[task_places][closest]
        texts[task_rows] = [", ".join(map(str, line)) for line in numbers.tolist()]
    return texts
