"""Several detectors, one alarm."""

import pickle

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import clone
from sklearn.neighbors import LocalOutlierFactor

from manyone import (
    SVDD,
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    NonlinearOCKSR,
    load,
    save,
)
from manyone.calibration import Calibration
from manyone.models.combined import Tail, combined_scorer, weight_of
from manyone.models.guards import unguarded
from manyone.models.scale import Scale

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
VIEWS = [
    ("joint", JointOCKSR(gamma=0.2)),
    ("alone", IndependentOCKSR(metric="adaptive", gamma=0.2)),
]


def simulate(seed, n_rows, n_tasks=4):
    """Related tasks as in tests/test_alarm_rate.py, with one fresh row each."""
    rng = np.random.default_rng(seed)
    centres = 1.5 * rng.normal(size=(n_tasks, 3))

    def draw(k):
        noise = rng.normal(size=(n_tasks, k, 3)) * rng.gamma(
            2.0, 0.5, size=(n_tasks, k, 1)
        )
        return (centres[:, None] + noise).reshape(-1, 3), np.repeat(
            np.arange(n_tasks), k
        )

    return draw(n_rows), draw(1)


def test_the_score_is_minus_the_sum_of_the_tail_values(fleet):
    X, task = fleet
    model = CombinedOneClass(estimators=VIEWS).fit(X, task=task)
    values = model.view_scores(X, task=task)
    assert values.shape == (len(X), 2) and list(model.views_) == ["joint", "alone"]
    np.testing.assert_allclose(model.score_samples(X, task=task), -values.sum(axis=1))
    weighted = CombinedOneClass(estimators=VIEWS, weights=[2.0, 0.5]).fit(X, task=task)
    np.testing.assert_allclose(
        weighted.score_samples(X, task=task), -values @ [2.0, 0.5]
    )


