"""What the encoder decides, and that it never loses or invents a value in silence."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyone import IndependentOCKSR, TableModel
from manyone.tables.encoder import Encoder
from manyone.tables.frames import as_table, read_columns
from manyone.tables.labels import task_labels
from manyone.tables.maps import Curve, apply_curves
from manyone.tables.ranges import learn_ranges


def learn(table, codes=None, linear=0.5):
    frame = as_table(table)
    codes = np.zeros(len(frame), dtype=np.intp) if codes is None else codes
    columns = read_columns(frame, frame.columns)
    return Encoder.learn(columns, codes, codes.max() + 1, linear)


def encode(encoder, table, codes=None):
    frame = as_table(table)
    codes = np.zeros(len(frame), dtype=np.intp) if codes is None else codes
    return encoder.encode(encoder.read(frame), codes)


def note(encoder, name):
    table = encoder.table
    (place,) = np.flatnonzero(table["name"] == name)
    return table["used"][place], table["note"][place]


@given(
    st.lists(
        st.floats(-1e6, 1e6).map(lambda x: round(x, 3)),
        min_size=3,
        max_size=200,
        unique=True,
    ),
    st.floats(0, 1),
)
@settings(max_examples=60, deadline=None)
def test_numbers_keep_their_order_and_come_back(values, linear):
    column = np.array(values)
    curve = Curve.learn(column, linear)
    probe = np.sort(np.concatenate([column, [column.min() - 9.0, column.max() + 9.0]]))
    z = apply_curves([curve], probe[:, None])
    assert np.all(np.diff(z[:, 0]) >= 0)
    scale = np.ptp(column)
    np.testing.assert_allclose(curve.undo(z[:, 0]), probe, atol=1e-6 * scale)


@pytest.mark.filterwarnings("error")
def test_the_largest_numbers_raise_no_warning():
    values = np.where(np.arange(60) % 2, 1e308, -1e308) * np.linspace(0.5, 1, 60)
    table = pd.DataFrame(
        {"m": np.arange(60) % 3, "x": values, "y": np.sin(np.arange(60))}
    )
    model = TableModel(
        "m", method=IndependentOCKSR(alarm_rate=0.2), alarm_rate=0.2
    ).fit(table)
    assert np.isfinite(model.score(table.assign(x=3.0), explain=2).score).all()


def test_wild_values_stay_wild_and_heavy_tails_are_tamed():
    values = np.random.default_rng(0).standard_t(1, size=400)
    curve = Curve.learn(values, 0.0)
    z = apply_curves([curve], values[:, None])
    assert np.abs(z).max() < 4  # normal scores, however heavy the tail
    far = values.max() + np.array([1.0, 2.0, 3.0]) * (values.max() - np.median(values))
    steps = np.diff(apply_curves([curve], far[:, None])[:, 0])
    np.testing.assert_allclose(steps, 0.5)  # linear beyond the range


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_decimal_commas_in_texts_are_those_of_numbers(library):
    rng = np.random.default_rng(0)
    x = (1500 * rng.random(80)).round(2)
    m = np.arange(80) % 4
    texts = [f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in x]
    table = library({"m": m, "x": [*texts[:79], "n/a"], "y": rng.random(80)})
    plain = library({"m": m, "x": [*x[:79], None], "y": np.asarray(table["y"])})
    models = [
        TableModel("m", method=IndependentOCKSR()).fit(one) for one in (table, plain)
    ]
    rows = [
        library({"m": [0, 1], "x": [a, None], "y": [0.5, 0.5]}) for a in ("7,5", 7.5)
    ]
    found, wanted = (
        model.score(given) for model, given in zip(models, rows, strict=True)
    )
    assert models[0].columns_["kind"].tolist() == ["number", "number"]
    assert np.asarray(found["score"]).tolist() == np.asarray(wanted["score"]).tolist()
    scores = [
        model.score(library({"m": [0], "x": [x], "y": [0.5]}))["score"][0]
        for model, x in zip(models, ("7", 7.0), strict=True)
    ]
    assert scores[0] == scores[1]
    with pytest.raises(ValueError, match=r"'1,234' in the column 'x' may be 1234 or 1"):
        models[0].score(library({"m": [0], "x": ["1,234"], "y": [0.5]}))
    y = np.asarray(table["y"])
    codes = {"m": m, "x": ["1,234", "2,345"] * 40, "y": y}
    with pytest.raises(ValueError, match=r"'1,234' in the column 'x' may be 1234 or 1"):
        TableModel("m", method=IndependentOCKSR()).fit(library(codes))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_texts_stand_for_the_same_in_files_and_frames(library):
    """Decimal commas made numbers, and decimal points did not."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "m": np.arange(80) % 4,
            "x": [f"{v:.2f}" for v in 10 * rng.random(80)],
            "on": ["True", "false"] * 39 + ["NA", "true"],
            "when": [f"{1 + k % 28}.01.2026 {k % 24}:30" for k in range(80)],
            "kind": ["red", "blue", "none", "-"] * 20,
        }
    )
    frame = library(table.to_dict(as_series=False))
    columns = TableModel("m", method=IndependentOCKSR()).fit(frame).columns_
    kinds = dict(zip(columns["name"].tolist(), columns["kind"].tolist(), strict=True))
    assert kinds == {"x": "number", "on": "boolean", "when": "date", "kind": "text"}
    missing = dict(zip(columns["name"].tolist(), columns["missing"], strict=True))
    assert missing["kind"] == 0.5
    mixed = library({**table.to_dict(as_series=False), "x": [*table["x"][:79], "ERR"]})
    with pytest.raises(ValueError, match=r"Row 79 has 'ERR' among the numbers .* 'x'"):
        TableModel("m", method=IndependentOCKSR()).fit(mixed)


