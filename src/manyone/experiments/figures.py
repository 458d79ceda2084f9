"""The figures of the paper and ours, made from stored cells alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from manyone.estimators import METHODS
from manyone.experiments import curves, studies
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.corruption import CORRUPTION_KINDS
from manyone.experiments.data import DATASETS
from manyone.experiments.plan import RIDGES
from manyone.experiments.runner import Outcome
from manyone.experiments.tables import Results, Row
from manyone.plots.structure import clustered
from manyone.report.charts import COLOURS, Axis, Chart, Curve, Panel, task_matrix

_MOST_MARKERS = 50  # on a curve; more become a smear
# Protocols: what the anomalies are, and how they are marked.
_KINDS = {"seen": ("known", COLOURS[0], "circle"), "unseen": ("unknown", COLOURS[1], "diamond")}


def charts(results: Results) -> list[Chart]:
    """Every figure there are cells for.

    Parameters
    ----------
    results : Results

    Returns
    -------
    list of Chart
    """
    done = [outcome for outcome in results.outcomes if outcome.result]
    clean = [outcome for outcome in done if not outcome.cell.corruption]
    names = results.datasets
    found = [
        _seen_unseen(results),
        _alarms(results),
        studies.ridge_auc(clean, names),
        studies.ridge_errors(clean, names),
        *(studies.robustness(done, names, kind) for kind in CORRUPTION_KINDS),
    ]
    for name in names:
        structures = _shown(clean, name, "structure")
        order = _task_order(structures)
        found += [
            _structures(structures, name, order),
            _second_kernels(_shown(clean, name, "second_kernel"), name, order),
            _objectives(_shown(clean, name, "objective_path"), name),
        ]
    return [chart for chart in found if chart.panels]


def _seen_unseen(results: Results) -> Chart:
    rows, panels = results.rows, []
    for name in results.datasets:
        mine = [row for row in rows if row.dataset == name]
        panels.append(_auc_panel(DATASETS[name].title, mine))
    kinds = [kind for kind in _KINDS if any(row.protocol == kind for row in rows)]
    title = f"{' and '.join(_KINDS[kind][0] for kind in kinds)} kinds of anomaly".capitalize()
    printed = any(row.paper is not None for row in rows)
    caption = curves.say("seen_unseen", results.repeated, kinds, printed)
    size = (6.4, 0.3 * len({row.method for row in rows}) + 1.2)
    return Chart("seen_unseen", title, caption, tuple(panels), size)


def _auc_panel(title: str, rows: Sequence[Row]) -> Panel:
    """A line for each method, with its mean under each protocol and the paper's figure."""
    order = tuple(dict.fromkeys(row.method for row in rows))
    gap = float("nan")
    spans: list[tuple[float, float]] = []
    for place, method in enumerate(order):
        means = [row.mean for row in rows if row.method == method]
        spans += [(min(means), place), (max(means), place), (gap, gap)]
    x, y = zip(*spans, strict=True)
    content = [Curve(x, y, colour="grid", width=3)]

    def dots(points: list[tuple[Row, float]], **look: Any) -> None:
        if points:
            places = tuple(float(order.index(row.method)) for row, _ in points)
            content.append(Curve(tuple(x for _, x in points), places, line="", **look))

    for kind, (_, colour, symbol) in _KINDS.items():
        mine = [row for row in rows if row.protocol == kind]
        repeated = any(row.error is not None for row in mine)
        error = tuple(row.error or 0.0 for row in mine) if repeated else ()
        look = {"colour": colour, "symbol": symbol, "error": error}
        dots([(row, row.mean) for row in mine], name=f"{kind} anomalies", **look)
    printed = [(row, row.paper) for row in rows if row.paper is not None]
    dots(printed, name="the paper's figure", colour="ink", symbol="bar")
    lines = Axis("", names=order, limits=(-0.7, len(order) - 0.3), reverse=True)
    return Panel(title, curves.AUC, lines, tuple(content))


