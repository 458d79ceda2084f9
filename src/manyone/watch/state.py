"""State of a monitor: plain arrays, one line per task, and their bytes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

import manyone.model_files  # noqa: F401 - registers what states hold
from manyone._types import Array, Codes, Mask
from manyone.calibration import Calibration
from manyone.data.groups import looks_ahead
from manyone.estimators.base import OneClassEstimator
from manyone.files import archive, write_atomically
from manyone.files.errors import ModelFileError
from manyone.tables import TableModel
from manyone.tables.past import TablePast
from manyone.watch.drift import BETS, LONGEST, first_neighbours, fresh_shares
from manyone.watch.memory import (
    NORMAL,
    REMEMBERED,
    ROW,
    UNANSWERED,
    Id,
    Memory,
    RowMemory,
)
from manyone.watch.model import (
    WatchedModel,
    estimator_of,
    fingerprint_of,
    rows_of_tasks,
)
from manyone.watch.thresholds import WINDOW, anchors_of, first_window, tied_scores

#: Rows that may be learned for each row that a task was fitted to.
LEARNED = 0.5
_KIND = "state"
_OLD_FORMAT = b"manyone monitor state "
_STORE = b"SQLite format 3\0"
_TIME = np.dtype("U32")


@dataclass(eq=False)
class MonitorState:
    """State of a monitor, one line per task.

    Parameters
    ----------
    fingerprint : str
        Of the model that it belongs to.
    rate, drift_level : float
        Promised alarm rate, and probability of a false drift flag of one task.
    seed : int
        Of the numbers that break ties.
    anchor, opening, window : ndarray of shape (T, WINDOW)
        Left-out scores, which never leave; the scores that p-values are taken among at
        first, and now.
    confirmed : ndarray of bool of shape (T, WINDOW)
        What in the window a person has called normal.
    low, high, level, run : ndarray of shape (T,)
        Bounds of the threshold, level of the alarm, moving average of alarms.
    head, rows, alarms : ndarray of shape (T,)
        Next place in the window; rows and alarms so far.
    answers : ndarray of shape (T, 2)
        Recent answers about alarms: normal, abnormal.
    history : ndarray of shape (T, h)
        Scores that ranks are taken among, the first `counts` (T,) of each line.
    log_wealth : ndarray of shape (T, 2)
        Of the bets on ranks among new rows, and among left-out and new rows (-inf: no bets).
    shares : ndarray of shape (T, 2, B)
    neighbours, mark : ndarray of shape (T, 2), (T,)
        How far rows resemble the one before, and whether the last one was low (0: no row
        yet), see `drift.weights_of_rows`.
    most, least : ndarray of shape (T,)
        Largest evidence so far, and the smallest of the first wealth.
    since, flagged : ndarray of shape (T,)
        Row of the task at which that was, and at which the flag was raised (-1: never).
    since_time, flagged_time : ndarray of str of shape (T,)
    trained, learned : ndarray of shape (T,)
        Rows that the task was fitted to, and rows enrolled since.
    fleet_flagged : ndarray of shape (1,)
        Row of the stream at which the whole fleet was flagged, -1 for never.
    memory : RowMemory
        The last rows, by id.
    past : TablePast or None
        What the tasks ended with, where a model of tables asks for the past of rows.
    """

    fingerprint: str
    rate: float
    drift_level: float
    seed: int
    anchor: Array
    opening: Array
    window: Array
    confirmed: Mask
    low: Array
    high: Array
    level: Array
    run: Array
    head: Codes
    rows: Codes
    alarms: Codes
    answers: Array
    history: NDArray[np.float32]
    counts: Codes
    log_wealth: Array
    shares: Array
    neighbours: Array
    mark: Array
    most: Array
    least: Array
    since: Codes
    flagged: Codes
    since_time: NDArray[np.str_]
    flagged_time: NDArray[np.str_]
    trained: Array
    learned: Array
    fleet_flagged: Codes
    memory: RowMemory = field(default_factory=Memory)
    past: TablePast | None = None

    def has_answers(self, t: Codes | slice = slice(None)) -> Mask:
        """Whether somebody has answered an alarm of tasks, shape (k,)."""
        return np.asarray(self.answers[t].sum(axis=1) > 0.0)

    @classmethod
    def start(
        cls, model: WatchedModel, *, drift_level: float = 0.01, seed: int = 0
    ) -> Self:
        """State before the first row.

        Parameters
        ----------
        model : fitted estimator or TableModel
        drift_level : float, default=0.01
            Probability that a task is ever flagged although nothing drifts.
        seed : int, default=0

        Returns
        -------
        MonitorState
        """
        check_drift_level(drift_level)
        estimator = estimator_of(model)
        rate = estimator._check_calibrated()
        anchors = anchors_of(estimator.calibration_, estimator.offset_, rate)
        n_tasks = len(anchors.low)
        wealth = np.zeros((n_tasks, 2))
        wealth[_without_second_bet(estimator, anchors.scores, rate), 1] = -np.inf
        return cls(
            fingerprint=fingerprint_of(model),
            rate=rate,
            drift_level=drift_level,
            seed=int(seed),
            anchor=anchors.scores,
            opening=anchors.opening,
            window=first_window(anchors.opening),
            confirmed=np.zeros((n_tasks, WINDOW), dtype=bool),
            low=anchors.low,
            high=anchors.high,
            level=np.full(n_tasks, rate),
            run=np.zeros(n_tasks),
            head=np.zeros(n_tasks, dtype=np.intp),
            rows=np.zeros(n_tasks, dtype=np.intp),
            alarms=np.zeros(n_tasks, dtype=np.intp),
            answers=np.zeros((n_tasks, 2)),
            history=np.zeros((n_tasks, 16), dtype=np.float32),
            counts=np.zeros(n_tasks, dtype=np.intp),
            log_wealth=wealth,
            shares=np.stack([fresh_shares(n_tasks)] * 2, axis=1),
            neighbours=first_neighbours(counted_rows(estimator.calibration_)),
            mark=np.zeros(n_tasks),
            most=np.full(n_tasks, -np.inf),
            least=np.zeros(n_tasks),
            since=np.zeros(n_tasks, dtype=np.intp),
            flagged=np.full(n_tasks, -1),
            since_time=np.full(n_tasks, "", dtype=_TIME),
            flagged_time=np.full(n_tasks, "", dtype=_TIME),
            trained=rows_of_tasks(estimator),
            learned=np.zeros(n_tasks),
            fleet_flagged=np.full(1, -1),
            past=model.training_.past if isinstance(model, TableModel) else None,
        )

    def confirmed_rows(self, ids: list[Id]) -> tuple[Mask, Codes]:
        """Which rows were called normal and fit under the cap of their task, and their tasks."""
        remembered, rows = self.memory.find(ids)
        chosen = np.zeros(len(ids), dtype=bool)
        codes: Codes = np.where(remembered, rows["task"], -1).astype(np.intp)
        room = np.floor(LEARNED * self.trained - self.learned)
        normal = remembered & (rows["answer"] == 1) & (codes >= 0)
        for row in np.flatnonzero(normal).tolist():
            if room[codes[row]] >= 1:
                room[codes[row]] -= 1
                chosen[row] = True
        return chosen, codes

    def started_again(self, model: WatchedModel, codes: Codes) -> Self:
        """The state for a model that has learned rows of these tasks: other scores, same past."""
        new = self.start(model, drift_level=self.drift_level, seed=self.seed)
        new.memory = self.memory
        if new.past is not None and self.past is not None:
            new.past = new.past.later(self.past)
        new.trained = self.trained
        new.learned = self.learned + np.bincount(codes, minlength=len(self.learned))
        new.rows = self.rows
        new.alarms = self.alarms
        new.answers = self.answers
        return new

    def save(self, path: str | Path) -> None:
        """Write to a file, whole or not at all."""
        write_atomically(Path(path), state_to_bytes(self))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read from a file.

        Raises
        ------
        ValueError
            If it is not such a file, or damaged.
        """
        content = Path(path).read_bytes()
        if content.startswith(_STORE):
            raise ValueError(
                f"{path} is a store of manyone watch, not a state saved by Monitor. "
                "Name another file."
            )
        return cls(**state_from_bytes(content, str(path)))


