r"""Folds: rows that a model is fitted without, to judge them or to judge settings.

**Dealing** (:func:`assign_folds`). Folds are cut inside the tasks. Rows of a task are
dealt to the folds in turn, in the order of their mean similarity to all rows. So every
fold has rows from the middle of the task and from its border. Copies share a fold, else
a row would be judged by a model that has seen it. So do rows of a group. Blocks of time
are dealt in their order, and earlier ones judge later ones.

**Left-out scores** (:func:`solve_with_folds`). The whole fit is repeated without each
fold. Models of fewer rows respond less to all rows. So their scores are multiplied by
:math:`f / f_k`, with f the score of a row far from everything by the model of all rows,
and :math:`f_k` that by the model without fold k. (In a null space, f is the distance of
a target from the others.) Further refits, without about twice as
many rows, tell what a row more is worth (:mod:`.equal_terms`). And rows that both
models have seen tell what a row that leaves does to the others of its task
(:mod:`.borrowing`).

**Settings** are judged by folds that also hold out half of the tasks
(:func:`halved_splits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product, starmap
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Codes, Mask, Rows
from manyone.calibration.borrowing import mean_root_depths
from manyone.calibration.equal_terms import Moved, Round, on_equal_terms
from manyone.data.groups import first_judged, looks_ahead, order_by_content
from manyone.data.rows import TrainingRows, row_blocks
from manyone.kernels.gram import Points
from manyone.kernels.kernel import Kernel
from manyone.models.guards import unguarded
from manyone.models.scale import sizes_of
from manyone.models.scorers import InMetric, Projection
from manyone.models.solution import Solution
from manyone.progress import counted
from manyone.threads import LARGE, blas_threads, one_blas_thread

# With so many rows in a task, a model without a fold is as good as one with it.
_LARGE = 100
# Similarities that differ by less, as a share of the largest, are level.
_TIE = 1e-9
#: Folds that settings are judged by.
JUDGING_FOLDS = 3
#: A half of fewer tasks has a single one, and the model no other task to tell it from.
FEWEST_TASKS_TO_HALVE = 4

#: Fits a model to the rows of the first numbers, and scores those of the second.
Refit = Callable[[Codes, Codes], tuple[Solution, Array]]


def solve_with_folds(
    fit_all: Callable[[], Solution],
    refit: Refit,
    similarity: Array,
    rows: TrainingRows,
    number: int = 10,
    *,
    with_shift: bool = False,
) -> Solution:
    """A model with the score of every normal row by a model that has not seen it.

    The fit is repeated without each fold, then without two at a time, half as often.
    Small models are fitted side by side.

    Parameters
    ----------
    fit_all : callable
        Returns the model of all rows.
    refit : callable
    similarity : ndarray of shape (n,)
        Rows are dealt in this order.
    rows : TrainingRows
    number : int
        Most folds.
    with_shift : bool
        Whether to measure what a row that leaves does to the others of its task.
        (Models on landmarks keep no rows to measure it with, and methods that know both
        do without it in either case.)

    Returns
    -------
    Solution
        Left-out scores are on the terms of new rows. The only distinct row of a task
        has its score by the model of all rows. NaN: known outliers, the only group of a
        task, the first block of a task in time.
    """
    fold = assign_folds(rows, similarity, number)
    folds = folds_of(rows, fold)
    next_blocks = blocks_after(rows, fold, folds)
    seen_rows = [fold_rows[:0] for fold_rows, _ in folds]
    if with_shift:
        seen_rows = [_rows_for_shifts(rows, fold_rows) for fold_rows, _ in folds]
    refits = [
        (kept_rows, np.concatenate([held, after, seen]))
        for (kept_rows, held), after, seen in zip(
            folds, next_blocks, seen_rows, strict=True
        )
    ]
    n_folds = len(refits)
    refits += folds_of_two(rows, fold)
    # Small fits run side by side, each on one thread.
    workers = blas_threads() if len(rows.codes) < LARGE else 1
    if workers == 1:
        solution = fit_all()
        results = list(starmap(refit, counted(refits)))
    else:
        with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            first = pool.submit(fit_all)
            mapped = pool.map(refit, *zip(*refits, strict=True))
            results = [
                result for _, result in zip(counted(refits), mapped, strict=True)
            ]
            solution = first.result()
    size = _size_of_scores(solution)
    once = _round(folds, results[:n_folds], rows, size)
    left_out = Moved(once.scores)
    if n_folds < len(refits):
        twice = _round(refits[n_folds:], results[n_folds:], rows, size)
        normal = np.where(rows.outlier, 0.0, rows.weight)
        counts = np.bincount(rows.codes + 1, normal, rows.n_tasks + 1)[1:]
        later = None
        if rows.forward:
            later = _round_after(folds, next_blocks, results[:n_folds], rows, size)
        left_out = on_equal_terms(
            once,
            twice,
            rows.codes,
            rows.weight,
            counts.astype(np.float64),
            solution.scorer.far(),
            later,
        )
    shift = None
    if with_shift:
        shift = _shift(folds, seen_rows, results[:n_folds], solution, rows)
    return replace(
        solution,
        left_out=left_out.scores,
        drift=left_out.drift,
        responses=None,
        shift=shift,
        left_out_source="folds",
        fixed="",
    )


def _rows_for_shifts(rows: TrainingRows, kept_rows: Codes) -> Codes:
    """Rows that stay and tell what a row that leaves does to the others of its task.

    They are the normal rows of small tasks; none where groups leave.
    """
    if rows.group is not None:
        return kept_rows[:0]
    normal = ~rows.outlier
    counts = np.bincount(rows.codes[normal], rows.weight[normal], rows.n_tasks)
    is_small = np.append(counts < _LARGE, False)[rows.codes]
    return kept_rows[(normal & is_small)[kept_rows]]


def _shift(
    folds: list[tuple[Codes, Codes]],
    seen_rows: list[Codes],
    results: list[tuple[Solution, Array]],
    solution: Solution,
    rows: TrainingRows,
) -> Array:
    """How much mean root depths (n,) of a task grow when the fold of a row leaves.

    Over rows that both models have seen, that of all rows and that without the fold;
    see :mod:`.borrowing`.
    """

    def mean_roots(scores: Array, seen: Codes, model: Solution) -> Array:
        """Mean root depth of each task (T,), of rows by number and their scores."""
        codes = rows.codes[seen]
        depth = scores / sizes_of(model.scorer.far(), rows.n_tasks)[codes]
        return mean_root_depths(depth, rows.weight[seen], codes, rows.n_tasks)

    shift = np.zeros(len(rows.codes))
    usable = _rows_for_shifts(rows, np.arange(len(rows.codes)))
    scores = np.full(len(rows.codes), np.nan)
    scores[usable] = solution.own(rows.as_new(usable), rows.codes[usable])
    for (_, held), seen, (refitted, judged) in zip(
        folds, seen_rows, results, strict=True
    ):
        without = mean_roots(judged[len(judged) - len(seen) :], seen, refitted)
        growth = without - mean_roots(scores[seen], seen, solution)
        shift[held] = growth[rows.codes[held]]
    return shift


def _round_after(
    folds: list[tuple[Codes, Codes]],
    next_blocks: list[Codes],
    results: list[tuple[Solution, Array]],
    rows: TrainingRows,
    size: Array | None,
) -> Round | None:
    """Scores of the blocks of time after those held out; None: there are none."""
    later = [
        ((kept_rows, after), (refitted, scores[len(held) :]))
        for (kept_rows, held), after, (refitted, scores) in zip(
            folds, next_blocks, results, strict=True
        )
        if len(after)
    ]
    if not later:
        return None
    refits, parts = map(list, zip(*later, strict=True))
    return _round(refits, parts, rows, size)


def _round(
    refits: list[tuple[Codes, Codes]],
    results: list[tuple[Solution, Array]],
    rows: TrainingRows,
    size: Array | None,
) -> Round:
    """Scores of rows by refits without them, in units of the model of all rows."""
    scores = np.full(len(rows.codes), np.nan)
    kept_weight = np.full(len(rows.codes), np.nan)
    normal = np.where(rows.outlier, 0.0, rows.weight)
    for (kept_rows, held), (refitted, of_held) in zip(refits, results, strict=True):
        codes = rows.codes[held]
        scores[held] = of_held[: len(held)]
        counts = np.bincount(
            rows.codes[kept_rows] + 1, normal[kept_rows], rows.n_tasks + 1
        )
        kept_weight[held] = counts[codes + 1]
        refitted_size = _size_of_scores(refitted)
        if size is not None and refitted_size is not None:
            # Models of fewer rows respond less. (Without this, a threshold may fall
            # between their scores and those of the model of all rows.)
            with np.errstate(divide="ignore", invalid="ignore"):
                unit = np.clip(np.nan_to_num(size / refitted_size, nan=1.0), 0.5, 2.0)
            scores[held] *= unit[codes]
    return Round(scores, kept_weight)


def _size_of_scores(model: Solution) -> Array | None:
    """What scores (T,) are multiples of, in models of more or fewer rows; None: unknown.

    It is the score of a row far from everything. A null space has no such row: with few
    rows, normal ones may lie farther out. There it is how far targets are apart. (By
    rows far away, two tasks of 10 rows, one of them wider, raised 12.2 % of 10:
    ``benchmarks/bench_promises.py "one wider 10 x 2" --methods KNFST``.)
    """
    scorer = unguarded(model.scorer)
    if isinstance(scorer, InMetric):
        scorer = scorer.scorer
    if isinstance(scorer, Projection) and len(scorer.targets) > 1:
        return scorer.apart()
    return scorer.far()


def folds_of(rows: TrainingRows, fold: Codes) -> list[tuple[Codes, Codes]]:
    """Numbers of the rows to fit to and to score in each fold, longest fits first.

    So a thread that starts last has the least to do.
    """
    all_rows = np.arange(len(fold))
    refits = []
    stays = np.flatnonzero((fold < 0) & ~rows.outlier)
    if rows.group is None and len(stays):
        refits.append((all_rows, stays))
    ahead, begin = _looking_ahead(rows, fold)
    # Later folds have no more rows of a task, and later blocks of time have more before
    # them.
    for k in reversed(range(fold.max() + 1)):
        # Too few rows come before the first blocks, which are not judged.
        out = (fold == k) & (k >= begin)
        later = ahead & (fold > k) & (k >= begin)
        if out.any():
            refits.append((all_rows[~out & ~later], all_rows[out]))
    return refits


def _looking_ahead(rows: TrainingRows, fold: Codes) -> tuple[Mask, Codes]:
    """Rows that earlier blocks judge, and the first judged block of their task (n,)."""
    if rows.group is None:
        nothing = np.zeros(len(fold), dtype=np.intp)
        return nothing.astype(bool), nothing
    # Outliers of every task, whose number MISSING picks the last entry, do not look.
    ahead = np.append(looks_ahead(rows), False)[rows.codes]
    n_blocks = np.zeros(rows.n_tasks + 1, dtype=np.intp)
    np.maximum.at(n_blocks, rows.codes, fold + 1)
    begin = first_judged(n_blocks)[rows.codes]
    return ahead, np.where(ahead, begin, 0)


def blocks_after(
    rows: TrainingRows, fold: Codes, folds: list[tuple[Codes, Codes]]
) -> list[Codes]:
    """Numbers of the rows of the block of time after each fold."""
    ahead, begin = _looking_ahead(rows, fold)
    return [
        np.flatnonzero(ahead & (fold == k + 1) & (k >= begin))
        for k in (int(fold[held[0]]) for _, held in folds)
    ]


def folds_of_two(rows: TrainingRows, fold: Codes) -> list[tuple[Codes, Codes]]:
    """As `folds_of`, with two folds (n,) of each task at once: see :mod:`.equal_terms`.

    Large tasks have none, as a fold is no loss to them. Nor have tasks of three rows
    and fewer, as models of a single row are no guide. Blocks of time are judged by
    earlier ones without the oldest: the time between is the same, and rows are fewer.
    Other groups have none.
    """
    dealt = fold >= 0
    all_rows = np.arange(len(fold))
    if rows.group is not None:
        ahead, begin = _looking_ahead(rows, fold)
        judged = [ahead & (fold == k) & (k >= begin) for k in range(fold.max() + 1)]
        return [
            (all_rows[~ahead | ((fold > 0) & (fold < k))], all_rows[judged[k]])
            for k in reversed(range(len(judged)))
            if judged[k].any()
        ]
    if not dealt.any():
        return []
    counts = np.bincount(rows.codes[dealt], rows.weight[dealt], rows.n_tasks)
    folds = np.zeros(rows.n_tasks, dtype=np.intp)
    np.maximum.at(folds, rows.codes[dealt], fold[dealt] + 1)
    used = (folds > 3) & (counts < _LARGE)
    fewer = np.maximum(-(-folds // 2), 2)
    twice = np.where(dealt & used[rows.codes], fold % fewer[rows.codes], -1)
    return [
        (all_rows[twice != k], all_rows[twice == k])
        for k in reversed(range(twice.max() + 1))
    ]


def assign_folds(
    rows: TrainingRows,
    similarity: Array | None,
    number: int,
    *,
    deal_outliers: bool = False,
) -> Codes:
    """Number of the fold of each row, folds cut inside each task.

    Rows of a task are dealt in the order of their similarity to all rows, and of equal
    ones in the order of their content. Copies and rows of a group share a fold; blocks
    of time are dealt in their order.

    Parameters
    ----------
    rows : TrainingRows
    similarity : ndarray of shape (n,) or None
        None: all rows are equally similar.
    number : int
        Most folds.
    deal_outliers : bool
        Whether known outliers are dealt as well, as if they were one more task.

    Returns
    -------
    ndarray of shape (n,)
        0 to `number` - 1; -1 in a task that has one distinct row only, and for known
        outliers that are not dealt.
    """
    dealt = np.flatnonzero(~rows.outlier | deal_outliers)
    owner = np.where(rows.outlier, rows.n_tasks, rows.codes)[dealt]
    level = np.zeros(len(dealt)) if similarity is None else similarity[dealt]
    unit = rows.content[dealt]
    if rows.group is not None:
        # Outliers of all tasks are dealt together: names of tasks must not order them.
        place_of_task = np.append(np.argsort(content_order(rows)), rows.n_tasks)
        groups = place_of_task[rows.codes] * (rows.group.max() + 1) + rows.group
        unit = np.unique(groups[dealt], return_inverse=True)[1]
        weight = rows.weight[dealt]
        mean = np.bincount(unit, weight * level) / np.bincount(unit, weight)
        level = np.zeros(len(dealt)) if rows.forward else mean[unit]
    order = np.lexsort((unit, _ranks(level), owner))
    unit = unit[order]
    owner = owner[order]
    distinct = np.ones(len(order), dtype=bool)
    distinct[1:] = (np.diff(unit) != 0) | (np.diff(owner) != 0)
    units = np.bincount(owner[distinct], minlength=rows.n_tasks + 1)
    place = np.cumsum(distinct) - 1 - (np.cumsum(units) - units)[owner]
    count = units[owner]
    folds = np.clip(count, 1, number)
    shift = np.zeros(rows.n_tasks + 1, dtype=np.intp)
    if similarity is not None:
        # Tasks start at different folds. (Otherwise the rows that lie farthest out in
        # their tasks would all share a fold.)
        weight = np.where(rows.outlier, 0.0, rows.weight)
        codes = np.maximum(rows.codes, 0)
        counts = np.bincount(codes, weight, rows.n_tasks)
        total = np.bincount(codes, weight * similarity, rows.n_tasks)
        rank = _ranks(total / np.where(counts > 0.0, counts, 1.0))
        first = np.argsort(content_order(rows))
        shift[np.lexsort((first, rank))] = np.arange(rows.n_tasks)
    turn = (place + shift[owner]) % folds
    if rows.forward:
        turn = place * folds // count
    fold = np.full(len(rows.codes), -1, dtype=np.intp)
    fold[dealt[order]] = np.where((count > 1) | (owner == rows.n_tasks), turn, -1)
    return fold


def _ranks(values: Array) -> Codes:
    """Rank of each value. Values that differ by rounding only share one, everywhere."""
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    tie_tolerance = _TIE * np.max(np.abs(ascending), initial=0.0)
    rank = np.empty(len(values), dtype=np.intp)
    rank[order] = np.cumsum(np.diff(ascending, prepend=ascending[:1]) > tie_tolerance)
    return rank


class Split(NamedTuple):
    """One way to judge a setting, as masks over the rows.

    Attributes
    ----------
    train : ndarray of bool of shape (n,)
        Rows to fit to.
    test : ndarray of bool of shape (n,)
        Rows to judge by: held out of `train`, or of tasks that are not in the model.
    enrolled : ndarray of bool of shape (n,)
        Rows whose task is in the model, and known outliers without a task.
    """

    train: Mask
    test: Mask
    enrolled: Mask


def halved_splits(rows: TrainingRows, kind: str) -> Iterator[Split]:
    """Three folds inside the tasks, for one half of the tasks and then for the other.

    A model is fitted to two folds of every task of a half. Rows of the third fold are
    its positives. The negatives of a task are the rows of other tasks: of those in the
    model (``"seen"``), from the same fold, or of the other half (``"unseen"``), all of
    them. So the same models judge both kinds of anomaly. Fewer than four tasks are not
    halved for ``"seen"``: in a half, a task would have no negatives.

    The only normal row (or group) of a task stays in the model, which would not know
    the task without it. Known outliers are dealt to the folds as well; those without a
    task are in both halves. Splits without a row to fit to, or to judge by, are left
    out.

    Parameters
    ----------
    rows : TrainingRows
    kind : {"seen", "unseen", "both"}
        Where the negatives will come from.

    Yields
    ------
    Split
    """
    fold = assign_folds(rows, None, JUDGING_FOLDS, deal_outliers=True)
    half = np.empty(rows.n_tasks, dtype=np.intp)
    half[content_order(rows)] = np.arange(rows.n_tasks) % 2
    if kind == "seen" and rows.n_tasks < FEWEST_TASKS_TO_HALVE:
        half[:] = 0
    # Outliers of every task, whose number MISSING picks the last entry, are in both.
    half_of_row = np.append(half, -1)[rows.codes]
    normal = ~rows.outlier
    for side, k in product(range(2), range(JUDGING_FOLDS)):
        enrolled = (half_of_row == side) | (rows.codes < 0)
        train = enrolled & (fold != k)
        split = Split(train, (fold == k) | ~enrolled, enrolled)
        if np.any(train & normal) and np.any(split.test & enrolled & normal):
            yield split


def content_order(rows: TrainingRows) -> Codes:
    """Tasks (T,) in the order of the content of their rows."""
    of_task = np.flatnonzero(rows.codes >= 0)
    codes = rows.codes[of_task]
    content = rows.content[of_task]
    return order_by_content(codes, content, rows.weight[of_task], rows.n_tasks)


def similarity_of(X: Rows, rows: TrainingRows, kernel: Kernel) -> Array:
    """Mean similarity (n,) of rows to normal ones, or to 2,000 of them."""
    points = replace(rows, X=X).take(np.flatnonzero(~rows.outlier)).merged()[0]
    # By their content: in a metric, copies of a row may differ by rounding.
    content = np.unique(points.content)
    if len(content) > 2000:
        spread = np.linspace(0, len(content) - 1, 2000).astype(np.intp)
        points = points.take(np.flatnonzero(np.isin(points.content, content[spread])))
    similarity = np.empty(len(rows.codes))
    share = points.weight / points.weight.sum()
    for block, K in Points(kernel, points.X).blocks(X):
        similarity[block] = mean_similarity(K, share)
    return similarity


def mean_similarity(K: Array, share: Array) -> Array:
    """Weighted mean (n,) of the lines of a kernel matrix (n, m); 0 where it is rounding.

    In a centred kernel it is: rounding would order rows, on every machine otherwise.
    """
    similarity = np.asarray(K @ share)
    if K.min(initial=0.0) < 0.0:
        for block in row_blocks(len(K), K.shape[1]):
            is_rounding = np.abs(similarity[block]) <= _TIE * (np.abs(K[block]) @ share)
            similarity[block][is_rounding] = 0.0
    return similarity
