"""Pipelines of ours: every method with ``task=``, and no global setting."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_outlier_detector
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    StandardScaler,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

import manyone
from fleets import gaussian_tasks
from manyone import (
    AutoOneClass,
    CalibrationWarning,
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    Monitor,
    ScoreDisplay,
    StructureDisplay,
    TaskAUC,
    TaskWhitener,
    auto,
    make_pipeline,
    tune,
)

RNG = np.random.default_rng(0)
TASK = np.repeat(["a", "b", "c", "d"], 30)
X = RNG.normal(size=(120, 3)) * [1.0, 100.0, 0.01] + 3.0 * (TASK == "b")[:, None]
NEW = X[::7] + 0.1
CLAIM = TASK[::7]


def by_hand(model):
    scaler = StandardScaler().fit(X)
    return scaler, model.fit(scaler.transform(X), task=TASK)


def test_every_method_is_that_of_the_last_step():
    pipeline = make_pipeline(StandardScaler(), JointOCKSR(alarm_rate=0.1)).fit(
        X, task=TASK
    )
    scaler, model = by_hand(JointOCKSR(alarm_rate=0.1))
    Z = scaler.transform(NEW)
    # Thresholds of the pipeline are set with scalers that had not seen the rows.
    model.calibration_ = pipeline.model_.calibration_
    model.recalibrate(0.1)
    for name in ("score_samples", "decision_function", "predict", "pvalues", "select"):
        ours = getattr(pipeline, name)
        theirs = getattr(model, name)
        assert np.array_equal(ours(NEW, task=CLAIM), theirs(Z, task=CLAIM)), name
    assert np.array_equal(pipeline.score_tasks(NEW), model.score_tasks(Z))
    assert np.array_equal(pipeline.predict_task(NEW), model.predict_task(Z))
    pipeline.enroll(NEW, task=["new"] * len(NEW))
    model.enroll(Z, task=["new"] * len(NEW))
    pipeline.forget("c").recalibrate(0.2)
    model.forget("c").recalibrate(0.2)
    kept = CLAIM != "c"
    assert pipeline.tasks_.tolist() == ["a", "b", "d", "new"]
    assert np.array_equal(
        pipeline.predict(NEW[kept], task=CLAIM[kept]),
        model.predict(Z[kept], task=CLAIM[kept]),
    )
    pipeline.calibrate(NEW[kept], task=CLAIM[kept])
    assert pipeline.model_.calibration_.source == "held-out"


@pytest.mark.parametrize("by_tuning", [False, True])
def test_columns_of_labels_may_come_along(by_tuning):
    rows = pd.DataFrame(X, columns=["x", "y", "z"])
    table = rows.assign(who=TASK, bad=False)
    pipeline = make_pipeline(StandardScaler(), JointOCKSR(alarm_rate=0.1))
    if by_tuning:
        pipeline = tune(
            pipeline, table, task="who", outlier="bad", grid={"alpha": [0.1]}
        )
    else:
        pipeline.fit(table, task="who", outlier="bad")
    assert np.array_equal(pipeline.score_tasks(table), pipeline.score_tasks(rows))
    assert np.array_equal(pipeline.predict_task(table), pipeline.predict_task(rows))
    for given in ("who", TASK):
        assert np.array_equal(
            pipeline.predict(table, task=given), pipeline.predict(rows, task=TASK)
        )


@pytest.mark.parametrize("call", ["predict", "pvalues_together", "enroll"])
def test_a_frame_without_the_task_column_is_told_its_name(call):
    rows = pd.DataFrame(X, columns=["x", "y", "z"])
    pipeline = make_pipeline(StandardScaler(), JointOCKSR(alarm_rate=0.1))
    pipeline.fit(rows.assign(who=TASK), task="who")
    with pytest.raises(ValueError, match=r"task=.*the column 'who'"):
        getattr(pipeline, call)(rows)


def test_rows_that_come_and_go_are_transformed():
    frame = pd.DataFrame(X, columns=["x", "y", "z"]).assign(
        task=TASK, odd=np.arange(120) == 7
    )
    asked = TaskWhitener(adaptive=True)
    pipeline = make_pipeline(asked, JointOCKSR(alarm_rate=0.1)).fit(X, task=TASK)
    Z = pipeline.rows_for_model(X, task=TASK)
    model = JointOCKSR(alarm_rate=0.1).fit(Z, task=TASK)
    weight = np.full(120, 2.0)
    stay = TASK != "c"
    roles = {"task": "task", "outlier": "odd", "sample_weight": weight}
    pipeline.enroll(frame, **roles)
    model.enroll(Z, task=TASK, outlier=frame.odd, sample_weight=weight)
    assert np.array_equal(
        pipeline.score_samples(X, task=TASK), model.score_samples(Z, task=TASK)
    )
    pipeline.forget("c")
    model.forget("c")
    assert pipeline.tasks_.tolist() == ["a", "b", "d"]
    assert np.array_equal(
        pipeline.pvalues(X[stay], task=TASK[stay]),
        model.pvalues(Z[stay], task=TASK[stay]),
    )


def test_searches_set_parameters_of_steps():
    grid = {"jointocksr__alpha": [0.01, 1.0]}
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), JointOCKSR()).set_fit_request(
            task=True
        )
        search = GridSearchCV(pipeline, grid, scoring=TaskAUC(), cv=StratifiedKFold(3))
        search.fit(X, TASK, task=TASK)
    alphas = [step["jointocksr__alpha"] for step in search.cv_results_["params"]]
    assert alphas == [0.01, 1.0]
    assert len(set(search.cv_results_["mean_test_score"])) == 2
    assert (
        search.best_estimator_.model_.alpha == search.best_params_["jointocksr__alpha"]
    )


def test_fitted_attributes_are_those_of_the_steps():
    table = pd.DataFrame(X, columns=["u", "v", "w"]).assign(task=TASK)
    pipeline = make_pipeline(PCA(2), AutoOneClass()).fit(table, task="task")
    assert pipeline.feature_names_in_.tolist() == ["u", "v", "w"]
    assert pipeline.n_features_in_ == 3
    assert pipeline.offset_ is pipeline.model_.offset_
    views = pipeline.model_.view_scores(
        pipeline.rows_for_model(table[["u", "v", "w"]]), task=TASK
    )
    assert np.array_equal(pipeline.view_scores(table, task="task"), views)


def test_pipelines_are_drawn_and_watched_as_their_last_step_is():
    front = TaskWhitener(adaptive=True)
    last = JointOCKSR(alarm_rate=0.1)
    pipeline = make_pipeline(front, last).fit(X, task=TASK)
    Z = pipeline.rows_for_model(NEW, task=CLAIM)
    drawn = ScoreDisplay.from_estimator(pipeline, NEW, task=CLAIM)
    assert np.array_equal(drawn.scores, pipeline.model_.score_samples(Z, task=CLAIM))
    structure = StructureDisplay.from_estimator(pipeline, order=None).structure
    assert np.array_equal(structure, pipeline.model_.structure_)
    ours = Monitor(pipeline)
    inner = Monitor(pipeline.model_)
    watched = ours.update(NEW, CLAIM)
    expected = inner.update(Z, CLAIM)
    assert np.array_equal(watched.p_value, expected.p_value)
    for monitor in (ours, inner):
        assert monitor.feedback(watched.id, normal=True) > 0
    assert np.array_equal(ours.thresholds, inner.thresholds)
    with pytest.raises(ValueError, match="make_pipeline"):
        Monitor(Pipeline([("s", StandardScaler()), ("m", JointOCKSR())]).fit(X))


def test_steps_that_ask_for_the_task_get_it():
    pipeline = make_pipeline(TaskWhitener(adaptive=True), IndependentOCKSR()).fit(
        X, task=TASK
    )
    whitener = TaskWhitener(adaptive=True).fit(X, task=TASK)
    model = IndependentOCKSR().fit(whitener.transform(X, task=TASK), task=TASK)
    expected = model.score_samples(whitener.transform(NEW, task=CLAIM), task=CLAIM)
    assert np.array_equal(pipeline.score_samples(NEW, task=CLAIM), expected)


def test_columns_may_each_have_their_own_transformer(tmp_path):
    table = pd.DataFrame(
        {"a": np.tile([0.0, 1.0, 3.0], 10), "b": np.tile(["x", "y"], 15)}
    )
    task = np.repeat(["pump", "fan"], 15)
    steps = ColumnTransformer(
        [("n", StandardScaler(), ["a"]), ("t", OneHotEncoder(), ["b"])]
    )
    model = manyone.make_pipeline(steps, JointOCKSR()).fit(
        table.assign(who=task), task="who"
    )
    rows = steps.fit_transform(table)
    plain = JointOCKSR().fit(rows, task=task).score_samples(rows, task=task)
    np.testing.assert_array_equal(model.score_samples(table, task=task), plain)
    manyone.save(model, tmp_path / "model")
    again = manyone.load(tmp_path / "model")
    np.testing.assert_array_equal(again.score_samples(table, task=task), plain)


def test_a_column_may_hold_the_tasks(tmp_path):
    table = pd.DataFrame(X, columns=["u", "v", "w"]).assign(task=TASK)
    pipeline = make_pipeline(StandardScaler(), JointOCKSR()).fit(table, task="task")
    manyone.save(pipeline, tmp_path / "pipeline.manyone")
    again = manyone.load(tmp_path / "pipeline.manyone")
    scores = pipeline.score_samples(table, task="task")
    assert np.array_equal(again.score_samples(table, task="task"), scores)


@pytest.mark.parametrize("kind", ["ours", "scikit-learn's"])
def test_tune_looks_through_pipelines(kind):
    steps = [("scale", StandardScaler()), ("last", JointOCKSR())]
    pipeline = (
        Pipeline(steps) if kind != "ours" else make_pipeline(*(s for _, s in steps))
    )
    grid = {"alpha": [0.01, 1.0], "width": [0.5, 2.0]}
    tuned = tune(pipeline, X, task=TASK, grid=grid)
    scaler, _ = by_hand(JointOCKSR())
    alone = tune(JointOCKSR(), scaler.transform(X), task=TASK, grid=grid)
    assert tuned.model_.alpha == alone.alpha
    assert tuned.tuning_["score"].tolist() == alone.tuning_["score"].tolist()
    assert np.array_equal(
        tuned.score_samples(NEW, task=CLAIM),
        alone.score_samples(scaler.transform(NEW), task=CLAIM),
    )


def test_auto_ends_a_pipeline():
    pipeline = make_pipeline(
        StandardScaler(), AutoOneClass(anomalies="faults", alarm_rate=0.1)
    )
    pipeline.fit(X, task=TASK)
    assert "chosen" in pipeline.choice_
    assert pipeline.predict(
        X.mean(axis=0, keepdims=True) + 50 * X.std(axis=0), task=["a"]
    ) == [-1]


def test_auto_chooses_the_last_step_of_a_pipeline():
    options = {"anomalies": "strangers", "alarm_rate": 0.1}
    pipeline = make_pipeline(StandardScaler(), AutoOneClass(**options))
    scaler = StandardScaler().fit(X)
    alone = auto(scaler.transform(X), task=TASK, **options)
    expected = alone.score_samples(scaler.transform(NEW), task=CLAIM)
    pipeline.fit(X, task=TASK)
    assert np.array_equal(pipeline.score_samples(NEW, task=CLAIM), expected)
    assert pipeline.choice_["method"].tolist() == alone.choice_["method"].tolist()
    with pytest.raises(ValueError, match="make_pipeline"):
        auto(make_pipeline(StandardScaler(), JointOCKSR()), X, task=TASK)
    with pytest.raises(ValueError, match="call its fit"):
        tune(make_pipeline(StandardScaler(), AutoOneClass()), X, task=TASK)


def test_the_last_step_must_be_one_of_ours():
    with pytest.raises(ValueError, match="last step"):
        make_pipeline(StandardScaler()).fit(X, task=TASK)
    with pytest.raises(ValueError, match="last step"):
        make_pipeline()


# ---------------------------------------------------------------- as a Pipeline is used


@parametrize_with_checks([make_pipeline(StandardScaler(), JointOCKSR())])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_options_of_the_choice_are_parameters():
    pipeline = make_pipeline(StandardScaler(), AutoOneClass(anomalies="faults"))
    pipeline.set_params(
        autooneclass__anomalies="strangers", autooneclass__alarm_rate=0.2
    )
    assert pipeline.get_params()["autooneclass"].anomalies == "strangers"
    assert clone(pipeline).get_params()["autooneclass__alarm_rate"] == 0.2


def test_steps_can_be_looked_at():
    pipeline = make_pipeline(StandardScaler(), PCA(2), JointOCKSR(alarm_rate=0.2))
    assert len(pipeline) == 3
    assert pipeline[0] is pipeline.steps[0][1]
    pipeline.fit(X, task=TASK)
    assert pipeline[-1] is pipeline.model_
    assert pipeline["pca"] is pipeline.named_steps.pca is pipeline.steps_[1][1]
    front = pipeline[:-1].transform(NEW)
    np.testing.assert_array_equal(front, pipeline.rows_for_model(NEW, task=CLAIM))
    with pytest.raises(ValueError, match="transformers only"):
        pipeline[1:]
    assert is_outlier_detector(pipeline)
    signs = make_pipeline(StandardScaler(), JointOCKSR(alarm_rate=0.2)).fit_predict(
        X, task=TASK
    )
    assert set(signs.tolist()) <= {-1, 1}


@pytest.mark.parametrize("nothing", ["passthrough", None])
def test_rows_pass_a_step_that_does_nothing(nothing):
    pipeline = make_pipeline(StandardScaler(), JointOCKSR(alarm_rate=0.2))
    pipeline.set_params(standardscaler=nothing)
    pipeline = clone(pipeline).fit(X, task=TASK)
    alone = JointOCKSR(alarm_rate=0.2).fit(X, task=TASK)
    np.testing.assert_array_equal(
        pipeline.score_samples(NEW, task=CLAIM), alone.score_samples(NEW, task=CLAIM)
    )
    assert pipeline[0] is nothing


def test_a_step_that_cannot_transform_is_named():
    with pytest.raises(ValueError, match=r"'jointocksr-1' must be a transformer"):
        make_pipeline(JointOCKSR(), JointOCKSR()).fit(X, task=TASK)


def test_the_html_shows_every_step():
    page = make_pipeline(StandardScaler(), JointOCKSR())._repr_html_()
    assert "sk-serial" in page
    assert "StandardScaler" in page
    views = [("strangers", JointOCKSR()), ("faults", IndependentOCKSR())]
    page = CombinedOneClass(estimators=views)._repr_html_()
    assert "sk-parallel" in page
    assert "faults" in page


def test_counts_reach_the_transformers():
    """Rows of weight 0 are as good as left out, for a scaler too."""
    weight = np.where(np.arange(len(X)) % 5 == 0, 0.0, 1.0)
    spoilt = np.where(weight[:, None] == 0, 1e6, X)
    model = make_pipeline(StandardScaler(), JointOCKSR(alarm_rate=0.2))
    counted = clone(model).fit(spoilt, task=TASK, sample_weight=weight)
    left_out = clone(model).fit(X[weight > 0], task=TASK[weight > 0])
    np.testing.assert_allclose(
        counted.score_samples(NEW, task=CLAIM), left_out.score_samples(NEW, task=CLAIM)
    )


def test_every_task_is_scored_in_its_own_metric():
    pipeline = make_pipeline(TaskWhitener(adaptive=True), JointOCKSR(alarm_rate=0.2))
    pipeline.fit(X, task=TASK)
    scores = pipeline.score_tasks(NEW)
    for number, label in enumerate(pipeline.tasks_):
        claims = [label] * len(NEW)
        expected = pipeline.score_samples(NEW, task=claims)
        np.testing.assert_array_equal(scores[:, number], expected)
    assert pipeline.predict_task(NEW).shape == (len(NEW),)


def sparse_rows(rng, n, columns=100):
    """Rows of five tasks that are 0 in 98 % of all places."""
    return (rng.random((5 * n, columns)) < 0.02) * rng.normal(size=(5 * n, columns))


def test_rate_holds_behind_a_scaler_of_rare_columns():
    """A column that one row alone has gets the scale of that row, which must leave."""
    raised = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        model = make_pipeline(StandardScaler(), IndependentOCKSR(alarm_rate=0.1))
        model.fit(sparse_rows(rng, 20), task=np.repeat(range(5), 20))
        claims = np.repeat(range(5), 60)
        raised.append(np.mean(model.predict(sparse_rows(rng, 60), task=claims) < 0))
    # Without refits of the scaler a third of the rows raise alarms.
    assert np.mean(raised) < 0.14


def test_left_out_scores_are_those_of_a_whole_refit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3)) * [1.0, 10.0, 0.1]
    task = np.repeat(["a", "b"], 12)
    model = make_pipeline(StandardScaler(), IndependentOCKSR()).fit(X, task=task)
    assert model.model_.calibration_.source == "folds"
    rows = model.model_.training_
    assert type(rows).__name__ == "TrainingRows"
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(np.sort(rows.X, axis=0), np.sort(scaled, axis=0))
    alone = IndependentOCKSR().fit(scaled, task=task)
    new = rng.normal(size=(5, 3)) * [1.0, 10.0, 0.1]
    claims = list("ababa")
    np.testing.assert_allclose(
        model.score_samples(new, task=claims),
        alone.score_samples(StandardScaler().fit(X).transform(new), task=claims),
        rtol=1e-9,
    )


def test_transformers_that_learn_nothing_cost_nothing():
    X = np.random.default_rng(0).normal(size=(40, 3))
    task = np.repeat(["a", "b"], 20)
    model = make_pipeline(FunctionTransformer(np.sinh), JointOCKSR()).fit(X, task=task)
    assert model.model_.calibration_.source == "leave-one-out"


def test_exact_pvalues_are_refused_where_transformers_have_learned():
    """The scaler has seen the training rows and not the new one."""
    scaled = make_pipeline(StandardScaler(), IndependentOCKSR()).fit(X, task=TASK)
    with pytest.raises(ValueError, match="exact=False"):
        scaled.pvalues(NEW, task=CLAIM, exact=True)
    bounded = make_pipeline(FunctionTransformer(np.tanh), IndependentOCKSR())
    bounded.fit(X, task=TASK)
    assert bounded.together_source_ == "exact"
    model = IndependentOCKSR().fit(np.tanh(X), task=TASK)
    expected = model.pvalues(np.tanh(NEW), task=CLAIM, exact=True)
    p = bounded.pvalues(NEW, task=CLAIM, exact=True)
    np.testing.assert_array_equal(p, expected)


def test_folds_keep_the_strength_that_all_rows_have_chosen(monkeypatch):
    priors = []
    learn = IndependentOCKSR._learn

    def spy(self, rows, **options):
        priors.append(self.covariance_prior)
        return learn(self, rows, **options)

    monkeypatch.setattr(IndependentOCKSR, "_learn", spy)
    model = IndependentOCKSR(metric="adaptive")
    pipeline = make_pipeline(StandardScaler(), model).fit(X, task=TASK)
    chosen = pipeline.model_.solution_.scorer.scorer.metric.covariance_prior
    # Only the model of all rows chooses: once on the way, once behind the scaler.
    assert priors.count("auto") == 2
    assert set(priors) == {"auto", chosen}
    assert len(priors) > 20


def test_a_step_that_refuses_new_values_is_named():
    rng = np.random.default_rng(0)
    X = np.array([["x"] * 30 + ["y"] * 9 + ["z"]]).T[rng.permutation(40)]
    with pytest.warns(CalibrationWarning, match=r"'onehotencoder' cannot be fitted"):
        make_pipeline(OneHotEncoder(sparse_output=False), JointOCKSR()).fit(
            X, task=np.repeat(["a", "b"], 20)
        )


@pytest.mark.parametrize("kept", [True, False])
def test_warnings_about_thresholds_follow_the_filters_of_the_user(kept):
    X, task = gaussian_tasks([8] * 3, 2)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        if not kept:
            warnings.simplefilter("ignore", CalibrationWarning)
        make_pipeline(StandardScaler(), JointOCKSR()).fit(X, task=task)
    assert [warning.category for warning in warned] == [CalibrationWarning] * kept
    assert {warning.filename for warning in warned} <= {__file__}
