"""Figures of a run, drawn from stored cells."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from manyone._types import Codes
from manyone.estimators import METHODS
from manyone.experiments.cells import ALARM_RATES, CellResult, Shown
from manyone.experiments.data import DATASETS
from manyone.experiments.methods import compared, has_ridge, is_of_package
from manyone.experiments.plan import RIDGES
from manyone.experiments.results import ANOMALIES, Results, grouped
from manyone.experiments.runner import Outcome
from manyone.plots.structure import StructureDisplay, clustered, label_tasks

#: Colours of curves: each stands out by 3 : 1 or more from white.
COLOURS = (
    "#0a7bc2",
    "#d55e00",
    "#00966c",
    "#c2559b",
    "#b07d00",
    "#7d6bd6",
    "#c8403f",
    "#3d8f9e",
    "#7f8a1f",
    "#8a7360",
    "#5b8def",
    "#77838f",
)
# For readers who cannot tell all colours apart.
_MARKERS = ("o", "s", "D", "^", "v")
_MOST_COLUMNS = 3  # of panels
_INK = "#1c2127"
_GRID = "#dfe4e8"
_LEGEND_ENTRY = 2.4  # inches: width of the longest name
_LEGEND_LINE = 0.19  # inches: height of a line
# What an entry of a structure means, by method.
_MEANINGS = {
    "C-OCKSR": "how the function of one task answers rows of another",
    "OCKSR-L": "its matrix B",
    "OCKSR-N": "how similar its second kernel finds the rows of two tasks",
    "OCKSR-NS": "how much the rows of one task weigh in the function of another, "
    "exactly 0 where they do not enter",
    "OKL": "its kernel over tasks",
}

#: Of a method: its name, and the points of its curve.
Curve = tuple[str, Sequence[float], Sequence[float]]


class Drawing(NamedTuple):
    """A figure, the name of its file, its title and its caption."""

    name: str
    title: str
    caption: str
    figure: Figure

    def png(self) -> bytes:
        """Bytes of a PNG file; the same figure gives the same bytes."""
        stream = io.BytesIO()
        # Leave out date and version, so that bytes do not depend on them.
        self.figure.savefig(stream, format="png", metadata={"Software": None})
        return stream.getvalue()


def drawings(results: Results) -> list[Drawing]:
    """All figures for which there are cells.

    Parameters
    ----------
    results : Results

    Returns
    -------
    list of Drawing
    """
    done = [outcome for outcome in results.outcomes if outcome.result]
    if not done:
        return []
    drawn = [_draw_table(results)]
    drawn += [*_draw_alarms(results), *_draw_ridges(done)]
    for name in results.datasets:
        cells = [o for o in done if o.cell.dataset == name and o.cell.repetition == 0]
        drawn += _draw_learned(cells, name)
    return drawn


def _panels(
    titles: Sequence[str], size: tuple[float, float] = (5.0, 4.2)
) -> tuple[Figure, list[Axes]]:
    """A figure with axes for each title; `size` is that of a panel in inches."""
    columns = min(len(titles), _MOST_COLUMNS)
    rows = -(-len(titles) // columns)
    figsize = (size[0] * columns, size[1] * rows)
    figure = Figure(figsize=figsize, dpi=110, layout="constrained")
    axes = []
    for place, title in enumerate(titles):
        ax = figure.add_subplot(rows, columns, place + 1)
        ax.set_title(title, fontsize="medium", fontweight="bold")
        axes.append(ax)
    return figure, axes


def _add_legend(figure: Figure) -> None:
    """Add one legend above all panels; within them curves would hide it."""
    entries: dict[str, Artist] = {}
    for ax in figure.axes:
        _open_grid(ax)
        handles, names = ax.get_legend_handles_labels()
        entries |= dict(zip(names, handles, strict=True))
    width, height = figure.get_size_inches()
    columns = max(1, int(width / _LEGEND_ENTRY))
    lines = -(-len(entries) // columns)
    figure.set_size_inches(width, height + _LEGEND_LINE * lines)
    figure.legend(
        list(entries.values()),
        list(entries),
        ncols=columns,
        loc="outside upper center",
        frameon=False,
        fontsize="small",
    )


def _open_grid(ax: Axes) -> None:
    ax.grid(color=_GRID, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _plot_methods(ax: Axes, curves: Iterable[Curve]) -> None:
    """Plot curves in the order of the legend: methods of the package, then rivals."""
    for family, x, y in sorted(curves, key=lambda curve: _place(curve[0])):
        place = _place(family)
        ax.plot(
            x,
            y,
            label=family,
            color=COLOURS[place % len(COLOURS)],
            marker=_MARKERS[place % len(_MARKERS)],
            markersize=5,
            linestyle="-" if is_of_package(family) else ":",
        )


def _place(family: str) -> int:
    """Place of a method among all methods, which fixes its colour and marker."""
    names = list(METHODS)
    for kind in ("seen", "faults", "time"):
        names += [method.name for method in compared(kind)]
    return list(dict.fromkeys([*names, family])).index(family)


def _draw_table(results: Results) -> Drawing:
    """Draw means of each method for each protocol, and the paper's figures."""
    most = max(len(results.methods(name)) for name in results.datasets)
    size = (6.4, 0.3 * most + 1.2)
    figure, axes = _panels([DATASETS[name].title for name in results.datasets], size)
    for ax, name in zip(axes, results.datasets, strict=True):
        _plot_table(ax, results, name)
    caption = "Means over tasks."
    if results.repeated:
        caption = "Means over tasks and repetitions; bars are standard errors."
    _add_legend(figure)
    return Drawing("auc", "AUC of every method", caption, figure)


