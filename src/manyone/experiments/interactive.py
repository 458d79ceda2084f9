"""Charts as figures of plotly.js, for the page. Colours ``--name`` are the page's variables."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from manyone.experiments.charts import Axis, Chart, Curve, Matrix, Panel

_PIXELS = 84  # per inch of the printed figure
_SYMBOLS = {"bar": "line-ns-open"}
_DASHES = {"solid": "solid", "dotted": "dot"}


def panels(chart: Chart) -> list[dict[str, Any]]:
    """A figure of plotly.js for each panel.

    Parameters
    ----------
    chart : Chart

    Returns
    -------
    list of dict
        With ``data`` and ``layout``, as plotly.js takes them once colours are filled in.
    """
    return [_panel(panel) for panel in chart.panels]


def shape(chart: Chart) -> str:
    """Style of the place for a panel on the page: as high as its text needs, or square."""
    if any(isinstance(panel.content, Matrix) for panel in chart.panels):
        return "aspect-ratio:1.13"
    return f"height:{round(_PIXELS * chart.size[1])}px"


def colour(name: str) -> str:
    """A colour, or the page's variable that holds it."""
    return name if name.startswith("#") else f"--{name}"


def _panel(panel: Panel) -> dict[str, Any]:
    layout: dict[str, Any] = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "--ink", "size": 11, "family": "system-ui, sans-serif"},
        "hoverlabel": {"bgcolor": "--card", "bordercolor": "--soft", "font": {"color": "--ink"}},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hovermode": "closest",
        "showlegend": False,
        "xaxis": _axis(panel.x),
        "yaxis": _axis(panel.y),
    }
    if isinstance(panel.content, Matrix):
        matrix = panel.content
        ticks = {
            "type": "category",
            "tickmode": "array",
            "tickvals": [_text(matrix.names[int(place)]) for place, _ in matrix.ticks],
            "ticktext": [_text(name) for _, name in matrix.ticks],
            "showgrid": False,
            "constrain": "domain",
        }
        layout["xaxis"] |= ticks
        layout["yaxis"] |= ticks | {"autorange": "reversed", "scaleanchor": "x"}
        return {"data": [_heatmap(matrix, panel)], "layout": layout}
    return {"data": [_trace(curve, panel) for curve in panel.content], "layout": layout}


def _axis(axis: Axis) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "title": {"text": axis.label, "standoff": 6},
        "gridcolor": "--grid",
        "linecolor": "--soft",
        "zeroline": False,
        "automargin": True,
        "type": "log" if axis.log else "linear",
    }
    if axis.log:
        spec["exponentformat"] = "power"
    if axis.percent:
        spec["tickformat"] = ".0%"
    if axis.whole:
        spec |= {"tickformat": "d", "nticks": 6}
    if axis.names:
        spec |= {
            "tickmode": "array",
            "tickvals": list(range(len(axis.names))),
            "ticktext": [_text(name) for name in axis.names],
        }
    if axis.limits:
        spec["range"] = list(axis.limits[::-1] if axis.reverse else axis.limits)
    elif axis.reverse:
        spec["autorange"] = "reversed"
    return spec


def _trace(curve: Curve, panel: Panel) -> dict[str, Any]:
    parts = [name for name, used in (("lines", curve.line), ("markers", curve.symbol)) if used]
    shade = colour(curve.colour)
    trace: dict[str, Any] = {
        "type": "scatter",
        "name": curve.name,
        "mode": "+".join(parts),
        "x": _plain(curve.x),
        "y": _plain(curve.y),
    }
    if curve.line:
        trace["line"] = {"color": shade, "width": curve.width, "dash": _DASHES[curve.line]}
    if curve.symbol:
        bar = curve.symbol == "bar"
        trace["marker"] = {
            "color": shade,
            "symbol": _SYMBOLS.get(curve.symbol, curve.symbol),
            "size": 12 if bar else 7,
        } | ({"line": {"width": 2, "color": shade}} if bar else {})
    if curve.error:
        trace["error_x"] = {"array": _plain(curve.error), "color": shade, "thickness": 1.2}
    if curve.name:
        errors = curve.error or (0.0,) * len(curve.x)
        trace |= {
            "hoverinfo": "text",
            "hovertext": [
                f"<b>{_text(curve.name)}</b><br>{panel.y.label}: {_text(panel.y.write(y))}<br>"
                f"{panel.x.label}: {panel.x.write(x)}" + (f" ± {error:.2f}" if error else "")
                for x, y, error in zip(curve.x, curve.y, errors, strict=True)
            ],
        }
    else:
        trace["hoverinfo"] = "skip"
    return trace


def _heatmap(matrix: Matrix, panel: Panel) -> dict[str, Any]:
    steps = np.linspace(0, 1, len(matrix.shades))
    names = [_text(name) for name in matrix.names]
    return {
        "type": "heatmap",
        "z": _rounded(matrix),
        "x": names,
        "y": names,
        "zmin": matrix.low,
        "zmax": matrix.high,
        "colorscale": [
            [float(step), f"--{name}"] for step, name in zip(steps, matrix.shades, strict=True)
        ],
        "colorbar": {"thickness": 10, "outlinewidth": 0, "nticks": 5, "xpad": 6}
        | {"exponentformat": "e"},
        "hovertemplate": f"{panel.y.label} <b>%{{y}}</b><br>{panel.x.label} <b>%{{x}}</b>"
        "<br>%{z:.3~g}<extra></extra>",
    }


def _rounded(matrix: Matrix) -> list[list[float]]:
    """Values to about a thousandth of their range: finer shades nobody sees."""
    digits = 3 - int(np.floor(np.log10(matrix.high)))
    return np.round(matrix.values, digits).tolist()


def _text(name: str) -> str:
    """A name that plotly.js does not take for markup."""
    return escape(name, quote=False)


def _plain(values: tuple[float, ...]) -> list[float | None]:
    """Numbers that JSON has: a gap instead of NaN."""
    return [float(value) if np.isfinite(value) else None for value in values]
