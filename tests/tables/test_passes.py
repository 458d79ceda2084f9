"""Tables in parts: whatever the parts, the model of the whole table."""

import os
import signal
from functools import reduce
from itertools import pairwise

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyone
from manyone import (
    CombinedOneClass,
    IndependentOCKSR,
    JointOCKSR,
    NonlinearOCKSR,
    TableModel,
)
from manyone.models.guards import column_range_in, unguarded
from manyone.tables.facts import Facts
from manyone.tables.frames import Column, read_column, text_column

RNG = np.random.default_rng(6)
N = 900
MACHINE = RNG.choice(["fan", "pump", "saw", "lathe"], N)
CODES = np.unique(MACHINE, return_inverse=True)[1]
TABLE = pd.DataFrame(
    {
        "machine": MACHINE,
        "number": np.arange(N),  # a counter
        "flow": RNG.normal(size=N) + CODES,
        "load": RNG.exponential(size=N),
        "mode": RNG.choice(["low", "high", "off"], N),
        "gap": np.where(RNG.uniform(size=N) < 0.01, np.nan, RNG.normal(size=N)),
        "on": RNG.uniform(size=N) < 0.8,
        "when": pd.Timestamp("2026-01-01")
        + pd.to_timedelta(np.arange(N) * 3600, unit="s"),
        "broken": np.arange(N) % 100 == 50,
    }
)
TABLE.loc[7, "load"] = np.inf
NEW = pd.concat([TABLE.head(60), TABLE.head(20).assign(flow=40.0, machine="never")])


def model(**options):
    method = IndependentOCKSR(landmarks=60, random_state=0, kernel="laplacian")
    return TableModel("machine", outlier="broken", **{"method": method, **options})


def parts(places):
    """A function that yields the table in parts."""
    cuts = [0, *sorted(set(places) - {0, N}), N]
    return lambda: (TABLE.iloc[i:j] for i, j in pairwise(cuts))


def assert_same(one, other, tol=1e-8):
    pd.testing.assert_frame_equal(
        pd.DataFrame(one.columns_), pd.DataFrame(other.columns_)
    )
    found, known = one.score(NEW), other.score(NEW)
    np.testing.assert_allclose(found.score, known.score, atol=tol)
    np.testing.assert_allclose(found.p_value, known.p_value, atol=tol)
    assert found[["task", "alarm", "basis"]].equals(known[["task", "alarm", "basis"]])


@settings(max_examples=8, deadline=None)
@given(places=st.lists(st.integers(40, N - 40), max_size=6))
def test_any_parts(places):
    assert_same(model().fit(parts(places)), WHOLE)


WHOLE = model().fit(TABLE)


def _flow(model, z):
    encoder = model.encoder_
    return encoder.maps[encoder.used.index("flow")].undo(z)


def test_what_is_known_of_all_rows_does_not_come_from_the_sample(monkeypatch):
    """With few sampled rows, ranges, gaps, levels, counters and imputed means are still exact."""
    monkeypatch.setattr("manyone.tables.passes._SAMPLE", 60)
    few = model().fit(parts([100, 500, 830]))
    assert len(few.training_.labels) <= 60
    assert few.n_rows_ == N
    columns, known = pd.DataFrame(few.columns_), pd.DataFrame(WHOLE.columns_)
    pd.testing.assert_frame_equal(columns, known)
    assert "infinite" in columns.note[columns.name == "load"].item()
    levels = [
        encoder.maps[encoder.used.index("mode")]
        for encoder in (few.encoder_, WHOLE.encoder_)
    ]
    assert levels[0].levels.tolist() == levels[1].levels.tolist()
    place = few.encoder_.used.index("mode")
    where = few.encoder_.source == place
    np.testing.assert_allclose(
        few.encoder_.fill[:, where], WHOLE.encoder_.fill[:, where]
    )
    guards = [column_range_in(each.model_.solution_.scorer) for each in (few, WHOLE)]
    for ends in ("lower", "upper"):
        values = [_flow(few, getattr(g, ends)[[0], None]) for g in guards[:1]]
        wanted = [_flow(WHOLE, getattr(g, ends)[[0], None]) for g in guards[1:]]
        np.testing.assert_allclose(values, wanted)
    alarms = few.score(TABLE[~TABLE.broken]).alarm.mean()
    assert 0.0 < alarms < 0.1


def test_files_and_saving(tmp_path):
    for k in range(3):
        TABLE.iloc[300 * k : 300 * (k + 1)].to_parquet(tmp_path / f"{k}.parquet")
    found = model().fit(tmp_path)
    assert_same(found, WHOLE)
    manyone.save(found, tmp_path / "found.manyone")
    assert_same(manyone.load(tmp_path / "found.manyone"), found, 0.0)
    found.report(tmp_path / "page.html", TABLE.head(50))
    assert len(found.explain(NEW.head(3))) == 9


