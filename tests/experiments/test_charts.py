"""The drawing shows the numbers of the description, and the same bytes each time."""

import numpy as np
import pytest

from manyone.experiments.charts import (
    COLOURS,
    MARKERS,
    Axis,
    Chart,
    Curve,
    Matrix,
    Panel,
    draw,
    draw_png,
)

NAN = float("nan")
PEOPLE = ("Ann", "Bo <b>&'", 'D"ee')
SIGNED = Matrix(
    np.array([[5.0, -0.1, 0.2], [0.1, 5, 0], [0, 0, 5]]), PEOPLE, signed=True
)
ROWS = Matrix(np.eye(6), PEOPLE, signed=False)


def every_kind():
    """A chart with each kind of curve and axis, and one with matrices."""
    x = (1.0, 2.0, 4.0)
    curves = (
        Curve(x, (0.0, 1.0, 0.5), "a", COLOURS[0], "o"),
        Curve(x, (1.0, 2.0, 1.5), "b < c", COLOURS[1], "s", ":"),
        Curve(x, (2.0, 3.0, 2.5), "d", COLOURS[2], "|", ""),
    )
    gap = Curve((1.0, NAN, 2.0), (0.0, NAN, 1.0))
    bars = Curve((1.0, 2.0), (0.0, 1.0), "e", error=(0.1, 0.0))
    names = Axis(
        "of <whom>", names=("x", "y & z", "w"), limits=(-0.5, 2.5), reverse=True
    )
    falling = Axis("x", log=True, reverse=True)
    share = Axis("share", percent=True, limits=(0, 1))
    first = Panel("one", falling, Axis("y", whole=True), (*curves, gap))
    second = Panel("two", share, names, (bars, curves[0]))
    matrices = tuple(
        Panel(str(m.signed), Axis("to"), Axis("from"), m) for m in (SIGNED, ROWS)
    )
    return [
        Chart("curves", "Curves", "All kinds.", (first, second)),
        Chart("matrices", "Matrices", "Both kinds.", matrices, (5.0, 4.3)),
    ]


@pytest.mark.parametrize("chart", every_kind(), ids=lambda chart: chart.name)
def test_the_drawing_shows_the_numbers_of_the_description(chart):
    axes = draw(chart).axes
    assert len(chart.panels) <= len(axes)
    for panel, ax in zip(chart.panels, axes, strict=False):
        assert ax.get_title() == panel.title
        assert (ax.get_xlabel(), ax.get_ylabel()) == (panel.x.label, panel.y.label)
        if isinstance(panel.content, Matrix):
            (image,) = ax.images
            np.testing.assert_array_equal(image.get_array(), panel.content.values)
            assert image.get_clim() == panel.content.limits
            continue
        lines = [line.get_xydata() for line in ax.get_lines()]
        for curve in panel.content:
            points = np.column_stack([curve.x, curve.y])
            assert any(np.array_equal(points, line, equal_nan=True) for line in lines)


def test_axes_are_drawn_as_described():
    first, second = draw(every_kind()[0]).axes
    assert first.get_xscale() == "log" and first.xaxis_inverted()
    assert second.yaxis_inverted() and second.get_xlim() == (0.0, 1.0)
    assert [tick.get_text() for tick in second.get_yticklabels()] == ["x", "y & z", "w"]


@pytest.mark.parametrize("chart", every_kind(), ids=lambda chart: chart.name)
def test_files_are_the_same_each_time(chart):
    first = draw_png(chart)
    assert first.startswith(b"\x89PNG") and first == draw_png(chart)


def test_legend_has_each_name_once():
    curves, matrices = every_kind()
    assert [curve.name for curve in curves.legend] == ["a", "b < c", "d", "e"]
    assert matrices.legend == []
    panel = Panel("a", Axis(""), Axis(""), curves.panels[0].curves[:1])
    assert Chart("", "", "", (panel,)).legend == []  # the title says it


def test_colours_of_a_signed_matrix_leave_out_its_diagonal():
    assert SIGNED.limits == (-0.2, 0.2)
    assert ROWS.limits == (0.0, 1.0)
    assert Matrix(np.zeros((2, 2)), ("a", "b"), signed=True).limits == (-1.0, 1.0)


def test_ticks_name_what_they_stand_at():
    names = tuple(f"task {t}" for t in range(50))
    for rows in (1, 7):
        ticks = Matrix(np.eye(50 * rows), names, signed=False).ticks
        assert 5 <= len(ticks) <= 12
        for place, name in ticks.items():
            assert names[int(place) // rows] == name
    assert Matrix(np.eye(1), ("a_very_long_name",), signed=False).ticks == {
        0: "a_very_lo…"
    }


@pytest.mark.parametrize("marker", [*MARKERS, "|", ""])
def test_every_marker_can_be_drawn(marker):
    curve = Curve((0.0, 1.0), (0.0, 1.0), "a", marker=marker)
    panel = Panel("", Axis(""), Axis(""), (curve, curve))
    assert draw_png(Chart("c", "", "", (panel,))).startswith(b"\x89PNG")


@pytest.mark.parametrize("colour", COLOURS)
def test_curves_stand_out_from_white(colour):
    values = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(
        values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4
    )
    assert 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05) >= 3
