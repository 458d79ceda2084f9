"""Errors of users are a ValueError with the thing, its value and the remedy.

Only key words are tested, never whole sentences.
"""

from __future__ import annotations

import datetime
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.svm import OneClassSVM

from every_method import EVERY_METHOD, methods, parameters
from manyone import (
    CalibrationWarning,
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    TaskAUC,
    TaskWhitener,
    auto,
    load,
    save,
    tune,
)

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
TASK = np.repeat(["pump", "fan"], 20)
X[20:] += 6.0  # apart: tasks that coincide are warned about
FRAME = pd.DataFrame(X, columns=["speed", "load", "heat"]).assign(machine=TASK)
FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}


def make(method, **params):
    known = parameters(method)
    return method(**{name: value for name, value in params.items() if name in known})


def says(*words: str):
    """A ValueError whose text holds all these words, in any order and case."""
    pattern = "(?is)" + "".join(f"(?=.*{re.escape(word)})" for word in words)
    return pytest.raises(ValueError, match=pattern)


# --------------------------------------------------------------------------------- rows


@methods
@pytest.mark.parametrize("kind", list(FRAMES))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_bad_number_is_located(method, kind, value):
    table = {"speed": X[:, 0].copy(), "load": X[:, 1].copy(), "machine": TASK}
    table["load"][7] = value
    word = "nan" if np.isnan(value) else "inf"
    with says("load", "row 7", word, "remove"):
        method().fit(FRAMES[kind](table), task="machine")
    model = method().fit(FRAME[["speed", "load", "machine"]], task="machine")
    with says("load", "row 7", word):
        model.score_samples(FRAMES[kind](table), task="machine")


@methods
@pytest.mark.parametrize(
    "kind", ["array", "list", "csr", "nullable", "null", "object", "masked"]
)
def test_a_missing_value_is_located_in_every_container(method, kind):
    rows = X.copy()
    rows[7, 1] = np.nan
    data = {
        "array": rows,
        "list": rows.tolist(),
        "csr": sparse.csr_array(rows),
        "nullable": pd.DataFrame(rows).rename(columns=str).convert_dtypes(),
        "null": pl.DataFrame(rows, schema=list("abc")).fill_nan(None),
        "object": np.where(np.isnan(rows), None, rows),
        "masked": np.ma.array(X, mask=np.isnan(rows)),
    }[kind]
    with says("row 7"):
        method().fit(data, task=TASK)


@methods
@pytest.mark.parametrize("kind", list(FRAMES))
def test_a_text_column_is_named(method, kind):
    table = {
        "speed": X[:, 0],
        "colour": np.array(["red", "blue"] * 20),
        "machine": TASK,
    }
    with says("colour", "encode"):
        method().fit(FRAMES[kind](table), task="machine")


@methods
def test_a_forgotten_task_column_is_named(method):
    with says("machine", "task="):
        method().fit(FRAME)


@methods
def test_a_date_column_is_named(method):
    with says("built", "numeric"):
        method().fit(FRAME.assign(built=pd.Timestamp("2024-01-01")), task="machine")


@methods
def test_text_in_an_array_is_shown(method):
    rows = X.astype(object)
    rows[3, 2] = "n/a"
    with says("n/a", "column 2"):
        method().fit(rows, task=TASK)


