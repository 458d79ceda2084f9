"""Several views of rows in blocks, and one alarm: every view by passes, then one pass for both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyone._types import Array, Codes, Labels
from manyone.calibration import Calibration
from manyone.calibration.tails import IntoTails, Tails, seen_scores
from manyone.data.blocks import Block
from manyone.data.labels import lookup
from manyone.data.rows import CodedRows, TrainingRows, codes_without
from manyone.fitting.updates import enrolled
from manyone.models.combined import (
    CombinedScorer,
    Tail,
    combined_scorer,
    relative_weights,
    weight_of,
)
from manyone.models.solution import Solution

#: A combination of views, and its calibration.
Combined = tuple[Solution, Calibration]


@dataclass(frozen=True, eq=False)
class GivenScores:
    """Left-out scores (n,) of the rows at hand, in their order."""

    scores: Array

    def judged(self, rows: CodedRows) -> Array:
        """See :class:`Judge`."""
        return self.scores


@dataclass(frozen=True, eq=False)
class JudgeViews(IntoTails):
    """The pass that leaves every row out of all views at once.

    Rows that shaped the landmarks of a view are not judged.

    Parameters
    ----------
    tasks : ndarray of shape (T,)
    judges : tuple
        The last pass of each view, whose ``judged(rows)`` gives left-out scores.
    scorer : CombinedScorer
    """

    tasks: Labels
    judges: tuple[Any, ...]
    scorer: CombinedScorer

    def partial(self, block: Block) -> Tails:
        """Combined left-out scores of one block."""
        return self.of(block.checked().coded(self.tasks))

    def of(self, rows: CodedRows) -> Tails:
        """Combined left-out scores of rows whose tasks are numbers."""
        pairs = zip(self.judges, self.scorer.tails, strict=True)
        values = [tail.value(judge.judged(rows), rows.codes) for judge, tail in pairs]
        scores = self.scorer.combine(np.column_stack(values))
        scores = np.where(rows.outlier, np.nan, scores)
        seen = seen_scores(scores, rows, self.scorer.own)
        return Tails.known(scores, rows, len(self.tasks), seen)


def combined(views: list[Any], judges: list[Any], sweep: Any, weights: Any) -> Combined:
    """The combination of fitted views, and its calibration.

    Parameters
    ----------
    views : list of estimator
    judges : list
        See :class:`JudgeViews`.
    sweep : callable
        Runs a pass, see :func:`manyone.engines.fit`.
    weights : array-like of shape (V,) or None
    """
    tails = []
    able = []
    for view in views:
        far = view.solution_.scorer.far()
        known = view.calibration_
        codes = np.repeat(np.arange(len(view.tasks_)), np.diff(known.starts))
        pool, weight = known.pool()
        tails.append(Tail.of(pool, weight, known.spread, far))
        able.append(weight_of(known.scores, codes, known.weight, far))
    counts = (
        relative_weights(able) if weights is None else np.asarray(weights, dtype=float)
    )
    scorer = CombinedScorer(
        tuple(view.solution_ for view in views), tuple(tails), counts
    )
    return _calibrated(
        scorer, sweep(JudgeViews(views[0].tasks_, tuple(judges), scorer))
    )


def _calibrated(scorer: CombinedScorer, tails: Tails) -> Combined:
    source = max(view.left_out_source for view in scorer.views)
    calibration = tails.calibration(len(scorer.tails[0].spread), source)
    return Solution(scorer, None, source, state=tails), calibration


def enrolled_views(
    solution: Any, views: list[Any], more: TrainingRows, tasks: Labels
) -> Combined:
    """The same with more rows, which every view gets; weights and tail values stay what they were.

    New rows get left-out scores under the new views, those that were there keep theirs.

    Parameters
    ----------
    solution : Solution
        Of a combination that has kept its tails.
    views : list of estimator
        Are changed.
    more : TrainingRows
    tasks : ndarray of shape (T,)
        Labels of both.
    """
    codes = lookup(views[0].tasks_, tasks)
    judges = [view._become_sums(*enrolled(view, more, tasks)) for view in views]
    scorer = _changed(combined_scorer(solution), views, codes)
    added = JudgeViews(tasks, tuple(judges), scorer).of(more)
    return _calibrated(scorer, solution.state.recoded(codes).merged(added))


def forgotten_views(solution: Any, views: list[Any], code: int, *rows: Any) -> Combined:
    """The same without a task, which every view forgets; weights and tail values stay.

    Parameters
    ----------
    solution : Solution
        Of a combination that was fitted by passes.
    views : list of estimator
        Are changed.
    code : int
        The task.
    *rows
        Rows of the task, which of them are outliers, and their weights; or None.
    """
    codes = codes_without(code, len(views[0].tasks_))
    for view in views:
        view._forgotten(code, *rows)
    scorer = _changed(combined_scorer(solution), views, codes)
    return _calibrated(scorer, solution.state.recoded(codes))


def _changed(scorer: CombinedScorer, views: list[Any], codes: Codes) -> CombinedScorer:
    """The scorer of views that have changed, with other numbers for the tasks they had (T,)."""
    tails = []
    kept = codes >= 0
    for view, tail in zip(views, scorer.tails, strict=True):
        spread = view.calibration_.spread.copy()
        scale = view.solution_.state.scale
        spread[codes[kept]] = (scale * np.ones(len(spread)))[codes[kept]] * tail.spread[
            kept
        ]
        tails.append(replace(tail, spread=spread))
    return replace(
        scorer, views=tuple(view.solution_ for view in views), tails=tuple(tails)
    )
