"""The search behind `tune`: which settings are tried, and how each is judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from manyone._types import Array, Codes
from manyone.estimators.base import MultiTaskOneClass, learn
from manyone.estimators.joint import JointOCKSR
from manyone.estimators.task_ridges import independent_score_grid
from manyone.groups import leaving_together
from manyone.kernels.gram import Gram
from manyone.messages import warn_user
from manyone.progress import counted
from manyone.rows import TrainingRows, renumbered
from manyone.selection.faults import by_faults, fault_strengths, preferred_first
from manyone.selection.judging import (
    FEWEST_ROWS,
    FEWEST_TASKS_TO_HALVE,
    SHARED,
    Judged,
    beats,
    finite_mean,
    fold_aucs,
    task_aucs,
    thinned,
)
from manyone.solvers.path import left_out_gaps
from manyone.solvers.ridge import effective_alpha
from manyone.threads import one_blas_thread

# With fewer tasks than this, what two halves of the tasks say about a metric is noise.
_FEWEST_TASKS_FOR_METRIC = 8


def settings_of(grid: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Every combination of the values of a grid, the last name (in their order) fastest."""
    names = sorted(grid)
    return [
        dict(zip(names, one, strict=True))
        for one in product(*map(grid.__getitem__, names))
    ]


def choose_setting(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    values: dict[str, list[Any]],
    criterion: str,
    whole: bool,
    max_rows: int | str | None = "auto",
    random_state: Any = None,
) -> tuple[list[Judged], int, TrainingRows]:
    """Judge the settings of a grid on rows; see `tune`.

    Parameters
    ----------
    model : MultiTaskOneClass
    rows : TrainingRows
    values : dict of str to list
        The grid.
    criterion, max_rows, random_state
        As in `tune`.
    whole : bool
        Whether the grid is the method's own, which is searched with more caution.

    Returns
    -------
    list of Judged, int, TrainingRows
        What was tried, the number of the setting to take, and the rows it was judged by.
    """
    judged = rows
    if max_rows is not None and len(rows.codes) > (
        FEWEST_ROWS if max_rows == "auto" else 0
    ):
        judged = thinned(rows, max_rows, values)
    landmarks = model.landmarks
    if landmarks is not None and landmarks >= len(judged.codes):
        model = clone(model).set_params(landmarks=None)  # the same model, found faster
    few = _FEWEST_TASKS_FOR_METRIC if whole else FEWEST_TASKS_TO_HALVE
    narrow = judged.X.shape[1] < 2 or judged.n_tasks < few
    if criterion != "faults" and narrow and "plain" in values.get("metric", ()):
        values = {**values, "metric": ["plain"]}
    # Most of the work is on folds, which have about half of the rows.
    with np.errstate(under="ignore"), one_blas_thread(len(judged.codes) // 2):
        if criterion == "faults":
            strengths = fault_strengths(model) if whole else {}
            settings = preferred_first(settings_of(values))
            table, best = by_faults(model, judged, settings, strengths, random_state)
        else:
            table, best = _Search(model, judged, criterion).choose(values, whole)
    if not np.isfinite(table[best].aucs).any():
        others = ", and rows of other tasks or known outliers to tell them from"
        warn_user(
            "No setting could be judged: that needs tasks of two or more distinct rows"
            f"{'' if criterion == 'faults' else others}. The first setting was taken."
        )
    return table, best, judged


#: What was tried, and the number of the best.
Tried = tuple[list[Judged], int]


@dataclass(frozen=True)
class _Search:
    """Settings of a model, judged by rows of other tasks.

    Parameters
    ----------
    model : MultiTaskOneClass
    rows : TrainingRows
    criterion : {"seen", "unseen"}
    """

    model: MultiTaskOneClass
    rows: TrainingRows
    criterion: str

    def choose(self, values: dict[str, list[Any]], cautious: bool) -> Tried:
        """Shared parameters as the ridge regression would choose them, then the method's own."""
        model = self.model
        if model.can.left_out_grid is None:
            return self.by_folds(settings_of(values))
        table: list[Judged] = []
        shared: dict[str, list[Any]] = {}
        own: dict[str, list[Any]] = {}
        setting: dict[str, Any] = {}
        for name, options in values.items():
            (shared if name in SHARED else own)[name] = options
        if shared or not own:
            ridge: MultiTaskOneClass = model
            if model.can.left_out_grid == "joint":
                # The regression whose closed form judges what a method shares with it.
                ridge, given = JointOCKSR(), model.get_params()
                for name in ridge.get_params():
                    setattr(ridge, name, given[name])
            table, best = replace(self, model=ridge).choose_ridge(shared)
            if not own:
                return table, best
            setting = table[best].setting
        settings = settings_of(own)
        if cautious:  # the model's own setting first
            mine = dict(zip(own, map(model.get_params().get, own), strict=True))
            settings.sort(key=mine.__ne__)
        found, best = self.by_folds(settings, setting)
        if cautious and not beats(found[best].aucs, found[0].aucs):
            best = 0
        return table + found, len(table) + best

    def choose_ridge(self, values: dict[str, list[Any]]) -> Tried:
        """Metric by folds, then the rest by closed forms (by folds under a metric that saw all)."""
        values, model = dict(values), self.model
        metrics = values.pop("metric", [model.metric])
        table: list[Judged] = []
        metric = metrics[0]
        if len(metrics) > 1:
            # A coarse grid will do; in doubt the plain metric stays.
            alphas = values.get("alpha", [getattr(model, "alpha", 0.1)])
            coarse = {"kernel": values.get("kernel", [model.kernel])}
            coarse["gamma"] = values.get("gamma", [model.gamma])
            coarse["alpha"] = sorted({alphas[0], alphas[len(alphas) // 2], alphas[-1]})
            both, tops = replace(self, criterion="both"), {}
            for name in sorted(metrics, key="plain".__ne__):
                tried, best = both.by_folds(settings_of(coarse), {"metric": name})
                table += tried
                tops[name] = tried[best].aucs
            (metric, plain), *others = tops.items()
            for name, aucs in others:
                metric = name if beats(aucs, plain) else metric
        if metric == "plain":
            found, best = self.by_closed_form(values)
        else:
            found, best = self.by_folds(settings_of(values), {"metric": metric})
        return table + found, len(table) + best

    def by_closed_form(self, values: dict[str, list[Any]]) -> Tried:
        """Every setting for all ridges at once."""
        model, rows = self.model, self.rows.merged()[0]
        # A row whose copy (or whose further weight) stays would be told from others by that.
        rows = replace(rows, weight=np.minimum(rows.weight, 1.0), forward=False)
        alphas = np.array(
            values.pop("alpha", [getattr(model, "alpha", 0.1)]), dtype=np.float64
        )
        table: list[Judged] = []
        R = rows.responses()
        starts = np.searchsorted(
            rows.codes[rows.codes >= 0], np.arange(rows.n_tasks + 1)
        )
        unseen = self.criterion == "unseen"
        of_tasks = np.split(np.arange(starts[-1]), starts[1:-1]) if unseen else None
        leaving, judged = None, np.ones(rows.n_tasks, dtype=bool)
        if rows.group is not None:  # tasks of one group cannot be judged
            leaving = [left.gone for left in leaving_together(rows)]
            judged = np.isin(
                np.arange(rows.n_tasks), [rows.codes[gone[0]] for gone in leaving]
            )
        for setting in counted(settings_of(values)):
            gram = Gram.of(rows, clone(model).set_params(metric="plain", **setting))
            if model.can.left_out_grid == "each task":
                scores = independent_score_grid(gram, rows, alphas)
            else:
                K = gram.matrix()
                ridges = effective_alpha(alphas, float(np.diagonal(K) @ rows.weight))
                with one_blas_thread(len(K)):
                    gaps = left_out_gaps(K, R, ridges, rows.weight, of_tasks, leaving)
                scores = -np.abs(gaps, out=gaps)
            found = task_aucs(scores, rows.codes, rows.outlier, rows.weight)
            for alpha, aucs in zip(alphas.tolist(), found, strict=True):
                entry = {**setting, "alpha": alpha, "metric": "plain"}
                table.append(
                    Judged(entry, np.where(judged, aucs, np.nan), "closed form")
                )
        return table, _best(table)

    def by_folds(self, settings: list[dict[str, Any]], fixed: Any = ()) -> Tried:
        """Every setting by folds, everything refitted inside."""
        # Copies must not be judged by models that have seen them: one row, with the weight of all.
        table: list[Judged] = []
        rows = self.rows.merged()[0]
        stage = "metric" if self.criterion == "both" else "folds"
        for setting in counted(settings):
            setting = {**dict(fixed), **setting}
            score = partial(scores_of, clone(self.model).set_params(**setting), rows)
            table.append(Judged(setting, fold_aucs(score, rows, self.criterion), stage))
        return table, _best(table)


def scores_of(
    model: MultiTaskOneClass, rows: TrainingRows, kept: Codes, judged: Codes
) -> Array:
    """Scores (m, T) of some rows against all tasks of a model of others, for `tune`.

    Parameters
    ----------
    model : MultiTaskOneClass
    rows : TrainingRows
    kept, judged : ndarray
        Numbers of the rows to fit to and of the m rows to score.

    Returns
    -------
    ndarray of shape (m, T)
        T tasks that have normal rows among those kept, in the order of their codes.
    """
    part = rows.take(kept)
    used = np.unique(part.codes[~part.outlier])
    part = replace(
        part,
        codes=renumbered(part.codes, used),
        n_tasks=len(used),
        columns=None if rows.columns is None else kept,
    )
    return learn(model, part, left_out=False).scorer.all(rows.X[judged])


def _best(table: list[Judged]) -> int:
    """Number of the best setting, the first of equals; 0 where none could be judged."""
    best, top = 0, -np.inf
    for number, entry in enumerate(table):
        if (mean := finite_mean(entry.aucs)) > top:
            best, top = number, mean
    return best
