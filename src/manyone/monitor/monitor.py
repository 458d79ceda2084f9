"""Rows in the order of time: p-values, alarms at the promised rate, drift."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Mask
from manyone.labels import split_columns
from manyone.messages import warn_user
from manyone.monitor import martingale
from manyone.monitor import threshold as thresholds
from manyone.monitor.model import (
    Scored,
    enrolled,
    estimator_of,
    fingerprint_of,
    score_rows,
)
from manyone.monitor.state import MonitorState
from manyone.monitor.steps import flag_fleet, judge_and_learn, push
from manyone.rows import places

_FORGET = 0.98


@dataclass(frozen=True, eq=False)
class Watched:
    """What a monitor says about rows, in their order.

    Attributes
    ----------
    id : ndarray of shape (n,)
    p_value : ndarray of shape (n,)
        Among the reference of the row's task: its last rows taken as normal.
    alarm : ndarray of bool of shape (n,)
    drift : ndarray of bool of shape (n,)
        Whether the row's task has been flagged, at this row or before.
    score : ndarray of shape (n,)
    evidence : ndarray of shape (n,)
        Natural logarithm of the evidence that the row's task drifts; the flag is raised where it
        reaches ``-log(drift_level)``. NaN for rows that did not count.
    known : ndarray of bool of shape (n,)
        False for rows of tasks never seen, which are answered by the model alone.
    new : ndarray of bool of shape (n,)
        False for rows whose id came before, which are answered as they were.
    fleet_drift : bool
        Whether all tasks taken together have been flagged.
    """

    id: NDArray[Any]
    p_value: Array
    alarm: Mask
    drift: Mask
    score: Array
    evidence: Array
    known: Mask
    new: Mask
    fleet_drift: bool


class Monitor:
    """Watches rows of a fitted model in the order of time.

    Thresholds follow the rows, so that the promised alarm rate holds while things drift, and a flag
    says that they drift. :doc:`/time` says what is promised and what is not.

    Parameters
    ----------
    model : fitted estimator, TaskPipeline or TableModel
        It is not changed.
    state : MonitorState, path or None
        Where to resume; None, or a path that does not exist yet, starts a new one.

    Attributes
    ----------
    state : MonitorState

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import IndependentOCKSR, Monitor
    >>> rng = np.random.default_rng(0)
    >>> model = IndependentOCKSR(alarm_rate=0.1).fit(rng.normal(size=(50, 3)))
    >>> monitor = Monitor(model)
    >>> quiet = monitor.update(rng.normal(size=(200, 3)))
    >>> later = monitor.update(rng.normal(size=(40, 3)) + 3.0)
    >>> quiet.drift.any(), later.drift.any()
    (np.False_, np.True_)
    >>> monitor.feedback(later.id[later.alarm], normal=True) > 0
    True
    """

    def __init__(self, model: Any, *, state: Any = None) -> None:
        self.model = model
        if isinstance(state, str | Path):
            state = MonitorState.load(state) if Path(state).exists() else None
        self.state = MonitorState.start(model) if state is None else state
        if self.state.fingerprint != fingerprint_of(model):
            raise ValueError(
                "The state belongs to another model, or to this one before it was changed (its "
                "tasks or left-out scores differ). Name another file to start anew."
            )
        rate = float(estimator_of(model).promised_rate_)
        if rate != self.state.rate:  # recalibrated: another promise
            self.state.level = np.clip(
                self.state.level * rate / self.state.rate, 0.0, 0.5
            )
            self.state.rate = rate

    # ------------------------------------------------------------------------------------- updates

    def update(
        self, X: Any, task: Any = None, *, time: Any = None, id: Any = None
    ) -> Watched:
        """Judge rows, then learn from them, one after the other.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            In the order of time. How a stream is cut into calls does not matter.
        task : array-like of shape (n,) or str or None
            As in `score_samples`; a TableModel knows its column.
        time : array-like of shape (n,) or str or None
            Only used to say when a drift began and was flagged.
        id : array-like of shape (n,) or str or None
            Integers or texts. If an id of the last 100,000 rows comes again, it gets the same
            answer and counts once. None: rows are numbered from 0. This, as `time`, may be the name
            of a column of `X`.

        Returns
        -------
        Watched
        """
        X, time, id = split_columns(X, time=time, id=id)
        return self._watch(score_rows(self.model, X, task), time, id)

    def _watch(self, scored: Scored, time: Any = None, id: Any = None) -> Watched:
        """Rows that have been scored already, in the order of time."""
        n, memory = len(scored.score), self.state.memory
        ids = _plain_ids(id, n, memory.count)
        times = np.full(n, "") if time is None else _as_texts(time, n)
        remembered = np.array([memory.find(one) for one in ids], dtype=np.intp)
        first: dict[Any, int] = {}
        same = [first.setdefault(one, row) for row, one in enumerate(ids)]
        new = (remembered < 0) & (same == np.arange(n))
        p, alarm = scored.p_value.copy(), scored.alarm.copy()
        drift, weight, evidence = (
            np.zeros(n, dtype=bool),
            np.zeros(n),
            np.full(n, np.nan),
        )
        known = scored.codes >= 0
        fresh = np.flatnonzero(new & known)
        place = places(scored.codes[fresh], None)[0]
        by_round = np.argsort(place, kind="stable")
        rounds = (
            np.split(fresh[by_round], np.cumsum(np.bincount(place))[:-1])
            if len(fresh)
            else []
        )
        for rows in rounds:
            found = judge_and_learn(
                self.state, scored.codes[rows], scored.score[rows], times[rows]
            )
            p[rows], alarm[rows], drift[rows], weight[rows], evidence[rows] = found
        flag_fleet(self.state)
        # Before new rows are remembered, which may drive out those that are answered again.
        again = remembered >= 0
        told = memory.rows[remembered[again]]
        p[again], alarm[again], drift[again] = (
            told["p_value"],
            told["alarm"],
            told["drift"],
        )
        p, alarm, drift = p[same], alarm[same], drift[same]
        said = {
            "task": scored.codes,
            "score": scored.score,
            "p_value": p,
            "alarm": alarm,
        }
        said |= {"drift": drift, "weight": weight, "answer": np.full(n, -1)}
        memory.add(
            [ids[row] for row in np.flatnonzero(new)],
            **{k: v[new] for k, v in said.items()},
        )
        fleet = bool(self.state.fleet_flagged[0] >= 0)
        return Watched(
            np.array(ids), p, alarm, drift, scored.score, evidence, known, new, fleet
        )

    # ------------------------------------------------------------------------------------- answers

    def feedback(self, ids: Any, *, normal: Any = True) -> int:
        """Tell whether rows were normal: all of them, some, or alarms only; now or later.

        Parameters
        ----------
        ids : array-like of shape (m,)
            Of rows among the last 100,000.
        normal : bool or array-like of bool of shape (m,)

        Returns
        -------
        int
            Answers that were used: the others were known already, or their rows are forgotten.
        """
        state, memory = self.state, self.state.memory
        ids = _plain_ids(ids, None, 0)
        told = np.asarray(normal)
        if told.shape not in ((), (len(ids),)) or not {*told.ravel().tolist()} <= {
            True,
            False,
        }:
            raise ValueError(
                f"normal must be True or False, once or for each id; got {normal!r}."
            )
        answers = np.broadcast_to(told.astype(bool), (len(ids),))
        used = forgotten = 0
        for one, good in zip(ids, answers.tolist(), strict=True):
            at = memory.find(one)
            if at < 0:
                forgotten += 1
                continue
            code = int(memory["task"][at])
            if code < 0 or memory["answer"][at] == int(good):
                continue
            used += 1
            t, score, alarm = (
                np.array([code]),
                memory["score"][at],
                bool(memory["alarm"][at]),
            )
            if alarm:
                state.answers[code] *= _FORGET
                state.answers[code, 0 if good else 1] += 1.0
            change = float(good) - memory["weight"][at]
            state.level[t] = thresholds.moved_level(
                state.level[t], np.array([change]), np.array([alarm]), state.rate
            )
            memory["weight"][at], memory["answer"][at] = float(good), int(good)
            inside = np.flatnonzero(state.window[code] == score)
            if not good:
                state.window[code, inside[:1]] = np.nan
            elif len(inside):
                state.confirmed[code, inside[:1]] = True
            else:
                push(state, t, np.array([score]), confirmed=True)
        if forgotten:
            warn_user(
                f"{forgotten} of {len(ids)} ids are not among the last rows: left out."
            )
        return used

    def enroll(self, X: Any, *, id: Any) -> int:
        """Add rows that have been called normal to the training rows; other rows are ignored.

        The monitor gets a new model (`model`): save it with the state. A task may learn half as
        many rows as it was fitted to, and the latter stay, so rows called normal by mistake cannot
        move the border without bound. References and evidence start again.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            As they were watched.
        id : array-like of shape (n,) or str
            Their ids, or the name of a column of `X`.

        Returns
        -------
        int
            Rows that were learned.
        """
        X, id = split_columns(X, id=id)
        ids = _plain_ids(id, np.shape(X)[0], 0)
        chosen, codes = self.state.confirmed_rows(ids)
        if chosen.any():
            self.model = enrolled(self.model, X, codes, chosen)
            self.state = self.state.started_again(self.model, codes[chosen])
        return int(chosen.sum())

    def reset(self, task: Any = None) -> Self:
        """Forget flags and evidence, of one task or of all, after somebody has looked.

        Parameters
        ----------
        task : label or None

        Returns
        -------
        self
        """
        state, tasks = self.state, estimator_of(self.model).tasks_
        if task is not None and task not in tasks.tolist():
            raise ValueError(
                f"Unknown task {task!r}: the model has {len(tasks)} others."
            )
        t = np.arange(len(tasks)) if task is None else np.flatnonzero(tasks == task)
        state.log_wealth[t], state.least[t] = [0.0, -np.inf], 0.0
        state.shares[t] = martingale.fresh_shares(1)
        state.neighbours[t], state.mark[t] = martingale.NEIGHBOURS, 0.0
        state.most[t], state.flagged[t], state.counts[t] = -np.inf, -1, 0
        state.since[t], state.since_time[t] = state.rows[t], ""
        state.fleet_flagged[0] = -1
        return self

    # --------------------------------------------------------------------------------------- state

    @property
    def thresholds(self) -> Array:
        """Score of each task below which the next row raises the alarm, shape (T,)."""
        state = self.state
        low = thresholds.confirmed_low(state.low, state.window, state.confirmed)
        return thresholds.current_thresholds(state.window, state.level, low, state.high)

    def save_state(self, path: Any) -> None:
        """Save the state to a file, atomically.

        Parameters
        ----------
        path : path
        """
        self.state.save(path)

    @classmethod
    def load_state(cls, path: Any, model: Any) -> Self:
        """A monitor that resumes from a saved state.

        Parameters
        ----------
        path : path
        model : fitted estimator, TaskPipeline or TableModel
            The same as before.

        Returns
        -------
        Monitor
        """
        return cls(model, state=MonitorState.load(path))


def _plain_ids(ids: Any, n: int | None, start: int) -> list[Any]:
    """Ids as integers and texts."""
    if ids is None:
        assert n is not None
        return list(range(start, start + n))
    values = (
        np.asarray(ids, dtype=object).ravel().tolist()
        if not np.isscalar(ids)
        else [ids]
    )
    if n is not None and len(values) != n:
        raise ValueError(
            f"id has {len(values)} values but X has {n} rows: one per row."
        )
    plain = [
        value.item() if isinstance(value, np.generic) else value for value in values
    ]
    for value in plain:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"id must be integers or texts; got {value!r}.")
    return plain


def _as_texts(time: Any, n: int) -> NDArray[Any]:
    """Times as text, to the second; empty where there is none."""
    values = np.asarray(time).ravel()
    if len(values) != n:
        raise ValueError(
            f"time has {len(values)} values but X has {n} rows: one per row."
        )
    if values.dtype.kind == "M":
        values = values.astype("datetime64[s]")
    texts = [
        "" if value is None or value != value else str(value)
        for value in values.tolist()
    ]
    return np.array(texts, dtype="U32")
