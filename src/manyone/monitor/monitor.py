"""Rows in the order of time: p-values, alarms at the promised rate, drift."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from manyone._types import Array, Codes, Mask
from manyone.messages import warn_user
from manyone.monitor import martingale
from manyone.monitor import threshold as thresholds
from manyone.monitor.scores import Scored, score_rows
from manyone.monitor.state import MonitorState, estimator_of, fingerprint_of

# Shares of the drift level: ranks among new rows are exactly uniform where nothing drifts; among
# left-out and new ones nearly so, and only these can tell a drift before the first row.
_LOG_SHARES = np.log([0.9, 0.1])
_FORGET = 0.98


@dataclass(frozen=True, eq=False)
class Watched:
    """What a monitor says of rows, in their order.

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
    fleet_drift: bool


class Monitor:
    """Watches rows of a fitted model in the order of time.

    Thresholds follow the rows so that the promised alarm rate is held while things drift, and a
    flag says that they drift. What it promises, and what not, is told in :doc:`/time`.

    Parameters
    ----------
    model : fitted estimator or TableModel
        It is not changed.
    state : MonitorState, path or None
        Where to go on; None starts anew. A path that does not exist yet starts anew too.

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
                "tasks or left-out scores differ). Start anew with state=None."
            )
        rate = float(estimator_of(model).promised_rate_)
        if rate != self.state.rate:  # recalibrated: another promise
            self.state.level = np.clip(self.state.level * rate / self.state.rate, 0.0, 0.5)
            self.state.rate = rate

    # ------------------------------------------------------------------------------------- updates

    def update(self, X: Any, task: Any = None, *, time: Any = None, id: Any = None) -> Watched:
        """Judge rows, then learn from them, one after the other.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            In the order of time. How a stream is cut into calls does not matter.
        task : array-like of shape (n,) or str or None
            As in `score_samples`; a TableModel knows its column.
        time : array-like of shape (n,) or None
            Only told back: when a drift began and was flagged.
        id : array-like of shape (n,) or None
            Integers or texts. Of the last 100,000 rows an id that comes again is answered as it was
            and counts once. None: rows are numbered from 0.

        Returns
        -------
        Watched
        """
        return self._watch(score_rows(self.model, X, task), time, id)

    def _watch(self, scored: Scored, time: Any = None, id: Any = None) -> Watched:
        """Rows that have been scored already, in the order of time."""
        n, memory = len(scored.score), self.state.memory
        ids = _plain_ids(id, n, memory.count)
        times = np.full(n, "") if time is None else _as_texts(time, n)
        first = {one: row for row, one in reversed(list(enumerate(ids)))}
        new = np.array(
            [memory.find(one) < 0 and first[one] == row for row, one in enumerate(ids)], dtype=bool
        )
        p, alarm = scored.p_value.copy(), scored.alarm.copy()
        drift, weight, evidence = np.zeros(n, dtype=bool), np.zeros(n), np.full(n, np.nan)
        known = scored.codes >= 0
        fresh = np.flatnonzero(new & known)
        place = _occurrence(scored.codes[fresh])
        by_round = np.argsort(place, kind="stable")
        rounds = np.split(fresh[by_round], np.cumsum(np.bincount(place))[:-1]) if len(fresh) else []
        for rows in rounds:
            found = self._judge_and_learn(scored.codes[rows], scored.score[rows], times[rows])
            p[rows], alarm[rows], drift[rows], weight[rows], evidence[rows] = found
        self._flag_fleet()
        memory.add(
            [one for one, is_new in zip(ids, new, strict=True) if is_new],
            task=scored.codes[new],
            score=scored.score[new],
            p_value=p[new],
            alarm=alarm[new],
            drift=drift[new],
            weight=weight[new],
            answer=np.full(int(new.sum()), -1),
        )
        for row in np.flatnonzero(~new):
            at = memory.find(ids[row])
            p[row], alarm[row] = memory["p_value"][at], memory["alarm"][at]
            drift[row] = memory["drift"][at]
        flagged = bool(self.state.fleet_flagged[0] >= 0)
        return Watched(np.array(ids), p, alarm, drift, scored.score, evidence, known, flagged)

    def _judge_and_learn(
        self, t: Codes, scores: Array, times: NDArray[Any]
    ) -> tuple[Array, Mask, Mask, Array, Array]:
        """One row of each of some tasks: p-value, alarm, drift, weight it was given, evidence."""
        state = self.state
        window = state.window[t]
        low = thresholds.confirmed_low(state.low[t], window, state.confirmed[t])
        p = thresholds.reference_pvalues(window, scores)
        alarm = thresholds.alarms_of(p, state.level[t], scores, low, state.high[t])
        fed = state.answers.any()
        if fed:
            normal, abnormal = state.answers[t].T
            believed = (1.0 + normal) / (2.0 + normal + abnormal)
            weight = np.where(alarm, believed, 1.0)
            state.level[t] = thresholds.moved_level(state.level[t], weight, alarm, state.rate)
            learned = ~alarm
        else:
            learned = state.run[t] <= thresholds.RUN
            weight = learned.astype(np.float64)
            state.level[t] = thresholds.guarded_level(state.level[t], weight, alarm, state.rate)
        state.run[t] = thresholds.moved_run(state.run[t], alarm)
        self._push(t[learned], scores[learned], confirmed=False)
        evidence = self._bet(t, scores, times)
        state.rows[t] += 1
        state.alarms[t] += alarm
        return p, alarm, state.flagged[t] >= 0, weight, evidence

    def _push(self, t: Codes, scores: Array, *, confirmed: bool) -> None:
        """Scores (at most one of each task) into the references, the oldest leave."""
        state = self.state
        state.window[t, state.head[t]] = scores
        state.confirmed[t, state.head[t]] = confirmed
        state.head[t] = (state.head[t] + 1) % thresholds.WINDOW

    def _bet(self, t: Codes, scores: Array, times: NDArray[Any]) -> Array:
        """Log evidence (k,) for drift after one more row of each of some tasks."""
        state, rounded = self.state, scores.astype(np.float32)
        counts, rows = state.counts[t], state.rows[t]
        most = int(counts.max())
        u = martingale.uniforms(state.seed, t, rows)
        history = state.history[t, :most]
        history[np.arange(most) >= counts[:, None]] = np.nan
        both = np.concatenate([state.anchor[t].astype(np.float32), history], axis=1)
        p = np.column_stack(
            [martingale.smoothed_ranks(past, rounded, u) for past in (history, both)]
        )
        wealth, shares = martingale.bet(state.log_wealth[t], state.shares[t], p)
        # Only in the first history: another would be ranked among the left-out scores once more.
        wealth[rows >= martingale.LONGEST, 1] = state.log_wealth[t, 1][rows >= martingale.LONGEST]
        state.log_wealth[t], state.shares[t] = wealth, shares
        self._remember_scores(t, rounded)
        lower = wealth[:, 0] < state.least[t]
        state.least[t] = np.where(lower, wealth[:, 0], state.least[t])
        state.since[t] = np.where(lower, rows + 1, state.since[t])
        state.since_time[t] = np.where(lower | (rows == 0), times, state.since_time[t])
        evidence = (wealth + _LOG_SHARES).max(axis=1)
        state.most[t] = np.maximum(state.most[t], evidence)
        raised = (evidence >= -np.log(state.drift_level)) & (state.flagged[t] < 0)
        state.flagged[t[raised]] = rows[raised]
        state.flagged_time[t[raised]] = times[raised]
        return evidence

    def _remember_scores(self, t: Codes, scores: NDArray[np.float32]) -> None:
        state = self.state
        state.counts[t[state.counts[t] >= martingale.LONGEST]] = 0
        if int(state.counts[t].max()) >= state.history.shape[1]:
            width = min(2 * state.history.shape[1], martingale.LONGEST)
            wider = np.zeros((len(state.history), width), dtype=np.float32)
            wider[:, : state.history.shape[1]] = state.history
            state.history = wider
        state.history[t, state.counts[t]] = scores
        state.counts[t] += 1

    def _flag_fleet(self) -> None:
        state = self.state
        needed = -np.log(state.drift_level)
        if state.log_wealth.max() < needed:  # no mean is larger
            return
        means = [martingale.log_mean_wealth(wealth) for wealth in state.log_wealth.T]
        evidence = (np.array(means) + _LOG_SHARES).max()
        if evidence >= needed and state.fleet_flagged[0] < 0:
            state.fleet_flagged[0] = state.rows.sum()

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
        answers = np.broadcast_to(np.asarray(normal, dtype=bool), (len(ids),))
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
            t, score, alarm = np.array([code]), memory["score"][at], bool(memory["alarm"][at])
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
                self._push(t, np.array([score]), confirmed=True)
        if forgotten:
            warn_user(f"{forgotten} of {len(ids)} ids are not among the last rows: left out.")
        return used

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
            raise ValueError(f"Unknown task {task!r}: the model has {len(tasks)} others.")
        t = np.arange(len(tasks)) if task is None else np.flatnonzero(tasks == task)
        state.log_wealth[t], state.least[t] = [0.0, -np.inf], 0.0
        state.shares[t] = martingale.fresh_shares(1)
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
        """A monitor that goes on where a saved one was.

        Parameters
        ----------
        path : path
        model : fitted estimator or TableModel
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
    values = np.asarray(ids, dtype=object).ravel().tolist() if not np.isscalar(ids) else [ids]
    if n is not None and len(values) != n:
        raise ValueError(f"id has {len(values)} values but X has {n} rows: one per row.")
    plain = []
    for value in values:
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"id must be integers or texts; got {value!r}.")
        plain.append(value)
    return plain


def _as_texts(time: Any, n: int) -> NDArray[Any]:
    texts = np.array([str(value) for value in np.asarray(time).ravel()], dtype="U32")
    if len(texts) != n:
        raise ValueError(f"time has {len(texts)} values but X has {n} rows: one per row.")
    return texts


def _occurrence(codes: Codes) -> Codes:
    """How often the task of each row came before it, shape (n,)."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes) if len(codes) else np.zeros(0, dtype=np.intp)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    place = np.empty(len(codes), dtype=np.intp)
    place[order] = np.arange(len(codes)) - starts
    return place
