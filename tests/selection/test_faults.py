"""Faults made from normal rows, and what is chosen by them."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from manyone import SVDD, IndependentOCKSR, JointOCKSR, tune
from manyone.data.rows import training_rows
from manyone.selection.criteria import fault_aucs, synthetic_faults
from manyone.selection.search import ERRORS_OF_FAULTS, Search

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
GRID = {"metric": ["adaptive", "plain"], "width": [1.0, 3.0]}


@pytest.fixture
def correlated():
    """Eight tasks whose columns move together, each with its own scales: (X, task)."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(8), 12)
    factor = rng.normal(size=(96, 2)) @ rng.normal(size=(2, 6))
    X = (factor + 0.2 * rng.normal(size=(96, 6))) * np.exp(rng.normal(size=(8, 6)))[
        task
    ]
    return X + 2.0 * rng.normal(size=(8, 6))[task], task


def test_a_spike_moves_one_column_by_four_deviations_of_its_task(correlated):
    X, task = correlated
    rows, *_ = training_rows(IndependentOCKSR(), X, task)
    spikes, _ = synthetic_faults(rows, np.random.RandomState(0))
    moved = spikes != rows.X
    assert np.all(moved.sum(axis=1) == 1)
    size = np.abs(spikes - rows.X).sum(axis=1)
    column = moved.argmax(axis=1)
    for t in range(8):
        mine = rows.X[rows.codes == t]
        pooled = np.sqrt(
            np.mean([rows.X[rows.codes == s].var(axis=0, ddof=1) for s in range(8)], 0)
        )
        shrunk = np.sqrt((11 * mine.var(axis=0, ddof=1) + 2 * pooled**2) / 13)
        np.testing.assert_allclose(
            size[rows.codes == t], 4 * shrunk[column[rows.codes == t]]
        )


def test_swapped_residuals_keep_columns_plausible_and_break_relations(correlated):
    X, task = correlated
    rows, *_ = training_rows(IndependentOCKSR(), X, task)
    _, swapped = synthetic_faults(rows, np.random.RandomState(0))
    assert np.all((swapped != rows.X).sum(axis=1) <= 2)
    for t in range(8):
        mine = rows.X[rows.codes == t]
        bad = swapped[rows.codes == t]
        assert np.all(bad.std(axis=0) < 3 * mine.std(axis=0))
    means = np.array([rows.X[rows.codes == t].mean(axis=0) for t in range(8)])[
        rows.codes
    ]
    smallest = np.linalg.svd((rows.X - means) / (rows.X - means).std(axis=0))[2][-1]
    spread = [
        np.std(((Z - means) / (rows.X - means).std(axis=0)) @ smallest)
        for Z in (rows.X, swapped)
    ]
    assert spread[1] > 2 * spread[0]


def test_faults_do_not_depend_on_order_or_names(correlated):
    X, task = correlated
    order = np.random.default_rng(1).permutation(len(X))
    found = []
    for Z, names in ((X, task), (X[order], (9 - task)[order])):
        rows, *_ = training_rows(IndependentOCKSR(), Z, names)
        faults = synthetic_faults(rows, np.random.RandomState(3))
        by_content = np.argsort(rows.content)
        found.append(faults[:, by_content])
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)


def test_levels_of_categories_stay_where_there_are_numbers(correlated):
    X, task = correlated
    levels = np.eye(4)[np.random.default_rng(1).integers(4, size=len(X))]
    rows, *_ = training_rows(IndependentOCKSR(), np.hstack([levels, X]), task)
    for made in synthetic_faults(rows, np.random.RandomState(0)):
        np.testing.assert_array_equal(made[:, :4], rows.X[:, :4])
        assert np.all((made != rows.X).any(axis=1))
    rows, *_ = training_rows(
        IndependentOCKSR(), levels, task
    )  # nothing else could move
    assert np.all(
        [
            np.any(made != rows.X)
            for made in synthetic_faults(rows, np.random.RandomState(0))
        ]
    )


