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
from manyone.tables.frames import Columns, Frame, Table, like
from manyone.tables.gaps import completed
from manyone.tables.maps import LEVEL_HEIGHT, NumberMap
from manyone.tables.needed import needed_values
from manyone.tables.reference import Reference
from manyone.tables.rows import TableRows
from manyone.tables.wording import AboutPast, Words, past_words, reason, words_of

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

Texts = NDArray[np.object_]
# Rows that are explained at a time, and training rows named beside each.
_BLOCK = 2048
_NEAREST = 3
# Share of what is unusual about a row below which a column is no reason.
_LITTLE = 0.05
# Usual deviations of a column from which on a value is far out: hardly a normal row is.
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


def _explain_block(model: TableModel, rows: TableRows, top: int) -> Explanation:
    encoder = model.encoder_
    reference = model._reference()
    metric = reference.metric
    columns = rows.columns
    codes = rows.codes
    Z = encoder.encode(columns, codes)
    compared = codes
    if np.any(codes == MISSING):
        # Rows of unknown tasks are compared with the task that they are closest to.
        closest = cdist(Z, metric.mean, "cityblock").argmin(axis=1)
        compared = np.where(codes == MISSING, closest, codes)
    outside = _columns_outside(model, encoder, Z, columns)
    gain, expected = _blamed(encoder, reference, Z, compared, outside)
    is_empty = np.column_stack(
        [np.isnan(columns[name].values) for name in encoder.layout.used]
    )
    # Fields are often empty together, so one makes the other expected. Where a field is
    # empty, what counts is the task's own rows.
    usually_empty = np.where(
        is_empty,
        _empty_columns(encoder, metric.mean[compared]),
        _empty_columns(encoder, expected),
    )
    # An empty field that is usually empty says nothing.
    silent = is_empty & usually_empty
    gain[silent] = 0.0
    outside[silent] = 0.0
    order = np.lexsort((-gain, silent, -outside))[:, :top]
    share = gain / np.maximum(gain.sum(axis=1, keepdims=True), 1e-300)
    deviation = (Z - expected) / np.maximum(metric.scale[compared], 1e-9)
    words = np.empty((*order.shape, len(Words._fields)), dtype=object)
    for place in np.unique(order).tolist():
        places, ranks = np.nonzero(order == place)
        own_places = slice(
            encoder.layout.starts[place], encoder.layout.starts[place + 1]
        )
        words[places, ranks] = _words(
            model,
            rows,
            places,
            place,
            expected[places, own_places],
            deviation[places, own_places],
            usually_empty[places, place],
        )
    value, wanted, number, wanted_number, sentence = np.moveaxis(words, -1, 0)
    tells = (codes != MISSING) & reference.has_depth[compared]
    return Explanation(
        column=np.array(encoder.layout.used, dtype=object)[order],
        value=value,
        expected=wanted,
        number=number.astype(np.float64),
        expected_number=wanted_number.astype(np.float64),
        share=np.take_along_axis(share, order, axis=1),
        view=_views(model, Z, codes, outside.max(axis=1, initial=0.0) > 0.0),
        nearest=_nearest(reference, Z, compared),
        sentence=sentence,
        depth=np.where(tells, reference.depths(Z, compared), 0.0),
    )


def _blamed(
    encoder: Encoder, reference: Reference, Z: Array, codes: Codes, outside: Array
) -> tuple[Array, Array]:
    """How much each column (n, p) has to do with it, and the rows (n, D) expected.

    `outside` (n, p) says how far each column is out of its range.
    """
    metric = reference.metric
    source = encoder.layout.source
    wild = (np.insert(outside, 0, 0.0, axis=1) > 0.0)[:, source + 1]
    # Nothing is expected from a value beyond all that was seen.
    tame = _without(wild, Z, codes, metric)
    reasons = find_reasons(metric, tame, codes, source, reference.low, reference.high)
    gain = np.maximum(reasons.gain, 0.0)
    for number in np.flatnonzero(outside.any(axis=0)):
        step = np.where(wild & (source == number), Z - reasons.expected, 0.0)
        moved = metric.apply(metric.mean[codes] + step, codes)
        gain[:, number] += (moved**2).sum(axis=1)
    return gain, reasons.expected


def _words(
    model: TableModel,
    rows: TableRows,
    places: Codes,
    place: int,
    expected: Array,
    deviation: Array,
    usually_empty: Mask,
) -> list[Words]:
    """What there is to say about one column of some rows, given by places (k,).

    `expected` (k, width) are its coordinates, and `deviation` (k, width) how far the
    rows are from them, in what is usual.
    """
    name = model.encoder_.layout.used[place]
    column = rows.columns[name].take(places)
    column_map = model.encoder_.layout.maps[place]
    words = words_of(column, column_map, expected, usually_empty)
    past = model.training_.past
    if not isinstance(column_map, NumberMap) or not column_map.has_past or past is None:
        return words
    is_known = ~np.isnan(column_map.numbers(column))
    when = [""] * len(places)
    if column.usual is not None:
        when = rows.season_words(places, past)
    assert column.past is not None
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
    is_empty = np.zeros((len(Z), len(encoder.layout.maps)), dtype=bool)
    gaps = Z[:, encoder.layout.starts[-1] : -1]
    is_empty[:, encoder.layout.indicators] = gaps > LEVEL_HEIGHT / 2
    return is_empty


def _without(wild: Mask, Z: Array, codes: Codes, metric: TaskWhitenings) -> Array:
    """Rows (n, D) with what their others make one expect where they are wild (n, D)."""
    tame = Z.copy()
    for task in np.unique(codes[wild.any(axis=1)]).tolist():
        rows = np.flatnonzero(codes == task)
        mean = metric.mean[task]
        tame[rows] = mean + completed(
            Z[rows] - mean, wild[rows], precision(metric, task)
        )
    return tame


def _columns_outside(
    model: TableModel, encoder: Encoder, Z: Array, columns: Columns
) -> Array:
    """Margins that each column (n, p) is out of its range, 0 within the first."""
    guard = guard_in(model.model_.solution_.scorer, ColumnRange)
    assert guard is not None
    margins = guard.margins(Z)
    outside = np.zeros((len(Z), len(encoder.layout.maps)))
    for place, column in enumerate(encoder.layout.source[:-1]):
        outside[:, column] = np.maximum(outside[:, column], margins[:, place])
    for number in np.setdiff1d(
        np.arange(len(encoder.layout.maps)), encoder.layout.indicators
    ):
        missing = np.isnan(columns[encoder.layout.used[number]].values)
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
        task_places = slice(starts[task], starts[task + 1])
        scale = reference.metric.scale[task]
        distance = cdist(
            Z[task_rows] / scale, reference.X[task_places] / scale, "cityblock"
        )
        closest = np.argsort(distance, axis=1, kind="stable")[:, :_NEAREST]
        numbers = reference.numbers[task_places][closest]
        texts[task_rows] = [", ".join(map(str, line)) for line in numbers.tolist()]
    return texts
