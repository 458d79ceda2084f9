"""Numbers for Prometheus, in its text format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """A number that somebody watches.

    Attributes
    ----------
    name : str
        Without the prefix ``manyone_``; that of a counter ends in ``_total``.
    kind : {"counter", "gauge"}
        A counter only grows.
    meaning : str
        One line.
    value : float
    """

    name: str
    kind: Literal["counter", "gauge"]
    meaning: str
    value: float


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """Metrics in the text format of Prometheus."""
    lines = []
    for metric in metrics:
        name = f"manyone_{metric.name}"
        lines.append(f"# HELP {name} {metric.meaning}")
        lines.append(f"# TYPE {name} {metric.kind}")
        lines.append(f"{name} {metric.value!r}")
    return "\n".join([*lines, ""])
