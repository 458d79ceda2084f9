"""Pipelines of ours: every method with ``task=``, and no global setting."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import manyone
from manyone import IndependentOCKSR, JointOCKSR, TaskWhitener, make_pipeline, tune

RNG = np.random.default_rng(0)
TASK = np.repeat(["a", "b", "c", "d"], 30)
X = RNG.normal(size=(120, 3)) * [1.0, 100.0, 0.01] + 3.0 * (TASK == "b")[:, None]
NEW, CLAIM = X[::7] + 0.1, TASK[::7]


def by_hand(model):
    scaler = StandardScaler().fit(X)
    return scaler, model.fit(scaler.transform(X), task=TASK)


def test_every_method_is_that_of_the_last_step():
    pipeline = make_pipeline(StandardScaler(), JointOCKSR(alarm_rate=0.1)).fit(X, task=TASK)
    scaler, model = by_hand(JointOCKSR(alarm_rate=0.1))
    Z = scaler.transform(NEW)
    for name in ("score_samples", "decision_function", "predict", "pvalues", "select"):
        ours, theirs = getattr(pipeline, name), getattr(model, name)
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
        pipeline.predict(NEW[kept], task=CLAIM[kept]), model.predict(Z[kept], task=CLAIM[kept])
    )
    pipeline.calibrate(NEW[kept], task=CLAIM[kept])
    assert pipeline.model_.calibration_.source == "held-out"


def test_steps_that_ask_for_the_task_get_it():
    pipeline = make_pipeline(TaskWhitener(adaptive=True), IndependentOCKSR()).fit(X, task=TASK)
    whitener = TaskWhitener(adaptive=True).fit(X, task=TASK)
    model = IndependentOCKSR().fit(whitener.transform(X, task=TASK), task=TASK)
    expected = model.score_samples(whitener.transform(NEW, task=CLAIM), task=CLAIM)
    assert np.array_equal(pipeline.score_samples(NEW, task=CLAIM), expected)


def test_a_column_may_hold_the_tasks(tmp_path):
    table = pd.DataFrame(X, columns=["u", "v", "w"]).assign(task=TASK)
    pipeline = make_pipeline(StandardScaler(), JointOCKSR()).fit(table, task="task")
    manyone.save(pipeline, tmp_path / "pipeline.manyone")
    again = manyone.load(tmp_path / "pipeline.manyone")
    scores = pipeline.score_samples(table, task="task")
    assert np.array_equal(again.score_samples(table, task="task"), scores)


def test_explain_names_the_planted_column():
    pipeline = make_pipeline(StandardScaler(), JointOCKSR()).fit(X, task=TASK)
    rows = X[:40].copy()
    rows[np.arange(40), np.arange(40) % 3] += [12.0, 1200.0, 0.12][0] * X.std(axis=0)[
        np.arange(40) % 3
    ]
    reasons = pipeline.explain(rows, task=TASK[:40], top=2)
    assert reasons["column"].shape == (40, 2)
    named = np.array([int(str(name)[-1]) for name in reasons["column"][:, 0]])
    assert np.mean(named == np.arange(40) % 3) > 0.9


@pytest.mark.parametrize("kind", ["ours", "scikit-learn's"])
def test_tune_looks_through_pipelines(kind):
    steps = [("scale", StandardScaler()), ("last", JointOCKSR())]
    pipeline = Pipeline(steps) if kind != "ours" else make_pipeline(*(s for _, s in steps))
    grid = {"alpha": [0.01, 1.0], "width": [0.5, 2.0]}
    tuned = tune(pipeline, X, task=TASK, grid=grid)
    scaler, _ = by_hand(JointOCKSR())
    alone = tune(JointOCKSR(), scaler.transform(X), task=TASK, grid=grid)
    assert tuned.model_.alpha == alone.alpha
    assert np.array_equal(
        tuned.score_samples(NEW, task=CLAIM), alone.score_samples(scaler.transform(NEW), task=CLAIM)
    )


def test_auto_ends_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), "auto", anomalies="faults", alarm_rate=0.1)
    pipeline.fit(X, task=TASK)
    assert "chosen" in pipeline.model_.choice_
    assert pipeline.predict(X.mean(axis=0, keepdims=True) + 50 * X.std(axis=0), task=["a"]) == [-1]


def test_the_last_step_must_be_one_of_ours():
    with pytest.raises(ValueError, match="last step"):
        make_pipeline(StandardScaler()).fit(X, task=TASK)
    with pytest.raises(ValueError, match="last step"):
        make_pipeline()
