"""Rows in the order of time: p-values, alarms, drift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from manyone._types import Array, Codes, Labels, Mask
from manyone.calibration.discoveries import benjamini_hochberg, check_fdr
from manyone.data.labels import split_columns
from manyone.messages import warn_user
from manyone.selection.auto import AutoOneClass
from manyone.tables import TableModel
from manyone.tables.answers import Answers
from manyone.tables.frames import Table, as_table
from manyone.tables.rows import TableRows
from manyone.watch import drift, thresholds
from manyone.watch.memory import FAULT, NORMAL, UNANSWERED, Id, RememberedRows
from manyone.watch.model import (
    WatchedModel,
    answer_rows,
    estimator_of,
    fingerprint_of,
)
from manyone.watch.state import MonitorState, counted_rows
from manyone.watch.steps import (
    flag_fleet,
    forget_thresholds,
    judge_and_learn,
    learn_thresholds,
    push,
    thresholds_of,
)
from manyone.watch.thresholds import anchors_of

# Share by which earlier answers still count when another comes.
_FORGET = 0.98


@dataclass(frozen=True, eq=False)
class Watched:
    """Answers of a monitor to rows, in the order of the rows.

    Attributes
    ----------
    id : ndarray of shape (n,)
    p_value : ndarray of shape (n,)
        Among the reference of the row's task: its last rows taken as normal.
    alarm : ndarray of bool of shape (n,)
    drift : ndarray of bool of shape (n,)
        Whether the row's task has been flagged, at this row or before.
    score : ndarray of shape (n,)
    weight : ndarray of shape (n,)
        Probability that the row is normal, as thresholds have taken it.
    evidence : ndarray of shape (n,)
        Natural logarithm of the evidence that the row's task drifts; the flag is raised
        where it reaches ``-log(drift_level)``. NaN for rows that did not count.
    codes : ndarray of shape (n,)
        Number of the row's task among those of the model, -1 for a task never seen,
        whose rows are answered by the model alone.
    new : ndarray of bool of shape (n,)
        False for rows whose id came before. They get the same answer again.
    by_model : Answers
        Answers of the model alone; for arrays its scores only.
    """

    id: Labels
    p_value: Array
    alarm: Mask
    drift: Mask
    score: Array
    weight: Array
    evidence: Array
    codes: Codes
    new: Mask
    by_model: Answers

    def answers(self) -> Answers:
        """Answers to the new rows, as a model gives them."""
        new = np.flatnonzero(self.new)
        by_model = self.by_model.take(new)
        return replace(by_model, p_value=self.p_value[new], alarm=self.alarm[new])


class Monitor:
    """Watches rows of a fitted model in the order of time.

    A drift flag says that rows have changed. Thresholds follow the rows. If people
    answer alarms, the promised rate holds while rows drift; without answers it does
    not. :doc:`/time` says what is promised.

    Parameters
    ----------
    model : fitted estimator, AutoOneClass, TaskPipeline or TableModel
        It is not changed.
    state : MonitorState, path or None
        Where to resume; None, or a path that does not exist yet, starts a new one.

    Attributes
    ----------
    state : MonitorState
        What it has learned.
    anchors : Anchors
        First scores and bounds of thresholds, which follow from the model.

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

    def __init__(
        self,
        model: WatchedModel | AutoOneClass,
        *,
        state: MonitorState | str | Path | None = None,
    ) -> None:
        if isinstance(model, AutoOneClass):
            check_is_fitted(model)
            model = model.estimator_
        self.model = model
        self.anchors = anchors_of(estimator_of(model))
        if isinstance(state, str | Path):
            state = MonitorState.load(state) if Path(state).exists() else None
        self.state = MonitorState.start(model) if state is None else state
        other_tasks = len(self.state.level) != len(estimator_of(model).tasks_)
        if other_tasks or self.state.fingerprint != fingerprint_of(model):
            raise ValueError(
                "The state belongs to another model, or to this one before it was "
                "changed (its tasks or left-out scores differ). Name another file to "
                "start anew."
            )
        rate = estimator_of(model)._check_calibrated()
        if rate != self.state.rate:  # recalibrated: another promise
            warn_user(
                f"The model promises alarms on {rate:.3g} of normal rows now, before "
                f"it was {self.state.rate:.3g}. From here on the new rate is used."
            )
            scaled = self.state.level * rate / self.state.rate
            self.state.level = np.minimum(scaled, thresholds.highest_level(rate))
            self.state.rate = rate

    # -------------------------------------------------------------------------- updates

    def update(
        self, X: object, task: object = None, time: object = None, id: object = None
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
            Integers or texts. A row with an id of the last 100,000 rows gets the same
            answer again and does not count. None: rows are numbered from 0. As `time`,
            it may be the name of a column of `X`.

        Returns
        -------
        Watched
        """
        table = X
        _, X, time, id = split_columns(X, time=time, id=id)
        if isinstance(self.model, TableModel):
            X = self.read(table, id)
        return self.judge(answer_rows(self.model, X, task), time, id)

    def read(self, table: Table, id: object = None) -> TableRows:
        """Rows of a table with columns of their past; they join the past of later rows.

        Parameters
        ----------
        table : data frame
        id : array-like of shape (n,) or None
            As in `update`: rows that came before do not change the past.
        """
        assert isinstance(self.model, TableModel)
        past = self.state.past
        if past is None:
            return self.model.read(table)[0]
        is_new = self._is_new(len(as_table(table)), id)
        return self.model.read(table, past, moves=is_new, in_order=False)[0]

    def _is_new(self, n_rows: int, id: object) -> Mask:
        """Which rows (n,) are the first with their id, in this table and before."""
        ids = plain_ids(id, n_rows, self.state.memory.count)
        is_new = ~self.state.memory.find(ids)[0]
        is_new &= _first_places(ids) == np.arange(len(ids))
        return np.asarray(is_new)

    def judge(
        self, by_model: Answers, time: object = None, id: object = None
    ) -> Watched:
        """Judge rows that the model has answered, see `update`."""
        n = len(by_model.score)
        memory = self.state.memory
        ids = plain_ids(id, n, memory.count)
        times = np.full(n, "") if time is None else _as_texts(time, n)
        remembered, rows = memory.find(ids)
        first = _first_places(ids)
        new = ~remembered & (first == np.arange(n))
        evidence = self._judge(by_model, times, np.flatnonzero(new), rows)
        memory.add([ids[row] for row in np.flatnonzero(new).tolist()], rows[new])
        rows = rows[first]  # an id that comes twice gets one answer
        return Watched(
            id=np.array(ids),
            p_value=rows["p_value"].copy(),
            alarm=rows["alarm"].copy(),
            drift=rows["drift"].copy(),
            score=by_model.score,
            weight=rows["weight"].astype(np.float64),
            evidence=evidence,
            codes=by_model.codes,
            by_model=by_model,
            new=new,
        )

    def _judge(
        self,
        by_model: Answers,
        times: NDArray[np.str_],
        new: Codes,
        rows: RememberedRows,
    ) -> Array:
        """Judge new rows and learn from them; return the evidence of drift (n,)."""
        evidence = np.full(len(rows), np.nan)
        rows["task"][new] = by_model.codes[new]
        rows["score"][new] = by_model.score[new]
        rows["p_value"][new] = by_model.p_value[new]
        rows["alarm"][new] = by_model.alarm[new]
        rows["answer"][new] = UNANSWERED
        for step in _rounds(by_model.codes, new[by_model.codes[new] >= 0]):
            part = rows[step]
            evidence[step] = judge_and_learn(
                self.state, self.anchors, part, times[step]
            )
            rows[step] = part
        flag_fleet(self.state)
        return evidence

    # -------------------------------------------------------------------------- answers

    def feedback(self, ids: object, *, normal: object = True) -> int:
        """Take answers of a person about rows: whether they were normal.

        Parameters
        ----------
        ids : array-like of shape (m,)
            Of rows among the last 100,000, with an alarm or without.
        normal : bool or array-like of bool of shape (m,)

        Returns
        -------
        int
            Number of answers that were used. The others were given before, or their
            rows are forgotten.
        """
        row_ids = plain_ids(ids, None, 0)
        answers = _as_answers(normal, len(row_ids))
        used = 0
        forgotten = 0
        for row_id, is_normal in zip(row_ids, answers, strict=True):
            remembered, rows = self.state.memory.find([row_id])
            if not remembered[0]:
                forgotten += 1
                continue
            answer = NORMAL if is_normal else FAULT
            if rows["task"][0] >= 0 and rows["answer"][0] != answer:
                used += 1
                self._learn_answer(rows, is_normal)
                self.state.memory.correct(row_id, float(is_normal), answer)
        if forgotten:
            warn_user(
                f"{forgotten} of {len(row_ids)} ids are not among the last rows: left "
                "out."
            )
        return used

    def _learn_answer(self, row: RememberedRows, is_normal: bool) -> None:
        """Learn from an answer about one row, shape (1,)."""
        state = self.state
        code = int(row["task"][0])
        if row["alarm"][0]:
            state.answers[code] *= _FORGET
            state.answers[code, 0 if is_normal else 1] += 1.0
        self._move_thresholds(row, is_normal)

    def _move_thresholds(self, row: RememberedRows, is_normal: bool) -> None:
        """Correct what thresholds have learned from one row, shape (1,)."""
        state = self.state
        t: Codes = row["task"].astype(np.intp)
        code = int(t[0])
        change = float(is_normal) - row["weight"].astype(np.float64)
        state.level[t] = thresholds.moved_level(
            state.level[t], change, row["alarm"], state.rate, state.has_answers(t)
        )
        inside = np.flatnonzero(state.window[code] == row["score"][0])
        if not is_normal:
            state.window[code, inside[:1]] = np.nan
        elif len(inside):
            state.confirmed[code, inside[:1]] = True
        else:
            push(state, t, row["score"], confirmed=True)

    def relearn(self, tasks: Codes, rows: RememberedRows, guarded: Mask) -> None:
        """Learn the thresholds of tasks anew, as if only these rows had come.

        Parameters
        ----------
        tasks : ndarray of shape (k,)
            Numbers of the tasks.
        rows : ndarray of shape (n,)
            The rows of these tasks that count, in their order, with their answers.
        guarded : ndarray of bool of shape (n,)
            Which of them came before the first answer of all.
        """
        forget_thresholds(self.state, self.anchors, tasks)
        rows = rows.copy()
        codes: Codes = rows["task"].astype(np.intp)
        for step in _rounds(codes, np.arange(len(rows))):
            for answered in (False, True):
                chosen = step[guarded[step] != answered]
                if len(chosen):
                    part = rows[chosen]
                    learn_thresholds(self.state, self.anchors, part, answered=answered)
                    rows[chosen] = part
            for row in step[rows["answer"][step] == NORMAL].tolist():
                self._move_thresholds(rows[row : row + 1], is_normal=True)

    def reset(self, task: object = None) -> Self:
        """Forget flags and evidence, of one task or of all, after somebody has looked.

        Parameters
        ----------
        task : label or None

        Returns
        -------
        self
        """
        state = self.state
        tasks = estimator_of(self.model).tasks_
        if task is not None and task not in tasks.tolist():
            raise ValueError(
                f"Unknown task {task!r}: the model has {len(tasks)} others."
            )
        t = np.arange(len(tasks)) if task is None else np.flatnonzero(tasks == task)
        state.forget_drift(t)
        counted = counted_rows(estimator_of(self.model).calibration_)
        state.neighbours[t] = drift.first_neighbours(counted[t])
        return self

    # ---------------------------------------------------------------------------- state

    @property
    def thresholds(self) -> Array:
        """Score of each task below which the next row raises the alarm, shape (T,)."""
        return thresholds_of(self.state, self.anchors)[1]

    def drifting(self, drift_fdr: float = 0.1) -> Labels:
        """Tasks that drift, with a bound on the share of false ones among them.

        In a task that does not drift, evidence reaches 1/p with a probability of at
        most p (Ville). These p-values are selected as by Benjamini & Hochberg (1995).
        The list only grows until `reset`.

        Parameters
        ----------
        drift_fdr : float in (0, 1), default=0.1
            Expected share of tasks in the list in which nothing has changed, if tasks
            are independent of each other.

        Returns
        -------
        ndarray of shape (k,)
            Labels, in the order of the model.
        """
        check_fdr(drift_fdr)
        p = np.exp(-np.maximum(self.state.most, 0.0))
        return estimator_of(self.model).tasks_[benjamini_hochberg(p, drift_fdr)]

    def save_state(self, path: str | Path) -> None:
        """Save the state to a file, atomically.

        Parameters
        ----------
        path : path
        """
        self.state.save(path)

    @classmethod
    def load_state(cls, path: str | Path, model: WatchedModel | AutoOneClass) -> Self:
        """Make a monitor that resumes from a saved state.

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


def plain_ids(ids: object, n: int | None, start: int) -> list[Id]:
    """Return ids as a list of integers and texts; None: `n` numbers from `start`."""
    if ids is None:
        assert n is not None
        return list(range(start, start + n))
    values = [ids] if np.isscalar(ids) else np.asarray(ids, dtype=object).ravel()
    plain: list[Id] = []
    for entry in values:
        value: object = entry.item() if isinstance(entry, np.generic) else entry
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"id must be integers or texts; got {value!r}.")
        plain.append(value)
    if n is not None and len(plain) != n:
        raise ValueError(f"id has {len(plain)} values but X has {n} rows: one per row.")
    return plain


