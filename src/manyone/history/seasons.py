"""Seasons: what is usual at this hour of the day, on this weekday, or both.

A season divides time into *visits* to its phases: every day at two o'clock, every
Sunday. What is usual in a phase is a mean of earlier visits of the same entity, with
weights as in other running means, a visit in place of a row. The visit that goes on has
no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from manyone._types import Array, Mask
from manyone.history.running import (
    Ended,
    Moments,
    decay_of,
    moments_of,
    ratio,
    running,
    weight_of,
)

_HOUR = 3600.0
#: Seconds.
DAY = 24 * _HOUR
#: Of the first of January 1970, a Thursday: weeks begin on Monday.
SINCE_MONDAY = 3 * DAY
#: Names of weekdays.
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# Earlier visits from which on it is known what is usual in a phase.
_FEWEST_VISITS = 2


@dataclass(frozen=True)
class Season:
    """A cycle of time and its phases.

    Parameters
    ----------
    name : str
    seconds : float
        Length of a phase.
    phases : int
        After so many phases it begins again.
    """

    name: str
    seconds: float
    phases: int

    def visits(self, times: Array) -> Array:
        """Number (n,) of the visit, from Monday on, of times in seconds since 1970."""
        return np.floor((times + SINCE_MONDAY) / self.seconds)

    def whole(self) -> Season:
        """A season as long as this one, of a single phase."""
        return Season("", self.seconds * self.phases, 1)

    def words(self, time: float) -> str:
        """When a phase is: "on Sundays", "at 14:00", "on Sundays at 14:00"."""
        start = float(self.visits(np.array(time))) * self.seconds
        day = f"on {DAYS[int(start // DAY) % 7]}s"
        hour = f"at {int(start % DAY // _HOUR):02d}:00"
        if self.phases == 24:
            return hour
        return day if self.phases == 7 else f"{day} {hour}"


#: Seasons by name, those with fewer phases first.
SEASONS = {
    season.name: season
    for season in (
        Season("weekday", DAY, 7),
        Season("hour of day", _HOUR, 24),
        Season("hour of week", _HOUR, 168),
    )
}


class Seasonal(NamedTuple):
    """A season, and which columns (p,) are compared with what is usual in it."""

    season: Season
    columns: Mask


def level_of(values: Array, usual: Array) -> Array:
    """Values less what is usual; 0 where nobody knows what is."""
    is_unknown = np.isnan(usual) & np.isfinite(values)
    return np.where(is_unknown, 0.0, values - usual)


class PhaseSums(NamedTuple):
    """What is remembered of the phases of E entities.

    Attributes
    ----------
    current : Ended
        The visit that goes on.
    sums : ndarray of shape (E, phases, 2, p)
        Before it: weighted values of visits, and their weights.
    """

    current: Ended
    sums: Array


def usual_values(
    moments: Moments, visits: Array, past: PhaseSums, span: int
) -> tuple[Array, PhaseSums]:
    """What is usual in the phase of each moment, and what is remembered then.

    Parameters
    ----------
    moments : Moments
        Of m times, at least one of each entity. The last one of each is not remembered
        yet: further rows of that time may come.
    visits : ndarray of shape (m,)
        Of each moment.
    past : PhaseSums
    span : int
        Visits of the running means.

    Returns
    -------
    usual : ndarray of shape (m, p)
        NaN where a phase has been visited less than twice, or lately not.
    past : PhaseSums
    """
    phases, _, width = past.sums.shape[1:]
    total = moments.total.copy()
    known = moments.known.copy()
    total[moments.ends()] = 0.0
    known[moments.ends()] = 0.0
    moments = moments_of(total, known, moments.entity, visits, past.current)
    all_phases = (moments.time % phases).astype(np.intp)
    order = np.lexsort((moments.time, all_phases, moments.entity))
    entity = moments.entity[order]
    phase = all_phases[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (np.diff(entity) != 0) | (np.diff(phase) != 0)
    starts = np.flatnonzero(is_first)
    initial = past.sums[entity[starts], phase[starts]].reshape(len(starts), -1)
    is_known = moments.known > 0
    terms = np.concatenate([moments.values() * is_known, is_known], axis=1)
    terms = terms[order]
    before = running(terms, starts, initial, span)
    after = terms + decay_of(span) * before
    usual = np.empty((len(order), width))
    least = weight_of(_FEWEST_VISITS, span)
    usual[order] = ratio(before[:, :width], before[:, width:], least)
    current = moments.ends()
    is_current = np.zeros(len(order), dtype=bool)
    is_current[current] = True
    ends = np.append(starts[1:], len(order)) - 1
    goes_on = is_current[order[ends]][:, None]
    remembered = past.sums.copy()
    remembered[entity[ends], phase[ends]] = np.where(
        goes_on, before[ends], after[ends]
    ).reshape(len(ends), 2, width)
    visit = Ended(moments.time[current], moments.total[current], moments.known[current])
    return usual[moments.of_row], PhaseSums(visit, remembered)
