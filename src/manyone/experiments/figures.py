"""The figures, made from stored cells alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from manyone.estimators import METHODS
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.charts import (
    COLOURS,
    GRID,
    INK,
    MARKERS,
    Axis,
    Chart,
    Curve,
    Matrix,
    Panel,
)
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import RIVALS, compared, has_ridge, in_paper, ours
from manyone.experiments.plan import CORRUPTION_KINDS, RIDGES, Cell
from manyone.experiments.results import Results
from manyone.experiments.runner import Outcome
from manyone.files import toml_beside
from manyone.plots.structure import clustered

_WORDS = toml_beside(__file__, "figures.toml")
_MOST_MARKERS = 50  # on a curve; more would blur it
_PROMISED = Curve((0.0, 0.35), (0.0, 0.35), name="as promised", line=":", width=1.2)
# What the anomalies of a protocol are called, and how they are marked.
_KINDS = {
    "seen": ("seen anomalies", COLOURS[0], "o"),
    "unseen": ("unseen anomalies", COLOURS[1], "D"),
    "faults": ("faults", COLOURS[0], "o"),
    "time": ("faults in time", COLOURS[0], "o"),
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
    drawn = [_seen_unseen(results), _alarms(results)]
    drawn += [_ridge_auc(clean, names), _ridge_errors(clean, names)]
    drawn += [_robustness(done, names, kind) for kind in CORRUPTION_KINDS]
    for name in names:
        structures = _shown(clean, name, "structure")
        kernels = _shown(clean, name, "second_kernel")
        order = _task_order(structures)
        drawn.append(_structures(structures, name, order))
        drawn.append(_second_kernels(kernels, name, order))
        drawn.append(_objectives(_shown(clean, name, "objective_path"), name))
    return [chart for chart in drawn if chart.panels]


def _chart(
    kind: str,
    contents: Mapping[str, Matrix | Sequence[Curve]],
    caption: str,
    dataset: str = "",
) -> Chart:
    """A figure of one or all data sets: panels by their titles, words from ``figures.toml``.

    Panels without curves are left out.
    """
    words = _WORDS[kind]
    x = Axis(**words["x"])
    y = Axis(**words["y"])
    panels = []
    for title, content in contents.items():
        if isinstance(content, Matrix):
            panels.append(Panel(title, x, y, content))
        elif content:
            panels.append(Panel(title, x, y, tuple(content)))
    name = f"{kind}_{dataset}" if dataset else kind
    subject = f": {DATASETS[dataset].title}" if dataset else ""
    size = tuple(words.get("size", (5.2, 4.0)))
    return Chart(name, words["title"] + subject, caption, tuple(panels), size)


def _seen_unseen(results: Results) -> Chart:
    rows = results.rows
    panels = tuple(_auc_panel(results, name) for name in results.datasets)
    kinds = [kind for kind in _KINDS if any(row.protocol == kind for row in rows)]
    titles = {
        "seen": "Known kinds of anomaly",
        "unseen": "Unknown kinds of anomaly",
        "faults": "Entities gone wrong",
        "time": "Entities gone wrong in the course of time",
    }
    title = (
        titles[kinds[0]] if len(kinds) == 1 else "Known and unknown kinds of anomaly"
    )
    sources = {
        "seen": "classes whose normal rows the model is trained on (circles, the paper's "
        "protocol)",
        "unseen": "classes that are not enrolled (diamonds)",
        "faults": "rows of the entities themselves gone wrong",
        "time": "later rows of the entities themselves gone wrong",
    }
    caption = "Mean AUC" if results.repeated else "AUC"
    caption += " of each method when the anomalies come from "
    caption += " and from ".join(sources[kind] for kind in kinds)
    if any(row.paper is not None for row in rows):
        caption += "; the upright stroke is the paper's figure"
    caption += "."
    if results.repeated:
        caption += " Bars are standard errors over repetitions."
    size = (6.4, 0.3 * len({row.method for row in rows}) + 1.2)
    name = kinds[0] if kinds in (["faults"], ["time"]) else "seen_unseen"
    return Chart(name, title, caption, panels, size)


def _auc_panel(results: Results, name: str) -> Panel:
    """A line for each method, with its mean under each protocol and the paper's figure."""
    rows = [row for row in results.rows if row.dataset == name]
    methods = tuple(dict.fromkeys(row.method for row in rows))
    place = {method: float(k) for k, method in enumerate(methods)}
    content = []
    for method in methods:
        means = [row.mean for row in rows if row.method == method]
        height = place[method]
        span = (min(means), max(means))
        content.append(Curve(span, (height, height), colour=GRID, width=3))
    for kind, (label, colour, marker) in _KINDS.items():
        drawn = [row for row in rows if row.protocol == kind]
        if drawn:
            repeated = any(row.error is not None for row in drawn)
            dots = Curve(
                tuple(row.mean for row in drawn),
                tuple(place[row.method] for row in drawn),
                name=label,
                colour=colour,
                marker=marker,
                line="",
                error=tuple(row.error or 0.0 for row in drawn) if repeated else (),
            )
            content.append(dots)
    printed = {row.method: row.paper for row in rows if row.paper is not None}
    if printed:
        heights = tuple(place[method] for method in printed)
        stroke = Curve(tuple(printed.values()), heights, line="", marker="|")
        content.append(replace(stroke, name="the paper's figure", colour=INK))
    lines = Axis("", names=methods, limits=(-0.7, len(methods) - 0.3), reverse=True)
    return Panel(DATASETS[name].title, Axis("AUC (%)"), lines, tuple(content))