def check_drift_level(drift_level: float) -> None:
    """Refuse what is no probability."""
    if not 0 < drift_level < 1:
        raise ValueError(f"drift_level must lie between 0 and 1; got {drift_level!r}.")


def counted_rows(calibration: Calibration) -> Array:
    """What a left-out row of each task counts for, shape (T,): 1 if it is like no other."""
    rows = np.diff(calibration.starts)
    usual = calibration.weight.sum() / max(len(calibration.weight), 1)
    return np.where(rows > 0, calibration.counts / np.maximum(rows, 1), usual)


def _without_second_bet(
    estimator: OneClassEstimator, anchors: Array, rate: float
) -> Mask:
    """Tasks (T,) whose left-out scores are no history of their new rows.

    Scores borrowed from other tasks say nothing of this one. Models of early blocks give
    lower scores than new rows get. Scores that tie come from rows that have copies: what
    is left out with them differs from what a new copy finds in training.
    """
    without = estimator.calibration_.too_few(rate) | tied_scores(anchors)
    if estimator.training_.group is not None:
        without = without | looks_ahead(estimator.training_)
    return without


# -------------------------------------------------------------------------------- as bytes


class _Shape(NamedTuple):
    """What an array of a state has to be; the first side is the number of tasks."""

    dtype: DTypeLike
    sides: tuple[int, ...] = ()
    lowest: float = -np.inf
    highest: float = np.inf
    gaps: bool = False  # whether NaN may stand in it


