"""Columns of labels, empty rows and absent thresholds, in every estimator."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.preprocessing import StandardScaler

from every_method import methods
from manyone import (
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    TaskAUC,
    TaskWhitener,
    auto,
    make_pipeline,
    tune,
)

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")

RNG = np.random.default_rng(5)
MACHINE = np.repeat(["fan", "press", "pump"], 20)
X = RNG.normal(size=(60, 3)) + 3.0 * (MACHINE == "fan")[:, None]
FRAME = pd.DataFrame(X, columns=["heat", "noise", "flow"]).assign(machine=MACHINE)
SHUFFLED = FRAME.sample(frac=1.0, random_state=0)
QUESTIONS = ("predict", "score_samples", "decision_function", "pvalues", "select")


# --------------------------------------------------------------- the column of the task


@methods
def test_the_column_of_the_task_is_remembered(method):
    model = method().fit(FRAME, task="machine")
    for name in QUESTIONS:
        ask = getattr(model, name)
        np.testing.assert_array_equal(ask(SHUFFLED), ask(SHUFFLED, task="machine"))


def test_a_pipeline_remembers_the_column_of_the_task():
    steps = (StandardScaler(), TaskWhitener(adaptive=True), JointOCKSR())
    pipeline = make_pipeline(*steps).fit(FRAME, task="machine")
    for name in (*QUESTIONS, "rows_for_model"):
        ask = getattr(pipeline, name)
        np.testing.assert_array_equal(ask(SHUFFLED), ask(SHUFFLED, task="machine"))


def test_labels_that_are_given_count_for_more_than_the_column():
    model = JointOCKSR().fit(FRAME, task="machine")
    claims = ["pump"] * len(FRAME)
    bare = FRAME.drop(columns="machine")
    np.testing.assert_array_equal(
        model.predict(FRAME, task=claims), model.predict(bare, task=claims)
    )


def test_a_frame_without_the_column_is_told_its_name():
    model = JointOCKSR().fit(FRAME, task="machine")
    with pytest.raises(ValueError, match=r"'machine'.*score_tasks"):
        model.predict(FRAME.drop(columns="machine"))


@pytest.mark.parametrize(
    "model",
    [
        JointOCKSR(),
        make_pipeline(StandardScaler(), JointOCKSR()),
        CombinedOneClass(estimators=[("a", JointOCKSR()), ("b", IndependentOCKSR())]),
    ],
    ids=["estimator", "pipeline", "combination"],
)
def test_rows_to_calibrate_and_enroll_bring_their_columns(model):
    table = FRAME.assign(bad=np.arange(60) % 20 == 0)
    model = clone(model).fit(table, task="machine", outlier="bad")
    named = clone(model).fit(table, task="machine", outlier="bad")
    model.enroll(table[:10])
    named.enroll(table[:10], task="machine", outlier="bad")
    np.testing.assert_array_equal(model.offset_, named.offset_)
    model.calibrate(FRAME)
    named.calibrate(FRAME, task="machine")
    np.testing.assert_array_equal(model.offset_, named.offset_)


def test_files_and_blocks_bring_the_column(tmp_path):
    FRAME.to_parquet(tmp_path / "rows.parquet")
    model = JointOCKSR(landmarks=20, random_state=0)
    model.fit(str(tmp_path / "rows.parquet"), task="machine")
    expected = model.predict(FRAME, task="machine")
    np.testing.assert_array_equal(model.predict(FRAME), expected)
    np.testing.assert_array_equal(
        model.predict(str(tmp_path / "rows.parquet")), expected
    )


def test_searches_and_cross_validation_need_no_task_to_predict():
    with sklearn.config_context(enable_metadata_routing=True):
        model = JointOCKSR().set_fit_request(task=True)
        folds = KFold(3, shuffle=True, random_state=0)
        signs = cross_val_predict(model, FRAME, cv=folds, params={"task": "machine"})
        search = GridSearchCV(model, {"alpha": [0.1, 1.0]}, scoring=TaskAUC(), cv=folds)
        search.fit(FRAME, task="machine")
    assert signs.shape == (60,)
    assert search.predict(SHUFFLED).shape == (60,)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# ------------------------------------------------------------------- rows that are none


@methods
def test_no_rows_get_an_empty_answer(method):
    model = method().fit(FRAME, task="machine")
    nothing = FRAME[:0]
    for name in QUESTIONS:
        assert getattr(model, name)(nothing).shape == (0,)
    assert model.score_tasks(nothing).shape == (0, 3)
    assert model.predict_task(nothing).shape == (0,)
    assert model.predict(np.empty((0, 3)), task=[]).shape == (0,)
    with pytest.raises(ValueError, match="at least one normal row"):
        model.calibrate(nothing)


def test_no_rows_pass_transformers_and_views():
    views = [("a", JointOCKSR()), ("b", IndependentOCKSR())]
    model = make_pipeline(StandardScaler(), CombinedOneClass(estimators=views))
    model.fit(FRAME, task="machine")
    for name in QUESTIONS:
        assert getattr(model, name)(FRAME[:0]).shape == (0,)
    assert model.view_scores(FRAME[:0]).shape == (0, 2)
    assert model.score_tasks(FRAME[:0]).shape == (0, 3)


# ------------------------------------------------------------------------ no thresholds


@methods
def test_without_a_rate_there_are_no_thresholds(method):
    model = method(alarm_rate=None).fit(X, task=MACHINE)
    rated = method().fit(X, task=MACHINE)
    scores = model.score_samples(X, task=MACHINE)
    np.testing.assert_allclose(scores, rated.score_samples(X, task=MACHINE))
    np.testing.assert_array_equal(model.decision_function(X, task=MACHINE), scores)
    np.testing.assert_array_equal(model.offset_, np.zeros(3))
    for refused in (
        lambda: model.predict(X, task=MACHINE),
        lambda: model.pvalues(X, task=MACHINE),
        lambda: model.select(X, task=MACHINE),
        lambda: model.pvalues_together(X, task=MACHINE),
        lambda: model.predict_task(X),
        lambda: model.recalibrate(0.1),
    ):
        with pytest.raises(NotFittedError, match=r"no thresholds.*calibrate"):
            refused()
    model.calibrate(X, task=MACHINE)
    held_out = clone(rated).fit(X, task=MACHINE).calibrate(X, task=MACHINE)
    np.testing.assert_allclose(model.offset_, held_out.offset_)
    assert set(model.predict(X, task=MACHINE)) <= {-1, 1}
    model.recalibrate(0.2)
    with pytest.raises(ValueError, match="alarm_rate"):
        model.recalibrate(None)


def test_updates_keep_having_no_thresholds():
    model = JointOCKSR(alarm_rate=None).fit(X, task=MACHINE)
    model.enroll(X[:10], task=["belt"] * 10)
    np.testing.assert_array_equal(model.offset_, np.zeros(4))
    with pytest.raises(NotFittedError, match="no thresholds"):
        model.predict(X, task=MACHINE)
    tuned = tune(JointOCKSR(), X, task=MACHINE, grid={"alpha": [0.1]}, calibrate=False)
    np.testing.assert_array_equal(tuned.offset_, np.zeros(3))


def test_no_thresholds_save_the_refits():
    """SVDD sets its thresholds by refits, which a search does not read."""
    fits = []

    class Counted(JointOCKSR):
        def _solve(self, gram, rows, *, left_out):
            fits.append(left_out)
            return super()._solve(gram, rows, left_out=left_out)

    Counted(metric="whitened").fit(X, task=MACHINE)
    with_thresholds = len(fits)
    fits.clear()
    Counted(metric="whitened", alarm_rate=None).fit(X, task=MACHINE)
    assert len(fits) == 1 < with_thresholds
    assert fits == [False]


def test_the_choice_may_have_no_thresholds():
    model = auto(X, task=MACHINE, anomalies="faults", alarm_rate=None)
    np.testing.assert_array_equal(model.offset_, np.zeros(3))


def test_enrolling_never_replaces_held_out_thresholds_in_silence():
    model = JointOCKSR().fit(X, task=MACHINE)
    model.calibrate(X, task=MACHINE)
    with pytest.warns(UserWarning, match="held-out calibration"):
        model.enroll(X[:5], task=MACHINE[:5])
    views = [("a", JointOCKSR()), ("b", IndependentOCKSR())]
    both = CombinedOneClass(estimators=views).fit(X, task=MACHINE)
    both.calibrate(X, task=MACHINE)
    with pytest.warns(UserWarning, match="held-out calibration"):
        both.enroll(X[:5], task=MACHINE[:5])


# ------------------------------------------------------------------------- what is kept


def test_no_square_matrix_is_kept_for_life():
    model = JointOCKSR().fit(X, task=MACHINE)
    bare = len(pickle.dumps(model))
    model.pvalues(X, task=MACHINE, exact=True)
    assert bare < 8 * 60**2
    assert _arrays_of(model, (60, 60)) == 0


def _arrays_of(value, shape, seen=None):
    """Number of arrays of a shape that an object holds, however deep."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return int(value.shape == shape)
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = list(value)
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    return sum(_arrays_of(part, shape, seen) for part in parts)


@pytest.mark.parametrize("y", [[{}] * 60, [[1, 2], [1]] * 30, np.zeros((60, 2)), 3])
def test_y_is_ignored_whatever_it_is(y):
    model = JointOCKSR().fit(X, y)
    assert np.array_equal(model.score_samples(X), JointOCKSR().fit(X).score_samples(X))