def test_a_view_to_which_all_rows_are_far_away_hardly_counts():
    """Many columns, few rows: an adaptive metric puts every new row out of reach."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(5), 8)
    claim = np.repeat(np.arange(5), 20)
    centres = rng.normal(size=(5, 400))
    X = centres[task] + rng.normal(size=(40, 400))
    Z = centres[claim] + rng.normal(size=(100, 400))
    views = [("joint", JointOCKSR()), ("alone", IndependentOCKSR(metric="adaptive"))]
    model = CombinedOneClass(estimators=views, alarm_rate=0.2).fit(X, task=task)
    alone = model.views_["alone"].solution_
    expected = 10.0 * (
        1.0 - np.median(alone.left_out / unguarded(alone.scorer).far()[task])
    )
    np.testing.assert_allclose(model.weights_, [1.0, max(expected, 1e-6)], rtol=1e-9)
    assert 0.0 <= expected < 0.5
    values = model.view_scores(Z, task=claim)
    np.testing.assert_allclose(
        model.score_samples(Z, task=claim), -values @ model.weights_
    )
    given = CombinedOneClass(estimators=views, weights=[1, 1], alarm_rate=0.2).fit(
        X, task=task
    )
    assert given.weights_.tolist() == [1.0, 1.0]
    # With narrow kernels no view can tell anything: all are as good.
    assert CombinedOneClass(estimators=VIEWS).fit(X, task=task).weights_.tolist() == [
        1.0,
        1.0,
    ]


def test_weights_of_views():
    codes = np.array([0, 0, 1])
    weight = np.ones(3)
    far = np.array([-1.0, -2.0])
    half = pytest.approx(0.5)
    assert weight_of(np.array([-0.2, -0.9, -1.0]), codes, weight, far) == 1.0
    assert weight_of(far[codes], codes, weight, far) == 0.0
    assert weight_of(
        np.array([-0.98, -0.99, -1.9]), codes, weight, far
    ) == pytest.approx(0.2)
    assert (
        weight_of(np.array([-0.98, -0.99, -1.9]), codes, weight + 3.0 * codes, far)
        == half
    )
    assert weight_of(np.array([-5.0, -6.0, -7.0]), codes, weight, None) == 1.0


def test_views_are_what_they_are_alone(fleet):
    X, task = fleet
    model = CombinedOneClass(estimators=VIEWS).fit(X, task=task)
    for name, view in VIEWS:
        alone = clone(view).fit(X, task=task)
        np.testing.assert_allclose(
            model.views_[name].score_samples(X, task=task),
            alone.score_samples(X, task=task),
        )


@pytest.mark.parametrize("second", [{"gamma": 0.2}, {"kernel": "laplacian"}])
def test_values_are_those_of_each_view_alone_also_far_away(fleet, second):
    """Views with the same distances to the training rows compute them once."""
    X, task = fleet
    views = [VIEWS[0], ("alone", IndependentOCKSR(metric="adaptive", **second))]
    model = CombinedOneClass(estimators=views).fit(X, task=task)
    wide = (
        X
        + np.random.default_rng(1).normal(size=X.shape)
        * np.arange(len(X))[:, None]
        / 10
    )
    codes = np.searchsorted(model.tasks_, task)
    pairs = zip(
        model.views_.values(), unguarded(model.solution_.scorer).tails, strict=True
    )
    values = np.column_stack(
        [t.value(v.score_samples(wide, task=task), codes) for v, t in pairs]
    )
    assert np.array_equal(model.view_scores(wide, task=task), values)
    assert all(
        np.any(v.solution_.scorer.penalty(wide) > 0) for v in model.views_.values()
    )


def test_tail_values_are_logs_of_shares_and_go_on_where_ranks_end():
    scores = -np.sort(np.random.default_rng(0).exponential(size=4000))[::-1]
    zeros = np.zeros(4000, dtype=int)
    calibration = Calibration.from_scores(scores, zeros, np.ones(4000), 1, "held-out")
    tail = Tail.of(*calibration.pooled(), calibration.scale)
    new = -np.array([0.5, 1.0, 3.0, 6.0, 12.0, 40.0])
    found = tail.value(new, np.zeros(6, dtype=int))
    # Of an exponential law the tail probability of x is exp(-x), everywhere.
    np.testing.assert_allclose(found, -new, rtol=0.1)
    assert np.all(np.diff(found) > 0)


def test_a_left_out_row_has_no_part_in_the_unit_of_its_task():
    """A wide row makes the unit of its task large; new rows are judged alike."""
    rng = np.random.default_rng(3)
    task = np.repeat(np.arange(8), 8)
    X = rng.normal(size=(64, 3)) * np.exp(rng.normal(size=8))[task][:, None]
    model = CombinedOneClass(
        [("one", IndependentOCKSR()), ("other", IndependentOCKSR(kernel="laplacian"))]
    ).fit(X, task=task)
    scorer = combined_scorer(model.solution_)
    views = list(model.views_.values())
    rows = views[0].training_
    left_out = model.left_out_scores(rows)
    with_itself = scorer.combine(
        np.column_stack(
            [
                tail.value(view.solution_.left_out, rows.codes)
                for view, tail in zip(views, scorer.tails, strict=True)
            ]
        )
    )
    place = int(np.argmin(left_out))
    assert left_out[place] < 1.05 * with_itself[place]


def test_tail_values_stay_shares_where_a_guard_has_lowered_a_row():
    """One row far from everything does not blur scores that crowd near 0."""
    scores = -1e-2 * np.sort(np.random.default_rng(1).exponential(size=4000))[::-1]
    scores[0] = -1e3
    pool = scores / 0.05
    far = np.full(1, -1.0)
    scale = Scale(np.ones(1), np.zeros(1), np.full(1, 0.05))
    tail = Tail.of(pool, np.ones(4000), scale, far)
    new = -1e-2 * np.array([0.1, 0.5, 1.0, 1.5])
    found = tail.value(new, np.zeros(4, dtype=int))
    np.testing.assert_allclose(found, -1e2 * new, rtol=0.1)


def test_one_view_ranks_as_the_view_does(fleet):
    X, task = fleet
    view = JointOCKSR(gamma=0.2)
    model = CombinedOneClass(estimators=[("only", view)]).fit(X, task=task)
    alone = view.fit(X, task=task)
    far = X + np.linspace(0.0, 3.0, len(X))[:, None]
    for name in np.unique(task):
        mine = task == name
        order = np.argsort(alone.score_samples(far[mine], task=task[mine]))
        assert np.all(
            np.diff(model.score_samples(far[mine], task=task[mine])[order]) >= -1e-12
        )


def test_known_outliers_and_tasks_of_one_row(fleet):
    X, task = fleet
    rows = np.vstack([X, [[9.0, 9.0, 9.0, 9.0]], [[5.0, 0.0, 0.0, 0.0]]])
    labels = np.concatenate([task, ["zoe", "cleo"]])
    bad = rows[[-1]]
    claim = ["cleo"]
    untold = CombinedOneClass(estimators=VIEWS).fit(rows[:-1], task=labels[:-1])
    model = CombinedOneClass(estimators=VIEWS)
    model.fit(rows, task=labels, outlier=np.arange(len(rows)) == len(rows) - 1)
    assert "zoe" in model.tasks_ and np.isfinite(model.score_tasks(rows)).all()
    assert (
        model.score_samples(bad, task=claim)[0]
        < untold.score_samples(bad, task=claim)[0]
    )


@pytest.mark.parametrize("metric", ["plain", "adaptive"])
def test_enroll_and_forget_equal_a_fit(fleet, metric):
    X, task = fleet
    views = [("two layers", NonlinearOCKSR(max_iter=2)), ("alone", IndependentOCKSR())]
    views[1][1].set_params(metric=metric)
    whole = CombinedOneClass(estimators=views).fit(X, task=task)
    part = task != "eve"
    model = CombinedOneClass(estimators=views).fit(X[part], task=task[part])
    model.enroll(X[~part], task=task[~part])
    np.testing.assert_allclose(model.score_tasks(X), whole.score_tasks(X), atol=1e-7)
    np.testing.assert_allclose(model.offset_, whole.offset_, atol=1e-7)
    fewer = CombinedOneClass(estimators=views).fit(X[part], task=task[part])
    model.forget("eve")
    np.testing.assert_allclose(model.score_tasks(X), fewer.score_tasks(X), atol=1e-7)
    np.testing.assert_allclose(model.offset_, fewer.offset_, atol=1e-7)


def test_a_refused_update_changes_nothing(fleet):
    X, task = fleet
    model = CombinedOneClass(estimators=VIEWS).fit(X, task=task)
    before = model.score_tasks(X)
    with pytest.raises(ValueError, match="New task 'zoe' has no normal row"):
        model.enroll(X[:2], task=["zoe"] * 2, outlier=[True, True])
    np.testing.assert_array_equal(model.score_tasks(X), before)


def test_saved_and_pickled(fleet, tmp_path):
    X, task = fleet
    model = CombinedOneClass(estimators=VIEWS).fit(X, task=task)
    save(model, tmp_path / "model")
    for twin in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(twin.score_tasks(X), model.score_tasks(X))
        np.testing.assert_array_equal(twin.predict_task(X), model.predict_task(X))
        assert (
            twin.pvalues(X, task=task).tolist() == model.pvalues(X, task=task).tolist()
        )


def test_parameters_of_views_are_within_reach(fleet):
    model = CombinedOneClass(estimators=VIEWS)
    twin = clone(model).set_params(joint__alpha=3.0)
    assert twin.get_params()["joint__alpha"] == 3.0 and VIEWS[0][1].alpha != 3.0
    replaced = clone(model).set_params(joint=JointOCKSR(alpha=7.0))
    assert replaced.get_params()["joint__alpha"] == 7.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"estimators": []}, "empty"),
        ({"estimators": [JointOCKSR()]}, "pairs"),
        ({"estimators": [("other", LocalOutlierFactor())]}, "estimator of manyone"),
        ({"estimators": [("a", JointOCKSR()), ("a", JointOCKSR())]}, "unique"),
        (
            {"estimators": [("a", JointOCKSR(alpha=-1.0))]},
            "'alpha' parameter of JointOCKSR",
        ),
        (
            {"estimators": [("a", JointOCKSR()), ("b", SVDD(kernel="precomputed"))]},
            "precomputed",
        ),
        ({"weights": [1.0]}, "weights must be 2 numbers"),
        ({"weights": [0.0, 0.0]}, "not all 0"),
        ({"weights": [1.0, np.nan]}, "weights"),
    ],
)
def test_what_is_refused(fleet, given, words):
    X, task = fleet
    with pytest.raises(ValueError, match=words):
        CombinedOneClass(**given).fit(X, task=task)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [8, 20, 80])
def test_alarm_rate_holds(n_rows):
    views = [("joint", JointOCKSR()), ("alone", IndependentOCKSR(kernel="laplacian"))]
    found = {0.05: [], 0.1: [], 0.2: []}
    for seed in range(150):
        (X, task), (Z, claim) = simulate(seed, n_rows)
        model = CombinedOneClass(estimators=views).fit(X, task=task)
        for rate, alarms in found.items():
            alarms.append(model.recalibrate(rate).predict(Z, task=claim) == -1)
    for rate, alarms in found.items():
        count = np.sum(alarms)
        assert count <= binom.ppf(0.999, np.size(alarms), rate)
        resolvable = np.floor(rate * (n_rows + 1) + 1e-9) / (n_rows + 1)
        assert count >= binom.ppf(0.001, np.size(alarms), 0.7 * resolvable)


def test_a_combination_says_how_rows_left_each_view(fleet):
    X, task = fleet
    folds = IndependentOCKSR(metric="whitened")
    views = [("closed", JointOCKSR()), ("folds", folds), ("more", JointOCKSR(alpha=1))]
    model = CombinedOneClass(views, alarm_rate=0.1).fit(X, task=task)
    assert model.calibration_.source == "folds and leave-one-out"
