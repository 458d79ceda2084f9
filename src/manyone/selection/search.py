"""The search for a setting, and the rule that decides between settings.

Settings come in stages, the preferred one first. A judge (see
:mod:`manyone.selection.criteria`) gives values for each. Another setting than the
preferred one is taken only if it is better by some number of standard errors of the
paired difference, at every kind of anomaly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from manyone._types import Array, Labels
from manyone.calibration.folds import FEWEST_TASKS_TO_HALVE
from manyone.capabilities import Grid
from manyone.data.rows import TrainingRows
from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.joint import JointOCKSR
from manyone.messages import warn_user
from manyone.selection.costs import FEWEST_ROWS, rows_to_judge_by
from manyone.selection.criteria import (
    Judge,
    Setting,
    closed_form_areas,
    content_sample,
    fault_areas,
    finite_mean,
    fold_areas,
    synthetic_faults,
    without_suspects,
)
from manyone.threads import one_blas_thread

Seed = int | np.random.RandomState | None
#: Parameters that :class:`JointOCKSR` has too.
SHARED = ("kernel", "gamma", "width", "degree", "coef0", "alpha", "metric")

#: Standard errors by which a setting must be better to replace the preferred one. In
#: the grid of a user no setting is preferred.
NO_PREFERENCE = 0.0
#: For another method; and for a metric or a strength that strangers judge.
ERRORS_OF_ONE = 1.0
#: For a setting that made faults judge: real ones may be different. And of some twenty
#: settings the luckiest is often a standard error ahead of the preferred one.
ERRORS_OF_FAULTS = 3.0

_FAULT_METRICS = ("whitened", "plain")
_FAULT_KERNELS: Grid = {"kernel": ("laplacian", "rbf"), "width": (3.0, 1.0, 0.3, 0.1)}
_FAULT_STRENGTHS: Grid = {"alpha": (0.01, 0.1, 1.0), "nu": (0.02, 0.1, 0.5)}


class Judged(NamedTuple):
    """A setting, its values (kinds, m), and the stage of the search."""

    setting: Setting
    values: Array
    stage: str

    @property
    def score(self) -> float:
        """Mean of the values that there are."""
        return finite_mean(self.values)


def preferred(judged: list[Judged], errors: float) -> int:
    """Number of the setting to take: the first, or the best that beats it.

    Parameters
    ----------
    judged : list of Judged
        The preferred one first.
    errors : float
        Standard errors of the paired difference by which another one must be better, at
        every kind of anomaly; 0: the best mean, the first of equals.

    Returns
    -------
    int
    """
    scores = np.nan_to_num([entry.score for entry in judged], nan=-np.inf)
    best = 0
    for number, contender in enumerate(judged):
        pairs = zip(contender.values, judged[0].values, strict=True)
        clearly = errors == 0.0 or all(_beats(*pair, errors) for pair in pairs)
        if clearly and scores[number] > scores[best]:
            best = number
    return best


def _beats(new: Array, old: Array, errors: float) -> bool:
    """Whether new values are better, by so many standard errors of the difference."""
    gain = new - old
    gain = gain[np.isfinite(gain)]
    if len(gain) < 2:
        return False
    return bool(gain.mean() > errors * gain.std(ddof=1) / np.sqrt(len(gain)))


@dataclass
class Search:
    """What was tried, and the best setting so far.

    Attributes
    ----------
    rows : TrainingRows
        Rows that settings are judged by.
    table : list of Judged
    best : int
        Its place in the table.
    """

    rows: TrainingRows
    table: list[Judged] = field(default_factory=list)
    best: int = 0

    @property
    def setting(self) -> Setting:
        """The best setting so far."""
        return self.table[self.best].setting if self.table else {}

    def go_on(
        self,
        stage: str,
        judge: Judge,
        settings: list[Setting],
        errors: float,
        *,
        beside: bool = False,
    ) -> None:
        """Judge settings, and take the best one.

        Parameters
        ----------
        stage : str
        judge : callable
        settings : list of dict
            The preferred one first.
        errors : float
            See :func:`preferred`.
        beside : bool
            Prefer the best setting so far, which the same judge has judged.
        """
        contenders = [self.best] if beside else []
        for setting, values in zip(settings, judge(settings), strict=True):
            contenders.append(len(self.table))
            self.table.append(Judged(setting, values, stage))
        if contenders:
            judged = [self.table[number] for number in contenders]
            self.best = contenders[preferred(judged, errors)]

    def one_at_a_time(
        self,
        stage: str,
        judge: Judge,
        values: Mapping[str, Iterable[object]],
        errors: float,
    ) -> None:
        """Try other values of one parameter after the other, from the best so far."""
        for name, options in values.items():
            current = self.setting
            settings: list[Setting] = [
                {**current, name: value}
                for value in options
                if value != current.get(name)
            ]
            self.go_on(stage, judge, settings, errors, beside=True)


def settings_of(grid: Mapping[str, Iterable[object]]) -> list[Setting]:
    """All combinations of the values of a grid; those of `alpha` change fastest."""
    names = sorted(grid, key=lambda name: (name == "alpha", name))
    combinations = product(*(grid[name] for name in names))
    return [dict(zip(names, values, strict=True)) for values in combinations]


def columns_of(lines: list[dict[str, object]]) -> dict[str, Labels]:
    """Lines of a table as arrays, by the names of the first line."""
    columns = {}
    for name in lines[0]:
        values = [line[name] for line in lines]
        # NumPy would turn numbers beside texts into texts.
        is_mixed = len({isinstance(value, str) for value in values}) > 1
        columns[name] = np.array(values, dtype=object if is_mixed else None)
    return columns


def choose_setting(
    model: MultiTaskOneClass,
    rows: TrainingRows,
    values: Grid,
    criterion: str,
    own_grid: bool,
    max_rows: int | str | None = "auto",
    random_state: Seed = None,
) -> Search:
    """Judge the settings of a grid on rows; see `tune`.

    Parameters
    ----------
    model : MultiTaskOneClass
    rows : TrainingRows
    values : dict of str to list
        The grid.
    criterion, max_rows, random_state
        As in `tune`.
    own_grid : bool
        Whether the grid is the method's own, which is searched with more caution.

    Returns
    -------
    Search
    """
    rows = _rows_to_judge_by(rows, max_rows, values)
    fewest = FEWEST_TASKS_TO_HALVE
    if own_grid:
        # Halves of so few tasks say little about a metric: no user has asked for one.
        fewest *= 2
    narrow = rows.X.shape[1] < 2 or rows.n_tasks < fewest
    if criterion != "faults" and narrow and "plain" in values.get("metric", ()):
        values = {**values, "metric": ["plain"]}
    search = Search(rows)
    # Most of the work is done on folds, with about half of the rows.
    with np.errstate(under="ignore"), one_blas_thread(len(rows.codes) // 2):
        if criterion == "faults":
            _search_by_faults(search, model, values, own_grid, random_state)
        else:
            _search_by_strangers(search, model, values, criterion, own_grid)
    if np.isnan(search.table[search.best].score):
        needed = "tasks of two or more distinct rows"
        if criterion != "faults":
            needed += ", and rows of other tasks or known outliers to tell them from"
        warn_user(
            f"No setting could be judged: that needs {needed}. The first setting was "
            "taken."
        )
    return search


def _rows_to_judge_by(
    rows: TrainingRows, max_rows: int | str | None, values: Grid
) -> TrainingRows:
    """The rows to search on: all, `max_rows`, or as many as there is time for."""
    if max_rows is None:
        return rows
    if isinstance(max_rows, str):
        if len(rows.codes) <= FEWEST_ROWS:
            return rows
        sizes = [len(options) for name, options in values.items() if name != "alpha"]
        max_rows = rows_to_judge_by(math.prod(sizes))
    return content_sample(rows, max_rows)


def _search_by_strangers(
    search: Search,
    model: MultiTaskOneClass,
    values: Grid,
    criterion: str,
    own_grid: bool,
) -> None:
    """Choose the parameters of the ridge regression, then the method's strengths."""
    judge = partial(fold_areas, model, search.rows, criterion)
    if model.can.left_out_grid is None:
        search.go_on("folds", judge, settings_of(values), NO_PREFERENCE)
        return
    shared = {name: options for name, options in values.items() if name in SHARED}
    strengths = {
        name: options for name, options in values.items() if name not in SHARED
    }
    if shared or not strengths:
        _search_ridges(search, _as_ridge(model), shared, criterion, own_grid)
    if strengths:
        current = {name: getattr(model, name) for name in strengths}
        combinations = settings_of(strengths)
        if own_grid:
            combinations.sort(key=lambda setting: setting != current)
        settings = [{**search.setting, **setting} for setting in combinations]
        errors = ERRORS_OF_ONE if own_grid else NO_PREFERENCE
        search.go_on("folds", judge, settings, errors)


