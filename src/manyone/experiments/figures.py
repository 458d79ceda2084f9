"""The figures of the paper and ours, made from stored cells alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from manyone.estimators import METHODS
from manyone.experiments.cells import ALARM_RATES
from manyone.experiments.charts import (
    COLOURS,
    SYMBOLS,
    Axis,
    Chart,
    Curve,
    Panel,
    task_matrix,
)
from manyone.experiments.corruption import CORRUPTION_KINDS
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import has_ridge, in_paper, methods
from manyone.experiments.plan import RIDGES
from manyone.experiments.png import draw_png
from manyone.experiments.runner import Outcome
from manyone.experiments.tables import Row
from manyone.plots.structure import clustered

K = TypeVar("K", str, float)

_IN_PAPER, _OURS, _RIVALS = "methods of the paper", "others in the package", "everyday rivals"
_AUC = "AUC (%)"
_MOST_MARKERS = 50  # on a curve; more become a smear


@dataclass(frozen=True)
class Picture:
    """A chart and its PNG."""

    chart: Chart
    png: bytes

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        return self.chart.name


def draw(outcomes: Sequence[Outcome], rows: Sequence[Row]) -> list[Picture]:
    """Every figure there are cells for.

    Parameters
    ----------
    outcomes : sequence of Outcome
    rows : sequence of Row
        Their table.

    Returns
    -------
    list of Picture
    """
    return [Picture(chart, draw_png(chart)) for chart in charts(outcomes, rows)]


def charts(outcomes: Sequence[Outcome], rows: Sequence[Row]) -> list[Chart]:
    """What there is to draw; parameters as for `draw`."""
    done = [outcome for outcome in outcomes if outcome.result is not None]
    clean = [outcome for outcome in done if not outcome.cell.corruption]
    names = list(dict.fromkeys(row.dataset for row in rows))
    found = [
        _seen_unseen(rows, names),
        _alarms(clean, names),
        _ridges(clean, names),
        _squared_errors(clean, names),
        *(_robustness(done, names, kind) for kind in CORRUPTION_KINDS),
    ]
    for name in names:
        found += [_structures(clean, name), _second_kernels(clean, name), _objectives(clean, name)]
    return [chart for chart in found if chart.panels]


def _seen_unseen(rows: Sequence[Row], names: Sequence[str]) -> Chart:
    panels = []
    for name in names:
        mine = [row for row in rows if row.dataset == name]
        order = tuple(dict.fromkeys(row.method for row in mine))
        place = {method: float(k) for k, method in enumerate(order)}
        ends = {m: [row.mean for row in mine if row.method == m] for m in order}
        gap = float("nan")
        content = [
            Curve(
                tuple(v for m in order for v in (min(ends[m]), max(ends[m]), gap)),
                tuple(v for m in order for v in (place[m], place[m], gap)),
                colour="grid",
                width=3,
            )
        ]
        for protocol, colour, symbol in (
            ("seen", COLOURS[0], "circle"),
            ("unseen", COLOURS[1], "diamond"),
        ):
            part = [row for row in mine if row.protocol == protocol]
            if part:
                content.append(
                    Curve(
                        tuple(row.mean for row in part),
                        tuple(place[row.method] for row in part),
                        name=f"{protocol} anomalies",
                        colour=colour,
                        symbol=symbol,
                        line="",
                        error=tuple(row.error or 0.0 for row in part),
                    )
                )
        printed = [row for row in mine if row.paper is not None]
        if printed:
            content.append(
                Curve(
                    tuple(row.paper or gap for row in printed),
                    tuple(place[row.method] for row in printed),
                    name="the paper's figure",
                    colour="ink",
                    symbol="bar",
                    line="",
                )
            )
        lines = Axis("", names=order, limits=(-0.7, len(order) - 0.3), reverse=True)
        panels.append(Panel(DATASETS[name].title, Axis(_AUC), lines, tuple(content)))
    repeated = any(row.error is not None for row in rows)
    errors = " Bars are standard errors over repetitions." if repeated else ""
    return Chart(
        "seen_unseen",
        "Known and unknown kinds of anomaly",
        "Mean AUC of each method when the anomalies come from classes whose normal rows the model "
        "knows (circles, the paper's protocol) and from classes it has never met (diamonds); the "
        f"upright stroke is what the paper prints.{errors}",
        tuple(panels),
        (6.4, 0.3 * len({row.method for row in rows}) + 1.2),
    )


def _alarms(outcomes: Sequence[Outcome], names: Sequence[str]) -> Chart:
    promised = Curve((0.0, 0.35), (0.0, 0.35), name="as promised", line="dotted", width=1.2)
    measured = [o for o in outcomes if o.result and "alarms" in o.result]
    panels = []
    for name in names:
        found = _grouped(
            (o.cell.method, _result(o)["alarms"]) for o in measured if o.cell.dataset == name
        )
        curves = [
            _curve(method, ALARM_RATES, np.mean(values, axis=0)) for method, values in found.items()
        ]
        if curves:
            x = Axis("false-alarm rate asked for", percent=True, limits=(0, 0.35))
            y = Axis("measured on held-out normal rows", percent=True, limits=(0, 1.02))
            panels.append(Panel(DATASETS[name].title, x, y, (promised, *_by_group(curves))))
    return Chart(
        "alarm_rate",
        "Alarm rate: promised and measured",
        "Share of held-out normal rows that raise an alarm, against the share asked for (tuned; "
        f"{_repetitions(measured)}, all protocols); on or below the dotted line the promise is "
        "kept. A one-class SVM asked through nu, and an isolation forest asked through "
        "contamination, set their thresholds on the rows they were fitted to.",
        tuple(panels),
    )


def _ridges(outcomes: Sequence[Outcome], names: Sequence[str]) -> Chart:
    return Chart(
        "regulariser",
        "The first-layer regulariser",
        "Mean AUC as the ridge falls from the paper's 1 to 1e-6 (RBF kernel, its width chosen on "
        f"training rows for each value; {_repetitions(_weak(outcomes))}). Methods without such a "
        "ridge are level lines.",
        _against_ridge(outcomes, names, Axis(_AUC), _mean_auc),
    )


def _squared_errors(outcomes: Sequence[Outcome], names: Sequence[str]) -> Chart:
    return Chart(
        "squared_error",
        "Squared error and the first-layer regulariser",
        "Sum of squared differences between the fitted responses of the training rows and the "
        "wished-for ones (1 for the own task, 0 for the others) as the ridge falls, for the "
        "variants of OCKSR. A fit that is closer to the training rows need not be a better one: "
        "compare the figure before.",
        _against_ridge(
            [o for o in outcomes if o.result and o.result.get("sse") is not None],
            names,
            Axis("sum of squared errors", log=True),
            lambda result: float(result["sse"]),
        ),
    )


def _weak(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Cells with a ridge below the paper's, which only the study has."""
    return [o for o in outcomes if o.cell.setting in RIDGES[1:]]