def test_missing_objects_of_pandas_are_gaps_and_arrays_are_texts():
    """`NA` has no truth value, and an array has several."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"m": np.arange(80) % 4, "x": rng.normal(size=80)})
    gap = rng.random(80) < 0.2
    table["y"] = rng.normal(size=80)
    table["on"] = rng.random(80) < 0.5
    table["sides"] = [np.arange(2 + k % 3) for k in range(80)]
    models = [
        TableModel("m", method=IndependentOCKSR()).fit(
            table.assign(
                y=table["y"].astype(object).mask(gap, marker),
                on=table["on"].astype(object).mask(gap, marker),
            )
        )
        for marker in (pd.NA, None, np.nan)
    ]
    for model in models:
        assert model.columns_["kind"].tolist() == [
            "number",
            "number",
            "boolean",
            "text",
        ]
        assert model.columns_["missing"].tolist() == [0.0, gap.mean(), gap.mean(), 0.0]
        assert model.score(table).equals(models[0].score(table))


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_texts_with_gaps_are_the_same_in_every_type_of_pandas(backend):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"m": np.arange(80) % 4, "x": rng.normal(size=80)})
    table["kind"] = np.where(rng.random(80) < 0.5, "red", "green")
    table["kind"] = table["kind"].astype(object).mask(rng.random(80) < 0.2)
    nullable = table.convert_dtypes(dtype_backend=backend)
    plain_model = TableModel("m", method=IndependentOCKSR()).fit(table)
    model = TableModel("m", method=IndependentOCKSR()).fit(nullable)
    expected = plain_model.score(table)["p_value"]
    np.testing.assert_array_equal(model.score(nullable)["p_value"], expected)
    missing = table["kind"].isna().mean()
    assert model.columns_["missing"][1] == pytest.approx(missing)


def test_decimal_points_and_commas_in_one_frame_are_refused_by_name():
    table = pd.DataFrame({"m": [0, 1] * 9, "x": ["1.5", "2.25"] * 9})
    table["y"] = ["1,5", "2,25"] * 9
    words = r"column 'x' has decimal points .* and column 'y' decimal commas \('1,5'\)"
    with pytest.raises(ValueError, match=words):
        TableModel("m", method=IndependentOCKSR()).fit(table)


def test_categories_stay_names_and_names_may_be_whole_numbers():
    rng = np.random.default_rng(0)
    code = pd.Series(rng.choice(["1", "2", "3"], 80))
    table = pd.DataFrame({"m": np.arange(80) % 4, "x": rng.normal(size=80)})
    model = TableModel("m", method=IndependentOCKSR())
    model.fit(table.assign(code=code.astype("category")))
    assert model.columns_["kind"].tolist() == ["number", "text"]
    rows = table.assign(code=code)
    wanted = model.score(rows).score
    assert model.score(rows.astype({"code": int})).score.equals(wanted)
    assert model.score(rows.astype({"code": float})).score.equals(wanted)
    with pytest.raises(ValueError, match=r"'code' was text .* and is numeric now"):
        model.score(rows.assign(code=0.5))


def test_columns_that_say_nothing_are_dropped_with_a_note():
    n = 60
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "same": 5.0,
            "nothing": [None] * n,
            "row_id": 1000 * rng.permutation(n),
            "order": 70_000 + 2 * rng.permutation(n),
            "counter": np.arange(n) * 3 + 7,
            "uuid": [f"u{i}" for i in range(n)],
            "price": [f"{i},{i:03d}" for i in range(n)],
            "load": [f"{i / 7:.1f} %" for i in range(n)],
            "day": pd.Timestamp("2024-01-01"),
            "days": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) % 5, "D"),
            "date": [f"{1 + i // 6}/1/2024" for i in range(n)],
        }
    )
    encoder = learn(table)
    assert encoder.layout.used == ["x"]
    words = {"same": "constant", "nothing": "no value", "row_id": "looks like an id"}
    words |= {
        "counter": "counter",
        "uuid": "name rows",
        "price": "looks like numbers",
        "load": "looks like",
    }
    words |= {
        "day": "no hour of day or weekday that varies",
        "days": "comes again",
        "order": "looks like an id",
        "date": "looks like dates",
    }
    for name, word in words.items():
        used, text = note(encoder, name)
        assert not used
        assert word in text


def test_whole_numbers_that_may_well_differ_are_measurements():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(10), 30)
    table = pd.DataFrame(
        {
            "bytes": rng.permutation(10**6)[:300],  # all different, and no wonder
            "speed": (1500 + 30 * rng.normal(size=300)).round(),
            "start": 10_000 * codes + rng.permutation(3000)[:300],
        }
    )
    assert learn(table, codes).layout.used == ["bytes", "speed", "start"]


def test_a_counter_inside_each_task_is_a_counter():
    codes = np.repeat(np.arange(5), 10)
    cycle = np.tile(np.arange(10), 5)
    mixed = np.random.default_rng(0).permutation(50)
    table = pd.DataFrame(
        {"cycle": cycle, "x": np.random.default_rng(1).normal(size=50)}
    )
    assert learn(table, codes).layout.used == ["x"]
    assert learn(table.iloc[mixed], codes[mixed]).layout.used == [
        "cycle",
        "x",
    ]  # not in order: no counter


def test_texts_that_never_return_are_a_counter():
    """Batches of one machine, or of all machines at a time; not what recurs."""
    # five machines, in time
    codes = np.tile(np.arange(5), 40)
    step = np.repeat(np.arange(40), 5)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "batch": [
                f"m{machine}-{turn // 4}"
                for machine, turn in zip(codes, step, strict=True)
            ],
            "week": [f"w{turn // 4}" for turn in step],
            "site": [f"s{machine}" for machine in codes],
            "product": [f"p{kind}" for kind in rng.integers(12, size=200)],
        }
    )
    encoder = learn(table, codes)
    assert encoder.layout.used == ["product", "site"]
    assert "looks like a batch name" in note(encoder, "batch")[1]
    # Sorted by machine, batches are what they were, and products in their order are
    # still used.
    by_machine = table.assign(codes=codes).sort_values(
        ["codes", "product"], kind="stable"
    )
    assert (
        "product"
        in learn(by_machine[["product"]], by_machine["codes"].to_numpy()).layout.used
    )
    order = np.argsort(codes, kind="stable")
    assert learn(table.iloc[order], codes[order]).layout.used == [
        "product",
        "site",
        "week",
    ]


def test_dates_give_cycles_only():
    when = pd.date_range("2024-01-01", periods=500, freq="h")
    table = pd.DataFrame({"when": when})
    encoder = learn(table)
    later = pd.DataFrame({"when": when + pd.Timedelta(weeks=520)})
    np.testing.assert_allclose(
        encode(encoder, later), encode(encoder, table), atol=1e-9
    )
    assert encoder.table["features"].tolist() == [4]


def test_rare_levels_are_one_and_new_levels_another():
    levels = ["a"] * 100 + ["b"] * 50 + ["c", "d"] * 2
    encoder = learn(pd.DataFrame({"kind": levels}))
    rows = encode(encoder, pd.DataFrame({"kind": ["a", "b", "c", "d", "e", "f"]}))
    assert np.array_equal(rows[2], rows[3])
    assert np.array_equal(rows[4], rows[5])
    assert len(np.unique(rows, axis=0)) == 4


def test_what_one_row_has_is_to_the_others_what_is_never_seen():
    levels = ["a"] * 100 + ["b"] * 50 + ["c", "d"]
    x = np.where(np.arange(152) == 7, np.nan, np.arange(152) % 5)
    table = pd.DataFrame({"kind": levels, "x": x})
    encoder = learn(table)
    assert note(encoder, "kind") == (
        True,
        "2 levels of one row each count as never seen",
    )
    known = encode(
        encoder, pd.DataFrame({"kind": ["c", "d", "a"], "x": [1.0, 1.0, np.nan]})
    )
    new = encode(
        encoder, pd.DataFrame({"kind": ["e", "f", "a"], "x": [1.0, 1.0, np.nan]})
    )
    np.testing.assert_allclose(known, new, atol=1e-5)
    without = learn(
        table.drop(index=150)
    )  # the row left out, its level is one never seen
    np.testing.assert_array_equal(encode(without, table[150:151])[:, :3], new[:1, :3])


def test_gaps_are_filled_by_the_task_then_by_all():
    codes = np.repeat([0, 1, 2], 20)
    x = np.concatenate(
        [np.linspace(0, 1, 20), np.linspace(9, 10, 20), np.full(20, np.nan)]
    )
    x[5] = np.nan
    encoder = learn(pd.DataFrame({"x": x}), codes)
    gap = pd.DataFrame({"x": [np.nan] * 4})
    rows = encode(encoder, gap, np.array([0, 1, 2, -1]))
    known = encode(encoder, pd.DataFrame({"x": x}), codes)
    observed = [np.setdiff1d(np.arange(20), [5]), np.arange(20, 40)]
    for row, mine in zip(rows, observed, strict=False):
        assert row[0] == pytest.approx(known[mine, 0].mean())
    assert (
        rows[2, 0]
        == rows[3, 0]
        == pytest.approx(known[np.concatenate(observed), 0].mean())
    )
    assert np.all(rows[:, 1] > 0)  # and an indicator says so
    assert np.isfinite(rows).all()


def related(n=40, seed=0):
    """Twenty tasks: `b` and `c` follow `a`; the second table lacks a tenth of them."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(20), n)
    a = rng.normal(size=len(codes))
    noise = rng.normal(size=(3, len(codes)))
    place = np.random.default_rng(1).normal(size=(3, 20))
    columns = [a + place[0, codes], 2.0 * a + 0.1 * noise[0] + 9.0 * place[1, codes]]
    columns += [5.0 - a + 0.1 * noise[1] + 3.0 * place[2, codes], noise[2]]
    table = pd.DataFrame(np.column_stack(columns), columns=list("abcd"))
    return (
        codes,
        table,
        table.mask((rng.random(table.shape) < 0.1) & (table.columns > "a")),
    )