def _plot_table(ax: Axes, results: Results, name: str) -> None:
    """Plot a line for each method of a data set."""
    methods = results.methods(name)
    rows = [row for row in results.rows if row.dataset == name]
    for method in methods:
        means = [row.mean for row in rows if row.method == method]
        ax.plot([min(means), max(means)], [method, method], color=_GRID, linewidth=3)
    for kind in results.kinds:
        of_kind = [row for row in rows if row.protocol == kind]
        ax.errorbar(
            [row.mean for row in of_kind],
            [row.method for row in of_kind],
            xerr=[row.error or 0.0 for row in of_kind],
            label=ANOMALIES[kind],
            color=COLOURS[1] if kind == "unseen" else COLOURS[0],
            fmt="D" if kind == "unseen" else "o",
            markersize=5,
            capsize=2,
        )
    printed = {row.method: row.paper for row in rows if row.paper is not None}
    if printed:
        ax.scatter(
            list(printed.values()),
            list(printed),
            s=170,
            c=_INK,
            marker="|",
            linewidths=2,
            zorder=3,
            label="the paper's figure",
        )
    ax.set(xlabel="AUC (%)", ylim=(len(methods) - 0.3, -0.7))


def _draw_alarms(results: Results) -> Iterator[Drawing]:
    """Draw measured alarm rates against the promised ones."""
    rates = {name: results.alarms(name) for name in results.datasets}
    rates = {name: measured for name, measured in rates.items() if measured}
    if not rates:
        return
    figure, axes = _panels([DATASETS[name].title for name in rates])
    for ax, measured in zip(axes, rates.values(), strict=True):
        ax.plot([0, 0.35], [0, 0.35], ":", color=_INK, label="as promised")
        _plot_methods(ax, [(m, ALARM_RATES, list(r)) for m, r in measured.items()])
        ax.set(xlabel="false-alarm rate asked for", xlim=(0, 0.35))
        ax.set(ylabel="measured on held-out normal rows", ylim=(0, 1.02))
        ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    repetitions = _repetitions(o for o in results.outcomes if "alarms" in o.result)
    caption = (
        "Share of held-out normal rows that raise an alarm, mean over tasks, against "
        f"the share asked for (tuned; {repetitions}, all protocols). On or below the "
        "dotted line the promise is kept. Rivals are asked through nu or "
        "contamination, and set their thresholds on the rows they were fitted to."
    )
    _add_legend(figure)
    yield Drawing("alarm_rate", "Alarm rate: promised and measured", caption, figure)