_COUNT = _Shape(np.intp, lowest=0)
_SHAPES = {
    "anchor": _Shape(np.float64, (WINDOW,), gaps=True),
    "opening": _Shape(np.float64, (WINDOW,), gaps=True),
    "window": _Shape(np.float64, (WINDOW,), gaps=True),
    "confirmed": _Shape(np.bool_, (WINDOW,)),
    "low": _Shape(np.float64),
    "high": _Shape(np.float64),
    # A level below 0 is a debt: so many alarms were raised that it has to pay back.
    "level": _Shape(np.float64, lowest=-1e6, highest=1),
    "run": _Shape(np.float64, lowest=0, highest=1),
    "head": _Shape(np.intp, lowest=0, highest=WINDOW - 1),
    "rows": _COUNT,
    "alarms": _COUNT,
    "answers": _Shape(np.float64, (2,), lowest=0, highest=1e15),
    "counts": _Shape(np.intp, lowest=0, highest=LONGEST),
    "log_wealth": _Shape(np.float64, (2,), highest=1e15),
    "shares": _Shape(np.float64, (2, BETS), lowest=0, highest=1),
    "neighbours": _Shape(np.float64, (2,), lowest=-1e15, highest=1e15),
    "mark": _Shape(np.float64, lowest=-10, highest=10),
    "most": _Shape(np.float64),
    "least": _Shape(np.float64),
    "since": _COUNT,
    "flagged": _Shape(np.intp, lowest=-1),
    "since_time": _Shape(_TIME),
    "flagged_time": _Shape(_TIME),
    "trained": _Shape(np.float64, lowest=0, highest=1e15),
    "learned": _Shape(np.float64, lowest=0, highest=1e15),
}
# What is saved of each row that is remembered.
_ROW_FIELDS = {
    "task": _Shape(np.int32, lowest=-1),
    "score": _Shape(np.float64),
    "p_value": _Shape(np.float64, lowest=0, highest=1),
    "alarm": _Shape(np.bool_),
    "drift": _Shape(np.bool_),
    "weight": _Shape(np.float32, lowest=0, highest=1),
    "answer": _Shape(np.int8, lowest=UNANSWERED, highest=NORMAL),
}


def state_to_bytes(state: MonitorState) -> bytes:
    """The state as bytes; rows of a memory that is elsewhere stay there."""
    memory = state.memory if isinstance(state.memory, Memory) else Memory()
    rows = memory.rows[: len(memory.ids)]
    content = {
        each.name: getattr(state, each.name)
        for each in fields(state)
        if each.name != "memory"
    }
    content["memory"] = {
        "count": memory.count,
        "ids": memory.ids,
        "rows": {name: np.ascontiguousarray(rows[name]) for name in _ROW_FIELDS},
    }
    return archive.dumps(_KIND, content)


