"""Several views of rows in blocks, and one alarm: every view by passes, then one pass for both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyone.calibration.tails import Tails, kept_scores
from manyone.engines.blocks import Block
from manyone.models.combined import CombinedScorer, Tail, weight_of


@dataclass(frozen=True, eq=False)
class JudgeViews:
    """The pass that leaves every row out of all views at once.

    Rows that shaped the landmarks of a view are not judged.

    Parameters
    ----------
    tasks : ndarray of shape (T,)
    judges : tuple
        The last pass of each view, whose ``of(rows, out)`` gives left-out scores.
    scorer : CombinedScorer
    """

    tasks: NDArray[Any]
    judges: tuple[Any, ...]
    scorer: CombinedScorer

    def partial(self, block: Block) -> Tails:
        """Combined left-out scores of one block."""
        rows = block.checked().coded(self.tasks)
        values = np.full((len(rows.codes), len(self.judges)), np.nan)
        for k, (judge, tail) in enumerate(zip(self.judges, self.scorer.tails, strict=True)):
            judge.of(rows, values[:, k])
            values[:, k] = tail.value(values[:, k], rows.codes)
        scores = self.scorer.combine(values)
        known, kept = ~np.isnan(scores) & ~rows.outlier, kept_scores(len(self.tasks))
        return Tails.of(scores[known], rows.codes[known], rows.weight[known], kept)

    def merge(self, one: Tails, other: Tails) -> Tails:
        """Scores of both."""
        return one.merged(other)


def combined(
    views: list[Any], judges: list[Any], sweep: Any, weights: Any, rule: str
) -> tuple[CombinedScorer, Tails]:
    """The combination of views that were fitted by passes, and its left-out scores.

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
        able.append(max(weight_of(known.scores, codes, known.weight, far), 1e-6))
    counts = np.array(able) / max(able) if weights is None else np.asarray(weights, dtype=float)
    scorer = CombinedScorer(tuple(view.solution_ for view in views), tuple(tails), counts, rule)
    return scorer, sweep(JudgeViews(views[0].tasks_, tuple(judges), scorer))
