"""The figures, made from stored cells alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from manyone.estimators import METHODS
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import RIVALS, fault_methods, has_ridge, in_paper, ours
from manyone.experiments.plan import CORRUPTION_KINDS, RIDGES, Cell
from manyone.experiments.runner import Outcome
from manyone.experiments.tables import Results, Row
from manyone.files import toml_beside
from manyone.plots.structure import clustered
from manyone.report.charts import (
    COLOURS,
    SYMBOLS,
    Axis,
    Chart,
    Curve,
    Matrix,
    Panel,
    task_matrix,
)
from manyone.report.page import sentence

_WORDS = toml_beside(__file__, "figures.toml")
_GROUPS = ("methods of the paper", "others in the package", "everyday rivals")
_MOST_MARKERS = 50  # on a curve; more would blur it
# Protocols: what the anomalies are, and how they are marked.
_KINDS = {
    "seen": ("known", COLOURS[0], "circle"),
    "unseen": ("unknown", COLOURS[1], "diamond"),
    "faults": ("own", COLOURS[0], "circle"),
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
    found = [_seen_unseen(results), _alarms(results)]
    found += [_ridge_auc(clean, names), _ridge_errors(clean, names)]
    found += [_robustness(done, names, kind) for kind in CORRUPTION_KINDS]
    for name in names:
        structures = _shown(clean, name, "structure")
        order = _task_order(structures)
        found.append(_matrices("structure", structures, name, order))
        found.append(
            _matrices(
                "second_kernel", _shown(clean, name, "second_kernel"), name, order
            )
        )
        found.append(_objectives(_shown(clean, name, "objective_path"), name))
    return [chart for chart in found if chart.panels]


def _chart(
    name: str,
    contents: Mapping[str, Matrix | Sequence[Curve]],
    caption: str,
    dataset: str = "",
) -> Chart:
    """A figure of one or all data sets: panels by their titles; ``figures.toml`` has the words.

    Panels without curves are left out.
    """
    words = _WORDS[name]
    x, y, size = (
        Axis(**words["x"]),
        Axis(**words["y"]),
        tuple(words.get("size", (5.2, 4.0))),
    )
    filled = {t: c if isinstance(c, Matrix) else tuple(c) for t, c in contents.items()}
    panels = tuple(
        Panel(title, x, y, content) for title, content in filled.items() if content
    )
    ending, subject = (
        (f"_{dataset}", f": {DATASETS[dataset].title}") if dataset else ("", "")
    )
    return Chart(name + ending, words["title"] + subject, caption, panels, size)


def _seen_unseen(results: Results) -> Chart:
    rows = results.rows
    panels = tuple(_auc_panel(results, name) for name in results.datasets)
    kinds = [kind for kind in _KINDS if any(row.protocol == kind for row in rows)]
    title = f"{' and '.join(_KINDS[kind][0] for kind in kinds)} kinds of anomaly".capitalize()
    name = "faults" if kinds == ["faults"] else "seen_unseen"
    title = "Entities gone wrong" if name == "faults" else title
    printed = any(row.paper is not None for row in rows)
    caption = _say("seen_unseen", results.repeated, kinds, printed)
    size = (6.4, 0.3 * len({row.method for row in rows}) + 1.2)
    return Chart(name, title, caption, panels, size)


def _auc_panel(results: Results, name: str) -> Panel:
    """A line for each method, with its mean under each protocol and the paper's figure."""
    rows = [row for row in results.rows if row.dataset == name]
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
        named = kind if kind == "faults" else f"{kind} anomalies"
        dots([(row, row.mean) for row in mine], name=named, **look)
    printed = [(row, row.paper) for row in rows if row.paper is not None]
    dots(printed, name="the paper's figure", colour="ink", symbol="bar")
    lines = Axis("", names=order, limits=(-0.7, len(order) - 0.3), reverse=True)
    return Panel(DATASETS[name].title, Axis("AUC (%)"), lines, tuple(content))


def _alarms(results: Results) -> Chart:
    promised = Curve(
        (0.0, 0.35), (0.0, 0.35), name="as promised", line="dotted", width=1.2
    )
    contents = {}
    for name in results.datasets:
        rates = results.alarms(name)
        found = [_method_curve(method, ALARM_RATES, rates[method]) for method in rates]
        contents[DATASETS[name].title] = [promised, *_by_group(found)] if found else []
    measured = [o for o in results.outcomes if "alarms" in o.result]
    rivals = any(not ours(o.cell.method) for o in measured)
    return _chart(
        "alarm_rate", contents, _say("alarms", _repetitions(measured), rivals)
    )


def _ridge_auc(outcomes: Sequence[Outcome], names: Sequence[str]) -> Chart:
    contents = _study(outcomes, names, _ridges, lambda o: o.auc, reverse=True)
    level = [name for name in _drawn(contents) if not has_ridge(name)]
    number = _repetitions(o for o in outcomes if _only_studied(o.cell))
    return _chart("regulariser", contents, _say("ridge_auc", number, level))


