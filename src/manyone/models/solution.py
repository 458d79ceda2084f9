"""What a fit returns: a frozen value that scoring never changes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from manyone._types import Array, Codes, LeftOutSource, Rows
from manyone.data.rows import CodedRows
from manyone.models.resemblance import Resemblance
from manyone.threads import on_threads

if TYPE_CHECKING:
    from manyone.models.scorers import Scorer

# Rows that one thread scores at a time.
_ROWS = 4096


class Judge:
    """Gives the scores of training rows under models without them."""

    #: Whether rows of a group are left out together.
    leaves_groups: bool = False

    @abstractmethod
    def judged(self, rows: CodedRows) -> Array:
        """Left-out scores (n,) of rows and their task numbers, or NaN."""


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
        Warning where it did not converge; None: that of every iterative fit.
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
        Score of each training row, in their order, under the model without it; NaN for
        known outliers. None where the method has no closed form for it.
    left_out_source : str
        How rows were left out.
    fixed : str
        What stayed as all rows have shaped it: ``"metric"``, ``"structure"`` or both.
    report : FitReport
    learned : mapping
        Fitted attributes for users to look at, by their names without the underscore.
        It is never changed.
    responses : ndarray of shape (n, 2) or None
        What a closed form says of each row beyond its left-out score, see
        :class:`manyone.solvers.ridge.LeftOutRows`.
    drift : float
        Logarithm of the factor of left-out depths for drift: new rows in time will be
        farther away, see :mod:`manyone.calibration.equal_terms`.
    shift : ndarray of shape (n,) or None
        How much the mean root depth of the other rows of its task grows when a row
        leaves, where that was measured, see :mod:`manyone.calibration.borrowing`.
    judge : Judge or None
        Gives the left-out score of any training row, while a fit goes on.
    one_minus_leverage : ndarray of shape (n,) or None
        Of one count of each row of a ridge regression, for exact p-values.
    """

    scorer: Scorer
    left_out: Array | None = None
    left_out_source: LeftOutSource = "leave-one-out"
    fixed: str = ""
    report: FitReport = field(default_factory=FitReport)
    learned: Mapping[str, Any] = field(default_factory=dict)
    responses: Array | None = None
    drift: float = 0.0
    shift: Array | None = None
    judge: Judge | None = None
    one_minus_leverage: Array | None = None

    def own(self, X: Rows, codes: Codes) -> Array:
        """Score of each row against its own task, shape (n,)."""
        if not len(codes):
            return np.empty(0)
        with np.errstate(under="ignore"):
            if len(codes) <= _ROWS:
                return self.scorer.own(X, codes)
            return _in_parts(lambda rows: self.scorer.own(X[rows], codes[rows]), codes)

    def all(self, X: Rows) -> Array:
        """Score of each row against every task, shape (n, T)."""
        with np.errstate(under="ignore"):
            if X.shape[0] <= _ROWS:
                return self.scorer.all(X)
            tasks = np.zeros(X.shape[0])
            return _in_parts(lambda rows: self.scorer.all(X[rows]), tasks)

    def fitted(self, name: str) -> Any:
        """A learned value, or a part of the report; arrays are read-only."""
        if name not in self.learned:
            return getattr(self.report, name)
        value = self.learned[name]
        if isinstance(value, Resemblance):
            return value.matrix()
        if isinstance(value, np.ndarray):
            value = value.view()
            value.flags.writeable = False
        return value


def _in_parts(score: Callable[[Codes], Array], codes: Array | Codes) -> Array:
    """Scores of rows on several threads; rows of a task (n,) stay together."""
    parts = np.array_split(np.argsort(codes, kind="stable"), -(-len(codes) // _ROWS))
    results = on_threads(score, parts)
    first = next(results)
    scores = np.empty((len(codes), *first.shape[1:]))
    for rows, part_scores in zip(parts, chain([first], results), strict=True):
        scores[rows] = part_scores
    return scores
