r"""Several detectors as views of one row, made comparable by how rare their scores are.

The left-out scores of a view, on the scale that makes tasks comparable
(:mod:`.scale`), form one pool of N scores. The *tail value* of a row is

.. math:: z = -\log P(\text{a normal row scores lower}),

where the pool gives the probability by counting. Counts end at log N, and the farthest
rows would be level. So below the lowest 15 % of the pool an exponential tail continues
z, with the mean excess of these scores. The combined score is minus the weighted sum of
the tail values of all views.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyone._types import Array, Codes, Rows
from manyone.kernels.gram import Points
from manyone.metric.robust import task_medians
from manyone.models.guards import Guarded, unguarded
from manyone.models.scale import Scale
from manyone.models.scorers import Scorer
from manyone.models.solution import Solution

# The exponential tail replaces this share of the pool, the lowest scores.
_TAIL = 0.15


@dataclass(frozen=True, eq=False)
class Tail:
    """Tail values of scores, from the left-out scores of a view.

    Parameters
    ----------
    scores : ndarray of shape (m,)
        Pool of left-out scores on the common scale, ascending.
    values : ndarray of shape (m,)
        Tail value at each of them.
    slope : float
        How fast tail values grow below the lowest of these scores.
    scale : Scale
        What makes scores of tasks comparable.
    """

    scores: Array
    values: Array
    slope: float
    scale: Scale

    @classmethod
    def of(
        cls, pool: Array, weight: Array, scale: Scale, far: Array | None = None
    ) -> Tail:
        """Learn the tail of a calibrated view.

        Parameters
        ----------
        pool, weight : ndarray of shape (m,)
            Left-out scores on the common scale, ascending, and their counts.
        scale : Scale
        far : ndarray of shape (T,) or None
            Scores of rows far from everything: the size of responses, whose
            differences scores are.

        Returns
        -------
        Tail
        """
        mass = np.cumsum(weight)
        total = mass[-1]
        values = -np.log((mass + 0.5) / (total + 1.0))
        # The mean excess of an exponential law; of few scores that of the lowest.
        lowest = pool[0] + 1e-9 * (1.0 + abs(pool[0]))
        second = np.searchsorted(pool, lowest, side="right")
        first = max(np.searchsorted(mass, _TAIL * total), second)
        first = min(first, len(pool) - 1)
        tail = slice(0, first + 1)
        with np.errstate(under="ignore"):
            below = float((pool[first] - pool[tail]) @ weight[tail])
        excess = below / max(_TAIL * float(total), 1.0)
        # (A guard may have lowered scores far below those of rows far away.)
        farthest = pool if far is None else scale.of_all(far)
        size = max(1e-4, float(np.max(np.abs(farthest))))
        # A steeper tail would amplify rounding in scores that are nearly constant. And
        # of scores that differ by rounding, the most normal one counts for all.
        steepest = 1e3 / size
        sheared = values + steepest * pool
        level = np.minimum.accumulate(sheared[::-1])[::-1] - steepest * pool
        slope = steepest if excess * steepest <= 1.0 else 1.0 / excess
        return cls(pool[first:], level[first:], slope, scale)

    def value(self, scores: Array, codes: Codes) -> Array:
        """Tail values (n,) of the scores (n,) of rows of tasks (n,), by number."""
        return self.pooled_value(self.scale.of(scores, codes))

    def pooled_value(self, scores: Array) -> Array:
        """Tail values of scores that are on the common scale already."""
        below = np.maximum(self.scores[0] - scores, 0.0)
        above = np.maximum(scores - self.scores[-1], 0.0)
        counted = np.interp(scores, self.scores, self.values)
        fading = np.exp(-np.minimum(self.slope * above, 50.0))
        return counted * fading + self.slope * below


def weight_of(left_out: Array, codes: Codes, weight: Array, far: Array | None) -> float:
    """Weight of a view: ``10 (1 - m)``, between 0 and 1.

    m is the median score of left-out rows, in units of the score of a row far from
    everything. With many columns and few rows, all new rows are nearly that far away in
    a view, which then tells them apart by chance.

    Parameters
    ----------
    left_out, codes, weight : ndarray of shape (n,)
        Score, task and count of each row.
    far : ndarray of shape (T,) or None
        Scores of rows far from everything; None: the view has none.

    Returns
    -------
    float
    """
    if far is None or not len(left_out) or not np.all(far < 0.0):
        return 1.0
    ratio = (left_out / far[codes])[:, None]
    median = task_medians(ratio, np.zeros_like(codes), weight, 1)[0, 0]
    return float(np.clip((1.0 - median) / 0.1, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class CombinedScorer:
    """Score: minus the weighted sum of the tail values of several views.

    Parameters
    ----------
    views : tuple of Solution
    tails : tuple of Tail
    weights : ndarray of shape (V,)
    """

    views: tuple[Solution, ...]
    tails: tuple[Tail, ...]
    weights: Array

    @property
    def points(self) -> Points:
        """Refused: each view has points of its own."""
        raise AttributeError(
            "A combination of views has no points of its own: ask its views_."
        )

    def values(self, X: Rows, codes: Codes) -> Array:
        """Tail values (n, V) of rows in views: how abnormal they look there."""
        views = zip(self.views, self.tails, strict=True)
        values = [tail.value(view.own(X, codes), codes) for view, tail in views]
        return np.column_stack(values)

    def combine(self, values: Array) -> Array:
        """Score of tail values (..., V), shape (...)."""
        return -(values @ self.weights)

    def own(self, X: Rows, codes: Codes) -> Array:
        """See :class:`manyone.models.scorers.Scorer`."""
        return self.combine(self.values(X, codes))

    def all(self, X: Rows) -> Array:
        """See :class:`manyone.models.scorers.Scorer`."""
        values = []
        for view, tail in zip(self.views, self.tails, strict=True):
            scores = tail.scale.of_all(view.all(X))
            values.append(tail.pooled_value(scores))
        return self.combine(np.stack(values, axis=-1))

    def far(self) -> Array | None:
        """See :class:`manyone.models.scorers.Scorer`."""
        return None  # the views have guards of their own

    def of_views(self, scores: list[Array | None]) -> Array | None:
        """Score (T,) of rows that have these scores (T,) in the views; None: unknown."""
        values = []
        for of_view, tail in zip(scores, self.tails, strict=True):
            if of_view is None:
                return None
            values.append(tail.pooled_value(tail.scale.of_all(of_view)))
        return self.combine(np.stack(values, axis=-1))


def lowest_scores(scorer: Scorer) -> Array | None:
    """Highest scores (T,) of rows unlike all seen; None: no guard can be sure."""
    drops = []
    while isinstance(scorer, Guarded):
        drops += [scorer.unit * guard.sure() for guard in scorer.guards]
        scorer = scorer.scorer
    far = scorer.far()
    candidates = []
    if isinstance(scorer, CombinedScorer):
        far = scorer.of_views([view.scorer.far() for view in scorer.views])
        lowest = scorer.of_views([lowest_scores(view.scorer) for view in scorer.views])
        if lowest is not None:
            candidates.append(lowest)
    if far is not None:
        candidates += [far - drop for drop in drops if drop > 0.0]
    return np.max(candidates, axis=0) if candidates else None


def combined_scorer(solution: Solution) -> CombinedScorer:
    """The scorer of a combination, without its guards."""
    scorer = unguarded(solution.scorer)
    assert isinstance(scorer, CombinedScorer)
    return scorer