def _alarms(results: Results) -> Chart:
    contents: dict[str, list[Curve]] = {}
    for name in results.datasets:
        rates = results.alarms(name)
        curves = [_method_curve(method, ALARM_RATES, rates[method]) for method in rates]
        contents[DATASETS[name].title] = [_PROMISED, *_sorted(curves)] if curves else []
    measured = [o for o in results.outcomes if "alarms" in o.result]
    caption = (
        "Share of held-out normal rows that raise an alarm, against the share asked for "
        f"(tuned; {_repetitions(measured)}, all protocols). On or below the dotted line the "
        "promise is kept."
    )
    if any(not ours(o.cell.method) for o in measured):
        caption += (
            " The rivals are asked through nu or contamination. They set their thresholds on "
            "the rows they were fitted to."
        )
    return _chart("alarm_rate", contents, caption)


def _ridge_auc(outcomes: Sequence[Outcome], names: Sequence[str]) -> Chart:
    contents = _study(outcomes, names, _ridges, lambda o: o.auc, reverse=True)
    number = _repetitions(o for o in outcomes if _only_studied(o.cell))
    caption = (
        "Mean AUC as the ridge falls from the paper's 1 to 1e-6 (RBF kernel; its width is "
        f"chosen on training rows for each value; {number})."
    )
    level = [name for name in _drawn(contents) if not has_ridge(name)]
    if level:
        caption += f" Level lines: {', '.join(level)}, without such a ridge."
    return _chart("regulariser", contents, caption)


def _ridge_errors(outcomes: Sequence[Outcome], names: Sequence[str]) -> Chart:
    cells = [o for o in outcomes if "sse" in o.result]
    contents = _study(cells, names, _ridges, lambda o: o.result["sse"], reverse=True)
    caption = (
        "Sum of squared differences between the fitted responses of the training rows and "
        "their targets (1 for the own task, 0 for the others) as the ridge falls. A closer "
        "fit to the training rows need not be a better one: compare the figure before."
    )
    return _chart("squared_error", contents, caption)


def _ridges(cell: Cell) -> list[float]:
    """Ridges that a cell is about: its own, or all for a method that has none."""
    settings = [cell.setting] if has_ridge(cell.family) else RIDGES
    return [float(setting.removeprefix("alpha=")) for setting in settings]