def _as_answers(normal: object, n: int) -> list[bool]:
    """Answers, one for each of n ids."""
    answers = np.asarray(normal)
    values = {*answers.ravel().tolist()}
    if answers.shape not in ((), (n,)) or not values <= {True, False}:
        raise ValueError(
            f"normal must be True or False, once or for each id; got {normal!r}."
        )
    return [bool(answer) for answer in np.broadcast_to(answers, (n,)).tolist()]


def _first_places(ids: list[Id]) -> Codes:
    """Where each id comes first, shape (n,)."""
    first: dict[Id, int] = {}
    return np.array(
        [first.setdefault(row_id, row) for row, row_id in enumerate(ids)],
        dtype=np.intp,
    )


def _rounds(codes: Codes, rows: Codes) -> Iterator[Codes]:
    """Yield rows in rounds: the first row of every task, then the second, and so on."""
    if not len(rows):
        return
    order = np.argsort(codes[rows], kind="stable")
    ascending = codes[rows][order]
    place = np.empty_like(order)
    place[order] = np.arange(len(order)) - np.searchsorted(ascending, ascending)
    by_round = rows[np.argsort(place, kind="stable")]
    yield from np.split(by_round, np.cumsum(np.bincount(place))[:-1])


def _as_texts(time: object, n: int) -> NDArray[np.str_]:
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