def _draw_ridges(outcomes: Sequence[Outcome]) -> Iterator[Drawing]:
    """Draw AUC and squared errors as the ridge falls from the paper's 1 to 1e-6."""
    studied = [o for o in outcomes if o.cell.setting in RIDGES[1:]]
    if not studied:
        return
    # Cells of the table have more protocols and repetitions, which are not comparable.
    draws = {(o.cell.protocol, o.cell.repetition) for o in studied}
    cells = [o for o in outcomes if o.cell.setting in RIDGES]
    cells = [o for o in cells if (o.cell.protocol, o.cell.repetition) in draws]
    caption = (
        "Mean AUC as the ridge falls from the paper's 1 to 1e-6 (RBF kernel; its width "
        f"is chosen on training rows for each value; {_repetitions(studied)}). Methods "
        "without such a ridge are level lines."
    )
    figure = _draw_study(cells, lambda outcome: outcome.auc, "AUC (%)")
    yield Drawing("regulariser", "The first-layer regulariser", caption, figure)
    cells = [o for o in cells if "sse" in o.result]
    if not cells:
        return
    figure = _draw_study(cells, lambda o: o.result["sse"], "sum of squared errors")
    for ax in figure.axes:
        ax.set_yscale("log")
    title = "Squared error and the first-layer regulariser"
    caption = (
        "Sum of squared differences between the fitted responses of the training rows "
        "and their targets (1 for the own task, 0 for the others) as the ridge falls. "
        "A closer fit to the training rows need not be a better one: compare the "
        "figure before."
    )
    yield Drawing("squared_error", title, caption, figure)


def _draw_study(
    outcomes: Sequence[Outcome], value: Callable[[Outcome], float], label: str
) -> Figure:
    """Draw the mean of a value at each ridge, for each data set and method."""
    by_dataset = grouped(outcomes, lambda o: o.cell.dataset)
    figure, axes = _panels([DATASETS[name].title for name in by_dataset])
    for ax, cells in zip(axes, by_dataset.values(), strict=True):
        curves: list[Curve] = []
        for family, of_family in grouped(cells, lambda o: o.cell.family).items():
            by_setting = grouped(of_family, lambda o: o.cell.setting)
            means = {
                setting: float(np.mean([value(o) for o in of_setting]))
                for setting, of_setting in by_setting.items()
            }
            if not has_ridge(family):
                means = dict.fromkeys(RIDGES, means[RIDGES[0]])
            ridges = [float(setting.removeprefix("alpha=")) for setting in means]
            if len(means) > 1:
                curves.append((family, ridges, list(means.values())))
        _plot_methods(ax, curves)
        ax.set(xlabel="first-layer regulariser (strong to weak)", xscale="log")
        ax.set(ylabel=label)
        ax.xaxis.set_inverted(True)
    _add_legend(figure)
    return figure


