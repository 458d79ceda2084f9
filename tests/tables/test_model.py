"""Tables in, tables out: answers for every row, whatever library they come in."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import manyone
from fleets import machine_tables
from manyone import IndependentOCKSR, TableModel, TimeBlocks

COLUMNS = ["row", "task", "score", "p_value", "alarm", "basis"]
FAST = IndependentOCKSR(metric="whitened", kernel="laplacian")


@pytest.fixture(scope="module")
def fitted():
    train, test = machine_tables()
    return TableModel("machine", method=FAST, alarm_rate=0.1).fit(train), train, test


def test_the_same_library_comes_out(fitted):
    model, _, test = fitted
    pandas = model.score(test, keep=["fault"])
    polars = model.score(pl.from_pandas(test), keep=["fault"])
    arrow = model.score(pa.Table.from_pandas(test), keep=["fault"])
    assert isinstance(pandas, pd.DataFrame)
    assert isinstance(polars, pl.DataFrame)
    assert isinstance(arrow, pa.Table)
    assert (
        list(pandas.columns)
        == polars.columns
        == arrow.column_names
        == [*COLUMNS, "fault"]
    )
    for name in pandas.columns:
        assert (
            pandas[name].tolist() == polars[name].to_list() == arrow[name].to_pylist()
        )


def test_names_that_differ_in_spaces_or_capitals_are_told(recwarn):
    train, _ = machine_tables()
    machine = train["machine"].astype(str)
    TableModel("machine", method=FAST).fit(train.assign(machine=machine))
    assert not [w for w in recwarn if "differ only" in str(w.message)]
    name = machine.iloc[0]
    spaced = machine.where(np.arange(len(train)) % 2 == 0, name.upper() + " ")
    spaced = machine.where(machine != name, spaced)
    with pytest.warns(UserWarning, match=f"'{name.upper()} '.* differ only in spaces"):
        TableModel("machine", method=FAST).fit(train.assign(machine=spaced))


def test_columns_may_be_called_by_numbers(fitted, tmp_path):
    _, train, test = fitted
    train = train.assign(when=np.arange(len(train)))
    test = test.drop(columns="fault").assign(when=np.arange(len(test)))
    names = {name: number for number, name in enumerate(train.columns)}
    settings = {"method": FAST, "history": None}
    by_name = TableModel("machine", time="when", ignore=["d"], **settings)
    by_number = TableModel(
        names["machine"], time=names["when"], ignore=names["d"], **settings
    )
    by_name.fit(train)
    by_number.fit(train.rename(columns=names))
    manyone.save(by_number, tmp_path / "numbers.manyone")
    loaded = manyone.load(tmp_path / "numbers.manyone")
    numbered = test.rename(columns=names)
    pd.testing.assert_frame_equal(loaded.score(numbered), by_name.score(test))
    incidents = by_name.incidents(test)
    found = loaded.incidents(numbered)
    assert found.begin.tolist() == incidents.begin.tolist() and len(found)
    assert loaded.task == names["machine"]


@pytest.mark.parametrize("time", [None, "when"])
def test_the_order_of_columns_does_not_matter(time):
    train, test = machine_tables()
    train["kind"] = np.where(np.arange(len(train)) % 3 > 0, "light", "heavy")
    test["kind"] = "light"
    train.loc[::17, "b"] = np.nan
    if time is not None:
        train[time] = np.arange(len(train))
        test[time] = np.arange(len(train), len(train) + len(test))
    permuted = train[train.columns[::-1]]
    settings = {"time": time, "random_state": 0}
    model = TableModel("machine", **settings).fit(train)
    other = TableModel("machine", **settings).fit(permuted)
    pd.testing.assert_frame_equal(
        model.score(test, explain=2), other.score(test, explain=2), check_exact=True
    )
    assert list(model.feature_names_in_) == [
        name for name in train.columns if name not in ("machine", time)
    ]


@pytest.mark.parametrize("task", [None, []])
def test_a_model_needs_a_task_column(fitted, task):
    with pytest.raises(ValueError, match="task must name a column"):
        TableModel(task).fit(fitted[1])


@pytest.mark.parametrize("number", ["2", 1.5, -1])
def test_numbers_of_reasons_are_whole(fitted, number):
    model, _, test = fitted
    with pytest.raises((TypeError, ValueError), match=r"^explain"):
        model.score(test, explain=number)
    with pytest.raises((TypeError, ValueError), match=r"^top"):
        model.explain(test, top=number)


@pytest.mark.parametrize("known", [True, False])
def test_an_fdr_that_the_rows_cannot_reach_is_told(fitted, known):
    """One wild row among n needs a p-value of fdr / n, which no batch reaches."""
    model, train, test = fitted
    wild = test.assign(a=[1e6, *test.a.tolist()[1:]])
    wild = wild if known else wild.assign(machine="new")
    with pytest.warns(manyone.CalibrationWarning, match="No row selected") as caught:
        scores = model.score(wild, fdr=1e-4)
    assert not scores.alarm.any()
    (message,) = [str(w.message) for w in caught if "No row" in str(w.message)]
    told = float(message.partition("possible here is ")[2].partition(",")[0])
    # Of tasks never seen the units are the known tasks.
    units = np.array([len(model.tasks_)])
    trained = model.model_.calibration_.counts if known else units
    shares = wild.machine.value_counts(sort=False, normalize=True).sort_index()
    assert told == pytest.approx(np.min(shares / (trained + 1)), rel=0.01)


def test_a_truth_that_is_none_is_shown(fitted):
    model, _, test = fitted
    with pytest.raises(
        ValueError, match=r"'fault' must say true or false, .* got 'ja', 'nein'"
    ):
        model.evaluate(
            test.assign(fault=["ja", "nein"] * (len(test) // 2)), outlier="fault"
        )


@pytest.mark.parametrize(
    "words",
    [
        ("yes", "no"),
        ("Y", " n "),
        ("TRUE", "False"),
        ("t", "f"),
        ("1", "0"),
        (1.0, 0.0),
        (1, None),
    ],
)
def test_a_truth_may_be_told_in_words(fitted, words):
    model, _, test = fitted
    bad = np.arange(len(test)) % 3 == 0
    told = test.assign(fault=[words[0] if one else words[1] for one in bad])
    wanted = model.evaluate(test.assign(fault=bad), outlier="fault")
    pd.testing.assert_frame_equal(model.evaluate(told, outlier="fault"), wanted)


def test_a_table_without_a_rate_is_refused_at_once(fitted):
    with pytest.raises(ValueError, match="alarm_rate=None is for estimators"):
        TableModel("machine", alarm_rate=None).fit(fitted[1])


def test_alarms_are_small_p_values(fitted):
    model, _, test = fitted
    scores = model.score(test)
    rate = model.model_.alarm_rate_.max()
    assert scores.alarm.equals(scores.p_value <= rate)
    assert (
        scores.alarm[test.fault].mean() > 0.5 > 0.3 > scores.alarm[~test.fault].mean()
    )


def test_a_saved_model_says_the_same(fitted, tmp_path):
    model, _, test = fitted
    manyone.save(model, tmp_path / "model.manyone")
    again = manyone.load(tmp_path / "model.manyone")
    pd.testing.assert_frame_equal(model.score(test), again.score(test))
    assert again.calibrated_ == model.calibrated_
    assert again.columns_["name"].tolist() == list("abcd")


def test_a_column_is_named_once(fitted):
    model, train, test = fitted
    with pytest.raises(ValueError, match="task: 'machine' is named twice"):
        TableModel(["machine", "machine"]).fit(train)
    with pytest.raises(ValueError, match="keep: 'a' is named twice"):
        model.score(test, keep=["a", "b", "a"])


def test_forget_is_a_fit_without_the_task(tmp_path):
    train, test = machine_tables()
    model = TableModel("machine", method=FAST, alarm_rate=0.1).fit(train).forget("m2")
    kept = train[train.machine != "m2"]
    without = TableModel("machine", method=FAST, alarm_rate=0.1).fit(kept)
    rows = test[test.machine != "m2"]
    pd.testing.assert_frame_equal(model.score(rows), without.score(rows))
    assert set(model.score(test[test.machine == "m2"]).basis) == {"unknown"}


def test_enroll_is_a_fit_with_the_rows():
    train, test = machine_tables()
    first = train.iloc[::2]
    more = train.iloc[1::2]
    model = TableModel("machine", method=FAST, alarm_rate=0.1).fit(first).enroll(more)
    at_once = TableModel("machine", method=FAST, alarm_rate=0.1).fit(train)
    pd.testing.assert_frame_equal(model.score(test), at_once.score(test))
    assert model.n_rows_ == len(train)


def test_recalibrate_changes_alarms_only(fitted):
    train, test = machine_tables()
    model = TableModel("machine", method=FAST, alarm_rate=0.1).fit(train)
    before = model.score(test)
    after = model.recalibrate(0.3).score(test)
    assert after.alarm.sum() > before.alarm.sum()
    assert after.score.equals(before.score)
    assert model.calibrated_["alarm_rate"] == 0.3


# ------------------------------------------------------------------------- rows in time


def walks(n_tasks=4, rows=40, new=100, seed=0):
    """Rows that resemble those before them, and the rows after them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + new, n_tasks, 4))
    for i in range(1, rows + new):
        X[i] = 0.8 * X[i - 1] + 0.6 * X[i]
    X += 2.0 * rng.normal(size=(n_tasks, 4))
    table = pd.DataFrame(X.reshape(-1, 4), columns=list("abcd"))
    table["machine"] = np.tile([f"m{k}" for k in range(n_tasks)], rows + new)
    table["when"] = np.repeat(
        pd.date_range("2026-01-01", periods=rows + new, freq="h"), n_tasks
    )
    return table.iloc[: rows * n_tasks], table.iloc[rows * n_tasks :]


