"""Numbers for Prometheus, in its text format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Metric(NamedTuple):
    """A number that somebody watches.

    Attributes
    ----------
    name : str
        Without the prefix ``manyone_``. That of a counter, which only grows, ends in
        ``_total``; others are gauges.
    meaning : str
        One line.
    value : float
    """

    name: str
    meaning: str
    value: float


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """Metrics in the text format of Prometheus."""
    lines = []
    for metric in metrics:
        name = f"manyone_{metric.name}"
        lines.append(f"# HELP {name} {metric.meaning}")
        kind = "counter" if name.endswith("_total") else "gauge"
        lines.append(f"# TYPE {name} {kind}")
        lines.append(f"{name} {metric.value!r}")
    return "\n".join([*lines, ""])
