"""Guards: what lowers the scores of rows unlike anything that was seen.

Two kinds of row escape a scorer. All kernel values of a row far from everything are 0,
as are the responses of a joint model to it: a row of another task looks the same. And a
sum over columns dilutes one wild column. So a guard looks at the rows themselves:
:class:`~manyone.models.nearness.Nearness` at distances,
:class:`~manyone.models.column_range.ColumnRange` at single values. A guard says 0
inside what was seen and grows outside of it. A :class:`Guarded` scorer subtracts it, in
units of its scores.

Left-out rows are judged by the same function, without the row, its copies and rows of
its group. So thresholds know of whatever a guard does to new rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from manyone._types import Array, Codes, Rows
from manyone.kernels.gram import Points, PointScorer
from manyone.models.scorers import Scorer

#: A class of guards.
Kind = TypeVar("Kind")


class Guard(Protocol):
    """Says how far rows are outside of what was seen."""

    def outside(
        self, X: Rows, codes: Codes | None, largest: Array | None = None
    ) -> Array:
        """0 inside what was seen, growing outside of it, shape (n,).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
        codes : ndarray of shape (n,) or None
            The task of each row; None: every task is asked about.
        largest : ndarray of shape (n,) or None
            Largest kernel value of each row among points of the guard; None: not known.
        """

    def sure(self) -> float:
        """The value from which on a row is unlike all seen; 0: none is known."""


@dataclass(frozen=True, eq=False)
class Guarded:
    """A scorer whose scores are lowered by ``unit`` times what its guards say.

    Parameters
    ----------
    scorer : Scorer
    guards : tuple of Guard
    unit : float
        Of the scores.
    shares_values : bool
        Whether the points of the scorer, a :class:`PointScorer`, are those of a guard.
        The kernel values of the scorer then tell the guard which rows are near enough.
    """

    scorer: Scorer
    guards: tuple[Guard, ...]
    unit: float
    shares_values: bool = False

    @property
    def points(self) -> Points:
        """The rows that the scorer is expanded over."""
        return self.scorer.points

    def own(self, X: Rows, codes: Codes) -> Array:
        """See :class:`Scorer`."""
        scorer = self.scorer
        if not isinstance(scorer, PointScorer) or not self.shares_values:
            return scorer.own(X, codes) - self.penalty(X, codes)
        scores, largest = scorer.own_and_largest(X, codes)
        return scores - self.penalty(X, codes, largest)

    def all(self, X: Rows) -> Array:
        """See :class:`Scorer`."""
        scorer = self.scorer
        if not isinstance(scorer, PointScorer) or not self.shares_values:
            return scorer.all(X) - self.penalty(X)[:, None]
        scores, largest = scorer.all_and_largest(X)
        return scores - self.penalty(X, None, largest)[:, None]

    def far(self) -> Array | None:
        """See :class:`Scorer`; of the scorer without guards."""
        return self.scorer.far()

    def penalty(
        self, X: Rows, codes: Codes | None = None, largest: Array | None = None
    ) -> Array:
        """What the scores of rows (n, d) are lowered by, shape (n,)."""
        total = self.guards[0].outside(X, codes, largest)
        for guard in self.guards[1:]:
            total = total + guard.outside(X, codes, largest)
        return self.unit * total


def unguarded(scorer: Scorer) -> Scorer:
    """A scorer without its guards."""
    while isinstance(scorer, Guarded):
        scorer = scorer.scorer
    return scorer


def guard_in(scorer: Scorer, kind: type[Kind]) -> Kind | None:
    """The guard of this kind around a scorer; None: there is none."""
    while isinstance(scorer, Guarded):
        for guard in scorer.guards:
            if isinstance(guard, kind):
                return guard
        scorer = scorer.scorer
    return None
