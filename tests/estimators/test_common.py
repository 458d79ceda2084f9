"""What every estimator must do; a method joins by its line in METHODS."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import manyone
from every_method import PAIR, methods
from manyone import (
    SVDD,
    CalibrationWarning,
    CombinedOneClass,
    IndependentOCKSR,
    SparseOCKSR,
    TaskAUC,
    TaskWhitener,
)
from manyone.estimators import METHODS

pytestmark = pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
# What has no kernel of its own, or not the metric of the others.
VARIANTS = {
    "combined": CombinedOneClass,
    "OCKSR adaptive": partial(IndependentOCKSR, metric="adaptive"),
    "SVDD adaptive": partial(SVDD, metric="adaptive"),
}
every_model = pytest.mark.parametrize(
    "method", [*METHODS.values(), *VARIANTS.values()], ids=[*METHODS, *VARIANTS]
)


@parametrize_with_checks(
    [make() for make in [*METHODS.values(), *VARIANTS.values()]]
    + [TaskWhitener(), TaskWhitener(adaptive=True)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rounding(model) -> float:
    """How far rounding may move scores; it grows over lassos solved to a gap."""
    return 1e-5 if isinstance(model, SparseOCKSR) else 1e-9


@every_model
def test_single_task_needs_no_labels(method, fleet):
    X, _ = fleet
    plain = method().fit(X)
    named = method().fit(X, task=["only"] * len(X))
    np.testing.assert_allclose(
        plain.score_samples(X), named.score_samples(X), atol=1e-12
    )
    np.testing.assert_allclose(
        plain.score_samples(X), named.score_tasks(X)[:, 0], atol=1e-12
    )


@pytest.mark.parametrize("name", ["C-OCKSR", "OCKSR-L", "OCKSR-N", "OCKSR-NS"])
@pytest.mark.parametrize(
    "setting", [{}, {"kernel": "poly", "alpha": 2.0}, {"landmarks": 200}]
)
def test_one_task_is_the_independent_model(name, setting, fleet):
    """Copies, weights, known outliers; 200 landmarks of fewer rows are exact."""
    X = np.vstack([fleet[0], fleet[0][:5]])
    rng = np.random.default_rng(0)
    given = {
        "outlier": rng.random(len(X)) < 0.1,
        "sample_weight": rng.uniform(0.5, 3.0, len(X)),
    }
    model = METHODS[name](**setting).fit(X, **given)
    setting = {key: setting[key] for key in setting if key != "landmarks"}
    alone = IndependentOCKSR(**setting).fit(X, **given)
    other = X + 0.5 * rng.normal(size=X.shape)
    for rows in (X, other, 100 * other):
        np.testing.assert_allclose(
            model.score_samples(rows), alone.score_samples(rows), rtol=1e-9, atol=1e-9
        )
        np.testing.assert_array_equal(model.predict(rows), alone.predict(rows))
    np.testing.assert_allclose(model.offset_, alone.offset_, atol=1e-9)


@pytest.mark.slow
@every_model
def test_labels_may_be_anything_hashable(method, fleet):
    X, task = fleet
    expected = method().fit(X, task=task).score_samples(X, task=task)
    codes = np.unique(task, return_inverse=True)[1]
    for labels in (
        codes,
        codes * 10 - 7,
        [f"é{c}" for c in codes],
        [(int(c), "x") for c in codes],
        pd.Series(task, dtype="category"),
        pl.Series(task.tolist()),
        codes.astype(float),
        codes.astype("datetime64[D]"),
    ):
        scores = method().fit(X, task=labels).score_samples(X, task=labels)
        np.testing.assert_allclose(scores, expected, atol=1e-9)


@every_model
def test_order_of_tasks_and_rows_does_not_matter(method, fleet):
    X, task = fleet
    expected = method().fit(X, task=task)
    swapped = {name: new for name, new in zip(np.unique(task), "zyxwv", strict=True)}
    order = np.random.default_rng(1).permutation(len(X))
    renamed = np.array([swapped[name] for name in task])
    model = method().fit(X[order], task=renamed[order])
    tol = rounding(model)
    np.testing.assert_allclose(
        model.score_samples(X, task=renamed),
        expected.score_samples(X, task=task),
        atol=tol,
    )
    np.testing.assert_allclose(model.offset_[::-1], expected.offset_, atol=tol)


@every_model
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_data_frames_with_a_task_column(method, fleet, library):
    X, task = fleet
    columns = {f"sensor {j}": X[:, j] for j in range(4)} | {"machine": task}
    frame = library(columns)
    model = method().fit(frame, task="machine")
    expected = method().fit(X, task=task)
    assert model.n_features_in_ == 4
    assert list(model.feature_names_in_) == [f"sensor {j}" for j in range(4)]
    np.testing.assert_allclose(
        model.score_samples(frame, task="machine"),
        expected.score_samples(X, task=task),
        atol=1e-9,
    )
    # Where no task is asked for, its column may come along.
    np.testing.assert_allclose(
        model.score_tasks(frame), expected.score_tasks(X), atol=1e-9
    )


@every_model
def test_score_tasks_agrees_with_score_samples(method, fleet):
    X, task = fleet
    model = method().fit(X, task=task)
    table = model.score_tasks(X)
    assert table.shape == (len(X), 5)
    for t, name in enumerate(model.tasks_):
        own = model.score_samples(X, task=[name] * len(X))
        np.testing.assert_allclose(table[:, t], own, atol=1e-10)


@every_model
def test_threshold_grammar(method, fleet):
    X, task = fleet
    rng = np.random.default_rng(3)
    Z = X + rng.normal(size=X.shape)
    claimed = rng.permutation(task)
    for rate in (0.03, 0.1, 0.3):
        model = method(alarm_rate=rate).fit(X, task=task)
        codes = np.searchsorted(model.tasks_, claimed)
        decision = model.decision_function(Z, task=claimed)
        scores = model.score_samples(Z, task=claimed)
        assert np.array_equal(decision, scores - model.offset_[codes])
        alarm = model.predict(Z, task=claimed) == -1
        assert np.array_equal(alarm, decision < 0)
        p = model.pvalues(Z, task=claimed)
        assert np.array_equal(alarm, p <= model.alarm_rate_[codes])
        for t in range(5):
            order = np.argsort(scores[codes == t])
            assert np.all(np.diff(p[codes == t][order]) >= 0)


@every_model
def test_recalibrate_equals_refit(method, fleet):
    X, task = fleet
    model = method(alarm_rate=0.3).fit(X, task=task).recalibrate(0.08)
    fresh = method(alarm_rate=0.08).fit(X, task=task)
    assert np.array_equal(model.offset_, fresh.offset_)
    assert model.get_params()["alarm_rate"] == 0.08


@every_model
def test_calibrate_uses_held_out_rows(method, fleet):
    X, task = fleet
    rng = np.random.default_rng(0)
    model = method(alarm_rate=0.2).fit(X, task=task)
    again = np.tile(np.arange(len(X)), 4)
    held = X[again] + 0.1 * rng.normal(size=(len(again), X.shape[1]))
    model.calibrate(held, task=task[again])
    scores = model.score_samples(held, task=task[again])
    for t, name in enumerate(model.tasks_):
        mine = np.sort(scores[task[again] == name])
        expected = mine[int(0.2 * (len(mine) + 1) + 1e-9) - 1]
        assert model.offset_[t] == pytest.approx(expected, abs=1e-11)


@every_model
def test_weights_are_counts(method, fleet):
    X, task = fleet
    weight = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
    weighted = method(alarm_rate=0.1).fit(X, task=task, sample_weight=weight)
    again = np.repeat(np.arange(len(X)), weight.astype(int))
    repeated = method(alarm_rate=0.1).fit(X[again], task=task[again])
    np.testing.assert_allclose(weighted.offset_, repeated.offset_, atol=1e-9)
    np.testing.assert_allclose(
        weighted.score_tasks(X), repeated.score_tasks(X), atol=1e-9
    )
    np.testing.assert_allclose(
        weighted.pvalues(X, task=task), repeated.pvalues(X, task=task), atol=1e-9
    )


@methods
def test_known_outliers_push_scores_down(method, fleet):
    if not method.can.outliers:
        pytest.skip("known outliers do not shape this method")
    X, task = fleet
    rng = np.random.default_rng(0)
    bad = (
        X[task == "cleo"].mean(axis=0) + [1.5, 0, 0, 0] + 0.2 * rng.normal(size=(6, 4))
    )
    rows = np.vstack([X, bad])
    labels = np.concatenate([task, ["cleo"] * 6])
    mask = np.arange(len(rows)) >= len(X)
    without = method(gamma=0.1).fit(X, task=task)
    told = method(gamma=0.1).fit(rows, task=labels, outlier=mask)
    near = bad + 0.1 * rng.normal(size=bad.shape)
    claim = ["cleo"] * 6
    best = [m.score_samples(near, task=claim).max() for m in (without, told)]
    assert best[1] < best[0] - 0.02
    # A missing task makes it an outlier of every task.
    anywhere = method(gamma=0.1).fit(
        rows, task=[*task.tolist(), *[None] * 6], outlier=mask
    )
    assert anywhere.score_samples(near, task=claim).max() < best[0] - 0.02
    assert len(anywhere.tasks_) == 5


@methods
def test_precomputed_equals_named_kernel(method, fleet):
    X, task = fleet
    named = method(kernel="rbf", gamma=0.2).fit(X, task=task)
    K = pairwise_kernels(X, metric="rbf", gamma=0.2)
    given = method(kernel="precomputed").fit(K, task=task)
    np.testing.assert_allclose(given.score_tasks(K), named.score_tasks(X), atol=1e-9)
    np.testing.assert_allclose(given.offset_, named.offset_, atol=1e-9)
    np.testing.assert_allclose(
        given.score_samples(K[:9], task=task[:9]),
        named.score_samples(X[:9], task=task[:9]),
        atol=1e-9,
    )


@methods
def test_sparse_rows_equal_dense_ones(method, fleet):
    X, task = fleet
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = method(gamma=0.2).fit(X, task=task)
    thin = method(gamma=0.2).fit(sparse.csr_array(X), task=task)
    for rows in (X, sparse.csc_array(X)):
        tol = 10 * rounding(thin)
        np.testing.assert_allclose(
            thin.score_tasks(rows), dense.score_tasks(X), atol=tol
        )


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "rbf+laplacian"])
def test_indices_of_sparse_rows_may_have_64_bits(kernel, fleet):
    X, task = fleet
    short = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    long = short.copy()
    long.indices = short.indices.astype(np.int64)
    long.indptr = short.indptr.astype(np.int64)
    expected = IndependentOCKSR(kernel=kernel).fit(short, task=task)
    model = IndependentOCKSR(kernel=kernel).fit(long, task=task)
    np.testing.assert_array_equal(
        model.decision_function(long, task=task),
        expected.decision_function(short, task=task),
    )


@pytest.mark.slow
@every_model
def test_blocks_and_threads_do_not_change_scores(method, fleet):
    from threadpoolctl import threadpool_limits

    X, task = fleet
    model = method().fit(X, task=task)
    expected = model.score_tasks(X)
    with sklearn.config_context(working_memory=1e-3):
        np.testing.assert_allclose(model.score_tasks(X), expected, atol=1e-12)
        refit = method().fit(X, task=task)
    np.testing.assert_allclose(refit.score_tasks(X), expected, atol=1e-10)
    with threadpool_limits(1):
        single = method().fit(X, task=task).score_tasks(X)
    np.testing.assert_allclose(single, expected, atol=1e-10)


@methods
def test_same_seed_same_bits(method, fleet):
    X, task = fleet
    first, second = (method().fit(X, task=task) for _ in range(2))
    assert np.array_equal(first.score_tasks(X), second.score_tasks(X))
    assert np.array_equal(first.offset_, second.offset_)


@methods
def test_clone_pickle_and_save(method, fleet, tmp_path):
    X, task = fleet
    model = method(alarm_rate=0.1).fit(X, task=task)
    manyone.save(model, tmp_path / "model")
    for twin in (pickle.loads(pickle.dumps(model)), manyone.load(tmp_path / "model")):
        assert np.array_equal(twin.score_tasks(X), model.score_tasks(X))
        assert np.array_equal(twin.pvalues(X, task=task), model.pvalues(X, task=task))
        assert np.array_equal(twin.predict_task(X), model.predict_task(X))
    assert not hasattr(clone(model), "offset_")


@methods
def test_open_set_recognition(method):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), 30)
    X = rng.normal(size=(120, 3)) + 8.0 * np.eye(4)[codes][:, :3]
    far = np.full((5, 3), 200.0)
    for labels, nobody in (
        (codes, -1),
        (np.array(list("abcd"))[codes], None),
        (codes - 1, None),
    ):
        model = method(alarm_rate=0.1).fit(X, task=labels)
        found = model.predict_task(np.vstack([X, far]))
        assert np.mean([a == b for a, b in zip(found, labels, strict=False)]) > 0.8
        assert all(label == nobody for label in found[-5:])


@pytest.mark.slow
@methods
def test_metadata_routing_through_pipeline_and_search(method, fleet):
    X, task = fleet
    codes = np.unique(task, return_inverse=True)[1]
    gamma = "joint__gamma" if method is PAIR else "gamma"
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = (
            method()
            .set_fit_request(task=True)
            .set_decision_function_request(task=True)
            .set_predict_request(task=True)
        )
        pipe = make_pipeline(StandardScaler(), estimator).fit(X, task=task)
        inner = method().fit(StandardScaler().fit_transform(X), task=task)
        rows = StandardScaler().fit_transform(X)
        np.testing.assert_allclose(
            pipe.decision_function(X, task=task),
            inner.decision_function(rows, task=task),
        )
        assert np.array_equal(
            pipe.predict(X, task=task), inner.predict(rows, task=task)
        )
        search = GridSearchCV(
            estimator, {gamma: [1e-4, 0.1]}, scoring=TaskAUC(), cv=StratifiedKFold(3)
        ).fit(X, codes, task=task)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_estimator_.offset_.shape == (5,)


@methods
def test_few_rows_give_one_warning_that_names_the_floor(method, fleet):
    X, task = fleet
    with pytest.warns(CalibrationWarning) as caught:
        method(alarm_rate=0.05).fit(X, task=task)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "1/(n+1)" in text and "0.125" in text and "borrow" in text
    with pytest.warns(CalibrationWarning, match=r"worst left-out score.*0\.0769"):
        alone = method(alarm_rate=0.05).fit(X[task == "ada"])
    assert alone.alarm_rate_[0] == pytest.approx(1 / 13)


@methods
def test_tasks_with_one_row_get_a_threshold(method, fleet):
    X, task = fleet
    task = task.astype("U8")
    task[0] = "newcomer"
    model = method(alarm_rate=0.1).fit(X, task=task)
    assert np.all(np.isfinite(model.offset_))
    assert model.predict(X[:1], task=["newcomer"])[0] == 1


@methods
def test_inputs_are_left_alone(method, fleet):
    X, task = fleet
    before = X.copy()
    labels = task.copy()
    weight = np.ones(len(X))
    X.flags.writeable = False
    model = method().fit(X, task=task, sample_weight=weight)
    model.score_tasks(X)
    model.predict(X, task=task)
    assert np.array_equal(X, before) and np.array_equal(task, labels)
    assert np.array_equal(weight, np.ones(len(X)))


@methods
def test_false_discovery_selection(method):
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1], 200)
    X = rng.normal(size=(400, 2)) + 5.0 * task[:, None]
    model = method().fit(X, task=task)
    normal = rng.normal(size=(100, 2))
    bad = rng.normal(size=(30, 2)) * 0.3 + [0.0, -9.0]
    batch = np.vstack([normal, bad])
    claim = [0] * 130
    chosen = model.select(batch, task=claim, fdr=0.1)
    assert chosen[100:].all() and chosen[:100].mean() < 0.1
    with pytest.warns(
        CalibrationWarning, match=r"smallest p-value possible here is 0\.00498"
    ):
        nothing = model.select(normal, task=claim[:100], fdr=0.01)
    assert not nothing.any()
