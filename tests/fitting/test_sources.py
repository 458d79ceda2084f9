"""Rows from files, functions and Dask give the model of rows in memory."""

import warnings

import numpy as np
import pytest

from manyone import (
    SVDD,
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    LinearOCKSR,
    NonlinearOCKSR,
    SparseOCKSR,
)
from manyone.engines import Block
from manyone.progress import listening

RNG = np.random.default_rng(3)
N = 500
TASK = np.array(["a", "b", "c"])[RNG.integers(0, 3, N)]
X = RNG.normal(size=(N, 4)) + 2.0 * (TASK == "b")[:, None]


def model():
    return JointOCKSR(landmarks=25, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    return model().fit(X, task=TASK)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr("manyone.fitting.sources._ROWS", 64)


def assert_same(found, fitted):
    np.testing.assert_allclose(found.score_tasks(X), fitted.score_tasks(X), atol=1e-8)
    np.testing.assert_allclose(found.offset_, fitted.offset_, atol=1e-8)


def test_memory_mapped(tmp_path, fitted):
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    found = model().fit(mapped, task=TASK)
    assert_same(found, fitted)
    np.testing.assert_allclose(
        found.pvalues(mapped, task=TASK), fitted.pvalues(X, task=TASK), atol=1e-8
    )
    np.save(tmp_path / "single.npy", X.astype(np.float32))
    single = model().fit(np.load(tmp_path / "single.npy", mmap_mode="r"), task=TASK)
    assert_same(single, model().fit(X.astype(np.float32).astype(float), task=TASK))


def test_views_without_landmarks_read_a_mapped_file_whole(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    views = [("border", SVDD()), ("joint", JointOCKSR())]
    found, whole = (
        CombinedOneClass(views).fit(rows, task=TASK) for rows in (mapped, X)
    )
    np.testing.assert_array_equal(found.offset_, whole.offset_)


def test_parquet(tmp_path, fitted):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(X, columns=list("pqrs")).assign(shop=TASK, w=1.0)
    table[:300].to_parquet(tmp_path / "1.parquet")
    table[300:].to_parquet(tmp_path / "2.parquet")
    found = model().fit(tmp_path, task="shop", sample_weight="w")
    np.testing.assert_allclose(found.offset_, fitted.offset_, atol=1e-8)
    assert found.feature_names_in_.tolist() == list("pqrs")
    plain = table.drop(columns="w")
    plain.to_parquet(tmp_path / "new.parquet")
    np.testing.assert_allclose(
        found.score_samples(tmp_path / "new.parquet", task="shop"),
        fitted.score_samples(X, task=TASK),
        atol=1e-8,
    )
    np.testing.assert_array_equal(
        found.predict(str(tmp_path / "new.parquet"), task="shop"),
        fitted.predict(X, task=TASK),
    )
    with pytest.raises(ValueError, match="no such Parquet file"):
        model().fit(tmp_path / "none.parquet", task="shop")
    with pytest.raises(ValueError, match="must name its column"):
        model().fit(tmp_path / "1.parquet", task=TASK)
    table.to_csv(tmp_path / "rows.csv")
    with pytest.raises(
        ValueError, match=r"rows\.csv is no Parquet file\. Read it into a data frame"
    ):
        model().fit(tmp_path / "rows.csv", task="shop")


def test_blocks_without_rows_change_nothing(fitted):
    parts = [slice(0, 0), slice(0, 300), slice(300, 300), slice(300, N)]

    def blocks():
        return ((X[part], TASK[part]) for part in parts)

    found = model().fit(blocks)
    assert_same(found, fitted)
    np.testing.assert_allclose(
        found.score_samples(blocks), found.score_samples(X, task=TASK), atol=1e-8
    )
    with pytest.raises(ValueError, match="No block has a row"):
        model().fit(lambda: [X[:0]])


def test_functions_that_yield_blocks(fitted):
    def blocks():
        for start in range(0, N, 130):
            yield X[start : start + 130], TASK[start : start + 130]

    found = model().fit(blocks)
    assert_same(found, fitted)
    np.testing.assert_allclose(
        found.score_samples(blocks), fitted.score_samples(X, task=TASK), atol=1e-8
    )
    same = model().fit(lambda: (Block(*pair) for pair in blocks()))
    assert_same(same, fitted)
    with pytest.raises(ValueError, match="can be read once"):
        model().fit(blocks())
    with pytest.raises(ValueError, match="yield"):
        model().fit(blocks, task=TASK)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (JointOCKSR(), "Without landmarks"),
        (IndependentOCKSR(), "IndependentOCKSR needs all rows"),
        (SVDD(), "SVDD needs all rows"),
    ],
)
def test_models_that_want_all_rows(wrong, words):
    with pytest.raises(ValueError, match=f"{words}.*JointOCKSR.*landmarks="):
        wrong.fit(lambda: [(X, TASK)])


def test_groups_may_be_in_many_blocks():
    with pytest.raises(ValueError, match="groups= needs all rows in memory"):
        model().fit(lambda: [(X, TASK)], groups=TASK)


def test_progress_is_told(tmp_path):
    """Passes over two files, and three over four chunks on threads."""
    pd = pytest.importorskip("pandas")
    da = pytest.importorskip("dask.array")
    heard = []
    for k in range(2):
        pd.DataFrame(X[k::2]).rename(columns=str).assign(task=TASK[k::2]).to_parquet(
            tmp_path / f"{k}.parquet"
        )
    with listening(lambda done, total: heard.append((done, total))):
        model().fit(tmp_path, task="task")
    done, total = heard[-1]
    assert done == total > 0
    assert len(heard) > total
    heard.clear()
    with listening(lambda done, total: heard.append((done, total))):
        model().fit(da.from_array(X, chunks=(-(-len(X) // 4), -1)), task=TASK)
    assert heard[-1] == (12, 12)
    assert len(set(heard)) > 6


@pytest.mark.parametrize("method", [LinearOCKSR, NonlinearOCKSR, SparseOCKSR])
def test_iterations_pass_over_no_rows(method):
    """The number of passes does not grow with the length of the descent."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(4), 150)
    X = rng.normal(size=(600, 3)) + 3.0 * rng.normal(size=(4, 3))[task]
    begun = []

    def blocks():
        begun.append(1)
        return ((X[k : k + 100], task[k : k + 100]) for k in range(0, 600, 100))

    passes = []
    for most in (1, 30):
        begun.clear()
        with warnings.catch_warnings(action="ignore"):
            found = method(landmarks=20, max_iter=most, tol=0.0, random_state=0).fit(
                blocks
            )
        passes.append(len(begun))
    assert found.n_iter_ > 1
    assert passes[0] == passes[1] <= 3
