"""Choices made without refits, against refits."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils._param_validation import InvalidParameterError

from manyone import (
    KNFST,
    SVDD,
    IndependentOCKSR,
    JointOCKSR,
    LinearOCKSR,
    NonlinearOCKSR,
    SparseOCKSR,
    save,
    tune,
)
from manyone.calibration.folds import halved_splits
from manyone.data.rows import training_rows
from manyone.estimators import METHODS
from manyone.metrics import task_aucs
from manyone.models.guards import unguarded
from manyone.selection.criteria import fold_aucs, scores_of

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["seen", "unseen"])
@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_scores_equal_those_of_refits(method, criterion, fleet):
    X, task = fleet
    X = X[::2]
    task = task[::2]
    grid = {"kernel": ["rbf", "laplacian"], "alpha": [0.01, 1.0]}
    model = tune(method(gamma=0.2), X, task=task, criterion=criterion, grid=grid)
    names = np.unique(task)
    codes = np.searchsorted(names, task)

    @cache
    def whole_means(kernel, alpha):
        whole = method(kernel=kernel, alpha=alpha, gamma=0.2).fit(X, task=task)
        return whole.solution_.learned["mean_response"]

    for k, (kernel, alpha) in enumerate(
        zip(model.tuning_["kernel"], model.tuning_["alpha"], strict=True)
    ):
        scores = np.empty((len(X), len(names)))
        for i in range(len(X)):
            for t in range(len(names)):
                whole = criterion == "unseen" and codes[i] != t
                kept = codes != codes[i] if whole else np.arange(len(X)) != i
                refit = method(kernel=kernel, alpha=alpha, gamma=0.2).fit(
                    X[kept], task=task[kept]
                )
                column = list(refit.tasks_).index(names[t])
                scores[i, t] = unguarded(refit.solution_.scorer).all(X[[i]])[0, column]
                if method is IndependentOCKSR and codes[i] == t:
                    # Its model has a row fewer than the one that judges strangers.
                    mean = refit.solution_.learned["mean_response"][column]
                    scores[i, t] *= whole_means(kernel, alpha)[t] / mean
        expected = np.mean(
            [roc_auc_score(codes == t, scores[:, t]) for t in range(len(names))]
        )
        assert model.tuning_["score"][k] == pytest.approx(expected, abs=1e-8)


def test_best_setting_is_fitted_and_the_rest_kept(fleet):
    X, task = fleet
    start = JointOCKSR(alarm_rate=0.17, kernel="laplacian")
    model = tune(
        start, X, task=task, grid={"alpha": [1e-3, 0.1, 3.0], "width": [0.5, 2.0]}
    )
    table = pd.DataFrame(model.tuning_)
    assert len(table) == 6 and table.chosen.sum() == 1
    best = table[table.chosen].iloc[0]
    assert best.score == table.score.max()
    assert (model.alpha, model.width) == (best.alpha, best.width)
    assert (model.alarm_rate, model.kernel) == (0.17, "laplacian")
    assert not hasattr(start, "offset_")
    fresh = JointOCKSR(
        alarm_rate=0.17, kernel="laplacian", alpha=best.alpha, width=best.width
    )
    np.testing.assert_allclose(
        model.offset_, fresh.fit(X, task=task).offset_, atol=1e-10
    )


def test_default_grid_tries_every_kernel_and_both_metrics(fleet):
    X, task = fleet
    half = np.arange(len(X)) % 2
    tasks = [f"{name} {part}" for name, part in zip(task, half, strict=True)]
    model = tune(JointOCKSR(), X, task=tasks)
    assert len(model.tasks_) == 10
    assert set(model.tuning_["kernel"]) == set(JointOCKSR.can.grid["kernel"])
    assert set(model.tuning_["metric"]) == {"plain", "whitened"}
    assert np.all(np.isfinite(model.tuning_["score"]))
    # Five tasks say too little about a metric, unless the grid insists.
    assert set(tune(JointOCKSR(), X, task=task).tuning_["metric"]) == {"plain"}
    asked = tune(JointOCKSR(), X, task=task, grid={"metric": ["plain", "whitened"]})
    assert set(asked.tuning_["metric"]) == {"plain", "whitened"}


def faces_like(seed, n_tasks=24, n_rows=6, d=30):
    """Tasks differ in a few directions; rows of a task vary wildly in a few others."""
    rng = np.random.default_rng(seed)
    centres = np.zeros((n_tasks, d))
    centres[:, :4] = rng.normal(size=(n_tasks, 4))
    codes = np.repeat(np.arange(n_tasks), n_rows)
    noise = 0.3 * rng.normal(size=(len(codes), d))
    noise[:, 10:14] += 6 * rng.normal(size=(len(codes), 4))
    return centres[codes] + noise, codes


def digits_like(seed, n_tasks=24, n_rows=6, d=30):
    """No nuisance direction: there is nothing for a metric to learn."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_tasks), n_rows)
    return rng.normal(size=(n_tasks, d))[codes] + rng.normal(
        size=(len(codes), d)
    ), codes


