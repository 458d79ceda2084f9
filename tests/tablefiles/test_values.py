"""Strings become what they stand for, by one rule for every column."""

from datetime import UTC, datetime

import polars as pl
import pytest

from manyone.tablefiles import TableFileError, read_blocks, read_table
from manyone.tablefiles.columns import TextColumns
from manyone.tablefiles.values import (
    decimal_style,
    different_values,
    kind_of,
    value_of,
)


def values(texts, delimiter=",", bad_values="refuse", **others):
    table = pl.DataFrame(
        {"x": texts, **others}, schema_overrides=dict.fromkeys(["x"], pl.String)
    )
    columns = TextColumns("rows.csv", {}, bad_values=bad_values)
    columns.find_style(table, delimiter, table.columns)
    columns.find_kinds(table, table.columns)
    found = columns.convert(table)["x"].to_list()
    columns.warn_of_bad()
    return found


EXAMPLES = [
    (["1", " 2 ", None, "-3"], [1, 2, None, -3]),
    (
        ["1.5", "NA", "n/a", "-", "1e-3", "inf"],
        [1.5, None, None, None, 1e-3, float("inf")],
    ),
    (["1,234.5", "12", "1,000,000"], [1234.5, 12.0, 1e6]),
    (["0,5", "1.234,5", "12"], [0.5, 1234.5, 12.0]),
    (["1 234,5", "0,25"], [1234.5, 0.25]),
    (["true", "False", None], [True, False, None]),
    (
        ["2026-01-31", "2026-02-01T12:30"],
        [datetime(2026, 1, 31), datetime(2026, 2, 1, 12, 30)],
    ),
    (
        ["2026-01-31 12:00:00Z", "2026-01-31T12:00:00.5+02:00"],
        [
            datetime(2026, 1, 31, 12, tzinfo=UTC),
            datetime(2026, 1, 31, 10, 0, 0, 500000, UTC),
        ],
    ),
    (
        ["31.01.2026 9:05", "1.2.2026"],
        [datetime(2026, 1, 31, 9, 5), datetime(2026, 2, 1)],
    ),
    (
        ["2026/01/31 12:00", "2026/2/1"],
        [datetime(2026, 1, 31, 12), datetime(2026, 2, 1)],
    ),
    (["2026-13-45"], ["2026-13-45"]),
    (["31/01/2026"], ["31/01/2026"]),
    (["a", "1", "NA", None], ["a", "1", "NA", None]),
    ([None, "", None], [None, "", None]),
    (["9" * 30, "1"], [1e30, 1.0]),
]


@pytest.mark.parametrize(("texts", "wanted"), EXAMPLES)
def test_what_strings_stand_for(texts, wanted):
    assert values(texts) == wanted


NUMBERS_AND_DATES = [
    ["1", "-2.5", "1e-3", "inf"],
    ["1", "2", "30"],
    ["2026-01-31", "2026-02-28"],
    ["2026-01-31 12:00:01", "2026-02-01 00:00:00"],
    ["2026-1-5 9:05", "2026-02-01 00:00"],
    ["0,5", "12", "-1,25"],
]


@pytest.mark.parametrize("texts", [*(each[0] for each in EXAMPLES), *NUMBERS_AND_DATES])
@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.filterwarnings("ignore")
def test_frames_read_the_same_values_as_files(texts, delimiter):
    """What is read at once, as machines write it, is what is read text by text."""
    found = values(texts, delimiter)
    different = different_values(texts)
    style = decimal_style({"x": different}) or (
        "comma" if delimiter == ";" else "point"
    )
    kind = kind_of(different, style).kind
    if kind == "text":
        assert found == texts
        return
    for text, value in zip(texts, found, strict=True):
        number = value_of(text or "", kind, style)
        if value is None:
            assert number != number
        elif kind == "date":
            assert value.replace(tzinfo=UTC).timestamp() == number
        else:
            assert value == number


def test_what_can_be_read_two_ways_follows_the_file():
    with pytest.warns(UserWarning, match=r"'x': '1,234' is read as 1234"):
        assert values(["1,234", "2"]) == [1234, 2]
    with pytest.warns(UserWarning, match=r"'x': '1.234' is read as 1234"):
        assert values(["1.234", "2"], delimiter=";") == [1234, 2]
    assert values(["1,234", "2"], delimiter=";") == [1.234, 2.0]
    assert values(["1,234", "2"], y=["0,5", "1"]) == [1.234, 2.0]
    assert values(["1.234", "2.000"], y=["0,5", "1"]) == [1234, 2000]


