"""Several views of rows in blocks, and one alarm: every view by passes, then one pass for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from manyone._types import Array, Codes, Labels
from manyone.calibration import Calibration
from manyone.calibration.tails import IntoTails, Tails, seen_scores
from manyone.data.labels import lookup
from manyone.data.rows import CodedRows, TrainingRows, codes_without
from manyone.data.sweeps import Source
from manyone.fitting.joint import Sums
from manyone.fitting.updates import UpdatedMethod, enrolled
from manyone.models.combined import (
    CombinedScorer,
    Tail,
    combined_scorer,
    relative_weights,
    weight_of,
)
from manyone.models.solution import Judge, Solution


class View(UpdatedMethod, Protocol):
    """A fitted estimator as a view."""

    tasks_: Labels
    calibration_: Calibration

    def _become_sums(
        self, solution: Solution, tails: Tails, tasks: Labels
    ) -> Judge | None: ...

    def _forgotten(
        self, code: int, X: object, outlier: object, sample_weight: object
    ) -> Self: ...


#: A combination of views, and its calibration.
Combined = tuple[Solution, Calibration]


@dataclass(frozen=True, eq=False)
class GivenScores(Judge):
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
    judges : tuple of Judge
        Of the views.
    scorer : CombinedScorer
    """

    judges: tuple[Judge, ...]
    scorer: CombinedScorer

    def of(self, rows: CodedRows) -> Tails:
        """Combined left-out scores of rows whose tasks are numbers."""
        pairs = zip(self.judges, self.scorer.tails, strict=True)
        values = [tail.value(judge.judged(rows), rows.codes) for judge, tail in pairs]
        scores = self.scorer.combine(np.column_stack(values))
        scores = np.where(rows.outlier, np.nan, scores)
        seen = seen_scores(scores, rows, self.scorer.own)
        return Tails.known(scores, rows, len(self.scorer.tails[0].spread), seen)


def combined(
    views: Sequence[View],
    judges: Sequence[Judge],
    source: Source,
    weights: Array | None,
) -> Combined:
    """The combination of fitted views, and its calibration.

    Parameters
    ----------
    views : list of estimator
    judges : list of Judge
    source : Source
        The rows that the views were fitted to.
    weights : ndarray of shape (V,) or None
    """
    tails = []
    able = []
    for view in views:
        far = view.solution_.scorer.far()
        known = view.calibration_
        codes = np.repeat(np.arange(len(view.tasks_)), np.diff(known.starts))
        pool, weight, units = known.pooled()
        tails.append(Tail.of(pool, weight, units, far))
        able.append(weight_of(known.scores, codes, known.weight, far))
    counts = relative_weights(able) if weights is None else weights
    solutions = tuple(view.solution_ for view in views)
    scorer = CombinedScorer(solutions, tuple(tails), counts)
    return _calibrated(scorer, source.reduce(JudgeViews(tuple(judges), scorer)))


def _calibrated(scorer: CombinedScorer, tails: Tails) -> Combined:
    source = max(view.left_out_source for view in scorer.views)
    calibration = tails.calibration(len(scorer.tails[0].spread), source)
    return Solution(scorer, None, source, state=tails), calibration


def enrolled_views(
    solution: Solution, views: Sequence[View], more: TrainingRows, tasks: Labels
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
    judges = []
    for view in views:
        judge = view._become_sums(*enrolled(view, more, tasks))
        assert judge is not None
        judges.append(judge)
    scorer = _changed(combined_scorer(solution), views, codes)
    tails = solution.state
    assert isinstance(tails, Tails)
    added = JudgeViews(tuple(judges), scorer).of(more)
    return _calibrated(scorer, tails.recoded(codes).merged(added))


def forgotten_views(
    solution: Solution, views: Sequence[View], code: int, *rows: object
) -> Combined:
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
    tails = solution.state
    assert isinstance(tails, Tails)
    return _calibrated(scorer, tails.recoded(codes))


def _changed(
    scorer: CombinedScorer, views: Sequence[View], codes: Codes
) -> CombinedScorer:
    """The scorer of views that have changed, with other numbers for the tasks they had (T,)."""
    stays = codes >= 0
    new = codes[stays]
    tails = []
    for view, tail in zip(views, scorer.tails, strict=True):
        spread = view.calibration_.pooled()[2].copy()
        spread[new] = tail.spread[stays]
        state = view.solution_.state
        if isinstance(state, Sums):
            spread[new] *= np.broadcast_to(state.scale, len(spread))[new]
        tails.append(replace(tail, spread=spread))
    return replace(
        scorer, views=tuple(view.solution_ for view in views), tails=tuple(tails)
    )
