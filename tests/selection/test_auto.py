"""One call that chooses."""

import importlib

import numpy as np
import pytest
from scipy.stats import binom

import manyone
from manyone import (
    SVDD,
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    NonlinearOCKSR,
)
from manyone.selection import costs

pytestmark = [
    pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture
def rows():
    """Six tasks of ten rows: (X, task)."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), 10)
    return rng.normal(size=(60, 4)) + 1.5 * rng.normal(size=(6, 4))[task], task


@pytest.mark.slow
def test_what_anomalies_look_like_decides_the_method(rows):
    X, task = rows
    faults = manyone.auto(X, task=task, anomalies="faults", alarm_rate=0.1)
    assert type(faults) in (IndependentOCKSR, SVDD) and faults.alarm_rate == 0.1
    strangers = manyone.auto(X, task=task, anomalies="strangers", alarm_rate=0.1)
    assert type(strangers) in (NonlinearOCKSR, JointOCKSR)
    both = manyone.auto(X, task=task, alarm_rate=0.1)
    assert type(both) is CombinedOneClass and list(both.views_) == [
        "strangers",
        "faults",
    ]
    choice = both.choice_
    assert set(choice) >= {"view", "method", "setting", "score", "chosen", "reason"}
    assert len({len(column) for column in choice.values()}) == 1
    for view in both.views_:
        assert np.sum(choice["chosen"][choice["view"] == view]) == 1
    assert np.all(both.predict(X + 50.0, task=task) == -1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gains", "alone", "hedged"),
    [
        ([0.3, 0.2, 0.3], JointOCKSR, JointOCKSR),
        ([0.3, -0.25, 0.0], NonlinearOCKSR, JointOCKSR),  # in doubt
        ([-0.1, -0.3, 0.1], NonlinearOCKSR, NonlinearOCKSR),
    ],
)
def test_one_layer_alone_has_to_be_better_by_a_standard_error(
    rows, monkeypatch, gains, alone, hedged
):
    X, task = rows
    module = importlib.import_module("manyone.selection.auto")
    aucs = {NonlinearOCKSR: np.full((1, 3), 0.5), JointOCKSR: 0.5 + np.array([gains])}
    monkeypatch.setattr(module, "fold_areas", lambda model, **_: [aucs[type(model)]])
    for anomalies, expected in (("strangers", alone), ("any", hedged)):
        model = manyone.auto(X, task=task, anomalies=anomalies, alarm_rate=0.1)
        assert (
            type(getattr(model, "views_", {"strangers": model})["strangers"])
            is expected
        )


def test_the_distance_to_the_mean_is_taken_where_it_is_better():
    """Gaussian rows of one covariance; and rows about two places, where it is not."""
    rng = np.random.default_rng(3)
    task = np.repeat(np.arange(12), 25)
    related = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6))
    X = rng.normal(size=(300, 6)) + related + 3.0 * rng.normal(size=(12, 6))[task]
    model = manyone.auto(X, task=task, anomalies="faults", alarm_rate=0.1)
    assert type(model) is SVDD
    # The ball that leaves every row outside has its centre at the mean of the task's
    # rows.
    metric = model.solution_.scorer.metric
    weights = model.dual_coef_.toarray()
    counts = (weights > 0.0).sum(axis=0)
    np.testing.assert_allclose(weights.max(axis=0), 1.0 / counts)
    centre = weights.T @ model.solution_.scorer.points.X
    far = metric.apply(X, task) - centre[task]
    scores = model.score_samples(X, task=task)
    np.testing.assert_allclose(scores, -(far**2).sum(axis=1), rtol=1e-6, atol=1e-9)
    X[np.arange(300) % 2 == 0] += 8.0
    two_places = manyone.auto(X, task=task, anomalies="faults", alarm_rate=0.1)
    assert type(two_places) is IndependentOCKSR
    methods = two_places.choice_["method"][two_places.choice_["stage"] == "method"]
    assert methods.tolist() == ["IndependentOCKSR", "SVDD"]


@pytest.mark.parametrize("anomalies", ["faults", "any"])
def test_order_of_rows_and_names_of_tasks_do_not_matter(rows, anomalies):
    X, task = rows
    order = np.random.default_rng(1).permutation(len(X))
    one = manyone.auto(X, task=task, anomalies=anomalies, alarm_rate=0.1)
    names = np.array(["f", "e", "d", "c", "b", "a"])[task]
    other = manyone.auto(
        X[order], task=names[order], anomalies=anomalies, alarm_rate=0.1
    )
    a, b = (m.choice_["setting"][m.choice_["chosen"]].tolist() for m in (one, other))
    assert a == b
    np.testing.assert_allclose(
        one.score_samples(X, task=task),
        other.score_samples(X, task=names),
        rtol=1e-5,
        atol=1e-5,
    )


def test_one_task_and_tasks_of_one_row(rows):
    X, task = rows
    alone = manyone.auto(X[task == 0], alarm_rate=0.2)
    assert type(alone) is IndependentOCKSR
    assert any("one task" in str(reason) for reason in alone.choice_["reason"])
    single = manyone.auto(X[::10], task=task[::10], anomalies="faults", alarm_rate=0.2)
    assert len(single.tasks_) == 6 and np.isfinite(single.score_tasks(X)).all()


def test_more_rows_than_a_kernel_matrix_allows(rows, monkeypatch):
    """Landmarks are used where the matrix is too large, and the choice says so."""
    X, task = rows
    # Forty rows take all of the time that is allowed then: sixty are too many.
    monkeypatch.setattr(costs, "_MOST_ROWS", {"JointOCKSR": 40, "NonlinearOCKSR": 12})
    monkeypatch.setattr(costs, "_MOST_CUBES", 40**3 * 8 / 50)
    model = manyone.auto(X, task=task, anomalies="strangers", alarm_rate=0.1)
    assert type(model) is JointOCKSR and model.landmarks == 60
    assert any(
        "landmarks instead of 60 rows" in str(reason)
        for reason in model.choice_["reason"]
    )
    asked = manyone.auto(
        X, task=task, anomalies="strangers", landmarks=25, alarm_rate=0.1
    )
    assert asked.landmarks == 25


def test_known_outliers_weights_and_frames(rows):
    pd = pytest.importorskip("pandas")
    X, task = rows
    frame = pd.DataFrame(X, columns=list("wxyz")).assign(machine=task)
    model = manyone.auto(
        frame,
        task="machine",
        outlier=np.arange(60) % 10 == 0,
        sample_weight=np.ones(60),
        anomalies="faults",
        alarm_rate=0.2,
    )
    assert (
        list(model.feature_names_in_) == list("wxyz")
        and model.training_.outlier.sum() == 6
    )
    assert model.predict(frame, task="machine").shape == (60,)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(
            ("anomalies", "odd"),
            ("alarm_rate", 1.0),
            ("random_state", "odd"),
        ),
        *(("landmarks", 0), ("landmarks", -1), ("landmarks", "few")),
    ],
)
@pytest.mark.parametrize("anomalies", ["faults", "strangers"])
def test_what_is_refused(rows, anomalies, name, wrong):
    X, task = rows
    given = {"anomalies": anomalies, name: wrong}
    with pytest.raises(ValueError, match=name):
        manyone.auto(X, task=task, **given)
    with pytest.raises(ValueError, match=name):
        manyone.auto(lambda: iter([(X, task)]), **given)


@pytest.mark.slow
def test_alarm_rate_holds():
    """The settings are chosen on the same rows: the promise has to survive it."""
    alarms = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        task = np.repeat(np.arange(4), 20)
        centres = 1.5 * rng.normal(size=(4, 3))
        X, Z = (rng.normal(size=(80, 3)) + centres[task] for _ in range(2))
        model = manyone.auto(X, task=task, anomalies="faults", alarm_rate=0.1)
        alarms.append(model.predict(Z[::20], task=task[::20]) == -1)
    assert np.sum(alarms) <= binom.ppf(0.999, np.size(alarms), 0.1)


def test_fewer_rows_of_large_tasks_are_kept(monkeypatch):
    monkeypatch.setattr(costs, "_MOST_CUBES", 2.4e5)
    rng = np.random.default_rng(0)
    task = np.repeat(["big", "small"], [400, 20])
    X = rng.normal(size=(420, 3))
    model = manyone.auto(X, task=task, anomalies="faults", alarm_rate=0.1)
    sizes = np.bincount(model.training_.codes)
    assert sizes.tolist() == [costs.rows_of_each_task(np.array([400, 20])), 20]
    words = f"{sizes.sum()} of 420 rows were kept"
    assert words in model.choice_["reason"]
    order = rng.permutation(420)
    again = manyone.auto(X[order], task=task[order], anomalies="faults", alarm_rate=0.1)
    np.testing.assert_array_equal(again.X_fit_, model.X_fit_)
    fresh = rng.normal(size=(1000, 3))
    assert np.mean(model.predict(fresh, task=["big"] * 1000) < 0) == pytest.approx(
        0.1, abs=0.04
    )


def test_a_choice_is_called_the_best_only_where_it_is(rows):
    X, task = rows
    choice = manyone.auto(X, task=task, anomalies="faults", alarm_rate=0.1).choice_
    (chosen,) = np.flatnonzero(choice["chosen"])
    judged_alike = choice["stage"] == choice["stage"][chosen]
    is_best = np.all(choice["score"][judged_alike] <= choice["score"][chosen])
    assert (choice["reason"][chosen] == "best on left-out rows") == is_best
