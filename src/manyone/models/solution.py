"""What solving returns: a frozen value that scoring never changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from manyone._types import Array, Codes, Rows
from manyone.models.resemblance import Resemblance
from manyone.threads import on_threads

if TYPE_CHECKING:
    from manyone.models.presence import Presence
    from manyone.models.range_guard import RangeGuard
    from manyone.models.scorers import Scorer

# Rows that one thread scores at a time.
_ROWS = 4096


@dataclass(frozen=True, eq=False)
class FitReport:
    """How the fit went.

    Attributes
    ----------
    objective_path : ndarray of shape (iterations + 1,) or None
        Objective at the start and after each iteration; None for a closed form.
    n_iter : int
    converged : bool
    message : str or None
        What to say where it did not converge; None: what is said of every iterative fit.
    """

    objective_path: Array | None = None
    n_iter: int = 1
    converged: bool = True
    message: str | None = None


@dataclass(frozen=True, eq=False)
class Solution:
    """A fitted model as a value.

    Attributes
    ----------
    scorer : Scorer
        Scores of new rows.
    left_out : ndarray of shape (n,) or None
        Score of each training row, in their order, under the model without it; NaN for known
        outliers. None where the method has no closed form for it.
    left_out_source : str
        How they were found.
    report : FitReport
    learned : dict
        What a user may want to look at, by the names of the fitted attributes without their
        underscore.
    presence : Presence or None
        What lowers the scores of rows far from everything; those left out have been lowered.
    guard : RangeGuard or None
        What lowers the scores of rows with a value out of its range.
    """

    scorer: Scorer
    left_out: Array | None = None
    left_out_source: str = "leave-one-out"
    report: FitReport = field(default_factory=FitReport)
    learned: dict[str, Any] = field(default_factory=dict)
    presence: Presence | None = None
    guard: RangeGuard | None = None

    def own(self, X: Rows, codes: Codes, excess: Array | None = None) -> Array:
        """Score of each row against its own task, shape (n,); `excess` of presence, if known."""

        def score(rows: Any) -> Array:
            some, own, guard = X[rows], codes[rows], self.guard
            scores = self.scorer.own(some, own)
            if self.presence is not None:
                far = (
                    self.presence.excess(some, own) if excess is None else excess[rows]
                )
                scores = scores - self.presence.unit * far
            return (
                scores
                if guard is None
                else guard.guarded(scores, guard.floor[own], some)
            )

        return _in_parts(score, codes)

    def all(self, X: Rows) -> Array:
        """Score of each row against every task, shape (n, T)."""

        def score(rows: Any) -> Array:
            some, guard = X[rows], self.guard
            scores = self.scorer.all(some)
            if self.presence is not None:
                scores = scores - self.presence.penalty(some)[:, None]
            if guard is not None:
                scores = guard.guarded(scores.T, guard.floor[:, None], some).T
            return scores

        return _in_parts(score, np.zeros(X.shape[0]))

    def fitted(self, name: str) -> Any:
        """A learned value, or a part of the report."""
        if name in self.learned:
            found = self.learned[name]
            return found.matrix() if isinstance(found, Resemblance) else found
        return getattr(self.report, name)


def _in_parts(score: Callable[[Any], Array], codes: Array | Codes) -> Array:
    """Scores of rows, many of them on several threads, and those of a task (n,) together."""
    if len(codes) <= _ROWS:
        return score(slice(None))
    parts = np.array_split(np.argsort(codes, kind="stable"), -(-len(codes) // _ROWS))
    found = on_threads(score, parts)
    first = next(found)
    scores = np.empty((len(codes), *first.shape[1:]))
    for rows, some in zip(parts, chain([first], found), strict=True):
        scores[rows] = some
    return scores