@methods
def test_complex_numbers_are_refused(method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with says("complex"):
            method().fit(X * 1j, task=TASK)


@methods
def test_a_number_beyond_float64_is_refused(method):
    with says("large"):
        method().fit(np.array([[10**400], [1]], dtype=object))


@methods
def test_wrong_number_of_features(method):
    model = method().fit(X, task=TASK)
    for call in (model.score_samples, model.predict, model.pvalues, model.calibrate):
        with says("2 features", "3 features"):
            call(X[:, :2], task=TASK)
    with says("2 features", "3 features"):
        model.score_tasks(X[:, :2])


@methods
def test_wrong_feature_names(method):
    model = method().fit(FRAME, task="machine")
    with says("feature names", "pressure"):
        model.predict(FRAME.rename(columns={"heat": "pressure"}), task="machine")


@methods
def test_no_rows_and_no_columns(method):
    with says("0 sample"):
        method().fit(X[:0], task=[])
    with says("feature"):
        method().fit(FRAME[["machine"]], task="machine")


@methods
def test_one_dimensional_rows(method):
    with says("2D", "reshape"):
        method().fit(X[:, 0], task=TASK)


@methods
def test_duplicate_column_names(method):
    table = pd.DataFrame(np.c_[X, X], columns=list("abcabc")).assign(machine=TASK)
    with says("unique", "'a'"):
        method().fit(table, task="machine")


# -------------------------------------------------------------------------------- tasks


@methods
@pytest.mark.parametrize(
    "call",
    ["score_samples", "decision_function", "predict", "pvalues", "select", "calibrate"],
)
def test_an_unknown_task_lists_known_ones(method, call):
    model = method().fit(X, task=TASK)
    with says("valve", "'fan'", "'pump'", "enroll"):
        getattr(model, call)(X[:2], task=["pump", "valve"])


@methods
def test_an_unknown_task_of_another_type_says_so(method):
    model = method().fit(X, task=np.repeat([1, 2], 20))
    with says("'1'", "int"):
        model.predict(X[:1], task=["1"])
    model = method().fit(X, task=np.repeat(["1", "2"], 20))
    with says("str"):
        model.predict(X[:1], task=[1])


@methods
def test_of_very_many_tasks_only_a_few_are_listed(method):
    model = method().fit(X, task=[f"machine number {i}" for i in range(40)])
    with pytest.raises(ValueError) as caught:
        model.predict(X[:1], task=["?"])
    assert len(str(caught.value)) < 500
    assert "40" in str(caught.value)


@methods
@pytest.mark.parametrize(
    "call",
    ["score_samples", "decision_function", "predict", "pvalues", "select", "calibrate"],
)
def test_several_tasks_need_a_task(method, call):
    model = method().fit(X, task=TASK)
    with says("2 tasks", "task=", "score_tasks"):
        getattr(model, call)(X)


@methods
def test_a_missing_label_at_scoring(method):
    model = method().fit(X, task=TASK)
    with says("row 1", "missing", "score_tasks"):
        model.predict(X[:2], task=["pump", None])


@methods
def test_a_missing_label_at_fit(method):
    labels = TASK.astype(object)
    labels[[4, 9]] = np.nan
    with says("row 4", "2 such", "outlier"):
        method().fit(X, task=labels)


@methods
def test_rows_are_numbered_as_the_user_numbers_them(method):
    """Sorting by task and dropping zero weights do not shift reported rows."""
    labels = np.tile(["pump", "fan"], 20).astype(object)
    labels[31] = None
    weight = np.ones(40)
    weight[:10] = 0.0
    with says("row 31"):
        method().fit(X, task=labels, sample_weight=weight)


@methods
def test_lengths_must_match(method):
    with says("task", "39", "40"):
        method().fit(X, task=TASK[:-1])
    with says("outlier", "39", "40"):
        method().fit(X, task=TASK, outlier=np.zeros(39, dtype=bool))
    with says("sample_weight", "39", "40"):
        method().fit(X, task=TASK, sample_weight=np.ones(39))
    model = method().fit(X, task=TASK)
    with says("task", "39", "40"):
        model.predict(X, task=TASK[:-1])


@methods
def test_task_must_be_one_label_per_row(method):
    for wrong in (
        3,
        True,
        TASK[:, None],
        TASK.astype(object)[:, None],
        [[t] for t in TASK],
    ):
        with says("task"):
            method().fit(X, task=wrong)


@methods
def test_a_frame_is_not_a_column(method):
    """task=df[["machine"]] is one bracket too many, not a task called "machine"."""
    for frame in (
        FRAME[["machine"]],
        pl.DataFrame({"machine": TASK}),
        pa.table({"machine": TASK}),
    ):
        with says("task"):
            method().fit(X, task=frame)


@methods
def test_a_mapping_is_not_a_column(method):
    with says("task"):
        method().fit(X, task=dict(enumerate(TASK)))


@methods
def test_unhashable_labels(method):
    with says("task", "hashable"):
        method().fit(X, task=[{"name": name} for name in TASK])


@methods
def test_a_column_name_needs_columns(method):
    with says("machine", "ndarray", "DataFrame"):
        method().fit(X, task="machine")
    with says("machine", "collect"):
        method().fit(pl.LazyFrame({"a": X[:, 0], "machine": TASK}), task="machine")


@methods
def test_a_column_name_must_be_one(method):
    with says("engine", "'speed'", "'machine'"):
        method().fit(FRAME, task="engine")
    with says("faulty", "'speed'", "outlier"):
        method().fit(FRAME, task="machine", outlier="faulty")
    model = method().fit(FRAME, task="machine")
    with says("machine", "'speed'"):
        model.predict(FRAME.drop(columns="machine"), task="machine")


# -------------------------------------------------------------------- outliers, weights


@methods
def test_a_task_of_outliers_only(method):
    with says("fan", "normal", "outlier"):
        method().fit(X, task=TASK, outlier=TASK == "fan")


@methods
def test_outlier_must_be_a_mask(method):
    with says("outlier", "'no'"):
        method().fit(X, task=TASK, outlier=["no"] * 40)
    with says("outlier", "2"):
        method().fit(X, task=TASK, outlier=[0, 2] * 20)
    with says("outlier"):
        method().fit(X, task=TASK, outlier=True)
    with says("outlier", "(40, 1)"):
        method().fit(X, task=TASK, outlier=np.zeros((40, 1), dtype=bool))


@methods
def test_weights_must_be_counts(method):
    for wrong, word in (
        (-np.ones(40), "negative"),
        (np.r_[np.nan, np.ones(39)], "nan"),
        (np.r_[np.inf, np.ones(39)], "infinity"),
        (np.ones((40, 1)), "1D"),
    ):
        with pytest.raises(ValueError, match=f"(?is)(?=.*sample.weight)(?=.*{word})"):
            method().fit(X, task=TASK, sample_weight=wrong)
    with pytest.raises(ValueError, match=r"(?is)(?=.*sample.weight)(?=.*zero)"):
        method().fit(X, task=TASK, sample_weight=np.zeros(40))
    with says("sample_weight"):
        method().fit(FRAME, task="machine", sample_weight="load")
    model = method().fit(X, task=TASK)
    with says("sample_weight", "negative"):
        model.calibrate(X, task=TASK, sample_weight=-np.ones(40))


# --------------------------------------------------------------------------- parameters


@methods
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alarm_rate", 0),
        ("alarm_rate", 1),
        ("alarm_rate", 5),
        ("alarm_rate", "5%"),
        ("alarm_rate", np.nan),
        ("alpha", -1.0),
        ("alpha", np.nan),
        ("alpha", "small"),
        ("kernel", "rbff"),
        ("kernel", None),
        ("gamma", 0.0),
        ("gamma", "auto"),
        ("gamma", np.inf),
        ("width", 0),
        ("metric", "euclidean"),
        ("kernel_params", 3),
        ("landmarks", 0),
        ("landmarks", 2.5),
    ],
)
def test_bad_parameters_are_named_with_their_value(method, name, value):
    if name not in parameters(method):
        pytest.skip("this method has no such parameter")
    with says(name, repr(value)):
        method(**{name: value}).fit(X, task=TASK)


