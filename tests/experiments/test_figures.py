"""One description of each figure, two drawings of it: they agree, and with the results."""

import itertools
import re
from dataclasses import replace
from html import unescape

import numpy as np
import plotly.graph_objects as go
import pytest

from manyone.experiments import interactive, png
from manyone.experiments.charts import COLOURS, THEMES, Axis, Curve, Matrix, task_matrix
from manyone.experiments.corruption import CORRUPTION_KINDS
from manyone.experiments.figures import charts
from manyone.experiments.plan import RIDGES
from manyone.experiments.tables import summarise


@pytest.fixture(scope="module")
def outcomes(made_up):
    return made_up(("mnist", "face"))[1]


@pytest.fixture(scope="module")
def drawn(outcomes):
    return {chart.name: chart for chart in charts(outcomes, summarise(outcomes))}


def test_every_figure_of_the_paper_and_ours_is_there(drawn):
    expected = {"seen_unseen", "alarm_rate", "regulariser", "squared_error"}
    expected |= {f"robustness_{kind}" for kind in CORRUPTION_KINDS}
    for name in ("mnist", "face"):
        expected |= {f"structure_{name}", f"second_kernel_{name}", f"objective_{name}"}
    assert set(drawn) == expected
    for name in expected - {n for n in expected if n.endswith(("mnist", "face"))}:
        assert [panel.title for panel in drawn[name].panels] == ["MNIST", "Faces"]


def test_nothing_is_drawn_without_results(outcomes):
    failed = [replace(outcome, result=None, error="lost") for outcome in outcomes]
    assert charts(failed, summarise(failed)) == []


def test_files_are_the_same_each_time(drawn):
    for name in ("objective_face", "second_kernel_face"):
        first = png.draw_png(drawn[name])
        assert first.startswith(b"\x89PNG") and first == png.draw_png(drawn[name])


def test_both_drawings_show_the_numbers_of_the_description(drawn):
    for chart in drawn.values():
        specs = interactive.panels(chart)
        axes = png.draw(chart).axes
        assert len(specs) == len(chart.panels) <= len(axes)
        for panel, spec, ax in zip(chart.panels, specs, axes, strict=False):
            assert ax.get_title() == panel.title
            for label, side in ((panel.x.label, "x"), (panel.y.label, "y")):
                assert getattr(ax, f"get_{side}label")() == label
                assert spec["layout"][f"{side}axis"]["title"]["text"] == label
            if isinstance(panel.content, Matrix):
                (trace,) = spec["data"]
                step = 1e-3 * panel.content.high
                np.testing.assert_allclose(trace["z"], panel.content.values, atol=step)
                np.testing.assert_array_equal(ax.images[0].get_array(), panel.content.values)
                assert ax.images[0].get_clim() == (trace["zmin"], trace["zmax"])
                assert tuple(map(unescape, trace["x"])) == panel.content.names
                assert trace["y"] == trace["x"]
                continue
            lines = [line.get_xydata() for line in ax.get_lines()]
            for curve, trace in zip(panel.content, spec["data"], strict=True):
                points = np.column_stack([curve.x, curve.y])
                assert any(np.array_equal(points, line, equal_nan=True) for line in lines)
                assert trace["name"] == curve.name
                shown = np.array([trace["x"], trace["y"]], dtype=float).T  # None becomes NaN
                np.testing.assert_array_equal(shown, points)


def test_plotly_takes_every_figure(drawn):
    def filled(part):
        if isinstance(part, dict):
            return {key: filled(value) for key, value in part.items()}
        if isinstance(part, list):
            return [filled(value) for value in part]
        if isinstance(part, str) and part.startswith("--"):
            return THEMES["dark"][part.removeprefix("--")]
        return part

    for chart in drawn.values():
        for spec in interactive.panels(chart):
            go.Figure(**filled(spec))  # refuses what it does not know