def test_a_gap_gets_what_least_squares_expect_from_the_other_columns_and_the_task():
    codes, complete, table = related()
    encoder = learn(table, codes, linear=1.0)
    Z = encode(encoder, table, codes)
    truth = encode(encoder, complete, codes)
    own = truth - np.array([truth[codes == t].mean(axis=0) for t in range(20)])[codes]
    for lost, known in (((1,), (0, 2, 3)), ((1, 2), (0, 3)), ((3,), (0, 1, 2))):
        rows = (table.isna().to_numpy() == np.isin(np.arange(4), lost)).all(axis=1)
        slopes = np.linalg.lstsq(own[:, known], own[:, lost], rcond=None)[0]
        expected = (
            truth[rows][:, lost] - own[rows][:, lost] + own[rows][:, known] @ slopes
        )
        error = np.abs(Z[rows][:, lost] - expected) / own[:, lost].std(axis=0)
        assert rows.sum() > 5 and np.sqrt(np.mean(error**2)) < 0.1
    unknown = encode(encoder, table, np.full(len(codes), -1))
    assert len(np.unique(unknown[table.b.isna(), 1])) == 1  # the mean of all


def test_what_a_gap_gets_does_not_depend_on_other_rows_and_stays_in_range():
    codes, _, table = related()
    encoder = learn(table, codes)
    order = np.random.default_rng(2).permutation(len(table))
    Z = encode(encoder, table, codes)
    again = learn(table.iloc[order], codes[order])
    np.testing.assert_allclose(encode(again, table, codes), Z, atol=1e-10)
    for row in np.flatnonzero(table.b.isna())[:5]:
        alone = encode(encoder, table[row : row + 1], codes[row : row + 1])
        np.testing.assert_allclose(alone[0], Z[row], atol=1e-12)
    wild = encode(
        encoder, pd.DataFrame({"a": [1e9], "b": np.nan, "c": 0.0, "d": 0.0}), codes[:1]
    )
    assert wild[0, 0] > 100 and Z[:, 1].min() <= wild[0, 1] <= Z[:, 1].max()