@methods
def test_chi2_of_negative_rows_names_the_kernel(method):
    with says("chi2", "negative"):
        method(kernel="chi2").fit(X, task=TASK)


@pytest.mark.parametrize("gamma", ["mean", 1.0])
@pytest.mark.parametrize("kernel", ["chi2", "additive_chi2"])
def test_chi2_of_sparse_rows_names_the_kernel(kernel, gamma):
    for form in (sparse.csr_array, sparse.csr_matrix):
        with says(kernel, "sparse", "toarray"):
            JointOCKSR(kernel=kernel, gamma=gamma).fit(form(np.abs(X)), task=TASK)


@methods
def test_precomputed_needs_a_square(method):
    with says("precomputed", "square", "(40, 3)"):
        method(kernel="precomputed").fit(X, task=TASK)
    model = method(kernel="precomputed").fit(X @ X.T, task=TASK)
    with says("5", "40"):
        model.predict(X @ X[:5].T, task=TASK)


@methods
def test_what_a_precomputed_kernel_cannot_do(method):
    model = method(kernel="precomputed").fit(X @ X.T, task=TASK)
    with says("exact"):
        model.pvalues(X @ X.T, task=TASK, exact=True)
    with says("whitened", "precomputed"):
        method(kernel="precomputed", metric="whitened").fit(X @ X.T, task=TASK)
    if "landmarks" in parameters(method):
        with says("landmarks", "precomputed"):
            method(kernel="precomputed", landmarks=5).fit(X @ X.T, task=TASK)
    with says("enroll", "precomputed"):
        model.enroll(X[:1], task=["pump"])
    with says("forget", "precomputed"):
        model.forget("pump")


