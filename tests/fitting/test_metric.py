"""The metric by passes: that of the rows in memory, whatever the blocks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from manyone import JointOCKSR, LinearOCKSR
from manyone.data.rows import training_rows
from manyone.data.sweeps import Source
from manyone.engines import Block, TakeSample, fit, local_sweep
from manyone.fitting.metric import metric_of
from manyone.metric.shrinkage import pooled_whitening
from manyone.models.guards import unguarded
from manyone.models.nearness import LeftOutGuard

RNG = np.random.default_rng(2)
N = 900
D = 4
TASK = np.array(["b", "a", "c"])[RNG.integers(0, 3, N)]
MIX = RNG.normal(size=(D, D)) * [1.0, 1e-3, 50.0, 1.0]
X = RNG.normal(size=(N, D)) @ MIX + 1e3 * (TASK == "c")[:, None]
OUTLIER = np.arange(N) % 41 == 0
X[OUTLIER] *= 7.0
WEIGHT = RNG.integers(0, 4, N).astype(float)


def cut(places):
    order = np.random.default_rng(len(places)).permutation(N)
    parts = np.split(order, sorted(places))
    return [Block(X[p], TASK[p], OUTLIER[p], WEIGHT[p]) for p in parts if len(p)]


@settings(max_examples=20, deadline=None)
@given(
    places=st.lists(st.integers(0, N), max_size=12), size=st.sampled_from([30, 5000])
)
def test_any_blocks(places, size):
    sweep = local_sweep(cut(places))
    sample = sweep(TakeSample(size, sums=True))
    found = metric_of(sample, Source(sweep, sample.tasks))
    normal = ~OUTLIER & (WEIGHT > 0)
    codes = np.unique(TASK[normal], return_inverse=True)[1]
    known = pooled_whitening(X[normal], codes, WEIGHT[normal])
    assert found.shrinkage == pytest.approx(known.shrinkage, rel=1e-8)
    np.testing.assert_allclose(
        found.apply(np.eye(D)), known.apply(np.eye(D)), rtol=1e-8
    )


def test_more_columns_than_rows():
    rows = RNG.normal(size=(12, 30))
    task = np.repeat(["a", "b", "c"], 4)
    sweep = local_sweep([Block(rows[:5], task[:5]), Block(rows[5:], task[5:])])
    sample = sweep(TakeSample(5000, sums=True))
    found = metric_of(sample, Source(sweep, sample.tasks))
    known = pooled_whitening(rows, np.repeat([0, 1, 2], 4), np.ones(12))
    np.testing.assert_allclose(found.apply(rows), known.apply(rows), rtol=1e-8)


def test_tasks_that_do_not_vary():
    rows = np.repeat([[1.0, 2.0], [3.0, 5.0]], 4, axis=0)
    task = np.repeat(["a", "b"], 4)
    sweep = local_sweep([Block(rows, task)])
    sample = sweep(TakeSample(5000, sums=True))
    found = metric_of(sample, Source(sweep, sample.tasks))
    np.testing.assert_allclose(found.apply(rows), rows)


@pytest.mark.parametrize("estimator", [JointOCKSR, LinearOCKSR])
@pytest.mark.parametrize("few", [False, True])
def test_whitened_models(estimator, few, monkeypatch):
    """Blocks, an array and rows whitened before give the same model."""
    if not few:  # else all rows are in the sample, and thresholds come from folds
        monkeypatch.setattr("manyone.fitting.plan._FEWEST", 300)
    model = estimator(landmarks=25, random_state=0, metric="whitened", alarm_rate=0.1)
    whole = clone(model).fit(X, task=TASK, outlier=OUTLIER, sample_weight=WEIGHT)
    blocks = fit(clone(model), local_sweep(cut([80, 500, 700])))
    source = "folds" if few else "metric fixed"
    assert source in blocks.calibration_.source == whole.calibration_.source
    np.testing.assert_allclose(blocks.score_tasks(X), whole.score_tasks(X), atol=1e-8)
    np.testing.assert_allclose(blocks.offset_, whole.offset_, atol=1e-8)
    Z = unguarded(whole.solution_.scorer).metric.apply(X)
    assert whole.X_fit_.shape == (25, D)
    plain = unguarded(whole.solution_.scorer).scorer.own(Z, np.zeros(N, dtype=int))
    lowered = whole.solution_.scorer.penalty(X, np.zeros(N, dtype=int))
    claim = np.full(N, "a")
    np.testing.assert_allclose(
        whole.score_samples(X, task=claim), plain - lowered, atol=1e-12
    )


@pytest.mark.slow
def test_the_rate_holds_with_the_metric_fixed(monkeypatch):
    monkeypatch.setattr("manyone.fitting.plan._FEWEST", 4096)
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(200, 20))
    task = np.repeat(np.arange(200), 30)
    mix = rng.normal(size=(20, 20))
    rows = (rng.normal(size=(6000, 20)) + centres[task]) @ mix
    model = JointOCKSR(landmarks=300, random_state=0, metric="whitened", alarm_rate=0.1)
    model.fit(rows, task=task)
    assert "metric fixed" in model.calibration_.source
    fresh = (rng.normal(size=(6000, 20)) + centres[task]) @ mix
    assert np.mean(model.predict(fresh, task=task) < 0) == pytest.approx(0.1, abs=0.015)


def test_sparse_rows_have_no_metric():
    with pytest.raises(ValueError, match="needs dense rows"):
        JointOCKSR(landmarks=5, metric="whitened").fit(sparse.csr_array(X), task=TASK)


def test_many_rows_in_memory_are_left_out_with_the_metric_fixed(monkeypatch):
    """As by passes, folds with metrics of their own are for few rows."""
    monkeypatch.setattr("manyone.fitting.plan._FEWEST", 300)
    model = JointOCKSR(landmarks=25, random_state=0, metric="whitened")
    rows, *_ = training_rows(model, X, TASK)
    sweep = model._sweep_of_rows(rows, np.unique(TASK))
    found = model._solved(sweep, left_out=True).solution
    left_out = replace(found.judge, guard=LeftOutGuard(None, 0.0)).judged(rows)
    assert (found.left_out_source, found.fixed) == ("leave-one-out", "metric")
    Z = unguarded(found.scorer).metric.apply(rows.X)
    points = unguarded(found.scorer).points
    K = points.values(Z)
    inner = points.values(points.X)
    alpha = found.learned["alpha"]
    penalty = np.sqrt(alpha) * np.linalg.cholesky(inner).T
    for i in (0, 400, 899):
        kept = np.delete(np.arange(N), i)
        design = np.vstack([K[kept], penalty])
        wanted = np.vstack(
            [rows.responses()[kept], np.zeros((len(inner), rows.n_tasks))]
        )
        coef = np.linalg.lstsq(design, wanted)[0]
        own = rows.codes[i]
        mean = (K[kept] @ coef[:, own])[rows.codes[kept] == own].mean()
        # In units of the mean response of each model.
        unit = found.learned["mean_response"][own] / mean
        expected = -unit * abs(K[i] @ coef[:, own] - mean)
        assert left_out[i] == pytest.approx(expected, abs=1e-8)
