"""A model of tables: a data frame in, a data frame out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from numbers import Integral
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted, check_scalar

from manyone._types import Anomalies, Array, Codes, Labels, Mask
from manyone.calibration.together import left_out_pvalues
from manyone.data.rows import MISSING
from manyone.estimators.base import OneClassEstimator
from manyone.messages import plural, warn_user
from manyone.tables.answers import Answers, answer_rows, as_output, thresholds_of
from manyone.tables.errors import SkippedRowsWarning
from manyone.tables.evaluation import evaluate_answers
from manyone.tables.explain import alarm_reasons, explanation_table
from manyone.tables.fitting import Fitted, fit_again, fit_table, quietly
from manyone.tables.forward import ForwardCheck, check_forward
from manyone.tables.frames import (
    Frame,
    Name,
    Table,
    as_table,
    names_of,
    read_yes_no,
    refuse_missing_columns,
    refuse_no_rows,
)
from manyone.tables.incidents import findings_of, incident_table, scored_rows
from manyone.tables.labels import labels_like
from manyone.tables.page import report_of, write_page
from manyone.tables.past import SPAN, TablePast
from manyone.tables.reference import Reference
from manyone.tables.rows import TableRows, read_rows
from manyone.tables.sampling import kept_rows, with_more_rows
from manyone.tables.training import read_training
from manyone.tables.worth import Worth


@dataclass(eq=False, repr=False)
class TableModel(OutlierMixin, BaseEstimator):
    """Alarms for the rows of a table that has a column of entities.

    The model takes numbers, categories, dates and booleans as they come, with their
    gaps, and lets :func:`manyone.auto` choose the method. It gives every row a score, a
    p-value, an alarm or none at the rate that you ask for, and reasons on demand.

    Parameters
    ----------
    task : str, int or a list of them
        Column, or columns, that say which entity a row belongs to.
    anomalies : {"any", "strangers", "faults"}, default="any"
        What anomalies look like: rows of somebody else, the entity's own rows gone
        wrong, or both.
    method : str or estimator, default="auto"
        ``"auto"``: chosen and tuned. ``"default"``: what "auto" starts from, untuned.
        The name of an estimator, as ``"JointOCKSR"``: tuned. An estimator: fitted as it
        is.
    alarm_rate : float, default=0.05
        Share of normal rows that may raise an alarm, on average over tasks.
    task_rate_limit : float or None
        Largest share of normal rows of a single task that may raise an alarm, on
        average; never below 1/(n + 1) for n rows. None: three times `alarm_rate`. 1.0:
        no limit.
    ignore : str, int or a list of them
        Columns that are not features.
    time : str, int or None
        Column that says when; never a feature. Thresholds are then set, and settings
        judged, on whole blocks of time that are left out, see :doc:`/time`.
    history : "auto", int or None, default="auto"
        With a `time`, the model can also compare a row with so many earlier rows of its
        task: each number with their running mean, and how much it moves with how much
        it used to. ``"auto"``: with 12 rows, if a usual task has at least 96 rows,
        unless faults made in later rows are found better without it (`choice_` says
        so); and not for strangers. Where times are dates, columns are then also
        compared with what is usual at their hour or weekday, if that brings later rows
        closer to it. None: not at all.
    outlier : str, int or None
        Column that marks rows known to be abnormal.
    random_state : int, RandomState or None
    groups : str, int or None
        Column of a session or day, whose rows are left out together when thresholds are
        set and settings judged. It is used instead of blocks of time.

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
    training_ : TrainingTable
        The rows it was fitted to: those of the table, or a sample of large tasks.
    n_rows_ : int
        Rows of the table.
    task_rows_ : ndarray of shape (T,)
        Rows of the table by task.
    time_format_ : str or None
        How the command line reads the times of text files, as ``"%m/%d/%Y"``; None:
        dates whose order of day and month is certain.
    feature_names_in_ : ndarray of str
        Columns that could be features: all but those that other parameters name.
    n_features_in_ : int
    calibrated_ : dict
        When and on what thresholds were set.
    reference_ : Reference or None
        Normal rows that reasons compare with; None before the first explanation.
    forward_ : ForwardCheck or None
        What a model of the earlier rows raises on the last quarter of every task:
        ``forward_.raised(alarm_rate)``, a forecast for rows to come, see :doc:`/time`.
        None without a time column.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from manyone import TableModel
    >>> rng = np.random.default_rng(0)
    >>> pumps = np.repeat(["a", "b"], 40)
    >>> table = pd.DataFrame({"pump": pumps, "flow": rng.normal(9, 1, 80)})
    >>> model = TableModel("pump", anomalies="faults").fit(table)
    >>> model.score(pd.DataFrame({"pump": ["b"], "flow": [90.0]})).alarm.tolist()
    [True]
    """

    task: Name | Sequence[Name]
    _: KW_ONLY
    anomalies: Anomalies = "any"
    method: str | OneClassEstimator = "auto"
    alarm_rate: float = 0.05
    task_rate_limit: float | None = None
    ignore: Name | Sequence[Name] = ()
    time: Name | None = None
    history: Literal["auto"] | int | None = "auto"
    outlier: Name | None = None
    random_state: int | np.random.RandomState | None = None
    groups: Name | None = None

    # -------------------------------------------------------------------------- fitting

    def fit(self, table: Table, y: object = None) -> Self:
        """Learn what is normal for each entity of a table of normal rows.

        Parameters
        ----------
        table : data frame, path, function or Dask data frame
            All rows are normal, but for those that the column `outlier` marks. A path
            is that of a Parquet file or of a folder of them; a function returns the
            frames of a table. The table is read once, or twice where rows have a
            season. The model is fitted to at most 2,000 rows of a task, and 100,000 of
            all, see :doc:`/scale`.
        y : ignored
            scikit-learn's tools pass labels, which this model does not need.

        Returns
        -------
        self
        """
        if self.alarm_rate is None:
            raise ValueError(
                "alarm_rate=None is for estimators: a TableModel always sets "
                "thresholds. Give a share between 0 and 1, as 0.05."
            )
        self.time_format_: str | None = None
        return self._become(fit_table(self, table))

    def _span(self) -> int | None:
        """Rows of the running means that rows are compared with, if any."""
        history = self.history
        if history is None:
            return None
        if isinstance(history, Integral) and history >= 2:
            if self.time is None:
                raise ValueError(
                    f"history={history!r} needs the order of rows: name a time column."
                )
            return int(history)
        if history != "auto":
            raise ValueError(
                'history must be "auto", None, or a number of rows from 2 on; '
                f"got {history!r}."
            )
        # Rows of somebody else do not differ from their own past.
        has_past = self.time is not None and self.anomalies != "strangers"
        return SPAN if has_past else None

    @property
    def task_columns(self) -> list[str]:
        """Names of the columns that say which entity a row belongs to."""
        return names_of(self.task)

    @property
    def time_column(self) -> str | None:
        """Name of the column that says when, if there is one."""
        return None if self.time is None else str(self.time)

    def _roles(self) -> dict[str, list[str]]:
        named = ("task", "time", "outlier", "groups")
        roles = {role: names_of(getattr(self, role)) for role in named}
        if not roles["task"]:
            raise ValueError(
                f"task must name a column of the table; got {self.task!r}."
            )
        return roles

    def _become(self, fitted: Fitted) -> Self:
        encoder = fitted.encoder
        used = {name: fitted.training.columns[name] for name in encoder.layout.used}
        self.model_ = fitted.model
        self.encoder_ = encoder
        self.tasks_ = fitted.tasks
        self.unknown_ = fitted.unknown
        self.choice_ = fitted.choice
        self.training_ = replace(fitted.training, columns=used)
        self.reference_: Reference | None = None
        self._set_rate(self.alarm_rate)
        self.forward_: ForwardCheck | None = check_forward(self)
        if self.forward_ is not None and self.forward_.differs(self.alarm_rate):
            warn_user(self.forward_.sentence(self.alarm_rate))
        return self

    @property
    def columns_(self) -> dict[str, Labels]:
        """What was decided about each column."""
        check_is_fitted(self)
        return self.encoder_.table

    @property
    def n_rows_(self) -> int:
        """Rows of the table."""
        check_is_fitted(self)
        return self.training_.n_rows

    @property
    def task_rows_(self) -> Codes:
        """Rows of the table by task, shape (T,)."""
        check_is_fitted(self)
        return self.training_.task_rows(self.tasks_)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the columns that could be features, used or not."""
        return self.columns_["name"].astype(object)

    @property
    def n_features_in_(self) -> int:
        """Number of the columns that could be features."""
        return len(self.feature_names_in_)

    @property
    def promised_rate_(self) -> float:
        """The alarm rate asked for, or the lowest that the training rows allow."""
        return float(self.model_.alarm_rate_.max())

    def _set_rate(self, alarm_rate: float) -> None:
        with quietly():
            self.model_.recalibrate(alarm_rate)
        promised = self.promised_rate_
        calibration = self.model_.calibration_
        if promised > alarm_rate:
            warn_user(
                f"{len(self.training_.labels)} rows cannot promise "
                f"alarm_rate={alarm_rate:g}: {promised:.3g} is used. Give more rows."
            )
        together = ""
        if self.model_.training_.group is not None:
            together = (
                "blocks of time, " if self.groups is None else f"by {self.groups}, "
            )
        self.calibrated_ = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "on": f"left-out training rows ({together}{calibration.source})",
            "rows": int(calibration.counts.sum()),
            "tasks": len(self.tasks_),
            "alarm_rate": float(alarm_rate),
            "unknown_rate": self.unknown_.rate(alarm_rate),
        }

    # -------------------------------------------------------------------------- scoring

    def score(
        self,
        table: Table,
        y: object = None,
        *,
        explain: int = 0,
        fdr: float | None = None,
        unknown: str = "pooled",
        keep: Sequence[str] = (),
        at_least: Mapping[str, float | str] | None = None,
        direction: Mapping[str, str] | None = None,
    ) -> Table:
        """Score, p-value and alarm of every row, as a table.

        Other than scikit-learn's `score` this returns no number. In its searches give
        ``scoring="roc_auc"``, and 1 for normal rows and -1 for others as `y`; name the
        column of labels as `outlier`, or the model learns bad rows as normal ones.

        Parameters
        ----------
        table : data frame
            It may have no rows.
        y : ignored
        explain : int, default=0
            Number of reasons given for each alarm.
        fdr : float or None
            Alarms are then the rows of this table that can be called abnormal with at
            most this share of false ones expected (Benjamini-Hochberg).
        unknown : {"pooled", "error", "skip"}
            Rows of unknown tasks, and rows without a task: compared with all tasks,
            refused, or left out (a warning counts them).
        keep : list of str
            Columns of the table to copy to the answer.
        at_least : dict or None
            Smallest change worth an alarm: for columns of numbers the difference from
            the expected value, as ``{"flow": 5}``, or its share, as
            ``{"flow": "10%"}``. An alarm led by such a column stays only if it differs
            by so much.
        direction : dict or None
            ``"up"`` or ``"down"``: an alarm led by the column stays only if its value
            lies above, or below, the expected one.

        Returns
        -------
        data frame
            Of the same library: ``row, task, score, p_value, alarm, basis``, the kept
            columns, then ``reason_1`` ... where asked for. ``row`` is the position of
            the row. A pandas result has the index of what was given.
        """
        check_is_fitted(self)
        check_scalar(explain, "explain", Integral, min_val=0)
        frame = as_table(table)
        worth = Worth.of(self, at_least, direction)
        rows, _ = self.read(frame)
        answers = self._answer(rows, fdr, unknown, worth)
        skipped = len(rows) - len(answers.rows)
        if skipped:
            warn_user(
                f"{plural(skipped, 'row')} of unknown tasks skipped.",
                SkippedRowsWarning,
            )
        names = names_of(keep)
        refuse_missing_columns(frame, keep=names)
        return self._scores(rows, answers, explain, frame.select(names), frame)

    def _answer(
        self,
        rows: TableRows,
        fdr: float | None = None,
        unknown: str = "pooled",
        worth: Worth | None = None,
    ) -> Answers:
        """What the model says of rows."""
        answers = answer_rows(self, rows, fdr, unknown)
        return answers if worth is None else worth.applied(self, rows, answers)

    def _scores(
        self,
        rows: TableRows,
        answers: Answers,
        explain: int,
        kept: Frame,
        frame: Frame,
    ) -> Table:
        """Answers as the table that `score` returns, in the library of a frame.

        The columns of `kept` are copied to it.
        """
        reasons = alarm_reasons(self, rows, answers, explain)
        return as_output(frame, answers, kept, reasons, self.task_columns)

    def predict(self, table: Table) -> NDArray[np.int_]:
        """-1 for rows that raise an alarm, 1 for others, shape (n,)."""
        return np.where(self._answers(table).alarm, -1, 1)

    def decision_function(self, table: Table) -> Array:
        """`score_samples` less the threshold of the row's task; negative: an alarm."""
        answers = self._answers(table)
        return answers.score - thresholds_of(self, answers.codes)

    def score_samples(self, table: Table) -> Array:
        """Score of every row, shape (n,); higher is more normal."""
        return self._answers(table).score

    def pvalues(self, table: Table) -> Array:
        """P-value of "this row is normal for its task", shape (n,)."""
        return self._answers(table).p_value

    def pvalues_together(self, table: Table) -> tuple[Labels, Array]:
        """P-value of "all these rows are normal for their task", one for each task.

        A rank-sum test of the new rows' scores among the left-out scores of the task's
        own rows, see :meth:`manyone.JointOCKSR.pvalues_together`. Rows of unknown tasks
        are left out.

        Parameters
        ----------
        table : data frame
            Rows that are to be judged together, say those of one day.

        Returns
        -------
        tasks : ndarray of shape (S,)
        p : ndarray of shape (S,)
        """
        answers = self._answers(table)
        is_known = answers.codes != MISSING
        codes = answers.codes[is_known]
        present = np.unique(codes)
        calibration = self.model_.calibration_
        p = left_out_pvalues(calibration, answers.score[is_known], codes, present)
        return self.tasks_[present], p

    def _answers(self, table: Table) -> Answers:
        return self._answer(self.read(table)[0])

    def incidents(
        self,
        table: Table,
        *,
        at_least: Mapping[str, float | str] | None = None,
        direction: Mapping[str, str] | None = None,
    ) -> Table:
        """Alarms that belong together, and whether chance explains them.

        Parameters
        ----------
        table : data frame
        at_least, direction : dict or None
            What is worth an alarm, as in `score`.

        Returns
        -------
        data frame
            Of the same library, the least likely by chance first: ``task, column,
            alarms, rows, begin, end, by_chance, stands_out, worst_row, reason``.
            ``begin`` and ``end`` are times, or row numbers where the model has no
            time column. ``by_chance`` is the number of tasks of the table that would
            show such an incident if all rows were normal; ``stands_out`` says that
            it is below 0.005. See :doc:`/page`.
        """
        check_is_fitted(self)
        frame = as_table(table)
        worth = Worth.of(self, at_least, direction)
        rows, _ = self.read(frame)
        scored = scored_rows(self, rows, self._answer(rows, worth=worth))
        return incident_table(self, frame, findings_of(self, [scored]))

    def explain(self, table: Table, *, top: int = 3, needed: bool = False) -> Table:
        """Which columns make each row unusual, alarmed or not.

        For each column: how much less unusual would the row be if this column alone
        were what the others, and the task's own rows, make one expect?

        Parameters
        ----------
        table : data frame
        top : int, default=3
            Columns named for each row.
        needed : bool, default=False
            Whether to answer why there was no alarm: a column ``needed`` then says at
            which value of the column the row would have raised one, all else as it is;
            of a row with an alarm, at which value it would raise none. It is missing
            where no such value was found, and for columns that hold no numbers. This
            scores every row some 150 times for each column.

        Returns
        -------
        data frame
            ``row, task, rank, column, value, expected, share, view, nearest``: values
            as texts; the column's share in what is unusual; which view finds the row
            unusual (``strangers``, ``faults``, ``range`` for a value out of range,
            ``unknown`` for an unknown task); the positions of the closest normal rows
            of the task in the training table. A pandas result repeats the index of what
            was given.
        """
        check_is_fitted(self)
        check_scalar(top, "top", Integral, min_val=0)
        frame = as_table(table)
        return explanation_table(self, frame, self.read(frame)[0], top, needed)

    def _reference(self) -> Reference:
        """Normal rows that reasons compare with, worked out at the first explanation."""
        if self.reference_ is None:
            self.reference_ = Reference.of(self)
        return self.reference_

    def __getstate__(self) -> dict[str, object]:
        """State for files, without what can be worked out again."""
        state = dict(super().__getstate__())
        if hasattr(self, "training_") and self.training_.has_values:
            state["reference_"] = None
        return state

    def read(
        self,
        table: Table,
        past: TablePast | None = None,
        *,
        moves: Mask | None = None,
        in_order: bool = True,
    ) -> tuple[TableRows, TablePast | None]:
        """Rows of a table with their past, and the past of those that follow.

        Parameters
        ----------
        table : data frame
        past : TablePast or None
            As it was returned for the rows before; None: the training rows came before.
        moves : ndarray of bool of shape (n,) or None
            Rows that have no part in the past of others where this is false.
        in_order : bool
            See :meth:`TablePast.columns`.
        """
        check_is_fitted(self)
        return read_rows(self, table, past, moves, in_order)

    def evaluate(self, table: Table, *, outlier: str) -> Table:
        """How well labelled rows are told apart, over all and for each task.

        Parameters
        ----------
        table : data frame
        outlier : str
            Column that is true where a row is abnormal.

        Returns
        -------
        data frame
            First "(all)", then each task: ``task, rows, anomalies, auc, auc_over_rows,
            caught, false_alarms, promised``. Of "(all)", ``auc`` is the mean over
            tasks, and ``auc_over_rows`` that of the p-values of all rows together. Of
            a task both are the same.
        """
        check_is_fitted(self)
        frame = as_table(table)
        refuse_no_rows(frame)
        refuse_missing_columns(frame, outlier=[outlier])
        answers = self._answer(self.read(frame)[0])
        return evaluate_answers(frame, answers, read_yes_no(frame, outlier), self)

    # --------------------------------------------------------------------------- upkeep

    def recalibrate(self, alarm_rate: float) -> Self:
        """Promise another alarm rate, in (0, 1); nothing is refitted."""
        check_is_fitted(self)
        self._set_rate(alarm_rate)
        self.alarm_rate = alarm_rate
        self.task_rate_limit = self.model_.task_rate_limit
        return self

    def enroll(self, table: Table) -> Self:
        """Add normal rows of known or new tasks: new thresholds, the same settings.

        The model is fitted to its rows and these. Of tasks that become too large a
        sample is kept, as in `fit`.

        Parameters
        ----------
        table : data frame
        """
        check_is_fitted(self)
        self._refuse_without_rows("enroll")
        frame = as_table(table)
        refuse_no_rows(frame)
        ignore = [name for name in names_of(self.ignore) if name in frame.columns]
        more = read_training(frame, self._roles(), ignore)
        labels = labels_like(more.labels, self.tasks_, self.task_columns)
        rows, after = self.read(frame)
        more = replace(more, labels=labels, columns=rows.columns, past=after)
        return self._become(fit_again(self, with_more_rows(self.training_, more)))

    def refit(self, table: Table, *, keep: Sequence[Hashable] = ()) -> Self:
        """Fit to other normal rows; settings and columns stay, thresholds are set anew.

        Parameters
        ----------
        table : data frame
            As in `fit`.
        keep : sequence of labels
            Tasks whose rows stay beside the new ones. Other tasks that `table` does not
            have are forgotten.
        """
        check_is_fitted(self)
        past = self.training_.past
        compared = None if past is None else past.compared
        rows = kept_rows(table, self._roles(), names_of(self.ignore), compared)
        past = rows.past
        if past is not None:
            past = past.of_columns(self.encoder_.layout.with_past)
        training = replace(
            rows,
            labels=labels_like(rows.labels, self.tasks_, self.task_columns),
            columns=self.encoder_.checked(rows.columns),
            past=past,
        )
        if len(keep):
            self._refuse_without_rows("refit with keep")
            stays = [self.training_.is_of(task) for task in keep]
            before = self.training_.take(np.flatnonzero(np.any(stays, axis=0)))
            training = with_more_rows(before, training)
        return self._become(fit_again(self, training))

    def forget(self, task: Hashable | Sequence[object]) -> Self:
        """Remove a task and every trace of its rows: as if they had never been there.

        Parameters
        ----------
        task : label
            Of several columns, the list of their values.
        """
        check_is_fitted(self)
        self._refuse_without_rows("forget")
        return self._become(fit_again(self, self.training_.without(task)))

    def drop_rows(self) -> Self:
        """Forget what stood in the rows of the training table, for a file to hand on.

        Rows are scored and explained as before, but no closest training rows are named.
        `enroll` and `forget` need a new fit. Kernels still hold encoded rows: see
        SECURITY.md.
        """
        check_is_fitted(self)
        self.reference_ = self._reference().without_rows()
        self.training_ = self.training_.without_values()
        return self

    def _refuse_without_rows(self, what: str) -> None:
        if not self.training_.has_values:
            raise ValueError(
                f"{what} needs the training rows, and this model was made without them "
                "(--no-rows). Fit it again."
            )

    def report(self, path: str | Path, table: Table = None) -> None:
        """Write a page about the model, and about the rows of a table if one is given.

        Drift and silent tasks are on the page of a watch, ``manyone report --state``.

        Parameters
        ----------
        path : path
        table : data frame or None
        """
        check_is_fitted(self)
        if table is not None:
            refuse_no_rows(as_table(table))
        write_page(path, report_of(self, table, "MODEL", "TABLE"))
