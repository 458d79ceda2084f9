"""The choice as an estimator: what it chooses, and where it can stand."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_outlier_detector
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import manyone
from manyone import AutoOneClass, TaskAUC, auto, make_pipeline
from manyone.engines import Block, fit, local_sweep

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")

RNG = np.random.default_rng(2)
TASK = np.repeat(["belt", "fan", "pump"], 20)
X = RNG.normal(size=(60, 3)) + 4.0 * (TASK == "fan")[:, None]
NEW = RNG.normal(size=(30, 3))
CLAIM = TASK[::2]


@parametrize_with_checks([AutoOneClass()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def chosen():
    return AutoOneClass("faults", alarm_rate=0.1).fit(X, task=TASK)


def test_it_is_what_the_function_returns(chosen):
    model = auto(X, task=TASK, anomalies="faults", alarm_rate=0.1)
    assert type(model) is type(chosen.estimator_)
    np.testing.assert_array_equal(model.offset_, chosen.offset_)
    assert model.choice_["setting"].tolist() == chosen.choice_["setting"].tolist()


def test_every_question_is_answered_by_the_chosen_estimator(chosen):
    for name in ("predict", "score_samples", "decision_function", "pvalues", "select"):
        own = getattr(chosen, name)(NEW, task=CLAIM)
        inner = getattr(chosen.estimator_, name)(NEW, task=CLAIM)
        np.testing.assert_array_equal(own, inner)
    for name in ("score_tasks", "predict_task"):
        own = getattr(chosen, name)(NEW)
        np.testing.assert_array_equal(own, getattr(chosen.estimator_, name)(NEW))
    assert chosen.tasks_.tolist() == ["belt", "fan", "pump"]
    assert chosen.n_features_in_ == 3
    assert is_outlier_detector(chosen)


def test_it_changes_as_the_chosen_estimator_does():
    model = AutoOneClass("faults", alarm_rate=0.1).fit(X, task=TASK)
    model.enroll(NEW[:10], task=["new"] * 10).forget("fan")
    assert model.tasks_.tolist() == ["belt", "new", "pump"]
    before = model.offset_.copy()
    model.recalibrate(0.3)
    assert np.all(model.offset_ >= before)
    model.calibrate(X[TASK != "fan"], task=TASK[TASK != "fan"])
    assert model.estimator_.calibration_.source == "held-out"


def test_it_is_cloned_pickled_and_saved(chosen, tmp_path):
    fresh = clone(chosen)
    assert fresh.get_params() == chosen.get_params()
    with pytest.raises(NotFittedError):
        fresh.predict(NEW, task=CLAIM)
    manyone.save(chosen, tmp_path / "chosen.manyone")
    copies = [
        pickle.loads(pickle.dumps(chosen)),
        manyone.load(tmp_path / "chosen.manyone"),
    ]
    for copy in copies:
        np.testing.assert_array_equal(
            copy.pvalues(NEW, task=CLAIM), chosen.pvalues(NEW, task=CLAIM)
        )


def test_it_can_be_searched_over_and_end_pipelines():
    frame = pd.DataFrame(X, columns=list("uvw"))
    with sklearn.config_context(enable_metadata_routing=True):
        model = AutoOneClass("faults", alarm_rate=None).set_fit_request(task=True)
        search = GridSearchCV(
            Pipeline([("scale", StandardScaler()), ("choice", model)]),
            {"choice__anomalies": ["faults", "strangers"]},
            scoring=TaskAUC(),
            cv=StratifiedKFold(2),
        ).fit(frame, TASK, task=TASK)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    pipeline = make_pipeline(StandardScaler(), AutoOneClass("faults"))
    pipeline.set_params(autooneclass__alarm_rate=0.2).fit(X, task=TASK)
    assert pipeline.model_.alarm_rate == 0.2


def test_it_takes_the_column_of_the_task_from_every_frame():
    frame = pd.DataFrame(X, columns=list("uvw")).assign(machine=TASK)
    model = AutoOneClass("faults").fit(frame, task="machine")
    np.testing.assert_array_equal(
        model.predict(frame), model.predict(frame, task="machine")
    )


def test_blocks_are_chosen_for_on_a_sample():
    blocks = [Block(X[i::3], TASK[i::3]) for i in range(3)]
    model = fit(AutoOneClass("faults", random_state=0), local_sweep(blocks))
    again = AutoOneClass("faults", random_state=0).fit(lambda: iter(blocks))
    np.testing.assert_allclose(model.offset_, again.offset_)


def test_there_is_no_budget():
    with pytest.raises(TypeError, match="budget"):
        auto(X, task=TASK, budget=1.0)


def test_the_choice_does_not_depend_on_names_of_tasks_of_yes_and_no():
    rng = np.random.default_rng(1)
    X = (rng.random((48, 3)) < 0.5).astype(float)
    task = np.arange(48) % 6
    names = np.array(["z", "y", "x", "w", "v", "u"])
    plain = AutoOneClass("strangers").fit(X, task=task)
    named = AutoOneClass("strangers").fit(X, task=names[task])
    # Iterations stop a little apart, on some processors: single ties then fall either
    # way.
    np.testing.assert_allclose(
        named.choice_["score"], plain.choice_["score"], atol=0.02
    )
    np.testing.assert_array_equal(named.choice_["chosen"], plain.choice_["chosen"])