def _robustness(outcomes: Sequence[Outcome], names: Sequence[str], kind: str) -> Chart:
    def strengths(cell: Cell) -> list[float]:
        name, _, strength = cell.corruption.partition("=")
        return [float(strength or 0.0)] if name in ("", kind) else []

    cells = [o for o in outcomes if o.cell.setting == RIDGES[0]]
    contents = _study(cells, names, strengths, lambda o: o.auc)
    number = _repetitions(o for o in cells if o.cell.corruption)
    caption = (
        "Mean AUC on clean test rows when the training rows are corrupted (regulariser 1, RBF "
        f"kernel, width chosen on the corrupted rows; {number})."
    )
    if "OCKSR-NS" in _drawn(contents):
        caption += (
            " The paper expects an advantage for its sparse method here and does not "
            "measure it."
        )
    return _chart(f"robustness_{kind}", contents, caption)


def _study(
    outcomes: Sequence[Outcome],
    names: Sequence[str],
    places: Callable[[Cell], list[float]],
    value: Callable[[Outcome], float],
    *,
    reverse: bool = False,
) -> dict[str, list[Curve]]:
    """Curves by data set: for each method the mean of a value at each place on the x axis.

    A study has one protocol and few repetitions. Cells of the table with other protocols or
    repetitions are not comparable and left out; so are methods that are not in the study.
    """
    contents = {}
    for name in names:
        cells = [o for o in outcomes if o.cell.dataset == name]
        cells = [o for o in cells if o.cell.setting in RIDGES]
        studied = {_draw_of(o.cell) for o in cells if _only_studied(o.cell)}
        values: dict[str, dict[float, list[float]]] = {}
        for outcome in cells:
            if _draw_of(outcome.cell) in studied:
                points = values.setdefault(outcome.cell.family, {})
                for place in places(outcome.cell):
                    points.setdefault(place, []).append(value(outcome))
        curves = []
        for family, points in values.items():
            order = sorted(points, reverse=reverse)
            if len(order) > 1:
                means = [float(np.mean(points[place])) for place in order]
                curves.append(_method_curve(family, order, means))
        contents[DATASETS[name].title] = _sorted(curves)
    return contents


def _draw_of(cell: Cell) -> tuple[str, int]:
    """Protocol and repetition, which fix the rows that a cell is about."""
    return cell.protocol, cell.repetition


def _only_studied(cell: Cell) -> bool:
    """Whether a cell belongs to a study and to nothing else."""
    return bool(cell.corruption) or cell.setting in RIDGES[1:]


def _structures(outcomes: Sequence[Outcome], name: str, order: Sequence[int]) -> Chart:
    meanings = _WORDS["structure"]["meanings"]
    families = [o.cell.family for o in outcomes]
    sentences = [f"{f}: {meanings[f]}." for f in families if f in meanings]
    caption = " ".join(
        (
            "What each method learned about the relations between tasks (first repetition).",
            *sentences,
            "Tasks that belong together lie side by side, in the same order in all panels; the "
            "diagonal may lie beyond the colours.",
        )
    )
    contents = {o.cell.method: _matrix(o, "structure", order) for o in outcomes}
    return _chart("structure", contents, caption, name)


def _second_kernels(
    outcomes: Sequence[Outcome], name: str, order: Sequence[int]
) -> Chart:
    ordered = ", tasks in the order of the figure before" if order else ""
    caption = (
        "How similar the non-linear methods find each pair of training rows (J; first "
        f"repetition). Rows of a task lie together{ordered}. A strong square on the diagonal "
        "is a task whose rows are mapped to nearly the same point; colour beside it joins two "
        "tasks."
    )
    contents = {o.cell.method: _matrix(o, "second_kernel", order) for o in outcomes}
    return _chart("second_kernel", contents, caption, name)


