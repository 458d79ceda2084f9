"""State of a monitor: plain arrays, saved whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Mask
from manyone.files import write_atomically
from manyone.groups import looks_ahead
from manyone.monitor import martingale
from manyone.monitor.model import estimator_of, fingerprint_of, rows_of_tasks
from manyone.monitor.threshold import WINDOW, anchors_of, first_window

#: Rows that may be learned for each row that a task was fitted to.
LEARNED = 0.5
#: Rows that are remembered.
REMEMBERED = 100_000
_ROW = np.dtype(
    [
        ("task", np.int32),
        ("score", np.float64),
        ("p_value", np.float64),
        ("alarm", bool),
        ("drift", bool),
        ("weight", np.float32),  # with which the row has been taken as normal
        ("answer", np.int8),  # 1 normal, 0 abnormal, -1 none
    ]
)
_FORMAT = b"manyone monitor state 2\n"


class Memory:
    """The last rows by id: what the monitor said, and what a person answered.

    Parameters
    ----------
    count : int
        Rows ever remembered, repetitions not counted.
    ids : list
        By place.
    rows : ndarray of shape (m,) or None
        What else is known of them.
    """

    def __init__(
        self,
        count: int = 0,
        ids: list[Any] | None = None,
        rows: NDArray[Any] | None = None,
    ) -> None:
        self.count, self.ids = count, [] if ids is None else ids
        self.rows = np.zeros(16, dtype=_ROW) if rows is None else rows
        self._place = {one: place for place, one in enumerate(self.ids)}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A field of all rows."""
        found: NDArray[Any] = self.rows[name]
        return found

    def find(self, one: Any) -> int:
        """Place of an id, -1 where it is not remembered."""
        return self._place.get(one, -1)

    def add(self, ids: list[Any], **values: NDArray[Any]) -> None:
        """Remember rows that are not remembered yet; the oldest are forgotten."""
        if min(self.count + len(ids), REMEMBERED) > len(self.rows):
            wider = np.zeros(min(2 * (self.count + len(ids)), REMEMBERED), dtype=_ROW)
            wider[: len(self.rows)] = self.rows
            self.rows = wider
        last = slice(max(len(ids) - REMEMBERED, 0), None)
        places = (self.count + np.arange(len(ids))[last]) % REMEMBERED
        for name, array in values.items():
            self.rows[name][places] = array[last]
        for one, place in zip(ids[last], places.tolist(), strict=True):
            self.ids += [None] * (place + 1 - len(self.ids))
            self._place.pop(self.ids[place], None)
            self.ids[place], self._place[one] = one, place
        self.count += len(ids)


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
    anchor, window : ndarray of shape (T, WINDOW)
        Left-out scores, which never leave, and the scores that p-values are taken among.
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
        How far rows resemble the one before, and whether the last one was low (0: no row yet), see
        `martingale.weights_of_rows`.
    most, least : ndarray of shape (T,)
        Largest evidence so far, and the smallest of the first wealth.
    since, flagged : ndarray of shape (T,)
        Row of the task at which that was, and at which the flag was raised (-1: never).
    since_time, flagged_time : ndarray of str of shape (T,)
    trained, learned : ndarray of shape (T,)
        Rows that the task was fitted to, and rows enrolled since.
    fleet_flagged : ndarray of shape (1,)
        Row of the stream at which the whole fleet was flagged, -1 for never.
    memory : Memory
        The last rows, by id.
    sources : dict
        How far tables have been read, for ``manyone watch``.
    """

    fingerprint: str
    rate: float
    drift_level: float
    seed: int
    anchor: Array
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
    since_time: NDArray[Any]
    flagged_time: NDArray[Any]
    trained: Array
    learned: Array
    fleet_flagged: Codes
    memory: Memory = field(default_factory=Memory)
    sources: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def start(cls, model: Any, *, drift_level: float = 0.01, seed: int = 0) -> Self:
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
        if not 0 < drift_level < 1:
            raise ValueError(
                f"drift_level must lie between 0 and 1; got {drift_level!r}."
            )
        estimator = estimator_of(model)
        rate = float(estimator.promised_rate_)
        found = anchors_of(estimator.calibration_, estimator.offset_, rate)
        T = len(found.low)
        wealth = np.zeros((T, 2))
        # Scores borrowed from other tasks are no history of this one: do not bet on them.
        wealth[estimator.calibration_.pooled(rate), 1] = -np.inf
        if estimator.training_.group is not None:
            # Nor on scores by models of early blocks only: they are lower than those of new rows.
            wealth[looks_ahead(estimator.training_), 1] = -np.inf
        zeros = (
            ("head", "rows", "alarms", "counts", "since"),
            ("run", "mark", "least", "learned"),
        )
        rest: dict[str, Any] = {name: np.zeros(T, dtype=np.intp) for name in zeros[0]}
        rest |= {name: np.zeros(T) for name in zeros[1]}
        return cls(
            fingerprint=fingerprint_of(model),
            rate=rate,
            drift_level=drift_level,
            seed=int(seed),
            anchor=found.scores,
            window=first_window(found.scores),
            confirmed=np.zeros((T, WINDOW), dtype=bool),
            low=found.low,
            high=found.high,
            level=np.full(T, rate),
            answers=np.zeros((T, 2)),
            history=np.zeros((T, 16), dtype=np.float32),
            log_wealth=wealth,
            shares=np.stack([martingale.fresh_shares(T)] * 2, axis=1),
            neighbours=np.tile(martingale.NEIGHBOURS, (T, 1)),
            most=np.full(T, -np.inf),
            flagged=np.full(T, -1),
            fleet_flagged=np.full(1, -1),
            trained=rows_of_tasks(estimator),
            since_time=np.full(T, "", dtype="U32"),
            flagged_time=np.full(T, "", dtype="U32"),
            **rest,
        )

    def confirmed_rows(self, ids: list[Any]) -> tuple[Mask, Codes]:
        """Which rows were called normal and fit under the cap of their task, and their tasks."""
        chosen, codes = np.zeros(len(ids), dtype=bool), np.full(len(ids), -1)
        room = np.floor(LEARNED * self.trained - self.learned)
        for row, at in enumerate(map(self.memory.find, ids)):
            if at < 0 or self.memory["answer"][at] != 1:
                continue
            codes[row] = self.memory["task"][at]
            if codes[row] >= 0 and room[codes[row]] >= 1:
                room[codes[row]] -= 1
                chosen[row] = True
        return chosen, codes

    def started_again(self, model: Any, codes: Codes) -> Self:
        """The state for a model that has learned rows of these tasks: other scores, same past."""
        new = self.start(model, drift_level=self.drift_level, seed=self.seed)
        new.memory, new.sources, new.trained = self.memory, self.sources, self.trained
        new.learned = self.learned + np.bincount(codes, minlength=len(self.learned))
        new.rows, new.alarms, new.answers = self.rows, self.alarms, self.answers
        return new

    def save(self, path: Any, *, new: bool = False) -> None:
        """Write to a file, whole or not at all; with `new`, the file must not exist."""
        arrays: dict[str, Any] = {}
        plain: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                arrays[one.name] = value
            elif one.name != "memory":
                plain[one.name] = value
        plain["memory"] = self.memory.count, self.memory.ids
        arrays["memory"] = self.memory.rows[: len(self.memory.ids)]
        arrays["plain"] = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        body = buffer.getvalue()
        digest = hashlib.sha256(body).hexdigest().encode() + b"\n"
        write_atomically(Path(path), _FORMAT + digest + body, new=new)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read from a file.

        Raises
        ------
        ValueError
            If it is not such a file, or damaged.
        """
        content = Path(path).read_bytes()
        if not content.startswith(_FORMAT):
            raise ValueError(
                f"{path} is not a state of a monitor (version 2). Name another file."
            )
        digest, _, body = content[len(_FORMAT) :].partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise ValueError(
                f"{path} is damaged: its checksum does not fit. Use a copy of it."
            )
        with np.load(io.BytesIO(body), allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
        plain = json.loads(arrays.pop("plain").tobytes())
        count, ids = plain.pop("memory")
        return cls(memory=Memory(count, ids, arrays.pop("memory")), **plain, **arrays)