def _repetitions(outcomes: Sequence[Outcome]) -> str:
    number = len({o.cell.repetition for o in outcomes})
    return f"first {number} repetitions" if number > 1 else "first repetition"


def _against_ridge(
    outcomes: Sequence[Outcome],
    names: Sequence[str],
    y: Axis,
    value: Callable[[dict[str, Any]], float],
) -> tuple[Panel, ...]:
    """A panel for each data set: a value of the results, averaged, against the ridge."""
    x = [float(setting.removeprefix("alpha=")) for setting in RIDGES]
    panels = []
    for name in names:
        cells = [o for o in outcomes if o.cell.dataset == name and o.cell.setting in RIDGES]
        # The study runs on one protocol and few repetitions; the table's cells beyond it are not
        # comparable with it.
        study = {(o.cell.protocol, o.cell.repetition) for o in _weak(cells)}
        groups = _grouped(
            (o.cell.family, (o.cell.setting, value(o.result)))
            for o in cells
            if o.result and (o.cell.protocol, o.cell.repetition) in study
        )
        curves, level = [], []
        for family, values in groups.items():
            by_ridge = _grouped(values)
            if set(by_ridge) == set(RIDGES):
                curves.append(_curve(family, x, [np.mean(by_ridge[s]) for s in RIDGES]))
            elif not has_ridge(family):
                level.append(_curve(family, x, [np.mean(by_ridge[RIDGES[0]])] * len(x)))
        if curves:
            ridge = Axis("first-layer regulariser (strong to weak)", log=True, reverse=True)
            panels.append(Panel(DATASETS[name].title, ridge, y, _by_group(curves + level)))
    return tuple(panels)