def in_time(**changes):
    return TableModel(
        "machine",
        **{"method": FAST, "alarm_rate": 0.1, "time": "when", "history": None}
        | changes,
    )


def test_blocks_of_time_set_the_thresholds():
    train, test = walks()
    model = in_time().fit(train)
    training = model.training_
    Z = model.encoder_.encode(training.columns, training.codes())
    blocks = TimeBlocks(model.training_.times, forward=100)
    alone = (
        clone(FAST)
        .set_params(alarm_rate=0.1)
        .fit(Z, task=model.training_.labels, groups=blocks)
    )
    np.testing.assert_allclose(model.model_.offset_, alone.offset_, rtol=1e-9)
    assert "blocks of time" in model.calibrated_["on"]
    one_by_one = in_time(time=None, ignore=["when"]).fit(train)
    rates = [made.score(test).alarm.mean() for made in (model, one_by_one)]
    assert rates[0] < 0.7 * rates[1]


def test_tasks_of_many_rows_are_judged_by_earlier_blocks():
    train, _ = walks(2, 300)
    few = (train.machine == "m0") | (train.groupby("machine").cumcount() < 20)
    calibration = in_time().fit(train[few]).model_.calibration_
    # The first two of five blocks have no score.
    assert np.bincount(calibration.codes).tolist() == [180, 20]