def _alarms(results: Results) -> Chart:
    promised = Curve((0.0, 0.35), (0.0, 0.35), name="as promised", line="dotted", width=1.2)

    def found(name: str) -> list[Curve]:
        rates = results.alarms(name)
        each = [curves.method_curve(method, ALARM_RATES, rates[method]) for method in rates]
        return [promised, *curves.by_group(each)] if each else []

    x = Axis("false-alarm rate asked for", percent=True, limits=(0, 0.35))
    y = Axis("measured on held-out normal rows", percent=True, limits=(0, 1.02))
    measured = [o for o in results.outcomes if "alarms" in o.result]
    rivals = any(o.cell.family not in METHODS for o in measured)
    caption = curves.say("alarms", curves.repetitions(measured), rivals)
    panels = curves.dataset_panels(results.datasets, x, y, found)
    return Chart("alarm_rate", "Alarm rate: promised and measured", caption, panels)


def _structures(found: Sequence[Outcome], name: str, order: Sequence[int]) -> Chart:
    panels = []
    for outcome in found:
        values = np.array(outcome.result["structure"])[np.ix_(order, order)]
        labels = [str(outcome.result["tasks"][t]) for t in order]
        matrix = task_matrix(values, labels, signed=True)
        panels.append(Panel(outcome.cell.method, Axis("to task"), Axis("from task"), matrix))
    title = f"Who helps whom: {DATASETS[name].title}"
    caption = curves.say("structures_of", [outcome.cell.family for outcome in found])
    return Chart(f"structure_{name}", title, caption, tuple(panels), (5.0, 4.3))


def _second_kernels(found: Sequence[Outcome], name: str, order: Sequence[int]) -> Chart:
    panels = []
    for outcome in found:
        tasks = [str(task) for task in outcome.result["tasks"]]
        kernel = np.array(outcome.result["second_kernel"])
        rows = len(kernel) // len(tasks)
        places = order or range(len(tasks))
        index = np.concatenate([np.arange(rows * t, rows * (t + 1)) for t in places])
        names = [tasks[t] for t in places]
        matrix = task_matrix(kernel[np.ix_(index, index)], names, rows, signed=False)
        panels.append(Panel(outcome.cell.method, Axis("and task"), Axis("task"), matrix))
    title = f"The kernel of the second layer: {DATASETS[name].title}"
    caption = curves.say("second_kernels", bool(order))
    return Chart(f"second_kernel_{name}", title, caption, tuple(panels), (5.0, 4.3))


def _objectives(found: Sequence[Outcome], name: str) -> Chart:
    x, y, panels = Axis("iteration", whole=True), Axis("objective"), []
    for outcome in found:
        path = outcome.result["objective_path"]
        curve = curves.method_curve(outcome.cell.family, range(len(path)), path)
        curve = replace(curve, symbol=curve.symbol if len(path) <= _MOST_MARKERS else "")
        panels.append(Panel(outcome.cell.method, x, y, (curve,)))
    title = f"Cost against iterations: {DATASETS[name].title}"
    return Chart(f"objective_{name}", title, curves.say("objectives"), tuple(panels), (4.6, 3.2))


def _shown(outcomes: Sequence[Outcome], name: str, what: str) -> list[Outcome]:
    """Of each method the cell to show `what` of: the first repetition, on the first protocol.

    In the paper's setting where there is one: the weak ridges that tuning likes make every task a
    point of its own, and leave tasks little to say to each other. One or two numbers, such as the
    objective of a method that did not iterate, are not worth a figure.
    """
    cells = [o for o in outcomes if o.cell.dataset == name and o.cell.repetition == 0]
    found: dict[str, Outcome] = {}
    for setting in (RIDGES[0], "tuned"):
        for o in cells:
            first = (o.cell.setting, o.cell.protocol) == (setting, cells[0].cell.protocol)
            if first and what in o.result and np.size(o.result[what]) > 2:
                found.setdefault(o.cell.family, o)
    return sorted(found.values(), key=lambda outcome: curves.method_place(outcome.cell.family))


def _task_order(found: Sequence[Outcome]) -> list[int]:
    """One order of tasks for all methods, which puts those side by side that help each other."""
    matrices = []
    for outcome in found:
        matrix = np.array(outcome.result["structure"], dtype=float)
        np.fill_diagonal(matrix, 0.0)
        matrices.append(matrix / (np.abs(matrix).max(initial=0.0) or 1.0))
    return [int(t) for t in clustered(np.mean(matrices, axis=0))] if matrices else []
