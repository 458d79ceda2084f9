"""Charts as figures of plotly.js, for the page. Colours ``--name`` are the page's variables."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from manyone.report.charts import LOOK, Axis, Chart, Curve, Matrix, Panel

_PIXELS = 84  # per inch of the printed figure
_SHARED = LOOK["plotly"]  # what all figures have in common


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
    """CSS for the place of a panel on the page: as high as in print, or square."""
    if any(isinstance(panel.content, Matrix) for panel in chart.panels):
        return "aspect-ratio:1.13"
    return f"height:{round(_PIXELS * chart.size[1])}px"


def _panel(panel: Panel) -> dict[str, Any]:
    x, y = _axis(panel.x), _axis(panel.y)
    data = [_trace(curve, panel) for curve in panel.curves]
    if isinstance(panel.content, Matrix):
        matrix = panel.content
        data = [_heatmap(matrix, panel)]
        ticks = _SHARED["task_axis"] | {
            "tickvals": [_text(matrix.names[int(place)]) for place, _ in matrix.ticks],
            "ticktext": [_text(name) for _, name in matrix.ticks],
        }
        x, y = x | ticks, y | ticks | {"autorange": "reversed", "scaleanchor": "x"}
    return {"data": data, "layout": _SHARED["layout"] | {"xaxis": x, "yaxis": y}}


def _axis(axis: Axis) -> dict[str, Any]:
    spec = _SHARED["axis"] | {"title": {"text": _text(axis.label), "standoff": 6}}
    spec |= (
        {"type": "log", "exponentformat": "power"} if axis.log else {"type": "linear"}
    )
    if axis.percent:
        spec["tickformat"] = ".0%"
    if axis.whole:
        spec |= {"tickformat": "d", "nticks": 6}
    if axis.names:
        names = [_text(name) for name in axis.names]
        spec |= {
            "tickmode": "array",
            "tickvals": list(range(len(names))),
            "ticktext": names,
        }
    if axis.limits:
        spec["range"] = list(axis.limits[::-1] if axis.reverse else axis.limits)
    elif axis.reverse:
        spec["autorange"] = "reversed"
    return spec


def _trace(curve: Curve, panel: Panel) -> dict[str, Any]:
    parts = [
        name
        for name, used in (("lines", curve.line), ("markers", curve.symbol))
        if used
    ]
    colour = curve.colour if curve.colour.startswith("#") else f"--{curve.colour}"
    trace: dict[str, Any] = {
        "type": "scatter",
        "name": curve.name,
        "mode": "+".join(parts),
    }
    trace |= {"x": _plain(curve.x), "y": _plain(curve.y)}
    if curve.line:
        dash = "dot" if curve.line == "dotted" else "solid"
        trace["line"] = {"color": colour, "width": curve.width, "dash": dash}
    if curve.symbol == "bar":
        edge = {"width": 2, "color": colour}
        trace["marker"] = _SHARED["stroke"] | {"color": colour, "line": edge}
    elif curve.symbol:
        trace["marker"] = {"symbol": curve.symbol, "size": 7, "color": colour}
    if curve.error:
        trace["error_x"] = {
            "array": _plain(curve.error),
            "color": colour,
            "thickness": 1.2,
        }
    if not curve.name:
        return trace | {"hoverinfo": "skip"}
    errors = [
        f" ± {error:.2f}" if error else ""
        for error in curve.error or [0.0] * len(curve.x)
    ]
    return trace | {
        "hoverinfo": "text",
        "hovertext": [
            f"<b>{_text(curve.name)}</b><br>{_text(f'{panel.y.label}: {panel.y.write(y)}')}<br>"
            f"{_text(f'{panel.x.label}: {panel.x.write(x)}')}{error}"
            for x, y, error in zip(curve.x, curve.y, errors, strict=True)
        ],
    }


def _heatmap(matrix: Matrix, panel: Panel) -> dict[str, Any]:
    steps = zip(
        np.linspace(0, 1, len(matrix.shades)).tolist(), matrix.shades, strict=True
    )
    names = [_text(name) for name in matrix.names]
    # To about a thousandth of the range: nobody sees finer shades.
    digits = 3 - int(np.floor(np.log10(matrix.high)))
    return {
        "type": "heatmap",
        "x": names,
        "y": names,
        "zmin": matrix.low,
        "zmax": matrix.high,
        "z": np.round(matrix.values, digits).tolist(),
        "colorscale": [[step, f"--{name}"] for step, name in steps],
        "colorbar": _SHARED["colorbar"],
        "hovertemplate": f"{_text(panel.y.label)} <b>%{{y}}</b><br>{_text(panel.x.label)} "
        "<b>%{x}</b><br>%{z:.3~g}<extra></extra>",
    }


def _text(name: str) -> str:
    """A name, escaped: plotly.js reads markup."""
    return escape(name, quote=False)


def _plain(values: tuple[float, ...]) -> list[float | None]:
    """Numbers for JSON: None, a gap, instead of NaN."""
    return [float(value) if np.isfinite(value) else None for value in values]