def test_times_may_be_dates_texts_or_numbers(tmp_path):
    train, test = walks()
    model = in_time().fit(train)
    others = {
        "text": train.when.dt.strftime("%Y-%m-%d %H:%M"),
        "zone": train.when.dt.strftime("%Y-%m-%dT%H:%M:%S+02:00"),
        "number": train.when.rank(method="dense"),
    }
    for when in others.values():
        other = in_time().fit(train.assign(when=when).sample(frac=1.0, random_state=0))
        np.testing.assert_array_equal(other.model_.offset_, model.model_.offset_)
    manyone.save(model, tmp_path / "model")
    assert manyone.load(tmp_path / "model").score(test).equals(model.score(test))


def test_upkeep_keeps_the_blocks():
    train, test = walks()
    early = train.when < train.when.iloc[80]
    model = in_time().fit(train[early]).enroll(train[~early]).forget("m2")
    whole = in_time().fit(train[train.machine != "m2"])
    pd.testing.assert_frame_equal(model.score(test), whole.score(test))
    np.testing.assert_array_equal(
        model.recalibrate(0.2).model_.offset_, whole.recalibrate(0.2).model_.offset_
    )
    assert "blocks of time" in model.calibrated_["on"]


def test_groups_go_before_blocks_of_time():
    train, test = walks()
    day = train.when.dt.strftime("%d")
    model = in_time(groups="day", history=None).fit(train.assign(day=day))
    named = in_time(time=None, ignore=["when"], groups="day").fit(train.assign(day=day))
    pd.testing.assert_frame_equal(model.score(test), named.score(test))
    assert "by day" in model.calibrated_["on"]


