"""Reasons in the user's words: the column, its value, what was expected, and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from manyone._types import Array, Codes, Mask
from manyone.estimators.combined import CombinedOneClass
from manyone.metric.reasons import find_reasons, precision
from manyone.metric.shrinkage import TaskWhitenings, task_whitenings
from manyone.progress import counted
from manyone.rows import MISSING
from manyone.tables.answers import Answers
from manyone.tables.encoder import Encoder
from manyone.tables.frames import Column, like, task_labels
from manyone.tables.gaps import completed
from manyone.tables.maps import LEVEL_HEIGHT, DateMap, LevelMap, NumberMap
from manyone.tables.reading import claimed_tasks

if TYPE_CHECKING:
    from manyone.tables.model import TableModel

# Rows that are explained at a time, and training rows named beside each.
_BLOCK, _NEAREST = 2048, 3
# Share of what is unusual about a row below which a column is no reason.
_LITTLE = 0.01
# Rows that the tasks' common scales and covariance count for beside a task's own.
_PRIORS = (2.0, 20.0)


@dataclass(frozen=True, eq=False)
class Reference:
    """Normal rows that others are compared with.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Encoded, sorted by task.
    codes, numbers : ndarray of shape (n,)
        Their tasks, and where they stood in the training table.
    metric : TaskWhitenings
        What rows of each task are like, shrunk to what all tasks are like.
    """

    X: Array
    codes: Codes
    numbers: Codes
    metric: TaskWhitenings

    @classmethod
    def of(cls, model: TableModel) -> Reference:
        """The training rows of a model."""
        codes, X = model._encoded()
        normal = np.flatnonzero(~model.training_.outlier)
        kept = normal[np.argsort(codes[normal], kind="stable")]
        X, codes = X[kept], codes[kept]
        metric = task_whitenings(X, codes, np.ones(len(X)), len(model.tasks_), *_PRIORS)
        return cls(X, codes, model.training_.numbers[kept], metric)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why rows look as they do.

    Parameters
    ----------
    column, value, expected : ndarray of str of shape (n, k)
        Columns that did it, the most to blame first.
    share : ndarray of shape (n, k)
        Of what is unusual about the row.
    view : ndarray of str of shape (n,)
        Who raised it: ``"strangers"``, ``"faults"``, ``"range"`` or ``"unknown"``.
    nearest : ndarray of str of shape (n,)
        Numbers of the closest training rows of the task.
    """

    column: NDArray[Any]
    value: NDArray[Any]
    expected: NDArray[Any]
    share: Array
    view: NDArray[Any]
    nearest: NDArray[Any]

    def sentences(self) -> NDArray[Any]:
        """Each reason as a text, shape (n, k); empty where it has nothing to say."""
        said = (self.share > _LITTLE) & (self.value != self.expected)
        said[:, :1] = True
        parts = zip(
            self.column.flat,
            self.value.flat,
            self.expected.flat,
            said.flat,
            strict=True,
        )
        texts = [
            f"{name} = {v}, expected about {e}" if say else ""
            for name, v, e, say in parts
        ]
        return np.array(texts, dtype=object).reshape(self.column.shape)


def alarm_reasons(
    model: TableModel, frame: nw.DataFrame[Any], answers: Answers, number: int
) -> list[NDArray[Any]]:
    """Some reasons for each alarm, as texts (n,); empty where there is none."""
    reasons = [np.full(len(answers.rows), "", dtype=object) for _ in range(number)]
    alarmed = np.flatnonzero(answers.alarm)
    if number and len(alarmed):
        part = frame[answers.rows[alarmed].tolist()]
        found = explain_rows(model, part, answers.codes[alarmed], number).sentences()
        for texts, reason in zip(reasons, found.T, strict=False):
            texts[alarmed] = reason
    return reasons


def explanation_table(
    model: TableModel, frame: nw.DataFrame[Any], task: list[str], top: int
) -> Any:
    """The most unusual columns of every row, as a table of the library that it came in."""
    codes, rows = claimed_tasks(frame, task, model.tasks_, "pooled")
    found = explain_rows(model, frame, codes, top)
    k = found.column.shape[1]
    columns = {
        "row": np.repeat(rows, k),
        "task": np.repeat(task_labels(frame, task), k),
        "rank": np.tile(np.arange(1, k + 1), len(rows)),
    }
    for name, values in vars(found).items():
        columns[name] = values.ravel() if values.ndim == 2 else np.repeat(values, k)
    return like(frame, columns)


def explain_rows(
    model: TableModel, frame: nw.DataFrame[Any], codes: Codes, top: int
) -> Explanation:
    """Explain every row of a table, given the number of its task."""
    parts = []
    for start in counted(range(0, len(frame), _BLOCK)):
        stop = min(start + _BLOCK, len(frame))
        block = frame if len(frame) <= _BLOCK else frame[start:stop]
        parts.append(_explain_block(model, block, codes[start:stop], top))
    return Explanation(*map(np.concatenate, zip(*parts, strict=True)))


