"""One description of each figure, two drawings of it: they agree, and stand out on the page."""

import re
from html import unescape

import numpy as np
import plotly.graph_objects as go
import pytest

from manyone.report import interactive, png
from manyone.report.charts import (
    COLOURS,
    SYMBOLS,
    THEMES,
    Axis,
    Chart,
    Curve,
    Matrix,
    Panel,
    task_matrix,
)
from pages import in_dark_colours

NAN = float("nan")
STRANGE = ("Ann", "Bo <b>&'", 'D"ee')  # names that must not be taken for markup


def every_kind():
    """A chart with each kind of curve and axis, and one with matrices."""
    curves = tuple(
        Curve(
            (1.0, 2.0, 4.0),
            (k, k + 1.0, k + 0.5),
            name,
            group,
            COLOURS[k],
            symbol,
            line,
        )
        for k, (name, group, symbol, line) in enumerate(
            [
                ("a", "ours", "circle", "solid"),
                ("b < c", "rivals", "square", "dotted"),
                ("d", "ours", "bar", ""),
            ]
        )
    )
    gap = Curve((1.0, NAN, 2.0), (0.0, NAN, 1.0), colour="grid")
    bars = Curve((1.0, 2.0), (0.0, 1.0), "e", error=(0.1, 0.0))
    names = Axis(
        "of <whom>", names=("x", "y & z", "w", "v"), limits=(-0.5, 3.5), reverse=True
    )
    panels = (
        Panel(
            "one",
            Axis("x", log=True, reverse=True),
            Axis("y", whole=True),
            (*curves, gap),
        ),
        Panel(
            "two", Axis("share", percent=True, limits=(0, 1)), names, (bars, curves[0])
        ),
    )
    signed = task_matrix(
        np.array([[5.0, -0.1, 0.2], [0.1, 5, 0], [0, 0, 5]]), [*STRANGE], signed=True
    )
    rows = task_matrix(np.eye(6), [*STRANGE], 2, signed=False)
    matrices = tuple(
        Panel(f"{k}", Axis("to"), Axis("from"), m) for k, m in enumerate((signed, rows))
    )
    return [
        Chart("curves", "Curves", "All kinds.", panels),
        Chart("matrices", "Matrices", "Both kinds.", matrices, (5.0, 4.3)),
    ]


@pytest.mark.parametrize("chart", every_kind(), ids=lambda chart: chart.name)
def test_both_drawings_show_the_numbers_of_the_description(chart):
    specs = interactive.panels(chart)
    axes = png.draw(chart).axes
    assert len(specs) == len(chart.panels) <= len(axes)
    for panel, spec, ax in zip(chart.panels, specs, axes, strict=False):
        assert ax.get_title() == panel.title
        for label, side in ((panel.x.label, "x"), (panel.y.label, "y")):
            assert getattr(ax, f"get_{side}label")() == label
            assert unescape(spec["layout"][f"{side}axis"]["title"]["text"]) == label
        if isinstance(panel.content, Matrix):
            (trace,) = spec["data"]
            step = 1e-3 * panel.content.high
            np.testing.assert_allclose(trace["z"], panel.content.values, atol=step)
            np.testing.assert_array_equal(
                ax.images[0].get_array(), panel.content.values
            )
            assert ax.images[0].get_clim() == (trace["zmin"], trace["zmax"])
            assert tuple(map(unescape, trace["x"])) == panel.content.names
            assert trace["y"] == trace["x"]
            continue
        lines = [line.get_xydata() for line in ax.get_lines()]
        for curve, trace in zip(panel.content, spec["data"], strict=True):
            points = np.column_stack([curve.x, curve.y])
            assert any(np.array_equal(points, line, equal_nan=True) for line in lines)
            assert trace["name"] == curve.name
            shown = np.array(
                [trace["x"], trace["y"]], dtype=float
            ).T  # None becomes NaN
            np.testing.assert_array_equal(shown, points)


@pytest.mark.parametrize("chart", every_kind(), ids=lambda chart: chart.name)
def test_plotly_takes_every_figure(chart):
    for spec in interactive.panels(chart):
        go.Figure(**in_dark_colours(spec))  # refuses what it does not know


@pytest.mark.parametrize("chart", every_kind(), ids=lambda chart: chart.name)
def test_files_are_the_same_each_time(chart):
    first = png.draw_png(chart)
    assert first.startswith(b"\x89PNG") and first == png.draw_png(chart)


def test_words_are_not_taken_for_markup():
    curves, matrices = every_kind()
    for chart in (curves, matrices):
        specs = interactive.panels(chart)
        for trace in (trace for spec in specs for trace in spec["data"]):
            trace.pop("name", None)  # never shown: the page's own legend goes by it
        text = str(specs)
        assert "< c" not in text and "<whom>" not in text and "Bo <b>" not in text
    hover = interactive.panels(curves)[1]["data"][0]["hovertext"]
    assert hover[1] == "<b>e</b><br>of &lt;whom&gt;: y &amp; z<br>share: 200.0 %"
    assert hover[0].endswith("share: 100.0 % ± 0.10")


def test_legend_has_each_name_once_under_its_heading():
    curves, matrices = every_kind()
    names = {
        heading: [c.name for c in found] for heading, found in curves.legend.items()
    }
    assert names == {"ours": ["a", "d"], "rivals": ["b < c"], "": ["e"]}
    assert matrices.legend == {}
    alone = Chart(
        "", "", "", (Panel("a", Axis(""), Axis(""), curves.panels[0].curves[:1]),)
    )
    assert alone.legend == {}  # the title says it


def test_ticks_name_what_they_stand_at():
    names = [f"task {t}" for t in range(50)]
    for rows in (1, 7):
        matrix = task_matrix(np.eye(50 * rows), names, rows, signed=rows == 1)
        assert 5 <= len(matrix.ticks) <= 12
        for place, name in matrix.ticks:
            assert matrix.names[int(place)].split(",")[0] == name
    assert task_matrix(np.zeros((2, 2)), ["a", "b"], signed=True).high > 0


def _luminance(colour):
    values = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(
        values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4
    )
    return linear @ [0.2126, 0.7152, 0.0722]


def _contrast(a, b):
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_colours_stand_out_as_the_accessibility_guidelines_ask(theme):
    look = THEMES[theme]
    assert re.fullmatch("#[0-9a-f]{6}", look["ink"])
    for text in ("ink", "soft", "link", "bad"):
        assert _contrast(look[text], look["paper"]) >= 4.5
    for ground in ("card", "best", "level"):
        assert _contrast(look["ink"], look[ground]) >= 4.5
    for colour in COLOURS:
        assert _contrast(colour, look["paper"]) >= 3
    assert set(look) == set(THEMES["light"])


@pytest.mark.parametrize(
    ("axis", "value", "text"),
    [
        (Axis("", percent=True), 0.123, "12.3 %"),
        (Axis("", log=True), 1e-6, "1e-06"),
        (Axis("", names=("a", "b")), 1.0, "b"),
        (Axis("", whole=True), 12.0, "12"),
        (Axis(""), 98.15432, "98.15"),
    ],
)
def test_values_are_written_for_people(axis, value, text):
    assert axis.write(value) == text


def test_every_symbol_can_be_drawn():
    for symbol in (*SYMBOLS, "bar", ""):
        curve = Curve((0.0, 1.0), (0.0, 1.0), "a", symbol=symbol)
        chart = Chart("c", "", "", (Panel("", Axis(""), Axis(""), (curve, curve)),))
        assert png.draw_png(chart).startswith(b"\x89PNG")
