"""The figures show the results, each method in the same look, and nothing that was not run."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from manyone.experiments.figures import charts
from manyone.experiments.plan import CORRUPTION_KINDS, RIDGES
from manyone.experiments.results import Results


@pytest.fixture(scope="module")
def outcomes(made_up):
    return made_up(("mnist", "face"))[1]


@pytest.fixture(scope="module")
def drawn(outcomes):
    return {chart.name: chart for chart in charts(Results(outcomes))}


def test_every_figure_of_the_paper_and_ours_is_there(drawn):
    expected = {"seen_unseen", "alarm_rate", "regulariser", "squared_error"}
    expected |= {f"robustness_{kind}" for kind in CORRUPTION_KINDS}
    for name in ("mnist", "face"):
        expected |= {f"structure_{name}", f"second_kernel_{name}", f"objective_{name}"}
    assert set(drawn) == expected
    for name in expected - {n for n in expected if n.endswith(("mnist", "face"))}:
        assert [panel.title for panel in drawn[name].panels] == ["MNIST", "Faces"]


def test_nothing_is_drawn_without_results(outcomes):
    failed = [replace(outcome, result={}, error="lost") for outcome in outcomes]
    assert charts(Results(failed)) == []


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
    np.testing.assert_allclose(
        found.y, [mean("SVDD", RIDGES[0], level, auc) for level in levels]
    )
    found = curve("alarm_rate", "OCKSR")
    shares = [
        o.result["alarms"]
        for o in outcomes
        if (o.cell.dataset, o.cell.method) == ("face", "OCKSR")
    ]
    np.testing.assert_allclose(found.y, np.mean(shares, axis=0))


def test_only_variants_of_ocksr_have_squared_errors(drawn):
    assert {curve.name for curve in drawn["squared_error"].legend} == {
        "OCKSR",
        "C-OCKSR",
        "OCKSR-L",
        "OCKSR-N",
        "OCKSR-NS",
    }


def test_matrices_keep_names_with_their_values(outcomes, drawn):
    orders = set()
    for panel in drawn["structure_face"].panels:
        (cell,) = (
            o
            for o in outcomes
            if (o.cell.dataset, o.cell.method) == ("face", panel.title)
            and (o.cell.protocol, o.cell.repetition, o.cell.corruption)
            == ("seen", 0, "")
        )
        tasks = cell.result["tasks"]
        matrix = panel.content
        orders.add(matrix.names)
        assert sorted(matrix.names) == sorted(tasks)
        for (s, a), (t, b) in itertools.product(enumerate(matrix.names), repeat=2):
            assert (
                matrix.values[s, t]
                == cell.result["structure"][tasks.index(a)][tasks.index(b)]
            )
        others = [v for (s, t), v in np.ndenumerate(matrix.values) if s != t]
        top = np.max(np.abs(others))
        assert matrix.limits == (-top, top)
    assert len(orders) == 1
    (names,) = orders
    for panel in drawn["second_kernel_face"].panels:
        (cell,) = (
            o
            for o in outcomes
            if (o.cell.dataset, o.cell.method) == ("face", panel.title)
            and (o.cell.protocol, o.cell.repetition) == ("seen", 0)
        )
        tasks = cell.result["tasks"]
        matrix = panel.content
        kernel = np.array(cell.result["second_kernel"])
        rows = cell.cell.sizes.n_train
        assert matrix.names == names
        place = [tasks.index(name) * rows + k for name in names for k in range(rows)]
        np.testing.assert_array_equal(matrix.values, kernel[np.ix_(place, place)])


def test_a_method_looks_the_same_everywhere(drawn):
    looks = {}
    for name, chart in drawn.items():
        for panel in chart.panels if name != "seen_unseen" else ():
            for curve in panel.curves:
                markers = {curve.marker} - {""}  # long curves go without
                look = (curve.colour, curve.line, *markers)
                assert looks.setdefault(curve.name, look)[:2] == look[:2]
    looks.pop("as promised")
    assert len(set(looks.values())) == len(looks) > 10