@pytest.mark.parametrize(
    ("make", "metric"), [(faces_like, "whitened"), (digits_like, "plain")]
)
def test_metric_is_chosen_by_folds(make, metric):
    X, task = make(0)
    model = tune(
        JointOCKSR(),
        X,
        task=task,
        grid={"alpha": [0.1], "metric": ["plain", "whitened"]},
    )
    assert model.metric == metric
    if metric == "whitened":
        # The choice is right on fresh rows of the same tasks.
        rng = np.random.default_rng(9)
        Z, codes = faces_like(0)
        Z = Z + np.where(
            np.arange(30) < 10, 0, 6 * rng.normal(size=Z.shape) * (np.arange(30) < 14)
        )
        plain = JointOCKSR().fit(X, task=task)
        gain = task_aucs(model.score_tasks(Z), codes) - task_aucs(
            plain.score_tasks(Z), codes
        )
        assert gain.mean() > 0


def test_the_trap_closed_forms_on_a_whitener_that_saw_the_row(fleet):
    """Why folds: with n << d, leave-one-out on whitened rows is far too good."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 200))  # pure noise
    task = np.repeat(np.arange(8), 5)
    model = JointOCKSR(metric="whitened").fit(X, task=task)
    rows = unguarded(model.solution_.scorer).metric.apply(X)
    plain = tune(JointOCKSR(), rows, task=task, criterion="seen", grid={"alpha": [0.1]})
    assert plain.tuning_["score"][0] > 0.75
    honest = tune(
        JointOCKSR(metric="whitened"),
        X,
        task=task,
        criterion="seen",
        grid={"alpha": [0.1]},
    )
    assert abs(honest.tuning_["score"][0] - 0.5) < 0.15


def test_outliers_and_weights_take_part(fleet):
    X, task = fleet
    weight = np.random.default_rng(0).integers(1, 3, len(X)).astype(float)
    again = np.repeat(np.arange(len(X)), weight.astype(int))
    grid = {"alpha": [0.01, 1.0]}
    weighted = tune(
        JointOCKSR(gamma=0.2), X, task=task, sample_weight=weight, grid=grid
    )
    assert np.all(weighted.tuning_["score"] > 0.5)
    single = X[task == "cleo"]
    rows = np.vstack([single, single + 2])
    mask = np.arange(40) >= 20
    model = tune(IndependentOCKSR(), rows, outlier=mask, grid={"width": [0.01, 1.0]})
    assert model.width == 1.0
    assert len(again) > len(X)


def test_data_frames(fleet):
    X, task = fleet
    frame = pd.DataFrame(X, columns=list("abcd")).assign(machine=task)
    model = tune(JointOCKSR(), frame, task="machine", grid={"alpha": [0.1, 1.0]})
    assert list(model.feature_names_in_) == list("abcd")
    assert model.predict(frame, task="machine").shape == (len(X),)


def test_misuse_is_explained(fleet):
    X, task = fleet
    with pytest.raises(ValueError, match="criterion"):
        tune(JointOCKSR(), X, task=task, criterion="best")
    with pytest.raises(ValueError, match="two tasks, or known outliers"):
        tune(JointOCKSR(), X)
    with pytest.raises(ValueError, match=r"'nu'.*It can choose: alpha"):
        tune(JointOCKSR(), X, task=task, grid={"nu": [1]})
    with pytest.raises(ValueError, match=r"grid\['alpha'\] is empty"):
        tune(JointOCKSR(), X, task=task, grid={"alpha": []})
    with pytest.raises(ValueError, match="kernel"):
        tune(JointOCKSR(), X, task=task, grid={"kernel": ["rbff"]})
    with pytest.raises(ValueError, match=r"X are rows.*JointOCKSR\(kernel="):
        tune(JointOCKSR(), X @ X.T, task=task, grid={"kernel": ["rbf", "precomputed"]})
    with pytest.raises(ValueError, match="no rows to choose 'degree' for"):
        tune(
            JointOCKSR(kernel="precomputed"),
            X @ X.T,
            task=task,
            grid={"degree": [2, 3]},
        )


@pytest.mark.parametrize("method", [LinearOCKSR, NonlinearOCKSR, SparseOCKSR])
def test_structure_methods_take_the_joint_choice_and_judge_their_own_by_folds(
    method, fleet
):
    X, task = fleet
    shared = {"kernel": ["rbf", "laplacian"], "alpha": [0.01, 1.0]}
    joint = tune(JointOCKSR(), X, task=task, grid=shared)
    model = tune(method(), X, task=task, grid=shared)
    assert (model.kernel, model.alpha) == (joint.kernel, joint.alpha)
    np.testing.assert_allclose(model.tuning_["score"], joint.tuning_["score"])
    name = next(iter(method.can.strengths))
    own = {**shared, name: list(method.can.strengths[name])}
    model = tune(method(), X, task=task, grid=own)
    table = pd.DataFrame(model.tuning_)
    assert table.stage.tolist() == ["closed form"] * 4 + ["folds"] * len(own[name])
    assert table.chosen.sum() == 1
    best = table[table.chosen].iloc[0]
    assert (
        best.stage == "folds"
        and best.score == table[table.stage == "folds"].score.max()
    )
    assert getattr(model, name) == best[name]
    assert (best.kernel, best.alpha) == (joint.kernel, joint.alpha)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_every_method_can_be_tuned(method, fleet):
    X, task = fleet
    grid = {"width": [0.5, 2.0]}
    model = tune(method(), X, task=task, grid=grid)
    assert np.all(np.isfinite(model.score_samples(X, task=task)))
    assert model.tuning_["width"][model.tuning_["chosen"]][0] == model.width


def test_without_a_grid_own_strengths_change_only_for_a_clear_gain(fleet):
    X, task = fleet
    model = tune(LinearOCKSR(), X, task=task)
    table = pd.DataFrame(model.tuning_)
    assert table.chosen.sum() == 1
    assert model.frobenius == table[table.chosen].iloc[0].frobenius
    assert set(table[table.stage == "folds"].frobenius) == {0.01, 0.1, 1.0}


def test_without_thresholds_until_rows_are_held_out(fleet):
    X, task = fleet
    train = np.arange(len(X)) % 2 == 0
    grid = {"alpha": [0.01, 1.0]}
    model = tune(JointOCKSR(), X[train], task=task[train], grid=grid, calibrate=False)
    full = tune(JointOCKSR(), X[train], task=task[train], grid=grid)
    np.testing.assert_array_equal(model.score_tasks(X), full.score_tasks(X))
    with pytest.raises(NotFittedError, match="held-out normal rows"):
        model.predict(X, task=task)
    held = {"task": task[~train]}
    expected = full.calibrate(X[~train], **held).predict(X, task=task)
    np.testing.assert_array_equal(
        model.calibrate(X[~train], **held).predict(X, task=task), expected
    )


@pytest.mark.parametrize(
    ("method", "grid"),
    [(SVDD, {"nu": [0.05, 0.5]}), (LinearOCKSR, {"frobenius": [0.1, 1.0]})],
)
def test_kernel_matrices_are_judged_by_folds_as_rows_are(method, grid, fleet):
    X, task = fleet
    order = np.random.default_rng(0).permutation(len(X))[:60]
    X = X[order]
    task = task[order]
    K = rbf_kernel(X, gamma=0.1)
    by_kernel = tune(method(kernel="precomputed"), K, task=task, grid=grid)
    # The order of rows decides about folds, and lines of a matrix have another one than
    # rows.
    rows, _, source = training_rows(method(kernel="precomputed"), K, task)
    rows = replace(rows, X=X[source], columns=None)
    (name, values), *_ = grid.items()
    aucs = [
        fold_aucs(
            partial(scores_of, method(gamma=0.1, **{name: value}), rows), rows, "unseen"
        ).mean()
        for value in values
    ]
    np.testing.assert_allclose(by_kernel.tuning_["score"], aucs, atol=1e-12)


@pytest.mark.parametrize("method", [SVDD, KNFST])
def test_copies_are_judged_as_weights_are(method, fleet):
    X = fleet[0][::3]
    task = fleet[1][::3]
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    grid = {"width": [0.3, 1.0]}
    weighted = tune(method(gamma=0.1), X, task=task, grid=grid, sample_weight=weight)
    copied = tune(
        method(gamma=0.1),
        np.repeat(X, weight, axis=0),
        task=np.repeat(task, weight),
        grid=grid,
    )
    np.testing.assert_allclose(
        copied.tuning_["score"], weighted.tuning_["score"], atol=1e-9
    )


@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_rows_given_twice_choose_what_rows_given_once_do(method):
    """With copies that stay, the smallest ridge would remember every row."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), 15)
    X = 2.0 * rng.normal(size=(6, 4))[task] + rng.normal(size=(90, 4))
    grid = {"alpha": [0.001, 0.1, 1.0], "kernel": ["rbf", "laplacian"]}
    once = tune(method(), X, task=task, grid=grid)
    twice = tune(method(), np.tile(X, (2, 1)), task=np.tile(task, 2), grid=grid)
    heavy = tune(method(), X, task=task, sample_weight=np.full(90, 2.0), grid=grid)
    for other in (twice, heavy):
        np.testing.assert_allclose(
            other.tuning_["score"], once.tuning_["score"], atol=1e-9
        )
        assert (other.alpha, other.kernel) == (once.alpha, once.kernel)