@pytest.mark.slow
@pytest.mark.parametrize("anomalies", ["any", "strangers"])
def test_methods_are_chosen_on_the_sample(anomalies):
    found = model(method="auto", anomalies=anomalies).fit(parts([400]))
    assert type(found.model_) is (
        JointOCKSR if anomalies == "strangers" else CombinedOneClass
    )
    assert f"of {N} rows" in " ".join(found.choice_["reason"])
    views = getattr(found.model_, "views_", {"all": found.model_}).values()
    assert all(view.landmarks is not None for view in views)
    assert found.score(TABLE.assign(flow=30.0)).alarm.all()


def test_what_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="SVDD needs all rows in memory"):
        model(method="SVDD").fit(parts([]))
    with pytest.raises(ValueError, match="groups= needs the whole table"):
        model(groups="mode").fit(parts([]))
    with pytest.raises(ValueError, match="'flow' is number in one part"):
        model().fit(lambda: [TABLE.head(50), TABLE.tail(50).assign(flow="much")])
    with pytest.raises(ValueError, match="same columns"):
        model().fit(lambda: [TABLE.head(50), TABLE.tail(50).drop(columns="flow")])
    monkeypatch.setattr("manyone.tables.passes._SAMPLE", 60)
    with pytest.raises(
        ValueError, match=r"has kept 5\d of the 900 rows.*'fan', others=table"
    ):
        model().fit(parts([])).forget("fan")
    with pytest.raises(
        ValueError, match="that stay, 'lathe', 'pump', 'saw'; they are of 'fan'"
    ):
        model().fit(parts([])).forget("fan", others=TABLE)


# --------------------------------------------------------------------------- rows that come and go

JOINT = JointOCKSR(landmarks=60, random_state=0)
BOTH = CombinedOneClass([("strangers", JOINT), ("faults", model().method)])


@pytest.fixture
def sampled(monkeypatch):
    """Tables and views are passed over, and of the rows some are kept."""
    monkeypatch.setattr("manyone.tables.passes._SAMPLE", 200)
    monkeypatch.setattr("manyone.engines.plan._FEWEST", 100)


@pytest.mark.parametrize("method", [model().method, JOINT, BOTH])
def test_enrolled_rows_are_those_of_the_estimator(method, sampled, tmp_path):
    """Columns are encoded as they were: the estimator's own enrolment of the encoded rows."""
    late = TABLE.machine == "saw"
    found = model(method=method, alarm_rate=0.1).fit(
        lambda: [TABLE[~late][:300], TABLE[~late][300:]]
    )
    manyone.save(found, tmp_path / "m.manyone")
    encoder, alone = found.encoder_, found.model_
    more = TABLE[late & ~TABLE.broken].assign(mode="new", flow=lambda t: t.flow + 9.0)
    Z = encoder.encode(encoder.read(nw.from_native(more)), np.full(len(more), -1))
    found = manyone.load(tmp_path / "m.manyone").enroll(more)
    full = more.gap.notna()  # what is imputed is the mean of the new task
    alone.enroll(found.encoder_.encode(encoder.read(nw.from_native(more)), np.full(len(more), 3)),
                 task=more.machine)  # fmt: skip
    np.testing.assert_allclose(
        found.model_.solution_.scorer.all(Z[full]),
        unguarded(alone.solution_.scorer).all(Z[full]),
        atol=1e-10,
    )
    np.testing.assert_array_equal(found.encoder_.precision, encoder.precision)
    assert found.tasks_.tolist() == ["fan", "lathe", "pump", "saw"]
    assert found.n_rows_ == (~late).sum() + len(more)
    assert "saw" in found.training_.labels.tolist()
    assert len(found.training_.labels) <= 200
    scores = found.score(more.assign(on=~more.on))
    assert set(scores.basis) == {"own"}
    assert (
        scores.alarm.mean() < 0.25
    )  # neither its new text nor its range is news any more
    assert found.score(TABLE[~late]).alarm.mean() < 0.15
    assert found.score(more.assign(flow=60.0)).alarm.all()
    wild = found.explain(more.head(2).assign(load=500.0))
    assert wild.column[wild["rank"] == 1].tolist() == ["load", "load"]
    again = TABLE[~late & ~TABLE.broken]
    assert found.enroll(again).n_rows_ == (~late).sum() + len(more) + len(again)
    assert len(found.training_.labels) <= 200


