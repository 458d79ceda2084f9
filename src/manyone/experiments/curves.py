"""What the figures share: the look of a method's curve, panels, and captions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from manyone.estimators import METHODS
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import families, in_paper
from manyone.experiments.runner import Outcome
from manyone.report.charts import COLOURS, SYMBOLS, Axis, Curve, Panel
from manyone.report.page import sentence

AUC = Axis("AUC (%)")
_GROUPS = ("methods of the paper", "others in the package", "everyday rivals")


def method_curve(family: str, x: Iterable[float], y: Iterable[float]) -> Curve:
    """A method's curve, in the same colour wherever the method appears."""
    k, ours = method_place(family), family in METHODS
    group = _GROUPS[0 if in_paper(family) else 1 if ours else 2]
    look = (COLOURS[k % len(COLOURS)], SYMBOLS[k % len(SYMBOLS)], "solid" if ours else "dotted")
    return Curve(tuple(map(float, x)), tuple(map(float, y)), family, group, *look)


def method_place(family: str) -> int:
    """Place of a method among all there are; the last for one that is there no more."""
    known = families()
    return known.index(family) if family in known else len(known)


def by_group(curves: Iterable[Curve]) -> list[Curve]:
    """Curves of methods in the order of the legend."""
    return sorted(curves, key=lambda c: (_GROUPS.index(c.group), method_place(c.name)))


def dataset_panels(
    names: Iterable[str], x: Axis, y: Axis, curves: Callable[[str], list[Curve]]
) -> tuple[Panel, ...]:
    """A panel for each data set that has curves."""
    found = [(DATASETS[name].title, tuple(curves(name))) for name in names]
    return tuple(Panel(title, x, y, content) for title, content in found if content)


def drawn(panels: Iterable[Panel]) -> list[str]:
    """Names of the curves that panels show."""
    return list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))


def repetitions(outcomes: Iterable[Outcome]) -> str:
    """How many repetitions these cells are of, for a caption."""
    number = len({o.cell.repetition for o in outcomes})
    return f"first {number} repetitions" if number > 1 else "first repetition"


def say(caption: str, *values: Any) -> str:
    """A caption, one of the macros in ``templates/captions.html``."""
    return sentence("manyone.experiments", "captions.html", caption, *values)