def test_without_a_gap_no_relation_is_learned():
    codes, complete, _ = related()
    assert learn(complete, codes).precision is None


def test_gaps_of_levels_and_of_true_and_false_get_the_value_that_is_usual_in_the_task():
    codes = np.repeat([0, 1], 20)
    kind = ["a"] * 15 + ["b"] * 4 + [None] + ["b"] * 19 + [None]
    flag = [True] * 15 + [False] * 4 + [None] + [False] * 19 + [None]
    table = pd.DataFrame({"kind": kind, "flag": pd.array(flag, dtype="boolean")})
    encoder = learn(table, codes)
    Z = encode(encoder, table, codes)
    like = np.isin(encoder.layout.source, [0, 1]) & (
        np.arange(Z.shape[1]) < len(encoder.layout.source) - 3
    )
    np.testing.assert_array_equal(Z[19, like], Z[0, like])
    np.testing.assert_array_equal(Z[39, like], Z[20, like])


def test_texts_that_look_like_numbers_are_told_where_they_are_used_too():
    power = [f"{k % 60}.5 kW" for k in range(300)]
    used, words = note(learn(pd.DataFrame({"power": power})), "power")
    assert used and "looks like numbers, convert it" in words


def test_infinities_are_wild_unless_they_are_everyday():
    x = np.random.default_rng(0).normal(size=50)
    rows = encode(
        learn(pd.DataFrame({"x": x})), pd.DataFrame({"x": [np.inf, -np.inf, 0.0]})
    )
    assert rows[0, 0] > 100 > -100 > rows[1, 0]
    seen = learn(pd.DataFrame({"x": np.append(x, np.inf)}))
    rows = encode(seen, pd.DataFrame({"x": [np.inf]}))
    assert np.abs(rows).max() < 3


