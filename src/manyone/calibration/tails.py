"""Left-out scores of any number of rows in bounded memory, exact in the tail.

The lowest scores of every task are kept as they are. Scores above them are rounded
down, to a hundredth of their size, and counted. P-values there are at most a little too
large, and never too small. Merging is exact: the order of rows and blocks does not
matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manyone._types import Array, Codes, Mask
from manyone.calibration.dependence import calibration_weight
from manyone.calibration.thresholds import Calibration
from manyone.data.rows import CodedRows, TrainingRows

# Most exact scores of a task.
_MOST = 2**16
# Binary digits of the other scores.
_DIGITS = 7


@dataclass(frozen=True, eq=False)
class Tails:
    """Scores of rows, sorted by task and score; equal scores are counted.

    Attributes
    ----------
    scores, weight : ndarray of shape (k,)
    codes : ndarray of shape (k,)
        Task of each.
    rounded : ndarray of bool of shape (k,)
        Which scores are rounded down, by up to a hundredth.
    n_exact : int
        Number of scores of a task that are exact.
    seen : ndarray of shape (k,)
        Scores under the model of all rows, infinite where unknown: see
        :mod:`~manyone.calibration.copies`.
    responses : ndarray of shape (k, 2)
        See :class:`~manyone.solvers.ridge.LeftOutRows`; NaN where unknown.
    stands_for : ndarray of shape (k,)
        Rows that each stands for; the weight is less where they are dependent.
    """

    scores: Array
    weight: Array
    codes: Codes
    rounded: Mask
    n_exact: int
    seen: Array
    responses: Array
    stands_for: Array

    @classmethod
    def of(
        cls,
        scores: Array,
        codes: Codes,
        weight: Array,
        n_exact: int,
        seen: Array | None = None,
        responses: Array | None = None,
        stands_for: Array | None = None,
    ) -> Tails:
        """Tails of rows with these scores (n,); other parameters as the attributes."""
        if seen is None:
            seen = np.full(len(scores), np.inf)
        if responses is None:
            responses = np.full((len(scores), 2), np.nan)
        if stands_for is None:
            stands_for = weight
        exact = np.zeros(len(scores), dtype=bool)
        parts = seen, responses, stands_for
        return cls(scores, weight, codes, exact, n_exact, *parts)._sorted()

    @classmethod
    def known(
        cls,
        scores: Array,
        rows: CodedRows,
        n_tasks: int,
        seen: Array | None = None,
        responses: Array | None = None,
    ) -> Tails:
        """Tails of rows with scores (n,); those whose score is NaN do not count.

        Rows of a group that score alike count as fewer.
        """
        has_score = ~np.isnan(scores)
        weight = rows.weight
        if isinstance(rows, TrainingRows) and rows.group is not None:
            weight = calibration_weight(scores, rows)
        return cls.of(
            scores[has_score],
            rows.codes[has_score],
            weight[has_score],
            exact_scores(n_tasks),
            None if seen is None else seen[has_score],
            None if responses is None else responses[has_score],
            rows.weight[has_score],
        )

    def merged(self, *others: Tails) -> Tails:
        """Tails of the rows of all of them."""
        parts = (self, *others)
        return Tails(
            np.concatenate([tails.scores for tails in parts]),
            np.concatenate([tails.weight for tails in parts]),
            np.concatenate([tails.codes for tails in parts]),
            np.concatenate([tails.rounded for tails in parts]),
            self.n_exact,
            np.concatenate([tails.seen for tails in parts]),
            np.concatenate([tails.responses for tails in parts]),
            np.concatenate([tails.stands_for for tails in parts]),
        )._sorted()

    def _sorted(self) -> Tails:
        """Scores in their order, those beyond the lowest ones rounded."""
        tails = self._counted()
        exact = ~tails.rounded
        # Rank of every exact score in its task, where exact scores come first.
        before: Codes = np.cumsum(exact) - exact
        first = np.flatnonzero(np.diff(tails.codes, prepend=-1))
        sizes = np.diff(np.append(first, len(tails.codes)))
        rank: Codes = before - np.repeat(before[first], sizes)
        above = exact & (rank >= self.n_exact)
        if not above.any():
            return tails
        scores = np.where(above, rounded_down(tails.scores), tails.scores)
        rounded = tails.rounded | above
        # Rounded scores are equal by rounding, not because rows are copies.
        seen = np.where(above, np.inf, tails.seen)
        responses = np.where(above[:, None], np.nan, tails.responses)
        return replace(
            tails, scores=scores, rounded=rounded, seen=seen, responses=responses
        )._counted()

    def _counted(self) -> Tails:
        """Scores in their order, equal ones as one that counts for all."""
        order = np.lexsort((self.scores, self.rounded, self.codes))
        scores = self.scores[order]
        codes = self.codes[order]
        rounded = self.rounded[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(scores) != 0) | (np.diff(codes) != 0)
        new[1:] |= np.diff(rounded) != 0
        starts = np.flatnonzero(new)
        weight = self.weight[order]
        seen = self.seen[order]
        responses = self.responses[order]
        stands_for = self.stands_for[order]
        if len(starts):
            stands_for = np.add.reduceat(stands_for, starts)
            weight = np.add.reduceat(weight, starts)
            seen = np.minimum.reduceat(seen, starts)
            responses = np.minimum.reduceat(responses, starts, axis=0)
        scores = scores[starts]
        codes = codes[starts]
        rounded = rounded[starts]
        return Tails(
            scores, weight, codes, rounded, self.n_exact, seen, responses, stands_for
        )

    def calibration(
        self, n_tasks: int, source: str, far: Array | None = None, fixed: str = ""
    ) -> Calibration:
        """The calibration by these scores, and by those of far rows (T,)."""
        # Before they were rounded, they were above all exact scores of their task.
        exact = ~self.rounded
        top = np.full(n_tasks, -np.inf)
        np.maximum.at(top, self.codes[exact], self.scores[exact])
        scores = np.where(exact, self.scores, np.maximum(self.scores, top[self.codes]))
        return Calibration.from_scores(
            scores,
            self.codes,
            self.weight,
            n_tasks,
            source,
            far,
            self.seen,
            self.responses,
            fixed=fixed,
            stands_for=self.stands_for,
        )


def exact_scores(n_tasks: int) -> int:
    """Number of exact scores of each task: about a million of all tasks."""
    return int(np.clip(2**20 // n_tasks, 512, _MOST))


def rounded_down(scores: Array) -> Array:
    """Negative scores (k,) rounded to seven binary digits, towards minus infinity."""
    fraction, exponent = np.frexp(scores)
    return np.ldexp(np.floor(np.ldexp(fraction, _DIGITS)), exponent - _DIGITS)