def test_means_over_the_study_alone(outcomes, drawn):
    def mean(family, setting, corruption, key):
        cells = [
            o
            for o in outcomes
            if (o.cell.dataset, o.cell.protocol) == ("face", "seen")
            and (o.cell.family, o.cell.setting) == (family, setting)
            and o.cell.corruption == corruption
            # One repetition in three belongs to the studies.
            and o.cell.repetition < 1
        ]
        return np.mean([key(o.result) for o in cells])

    def curve(name, family):
        (found,) = (c for c in drawn[name].panels[1].content if c.name == family)
        return found

    def auc(result):
        return 100 * np.mean(result["auc"])

    found = curve("regulariser", "OCKSR-L")
    assert found.x == tuple(10.0**-k for k in range(7))
    np.testing.assert_allclose(found.y, [mean("OCKSR-L", s, "", auc) for s in RIDGES])
    found = curve("regulariser", "SVDD")  # has no ridge
    np.testing.assert_allclose(found.y, mean("SVDD", RIDGES[0], "", auc))
    found = curve("squared_error", "OCKSR-N")
    np.testing.assert_allclose(
        found.y, [mean("OCKSR-N", s, "", lambda result: result["sse"]) for s in RIDGES]
    )
    found = curve("robustness_labels", "SVDD")
    assert found.x[0] == 0
    levels = ["", *(f"labels={level:g}" for level in found.x[1:])]
    np.testing.assert_allclose(found.y, [mean("SVDD", RIDGES[0], level, auc) for level in levels])
    found = curve("alarm_rate", "OCKSR")
    shares = [
        o.result["alarms"] for o in outcomes if (o.cell.dataset, o.cell.method) == ("face", "OCKSR")
    ]
    np.testing.assert_allclose(found.y, np.mean(shares, axis=0))


def test_only_variants_of_ocksr_have_squared_errors(drawn):
    names = {curve.name for curve in drawn["squared_error"].legend}
    assert names == {"OCKSR", "C-OCKSR", "OCKSR-L", "OCKSR-N", "OCKSR-NS"}


def test_matrices_keep_names_with_their_values(outcomes, drawn):
    orders = set()
    for panel in drawn["structure_face"].panels:
        (cell,) = (
            o
            for o in outcomes
            if (o.cell.dataset, o.cell.method) == ("face", panel.title)
            and (o.cell.protocol, o.cell.repetition, o.cell.corruption) == ("seen", 0, "")
        )
        tasks, matrix = cell.result["tasks"], panel.content
        orders.add(matrix.names)
        assert sorted(matrix.names) == sorted(tasks)
        for (s, a), (t, b) in itertools.product(enumerate(matrix.names), repeat=2):
            assert matrix.values[s, t] == cell.result["structure"][tasks.index(a)][tasks.index(b)]
        others = [v for (s, t), v in np.ndenumerate(matrix.values) if s != t]
        assert matrix.high == -matrix.low == np.max(np.abs(others))
    assert len(orders) == 1
    (names,) = orders
    for panel in drawn["second_kernel_face"].panels:
        (cell,) = (
            o
            for o in outcomes
            if (o.cell.dataset, o.cell.method) == ("face", panel.title)
            and (o.cell.protocol, o.cell.repetition) == ("seen", 0)
        )
        tasks, matrix = cell.result["tasks"], panel.content
        kernel, rows = np.array(cell.result["second_kernel"]), cell.cell.sizes.n_train
        assert matrix.names == tuple(f"{name}, row {k + 1}" for name in names for k in range(rows))
        place = [tasks.index(name) * rows + k for name in names for k in range(rows)]
        np.testing.assert_array_equal(matrix.values, kernel[np.ix_(place, place)])


def test_ticks_name_what_they_stand_at():
    names = [f"task {t}" for t in range(50)]
    for rows in (1, 7):
        matrix = task_matrix(np.eye(50 * rows), names, rows, signed=rows == 1)
        assert 5 <= len(matrix.ticks) <= 12
        for place, name in matrix.ticks:
            assert matrix.names[int(place)].split(",")[0] == name
    assert task_matrix(np.zeros((2, 2)), ["a", "b"], signed=True).high > 0


def test_a_method_looks_the_same_everywhere(drawn):
    looks = {}
    for chart in drawn.values():
        for panel in chart.panels:
            for curve in () if isinstance(panel.content, Matrix) else panel.content:
                if curve.group:
                    look = (curve.colour, curve.symbol, curve.line)
                    assert looks.setdefault(curve.name, look) == look
    assert len(set(looks.values())) == len(looks) > 10


def _luminance(colour):
    values = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
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


def test_gaps_are_left_out_of_json():
    curve = Curve((1.0, float("nan")), (2.0, float("nan")))
    assert interactive._plain(curve.x) == [1.0, None]
