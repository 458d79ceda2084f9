"""State of a monitor: plain arrays, one line per task, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

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
from manyone.tables.past import TablePast
from manyone.watch.database import SQLITE
from manyone.watch.drift import BETS, LONGEST, first_neighbours, fresh_shares
from manyone.watch.memory import (
    NORMAL,
    REMEMBERED,
    UNANSWERED,
    Memory,
    RowMemory,
    SavedRows,
)
from manyone.watch.model import (
    WatchedModel,
    estimator_of,
    fingerprint_of,
)
from manyone.watch.thresholds import (
    WINDOW,
    anchors_of,
    first_window,
    tasks_with_ties,
)

_KIND = "state"


class _Field(NamedTuple):
    """A field of a state, with values for each task.

    Attributes
    ----------
    first : float or str
        Value before the first row.
    lowest, highest : float or None
        Range of valid numbers; without a lowest one nothing is checked.
    shape : tuple of int
        Of the values of one task.
    dtype : type or str
    """

    first: float | str = 0.0
    lowest: float | None = None
    highest: float = np.inf
    shape: tuple[int, ...] = ()
    dtype: type | str = np.float64


_COUNT = _Field(0, 0, dtype=np.intp)
_TIME = _Field("", dtype="U32")
_FIELDS = {
    "window": _Field(shape=(WINDOW,)),
    "confirmed": _Field(shape=(WINDOW,), dtype=bool),
    "level": _Field(0.0, -1e6, 1.0),
    "run": _Field(0.0, 0.0, 1.0),
    "head": _Field(0, 0, WINDOW - 1, dtype=np.intp),
    "rows": _COUNT,
    "alarms": _COUNT,
    "answers": _Field(0.0, 0.0, 1e15, shape=(2,)),
    "history": _Field(shape=(16,), dtype=np.float32),
    "counts": _Field(0, 0, LONGEST, dtype=np.intp),
    "log_wealth": _Field(0.0, -np.inf, 1e15, shape=(2,)),
    "shares": _Field(0.0, 0.0, 1.0, shape=(2, BETS)),
    "neighbours": _Field(0.0, -1e15, 1e15, shape=(2,)),
    "mark": _Field(0.0, -10.0, 10.0),
    "most": _Field(-np.inf, -np.inf),
    "least": _Field(0.0, -np.inf),
    "since": _COUNT,
    "flagged": _Field(-1, -1, dtype=np.intp),
    "since_time": _TIME,
    "flagged_time": _TIME,
}


@dataclass(eq=False)
class MonitorState:
    """State of a monitor, one line per task.

    Parameters
    ----------
    fingerprint : str
        Of the model that it belongs to.
    rate, drift_level : float
        Promised alarm rate, and probability of a false drift flag of one task.
    window : ndarray of shape (T, WINDOW)
        The scores that p-values are taken among.
    confirmed : ndarray of bool of shape (T, WINDOW)
        What in the window a person has called normal.
    level, run : ndarray of shape (T,)
        Level of the alarm, moving average of alarms. A level below 0 is a debt: the
        task has raised too many alarms.
    head, rows, alarms : ndarray of shape (T,)
        Next place in the window; rows and alarms so far.
    answers : ndarray of shape (T, 2)
        Recent answers about alarms: normal, abnormal.
    history : ndarray of shape (T, h)
        Scores that ranks are taken among, the first `counts` (T,) of each line.
    log_wealth : ndarray of shape (T, 2)
        Of the bets on ranks among new rows, and among left-out and new rows (-inf: no
        bets).
    shares : ndarray of shape (T, 2, B)
    neighbours, mark : ndarray of shape (T, 2), (T,)
        Likeness of neighbouring rows, and the mark of the last row (0: no row yet), see
        `drift.weights_of_rows` and `drift.marks`.
    most, least : ndarray of shape (T,)
        Largest evidence so far, and the smallest wealth of the first bet.
    since, flagged : ndarray of shape (T,)
        Rows of the task up to that smallest wealth, and up to the flag (-1: no flag).
    since_time, flagged_time : ndarray of str of shape (T,)
    fleet_flagged : ndarray of shape (1,)
        Rows of the stream up to the flag of the whole fleet (-1: no flag).
    memory : RowMemory
        The last rows, by id.
    past : TablePast or None
        Last rows of the tasks, if a model of tables needs the past of rows.
    """

    fingerprint: str
    rate: float
    drift_level: float
    fleet_flagged: Codes
    window: Array
    confirmed: Mask
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
    memory: RowMemory = field(default_factory=Memory)
    past: TablePast | None = None

    def has_answers(self, t: Codes | slice = slice(None)) -> Mask:
        """Whether somebody has answered an alarm of tasks, shape (k,)."""
        return np.asarray(self.answers[t].sum(axis=1) > 0.0)

    @classmethod
    def start(cls, model: WatchedModel, *, drift_level: float = 0.01) -> Self:
        """State before the first row.

        Parameters
        ----------
        model : fitted estimator or TableModel
        drift_level : float, default=0.01
            Probability that a task is ever flagged although nothing drifts.

        Returns
        -------
        MonitorState
        """
        if not 0 < drift_level < 1:
            raise ValueError(
                f"drift_level must lie between 0 and 1; got {drift_level!r}."
            )
        estimator = estimator_of(model)
        rate = estimator._check_calibrated()
        anchors = anchors_of(estimator)
        n_tasks = len(anchors.low)
        arrays: dict[str, Any] = {
            name: np.full((n_tasks, *each.shape), each.first, each.dtype)
            for name, each in _FIELDS.items()
        }
        arrays["level"][:] = rate
        arrays["window"] = first_window(anchors.opening)
        arrays["log_wealth"][
            _without_second_bet(estimator, anchors.scores, rate), 1
        ] = -np.inf
        arrays["shares"][:] = fresh_shares()
        arrays["neighbours"] = first_neighbours(counted_rows(estimator.calibration_))
        return cls(
            fingerprint=fingerprint_of(model),
            rate=rate,
            drift_level=drift_level,
            fleet_flagged=np.full(1, -1),
            past=_past_of(model),
            **arrays,
        )

    def forget_drift(self, t: Codes) -> None:
        """Set flags and evidence of tasks to their first values.

        The second bet, on ranks among left-out rows, does not begin again.
        """
        for name in ("log_wealth", "least", "mark", "most", "flagged", "counts"):
            getattr(self, name)[t] = _FIELDS[name].first
        self.log_wealth[t, 1] = -np.inf
        self.shares[t] = fresh_shares()
        self.since[t] = self.rows[t]
        self.since_time[t] = ""
        self.fleet_flagged[0] = -1

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
        if content.startswith(SQLITE):
            raise ValueError(
                f"{path} is a store of manyone watch, not a state saved by Monitor. "
                "Name another file."
            )
        return state_from_bytes(content, str(path))


def _past_of(model: WatchedModel) -> TablePast | None:
    """A copy of the last training rows of a model, which a monitor may change."""
    past = model.training_.past if isinstance(model, TableModel) else None
    return None if past is None else past.of_tasks(past.tasks)


def counted_rows(calibration: Calibration) -> Array:
    """What a left-out row of each task counts for (T,), 1 if it resembles no other."""
    rows = np.diff(calibration.starts)
    usual = calibration.weight.sum() / max(len(calibration.weight), 1)
    return np.where(rows > 0, calibration.counts / np.maximum(rows, 1), usual)


def _without_second_bet(
    estimator: OneClassEstimator, anchors: Array, rate: float
) -> Mask:
    """Tasks (T,) whose left-out scores cannot be compared with scores of new rows.

    Some borrow scores of other tasks. With blocks of time, models of early blocks give
    lower scores than new rows get. Scores that tie come from rows that have copies,
    and a left-out copy does not find in training what a new copy finds.
    """
    without = estimator.calibration_.too_few(rate) | tasks_with_ties(anchors)
    if estimator.training_.group is not None:
        without = without | looks_ahead(estimator.training_)
    return without


# ----------------------------------------------------------------------------- as bytes


def state_to_bytes(state: MonitorState) -> bytes:
    """The state as bytes, without rows that are remembered in a store."""
    memory = state.memory if isinstance(state.memory, Memory) else Memory()
    # In a file this field holds saved rows.
    saved_rows = cast("RowMemory", SavedRows.of(memory))
    return archive.dumps(_KIND, replace(state, memory=saved_rows))


def state_from_bytes(content: bytes, name: str) -> MonitorState:
    """Read a state from its bytes, and check every field.

    Parameters
    ----------
    content : bytes
    name : str
        Name of their source, for messages.

    Raises
    ------
    ValueError
        If these are not the bytes of a state.
    """
    try:
        state = archive.loads(content, _KIND)
    except ModelFileError as error:
        raise ValueError(str(error).replace("This state", name, 1)) from error
    if not isinstance(state, MonitorState) or not isinstance(state.memory, SavedRows):
        raise ValueError(f"{name} does not hold what a state holds. Use a copy of it.")
    state.memory = state.memory.memory()
    return state


_RANGES = {
    "fleet_flagged": (-1.0, np.inf),
    **{
        name: (each.lowest, each.highest)
        for name, each in _FIELDS.items()
        if each.lowest is not None
    },
}
_RANGES_OF_ROWS = {
    "score": (-np.inf, np.inf),
    "p_value": (0.0, 1.0),
    "weight": (0.0, 1.0),
    "answer": (UNANSWERED, NORMAL),
}
_SHAPES = {
    **{name: " ".join(["T", *map(str, each.shape)]) for name, each in _FIELDS.items()},
    "history": "T h",
    "fleet_flagged": "1",
    "past": "T=E",
}


def _check_ranges(value: object, ranges: Mapping[str, tuple[float, float]]) -> None:
    for name, (lowest, highest) in ranges.items():
        numbers = getattr(value, name)
        # NaN is out of every range.
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