def _ridge_errors(outcomes: Sequence[Outcome], names: Sequence[str]) -> Chart:
    cells = [o for o in outcomes if "sse" in o.result]
    contents = _study(
        cells, names, _ridges, lambda o: float(o.result["sse"]), reverse=True
    )
    return _chart("squared_error", contents, _say("ridge_errors"))


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
    return _chart(
        f"robustness_{kind}", contents, _say("robustness", number, _drawn(contents))
    )


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
    found = {}
    for name in names:
        mine = [
            o for o in outcomes if o.cell.dataset == name and o.cell.setting in RIDGES
        ]
        study = {
            (o.cell.protocol, o.cell.repetition) for o in mine if _only_studied(o.cell)
        }
        values: dict[str, dict[float, list[float]]] = {}
        for o in (o for o in mine if (o.cell.protocol, o.cell.repetition) in study):
            for place in places(o.cell):
                values.setdefault(o.cell.family, {}).setdefault(place, []).append(
                    value(o)
                )
        curves = []
        for family, points in values.items():
            order = sorted(points, reverse=reverse)
            means = [float(np.mean(points[place])) for place in order]
            if len(order) > 1:
                curves.append(_method_curve(family, order, means))
        found[DATASETS[name].title] = _by_group(curves)
    return found


def _only_studied(cell: Cell) -> bool:
    """Whether a cell belongs to a study and to nothing else."""
    return bool(cell.corruption) or cell.setting in RIDGES[1:]


def _matrices(
    what: str, found: Sequence[Outcome], name: str, order: Sequence[int]
) -> Chart:
    """A matrix over the tasks, or over their rows, for each method, with the tasks in one order."""
    contents = {}
    for o in found:
        tasks, values = o.result["tasks"], np.array(o.result[what])
        rows, places = len(values) // len(tasks), order or range(len(tasks))
        index = np.concatenate([np.arange(rows * t, rows * (t + 1)) for t in places])
        labels, values = [str(tasks[t]) for t in places], values[np.ix_(index, index)]
        contents[o.cell.method] = task_matrix(
            values, labels, rows, signed=what == "structure"
        )
    caption = _say(what, [o.cell.family for o in found], bool(order))
    return _chart(what, contents, caption, name)


def _objectives(found: Sequence[Outcome], name: str) -> Chart:
    contents = {}
    for outcome in found:
        path = outcome.result["objective_path"]
        curve = _method_curve(outcome.cell.family, range(len(path)), path)
        few = len(path) <= _MOST_MARKERS
        contents[outcome.cell.method] = [curve if few else replace(curve, symbol="")]
    return _chart("objective", contents, _say("objectives"), name)


def _shown(outcomes: Sequence[Outcome], name: str, what: str) -> list[Outcome]:
    """For each method the cell whose `what` is shown: first repetition, first protocol.

    In the paper's setting where there is one: with the weak ridges that tuning prefers, every task
    becomes a point of its own and tasks hardly relate. One or two numbers, such as the objective of
    a method that did not iterate, are not worth a figure.
    """
    cells = [o for o in outcomes if o.cell.dataset == name and o.cell.repetition == 0]
    found: dict[str, Outcome] = {}
    for setting in (RIDGES[0], "tuned"):
        for o in cells:
            first = (o.cell.setting, o.cell.protocol) == (
                setting,
                cells[0].cell.protocol,
            )
            if first and what in o.result and np.size(o.result[what]) > 2:
                found.setdefault(o.cell.family, o)
    return sorted(found.values(), key=lambda outcome: _place(outcome.cell.family))


def _task_order(found: Sequence[Outcome]) -> list[int]:
    """One order of tasks for all methods: tasks that help each other stand side by side."""
    matrices = []
    for outcome in found:
        matrix = np.array(outcome.result["structure"], dtype=float)
        np.fill_diagonal(matrix, 0.0)
        matrices.append(matrix / (np.abs(matrix).max(initial=0.0) or 1.0))
    return [int(t) for t in clustered(np.mean(matrices, axis=0))] if matrices else []


def _method_curve(family: str, x: Iterable[float], y: Iterable[float]) -> Curve:
    """A method's curve, in the same colour wherever the method appears."""
    k, mine = _place(family), ours(family)
    others = _GROUPS[1] if mine else _GROUPS[2]
    group = _GROUPS[0] if in_paper(family) else others
    look = (
        COLOURS[k % len(COLOURS)],
        SYMBOLS[k % len(SYMBOLS)],
        "solid" if mine else "dotted",
    )
    return Curve(tuple(map(float, x)), tuple(map(float, y)), family, group, *look)


def _place(family: str) -> int:
    """Place of a method among all methods; unknown ones come last."""
    named = [
        *METHODS,
        *RIVALS,
        *dict.fromkeys(name for name, _ in fault_methods()),
        family,
    ]
    return named.index(family)


def _by_group(curves: Iterable[Curve]) -> list[Curve]:
    """Curves of methods in the order of the legend."""
    return sorted(curves, key=lambda c: (_GROUPS.index(c.group), _place(c.name)))


def _drawn(contents: Mapping[str, Sequence[Curve]]) -> list[str]:
    """Names of the curves in all panels."""
    return list(
        dict.fromkeys(curve.name for curves in contents.values() for curve in curves)
    )


def _repetitions(outcomes: Iterable[Outcome]) -> str:
    """How many repetitions these cells cover, for a caption."""
    number = len({o.cell.repetition for o in outcomes})
    return f"first {number} repetitions" if number > 1 else "first repetition"


def _say(caption: str, *values: Any) -> str:
    """A caption, one of the macros in ``templates/captions.html``."""
    return sentence("manyone.experiments", "captions.html", caption, *values)