@pytest.mark.parametrize(
    "decider", [["46.7249", "1"], ["0.123", "inf"], ["-1.5", "n/a"]]
)
@pytest.mark.filterwarnings("error")
def test_points_before_decimals_are_seen_between_semicolons_too(decider):
    assert values(["268.922", "1"], delimiter=";", y=decider) == [268.922, 1.0]
    assert values(["0,123", "1,234"], y=["5", "7"]) == [0.123, 1.234]


def test_columns_that_disagree_about_decimals_are_refused_by_name():
    """A column with 2.64 beside 3.375, and another with 7,82: one style a file."""
    words = (
        r"column 'x' has decimal points \('2.64'\) and column 'y' decimal commas "
        r"\('7,82'\). Write all of the file with a decimal point, or leave one"
    )
    for delimiter in ",;":
        with pytest.raises(TableFileError, match=words):
            values(["2.64", "3.375"], delimiter, y=["7,82", "9,9"])


def test_points_and_commas_before_decimals_in_one_column_are_refused():
    texts = [f"{k},5" for k in range(60)]
    with pytest.raises(
        TableFileError,
        match=r"row 60: '2.64' among numbers with a decimal comma. Write all of the",
    ):
        values([*texts, "2.64"], delimiter=";")


def test_a_word_among_many_numbers_is_refused_and_codes_are_texts():
    numbers = [f"{k / 7:.3f}" for k in range(99)]
    with pytest.raises(TableFileError, match=r"column 'x', row 3: 'ERR' among numbers"):
        values([*numbers[:3], "ERR", *numbers[3:]])
    codes = ["1", "2", "3", "A"] * 30
    assert values(codes) == codes


def test_known_kinds_are_kept_to(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("code,x,t\n007,1,2026-01-31\n008,,\n")
    table = read_table(path, kinds={"code": "text"})
    assert table["code"].to_list() == ["007", "008"] and table["x"].to_list() == [
        1,
        None,
    ]
    assert read_table(path, kinds={"x": "number"}, find=())["t"].to_list() == [
        "2026-01-31",
        None,
    ]
    path.write_text("code,x\na,1\nb,two\n")
    with pytest.raises(
        TableFileError, match=r"'x', row 1: 'two' is not a number. Mend it"
    ):
        read_table(path, kinds={"x": "number"}, find=())


def test_bad_values_may_be_taken_as_missing():
    numbers = [f"{k / 7:.3f}" for k in range(99)]
    texts = [*numbers[:3], "ERR", *numbers[3:], "ERR", "??"]
    words = "3 bad values taken as missing, by column: 'x' 3. .* row 3: 'ERR'"
    with pytest.warns(UserWarning, match=words):
        found = values(texts, bad_values="missing")
    assert [found[k] for k in (3, 100, 101)] == [None] * 3
    assert found[4] == float(numbers[3])


def test_dates_in_a_form_that_is_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,when\n1,01/31/2026 9:05\n2,\n3,02/01/2026 23:00\n")
    form = {"when": "%m/%d/%Y %H:%M"}
    wanted = [datetime(2026, 1, 31, 9, 5), None, datetime(2026, 2, 1, 23)]
    assert read_table(path, time_formats=form)["when"].to_list() == wanted
    (block,) = read_blocks(path, {}, time_formats=form)
    assert block.table["when"].to_list() == wanted
    parquet = tmp_path / "rows.parquet"
    pl.read_csv(path).write_parquet(parquet)
    assert read_table(parquet, time_formats=form)["when"].to_list() == wanted
    (block,) = read_blocks(parquet, {}, time_formats=form)
    assert block.table["when"].to_list() == wanted
    path.write_text("x,when\n1,01/31/2026 9:05\n2,2026-02-01\n")
    words = (
        r"'when', row 1: '2026-02-01' is not written as "
        r"the time format '%m/%d/%Y %H:%M'"
    )
    with pytest.raises(TableFileError, match=words):
        read_table(path, time_formats=form)


def test_names_that_are_whole_numbers_are_numbers(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("shop,x\n7,1\n10,2\n,3\n")
    assert read_table(path, labels=["shop"])["shop"].to_list() == [7, 10, None]
    path.write_text("shop,x\n07,1\n10,2\n")
    assert read_table(path, labels=["shop"])["shop"].to_list() == ["07", "10"]


def test_columns_that_are_not_wanted_stay_texts(tmp_path):
    path = tmp_path / "rows.csv"
    lines = [f"{k}.5,{k}" for k in range(60)]
    path.write_text("x,zip\n" + "\n".join([*lines, "1.5,WX1 6LT"]))
    table = read_table(path, kinds={"zip": "text"})
    assert table["zip"][60] == "WX1 6LT" and table["x"][0] == 0.5
