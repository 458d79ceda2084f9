"""Dask arrays and frames equal the fit in memory, whatever the chunks."""

import os
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from manyone import JointOCKSR

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")

RNG = np.random.default_rng(3)
N = 600
TASK = np.array(["a", "b", "c"])[RNG.integers(0, 3, N)]
X = RNG.normal(size=(N, 4)) + 2.0 * (TASK == "b")[:, None]


def model():
    return JointOCKSR(landmarks=25, random_state=0)


FITTED = model().fit(X, task=TASK)


def chunked(cuts):
    sizes = np.diff([0, *sorted(set(cuts) - {0, N}), N])
    return da.from_array(X, chunks=(tuple(int(size) for size in sizes), 2))


@settings(max_examples=10, deadline=None)
@given(cuts=st.lists(st.integers(1, N - 1), max_size=20))
def test_any_chunks(cuts):
    rows = chunked(cuts)
    with dask.config.set(scheduler="synchronous"):
        found = model().fit(rows, task=da.from_array(TASK, chunks=77))
    np.testing.assert_allclose(found.score_tasks(X), FITTED.score_tasks(X), atol=1e-8)
    np.testing.assert_allclose(found.offset_, FITTED.offset_, atol=1e-8)
    np.testing.assert_allclose(
        found.pvalues(X, task=TASK), FITTED.pvalues(X, task=TASK), atol=1e-8
    )


@pytest.mark.parametrize("metric", ["plain", "whitened"])
def test_metrics(metric, monkeypatch):
    monkeypatch.setattr(
        "manyone.fitting.plan._FEWEST", 300
    )  # not all rows are in the sample
    few = JointOCKSR(landmarks=25, random_state=0, metric=metric)
    known = clone(few).fit(X, task=TASK)
    with dask.config.set(scheduler="synchronous"):
        found = few.fit(chunked([20, 310, 500]), task=TASK)
    np.testing.assert_allclose(found.score_tasks(X), known.score_tasks(X), atol=1e-8)
    np.testing.assert_allclose(found.offset_, known.offset_, atol=1e-8)


@pytest.mark.parametrize(
    "name", ["score_samples", "decision_function", "predict", "pvalues", "score_tasks"]
)
def test_lazy_results(name):
    rows = chunked([100, 350])
    claim = {} if name == "score_tasks" else {"task": TASK}
    lazy = getattr(FITTED, name)(rows, **claim)
    assert isinstance(lazy, da.Array)
    assert lazy.shape[0] == N
    expected = getattr(FITTED, name)(X, **claim)
    np.testing.assert_allclose(lazy.compute(), expected, atol=1e-12)


def test_data_frames():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame(X, columns=list("pqrs")).assign(shop=TASK)
    frame = dd.from_pandas(table, npartitions=4)
    frame = dd.concat([frame, frame[frame.p > 1e9]])  # empty partitions
    found = model().fit(frame, task="shop")
    np.testing.assert_allclose(found.offset_, FITTED.offset_, atol=1e-8)
    lazy = found.score_samples(frame, task="shop")
    np.testing.assert_allclose(
        lazy.compute(), FITTED.score_samples(X, task=TASK), atol=1e-8
    )
    assert (
        found.predict_task(frame).compute().tolist() == FITTED.predict_task(X).tolist()
    )


def test_labels_in_memory():
    pd = pytest.importorskip("pandas")
    for labels in (pd.Series(TASK), TASK.tolist(), TASK.astype(object)):
        found = model().fit(chunked([100, 350]), task=labels)
        np.testing.assert_allclose(found.offset_, FITTED.offset_, atol=1e-8)


def test_wrong_lengths():
    with pytest.raises(ValueError, match="task has 3 values but X has 600 rows"):
        model().fit(chunked([]), task=np.array(["a", "b", "c"]))
    with pytest.raises(ValueError, match="landmarks"):
        JointOCKSR().fit(chunked([]), task=TASK)


def once(block, marker):
    """Kill the process that comes first."""
    if block.size:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return block
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.slow
def test_killed_worker_changes_nothing(tmp_path):
    """Processes, a scheduler by its address, and a worker that dies in a pass."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    marker = str(tmp_path / "died")
    rows = chunked(range(50, N, 50)).rechunk({1: -1})
    rows = rows.map_blocks(once, marker, dtype=float, meta=X[:0])
    with (
        LocalCluster(**options, dashboard_address=None) as cluster,
        Client(cluster.scheduler_address),
    ):
        found = model().fit(rows, task=TASK)
    assert os.path.exists(marker)
    np.testing.assert_allclose(found.score_tasks(X), FITTED.score_tasks(X), atol=1e-8)
    np.testing.assert_allclose(found.offset_, FITTED.offset_, atol=1e-8)