def _robustness(outcomes: Sequence[Outcome], names: Sequence[str], kind: str) -> Chart:
    title, label = CORRUPTION_KINDS[kind]
    panels = []
    for name in names:
        cells = [o for o in outcomes if o.cell.dataset == name and o.cell.setting == RIDGES[0]]
        study = {(o.cell.protocol, o.cell.repetition) for o in cells if o.cell.corruption}
        groups = _grouped(
            (o.cell.family, (level, _mean_auc(o.result)))
            for o in cells
            if o.result
            and (o.cell.protocol, o.cell.repetition) in study
            and (level := corruption_level(o.cell.corruption, kind)) is not None
        )
        curves = []
        for family, values in groups.items():
            by_level = _grouped(values)
            if len(by_level) > 1:  # else only a row of the table, not part of the study
                levels = sorted(by_level)
                curves.append(_curve(family, levels, [np.mean(by_level[v]) for v in levels]))
        if curves:
            panels.append(Panel(DATASETS[name].title, Axis(label), Axis(_AUC), _by_group(curves)))
    spoilt = [o for o in outcomes if o.cell.corruption]
    return Chart(
        f"robustness_{kind}",
        title,
        "Mean AUC on clean test rows when training is spoilt (regulariser 1, RBF kernel, width "
        f"chosen on the spoilt rows; {_repetitions(spoilt)}). The paper expects an edge for its "
        "sparse method here and does not measure it.",
        tuple(panels),
    )


def corruption_level(corruption: str, kind: str) -> float | None:
    """Strength of a corruption of one kind, 0 for clean rows, None for another kind."""
    if not corruption:
        return 0.0
    name, level = corruption.split("=")
    return float(level) if name == kind else None


def _structures(outcomes: Sequence[Outcome], name: str) -> Chart:
    found = _shown(outcomes, name, "structure")
    order = _task_order(found)
    panels = []
    for outcome in found:
        result = _result(outcome)
        values = np.array(result["structure"])[np.ix_(order, order)]
        labels = [str(result["tasks"][t]) for t in order]
        matrix = task_matrix(values, labels, signed=True)
        panels.append(Panel(outcome.cell.method, Axis("to task"), Axis("from task"), matrix))
    return Chart(
        f"structure_{name}",
        f"Who helps whom: {DATASETS[name].title}",
        "What each method learned about the relations between tasks (first repetition). OCKSR-L: "
        "its matrix B. OKL: its kernel over tasks. OCKSR-NS: how much the rows of one task weigh "
        "in the function of another, exactly 0 where they do not enter. OCKSR-N: how alike its "
        "second kernel holds the rows of two tasks to be. C-OCKSR: how the function of one task "
        "answers rows of another. Tasks that belong together lie side by side, in the same order "
        "in all panels; the diagonal may lie beyond the colours.",
        tuple(panels),
        (5.0, 4.3),
    )


def _second_kernels(outcomes: Sequence[Outcome], name: str) -> Chart:
    order = _task_order(_shown(outcomes, name, "structure"))
    panels = []
    for outcome in _shown(outcomes, name, "second_kernel"):
        result = _result(outcome)
        tasks = [str(task) for task in result["tasks"]]
        rows = len(result["second_kernel"]) // len(tasks)
        places = order or range(len(tasks))
        index = np.concatenate([np.arange(rows * t, rows * (t + 1)) for t in places])
        values = np.array(result["second_kernel"])[np.ix_(index, index)]
        matrix = task_matrix(values, [tasks[t] for t in places], rows, signed=False)
        panels.append(Panel(outcome.cell.method, Axis("and task"), Axis("task"), matrix))
    return Chart(
        f"second_kernel_{name}",
        f"The kernel of the second layer: {DATASETS[name].title}",
        "How alike the non-linear methods hold each pair of training rows to be (J; first "
        "repetition). Rows of a task lie together, tasks in the order of the figure before: a "
        "strong square on the diagonal is a task whose rows have become one, colour beside it "
        "joins two tasks.",
        tuple(panels),
        (5.0, 4.3),
    )


