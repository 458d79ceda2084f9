"""Figures of the studies: results against the ridge, and against corrupted training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from manyone.experiments import curves
from manyone.experiments.corruption import CORRUPTION_KINDS
from manyone.experiments.methods import has_ridge
from manyone.experiments.plan import RIDGES, Cell
from manyone.experiments.runner import Outcome
from manyone.report.charts import Axis, Chart, Curve, Panel

_RIDGE = Axis("first-layer regulariser (strong to weak)", log=True, reverse=True)


def ridge_auc(outcomes: Sequence[Outcome], names: Sequence[str]) -> Chart:
    """AUC against the ridge; parameters are clean cells and data sets."""
    panels = _against_ridge(outcomes, names, curves.AUC, lambda o: o.auc)
    level = [name for name in curves.drawn(panels) if not has_ridge(name)]
    study = curves.repetitions(o for o in outcomes if o.cell.setting in RIDGES[1:])
    caption = curves.say("ridge_auc", study, level)
    return Chart("regulariser", "The first-layer regulariser", caption, panels)


def ridge_errors(outcomes: Sequence[Outcome], names: Sequence[str]) -> Chart:
    """Sum of squared errors against the ridge; parameters are clean cells and data sets."""
    cells = [o for o in outcomes if "sse" in o.result]
    errors = Axis("sum of squared errors", log=True)
    panels = _against_ridge(cells, names, errors, lambda o: float(o.result["sse"]))
    title = "Squared error and the first-layer regulariser"
    return Chart("squared_error", title, curves.say("ridge_errors"), panels)


def robustness(outcomes: Sequence[Outcome], names: Sequence[str], kind: str) -> Chart:
    """AUC against the strength of one kind of corruption; parameters are cells and data sets."""
    words = CORRUPTION_KINDS[kind]

    def level(cell: Cell) -> float | None:
        name, _, strength = cell.corruption.partition("=")
        part = cell.setting == RIDGES[0] and name in ("", kind)
        return float(strength or 0.0) if part else None

    def found(name: str) -> list[Curve]:
        return _curves(_study(outcomes, name, level, 0.0, lambda o: o.auc))

    panels = curves.dataset_panels(names, Axis(words["strength"]), curves.AUC, found)
    study = curves.repetitions(o for o in outcomes if o.cell.corruption)
    caption = curves.say("robustness", study, curves.drawn(panels))
    return Chart(f"robustness_{kind}", words["title"], caption, panels)


def _against_ridge(
    outcomes: Sequence[Outcome], names: Sequence[str], y: Axis, value: Callable[[Outcome], float]
) -> tuple[Panel, ...]:
    """A panel for each data set: a value of the cells, averaged, against the ridge."""
    ridges = {setting: float(setting.removeprefix("alpha=")) for setting in RIDGES}

    def found(name: str) -> list[Curve]:
        means = _study(outcomes, name, lambda cell: ridges.get(cell.setting), 1.0, value)
        for family in means:
            if not has_ridge(family):
                means[family] = dict.fromkeys(ridges.values(), means[family][1.0])
        return _curves(means)

    return curves.dataset_panels(names, _RIDGE, y, found)


def _study(
    outcomes: Sequence[Outcome],
    name: str,
    place: Callable[[Cell], float | None],
    start: float,
    value: Callable[[Outcome], float],
) -> dict[str, dict[float, float]]:
    """Of each method the mean of a value at each place, from `start` on, in one data set.

    A study has one protocol and few repetitions. The table has more of them at `start`, which are
    not comparable with it and left out.
    """
    mine = [o for o in outcomes if o.cell.dataset == name]
    placed = [(at, o) for o in mine if (at := place(o.cell)) is not None]
    study = {(o.cell.protocol, o.cell.repetition) for at, o in placed if at != start}
    found: dict[str, dict[float, list[float]]] = {}
    for at, o in sorted(placed, key=lambda pair: abs(pair[0] - start)):
        if (o.cell.protocol, o.cell.repetition) in study:
            found.setdefault(o.cell.family, {}).setdefault(at, []).append(value(o))
    return {f: {at: float(np.mean(v)) for at, v in points.items()} for f, points in found.items()}


def _curves(means: dict[str, dict[float, float]]) -> list[Curve]:
    """Curves of the methods that are part of a study, not only of the table."""
    studied = {family: points for family, points in means.items() if len(points) > 1}
    return curves.by_group(curves.method_curve(f, at, at.values()) for f, at in studied.items())
