"""Charts as values, and their drawing with matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as DrawnAxis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from manyone._types import Array

#: Colours of curves: each stands out by 3 : 1 or more from white.
COLOURS = (
    "#0a7bc2", "#d55e00", "#00966c", "#c2559b", "#b07d00", "#7d6bd6",
    "#c8403f", "#3d8f9e", "#7f8a1f", "#8a7360", "#5b8def", "#77838f",
)  # fmt: skip
#: Markers of matplotlib, for people who cannot tell all colours apart.
MARKERS = ("o", "s", "D", "^", "v")
INK = "#1c2127"
SOFT = "#59636e"
GRID = "#dfe4e8"
_SHADES = ("#1f6fb5", "#f7f8f9", "#c2452d")  # below 0, at 0, above 0

_MOST_COLUMNS = 3  # of panels
_LEGEND_ENTRY = 2.4  # inches: width of the longest name
_LEGEND_LINE = 0.19  # inches: height of a line
_MOST_TICKS = 12
_LONGEST_TICK = 10


@dataclass(frozen=True)
class Axis:
    """A coordinate axis.

    Attributes
    ----------
    label : str
    log, reverse, percent, whole : bool
        Logarithmic; from large to small; shares written in percent; whole numbers.
    limits : sequence of two floats or None
    names : tuple of str
        Names of the values 0, 1, ...; empty where values are numbers.
    """

    label: str
    log: bool = False
    reverse: bool = False
    percent: bool = False
    whole: bool = False
    limits: Sequence[float] | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Curve:
    """Points, joined or not.

    Attributes
    ----------
    x, y : tuple of float
        NaN leaves a gap.
    name : str
        Entry of the legend; empty for what needs none.
    colour : str
        ``#rrggbb``.
    marker : str
        As matplotlib names it; empty for none.
    line : {"-", ":", ""}
    width : float
        Of the line.
    error : tuple of float
        Half the length of a bar along x at each point; empty for none.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    name: str = ""
    colour: str = SOFT
    marker: str = ""
    line: Literal["-", ":", ""] = "-"
    width: float = 1.6
    error: tuple[float, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """A square matrix over tasks, or over their rows, shown as colours.

    Attributes
    ----------
    values : ndarray of shape (T * rows, T * rows)
        Consecutive rows belong to one task.
    names : tuple of T str
        The tasks.
    signed : bool
        Whether colours tell more from less than 0, with a range that leaves out the diagonal;
        else they go from 0 to the largest value.
    """

    values: Array
    names: tuple[str, ...]
    signed: bool

    @property
    def limits(self) -> tuple[float, float]:
        """Range of the colours; values beyond it take the last one."""
        off_diagonal = ~np.eye(len(self.values), dtype=bool)
        shown = self.values[off_diagonal] if self.signed else self.values
        top = float(np.abs(shown).max(initial=0.0))
        if top == 0.0:
            top = float(np.abs(self.values).max()) or 1.0
        return (-top if self.signed else 0.0, top)

    @property
    def ticks(self) -> dict[float, str]:
        """Labels of ticks on both axes by their positions."""
        rows = len(self.values) // len(self.names)
        step = -(-len(self.names) // _MOST_TICKS)
        return {
            rows * t + (rows - 1) / 2: _shortened(self.names[t])
            for t in range(0, len(self.names), step)
        }


@dataclass(frozen=True)
class Panel:
    """One pair of axes with curves or a matrix."""

    title: str
    x: Axis
    y: Axis
    content: tuple[Curve, ...] | Matrix

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The curves; none if it shows a matrix."""
        return () if isinstance(self.content, Matrix) else self.content


@dataclass(frozen=True)
class Chart:
    """A figure.

    Attributes
    ----------
    name : str
        Of its file and its place on the page.
    title, caption : str
    panels : tuple of Panel
    size : tuple of float
        Width and height of a panel in inches.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    size: tuple[float, float] = (5.2, 4.0)

    @property
    def legend(self) -> list[Curve]:
        """One curve for each name; a panel with a single curve is named by its title."""
        entries: dict[str, Curve] = {}
        for panel in self.panels:
            if len(panel.curves) > 1:
                entries |= {c.name: c for c in panel.curves if c.name not in entries}
        entries.pop("", None)
        return list(entries.values())


def draw_png(chart: Chart) -> bytes:
    """A chart as the bytes of a PNG file; the same chart gives the same bytes."""
    stream = io.BytesIO()
    # No date and no version among the bytes.
    draw(chart).savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def draw(chart: Chart) -> Figure:
    """A chart as a figure of matplotlib; its panels are the first axes, in their order."""
    columns = min(len(chart.panels), _MOST_COLUMNS)
    rows = -(-len(chart.panels) // columns)
    width = chart.size[0] * columns
    legend = chart.legend
    legend_columns = max(1, int(width / _LEGEND_ENTRY))
    legend_rows = -(-len(legend) // legend_columns)
    height = chart.size[1] * rows + _LEGEND_LINE * legend_rows
    figure = Figure(figsize=(width, height), dpi=110)
    matrices = any(isinstance(panel.content, Matrix) for panel in chart.panels)
    figure.set_layout_engine("compressed" if matrices else "constrained")
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(len(chart.panels))]
    for ax, panel in zip(axes, chart.panels, strict=True):
        _draw_panel(ax, panel)
    if legend:
        # Above all panels: inside them there is no place that is free for every data set.
        figure.legend(
            handles=[_line(curve) for curve in legend],
            ncols=legend_columns,
            loc="outside upper center",
            frameon=False,
            fontsize="small",
        )
    return figure


def _draw_panel(ax: Axes, panel: Panel) -> None:
    ax.set_title(panel.title, fontsize="medium", fontweight="bold")
    if isinstance(panel.content, Matrix):
        _draw_matrix(ax, panel.content)
        ax.set(xlabel=panel.x.label, ylabel=panel.y.label)
        return
    for curve in panel.content:
        if curve.error:
            bars = ax.errorbar(
                curve.x, curve.y, xerr=curve.error, fmt="none", capsize=2
            )
            for bar in bars.get_children():
                bar.set(color=curve.colour, linewidth=1.2)
        line = _line(curve)
        line.set_data(curve.x, curve.y)
        ax.add_line(line)
    ax.autoscale_view()
    if panel.x.log:
        ax.set_xscale("log")
    if panel.y.log:
        ax.set_yscale("log")
    ax.set(xlim=panel.x.limits, ylim=panel.y.limits)
    _set_axis(ax.xaxis, panel.x)
    _set_axis(ax.yaxis, panel.y)
    ax.grid(color=GRID, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _line(curve: Curve) -> Line2D:
    stroke = curve.marker == "|"
    return Line2D(
        (),
        (),
        color=curve.colour,
        linestyle=curve.line,
        linewidth=curve.width,
        marker=curve.marker,
        markersize=13 if stroke else 5,
        markeredgewidth=2 if stroke else 0.5,
        label=curve.name,
    )


def _set_axis(drawn: DrawnAxis, axis: Axis) -> None:
    drawn.set_label_text(axis.label)
    if axis.names:
        drawn.set_ticks(range(len(axis.names)), list(axis.names))
    if axis.whole:
        drawn.set_major_locator(MaxNLocator(integer=True))
    if axis.percent:
        drawn.set_major_formatter(PercentFormatter(1.0))
    if axis.reverse:
        drawn.set_inverted(True)


def _draw_matrix(ax: Axes, matrix: Matrix) -> None:
    low, high = matrix.limits
    shades = _SHADES if matrix.signed else _SHADES[1:]
    image = ax.imshow(
        matrix.values,
        cmap=LinearSegmentedColormap.from_list("shades", shades),
        vmin=low,
        vmax=high,
        interpolation="nearest",
    )
    places = list(matrix.ticks)
    names = list(matrix.ticks.values())
    turned = 90 if sum(map(len, names)) > 40 else 0
    ax.set_xticks(places, names, rotation=turned, fontsize="small")
    ax.set_yticks(places, names, fontsize="small")
    ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03)


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_TICK else f"{name[: _LONGEST_TICK - 1]}…"