@methods
def test_an_unfitted_model_says_so(method):
    for call in (
        "predict",
        "score_samples",
        "pvalues",
        "score_tasks",
        "predict_task",
        "calibrate",
    ):
        with pytest.raises(NotFittedError, match="fit"):
            getattr(method(), call)(X)
    with pytest.raises(NotFittedError, match="fit"):
        method().recalibrate(0.1)


@methods
def test_recalibrate_and_select_check_their_rate(method):
    model = method().fit(X, task=TASK)
    before = model.offset_.copy()
    for wrong in (0, 1, -0.1, "x", np.nan, None):
        with says("alarm_rate", repr(wrong)):
            model.recalibrate(wrong)
        with says("fdr", repr(wrong)):
            model.select(X, task=TASK, fdr=wrong)
    np.testing.assert_array_equal(model.offset_, before)


# ----------------------------------------------------------------------- enroll, forget


@methods
def test_enroll_misuse_leaves_the_model_alone(method):
    model = method(alarm_rate=0.1).fit(X, task=TASK)
    before = model.score_samples(X, task=TASK)
    wild = X[:2].copy()
    wild[0, 1] = np.nan
    attempts = [
        (("2 tasks", "task="), X[:2], {}),
        (("task", "1", "2"), X[:2], {"task": ["pump"]}),
        (("task",), X[:2], {"task": 3}),
        (("2 features", "3 features"), X[:2, :2], {"task": ["pump"] * 2}),
        (("nan",), wild, {"task": ["pump"] * 2}),
        (("valve", "normal"), X[:2], {"task": ["valve"] * 2, "outlier": [True, True]}),
        (("task", "outlier"), X[:2], {"task": [None, "pump"]}),
        (("task", "outlier"), X[:2], {"task": [None, None]}),
        (("task", "outlier"), X[:2], {"task": [None, "valve"]}),
        (
            ("sample_weight", "negative"),
            X[:2],
            {"task": ["fan"] * 2, "sample_weight": [-1, 1]},
        ),
    ]
    for words, rows, extra in attempts:
        with says(*words):
            model.enroll(rows, **extra)
        assert model.tasks_.tolist() == ["fan", "pump"]
        np.testing.assert_array_equal(model.score_samples(X, task=TASK), before)
    model.enroll(X[:2], task=["valve", "valve"])
    assert model.tasks_.tolist() == ["fan", "pump", "valve"]