@pytest.mark.parametrize("criterion", ["seen", "unseen"])
def test_known_outliers_of_a_single_task_are_negatives(criterion):
    """The width that tells outliers apart is found, though there is no other task."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(40, 2)), 4.0 * rng.normal(size=(20, 2))])
    outlier = np.arange(60) >= 40
    model = tune(
        SVDD(gamma=0.1, nu=0.5),
        X,
        outlier=outlier,
        grid={"width": [1.0, 1e-6]},  # the second makes every row a stranger
        criterion=criterion,
    )
    good, bad = model.tuning_["score"]
    assert good > 0.8 > 0.7 > bad and model.width == 1.0


def test_tasks_that_cannot_be_judged_are_told():
    with pytest.warns(UserWarning, match="No setting could be judged"):
        tune(SVDD(), np.eye(4), task=[0, 1, 2, 3], grid={"nu": [0.1, 0.5]})
    with pytest.warns(UserWarning, match="distinct rows. The first setting"):
        tune(
            SVDD(),
            np.eye(4),
            task=[0, 1, 2, 3],
            grid={"nu": [0.1, 0.5]},
            criterion="faults",
        )


@pytest.mark.parametrize(
    "wrong", [{"alarm_rate": 2}, {"gamma": "foo"}, {"landmarks": -2}]
)
def test_parameters_of_the_estimator_are_checked_as_in_fit(wrong, fleet):
    X, task = fleet
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        tune(JointOCKSR(**wrong), X, task=task, grid={"width": [1.0]})


@pytest.mark.parametrize("wrong", [{"max_rows": 0}, {"grid": [{"width": [1.0]}]}])
def test_wrong_arguments_are_named(wrong, fleet):
    X, task = fleet
    with pytest.raises(ValueError, match=next(iter(wrong))):
        tune(JointOCKSR(), X, task=task, **wrong)


def test_nothing_of_the_search_is_left_behind(fleet, tmp_path):
    """A spectrum of the search must not reach a later fit, or a file."""
    X, task = fleet
    model = tune(JointOCKSR(landmarks=30, random_state=0), X[::2], task=task[::2])
    save(model, tmp_path / "model.manyone")
    model.set_params(landmarks=None).fit(X, task=task)
    fresh = JointOCKSR(**model.get_params()).fit(X, task=task)
    np.testing.assert_array_equal(model.score_tasks(X), fresh.score_tasks(X))


def test_columns_on_other_scales_are_told_without_thresholds_too(fleet):
    X, task = fleet
    with pytest.warns(UserWarning, match="thousand times more"):
        tune(
            JointOCKSR(),
            X * np.r_[1e6, np.ones(X.shape[1] - 1)],
            task=task,
            grid={"alpha": [0.1]},
            calibrate=False,
        )


@pytest.mark.parametrize("kind", ["seen", "unseen"])
def test_areas_of_folds_are_those_of_scikit_learn(kind, fleet):
    """Each task against the rows that are its negatives, with ties, weights."""
    X, task = fleet
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 4, len(X)).astype(float)
    outlier = rng.random(len(X)) < 0.1
    rows, *_ = training_rows(JointOCKSR(), X, task, outlier, weight)
    scores = np.round(rng.normal(size=(len(rows.codes), rows.n_tasks)), 1)

    def scores_of_part(kept, judged):
        return scores[judged][:, np.unique(rows.codes[kept][~rows.outlier[kept]])]

    expected = []
    for train, test, enrolled in halved_splits(rows, kind):
        areas = []
        for t in np.unique(rows.codes[train & ~rows.outlier]):
            own = test & enrolled & ~rows.outlier & (rows.codes == t)
            others = test & ((rows.codes != t) | rows.outlier)
            if kind == "unseen":
                others &= ~enrolled | rows.outlier
            else:
                others &= enrolled | rows.outlier
            used = own | others
            if own.any() and others.any():
                areas.append(
                    roc_auc_score(
                        own[used], scores[used, t], sample_weight=rows.weight[used]
                    )
                )
        expected.append(np.mean(areas))
    np.testing.assert_allclose(
        fold_aucs(scores_of_part, rows, kind), expected, atol=1e-12
    )


def test_as_many_landmarks_as_rows_are_judged_as_none(fleet):
    X, task = fleet
    grid = {"alpha": [0.01, 1.0], "metric": ["whitened"]}
    few = tune(JointOCKSR(landmarks=len(X), random_state=0), X, task=task, grid=grid)
    exact = tune(JointOCKSR(), X, task=task, grid=grid)
    np.testing.assert_array_equal(few.tuning_["score"], exact.tuning_["score"])
    assert few.landmarks == len(X)
