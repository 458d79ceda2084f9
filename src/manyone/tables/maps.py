"""How one column becomes coordinates: numbers, categories, dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from manyone._types import Array
from manyone.history.seasons import DAY, DAYS, SINCE_MONDAY
from manyone.tables.columns import Column

#: Numbers that a column with a past becomes: its values, less what is usual at their
#: time where it has a season; how they differ from those before; how much they move
#: lately.
PARTS = ("level", "difference", "swing")
#: What any other column of numbers becomes.
VALUES = ("value",)
# Beyond the range a coordinate grows by this much for each further distance as long as
# from the median to the end of the range. That is less than inside, or one value would
# count for more than all other columns.
_BEYOND = 0.5
# Largest coordinate: what lies beyond counts as no farther away.
_FARTHEST = 1e3
#: Height of a category's coordinate: two categories are as far apart as two random
#: numbers.
LEVEL_HEIGHT = 1 / np.sqrt(2)
#: Height of what no row had: hardly more than that of what one row had, so no distance
#: tells them apart, but a guard does.
NEW_HEIGHT = LEVEL_HEIGHT * (1 + 1e-6)
# Cycles that a date is on, in seconds, and into how many parts each is divided.
_WEEK = 7 * DAY
_CYCLES = {DAY: 24, _WEEK: 7}


@dataclass(frozen=True, eq=False)
class Curve:
    """Increasing, piecewise linear: between standardised values and normal scores.

    Heavy tails are tamed inside the range seen; beyond it the map goes on linearly, so
    that wild values stay wild.

    Parameters
    ----------
    knots, scores : ndarray of shape (k,)
        Values and what they become, both increasing.
    slopes : ndarray of shape (2,)
        Below the first knot and above the last.
    """

    knots: Array
    scores: Array
    slopes: Array

    @classmethod
    @np.errstate(over="ignore")  # nothing is beyond infinity
    def learn(cls, values: Array, linear: float, knots: int = 33) -> Curve:
        """The curve of numbers (n,) with two different finite values or more.

        `linear` is the share of the standardised value in it, the rest is its normal
        score. With 33 knots the farthest coordinate of 2,000 normal, heavy-tailed or
        two-humped values errs by 0.15 standard deviations (17 knots: 0.19, 9: 0.56).
        """
        values = np.sort(values[np.isfinite(values)])
        distinct, first, counts = np.unique(
            values, return_index=True, return_counts=True
        )
        normal = ndtri((first + counts / 2) / len(values))
        unit = max(float(np.abs(values).max()), 1e-300)
        spread = float(np.std(values / unit)) * unit
        standard = (distinct / unit - np.mean(values / unit)) * (unit / spread)
        level = np.std(np.repeat(normal, counts))
        scores = linear * standard + (1 - linear) * normal / level
        scores /= np.std(np.repeat(scores, counts))
        last = len(distinct) - 1
        if linear == 1.0:
            # A straight line; two knots are those of columns with two values.
            chosen = np.unique([0, (last + 1) // 2, last])
        elif len(distinct) > knots:
            # Knots at even steps of the scores: dense where the map bends.
            even = np.linspace(scores[0], scores[-1], knots)
            by_rank = np.linspace(0, len(distinct) - 1, knots).round().astype(np.intp)
            chosen = np.union1d(np.searchsorted(scores, even), by_rank)
        else:
            chosen = np.arange(len(distinct))
        middle = np.median(values)
        tails = np.array([middle - distinct[0], distinct[-1] - middle])
        slopes = _BEYOND / np.where(tails > 0, tails, distinct[-1] - distinct[0])
        return cls(distinct[chosen], scores[chosen], slopes)

    @classmethod
    def learn_swing(
        cls, values: Array, knots: int = 33, forgotten: float = 5.0
    ) -> Curve:
        """The curve of swings (n,): a logarithm below their median, linear above.

        Swings have a long upper tail. In units of their standard deviation 0 is near
        what is usual, and a column that stands still would raise no alarm. A swing of
        less than ``exp(-forgotten)`` medians, which some 30 rows without a movement
        leave of it, counts as that.
        """
        # Sorted: sums of them do not depend on the order of rows, not even by rounding.
        values = np.sort(values[np.isfinite(values)])
        median = float(np.median(values))
        if median <= 0.0:  # it usually stands still
            return cls.learn(values, 1.0)
        top = max(float(values.max()), 1.01 * median)
        low = median * np.exp(np.linspace(-forgotten, 0.0, knots))
        points = np.append(low, top)
        coordinates = swing_scale(values, median, forgotten)
        scores = swing_scale(points, median, forgotten) - coordinates.mean()
        slopes = _BEYOND / np.array([median, top - median])
        return cls(points, scores / coordinates.std(), slopes)

    def undo(self, z: Array) -> Array:
        """Values (n,) that become these coordinates (n,)."""
        below = np.minimum(z - self.scores[0], 0.0) / self.slopes[0]
        above = np.maximum(z - self.scores[-1], 0.0) / self.slopes[1]
        return np.asarray(np.interp(z, self.scores, self.knots) + below + above)


def swing_scale(swings: Array, median: Array | float, forgotten: float = 5.0) -> Array:
    """Swings less their median, which is above 0; below it logarithms, times it."""
    low = np.log(np.clip(swings / median, np.exp(-forgotten), 1.0))
    return np.asarray(np.where(swings < median, median * low, swings - median))


def apply_curves(curves: Sequence[Curve], values: Array) -> Array:
    """Coordinates (n, p) of numbers (n, p), by a curve for each column."""
    ends = np.array([(curve.knots[0], curve.knots[-1]) for curve in curves]).T
    slopes = np.array([curve.slopes for curve in curves]).T
    coordinates = np.empty_like(values)
    for column, curve in enumerate(curves):
        coordinates[:, column] = np.interp(values[:, column], curve.knots, curve.scores)
    rows, columns = np.nonzero((values < ends[0]) | (values > ends[1]))
    far = values[rows, columns]
    low, high = ends[:, columns]
    with np.errstate(over="ignore"):
        beyond = np.minimum(far - low, 0.0) * slopes[0, columns]
        beyond += np.maximum(far - high, 0.0) * slopes[1, columns]
        coordinates[rows, columns] += beyond
    return np.clip(coordinates, -_FARTHEST, _FARTHEST)


@dataclass(frozen=True, eq=False)
class NumberMap:
    """A column of numbers, or what was made of its past: a curve for each part.

    Parameters
    ----------
    parts : tuple of str
        `VALUES`, or some of `PARTS`, in their order.
    curves : tuple of Curve
        One for each.
    infinite : bool
        Whether infinities were seen; they are then as good as missing.
    """

    parts: tuple[str, ...]
    curves: tuple[Curve, ...]
    infinite: bool

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return len(self.parts)

    @property
    def has_past(self) -> bool:
        """Whether the past of the column is used."""
        return self.parts != VALUES

    @property
    def two_values(self) -> Array | None:
        """The values of a coordinate that has only two; None where it has more."""
        scores = self.curves[0].scores
        return scores if len(scores) == 2 else None

    def numbers(self, column: Column) -> Array:
        """What the curves turn into coordinates (n, width); NaN where missing."""
        parts = {"value": column.values}
        if self.has_past and column.past is not None:
            parts["level"] = column.level
            parts["difference"], parts["swing"] = column.past.T
        numbers = np.column_stack([parts[part] for part in self.parts])
        return (
            np.where(np.isinf(numbers), np.nan, numbers) if self.infinite else numbers
        )

    def undo(self, coordinates: Array, part: str) -> Array:
        """Values (n,) with these coordinates (n, width); NaN if they are not used."""
        if part not in self.parts:
            return np.full(len(coordinates), np.nan)
        place = self.parts.index(part)
        return self.curves[place].undo(coordinates[:, place])


@dataclass(frozen=True, eq=False)
class LevelMap:
    """A coordinate for each frequent level, one for rare and one for unseen ones.

    A level that only one row has is encoded as never seen, which it is to all other
    rows. Otherwise left-out rows would look more usual than new ones.

    Parameters
    ----------
    levels : ndarray of str
        Frequent levels first.
    place : ndarray of int
        Coordinate of each level.
    width : int
        Number of coordinates; the last is that of levels never seen.
    singletons : float
        Share of the rows whose level nobody shared: so likely is a level never seen.
    """

    levels: NDArray[np.str_]
    place: NDArray[np.intp]
    width: int
    singletons: float
    curves: ClassVar[tuple[Curve, ...]] = ()
    two_values: ClassVar[Array | None] = np.array([0.0, LEVEL_HEIGHT])

    @classmethod
    def learn(
        cls,
        texts: Sequence[str],
        counts: NDArray[np.intp],
        rare_rows: int = 5,
        rare_share: float = 0.005,
        most_levels: int = 50,
    ) -> LevelMap:
        """The map of different texts (k,) and of how many rows have each (k,).

        Levels of fewer rows, or of a smaller share of them, are rare. Only so many
        levels are frequent, or a column would have more coordinates than all others.
        """
        levels = np.array(texts)
        order = np.lexsort((levels, -counts))
        levels = levels[order]
        counts = counts[order]
        total = max(int(counts.sum()), 1)
        frequent = counts >= max(rare_rows, rare_share * total)
        frequent[most_levels:] = False
        frequent[0] |= len(levels) <= 2 and counts[0] > 1
        alone = ~frequent & (counts <= 1)
        number = int(frequent.sum())
        never = number + bool(np.any(~frequent & ~alone))
        place = np.where(
            frequent, np.arange(len(levels)), np.where(alone, never, number)
        )
        return cls(levels, place, never + 1, float(np.sum(counts == 1) / total))

    def texts(self, coordinates: Array) -> list[str]:
        """The level that rows (n, width) are closest to; never that of unseen ones."""
        names = []
        for place in range(self.width - 1):
            levels = self.levels[self.place == place].tolist()
            names.append(levels[0] if len(levels) == 1 else "(rare)")
        return [names[place] for place in coordinates[:, :-1].argmax(axis=1)]

    def apply(self, column: Column) -> Array:
        """Coordinates (n, width); NaN where missing."""
        assert column.levels is not None
        index = dict(zip(self.levels.tolist(), self.place.tolist(), strict=True))
        level_places = [index.get(level, -1) for level in column.levels.tolist()]
        places = column.by_level(level_places)
        coordinates = np.zeros((len(places), self.width))
        coordinates[np.isnan(places)] = np.nan
        rows = np.flatnonzero(~np.isnan(places))
        chosen = places[rows].astype(np.intp)
        height = np.where(chosen < 0, NEW_HEIGHT, LEVEL_HEIGHT)
        coordinates[rows, chosen] = height  # -1 is the last one
        return coordinates


@dataclass(frozen=True, eq=False)
class DateMap:
    """Where a moment is on the cycles that vary, as sine and cosine; never the date.

    Parameters
    ----------
    periods : ndarray of shape (k,)
        Lengths of the cycles in seconds.
    """

    periods: Array
    curves: ClassVar[tuple[Curve, ...]] = ()
    two_values: ClassVar[Array | None] = None

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return 2 * len(self.periods)

    @classmethod
    def learn(cls, values: Array) -> DateMap:
        """The cycles that a column of seconds (n,) goes through."""
        dates = values[~np.isnan(values)]
        span = np.ptp(dates) if len(dates) else 0.0
        periods = [
            period
            for period, parts in _CYCLES.items()
            if span > period and np.ptp(dates // (period / parts) % parts) > 0
        ]
        return cls(np.array(periods))

    def apply(self, column: Column) -> Array:
        """Coordinates (n, width); NaN where missing."""
        angle = 2 * np.pi * (column.values[:, None] + SINCE_MONDAY) / self.periods
        return np.column_stack([np.sin(angle), np.cos(angle)])

    def texts(self, coordinates: Array) -> list[str]:
        """Weekday and hour that coordinates (n, width) stand for."""
        k = len(self.periods)
        turn = np.arctan2(coordinates[:, :k], coordinates[:, k:]) / (2 * np.pi) % 1.0
        texts = []
        for line in turn:
            parts = []
            for share, period in zip(line, self.periods, strict=True):
                if period < _WEEK:
                    parts.append(f"{int(share * 24 + 0.5) % 24:02d}:00")
                else:
                    parts.append(DAYS[int(share * 7) % 7])
            texts.append(" ".join(reversed(parts)))
        return texts


Map = NumberMap | LevelMap | DateMap