def _matrix(
    outcome: Outcome, what: Literal["structure", "second_kernel"], order: Sequence[int]
) -> Matrix:
    """A matrix over the tasks, or over their rows, with the tasks in an order."""
    tasks = outcome.result["tasks"]
    values = np.array(outcome.result[what])
    rows = len(values) // len(tasks)
    places = order or range(len(tasks))
    index = np.concatenate([np.arange(rows * t, rows * (t + 1)) for t in places])
    names = tuple(str(tasks[t]) for t in places)
    return Matrix(values[np.ix_(index, index)], names, signed=what == "structure")


def _objectives(outcomes: Sequence[Outcome], name: str) -> Chart:
    contents = {}
    for outcome in outcomes:
        path = outcome.result["objective_path"]
        curve = _method_curve(outcome.cell.family, range(len(path)), path)
        if len(path) > _MOST_MARKERS:
            curve = replace(curve, marker="")
        contents[outcome.cell.method] = [curve]
    caption = (
        "The objective of the methods that iterate, at the start and after each iteration "
        "(first repetition). Methods that are solved in one step have no such curve."
    )
    return _chart("objective", contents, caption, name)


def _shown(
    outcomes: Sequence[Outcome],
    name: str,
    what: Literal["structure", "second_kernel", "objective_path"],
) -> list[Outcome]:
    """For each method the cell whose `what` is shown: first repetition, first protocol.

    In the paper's setting where there is one: with the weak ridges that tuning prefers, every task
    becomes a point of its own and tasks hardly relate. One or two numbers, such as the objective of
    a method that did not iterate, are not worth a figure.
    """
    cells = [o for o in outcomes if o.cell.dataset == name and o.cell.repetition == 0]
    shown: dict[str, Outcome] = {}
    for setting in (RIDGES[0], "tuned"):
        for outcome in cells:
            cell = outcome.cell
            first = cell.protocol == cells[0].cell.protocol and cell.setting == setting
            if first and np.size(outcome.result.get(what, ())) > 2:
                shown.setdefault(cell.family, outcome)
    return sorted(shown.values(), key=lambda outcome: _place(outcome.cell.family))


def _task_order(outcomes: Sequence[Outcome]) -> list[int]:
    """One order of tasks for all methods: tasks that help each other stand side by side."""
    matrices = []
    for outcome in outcomes:
        matrix = np.array(outcome.result["structure"], dtype=float)
        np.fill_diagonal(matrix, 0.0)
        matrices.append(matrix / (np.abs(matrix).max(initial=0.0) or 1.0))
    return [int(t) for t in clustered(np.mean(matrices, axis=0))] if matrices else []


def _method_curve(family: str, x: Iterable[float], y: Iterable[float]) -> Curve:
    """A method's curve, in the same look wherever the method appears."""
    place = _place(family)
    return Curve(
        tuple(map(float, x)),
        tuple(map(float, y)),
        name=family,
        colour=COLOURS[place % len(COLOURS)],
        marker=MARKERS[place % len(MARKERS)],
        line="-" if ours(family) else ":",
    )


def _place(family: str) -> int:
    """Place of a method among all methods; unknown ones come last."""
    kinds = ("faults", "time")
    faults = dict.fromkeys(m.name for kind in kinds for m in compared(kind))
    return [*METHODS, *RIVALS, *faults, family].index(family)


def _sorted(curves: Iterable[Curve]) -> list[Curve]:
    """Curves in the order of the legend: the paper's methods, our others, then rivals."""
    return sorted(
        curves, key=lambda c: (not in_paper(c.name), not ours(c.name), _place(c.name))
    )


def _drawn(contents: Mapping[str, Sequence[Curve]]) -> list[str]:
    """Names of the curves in all panels."""
    names = (curve.name for curves in contents.values() for curve in curves)
    return list(dict.fromkeys(names))


def _repetitions(outcomes: Iterable[Outcome]) -> str:
    """How many repetitions these cells cover, for a caption."""
    number = len({o.cell.repetition for o in outcomes})
    return f"first {number} repetitions" if number > 1 else "first repetition"
