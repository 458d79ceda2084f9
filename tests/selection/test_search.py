"""One loop, one rule, and no more work than can pay."""

import numpy as np
import pytest

from manyone import JointOCKSR, NonlinearOCKSR, auto, tune
from manyone.data.rows import training_rows
from manyone.selection import costs, criteria
from manyone.selection.costs import FEWEST_ROWS, is_affordable, rows_to_judge_by
from manyone.selection.search import Judged, Search, preferred, settings_of

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


@pytest.fixture
def shops():
    """Nine shops whose rows vary wildly in columns that tell nothing: (X, task)."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(9), 150)
    X = 0.3 * rng.normal(size=(1350, 8)) + rng.normal(size=(9, 8))[task]
    X[:, :3] += 5.0 * rng.normal(size=(1350, 3))
    return X, task


def entries(*values):
    return [Judged({}, np.array(value, dtype=float), "folds") for value in values]


def test_without_preference_the_best_mean_is_taken_and_the_first_of_equals():
    judged = entries([[0.5, 0.6]], [[0.9, 0.1]], [[0.7, 0.6]], [[0.6, 0.7]])
    assert preferred(judged, 0.0) == 2


def test_a_preferred_setting_is_left_for_the_best_that_clearly_beats_it():
    first = [[0.5, 0.5, 0.5]]
    lucky = [[1.0, 0.3, 0.8]]
    clear = [[0.6, 0.61, 0.62]]
    assert preferred(entries(first, lucky, clear), 2.0) == 2
    assert preferred(entries(first, lucky), 2.0) == 0


def test_every_kind_of_anomaly_must_be_better():
    first = np.full((2, 3), 0.5)
    one_kind = first + np.array([[0.2], [-0.01]])
    both_kinds = first + np.array([[0.1], [0.05]])
    assert preferred(entries(first, one_kind), 1.0) == 0
    assert preferred(entries(first, one_kind, both_kinds), 1.0) == 2


def test_what_cannot_be_judged_is_left_for_what_can():
    judged = entries([[np.nan, np.nan]], [[0.0, np.nan]])
    assert preferred(judged, 0.0) == 1
    assert preferred(judged, 1.0) == 0


def test_parameters_one_at_a_time_are_judged_once_each():
    asked = []

    def judge(settings):
        asked.extend(settings)
        areas = [0.5 + 0.1 * setting["b"] + 0.01 * setting["a"] for setting in settings]
        return [np.full((1, 2), area) for area in areas]

    search = Search(None)
    search.go_on("folds", judge, [{"a": 1, "b": 1}], 0.0)
    search.one_at_a_time("folds", judge, {"a": [0, 1, 2], "b": [0, 1, 2]}, 0.0)
    assert search.setting == {"a": 2, "b": 2}
    assert len(asked) == 5 and all(asked.count(setting) == 1 for setting in asked)


def test_combinations_of_a_grid():
    assert settings_of({"b": [1, 2], "a": ["x"]}) == [
        {"a": "x", "b": 1},
        {"a": "x", "b": 2},
    ]
    assert settings_of({}) == [{}]


def test_folds_with_no_more_rows_than_landmarks_are_fitted_without(shops, monkeypatch):
    """Landmarks of all rows of a fold are the exact model, at seven times the cost."""
    X, task = shops
    landmarks = []
    solve = JointOCKSR._solve
    solve_passes = JointOCKSR._solve_passes

    def exactly(model, *given, **options):
        landmarks.append(model.landmarks)
        return solve(model, *given, **options)

    def by_passes(model, *given):
        landmarks.append(model.landmarks)
        return solve_passes(model, *given)

    monkeypatch.setattr(JointOCKSR, "_solve", exactly)
    monkeypatch.setattr(JointOCKSR, "_solve_passes", by_passes)
    model = JointOCKSR(landmarks=1000, random_state=0)
    grid = {"alpha": [0.1], "metric": ["plain", "whitened"]}
    tuned = tune(model, X, task=task, grid=grid, calibrate=False)
    *judged, last = landmarks
    assert judged and set(judged) == {None} and last == 1000
    assert tuned.landmarks == 1000
    exact = tune(JointOCKSR(), X, task=task, grid=grid, calibrate=False)
    np.testing.assert_array_equal(tuned.tuning_["score"], exact.tuning_["score"])


def test_a_learned_metric_is_searched_one_parameter_at_a_time(shops):
    X, task = shops
    model = tune(JointOCKSR(), X[::5], task=task[::5])
    table = model.tuning_
    assert model.metric == "whitened"
    # Three kernels and three ridges in two metrics; then two kernels, two widths and
    # six ridges beside the best of them.
    assert len(table["score"]) == 18 + 1 + 2 + 2 + 6
    names = ("kernel", "width", "alpha", "metric", "stage")
    lines = [*zip(*(table[name].tolist() for name in names), strict=True)]
    assert len(set(lines)) == len(lines)
    best = table["chosen"] & (table["stage"] == "folds")
    assert table["score"][best] == table["score"][table["stage"] == "folds"].max()


def test_costs_say_what_is_affordable():
    X = np.random.default_rng(0).normal(size=(2000, 2))
    rows, *_ = training_rows(JointOCKSR(), X, np.repeat(np.arange(20), 100))
    assert is_affordable(JointOCKSR(), rows)
    assert not is_affordable(NonlinearOCKSR(), rows)
    assert is_affordable(NonlinearOCKSR(), rows.take(np.arange(1000)))
    assert rows_to_judge_by(1) > rows_to_judge_by(9) > FEWEST_ROWS
    assert rows_to_judge_by(1000) == FEWEST_ROWS


def test_a_choice_costs_few_fits_of_few_rows(shops, monkeypatch):
    """A choice makes no more refits, and of no more rows, than it says."""
    X, task = shops
    sizes = []
    refitted = criteria._refitted

    def noted(model, rows):
        sizes.append(len(rows.codes))
        return refitted(model, rows)

    monkeypatch.setattr(criteria, "_refitted", noted)
    auto(X, task=task, anomalies="faults", alarm_rate=0.1)
    assert len(sizes) <= 3 * (24 + 6) and max(sizes) <= FEWEST_ROWS


def test_rows_of_each_task_are_as_many_as_there_is_time_for(monkeypatch):
    most = 4e5
    monkeypatch.setattr(costs, "_MOST_CUBES", most)
    for sizes in ([500], [3, 90, 200], [40] * 30, [1] * 1000 + [400], [20, 20]):
        rows = np.array(sizes)
        possible = range(1, max(sizes) + 1)
        kept = [q for q in possible if (np.minimum(rows, q) ** 3.0).sum() <= most]
        assert costs.rows_of_each_task(rows) == kept[-1]