@pytest.mark.filterwarnings("ignore::manyone.CalibrationWarning")
def test_copies_in_several_groups_are_merged_by_group():
    """Methods that merge copies have fewer rows than the table, by its groups."""
    train, _ = machine_tables()
    copies = train.iloc[:1]
    table = pd.concat([train, copies, copies], ignore_index=True)
    shift = np.arange(len(table)) % 4
    shift[-1] = (shift[0] + 1) % 4
    shift[-2] = shift[0]
    table = table.assign(shift=shift.astype(str)).drop(columns="fault", errors="ignore")
    numbers = table.select_dtypes("number").columns[0]
    table.loc[5, numbers] = 1e3  # a value out of range is what ranges learn from
    model = TableModel("machine", groups="shift", method=manyone.NonlinearOCKSR())
    model.fit(table)
    assert len(model.model_.training_.codes) == len(table) - 1
    assert model.score(table)["score"].notna().all()


def test_one_time_for_each_task_is_no_order():
    train, test = walks()
    once = train.assign(when=train.when.iloc[0])
    model = in_time().fit(once)
    plain = in_time(time=None, ignore=["when"]).fit(once)
    pd.testing.assert_frame_equal(model.score(test), plain.score(test))


def test_times_that_are_missing_or_unreadable_are_refused_by_row():
    train, _ = walks()
    with pytest.raises(
        ValueError, match="Row 7 has no value in the time column 'when'"
    ):
        in_time().fit(train.assign(when=train.when.where(train.index != 7)))
    odd = train.assign(when=train.when.astype(str).where(train.index != 9, "noon"))
    with pytest.raises(ValueError, match="Row 9 has 'noon', which is no time, in"):
        in_time().fit(odd)


def test_large_whole_numbers_name_tasks(tmp_path):
    """Hashes of 64 bits are beyond signed integers, and are not negative."""
    rng = np.random.default_rng(0)
    labels = [2**63 + 5, 2**64 - 1, 7]
    task = np.repeat(np.array(labels, dtype=np.uint64), 20)
    table = pd.DataFrame(
        {"user": task, "a": rng.normal(size=60), "b": rng.normal(size=60)}
    )
    manyone.save(TableModel("user", method="default").fit(table), tmp_path / "m")
    model = manyone.load(tmp_path / "m")
    assert model.tasks_.tolist() == sorted(labels)
    assert model.score(table)["task"].tolist() == task.tolist()
    assert model.forget(2**64 - 1).tasks_.tolist() == [7, 2**63 + 5]


@pytest.mark.parametrize("method", ["JointOCKSR", "IndependentOCKSR"])
def test_rows_of_no_task_make_no_second_task(method):
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=40), "b": rng.normal(size=40)}
    table = pd.DataFrame(
        {"user": ["x"] * 37 + [None] * 3, **columns, "bad": [0] * 37 + [1] * 3}
    )
    model = TableModel("user", outlier="bad", method=method).fit(table)
    assert model.tasks_.tolist() == ["x"] and model.choice_["reason"] == [
        'tuned for "faults"'
    ]


def test_faults_are_found_beside_a_category_and_gaps_that_rows_have_by_chance():
    rng = np.random.default_rng(0)

    def rows(n):
        shop = np.repeat(np.arange(60), n)
        table = pd.DataFrame(rng.normal(size=(60 * n, 4)), columns=list("abcd"))
        table += 3.0 * np.random.default_rng(1).normal(size=(60, 4))[shop]
        table["day"] = rng.choice(["Mo", "Tu", "We", "Th", "Fr", "Sa"], len(table))
        table["e"] = np.where(
            rng.random(len(table)) < 0.04, np.nan, rng.normal(size=len(table))
        )
        return table.assign(shop=shop)

    model = TableModel(
        "shop", anomalies="faults", method="default", random_state=0
    ).fit(rows(25))
    assert model.score(rows(10)).alarm.mean() <= 0.07
    faults = rows(10).assign(a=lambda table: table.a + 8.0)  # 8 standard deviations
    found = model.score(faults, explain=1)
    assert found.alarm.mean() > 0.8
    assert found.reason_1[found.alarm].str.startswith("a =").mean() > 0.95


