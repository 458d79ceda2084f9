"""The figures of the paper and ours, made from stored cells alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from manyone.estimators import METHODS
from manyone.experiments import curves
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.corruption import CORRUPTION_KINDS
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import has_ridge
from manyone.experiments.plan import RIDGES, Cell
from manyone.experiments.runner import Outcome
from manyone.experiments.tables import Results, Row
from manyone.plots.structure import clustered
from manyone.report.charts import COLOURS, Axis, Chart, Curve, Panel, task_matrix

_RIDGE = Axis("first-layer regulariser (strong to weak)", log=True, reverse=True)
_MOST_MARKERS = 50  # on a curve; more become a smear
# Protocols: what the anomalies are, and how they are marked.
_KINDS = {"seen": ("known", COLOURS[0], "circle"), "unseen": ("unknown", COLOURS[1], "diamond")}
# Matrices over tasks: title, labels of the axes, whether colours tell more from less than 0.
_MATRICES = {
    "structure": ("Who helps whom", "to task", "from task", True),
    "second_kernel": ("The kernel of the second layer", "and task", "task", False),
}


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
        _ridge_auc(clean, names),
        _ridge_errors(clean, names),
        *(_robustness(done, names, kind) for kind in CORRUPTION_KINDS),
    ]
    for name in names:
        structures = _shown(clean, name, "structure")
        order = _task_order(structures)
        found += [
            _matrices("structure", structures, name, order),
            _matrices("second_kernel", _shown(clean, name, "second_kernel"), name, order),
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


def _ridge_auc(outcomes: Sequence[Outcome], names: Sequence[str]) -> Chart:
    panels = _study(outcomes, names, _RIDGE, curves.AUC, _ridges, lambda o: o.auc)
    level = [name for name in curves.drawn(panels) if not has_ridge(name)]
    number = curves.repetitions(o for o in outcomes if _only_studied(o.cell))
    caption = curves.say("ridge_auc", number, level)
    return Chart("regulariser", "The first-layer regulariser", caption, panels)


def _ridge_errors(outcomes: Sequence[Outcome], names: Sequence[str]) -> Chart:
    cells = [o for o in outcomes if "sse" in o.result]
    errors = Axis("sum of squared errors", log=True)
    panels = _study(cells, names, _RIDGE, errors, _ridges, lambda o: float(o.result["sse"]))
    title = "Squared error and the first-layer regulariser"
    return Chart("squared_error", title, curves.say("ridge_errors"), panels)


def _ridges(cell: Cell) -> list[float]:
    """Ridges that a cell is about: its own, or all for a method that has none."""
    settings = [cell.setting] if has_ridge(cell.family) else RIDGES
    return [float(setting.removeprefix("alpha=")) for setting in settings]


def _robustness(outcomes: Sequence[Outcome], names: Sequence[str], kind: str) -> Chart:
    words = CORRUPTION_KINDS[kind]

    def strengths(cell: Cell) -> list[float]:
        name, _, strength = cell.corruption.partition("=")
        return [float(strength or 0.0)] if name in ("", kind) else []

    cells = [o for o in outcomes if o.cell.setting == RIDGES[0]]
    panels = _study(cells, names, Axis(words["strength"]), curves.AUC, strengths, lambda o: o.auc)
    number = curves.repetitions(o for o in cells if o.cell.corruption)
    caption = curves.say("robustness", number, curves.drawn(panels))
    return Chart(f"robustness_{kind}", words["title"], caption, panels)


def _study(
    outcomes: Sequence[Outcome],
    names: Sequence[str],
    x: Axis,
    y: Axis,
    places: Callable[[Cell], list[float]],
    value: Callable[[Outcome], float],
) -> tuple[Panel, ...]:
    """A panel for each data set: of each method the mean of a value, by the places of its cells.

    A study has one protocol and few repetitions. The table has more of them, which are not
    comparable with it and left out; so are methods that are part of the table only.
    """

    def found(name: str) -> list[Curve]:
        mine = [o for o in outcomes if o.cell.dataset == name and o.cell.setting in RIDGES]
        study = {(o.cell.protocol, o.cell.repetition) for o in mine if _only_studied(o.cell)}
        values: dict[str, dict[float, list[float]]] = {}
        for o in (o for o in mine if (o.cell.protocol, o.cell.repetition) in study):
            for place in places(o.cell):
                values.setdefault(o.cell.family, {}).setdefault(place, []).append(value(o))
        shown = []
        for family, points in values.items():
            order = sorted(points, reverse=x.reverse)
            means = [float(np.mean(points[place])) for place in order]
            shown += [curves.method_curve(family, order, means)] if len(order) > 1 else []
        return curves.by_group(shown)

    return curves.dataset_panels(names, x, y, found)


def _only_studied(cell: Cell) -> bool:
    """Whether a cell belongs to a study and to nothing else."""
    return bool(cell.corruption) or cell.setting in RIDGES[1:]


def _matrices(what: str, found: Sequence[Outcome], name: str, order: Sequence[int]) -> Chart:
    """A matrix over the tasks, or over their rows, for each method, with the tasks in one order."""
    title, x, y, signed = _MATRICES[what]
    panels = []
    for outcome in found:
        tasks, values = outcome.result["tasks"], np.array(outcome.result[what])
        rows, places = len(values) // len(tasks), order or range(len(tasks))
        index = np.concatenate([np.arange(rows * t, rows * (t + 1)) for t in places])
        labels = [str(tasks[t]) for t in places]
        matrix = task_matrix(values[np.ix_(index, index)], labels, rows, signed=signed)
        panels.append(Panel(outcome.cell.method, Axis(x), Axis(y), matrix))
    caption = curves.say(what, [outcome.cell.family for outcome in found], bool(order))
    title = f"{title}: {DATASETS[name].title}"
    return Chart(f"{what}_{name}", title, caption, tuple(panels), (5.0, 4.3))


def _objectives(found: Sequence[Outcome], name: str) -> Chart:
    x, y, panels = Axis("iteration", whole=True), Axis("objective"), []
    for outcome in found:
        path = outcome.result["objective_path"]
        curve = curves.method_curve(outcome.cell.family, range(len(path)), path)
        curve = curve if len(path) <= _MOST_MARKERS else replace(curve, symbol="")
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
