"""Several views of rows in blocks, and one alarm: every view by passes, then one pass for both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyone._types import Codes
from manyone.calibration import Calibration
from manyone.calibration.tails import IntoTails, Tails
from manyone.engines.blocks import Block
from manyone.engines.updates import enrolled
from manyone.groups import likeness
from manyone.labels import lookup
from manyone.models.combined import (
    CombinedScorer,
    Tail,
    combined_scorer,
    relative_weights,
    weight_of,
)
from manyone.models.solution import Solution
from manyone.rows import CodedRows, TrainingRows, codes_without

#: A combination of views, and its calibration.
Combined = tuple[Solution, Calibration]


@dataclass(frozen=True, eq=False)
class JudgeViews(IntoTails):
    """The pass that leaves every row out of all views at once.

    Rows that shaped the landmarks of a view are not judged. Scores are taken in units of the spread
    that their task has with the row, not without it as in memory: the rate holds all the same.

    Parameters
    ----------
    tasks : ndarray of shape (T,)
    judges : tuple
        The last pass of each view, whose ``judged(rows)`` gives left-out scores.
    scorer : CombinedScorer
    alike : float or None
        See :class:`~manyone.engines.Plan`.
    """

    tasks: NDArray[Any]
    judges: tuple[Any, ...]
    scorer: CombinedScorer
    alike: float | None = None

    def partial(self, block: Block) -> Tails:
        """Combined left-out scores of one block."""
        return self.of(block.checked().coded(self.tasks))

    def of(self, rows: CodedRows) -> Tails:
        """Combined left-out scores of rows whose tasks are numbers."""
        pairs = zip(self.judges, self.scorer.tails, strict=True)
        values = [tail.value(judge.judged(rows), rows.codes) for judge, tail in pairs]
        scores = self.scorer.combine(np.column_stack(values))
        scores = np.where(rows.outlier, np.nan, scores)
        return Tails.known(scores, rows, len(self.tasks), self.alike)


def combined(
    views: list[Any], judges: list[Any], sweep: Any, weights: Any, rule: str
) -> Combined:
    """The combination of views that were fitted by passes, and its calibration.

    Parameters
    ----------
    views : list of estimator
    judges : list
        See :class:`JudgeViews`.
    sweep : callable
        Runs a pass, see :func:`manyone.engines.fit`.
    weights : array-like of shape (V,) or None
    rule : {"sum", "max"}
    """
    tails, able = [], []
    for view in views:
        far, known = view.solution_.scorer.far(), view.calibration_
        codes = np.repeat(np.arange(len(view.tasks_)), np.diff(known.starts))
        tails.append(Tail.of(known, far))
        able.append(weight_of(known.scores, codes, known.weight, far))
    counts = (
        relative_weights(able) if weights is None else np.asarray(weights, dtype=float)
    )
    scorer = CombinedScorer(
        tuple(view.solution_ for view in views), tuple(tails), counts, rule
    )
    return _calibrated(
        scorer, sweep(JudgeViews(views[0].tasks_, tuple(judges), scorer))
    )


def _calibrated(
    scorer: CombinedScorer, tails: Tails, alike: float | None = None
) -> Combined:
    source = max(view.left_out_source for view in scorer.views)
    calibration = tails.calibration(len(scorer.tails[0].spread), source)
    learned = {"tails": tails, "alike": alike}
    return Solution(scorer, None, source, learned=learned), calibration


def with_tails(solution: Solution, rows: TrainingRows) -> Solution:
    """The combination of rows in memory, with what more rows are added to."""
    assert solution.left_out is not None
    alike = None if rows.group is None else likeness(solution.left_out, rows)
    tails = Tails.known(solution.left_out, rows, rows.n_tasks, alike)
    return replace(
        solution, learned={**solution.learned, "tails": tails, "alike": alike}
    )


def enrolled_views(
    solution: Any, views: list[Any], more: TrainingRows, tasks: NDArray[Any]
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
    codes, alike = lookup(views[0].tasks_, tasks), solution.learned.get("alike")
    if more.group is None and alike is not None:
        more = replace(more, group=more.codes + 1)
    judges = [view._become_sums(*enrolled(view, more, tasks)) for view in views]
    scorer = _changed(combined_scorer(solution), views, codes)
    found = JudgeViews(tasks, tuple(judges), scorer, alike).of(more)
    return _calibrated(
        scorer, solution.learned["tails"].recoded(codes).merged(found), alike
    )


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
    tails, alike = (
        solution.learned["tails"].recoded(codes),
        solution.learned.get("alike"),
    )
    return _calibrated(scorer, tails, alike)


def _changed(scorer: CombinedScorer, views: list[Any], codes: Codes) -> CombinedScorer:
    """The scorer of views that have changed, with other numbers for the tasks they had (T,)."""
    tails, kept = [], codes >= 0
    for view, tail in zip(views, scorer.tails, strict=True):
        spread, scale = (
            view.calibration_.spread.copy(),
            view.solution_.learned["sums"].scale,
        )
        spread[codes[kept]] = (scale * np.ones(len(spread)))[codes[kept]] * tail.spread[
            kept
        ]
        tails.append(replace(tail, spread=spread))
    return replace(
        scorer, views=tuple(view.solution_ for view in views), tails=tuple(tails)
    )
