"""AUC per task against scikit-learn's."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manyone
from manyone import JointOCKSR, TaskAUC, TaskWhitener
from manyone.metrics import task_aucs
from manyone.selection.criteria import own_aucs


@pytest.mark.parametrize("digits", [1, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn(digits, weighted):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 60)
    scores = rng.normal(size=(60, 4)).round(digits)  # one digit: many ties
    weight = rng.integers(1, 4, 60).astype(float) if weighted else None
    outlier = rng.uniform(size=60) < 0.1
    aucs = task_aucs(scores, codes, outlier, weight)
    for t in range(4):
        truth = (codes == t) & ~outlier
        expected = roc_auc_score(truth, scores[:, t], sample_weight=weight)
        assert aucs[t] == pytest.approx(expected)


@pytest.mark.parametrize("digits", [1, 8])
def test_areas_inside_tasks_equal_scikit_learn(digits):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 60)
    outlier = rng.uniform(size=60) < 0.3
    outlier[codes == 2] = False  # nothing to compare
    scores = rng.normal(size=60).round(digits)
    scores[:3] = -np.inf
    aucs = own_aucs(scores, codes, outlier, 5)
    shown = np.maximum(scores, -1e9)  # scikit-learn takes no infinite scores
    for t in (0, 1, 3):
        expected = roc_auc_score(~outlier[codes == t], shown[codes == t])
        assert aucs[t] == pytest.approx(expected, abs=1e-15)
    assert np.isnan(aucs[[2, 4]]).all()


def test_nothing_to_compare_is_nan():
    aucs = task_aucs(np.zeros((3, 2)), np.zeros(3, dtype=int))
    assert np.isnan(aucs).all()


def test_zeros_of_either_sign_are_ties():
    assert task_aucs(np.array([[-0.0], [0.0]]), np.array([0, -1])) == [0.5]


def test_scorer_sees_through_pipelines_and_unknown_tasks():
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1, 2], [20, 20, 1])
    X = rng.normal(size=(41, 2)) + 3.0 * task[:, None]
    kept = task < 2
    with sklearn.config_context(enable_metadata_routing=True):
        model = JointOCKSR(alarm_rate=0.1).set_fit_request(task=True)
        pipe = make_pipeline(StandardScaler(), model)
        pipe.fit(X[kept], task=task[kept])
    scores = pipe[-1].score_tasks(pipe[:-1].transform(X))
    expected = np.mean([roc_auc_score(task == t, scores[:, t]) for t in range(2)])
    with pytest.warns(UserWarning, match="judges 2 of 3 tasks"):
        assert TaskAUC()(pipe, X, task=task) == pytest.approx(expected)
    with pytest.raises(ValueError, match="StratifiedKFold"):
        TaskAUC()(pipe, X[-1:], task=task[-1:])


def test_a_column_may_hold_the_tasks_of_a_search():
    rng = np.random.default_rng(0)
    task = np.tile(list("abc"), 20)
    X = rng.normal(size=(60, 2)) + np.tile([0.0, 3.0, 6.0], 20)[:, None]
    table = pd.DataFrame(X, columns=["x", "y"]).assign(who=task)
    with sklearn.config_context(enable_metadata_routing=True):
        model = JointOCKSR(alarm_rate=0.1).set_fit_request(task=True)
        searches = [
            GridSearchCV(model, {"alpha": [0.1, 1.0]}, scoring=TaskAUC(), cv=3).fit(
                rows, task=given
            )
            for rows, given in ((table, "who"), (table[["x", "y"]], task))
        ]
    scores = [search.cv_results_["mean_test_score"] for search in searches]
    assert np.array_equal(*scores) and np.isfinite(scores[0]).all()


def sorted_tasks():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), 10)
    return rng.normal(size=(60, 2)) + 3.0 * task[:, None], task


def search(cv):
    X, task = sorted_tasks()
    model = JointOCKSR(alarm_rate=0.2).set_fit_request(task=True)
    return GridSearchCV(model, {"alpha": [0.1, 1.0]}, scoring=TaskAUC(), cv=cv), X, task


@pytest.mark.filterwarnings("error:TaskAUC")
def test_stratified_search_judges_every_task_and_says_nothing():
    with sklearn.config_context(enable_metadata_routing=True):
        grid, X, task = search(StratifiedKFold(2))
        grid.fit(X, task, task=task)
    assert grid.best_score_ > 0.8


def test_search_over_sorted_rows_says_how_few_tasks_it_judges():
    with sklearn.config_context(enable_metadata_routing=True):
        grid, X, task = search(KFold(4))  # a task and a half in each validation fold
        with pytest.warns(
            UserWarning, match="StratifiedKFold on the task labels"
        ) as caught:
            grid.fit(X, task, task=task)
    told = [str(w.message) for w in caught if "TaskAUC" in str(w.message)]
    assert len(told) == 4 * 2  # once for each fold and setting
    assert all("judges 1 of 6 tasks" in message for message in told)


def test_warning_points_at_the_caller_once():
    X, task = sorted_tasks()
    model = JointOCKSR(alarm_rate=0.1).fit(X, task=task)
    seen = task < 4
    with pytest.warns(UserWarning, match="judges 4 of 6 tasks") as caught:
        TaskAUC()(model, X[seen], task=task[seen])
    assert [w.filename for w in caught] == [__file__]


def test_rows_without_a_task_are_no_task():
    X, task = sorted_tasks()
    labels = task.astype(object)
    model = JointOCKSR(alarm_rate=0.1).fit(X, task=labels)
    labels[:3] = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TaskAUC()(model, X, task=labels) > 0.8


def test_labels_that_do_not_fit_the_rows_and_models_that_are_not_fitted_are_told():
    X, task = sorted_tasks()
    model = JointOCKSR(alarm_rate=0.1).fit(X, task=task)
    with pytest.raises(ValueError, match="task has 3 values but X has 60 rows"):
        TaskAUC()(model, X, task=task[:3])
    with pytest.raises(NotFittedError):
        TaskAUC()(JointOCKSR(), X, task=task)


# --------------------------------------------------------- inside what scikit-learn has


@pytest.fixture
def three_tasks():
    rng = np.random.default_rng(0)
    task = np.tile([0, 1, 2], 24)
    return rng.normal(size=(72, 2)) + 2.0 * task[:, None], task


def test_a_search_inside_cross_validation_is_scored(three_tasks):
    X, task = three_tasks
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            JointOCKSR(alarm_rate=None).set_fit_request(task=True),
            {"alpha": [0.1, 1.0]},
            scoring=TaskAUC(),
            cv=StratifiedKFold(2),
        )
        scores = cross_val_score(
            search,
            X,
            task,
            scoring=TaskAUC(),
            cv=StratifiedKFold(3),
            params={"task": task},
        )
    assert np.isfinite(scores).all()
    assert scores.mean() > 0.7


def test_frozen_models_and_searches_at_the_end_of_pipelines_are_scored(three_tasks):
    X, task = three_tasks
    model = JointOCKSR(alarm_rate=None).fit(X, task=task)
    expected = TaskAUC()(model, X, task=task)
    assert TaskAUC()(FrozenEstimator(model), X, task=task) == expected
    pipe = make_pipeline("passthrough", FrozenEstimator(model))
    assert TaskAUC()(pipe, X, task=task) == expected
    with pytest.raises(ValueError, match="got a StandardScaler"):
        TaskAUC()(StandardScaler(), X, task=task)


@pytest.mark.parametrize("ours", [True, False])
def test_tasks_with_their_own_metric_are_scored(three_tasks, ours):
    X, task = three_tasks
    with sklearn.config_context(enable_metadata_routing=True):
        whitener = TaskWhitener(adaptive=True)
        whitener.set_fit_request(task=True).set_transform_request(task=True)
        model = JointOCKSR(alarm_rate=None).set_fit_request(task=True)
        if ours:
            pipe = manyone.make_pipeline(whitener, model)
            pipe.fit(X, task=task)
        else:
            pipe = make_pipeline(whitener, model).fit(X, task=task)
        assert TaskAUC()(pipe, X, task=task) > 0.7