@pytest.mark.parametrize("method", [JointOCKSR, IndependentOCKSR])
def test_an_enrolment_that_fails_in_the_solver_leaves_the_model_alone(method):
    model = make(method, kernel="sigmoid", gamma=0.01, coef0=0.0, alpha=0.5).fit(
        X, task=TASK
    )
    before = model.score_samples(X, task=TASK)
    with says("positive definite"):
        model.enroll(300.0 * X[:6] * [1, -1, 1], task=["valve"] * 6)
    assert model.tasks_.tolist() == ["fan", "pump"]
    np.testing.assert_array_equal(model.score_samples(X, task=TASK), before)
    assert model.predict(X, task=TASK).shape == (40,)


@methods
def test_forget_misuse(method):
    model = method().fit(X, task=TASK)
    with says("valve", "'fan'", "'pump'"):
        model.forget("valve")
    for wrong in (None, np.nan):
        with says("forget", "task"):
            model.forget(wrong)
    with says("one task at a time"):
        model.forget(["fan", "pump"])
    model.forget("fan")
    with says("pump", "only"):
        model.forget("pump")
    assert model.tasks_.tolist() == ["pump"]


@methods
def test_what_landmarks_cannot_do(method):
    if "landmarks" not in parameters(method):
        pytest.skip("has no landmarks")
    model = method(landmarks=5).fit(X, task=TASK)
    with says("enroll", "landmarks"):
        model.enroll(X[:2], task=TASK[:2])
    with says("forget", "landmarks"):
        model.forget("fan")
    with says("exact", "landmarks" if method.can.exact_pvalues else "p-values"):
        model.pvalues(X, task=TASK, exact=True)


# ------------------------------------------------------------------- tune, TaskWhitener


def tunable():
    return [m for m in EVERY_METHOD.values() if m.can.left_out_grid]


@pytest.mark.parametrize("method", tunable())
def test_tune_misuse(method):
    def attempt(rows=X, task=TASK, estimator=None, **extra):
        tune(estimator if estimator is not None else method(), rows, task=task, **extra)

    with says("criterion", "'best'", "seen"):
        attempt(criterion="best")
    with says("alarm_rate", "alpha"):
        attempt(grid={"alarm_rate": [0.1]})
    with says("alpha", "empty"):
        attempt(grid={"alpha": []})
    with says("negatives", "two tasks"):
        attempt(task=None)
    with says("kernel", "'rbff'"):
        attempt(grid={"kernel": ["rbff"]})
    with says("valve", "normal"):
        attempt(task=[*TASK[:-1], "valve"], outlier=np.arange(40) == 39)
    with says("task", "39"):
        attempt(task=TASK[:-1])


@pytest.mark.parametrize("method", tunable())
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_tune_checks_every_value_of_the_grid(method, value):
    with says("alpha", repr(value)):
        tune(method(), X, task=TASK, grid={"alpha": [0.1, value]})


@pytest.mark.parametrize("method", tunable())
def test_tune_checks_a_kernel_under_a_whitened_metric(method):
    labels = np.arange(40) % 5
    with says("kernel", "'rbff'"):
        tune(method(metric="whitened"), X, task=labels, grid={"kernel": ["rbff"]})


@pytest.mark.parametrize("method", tunable())
@pytest.mark.parametrize("grid", [{"kernel": "rbf"}, {"alpha": 0.1}])
def test_tune_wants_lists(method, grid):
    with says("grid", next(iter(grid)), "list"):
        tune(method(), X, task=TASK, grid=grid)


def test_tune_wants_our_estimators():
    with pytest.raises((TypeError, ValueError), match=r"(?s)OneClassSVM.*manyone"):
        tune(OneClassSVM(), X, task=TASK, grid={"gamma": [0.1]})
    with pytest.raises(ValueError, match=r"the class JointOCKSR: write JointOCKSR\(\)"):
        tune(JointOCKSR, X, task=TASK)
    with pytest.raises(
        ValueError, match=r"got a CombinedOneClass. Tune the views .* manyone.auto"
    ):
        tune(CombinedOneClass(), X, task=TASK)