def test_ranges_reach_to_the_end_of_numbers_without_a_word():
    with warnings.catch_warnings(action="error"):
        values = np.array([[1.0], [2.0], [3.0], [1e308]])
        ranges, _ = learn_ranges(values, np.arange(4))
    assert ranges.upper == 1e308 and ranges.above == np.inf


def test_a_column_that_changed_is_refused_by_name():
    table = pd.DataFrame(
        {"x": np.random.default_rng(0).normal(size=30), "k": ["a", "b"] * 15}
    )
    encoder = learn(table)
    with pytest.raises(ValueError, match=r"'1.5 mm' in the column 'x', which was num"):
        encode(encoder, pd.DataFrame({"x": ["1.5 mm", "2"], "k": ["a", "b"]}))
    with pytest.raises(ValueError, match=r"'k' was text .* is numeric now"):
        encode(encoder, pd.DataFrame({"x": [1.0], "k": [3.0]}))
    with pytest.raises(ValueError, match="no column 'k'"):
        encode(encoder, pd.DataFrame({"x": [1.0]}))
    with pytest.raises(ValueError, match=r"'x' was numeric .* is List"):
        encode(encoder, pl.DataFrame({"x": [[1.0, 2.0]], "k": ["a"]}))
    for nothing in (
        None,
        np.nan,
    ):  # a column of texts without any is read as numbers by pandas
        empty = pd.DataFrame({"x": [nothing], "k": [nothing]})
        assert np.isfinite(encode(encoder, empty)).all()


