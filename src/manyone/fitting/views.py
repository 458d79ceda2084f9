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
    calibrations : tuple of Calibration
        Of the views.
    scorer : CombinedScorer
    """

    judges: tuple[Judge, ...]
    calibrations: tuple[Calibration, ...]
    scorer: CombinedScorer

    def of(self, rows: CodedRows) -> Tails:
        """Combined left-out scores of rows whose tasks are numbers."""
        left_out = [judge.judged(rows) for judge in self.judges]
        scores = combined_left_out(self.scorer, self.calibrations, left_out, rows)
        seen = seen_scores(scores, rows, self.scorer.own)
        return Tails.known(scores, rows, len(self.scorer.tails[0].spread), seen)


def combined_left_out(
    scorer: CombinedScorer,
    calibrations: Sequence[Calibration],
    left_out: Sequence[Array],
    rows: CodedRows,
) -> Array:
    """Scores (n,) of rows that no view has seen, from those (n,) of each view.

    A row that is far out makes the unit of its task large. New rows have no part in
    units, so a row that was left out has none in its own. NaN for known outliers.
    """
    values = [
        tail.pooled_value(calibration.scaled(scores, rows.weight, rows.codes))
        for tail, calibration, scores in zip(
            scorer.tails, calibrations, left_out, strict=True
        )
    ]
    scores = scorer.combine(np.column_stack(values))
    return np.where(rows.outlier, np.nan, scores)


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
        tails.append(Tail.of(*known.pooled(), known.units(), far))
        able.append(weight_of(known.scores, codes, known.weight, far))
    counts = relative_weights(able) if weights is None else weights
    solutions = tuple(view.solution_ for view in views)
    scorer = CombinedScorer(solutions, tuple(tails), counts)
    calibrations = tuple(view.calibration_ for view in views)
    judge_views = JudgeViews(tuple(judges), calibrations, scorer)
    return _calibrated(scorer, source.reduce(judge_views))


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
    calibrations = tuple(view.calibration_ for view in views)
    added = JudgeViews(tuple(judges), calibrations, scorer).of(more)
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
        spread = view.calibration_.units()
        spread[new] = tail.spread[stays]
        state = view.solution_.state
        if isinstance(state, Sums):
            spread[new] *= np.broadcast_to(state.scale, len(spread))[new]
        tails.append(replace(tail, spread=spread))
    return replace(
        scorer, views=tuple(view.solution_ for view in views), tails=tuple(tails)
    )