def test_a_scorer_without_tasks_says_how_they_come():
    with says("task", "enable_metadata_routing"):
        TaskAUC()(JointOCKSR(alarm_rate=0.2).fit(X, task=TASK), X)


@methods
def test_a_lazy_frame_is_to_be_collected(method):
    with says("lazy", "collect()"):
        method().fit(pl.DataFrame(X).lazy(), task=TASK)


def test_auto_takes_no_sparse_rows_for_faults_and_labels_not_as_y():
    with says("toarray", 'anomalies="strangers"'):
        auto(sparse.csr_array(X), task=TASK)
    with pytest.warns(UserWarning, match="pass them as task="):
        auto(X, TASK, anomalies="faults", alarm_rate=0.2)


@methods
def test_advice_on_supervised_learning_is_left_out(method):
    rows = np.where(X[7, 1] == X, np.nan, X)
    with pytest.raises(ValueError) as caught:
        method().fit(rows, task=TASK)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("method", tunable())
def test_tune_does_not_take_a_kernel_matrix_for_rows(method):
    with says("precomputed", "kernel"):
        tune(method(kernel="precomputed"), X @ X.T, task=TASK)


def test_whitener_misuse():
    with says("shrinkage", "2"):
        TaskWhitener(shrinkage=2).fit(X)
    with says("task", "39", "40"):
        TaskWhitener().fit(X, task=TASK[:-1])
    with says("machine", "ndarray"):
        TaskWhitener().fit(X, task="machine")
    with says("2 features", "3 features"):
        TaskWhitener().fit(X).transform(X[:, :2])


# ------------------------------------------------------------------------ save and load


def dot(a, b):
    return float(a @ b)