def test_the_library_does_not_matter():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "x": rng.normal(size=40),
            "n": rng.integers(0, 9, size=40),
            "wide": 2**53 + rng.integers(0, 10**6, size=40),
            "long": pd.to_timedelta(rng.integers(10**5, 2 * 10**5, size=40), "D"),
            "b": rng.random(40) < 0.5,
            "k": rng.choice(["u", "v"], size=40),
            "t": pd.date_range("2024-01-01", periods=40, freq="7h"),
        }
    )
    table.loc[3, "x"] = np.nan
    expected = encode(learn(table), table)
    for other in (pl.from_pandas(table), pa.Table.from_pandas(table)):
        np.testing.assert_allclose(encode(learn(other), other), expected, atol=1e-12)


def test_what_stands_for_gaps_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), 25)
    values = rng.normal(size=(100, 3)) @ rng.normal(size=(3, 3))
    values[rng.random(values.shape) < 0.1] = np.nan
    table = pd.DataFrame(values, columns=["x", "y", "z"])
    encoder = learn(table, codes)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(100)
        other = learn(table.iloc[order], codes[order])
        # To the last bit: some methods make much of less.
        np.testing.assert_array_equal(other.fill, encoder.fill)
        np.testing.assert_array_equal(other.precision, encoder.precision)


def test_curves_do_not_depend_on_the_order_of_rows():
    values = np.random.default_rng(0).lognormal(size=300)
    for make in (Curve.learn_swing, lambda x: Curve.learn(x, 0.5)):
        curve = make(values)
        for seed in range(5):
            other = make(np.random.default_rng(seed).permutation(values))
            np.testing.assert_array_equal(other.knots, curve.knots)
            np.testing.assert_array_equal(other.scores, curve.scores)
            np.testing.assert_array_equal(other.slopes, curve.slopes)


def test_labels_are_whole_numbers_or_texts():
    table = pd.DataFrame(
        {"a": [1.0, 2.0, None], "b": ["x", "y/z", "w"], "c": [True, False, True]}
    )
    frame = as_table(table)
    assert task_labels(frame, ["a"]).tolist() == [1, 2, None]
    assert task_labels(frame, ["c"]).tolist() == ["True", "False", "True"]
    assert task_labels(frame, ["a", "b"]).tolist() == ["1 / x", "2 / y\\/z", None]


def test_what_is_no_table_is_refused():
    twice = pd.DataFrame([[1, 2]], columns=["x", "x"])
    for table, word in ((twice, "several columns"), (np.zeros((2, 2)), "data frame")):
        with pytest.raises(ValueError, match=word):
            as_table(table)
    with pytest.raises(ValueError, match="collect"):
        as_table(pl.DataFrame({"x": [1]}).lazy())
