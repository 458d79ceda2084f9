"""The figures show the results, each method in one look, and nothing else."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from manyone.experiments.figures import COLOURS, drawings
from manyone.experiments.plan import RIDGES
from manyone.experiments.results import Results


@pytest.fixture(scope="module")
def outcomes(made_up):
    return made_up(("mnist", "face"))[1]


@pytest.fixture(scope="module")
def drawn(outcomes):
    return {drawing.name: drawing for drawing in drawings(Results(outcomes))}


def panel(drawing, title):
    """The axes with that title."""
    (ax,) = (ax for ax in drawing.figure.axes if ax.get_title() == title)
    return ax


def curves(ax):
    """Lines that a legend names."""
    lines = {line.get_label(): line for line in ax.get_lines()}
    return {name: line for name, line in lines.items() if not name.startswith("_")}


def test_every_figure_of_the_paper_and_ours_is_there(drawn):
    expected = {"auc", "alarm_rate", "regulariser", "squared_error"}
    for name in expected:
        titles = [ax.get_title() for ax in drawn[name].figure.axes]
        assert titles == ["MNIST", "Faces"]
    for name in ("mnist", "face"):
        expected |= {
            f"structure_{name}",
            f"second_kernel_{name}",
            f"objective_path_{name}",
        }
    assert set(drawn) == expected


def test_nothing_is_drawn_without_results(outcomes):
    failed = [replace(outcome, result={}, error="lost") for outcome in outcomes]
    assert drawings(Results(failed)) == []


def test_files_are_the_same_each_time(outcomes, drawn):
    again = {drawing.name: drawing for drawing in drawings(Results(outcomes))}
    for name in ("auc", "structure_face", "second_kernel_face"):
        first = drawn[name].png()
        assert first.startswith(b"\x89PNG") and first == again[name].png()


def test_the_table_is_drawn_with_its_errors_and_the_papers_figures(outcomes, drawn):
    ax = panel(drawn["auc"], "Faces")
    rows = [row for row in Results(outcomes).rows if row.dataset == "face"]
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == list(dict.fromkeys(row.method for row in rows))
    assert ax.yaxis_inverted()
    for bars in ax.containers:
        dots, _, (errors,) = bars.lines
        kind = bars.get_label().split()[0]
        of_kind = {row.method: row for row in rows if row.protocol == kind}
        for k, (mean, place) in enumerate(dots.get_xydata()):
            row = of_kind[names[int(place)]]
            assert mean == pytest.approx(row.mean)
            low, high = errors.get_segments()[k][:, 0]
            assert (high - low) / 2 == pytest.approx(row.error)
    (strokes,) = (c for c in ax.collections if "paper" in c.get_label())
    printed = [row.paper for row in rows if row.paper is not None]
    np.testing.assert_array_equal(strokes.get_offsets()[:, 0], printed)


def test_means_over_the_study_alone(outcomes, drawn):
    def mean(family, setting, key):
        cells = [
            o
            for o in outcomes
            if (o.cell.dataset, o.cell.protocol) == ("face", "seen")
            and (o.cell.family, o.cell.setting) == (family, setting)
            # One repetition in three belongs to the study.
            and o.cell.repetition < 1
        ]
        return np.mean([key(o.result) for o in cells])

    def curve(name, family):
        return curves(panel(drawn[name], "Faces"))[family].get_xydata().T

    def auc(result):
        return 100 * np.mean(result["auc"])

    x, y = curve("regulariser", "OCKSR-L")
    np.testing.assert_allclose(x, [10.0**-k for k in range(7)])
    np.testing.assert_allclose(y, [mean("OCKSR-L", s, auc) for s in RIDGES])
    _, y = curve("regulariser", "SVDD")  # has no ridge
    np.testing.assert_allclose(y, mean("SVDD", RIDGES[0], auc))
    _, y = curve("squared_error", "OCKSR-N")
    expected = [mean("OCKSR-N", s, lambda result: result["sse"]) for s in RIDGES]
    np.testing.assert_allclose(y, expected)
    _, y = curve("alarm_rate", "OCKSR")
    shares = [
        o.result["alarms"]
        for o in outcomes
        if (o.cell.dataset, o.cell.method) == ("face", "OCKSR")
    ]
    np.testing.assert_allclose(y, np.mean(shares, axis=0))


def test_ridges_fall_from_left_to_right(drawn):
    for name in ("regulariser", "squared_error"):
        for ax in drawn[name].figure.axes:
            assert ax.get_xscale() == "log" and ax.xaxis_inverted()


def test_only_variants_of_ocksr_have_squared_errors(drawn):
    (legend,) = drawn["squared_error"].figure.legends
    names = {text.get_text() for text in legend.get_texts()}
    assert names == {"OCKSR", "C-OCKSR", "OCKSR-L", "OCKSR-N", "OCKSR-NS"}


def test_matrices_keep_names_with_their_values(outcomes, drawn):
    def result_of(method, what):
        (result,) = (
            o.result
            for o in outcomes
            if (o.cell.dataset, o.cell.method) == ("face", method)
            and (o.cell.protocol, o.cell.repetition) == ("seen", 0)
        )
        return result["tasks"], np.array(result[what])

    def shown(name):
        for ax in drawn[name].figure.axes:
            if ax.get_title():
                names = [tick.get_text() for tick in ax.get_yticklabels()]
                yield ax.get_title(), names, ax.images[0].get_array()

    orders = set()
    for method, names, values in shown("structure_face"):
        tasks, structure = result_of(method, "structure")
        orders.add(tuple(names))
        assert sorted(names) == sorted(tasks)
        for (s, a), (t, b) in itertools.product(enumerate(names), repeat=2):
            assert values[s, t] == structure[tasks.index(a), tasks.index(b)]
    assert len(orders) == 1
    (order,) = orders
    for method, names, values in shown("second_kernel_face"):
        tasks, kernel = result_of(method, "second_kernel")
        rows = len(kernel) // len(tasks)
        assert tuple(names) == order
        place = [tasks.index(name) * rows + k for name in names for k in range(rows)]
        np.testing.assert_array_equal(values, kernel[np.ix_(place, place)])


def test_a_method_looks_the_same_everywhere(drawn):
    looks = {}
    for name in ("alarm_rate", "regulariser", "squared_error"):
        for ax in drawn[name].figure.axes:
            for method, line in curves(ax).items():
                look = (line.get_color(), line.get_linestyle(), line.get_marker())
                assert looks.setdefault(method, look) == look
    looks.pop("as promised")
    assert len(set(looks.values())) == len(looks) > 10


@pytest.mark.parametrize("colour", COLOURS)
def test_curves_stand_out_from_white(colour):
    values = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(
        values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4
    )
    assert 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05) >= 3
