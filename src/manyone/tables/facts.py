"""What the rows of a column say about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyone._types import Codes
from manyone.tables.frames import Column
from manyone.tables.growth import grows


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts about a column of normal rows.

    Attributes
    ----------
    kind : str
        As in :class:`manyone.tables.frames.Column`.
    rows, missing, infinite : int
        All rows, those without a value, and those with an infinite one.
    low, high : float
        Range of the finite values; infinite where there is none.
    grows : bool
        Whether further rows will have values, or texts, beyond all that were seen.
    levels : dict of str to int
        How often each text occurs.
    """

    kind: str
    rows: int
    missing: int
    infinite: int
    low: float
    high: float
    grows: bool
    levels: dict[str, int]

    @classmethod
    def of(cls, column: Column, codes: Codes) -> Facts:
        """Facts about a column whose rows, in their order, are of tasks given by number (n,)."""
        values = column.values
        levels = {}
        finite = values[np.isfinite(values)]
        if column.levels is not None:
            counts = np.bincount(finite.astype(np.intp), minlength=len(column.levels))
            levels = dict(zip(column.levels.tolist(), counts.tolist(), strict=True))
        return cls(
            kind=column.kind,
            rows=len(values),
            missing=int(np.isnan(values).sum()),
            infinite=int(np.isinf(values).sum()),
            low=float(finite.min(initial=np.inf)),
            high=float(finite.max(initial=-np.inf)),
            grows=grows(column, codes),
            levels=levels,
        )

    @property
    def known(self) -> int:
        """Rows with a finite value."""
        return self.rows - self.missing - self.infinite