def _objectives(outcomes: Sequence[Outcome], name: str) -> Chart:
    panels = []
    for outcome in _shown(outcomes, name, "objective", lambda path: len(path) > 2):
        path = np.array(_result(outcome)["objective"], dtype=float)
        curve = _curve(outcome.cell.family, range(len(path)), path)
        if len(path) > _MOST_MARKERS:
            curve = replace(curve, symbol="")
        panels.append(
            Panel(outcome.cell.method, Axis("iteration", whole=True), Axis("objective"), (curve,))
        )
    return Chart(
        f"objective_{name}",
        f"Cost against iterations: {DATASETS[name].title}",
        "The objective of the methods that iterate, at the start and after each iteration (first "
        "repetition). Methods that are solved in one step have no such curve.",
        tuple(panels),
        (4.6, 3.2),
    )


def _shown(
    outcomes: Sequence[Outcome],
    name: str,
    what: str,
    worth: Callable[[Any], bool] = lambda value: True,
) -> list[Outcome]:
    """Of each method the cell to show `what` of: the first repetition, on the first protocol.

    In the paper's setting where there is one: the weak ridges that tuning likes make every task a
    point of its own, and leave tasks little to say to each other.
    """
    cells = [o for o in outcomes if o.cell.dataset == name and o.cell.repetition == 0 and o.result]
    found: dict[str, Outcome] = {}
    for setting in (RIDGES[0], "tuned"):
        for o in cells:
            if (
                (o.cell.setting, o.cell.protocol) == (setting, cells[0].cell.protocol)
                and what in _result(o)
                and worth(_result(o)[what])
            ):
                found.setdefault(o.cell.family, o)
    return sorted(found.values(), key=lambda outcome: _place(outcome.cell.family))


def _task_order(found: Sequence[Outcome]) -> list[int]:
    """One order of tasks for all methods, which puts those side by side that help each other."""
    matrices = []
    for outcome in found:
        matrix = np.array(_result(outcome)["structure"], dtype=float)
        np.fill_diagonal(matrix, 0.0)
        matrices.append(matrix / (np.abs(matrix).max(initial=0.0) or 1.0))
    return [int(t) for t in clustered(np.mean(matrices, axis=0))] if matrices else []


def _result(outcome: Outcome) -> dict[str, Any]:
    assert outcome.result is not None
    return outcome.result


def _mean_auc(result: dict[str, Any]) -> float:
    return 100 * float(np.nanmean(result["auc"]))


def _grouped(pairs: Iterable[tuple[K, Any]]) -> dict[K, list[Any]]:
    groups: dict[K, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _curve(family: str, x: Iterable[float], y: Iterable[float]) -> Curve:
    """A method's curve, in the same colour wherever the method appears."""
    k, ours = _place(family), family in METHODS
    return Curve(
        tuple(map(float, x)),
        tuple(map(float, y)),
        name=family,
        group=_IN_PAPER if in_paper(family) else _OURS if ours else _RIVALS,
        colour=COLOURS[k % len(COLOURS)],
        symbol=SYMBOLS[k % len(SYMBOLS)],
        line="solid" if ours else "dotted",
    )


def _by_group(curves: Sequence[Curve]) -> tuple[Curve, ...]:
    groups = [_IN_PAPER, _OURS, _RIVALS]
    return tuple(sorted(curves, key=lambda curve: (groups.index(curve.group), _place(curve.name))))


def _place(family: str) -> int:
    """Of a method among all there are."""
    known = list(dict.fromkeys(method.family for method in methods().values()))
    return known.index(family) if family in known else len(known)