def state_from_bytes(content: bytes, name: str) -> dict[str, Any]:
    """Fields of a state from its bytes, each of them checked.

    Parameters
    ----------
    content : bytes
    name : str
        Where they come from, for messages.

    Raises
    ------
    ValueError
        If these are not the bytes of a state.
    """
    if content.startswith(_OLD_FORMAT):
        raise ValueError(
            f"{name} was written by an older manyone, which this one does not read. "
            "Start a new one under another name."
        )
    try:
        saved = archive.loads(content, _KIND)
    except ModelFileError as error:
        raise ValueError(str(error).replace("This state", name, 1)) from error
    try:
        return _checked_fields(saved)
    except (ValueError, TypeError, KeyError) as error:
        why = " ".join(str(error).split())
        raise ValueError(
            f"{name} is damaged or was made by somebody else: {why}. Use a copy of it."
        ) from error


def _checked_fields(saved: object) -> dict[str, Any]:
    """Fields of a state, after every one has been checked."""
    if type(saved) is not dict or {*saved} != {
        each.name for each in fields(MonitorState)
    }:
        raise ValueError("it does not hold what a state holds")
    if type(saved["level"]) is not np.ndarray:
        raise ValueError("it has no levels")
    n_tasks = len(saved["level"])
    for name, shape in _SHAPES.items():
        _check_array(name, saved[name], shape, (n_tasks, *shape.sides))
    _check_array("fleet_flagged", saved["fleet_flagged"], _SHAPES["flagged"], (1,))
    _check_history(saved["history"], saved["counts"], n_tasks)
    if not np.allclose(saved["shares"].sum(axis=2), 1.0):
        raise ValueError("shares do not sum to 1")
    if not np.all(saved["neighbours"][:, 1] >= 1):
        raise ValueError("neighbours has numbers of pairs below 1")
    _check_plain(saved)
    _check_past(saved["past"], n_tasks)
    return {**saved, "memory": _checked_memory(saved["memory"], n_tasks)}


def _check_array(
    name: str, values: object, wanted: _Shape, shape: tuple[int, ...]
) -> None:
    if type(values) is not np.ndarray:
        raise ValueError(f"{name} is no array")
    if values.dtype != np.dtype(wanted.dtype) or values.shape != shape:
        raise ValueError(f"{name} is {values.dtype} {values.shape}, not {shape}")
    if values.dtype.kind in "bU":
        return
    if not wanted.gaps and np.isnan(values).any():
        raise ValueError(f"{name} has gaps")
    if np.any((values < wanted.lowest) | (values > wanted.highest)):
        raise ValueError(f"{name} is out of range")


def _check_history(history: Any, counts: Codes, n_tasks: int) -> None:
    if type(history) is not np.ndarray:
        raise ValueError("history is no array")
    width = history.shape[1] if history.ndim == 2 else 0
    if not 0 < width <= LONGEST or counts.max(initial=0) > width:
        raise ValueError(f"history is {history.shape}")
    _check_array("history", history, _Shape(np.float32, gaps=True), (n_tasks, width))


def _check_past(past: object, n_tasks: int) -> None:
    if past is not None and not isinstance(past, TablePast):
        raise ValueError("past is of another type")
    if past is not None and len(past.tasks) != n_tasks:
        raise ValueError(f"past is that of {len(past.tasks)} tasks, not {n_tasks}")


def _check_plain(plain: dict[str, Any]) -> None:
    if type(plain["fingerprint"]) is not str or type(plain["seed"]) is not int:
        raise ValueError("fingerprint or seed is of another type")
    for name in ("rate", "drift_level"):
        if type(plain[name]) is not float or not 0 < plain[name] < 1:
            raise ValueError(f"{name} is {plain[name]!r}")


def _checked_memory(saved: dict[str, Any], n_tasks: int) -> Memory:
    """The rows that were remembered, after each has been checked."""
    count = saved["count"]
    ids = saved["ids"]
    if type(count) is not int or type(ids) is not list:
        raise ValueError("memory has no ids")
    if len(ids) != min(count, REMEMBERED):
        raise ValueError("memory has fewer rows than it counts")
    if not {type(row_id) for row_id in ids} <= {int, str} or len({*ids}) < len(ids):
        raise ValueError("memory has ids twice, or ids that are none")
    rows = np.zeros(len(ids), dtype=ROW)
    for name, shape in _ROW_FIELDS.items():
        highest = n_tasks - 1 if name == "task" else shape.highest
        values = saved["rows"][name]
        _check_array(name, values, shape._replace(highest=highest), (len(ids),))
        rows[name] = values
    return Memory(count, ids, rows)
