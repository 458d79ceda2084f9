"""Large tables: the same rows are kept whatever brings them."""

import os
import re
import signal
import warnings
from itertools import pairwise

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyone
from manyone import CombinedOneClass, IndependentOCKSR, JointOCKSR, TableModel
from manyone.tables import sampling
from manyone.tables.columns import Column, text_column
from manyone.tables.decisions import decide
from manyone.tables.sampling import kept_rows, quota_of

RNG = np.random.default_rng(6)
N = 900
MACHINE = RNG.choice(["fan", "pump", "saw", "lathe"], N, p=[0.5, 0.3, 0.18, 0.02])
CODES = np.unique(MACHINE, return_inverse=True)[1]
TABLE = pd.DataFrame(
    {
        "machine": MACHINE,
        "flow": RNG.normal(size=N) + CODES,
        "load": RNG.exponential(size=N),
        "mode": RNG.choice(["low", "high", "off"], N),
        "gap": np.where(RNG.uniform(size=N) < 0.05, np.nan, RNG.normal(size=N)),
        "on": RNG.uniform(size=N) < 0.8,
        "shift": RNG.integers(0, 40, N),
        "when": pd.Timestamp("2026-01-01")
        + pd.to_timedelta(np.arange(N) * 3600, unit="s"),
        "broken": np.arange(N) % 100 == 50,
    }
)
TABLE.loc[7, "load"] = np.inf
NEW = pd.concat([TABLE.head(60), TABLE.head(20).assign(flow=40.0, machine="never")])
METHOD = IndependentOCKSR(kernel="laplacian")
ROLES = {"task": ["machine"], "time": [], "outlier": ["broken"], "groups": []}


def model(**options):
    roles = {"time": "when", "groups": "shift", "outlier": "broken"}
    return TableModel("machine", **{"method": METHOD, **roles, **options})


def parts(places, table=TABLE):
    """A function that yields the table in parts."""
    cuts = [0, *sorted(set(places) - {0, len(table)}), len(table)]
    return lambda: (table.iloc[i:j] for i, j in pairwise(cuts))


def assert_same(first, second, tol=1e-9):
    pd.testing.assert_frame_equal(
        pd.DataFrame(first.columns_), pd.DataFrame(second.columns_)
    )
    scores = first.score(NEW)
    expected = second.score(NEW)
    for name in ("score", "p_value"):
        np.testing.assert_allclose(scores[name], expected[name], atol=tol)
    names = ["task", "alarm", "basis"]
    assert scores[names].equals(expected[names])
    assert first.n_rows_ == second.n_rows_
    assert first.task_rows_.tolist() == second.task_rows_.tolist()


@pytest.fixture
def small_limits(monkeypatch):
    """Of each task 100 rows are kept."""
    monkeypatch.setattr(sampling, "MOST_TASK_ROWS", 100)


