"""State of a monitor: plain arrays, one line per task, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

import manyone.model_files  # noqa: F401 - registers what states hold, too
from manyone._types import Array, Codes, Mask
from manyone.calibration import Calibration
from manyone.data.groups import looks_ahead
from manyone.estimators.base import OneClassEstimator
from manyone.files import archive, write_atomically
from manyone.files.errors import ModelFileError
from manyone.files.registry import register
from manyone.files.shapes import Sizes
from manyone.tables import TableModel
from manyone.tables.incidents import rows_of_tasks
from manyone.tables.past import TablePast
from manyone.watch.drift import BETS, LONGEST, first_neighbours, fresh_shares
from manyone.watch.memory import (
    NORMAL,
    REMEMBERED,
    UNANSWERED,
    Id,
    Memory,
    RowMemory,
    SavedRows,
)
from manyone.watch.model import (
    WatchedModel,
    estimator_of,
    fingerprint_of,
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
            past=_past_of(model),
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
    def load(cls, path: str | Path) -> MonitorState:
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
        return state_from_bytes(content, str(path))


def _past_of(model: WatchedModel) -> TablePast | None:
    """What the training rows of a model ended with, which a monitor may move on."""
    past = model.training_.past if isinstance(model, TableModel) else None
    return None if past is None else past.of_tasks(past.tasks)


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


def state_to_bytes(state: MonitorState) -> bytes:
    """The state as bytes; rows of a memory that is elsewhere stay there."""
    memory = state.memory if isinstance(state.memory, Memory) else Memory()
    # Files hold no memory, but what it is made of.
    saved_rows = cast("RowMemory", SavedRows.of(memory))
    return archive.dumps(_KIND, replace(state, memory=saved_rows))


def state_from_bytes(content: bytes, name: str) -> MonitorState:
    """A state from its bytes, every field of which is checked.

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
        state = archive.loads(content, _KIND)
    except ModelFileError as error:
        raise ValueError(str(error).replace("This state", name, 1)) from error
    if not isinstance(state, MonitorState) or not isinstance(state.memory, SavedRows):
        raise ValueError(f"{name} does not hold what a state holds. Use a copy of it.")
    state.memory = state.memory.memory()
    return state


# Lowest and highest numbers; NaN is out of every range.
_ANY = (-np.inf, np.inf)
_SHARE = (0.0, 1.0)
_COUNT = (0, np.inf)
_FINITE = (-1e15, 1e15)
_RANGES = {
    "low": _ANY,
    "high": _ANY,
    # A level below 0 is a debt: so many alarms were raised that it has to pay back.
    "level": (-1e6, 1.0),
    "run": _SHARE,
    "head": (0, WINDOW - 1),
    "rows": _COUNT,
    "alarms": _COUNT,
    "answers": (0.0, 1e15),
    "counts": (0, LONGEST),
    "log_wealth": (-np.inf, 1e15),
    "shares": _SHARE,
    "neighbours": _FINITE,
    "mark": (-10.0, 10.0),
    "most": _ANY,
    "least": _ANY,
    "since": _COUNT,
    "flagged": (-1, np.inf),
    "trained": (0.0, 1e15),
    "learned": (0.0, 1e15),
    "fleet_flagged": (-1, np.inf),
}
_RANGES_OF_ROWS = {
    "score": _ANY,
    "p_value": _SHARE,
    "weight": _SHARE,
    "answer": (UNANSWERED, NORMAL),
}
_SHAPES = {
    **dict.fromkeys(_RANGES, "T"),
    **dict.fromkeys(("anchor", "opening", "window", "confirmed"), f"T {WINDOW}"),
    **dict.fromkeys(("answers", "log_wealth", "neighbours"), "T 2"),
    **dict.fromkeys(("since_time", "flagged_time"), "T"),
    "shares": f"T 2 {BETS}",
    "history": "T h",
    "fleet_flagged": "1",
    "past": "T=E",
}


def _check_ranges(value: object, ranges: Mapping[str, tuple[float, float]]) -> None:
    for name, (lowest, highest) in ranges.items():
        numbers = getattr(value, name)
        if not np.all((numbers >= lowest) & (numbers <= highest)):
            raise ModelFileError(f"{name} is out of range")


def _check_rows(saved: SavedRows, sizes: Sizes) -> None:
    _check_ranges(saved, _RANGES_OF_ROWS)
    if not len(saved.ids) == sizes["m"] == min(saved.count, REMEMBERED):
        raise ModelFileError("memory has fewer rows than it counts")
    if len({*saved.ids}) < len(saved.ids):
        raise ModelFileError("memory has ids twice")


def _check_state(state: MonitorState, sizes: Sizes) -> None:
    _check_ranges(state, _RANGES)
    if not (0 < state.rate < 1 and 0 < state.drift_level < 1):
        raise ModelFileError("rate or drift_level is out of range")
    if not state.counts.max(initial=0) <= sizes["h"] <= LONGEST or not sizes["h"]:
        raise ModelFileError(f"history is {state.history.shape}")
    if not np.allclose(state.shares.sum(axis=2), 1.0):
        raise ModelFileError("shares do not sum to 1")
    if not np.all(state.neighbours[:, 1] >= 1):
        raise ModelFileError("neighbours has numbers of pairs below 1")
    if isinstance(state.memory, SavedRows):
        _check_ranges(state.memory, {"task": (-1, sizes["T"] - 1)})


register(
    SavedRows,
    dict.fromkeys((each.name for each in fields(SavedRows)[2:]), "m"),
    check=_check_rows,
)
register(MonitorState, _SHAPES, hints={"memory": SavedRows}, check=_check_state)