def _explain_block(
    model: TableModel, frame: nw.DataFrame[Any], codes: Codes, top: int
) -> tuple[NDArray[Any], ...]:
    encoder, reference = model.encoder_, model._reference()
    metric = reference.metric
    columns = encoder.read(frame)
    Z = encoder.encode(columns, codes)
    own = codes
    if np.any(
        codes == MISSING
    ):  # compared with the known task that they are closest to
        closest = cdist(Z, metric.mean, "cityblock").argmin(axis=1)
        own = np.where(codes == MISSING, closest, codes)
    low, high = reference.X.min(axis=0), reference.X.max(axis=0)
    outside = _columns_outside(model, encoder, Z, columns)
    wild = (np.insert(outside, 0, 0.0, axis=1) > 0.0)[:, encoder.source + 1]
    # Nothing is expected from a value beyond all that was seen.
    tame = _without(wild, Z, own, metric)
    reasons = find_reasons(metric, tame, own, encoder.source, low, high)
    gain = np.maximum(reasons.gain, 0.0)
    for number in np.flatnonzero(outside.any(axis=0)):
        step = np.where(wild & (encoder.source == number), Z - reasons.expected, 0.0)
        gain[:, number] += (metric.apply(metric.mean[own] + step, own) ** 2).sum(axis=1)
    order = np.lexsort((-gain, -outside))[:, :top]
    share = gain / np.maximum(gain.sum(axis=1, keepdims=True), 1e-300)
    names = np.array(encoder.used, dtype=object)
    value, expected = (
        np.empty(order.shape, dtype=object),
        np.empty(order.shape, dtype=object),
    )
    places = np.concatenate([[0], np.cumsum([one.width for one in encoder.maps])])
    for number in np.unique(order):
        rows, ranks = np.nonzero(order == number)
        one, column = encoder.maps[number], columns[names[number]]
        block = reasons.expected[rows, places[number] : places[number + 1]]
        value[rows, ranks] = value_texts(column, rows)
        texts = np.array(expected_texts(one, column.kind, block), dtype=object)
        if number in encoder.indicators:
            place = places[-1] + np.searchsorted(encoder.indicators, number)
            texts[reasons.expected[rows, place] > LEVEL_HEIGHT / 2] = "missing"
        expected[rows, ranks] = texts
    share = np.take_along_axis(share, order, axis=1)
    view, nearest = (
        _views(model, Z, codes, outside.any(axis=1)),
        _nearest(reference, Z, own),
    )
    return names[order], value, expected, share, view, nearest


def _without(wild: Mask, Z: Array, codes: Codes, metric: TaskWhitenings) -> Array:
    """Rows (n, D) with what their others make one expect where they are wild (n, D)."""
    found = Z.copy()
    for task in np.unique(codes[wild.any(axis=1)]).tolist():
        rows, mean = np.flatnonzero(codes == task), metric.mean[task]
        found[rows] = mean + completed(
            Z[rows] - mean, wild[rows], precision(metric, task)
        )
    return found


def _columns_outside(
    model: TableModel, encoder: Encoder, Z: Array, columns: Any
) -> Array:
    """Margins that each column (n, p) is out of its range, 0 within the first."""
    guard = model.model_.solution_.guard
    assert guard is not None
    margins = guard.outside(Z)
    outside = np.zeros((len(Z), len(encoder.maps)))
    for place, column in enumerate(encoder.source[:-1]):
        outside[:, column] = np.maximum(outside[:, column], margins[:, place])
    for number in np.setdiff1d(np.arange(len(encoder.maps)), encoder.indicators):
        missing = np.isnan(columns[encoder.used[number]].values)
        outside[:, number] = np.where(missing, margins[:, -1], outside[:, number])
    return np.where(outside > 1.0, outside, 0.0)


def _views(model: TableModel, Z: Array, codes: Codes, outside: Any) -> NDArray[Any]:
    """Who finds each row unusual."""
    estimator = model.model_
    views = np.full(
        len(Z), "strangers" if estimator.can.joint else "faults", dtype=object
    )
    if isinstance(estimator, CombinedOneClass):
        scorer: Any = estimator.solution_.scorer
        with np.errstate(under="ignore"):
            values = scorer.values(Z, np.maximum(codes, 0))
        views = np.array(list(estimator.views_), dtype=object)[values.argmax(axis=1)]
    views[outside] = "range"
    views[codes == MISSING] = "unknown"
    return views


def _nearest(reference: Reference, Z: Array, codes: Codes) -> NDArray[Any]:
    """Numbers of the closest training rows of each row's task, as texts."""
    texts = np.empty(len(Z), dtype=object)
    starts = np.searchsorted(reference.codes, np.arange(codes.max() + 2))
    for task in np.unique(codes):
        mine = np.flatnonzero(codes == task)
        own, scale = slice(starts[task], starts[task + 1]), reference.metric.scale[task]
        distance = cdist(Z[mine] / scale, reference.X[own] / scale, "cityblock")
        closest = np.argsort(distance, axis=1, kind="stable")[:, :_NEAREST]
        numbers = reference.numbers[own][closest]
        texts[mine] = [", ".join(map(str, line)) for line in numbers.tolist()]
    return texts


def value_texts(column: Column, rows: Codes) -> list[str]:
    """Values of some rows as a user writes them."""
    values = column.values[rows].tolist()
    if column.levels is not None:
        return ["missing" if v != v else str(column.levels[int(v)]) for v in values]
    return ["missing" if v != v else _text(v, column.kind) for v in values]


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


def expected_texts(one: Any, kind: str, coordinates: Array) -> list[str]:
    """What a column was expected to be, from its coordinates (n, width)."""
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