def test_gaps_use_up_no_alarms_and_hide_no_fault():
    """Machines whose columns follow their load, with and without 4 % of the values."""

    def rows(n, seed, share):
        rng = np.random.default_rng(seed)
        machine = np.repeat(np.arange(40), n)
        place = 3.0 * np.random.default_rng(1).normal(size=(40, 5))
        values = rng.uniform(-2.0, 2.0, (len(machine), 1)) + 0.1 * rng.normal(
            size=(40 * n, 5)
        )
        gaps = rng.random((len(machine), 5)) < np.where(np.arange(5) < 2, 0.0, share)
        table = pd.DataFrame(values + place[machine], columns=list("abcde"))
        return table.mask(gaps).assign(machine=machine)

    caught = {}
    for share in (0.0, 0.04):
        model = TableModel(
            "machine", anomalies="faults", method="default", random_state=0
        )
        model.fit(rows(30, 2, share))
        new = rows(50, 3, share)
        alarm = model.score(new).alarm
        assert alarm.mean() <= 0.055
        gap = new.isna().any(axis=1)
        assert not gap.any() or alarm[gap].mean() <= 0.11
        for column in "ad":
            faults = new.assign(**{column: new[column] + 1.0})[new[column].notna()]
            caught[column, share] = model.score(faults).alarm.mean()
    for column in "ad":
        assert caught[column, 0.04] > caught[column, 0.0] - 0.05 > 0.7


@pytest.mark.slow
def test_the_range_of_columns_is_in_the_thresholds_of_a_combination():
    """Rows of 40 rare columns: a new row often has a value beyond all that was seen."""
    raised = []
    for seed in range(4):
        rng = np.random.default_rng(seed)

        def rows(n, rng=rng):
            values = (rng.random((5 * n, 40)) < 0.02) * rng.normal(size=(5 * n, 40))
            table = pd.DataFrame(values, columns=[f"c{k}" for k in range(40)])
            return table.assign(machine=np.repeat(list("abcde"), n))

        model = TableModel("machine", method="default", random_state=0, alarm_rate=0.1)
        raised.append(np.mean(model.fit(rows(20)).predict(rows(60)) < 0))
    assert np.mean(raised) < 0.15


def test_rows_of_a_task_are_judged_together(fitted):
    model, train, test = fitted
    normal = test[~test.fault].drop(columns="fault")
    moved = normal.assign(a=normal.a + 30.0 * (normal.machine == "m1"))
    tasks, p = model.pvalues_together(moved.sample(frac=1.0, random_state=0))
    assert tasks.tolist() == sorted(moved.machine.unique())
    assert p[tasks == "m1"][0] == p.min() < 0.05
    assert np.median(p) > 0.05
    unknown = moved.assign(machine="new")
    assert len(model.pvalues_together(unknown)[0]) == 0


@pytest.mark.parametrize("method", ["auto", FAST])
def test_a_kind_of_anomalies_that_is_none_is_refused(method):
    table = pd.DataFrame({"task": ["a", "b"] * 9, "x": np.arange(18.0) % 7})
    model = TableModel("task", anomalies="fault", method=method)
    with pytest.raises(ValueError, match=r"anomalies.*'fault'"):
        model.fit(table)


def test_a_task_that_is_to_stay_has_to_be_there(fitted):
    model, train, _ = fitted
    model = clone(model).fit(train)
    first, second = model.tasks_.tolist()[:2]
    with pytest.raises(ValueError, match="Unknown task 'nobody'"):
        model.refit(train, keep=[first, "nobody"])
    model.refit(train[train["machine"] == first], keep=[second])
    assert model.tasks_.tolist() == [first, second]
