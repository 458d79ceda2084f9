"""Fits by passes over blocks of rows: the same few lines, wherever the blocks are.

An engine is a function ``sweep(step)``: it calls ``step.partial(block)`` for every block and merges
what comes back, two neighbours at a time, by ``step.merge``. Steps and what they return can be
pickled; neither grows with the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np

from manyone._types import Labels
from manyone.calibration.tails import Tails, seen_scores
from manyone.capabilities import DECLARED, methods_that
from manyone.data.blocks import Block, RowsBlock
from manyone.data.checks import refuse_landmarks, warn_of_copies
from manyone.data.hashing import row_hashes
from manyone.data.rows import TrainingRows
from manyone.data.sample import Sample, TakeSample, refuse_unusable
from manyone.fitting.independent import TaskPlans
from manyone.fitting.left_out import KnownScores, scores_by_folds
from manyone.fitting.metric import metric_of
from manyone.fitting.plan import Plan, sample_size, seed_of
from manyone.kernels.gram import Gram
from manyone.kernels.kernel import VALUES_ONLY, Kernel
from manyone.metric.shrinkage import TaskWhitenings, Whitening
from manyone.models.guards import guarded_by, nearness_of, raw_kernel
from manyone.models.scorers import behind_metric
from manyone.models.solution import Solution
from manyone.progress import counted
from manyone.threads import threads_for_blocks

# Metrics that sums over rows give.
_METRICS = ("plain", "whitened")


class Step(Protocol):
    """One pass over all blocks."""

    def partial(self, block: Any) -> Any:
        """What one block gives."""

    def merge(self, one: Any, other: Any) -> Any:
        """What two sets of blocks give together, `other` being the one that follows `one`."""


#: Runs one pass over all blocks.
Sweep = Callable[[Any], Any]


def local_sweep(blocks: Iterable[Block]) -> Sweep:
    """One block after the other, in this process.

    Parameters
    ----------
    blocks : iterable of Block
        Iterated over anew by every pass.

    Returns
    -------
    callable
    """

    def sweep(step: Step) -> Any:
        parts = map(
            step.partial, counted(blocks) if isinstance(blocks, Sized) else blocks
        )
        try:
            first = next(parts)
        except StopIteration:
            raise ValueError("There is no block of rows: give at least one.") from None
        return reduce(step.merge, parts, first)

    return sweep


def fit(model: Any, sweep: Sweep) -> Any:
    """Fit an estimator with `landmarks` to rows that only passes over blocks can see.

    The first pass samples rows of every task, and landmarks and widths are chosen from them; the
    second adds up statistics, which are solved; the third leaves every row out and keeps what
    thresholds and p-values need of its score. A whitened metric takes one more, after the first.
    Methods that learn from a sample (``can.sample_rows``) are fitted to it as to any rows in memory
    where it holds all of them.

    Parameters
    ----------
    model : estimator
        One that declares ``can.blocks``, with landmarks; a :class:`~manyone.CombinedOneClass` of
        such, or an :class:`~manyone.AutoOneClass`.
    sweep : callable
        Runs a pass: ``sweep(step)`` is ``step.partial`` of all blocks, merged by ``step.merge``.

    Returns
    -------
    model
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from manyone import JointOCKSR
    >>> from manyone.engines import Block, fit, local_sweep
    >>> rng = np.random.default_rng(0)
    >>> blocks = [Block(rng.normal(size=(50, 2)), ["ann", "bob"] * 25) for _ in range(3)]
    >>> model = fit(JointOCKSR(landmarks=20, random_state=0), local_sweep(blocks))
    >>> model.tasks_.tolist(), model.calibration_.counts.tolist()
    (['ann', 'bob'], [75.0, 75.0])
    """
    if not hasattr(model, "_fit_passes"):
        raise ValueError(
            "engines.fit takes an estimator with landmarks, a CombinedOneClass of such, or an "
            f"AutoOneClass; got a {type(model).__name__}. Transform rows where blocks are made, "
            "and fit the last step. TableModel.fit takes files, functions and Dask frames."
        )
    return model._fit_passes(sweep)


def refuse_whole_rows(model: Any, groups: Any) -> None:
    """Raise where a model wants all rows at once and they come in blocks."""
    if why := why_whole_rows(model, groups):
        able = methods_that("blocks")
        if hasattr(model, "estimators"):
            able = [name for name in able if DECLARED[name].updates]
        raise ValueError(
            f"{why}, but X comes in blocks. Use {' or '.join(able)} with landmarks=1000 "
            "or so."
        )


def why_whole_rows(model: Any, groups: Any) -> str:
    """Why a model has to see all rows at once; empty where passes over blocks will do."""
    if hasattr(model, "estimators"):
        for name, view in model._views():
            why = why_whole_rows(view, groups)
            if why or not view.can.updates:
                return why or f"The view {name!r} is a {type(view).__name__}"
        return ""
    if not getattr(model, "can", None) or not model.can.blocks:
        return f"{type(model).__name__} needs all rows in memory"
    if model.landmarks is None:
        return "Without landmarks all rows are needed in memory"
    if model.kernel in VALUES_ONLY:
        return f"kernel={model.kernel!r} has no rows"
    if model.metric not in _METRICS:
        return f"metric={model.metric!r} needs all rows in memory"
    if groups is not None:
        return "groups= needs all rows in memory, as those of a group may be in many blocks"
    return ""


@dataclass(frozen=True)
class Seen:
    """What a pass has seen: number of rows, and the sum of their hashes in any order."""

    n_rows: int
    hashes: int

    def __add__(self, other: Seen) -> Seen:
        """What two passes over different rows have seen."""
        return Seen(self.n_rows + other.n_rows, (self.hashes + other.hashes) % 2**64)


@dataclass(frozen=True)
class _Watched:
    """A step that also says which rows it saw; blocks without rows give nothing."""

    step: Step

    def partial(self, block: Block) -> tuple[Seen, Any] | None:
        """What one block gives."""
        if np.shape(block.X)[0] == 0:
            return None
        checked = block.checked()
        hashes = int(row_hashes(checked.X).sum(dtype=np.uint64))
        return Seen(checked.X.shape[0], hashes), self.step.partial(checked)

    def merge(self, one: Any, other: Any) -> Any:
        """What two sets of blocks give together."""
        if one is None:
            return other
        if other is None:
            return one
        return one[0] + other[0], self.step.merge(one[1], other[1])


class SteadySweep:
    """Passes that must all see the same rows: sums of different rows are no model.

    Parameters
    ----------
    sweep : callable
        Runs a pass.
    """

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._first: Seen | None = None

    def __call__(self, step: Step) -> Any:
        """Run a pass, and compare what it saw with what the first one saw."""
        merged = self._sweep(_Watched(step))
        if merged is None:
            raise ValueError("No block has a row: give at least one row.")
        seen, result = merged
        first = seen if self._first is None else self._first
        self._first = first
        if seen == first:
            return result
        change = (
            f"the first pass saw {first.n_rows:,} rows, a later one {seen.n_rows:,}"
        )
        if seen.n_rows == first.n_rows:
            change = f"two passes saw {seen.n_rows:,} rows of different values"
        raise ValueError(
            f"The rows of X changed during the fit: {change}. A function must yield the same rows "
            "whenever it is called; write rows that are random, or still arrive, to a file first."
        )


def steady(sweep: Sweep) -> Sweep:
    """Passes that notice when rows change."""
    watched = isinstance(sweep, SteadySweep | RowsSweep)
    return sweep if watched else SteadySweep(sweep)


def fit_by_passes(model: Any, sweep: Sweep) -> Any:
    """Fit one estimator with landmarks; see `fit`."""
    calibrate = model.alarm_rate is not None
    return fit_judged(model, steady(sweep), calibrate=calibrate)[0]


class RowsSweep:
    """Passes over training rows at hand, which are one block.

    Parameters
    ----------
    block : RowsBlock
    """

    def __init__(self, block: RowsBlock) -> None:
        self.block = block

    def __call__(self, step: Step) -> Any:
        """Run a pass."""
        return step.partial(self.block)


def sweep_of_rows(model: Any, rows: TrainingRows, tasks: Labels) -> RowsSweep:
    """Passes over rows at hand, whose columns the model knows already."""
    names = getattr(model, "feature_names_in_", None)
    columns = getattr(model, "label_columns_", {})
    return RowsSweep(RowsBlock(rows, tasks, names, columns))


class Solved(NamedTuple):
    """A model of landmarks, and what follows from it.

    Attributes
    ----------
    solution : Solution
        Behind its metric, without guards.
    plan : Plan or TaskPlans
    sample : Sample
    tails : Tails or None
        Left-out scores; None: there is no closed form.
    judge : Any
        Has ``judged(rows)``; None as well.
    """

    solution: Solution
    plan: Any
    sample: Sample
    tails: Tails | None
    judge: Any


def solved(model: Any, sweep: Sweep, kernel: Kernel | None = None) -> Solved:
    """Sample, metric, landmarks and solution of rows, wherever they are.

    The model is not changed. Without a kernel, its width follows from the sample.
    """
    seed = seed_of(model.random_state)
    whitened = model.metric == "whitened"
    metric: Whitening | TaskWhitenings | None = None
    grouped = None
    if isinstance(sweep, RowsSweep):
        refuse_landmarks(sweep.block.rows, model.landmarks)
        if sweep.block.rows.group is not None:
            grouped = sweep.block.rows
    if model.metric == "adaptive":
        assert isinstance(sweep, RowsSweep)
        rows = replace(sweep.block.rows, group=None)
        metric, rows = model._learned_metric(rows)
        sweep = RowsSweep(replace(sweep.block, rows=rows))
    least = 1 if model.can.joint else model.landmarks + 1
    size = max(sample_size(model.landmarks), model.can.sample_rows)
    sample = sweep(TakeSample(size, seed, whitened, least))
    refuse_unusable(sample)
    # Two layers are learned from the sample by BLAS; all else is blocks of rows.
    spread = nullcontext() if model.can.sample_rows else threads_for_blocks()
    with np.errstate(under="ignore"), spread:
        if whitened:
            metric = metric_of(sample, sweep)
        plan = _planned(model, sample, seed, metric, grouped, kernel)
        solution, tails = model._solve_passes(plan, sweep, sample)
    judge = solution.judge
    solution = behind_metric(replace(solution, judge=None), metric)
    return Solved(solution, plan, sample, tails, judge)


def fit_judged(model: Any, sweep: Sweep, *, calibrate: bool) -> tuple[Any, Any]:
    """The fitted model, and what gives the left-out scores of its rows."""
    model._validate_params()
    found = solved(model, sweep)
    plan, sample, tails, judge = found[1:]
    remember_columns(model, sample)
    with np.errstate(under="ignore"):
        solution = guarded_by(found.solution, plan.nearness)
    rows = sweep.block.rows if isinstance(sweep, RowsSweep) else None
    # So few rows shape the metric much: thresholds come from folds.
    size = max(sample_size(model.landmarks), model.can.sample_rows)
    shaped = plan.metric is not None and not (
        plan.metric.shared and sample.n_rows > size
    )
    grouped = rows is not None and rows.group is not None
    if tails is None or shaped or (grouped and judge is None):
        if rows is None:
            rows = sample.rows().by_task()
        solution, tails, judge = _by_folds(model, plan, solution, rows)
    elif grouped:
        solution = replace(solution, left_out_source="leave-group-out")
    elif solution.left_out_source.startswith("leave-one-out"):
        warn_of_copies(sample.X[~sample.outlier], sample.weight[~sample.outlier])
    calibration = tails.calibration(len(plan.tasks), solution.left_out_source)
    model._warn(solution, sample.X)
    model.training_ = no_rows(len(plan.tasks))
    model.tasks_ = plan.tasks
    model.solution_ = solution
    model.__dict__.pop("calibration_", None)
    if calibrate:
        model.calibration_ = calibration
    model._set_offsets(model.alarm_rate if calibrate else None)
    return model, judge


def no_rows(n_tasks: int) -> TrainingRows:
    """What a model that has seen its rows in blocks keeps of them."""
    none = np.zeros(0, dtype=np.intp)
    return TrainingRows(
        np.empty((0, 0)), none, none.astype(bool), np.zeros(0), none, n_tasks
    )


def _by_folds(
    model: Any, plan: Any, solution: Solution, rows: TrainingRows
) -> tuple[Solution, Tails, KnownScores]:
    """Solution, tails and scores of rows at hand that are judged by refits without them."""
    scores = scores_by_folds(model, solution, rows, plan)
    normal = np.flatnonzero(~rows.outlier)
    seen = seen_scores(scores, rows, solution.own)
    tails = Tails.known(scores, rows, rows.n_tasks, seen)
    state = solution.state
    if state is not None:
        state = replace(state, tails=tails)
    known = KnownScores.among(rows.take(normal), scores[normal])
    solution = replace(solution, left_out_source="folds", state=state)
    return solution, tails, known


def _planned(
    model: Any,
    sample: Sample,
    seed: int,
    metric: Whitening | TaskWhitenings | None,
    grouped: TrainingRows | None,
    kernel: Kernel | None,
) -> Any:
    """The plan for a sample, or one for each large task, with the parameters of an estimator.

    Rows that have groups say themselves how far from each other is usual.
    """
    rows = sample.rows()
    moved = rows
    if metric is not None:
        moved = replace(rows, X=metric.apply(rows.X, rows.codes))
    kernel = Gram.of(moved, model, kernel).points.kernel
    kind: Any = Plan if model.can.joint else TaskPlans
    plan = kind.of(kernel, rows, sample.tasks, model.landmarks, seed, metric)
    size = max(sample_size(model.landmarks), model.can.sample_rows)
    if metric is not None and sample.n_rows <= size:
        plan = replace(plan, drawn=row_hashes(sample.X))
    elif model.can.joint:
        plan = plan.learned(sample, model.alpha)
    if not kernel.fading:
        return plan
    # A task with nearly all rows must not make those of all others unusual.
    rows = sample.rows(own_weight=True).by_task() if grouped is None else grouped
    all_rows = model.can.joint and sample.whole and len(rows.codes) <= model.landmarks
    if metric is not None:
        kernel = raw_kernel(kernel, rows.X)
    return replace(plan, nearness=nearness_of(kernel, rows, all_rows=all_rows)[0])


def remember_columns(model: Any, sample: Sample) -> None:
    """Say how many columns there are, and their names."""
    model.n_features_in_ = sample.X.shape[1]
    model.label_columns_ = dict(sample.label_columns)
    vars(model).pop("feature_names_in_", None)
    if sample.names is not None:
        model.feature_names_in_ = sample.names
