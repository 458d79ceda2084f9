"""How times are written: rows are compared with earlier ones by the same clock only.

A date without a time zone is local time, one with a zone is UTC. Nobody knows how many
hours are between them, so a model takes times as those that it was fitted to.
"""

from __future__ import annotations

NUMBERS = "numbers"
DATES = "dates without a time zone"
ZONED = "dates with a time zone"
#: What to do instead of writing them in another way.
CLOCKS = {
    NUMBERS: "Give numbers",
    DATES: "Give local times without a zone",
    ZONED: "Give a zone with each time, as 2026-01-31T12:00+01:00",
}


def clock_of(dtype: object) -> str:
    """How dates of a type of pandas, polars or narwhals are written."""
    zone = getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)
    return DATES if zone is None else ZONED


def remedy_for(clock: str) -> str:
    """What to do about times that are not as those of a fit."""
    return f"{CLOCKS[clock]}, or fit again to rows with such times."
