"""A model of tables: a data frame in, a data frame out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manyone._types import Array, Codes, Mask
from manyone.estimators.base import OneClassEstimator
from manyone.estimators.fitting import calibration_of
from manyone.messages import CalibrationWarning, shortlist, warn_user
from manyone.models.range_guard import guard_ranges
from manyone.rows import MISSING, TrainingRows, encode, find, training_rows
from manyone.tables.answers import Answers, answer_rows, as_output
from manyone.tables.choice import choose_model, refit
from manyone.tables.encoder import Encoder
from manyone.tables.evaluation import evaluate_answers
from manyone.tables.frames import (
    Column,
    Columns,
    as_table,
    joined_label,
    outlier_mask,
    read_column,
    refuse_missing_columns,
    task_labels,
)
from manyone.tables.unknown import UnknownTasks


@dataclass(eq=False, repr=False)
class TableModel(BaseEstimator):
    """Alarms for the rows of a table that has a column of entities.

    Numbers, categories, dates and booleans are encoded as they come, with their gaps; the method
    is chosen by :func:`manyone.auto`; every row gets a score, a p-value, an alarm whose rate is
    promised, and reasons on demand.

    Parameters
    ----------
    task : str or list of str
        Column, or columns, that say which entity a row belongs to.
    anomalies : {"any", "strangers", "faults"}, default="any"
        What anomalies look like: rows of somebody else, the entity's own rows gone wrong, or both.
    method : str or estimator, default="auto"
        ``"auto"``: chosen and tuned. ``"default"``: what "auto" starts from, untuned. The name of
        an estimator, as ``"JointOCKSR"``: tuned. An estimator: fitted as it is.
    alarm_rate : float, default=0.05
        Share of normal rows that may raise an alarm.
    ignore : list of str
        Columns that are not features.
    time : str or None
        Column that says when; never a feature.
    outlier : str or None
        Column that marks rows known to be abnormal.
    random_state : int, RandomState or None
    groups : str or None
        Column of what leaves together when thresholds are set: a session, a day.

    Attributes
    ----------
    tasks_ : ndarray of shape (T,)
    columns_ : dict of arrays
        What was decided about each column: ``name``, ``kind``, ``used``, ``features``,
        ``missing``, ``low``, ``high``, ``note``.
    choice_ : dict of arrays
        What was tried, see :func:`manyone.auto`.
    model_ : estimator
        Fitted to the encoded rows.
    encoder_ : Encoder
    n_rows_ : int
    calibrated_ : dict
        When and on what thresholds were set.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from manyone import TableModel
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"pump": np.repeat(["a", "b"], 40), "flow": rng.normal(9, 1, 80)})
    >>> model = TableModel("pump", anomalies="faults").fit(table)
    >>> model.score(pd.DataFrame({"pump": ["b"], "flow": [90.0]})).alarm.tolist()
    [True]
    """

    task: Any
    _: KW_ONLY
    anomalies: str = "any"
    method: Any = "auto"
    alarm_rate: float = 0.05
    ignore: Sequence[str] = ()
    time: str | None = None
    outlier: str | None = None
    random_state: Any = None
    groups: str | None = None

    # ------------------------------------------------------------------------------------- fitting

    def fit(self, table: Any) -> Self:
        """Learn what is normal for each entity of a table of normal rows.

        Parameters
        ----------
        table : data frame
            Rows are normal, but for those that the column `outlier` marks.

        Returns
        -------
        self
        """
        frame = as_table(table)
        columns, labels, outlier = self._read_training(frame)
        tasks, codes = encode(labels)
        encoder = Encoder.learn(*_normal(columns, codes, outlier), len(tasks))
        Z = encoder.encode(columns, codes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # `basis` says it row by row
            model, choice = choose_model(
                Z,
                labels,
                outlier if outlier.any() else None,
                self.anomalies,
                self.method,
                self.alarm_rate,
                self.random_state,
            )
        self.choice_ = choice
        self.encoder_, self.columns_ = encoder, encoder.table()
        self.table_ = {name: columns[name] for name in encoder.used}
        return self._finish(model, Z, labels, outlier)

    def _read_training(self, frame: nw.DataFrame[Any]) -> tuple[Columns, NDArray[Any], Mask]:
        """Columns that may be features, in the order of time; labels; known outliers."""
        roles = self._roles()
        refuse_missing_columns(frame, **roles, ignore=list(self.ignore))
        labels = task_labels(frame, roles["task"])
        outlier = np.zeros(len(labels), dtype=bool)
        if self.outlier is not None:
            outlier = outlier_mask(frame, self.outlier)
        _refuse_rows_without_task(labels, ~outlier, roles["task"])
        apart = {name for names in roles.values() for name in names} | set(self.ignore)
        names = [name for name in frame.columns if name not in apart]
        columns = {name: read_column(frame.get_column(name)) for name in names}
        if not columns:
            raise ValueError("The table has no column beside those that say what rows are.")
        if self.time is not None:
            order = np.argsort(read_column(frame.get_column(self.time)).values, kind="stable")
            columns = {name: column.take(order) for name, column in columns.items()}
            return columns, labels[order], outlier[order]
        return columns, labels, outlier

    def _roles(self) -> dict[str, list[str]]:
        task = [self.task] if isinstance(self.task, str) else list(self.task)
        roles = {"task": task}
        for role in ("time", "outlier", "groups"):
            name = getattr(self, role)
            roles[role] = [] if name is None else [name]
        return roles

    def _finish(
        self, model: OneClassEstimator, Z: Array, labels: NDArray[Any], outlier: Mask
    ) -> Self:
        """Become the model of these rows: ranges guarded, thresholds set, unknown tasks met."""
        rows, self.tasks_, self.source_ = training_rows(
            model, Z, labels, outlier if outlier.any() else None, reset=False
        )
        margin = self.encoder_.margins()
        self.model_ = _guarded(model, rows, margin)
        normal = ~rows.outlier
        self.unknown_ = UnknownTasks.learn(rows.X[normal], rows.codes[normal], margin)
        self.labels_, self.outlier_, self.n_rows_ = labels, outlier, len(labels)
        self._set_rate(self.alarm_rate)
        return self

    def _set_rate(self, alarm_rate: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            self.model_.recalibrate(alarm_rate)
        promised = float(self.model_.alarm_rate_.max())
        if promised > alarm_rate:
            warn_user(
                f"{self.n_rows_} rows cannot promise alarm_rate={alarm_rate:g}: "
                f"{promised:.3g} is used. Give more rows."
            )
        calibration = self.model_.calibration_
        self.calibrated_ = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "on": f"left-out training rows ({calibration.source})",
            "rows": int(calibration.counts.sum()),
            "tasks": len(self.tasks_),
            "alarm_rate": float(alarm_rate),
        }

    # ------------------------------------------------------------------------------------- scoring

    def score(
        self,
        table: Any,
        *,
        explain: int = 0,
        fdr: float | None = None,
        unknown: str = "pooled",
        keep: Sequence[str] = (),
    ) -> Any:
        """Score, p-value and alarm of every row.

        Parameters
        ----------
        table : data frame
        explain : int, default=0
            Number of reasons given for each alarm.
        fdr : float or None
            Alarms are then the rows of this table that can be called abnormal with at most this
            share of false ones expected (Benjamini-Hochberg).
        unknown : {"pooled", "error", "skip"}
            Rows of tasks that were never seen: compared with all tasks, refused, or left out (and
            counted on stderr, as are rows without a task).
        keep : list of str
            Columns of the table to hand through.

        Returns
        -------
        data frame
            Of the same library: ``row, task, score, p_value, alarm, basis``, the kept columns, then
            ``reason_1`` ... where asked for.
        """
        check_is_fitted(self)
        frame = as_table(table)
        refuse_missing_columns(frame, keep=list(keep))
        answers = self._answer(frame, fdr, unknown)
        reasons: list[Any] = []
        if explain:
            raise NotImplementedError
        return as_output(frame, self._roles()["task"], answers, keep, reasons)

    def _answer(self, frame: nw.DataFrame[Any], fdr: float | None, unknown: str) -> Answers:
        codes, rows = self._known_tasks(frame, unknown)
        return answer_rows(self, frame, rows, codes, fdr)

    def _known_tasks(self, frame: nw.DataFrame[Any], unknown: str) -> tuple[Codes, Codes]:
        """Number of each row's task (MISSING where it was never seen), and the rows to answer."""
        if unknown not in ("pooled", "error", "skip"):
            raise ValueError(f'unknown must be "pooled", "error" or "skip"; got {unknown!r}.')
        names = self._roles()["task"]
        refuse_missing_columns(frame, task=names)
        labels = task_labels(frame, names)
        refuse_other_labels(labels, self.tasks_, names)
        codes, new = find(labels, self.tasks_)
        lost = codes == MISSING
        nameless = lost & ~new
        if unknown == "skip":
            return codes, np.flatnonzero(~lost)
        if nameless.any():
            _refuse_rows_without_task(labels, nameless, names)
        if unknown == "error" and new.any():
            row = int(np.argmax(new))
            raise ValueError(
                f"Row {row}: task {labels[row]!r} was never seen ({int(new.sum())} such rows). "
                'Enrol it, or use unknown="pooled" to compare it with all tasks.'
            )
        return codes, np.arange(len(codes))

    def evaluate(self, table: Any, *, outlier: str) -> Any:
        """How well labelled rows are told apart, over all and for each task.

        Parameters
        ----------
        table : data frame
        outlier : str
            Column that is true where a row is abnormal.

        Returns
        -------
        data frame
            First "(all)", then each task: ``task, rows, anomalies, auc, caught, false_alarms,
            promised``. The AUC over all is the mean over tasks.
        """
        check_is_fitted(self)
        frame = as_table(table)
        refuse_missing_columns(frame, outlier=[outlier])
        answers = self._answer(frame, None, "pooled")
        return evaluate_answers(frame, answers, outlier_mask(frame, outlier), self)

    # -------------------------------------------------------------------------------------- upkeep

    def recalibrate(self, alarm_rate: float) -> Self:
        """Promise another alarm rate; nothing is refitted.

        Parameters
        ----------
        alarm_rate : float in (0, 1)

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._set_rate(alarm_rate)
        self.alarm_rate = alarm_rate
        return self

    def enroll(self, table: Any) -> Self:
        """Add normal rows of known tasks, or new tasks; settings stay, thresholds are set anew.

        Parameters
        ----------
        table : data frame

        Returns
        -------
        self
        """
        check_is_fitted(self)
        frame = as_table(table)
        _, labels, outlier = self._read_training(frame)
        refuse_other_labels(labels, self.tasks_, self._roles()["task"])
        more = self.encoder_.read(frame)
        joined = {name: old.joined(more[name]) for name, old in self.table_.items()}
        return self._again(
            joined,
            np.concatenate([self.labels_, labels]),
            np.concatenate([self.outlier_, outlier]),
        )

    def forget(self, task: Any) -> Self:
        """Remove a task and every trace of its rows: as if they had never been there.

        Parameters
        ----------
        task : label
            Of several columns, the list of their values.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if isinstance(task, list | tuple):
            task = joined_label(task)
        gone = self.labels_ == task
        if not np.any(gone):
            raise ValueError(
                f"Unknown task {task!r}. The model knows {shortlist(self.tasks_.tolist(), 5)}."
            )
        if len(self.tasks_) == 1:
            raise ValueError(f"{task!r} is the only task of the model: delete the model instead.")
        kept = np.flatnonzero(~gone)
        columns = {name: column.take(kept) for name, column in self.table_.items()}
        return self._again(columns, self.labels_[kept], self.outlier_[kept])

    def _again(self, columns: Columns, labels: NDArray[Any], outlier: Mask) -> Self:
        """Encoder, model and thresholds of other rows, with the settings that were chosen."""
        tasks, codes = encode(labels)
        encoder = self.encoder_.learned_again(*_normal(columns, codes, outlier), len(tasks))
        Z = encoder.encode(columns, codes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            model = refit(self.model_, Z, labels, outlier if outlier.any() else None)
        self.encoder_, self.columns_ = encoder, encoder.table()
        self.table_ = {name: columns[name] for name in encoder.used}
        return self._finish(model, Z, labels, outlier)

    def report(self, path: Any, table: Any = None) -> None:
        """Write a page about the model, and about the rows of a table if one is given.

        Parameters
        ----------
        path : path
        table : data frame or None
        """
        from manyone.report.tables import write_report  # type: ignore[import-not-found]

        check_is_fitted(self)
        write_report(self, path, table)


def _normal(columns: Columns, codes: Codes, outlier: Mask) -> tuple[Columns, Codes]:
    """Columns and tasks of the rows that are not known to be abnormal."""
    if not outlier.any():
        return columns, codes
    kept = np.flatnonzero(~outlier)
    return {name: column.take(kept) for name, column in columns.items()}, codes[kept]


def _guarded(model: OneClassEstimator, rows: TrainingRows, margin: Array) -> OneClassEstimator:
    """The model with its ranges guarded; its left-out scores, and so its thresholds, know it."""
    if model.can.merges_copies:
        rows = rows.merged()[0]
    solution, normal = model.solution_, ~rows.outlier
    guard, penalty = guard_ranges(rows.X[normal], solution.left_out_scores()[normal], margin)
    lowered = np.zeros(len(rows.codes)) if solution.lowered is None else solution.lowered.copy()
    lowered[normal] += penalty
    model.solution_ = replace(solution, lowered=lowered, guard=guard)
    model.calibration_ = calibration_of(model.solution_, rows)
    return model


def refuse_other_labels(labels: NDArray[Any], tasks: NDArray[Any], names: list[str]) -> None:
    """Labels that are texts where numbers were seen would all be unknown without a word."""
    kinds = {type(label) for label in (labels[:1].tolist() + tasks[:1].tolist()) if label}
    if len(kinds) > 1:
        seen = "numbers" if tasks.dtype.kind == "i" else "texts"
        raise ValueError(
            f"The column {shortlist(names, 3)} held {seen} when the model was fitted, and does not "
            "now: convert it."
        )


def _refuse_rows_without_task(labels: NDArray[Any], needed: Mask, names: list[str]) -> None:
    lost = np.flatnonzero(np.array([label is None for label in labels.tolist()]) & needed)
    if len(lost):
        raise ValueError(
            f"Row {lost[0]} has no value in the task column {shortlist(names, 3)} "
            f"({len(lost)} such rows). Fill it in or remove them."
        )


__all__ = ["Column", "TableModel"]