@methods
def test_a_callable_kernel_cannot_be_saved(method, tmp_path):
    model = method(kernel=dot).fit(X, task=TASK)
    with says(method.__name__, "cannot be saved", "kernel of", "function", "dot"):
        save(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_names_of_tasks_that_files_cannot_hold(tmp_path):
    days = [datetime.date(2026, 1, 1 + k % 2) for k in range(len(X))]
    model = JointOCKSR().fit(X, task=days)
    with says("tasks_", "datetime.date", "Name tasks by texts or numbers"):
        save(model, tmp_path / "model")


@methods
def test_a_model_of_sparse_rows_can_be_saved(method, tmp_path):
    for rows in (sparse.csr_array(X), sparse.csr_matrix(X)):
        model = method().fit(rows, task=TASK)
        save(model, tmp_path / "model")
        again = load(tmp_path / "model")
        np.testing.assert_array_equal(
            again.score_samples(X, task=TASK), model.score_samples(X, task=TASK)
        )


def test_files_that_are_no_models(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(tmp_path / "nowhere")
    header = {"format": "manyone model", "format_version": 3, "model": "JointOCKSR"}
    contents = {
        "empty": b"",
        "table.csv": b"a,b\n1,2\n",
        "binary": bytes(range(256)) * 40,
        "text.json": b"{}\n",
        "list.json": b"[]\n",
        "number.json": b"3\n",
        "nested.json": b"[" * 3000,
        "earlier": json.dumps({**header, "bytes": 0, "sha256": ""}).encode() + b"\n",
        "former": b"manyone archive 3\n{}\n",
        "future": b"manyone archive 99\n{}\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with says(name):
            load(tmp_path / name)
    for name in ("earlier", "former"):
        with says(name, "fit the model again"):
            load(tmp_path / name)
    with says("future", "99", "upgrade"):
        load(tmp_path / "future")


@methods
def test_a_damaged_model_file(method, tmp_path):
    path = tmp_path / "model"
    save(method().fit(X, task=TASK), path)
    content = path.read_bytes()
    for damaged in (content[:-1], content + b"x", content[:-9] + b"\0" + content[-8:]):
        path.write_bytes(damaged)
        with says("model", "damaged"):
            load(path)


@methods
def test_a_place_that_is_none(method, tmp_path):
    model = method().fit(X, task=TASK)
    with pytest.raises(OSError, match="nowhere"):
        save(model, tmp_path / "nowhere" / "model")
    with pytest.raises(OSError, match=re.escape(tmp_path.name)):
        save(model, tmp_path)
    assert list(tmp_path.parent.glob("*.part")) == []


# ----------------------------------------------------------------------------- warnings


def calibration_warnings(function) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [w for w in caught if issubclass(w.category, CalibrationWarning)]


@methods
@pytest.mark.parametrize("metric", ["plain", "whitened"])
def test_few_rows_give_exactly_one_warning_that_names_the_floor(method, metric):
    (warning,) = calibration_warnings(lambda: make(method, metric=metric).fit(X[:9]))
    text = str(warning.message)
    assert "0.1" in text  # 1 / (9 + 1)
    assert "alarm_rate=0.05" in text
    assert "19" in text, "the number of rows that would do"


@methods
def test_small_tasks_are_named_with_their_floor_and_their_lenders(method):
    rows = np.r_[0:20, 20:24]  # 20 pumps, 4 fans
    (warning,) = calibration_warnings(lambda: method().fit(X[rows], task=TASK[rows]))
    text = str(warning.message)
    assert "'fan'" in text
    assert "'pump'" not in text
    assert "0.2" in text  # 1 / (4 + 1)
    assert "borrow" in text
    assert "2 task" in text  # fans and pumps lend
    assert "0.1" in text  # 1 / (2 (4 + 1)): the smallest p-value with two lenders


@methods
def test_many_small_tasks_give_one_short_warning(method):
    (warning,) = calibration_warnings(lambda: method().fit(X, task=np.arange(40) % 20))
    assert len(str(warning.message)) < 800


@methods
def test_enough_rows_give_no_warning(method):
    assert calibration_warnings(lambda: method().fit(X, task=TASK)) == []
    rows = np.r_[0:19]
    assert calibration_warnings(lambda: method().fit(X[rows])) == []
    assert calibration_warnings(lambda: method(alarm_rate=0.1).fit(X[:9])) == []
    assert len(calibration_warnings(lambda: method(alarm_rate=0.1).fit(X[:8]))) == 1


@methods
def test_the_warning_points_at_the_line_of_the_user(method):
    model = method().fit(X, task=TASK)
    calls = [
        lambda: method().fit(X[:9]),
        lambda: model.recalibrate(0.001),
        lambda: model.calibrate(X[:4], task=TASK[:4]),
    ]
    for call in calls:
        (warning,) = calibration_warnings(call)
        assert Path(warning.filename) == Path(__file__)


@methods
def test_tune_and_search_do_not_repeat_the_warning(method):
    if not method.can.left_out_grid:
        pytest.skip("this method cannot be tuned by closed forms")
    grid = {"alpha": [0.1, 1.0], "metric": ["plain", "whitened"]}
    caught = calibration_warnings(
        lambda: tune(method(), X, task=np.arange(40) % 5, grid=grid)
    )
    assert len(caught) == 1


@methods
def test_select_explains_the_floor_when_nothing_can_be_rejected(method):
    model = method(alarm_rate=0.05).fit(X, task=TASK)
    (warning,) = calibration_warnings(lambda: model.select(X, task=TASK, fdr=0.001))
    # Half of the batch is of the row's own task, which has 20 rows.
    assert f"{1 / (2 * 21):.3g}" in str(warning.message)


@methods
def test_routing_errors_name_the_task(method):
    """In a search without routing, fit gets no task: scoring says so."""
    with sklearn.config_context(enable_metadata_routing=True):
        model = method().set_fit_request(task=True).fit(X, task=TASK)
        with says("task=", "score_tasks"):
            model.predict(X)