@pytest.mark.parametrize("method", [model().method, BOTH])
def test_forgetting_is_a_fit_to_the_rows_that_stay(method, sampled, tmp_path):
    secret = TABLE.machine == "saw"
    table = TABLE.assign(
        mode=np.where(secret, "chartreuse", TABLE["mode"]),
        flow=TABLE.flow + 500.0 * secret,
    )
    numbers = table.loc[secret, ["flow", "load"]].to_numpy().ravel()
    patterns = [b"saw", *(text.encode("utf-32-le") for text in ("saw", "chartreuse"))]
    patterns += [number.tobytes() for number in numbers]

    def hits(one):
        manyone.save(one, tmp_path / "m.manyone")
        content = (tmp_path / "m.manyone").read_bytes()  # nothing is compressed
        return sum(pattern in content for pattern in patterns)

    fitted = model(method=method).fit(lambda: [table.head(400), table.tail(500)])
    fitted.recalibrate(0.1)
    assert hits(fitted) > 30
    left = fitted.forget("saw", others=table[~secret])
    assert hits(left) == 0
    known = model(method=method, alarm_rate=0.1).fit(lambda: [table[~secret]])
    assert_same(left, known, 0.0)


def test_a_method_that_cannot_learn_more_rows_of_a_table_in_parts_says_so(monkeypatch):
    monkeypatch.setattr("manyone.tables.passes._SAMPLE", 300)
    method = NonlinearOCKSR(landmarks=20, random_state=0)
    fitted = model(method=method).fit(parts([300, 600]))
    with pytest.raises(ValueError, match="NonlinearOCKSR has no enroll: fit it again"):
        fitted.enroll(TABLE.head(9))


def test_parts_cannot_leave_blocks_of_time_out_and_say_so():
    with pytest.warns(
        UserWarning, match="left out one by one, not in blocks of 'when'"
    ):
        model(time="when").fit(parts([300, 600]))


def test_facts_of_parts_add_up():
    column, codes = read_column(nw.from_native(TABLE.load, series_only=True)), CODES
    whole = Facts.of(column, codes, range(4))
    halves = [
        Facts.of(column.take(rows), codes[rows], range(4))
        for rows in (slice(0, 400), slice(400, N))
    ]
    assert vars(halves[0].merged(halves[1], "load")) == vars(whole)
    codes = np.zeros(11_000, dtype=int)
    texts = Facts.of(text_column([f"{k}" for k in range(11_000)]), codes, ["a"])
    assert texts.bounded().levels is None
    assert len(texts.levels) == 11_000


SEVERAL = np.arange(240) % 3  # tasks take turns
COUNTS = {  # what 240 rows hold, and whether it grows
    "a counter": (np.arange(240.0), True),
    "a counter of each task": (np.arange(240.0) // 3 + 7.0 * SEVERAL, True),
    "sorted within every part": (np.arange(240.0) % 60, False),
    "sorted within every task of a part": (
        np.arange(240.0) // 3 % 20 + 7.0 * SEVERAL,
        False,
    ),
    "batches": ([f"b{k // 12}" for k in range(240)], True),
    "batches of each task": ([f"{k % 3}-{k // 24}" for k in range(240)], True),
    "batches that return": ([f"b{k // 6 % 20}" for k in range(240)], False),
    "levels": ([f"{'abc'[k % 3]}{k % 2}" for k in range(240)], False),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("places", [[], [60, 120, 180], [*range(2, 240, 2)], [1, 130]])
def test_what_grows_over_the_whole_table_grows_in_parts(name, places):
    values, wanted = COUNTS[name]
    texts = isinstance(values, list)
    facts = []
    for i, j in pairwise([0, *places, 240]):
        column = text_column(values[i:j]) if texts else Column("number", values[i:j])
        names, codes = np.unique(
            SEVERAL[i:j], return_inverse=True
        )  # each part counts for itself
        facts.append(Facts.of(column, codes, names.tolist()))
    merged = reduce(lambda one, other: one.merged(other, name), facts)
    assert merged.grows == wanted


def die_once(part, marker):
    """Kill the process that comes first."""
    if len(part):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return part
        os.kill(os.getpid(), signal.SIGKILL)
    return part


@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_dask_frames(killed, tmp_path):
    """On threads, and on a cluster that loses a worker in a pass."""
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(TABLE, npartitions=5)
    if not killed:
        assert_same(model().fit(frame), WHOLE)
        return
    distributed = pytest.importorskip("distributed")
    marker = str(tmp_path / "died")
    frame = frame.map_partitions(die_once, marker, meta=frame._meta)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        distributed.LocalCluster(**options, dashboard_address=None) as cluster,
        distributed.Client(cluster.scheduler_address),
    ):
        found = model().fit(frame)
    assert os.path.exists(marker)
    assert_same(found, WHOLE)