def _draw_learned(outcomes: Sequence[Outcome], name: str) -> Iterator[Drawing]:
    """Draw structures, second kernels and objectives that methods have learned."""
    structures = _shown(outcomes, "structure")
    order = _task_order(structures)
    families = [outcome.cell.family for outcome in structures]
    meanings = [f"{f}: {_MEANINGS[f]}." for f in families if f in _MEANINGS]
    caption = (
        "What each method learned about the relations between tasks (first "
        f"repetition). {' '.join(meanings)} Tasks that belong together lie side by "
        "side, in the same order in all panels. Grey, as on the diagonal, lies beyond "
        "the colours."
    )
    figures: list[tuple[Shown, str, str, Callable[[Axes, CellResult], None]]] = [
        (
            "structure",
            "Who helps whom",
            caption,
            partial(_plot_structure, order=order),
        ),
        (
            "second_kernel",
            "The kernel of the second layer",
            "How similar the non-linear methods find each pair of training rows (J; "
            "first repetition). Rows of a task lie together, tasks in the order of the "
            "figure before. A strong square on the diagonal is a task whose rows are "
            "mapped to nearly the same point; colour beside it joins two tasks.",
            partial(_plot_kernel, order=order),
        ),
        (
            "objective_path",
            "Cost against iterations",
            "The objective of the methods that iterate, at the start and after each "
            "iteration (first repetition). Methods that are solved in one step have no "
            "such curve.",
            _plot_objective,
        ),
    ]
    for part, title, caption, plot in figures:
        shown = _shown(outcomes, part)
        if shown:
            figure, axes = _panels([outcome.cell.method for outcome in shown])
            for ax, outcome in zip(axes, shown, strict=True):
                plot(ax, outcome.result)
            words = f"{title}: {DATASETS[name].title}"
            yield Drawing(f"{part}_{name}", words, caption, figure)


def _plot_structure(ax: Axes, result: CellResult, order: Codes) -> None:
    structure = np.array(result["structure"])
    labels = np.array(result["tasks"])
    StructureDisplay(structure, labels=labels, order=order).plot(
        ax, include_values=False
    )


def _plot_objective(ax: Axes, result: CellResult) -> None:
    path = result["objective_path"]
    ax.plot(path, marker="o" if len(path) <= 50 else None, markersize=4)
    ax.set(xlabel="iteration", ylabel="objective")
    ax.locator_params(axis="x", integer=True)
    _open_grid(ax)


def _plot_kernel(ax: Axes, result: CellResult, order: Codes) -> None:
    """A kernel of training rows, the rows of each task side by side."""
    values = np.array(result["second_kernel"])
    tasks = np.array(result["tasks"])[order]
    n_rows = len(values) // len(tasks)
    places = (n_rows * order[:, None] + np.arange(n_rows)).ravel()
    image = ax.imshow(
        values[np.ix_(places, places)],
        cmap="Reds",
        vmin=0.0,
        # Distances on the axes are tasks.
        extent=(-0.5, len(tasks) - 0.5, len(tasks) - 0.5, -0.5),
    )
    ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
    label_tasks(ax, tasks)
    ax.set(xlabel="and task", ylabel="task")


def _shown(outcomes: Sequence[Outcome], part: Shown) -> list[Outcome]:
    """For each method the cell of the first protocol whose `part` is shown.

    If possible it is the cell in the paper's setting: with the weak ridges that tuning
    prefers, each task is mapped to a single point and tasks are hardly related. One or
    two numbers, as the objective of a method without iterations, get no figure.
    """
    shown: dict[str, Outcome] = {}
    for setting in (RIDGES[0], "tuned"):
        for outcome in outcomes:
            cell = outcome.cell
            is_first = cell.protocol == outcomes[0].cell.protocol
            has_part = np.size(outcome.result.get(part, ())) > 2
            if is_first and has_part and cell.setting == setting:
                shown.setdefault(cell.family, outcome)
    return sorted(shown.values(), key=lambda outcome: _place(outcome.cell.family))


def _task_order(structures: Sequence[Outcome]) -> Codes:
    """One order of tasks for all methods, those that help each other side by side."""
    matrices = []
    for outcome in structures:
        matrix = np.array(outcome.result["structure"])
        np.fill_diagonal(matrix, 0.0)
        matrices.append(matrix / (np.abs(matrix).max(initial=0.0) or 1.0))
    return clustered(np.mean(matrices, axis=0)) if matrices else np.arange(0)


def _repetitions(outcomes: Iterable[Outcome]) -> str:
    """How many repetitions these cells cover, for a caption."""
    number = len({o.cell.repetition for o in outcomes})
    return f"first {number} repetitions" if number > 1 else "first repetition"
