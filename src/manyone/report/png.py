"""Draw charts with matplotlib: the same chart gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from manyone.report.charts import SYMBOLS, THEMES, Axis, Chart, Curve, Matrix, Panel

_LIGHT = THEMES["light"]
_MARKERS = dict(
    zip((*SYMBOLS, "bar", ""), ("o", "s", "D", "^", "v", "|", ""), strict=True)
)
_LINES: dict[str, Any] = {"solid": "-", "dotted": ":", "": ""}
_LEGEND: dict[str, Any] = {
    "loc": "outside upper center",
    "frameon": False,
    "fontsize": "small",
}
_MOST_COLUMNS = 3
_LEGEND_ENTRY, _LEGEND_LINE = (
    2.4,
    0.19,
)  # inches: width of the longest name, height of a line


def draw_png(chart: Chart) -> bytes:
    """A chart as the bytes of a PNG file."""
    stream = io.BytesIO()
    # No date and no version: the same results give the same bytes.
    draw(chart).savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def draw(chart: Chart) -> Figure:
    """A chart as a figure of matplotlib; its panels are the first axes, in their order."""
    columns = min(len(chart.panels), _MOST_COLUMNS)
    rows = -(-len(chart.panels) // columns)
    matrices = any(isinstance(panel.content, Matrix) for panel in chart.panels)
    width, height = chart.size[0] * columns, chart.size[1] * rows
    entries = [curve for curves in chart.legend.values() for curve in curves]
    legend_columns = max(1, int(width / _LEGEND_ENTRY))
    # Room for the legend, so that it takes none from the panels.
    height += _LEGEND_LINE * -(-len(entries) // legend_columns)
    layout: Literal["compressed", "constrained"] = (
        "compressed" if matrices else "constrained"
    )
    figure = Figure(figsize=(width, height), layout=layout, dpi=110)
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(len(chart.panels))]
    for ax, panel in zip(axes, chart.panels, strict=True):
        _draw_panel(ax, panel)
    if entries:
        # Above all panels: inside them there is no place that is free for every data set.
        lines = [_line(curve) for curve in entries]
        figure.legend(handles=lines, ncols=legend_columns, **_LEGEND)
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
            for part in bars.get_children():
                part.set(color=_LIGHT.get(curve.colour, curve.colour), linewidth=1.2)
        ax.add_line(_line(curve, curve.x, curve.y))
    ax.autoscale_view()
    _set_axis(ax, "x", panel.x)
    _set_axis(ax, "y", panel.y)
    ax.grid(color=_LIGHT["grid"], linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _line(curve: Curve, x: Sequence[float] = (), y: Sequence[float] = ()) -> Line2D:
    stroke = curve.symbol == "bar"
    return Line2D(
        x,
        y,
        color=_LIGHT.get(curve.colour, curve.colour),
        linestyle=_LINES[curve.line],
        linewidth=curve.width,
        marker=_MARKERS[curve.symbol],
        markersize=13 if stroke else 5,
        markeredgewidth=2 if stroke else 0.5,
        label=curve.name,
    )


def _set_axis(ax: Axes, which: str, axis: Axis) -> None:
    side = ax.xaxis if which == "x" else ax.yaxis
    side.set_label_text(axis.label)
    if axis.log:
        getattr(ax, f"set_{which}scale")("log")
    elif axis.names:
        side.set_ticks(range(len(axis.names)), list(axis.names))
    elif axis.whole:
        side.set_major_locator(MaxNLocator(integer=True))
    if axis.percent:
        side.set_major_formatter(PercentFormatter(1.0))
    if axis.limits:
        getattr(ax, f"set_{which}lim")(*axis.limits)
    if axis.reverse:
        side.set_inverted(True)


def _draw_matrix(ax: Axes, matrix: Matrix) -> None:
    shades = LinearSegmentedColormap.from_list(
        "shades", [_LIGHT[name] for name in matrix.shades]
    )
    image = ax.imshow(
        matrix.values,
        cmap=shades,
        vmin=matrix.low,
        vmax=matrix.high,
        interpolation="nearest",
    )
    places, names = zip(*matrix.ticks, strict=True)
    turned = 90 if sum(map(len, names)) > 40 else 0
    ax.set_xticks(places, names, rotation=turned, fontsize="small")
    ax.set_yticks(places, names, fontsize="small")
    ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