@pytest.fixture(scope="module")
def sampled():
    """The model of 100 rows of each task, and that of all rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "MOST_TASK_ROWS", 100)
        limited = model().fit(TABLE)
    return limited, model().fit(TABLE)


@settings(max_examples=8, deadline=None)
@given(places=st.lists(st.integers(1, N - 1), max_size=6), seed=st.integers(0, 99))
def test_the_model_is_the_same_for_any_parts_and_any_order(sampled, places, seed):
    order = np.random.default_rng(seed).permutation(N)
    for limit, expected in zip((100, 2_000), sampled, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampling, "MOST_TASK_ROWS", limit)
            assert_same(model().fit(parts(places)), expected, 0.0)
            assert_same(model().fit(TABLE.iloc[order]), expected)


@settings(max_examples=8, deadline=None)
@given(places=st.lists(st.integers(1, N - 1), max_size=6), seed=st.integers(0, 99))
def test_parts_in_any_order_are_fitted_alike_without_a_past(places, seed):
    order = np.random.default_rng(seed).permutation(N)
    shuffled = parts(places, TABLE.iloc[order])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "MOST_TASK_ROWS", 100)
        expected = model(history=None).fit(TABLE)
        assert_same(model(history=None).fit(shuffled), expected)


def test_parts_that_are_not_in_the_order_of_time_are_refused():
    with pytest.raises(ValueError, match="is older than rows of the task") as refused:
        model().fit(parts([400], TABLE.iloc[::-1]))
    assert "history=None" in str(refused.value)


def test_frames_of_all_libraries_files_and_dask_give_the_same_model(
    small_limits, sampled, tmp_path
):
    for k in range(3):
        part = TABLE.iloc[300 * k : 300 * (k + 1)]
        part.to_parquet(tmp_path / f"{k}.parquet")
    assert_same(model().fit(tmp_path), sampled[0], 0.0)
    assert_same(model().fit(pl.from_pandas(TABLE)), sampled[0], 0.0)
    dd = pytest.importorskip("dask.dataframe")
    assert_same(model().fit(dd.from_pandas(TABLE, npartitions=5)), sampled[0], 0.0)


def test_blocks_of_a_frame_do_not_matter(small_limits, sampled, monkeypatch):
    monkeypatch.setattr(sampling, "_BLOCK_ROWS", 70)
    assert_same(model().fit(TABLE), sampled[0], 0.0)


def test_a_small_task_keeps_all_rows_beside_a_huge_one(small_limits):
    fitted = model().fit(TABLE)
    normal = fitted.training_.take(np.flatnonzero(~fitted.training_.outlier))
    kept = pd.Series(normal.labels).value_counts()
    rows = TABLE[~TABLE.broken].machine.value_counts()
    assert kept["lathe"] == rows["lathe"] < 100
    assert kept["fan"] == kept["pump"] == kept["saw"] == 100
    assert fitted.training_.outlier.sum() == TABLE.broken.sum()
    counts = TABLE.machine.value_counts()
    assert fitted.task_rows_.tolist() == [counts[task] for task in fitted.tasks_]
    assert fitted.n_rows_ == N


def test_known_outliers_are_sampled_apart(monkeypatch):
    monkeypatch.setattr(sampling, "MOST_TASK_ROWS", 3)
    rows = kept_rows(TABLE, ROLES, [])
    counts = pd.Series(rows.labels).groupby(rows.outlier).value_counts()
    assert counts[False].max() == 3
    assert 1 <= counts[True].max() <= 3


@pytest.mark.parametrize("most", [5, 40, 333, 899])
def test_the_limit_of_all_rows_is_shared_by_the_tasks(most, monkeypatch):
    monkeypatch.setattr(sampling, "MOST_ROWS", most)
    rows = kept_rows(parts([100, 333]), {**ROLES, "outlier": []}, [])
    counts = pd.Series(rows.labels).value_counts()
    assert most - 4 < len(rows.labels) <= most
    large = counts[counts < TABLE.machine.value_counts()[counts.index]]
    assert large.nunique() == 1
    assert rows.n_rows == N


def test_quotas_are_as_large_as_the_limit_allows(monkeypatch):
    monkeypatch.setattr(sampling, "MOST_TASK_ROWS", 80)
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.integers(1, 100, rng.integers(1, 20))
        most = int(rng.integers(len(sizes), 600))
        monkeypatch.setattr(sampling, "MOST_ROWS", most)
        quota = quota_of(sizes, sampling.MOST_TASK_ROWS)
        assert np.minimum(sizes, quota).sum() <= most
        is_largest = np.minimum(sizes, quota + 1).sum() > most
        assert quota == 80 or is_largest


def test_samples_are_uniform(monkeypatch):
    """Each row is kept with the same probability, whatever it holds."""
    monkeypatch.setattr(sampling, "MOST_TASK_ROWS", 2_000)
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"machine": "a", "x": rng.normal(size=20_000)})
    roles = {**ROLES, "outlier": []}
    x = kept_rows(rows, roles, []).columns["x"].values
    assert len(x) == 2_000
    quarters = np.searchsorted(np.quantile(rows.x, [0.25, 0.5, 0.75]), x)
    counts = np.bincount(quarters)
    # Standard deviation of each count: 18.
    assert np.abs(counts - 500).max() < 4 * 18


def test_copies_count(monkeypatch):
    """A content that is half of a large task is half of its kept rows."""
    monkeypatch.setattr(sampling, "MOST_TASK_ROWS", 60)
    rows = pd.DataFrame(
        {"machine": "a", "x": np.repeat([0.0, 1.0, 2.0], [500, 300, 200])}
    )
    roles = {**ROLES, "outlier": []}
    expected = [30, 18, 12]
    for table in (rows, parts([10, 640], rows), rows.sample(frac=1.0, random_state=0)):
        x = kept_rows(table, roles, []).columns["x"].values
        assert np.abs(np.bincount(x.astype(int)) - expected).max() <= 1
        assert len(x) == 60


def test_a_frequent_content_has_its_share_or_is_missed_with_a_warning(monkeypatch):
    """Half of the rows are the same one, beside thousands that occur once."""
    monkeypatch.setattr(sampling, "MOST_TASK_ROWS", 1_000)
    shares = []
    for number in range(8):
        rng = np.random.default_rng(number)
        x = np.append(np.full(3_000, float(number)), rng.normal(size=3_000))
        rows = pd.DataFrame({"machine": "a", "x": x})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values = kept_rows(rows, {**ROLES, "outlier": []}, []).columns["x"].values
        share = np.mean(values == number)
        shares.append(share)
        messages = [str(warning.message) for warning in caught]
        if share:
            assert share == pytest.approx(0.5, abs=0.01)
            assert messages == []
        else:
            (message,) = messages
            percent = int(re.search(r"about (\d+)% of its 6,000 rows", message)[1])
            assert percent == pytest.approx(50, abs=5)
    assert min(shares) == 0.0 < max(shares)


def test_names_and_order_of_columns_do_not_matter(small_limits):
    rows = kept_rows(TABLE, ROLES, ["when"])
    other = kept_rows(TABLE[TABLE.columns[::-1]], ROLES, ["when"])
    assert rows.numbers.tolist() == other.numbers.tolist()


def test_texts_stand_for_numbers_in_any_parts(small_limits, sampled):
    written = TABLE.assign(flow=TABLE.flow.map(repr))
    fitted = model().fit(parts([300], written))
    columns = pd.DataFrame(fitted.columns_).set_index("name")
    assert columns.kind["flow"] == "number"
    assert len(fitted.training_.labels) == len(sampled[0].training_.labels)


def test_parts_without_values_and_without_rows(small_limits, sampled):
    early = TABLE.index < 300
    for empty in (np.nan, None):
        gappy = TABLE.assign(mode=TABLE["mode"].where(~early, empty))
        frames = [gappy[early], gappy[:0], gappy[~early]]
        assert_same(model().fit(lambda f=frames: f), model().fit(gappy), 0.0)


def test_what_is_refused():
    with pytest.raises(ValueError, match="'flow' is number in one part"):
        model().fit(lambda: [TABLE.head(50), TABLE.tail(50).assign(flow="much")])
    with pytest.raises(ValueError, match="'flow' is in one and not in another"):
        model().fit(lambda: [TABLE.head(50), TABLE.tail(50).drop(columns="flow")])
    with pytest.raises(ValueError, match="table has no rows"):
        model().fit(lambda: [TABLE[:0]])


def test_a_sampled_model_is_saved_and_reported(sampled, tmp_path):
    fitted = sampled[0]
    manyone.save(fitted, tmp_path / "found.manyone")
    assert_same(manyone.load(tmp_path / "found.manyone"), fitted, 0.0)
    fitted.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    kept = len(fitted.training_.labels)
    assert f"a sample of {kept} of 900" in page
    assert len(fitted.explain(NEW.head(3))) == 9


@pytest.mark.parametrize("anomalies", ["any", "faults", "strangers"])
def test_the_same_method_is_taken_in_memory_and_in_parts(anomalies, small_limits):
    options = {"method": "default", "anomalies": anomalies}
    assert_same(model(**options).fit(parts([400])), model(**options).fit(TABLE), 0.0)


@pytest.mark.parametrize("name", ["SVDD", "NonlinearOCKSR"])
def test_methods_that_want_all_rows_fit_tables_in_parts(name, small_limits):
    method = manyone.estimators.METHODS
    cls = next(cls for cls in method.values() if cls.__name__ == name)
    fitted = model(method=cls()).fit(parts([400]))
    assert fitted.score(TABLE.assign(flow=30.0)).alarm.all()


# ---------------------------------------------------------------- rows that come and go

BOTH = CombinedOneClass([("strangers", JointOCKSR()), ("faults", METHOD)])


@pytest.mark.parametrize("method", [METHOD, BOTH])
def test_enrolment_is_a_fit_to_all_rows(method, small_limits, tmp_path):
    """Of known tasks that are sampled, and of new ones."""
    late = (TABLE.machine == "saw") | (TABLE.index >= 700)
    fitted = model(method=method).fit(TABLE[~late])
    manyone.save(fitted, tmp_path / "m.manyone")
    enrolled = manyone.load(tmp_path / "m.manyone").enroll(TABLE[late])
    expected = model(method=method).fit(TABLE)
    assert_same(enrolled, expected, 1e-9)
    assert "saw" in enrolled.tasks_.tolist()


@pytest.mark.parametrize("method", [METHOD, BOTH])
def test_forgetting_is_a_fit_to_the_rows_that_stay(method, small_limits, tmp_path):
    secret = TABLE.machine == "saw"
    table = TABLE.assign(
        mode=np.where(secret, "chartreuse", TABLE["mode"]),
        flow=TABLE.flow + 500.0 * secret,
    )
    numbers = table.loc[secret, ["flow", "load"]].to_numpy().ravel()
    patterns = [b"saw", *(text.encode("utf-32-le") for text in ("saw", "chartreuse"))]
    patterns += [number.tobytes() for number in numbers]

    def hits(fitted):
        manyone.save(fitted, tmp_path / "m.manyone")
        content = (tmp_path / "m.manyone").read_bytes()  # nothing is compressed
        return sum(pattern in content for pattern in patterns)

    fitted = model(method=method).fit(parts([400], table))
    fitted.recalibrate(0.1)
    assert hits(fitted) > 30
    left = fitted.forget("saw")
    assert hits(left) == 0
    expected = model(method=method, alarm_rate=0.1).fit(parts([100], table[~secret]))
    assert_same(left, expected, 1e-9)


# --------------------------------------------------------------------------- what grows

SEVERAL = np.arange(240) % 3  # tasks take turns
COUNTS = {  # what 240 rows hold, and whether it grows
    "a counter": (np.arange(240.0), True),
    "a counter of each task": (np.arange(240.0) // 3 + 7.0 * SEVERAL, True),
    "sorted within every part": (np.arange(240.0) % 60, False),
    "batches": ([f"b{k // 12}" for k in range(240)], True),
    "batches of each task": ([f"{k % 3}-{k // 24}" for k in range(240)], True),
    "batches that return": ([f"b{k // 6 % 20}" for k in range(240)], False),
    "levels": ([f"{'abc'[k % 3]}{k % 2}" for k in range(240)], False),
}


@pytest.mark.parametrize("name", COUNTS)
def test_what_grows(name):
    values, expected = COUNTS[name]
    is_text = isinstance(values, list)
    column = text_column(values) if is_text else Column("number", values)
    note = decide(name, column, SEVERAL, 0.0).note
    assert ("a counter" in note or "a batch name" in note) == expected


def test_a_counter_is_seen_in_a_sample(small_limits):
    table = TABLE.assign(number=np.cumsum(RNG.uniform(size=N)))
    fitted = model().fit(parts([100, 700], table))
    columns = pd.DataFrame(fitted.columns_).set_index("name")
    assert "a counter" in columns.note["number"]


def test_texts_of_parts_are_joined():
    first = text_column(["b", None, "a"])
    second = text_column(["c", "a"])
    both = first.joined(second, "name")
    assert both.texts() == ["b", None, "a", "c", "a"]
    assert both.levels.tolist() == ["a", "b", "c"]
    empty = Column("number", np.full(2, np.nan))
    assert empty.joined(second, "name").texts() == [None, None, "c", "a"]
    assert first.joined(empty, "name").texts() == ["b", None, "a", None, None]


# ----------------------------------------------------------------------------- clusters


def die_once(part, marker):
    """Kill the process that comes first."""
    if len(part):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return part
        os.kill(os.getpid(), signal.SIGKILL)
    return part


@pytest.mark.slow
def test_a_cluster_may_lose_a_worker(small_limits, sampled, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed")
    marker = str(tmp_path / "died")
    frame = dd.from_pandas(TABLE, npartitions=5)
    frame = frame.map_partitions(die_once, marker, meta=frame._meta)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        distributed.LocalCluster(**options, dashboard_address=None) as cluster,
        distributed.Client(cluster.scheduler_address),
    ):
        fitted = model().fit(frame)
    assert os.path.exists(marker)
    assert_same(fitted, sampled[0], 0.0)


def test_a_frame_of_narwhals_is_read(sampled):
    assert_same(model().fit(nw.from_native(TABLE)), sampled[1], 0.0)