def test_categories_do_not_change_what_finds_faults_of_numbers():
    """Values between 0 and 1 are found best by a metric bad at others."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(8), 12)
    X = rng.normal(size=(96, 1)) @ rng.normal(size=(1, 4)) + 0.3 * rng.normal(
        size=(96, 4)
    )
    X += 2.0 * rng.normal(size=(8, 4))[task]
    levels = [np.eye(k)[rng.integers(k, size=96)] for k in (2, 4, 5, 6)]
    grid = {"metric": ["adaptive", "whitened"], "width": [3.0, 0.1]}
    for Z in (X, np.hstack([X, *levels, np.eye(4)[task % 4]])):
        model = tune(IndependentOCKSR(), Z, task=task, criterion="faults", grid=grid)
        assert (model.metric, model.width) == ("adaptive", 3.0)


def test_outliers_and_rows_that_do_not_vary_stay():
    X = np.ones((6, 2))
    outlier = np.arange(6) == 5
    X[5] = 9.0
    rows, *_ = training_rows(IndependentOCKSR(), X, None, outlier)
    for made in synthetic_faults(rows, np.random.RandomState(0)):
        np.testing.assert_array_equal(made, rows.X)


def test_aucs_are_those_of_held_out_rows_against_their_twins(correlated):
    X, task = correlated
    rows, *_ = training_rows(IndependentOCKSR(), X, task)
    faults = synthetic_faults(rows, np.random.RandomState(0))
    calls = []

    def score(kept, Z, codes):
        calls.append((kept, Z, codes))
        return -np.abs(Z).sum(axis=1)

    aucs = fault_aucs(score, rows, faults)
    assert aucs.shape == (2, 24) and len(calls) == 3
    held = np.setdiff1d(np.arange(96), calls[0][0])
    mine = held[rows.codes[held] == 5]
    for kind in range(2):
        scores = np.concatenate(
            [-np.abs(Z).sum(axis=1) for Z in (rows.X[mine], faults[kind, mine])]
        )
        expected = roc_auc_score(np.arange(len(scores)) < len(mine), scores)
        assert aucs[kind, 5] == pytest.approx(expected)


def test_the_first_setting_stays_unless_another_wins_at_every_kind():
    rng = np.random.default_rng(0)
    base = np.full((2, 40), 0.7)
    found = {
        "first": base,
        "one kind": base + np.array([[0.2], [-0.01]]),
        "noise": base + 0.3 * rng.normal(size=(2, 40)),
        "both": base + 0.05 + 0.01 * rng.normal(size=(2, 40)),
    }

    def judge(settings):
        return [found[setting["name"]] for setting in settings]

    for names, taken in ((["first", "one kind", "noise"], 0), (list(found), 3)):
        settings = [{"name": name} for name in names]
        search = Search(None)
        search.go_on("faults", judge, settings, ERRORS_OF_FAULTS)
        assert search.best == taken


@pytest.mark.parametrize("method", [IndependentOCKSR, SVDD])
def test_tuning_finds_the_metric_that_relations_need(correlated, method):
    X, task = correlated
    model = tune(method(), X, task=task, criterion="faults", grid=GRID, random_state=0)
    assert model.metric == "adaptive" and set(model.tuning_["stage"]) == {"faults"}
    again = tune(method(), X, task=task, criterion="faults", grid=GRID, random_state=0)
    np.testing.assert_array_equal(model.tuning_["score"], again.tuning_["score"])


def test_no_setting_is_judged_twice(correlated):
    """Strengths are tried beside the model's own, which earlier settings had."""
    X, task = correlated
    model = tune(IndependentOCKSR(alpha=1.0), X, task=task, criterion="faults")
    names = [name for name in model.get_params() if name in model.tuning_]
    settings = [*zip(*(model.tuning_[name].tolist() for name in names), strict=True)]
    assert {0.01, 0.1, 1.0} <= {*model.tuning_["alpha"]}
    assert len({*settings}) == len(settings)


def test_one_task_and_tasks_of_one_row(correlated):
    X, task = correlated
    alone = tune(
        JointOCKSR(), X[task == 0], criterion="faults", grid={"width": [0.3, 3.0]}
    )
    assert len(alone.tuning_["score"]) == 2 and len(alone.tasks_) == 1
    few = np.flatnonzero((task == 0) | (np.arange(96) % 12 == 0))
    model = tune(
        IndependentOCKSR(), X[few], task=task[few], criterion="faults", grid=GRID
    )
    assert np.isfinite(model.tuning_["score"]).all()
    with pytest.raises(ValueError, match="dense"):
        tune(
            JointOCKSR(kernel="precomputed"),
            np.eye(4),
            criterion="faults",
            grid={"alpha": [1.0]},
        )