def _as_ridge(model: MultiTaskOneClass) -> MultiTaskOneClass:
    """The ridge regression whose closed form judges settings of a method."""
    if model.can.left_out_grid == "each task":
        return model
    params = model.get_params()
    ridge = JointOCKSR()
    for name in ridge.get_params():
        setattr(ridge, name, params[name])
    return ridge


def _search_ridges(
    search: Search,
    ridge: MultiTaskOneClass,
    values: Grid,
    criterion: str,
    own_grid: bool,
) -> None:
    """Choose the metric by folds, then the rest by closed forms or folds."""
    alphas = values.get("alpha", [getattr(ridge, "alpha", 0.1)])
    rest = {**values, "alpha": alphas}
    metrics = rest.pop("metric", [ridge.metric])
    metric = metrics[0]
    if len(metrics) > 1:
        # For the metric a coarse grid is enough. In doubt it stays plain.
        middle = alphas[len(alphas) // 2]
        coarse = {name: rest[name] for name in rest if name in ("kernel", "gamma")}
        coarse["alpha"] = sorted({alphas[0], middle, alphas[-1]})
        both = partial(fold_areas, ridge, search.rows, "both")
        for name in sorted(metrics, key=lambda name: name != "plain"):
            settings = settings_of({**coarse, "metric": [name]})
            beside = len(search.table) > 0
            errors = ERRORS_OF_ONE if beside else NO_PREFERENCE
            search.go_on("metric", both, settings, errors, beside=beside)
        metric = search.setting["metric"]
    judge = partial(fold_areas, ridge, search.rows, criterion)
    stage = "folds"
    if metric == "plain":
        judge = partial(closed_form_areas, ridge, search.rows, criterion)
        stage = "closed form"
    if metric == "plain" or not own_grid:
        settings = settings_of({**rest, "metric": [metric]})
        search.go_on(stage, judge, settings, NO_PREFERENCE)
        return
    # Refits take long: one parameter at a time, from the best of the coarse grid.
    start = {name: getattr(ridge, name) for name in rest} | search.setting
    search.go_on(stage, judge, [start], NO_PREFERENCE)
    search.one_at_a_time(stage, judge, rest, NO_PREFERENCE)


def fault_grid(model: MultiTaskOneClass) -> Grid:
    """The settings that are tried for faults."""
    adaptive = ("adaptive",) if model.can.task_metric else ()
    return {"metric": (*adaptive, *_FAULT_METRICS), **_FAULT_KERNELS}


def faults_to_judge_by(
    rows: TrainingRows, random_state: Seed, twins: int = 1
) -> tuple[TrainingRows, Array]:
    """Rows that are surely normal, and faults (twins, 2, n, d) made from them."""
    rows = without_suspects(rows.merged()[0])
    # None always makes the same faults.
    rng = check_random_state(0 if random_state is None else random_state)
    return rows, np.stack([synthetic_faults(rows, rng) for _ in range(twins)])


def _search_by_faults(
    search: Search,
    model: MultiTaskOneClass,
    values: Grid,
    own_grid: bool,
    random_state: Seed,
) -> None:
    """Choose metric and kernel, then strengths one by one, by made faults."""
    rows, faults = faults_to_judge_by(search.rows, random_state)
    judge = partial(fault_areas, model, rows, faults)
    settings = sorted(settings_of(values), key=_preference_for_faults)
    search.go_on("faults", judge, settings, ERRORS_OF_FAULTS)
    if not own_grid:
        return
    params = model.get_params()
    strengths = {
        name: [value for value in options if value != params[name]]
        for name, options in _FAULT_STRENGTHS.items()
        if name in params
    }
    search.one_at_a_time("faults", judge, strengths, ERRORS_OF_FAULTS)


def _preference_for_faults(setting: Setting) -> tuple[bool, bool, bool, float]:
    """Sort key: adaptive metrics, Laplacian kernels and wide ones come first."""
    metric = setting.get("metric")
    width = setting.get("width", 1.0)
    assert isinstance(width, float | int)
    kernel = setting.get("kernel")
    return metric != "adaptive", metric == "plain", kernel != "laplacian", -width
