"""What the commands take out of text files, and that frames give the same."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import manyone
from manyone import TableModel
from manyone.cli import main

FIT = ["--task", "shop", "--anomalies", "faults", "--no-tune", "--out", "m.manyone"]


@pytest.fixture
def shops(here):
    """shops.csv and later.csv: whole numbers for ids, and columns of every kind."""
    rng = np.random.default_rng(0)
    n = 300
    when = pd.date_range("2026-01-01", periods=n, freq="7h")
    table = pd.DataFrame(
        {
            "shop": 1 + np.arange(n) % 12,
            "when": when.strftime("%Y-%m-%d %H:%M"),
            "sales": rng.normal(100, 5, n).round(2),
            "open": rng.random(n) < 0.8,
            "kind": rng.choice(["big", "small"], n),
            "temperature": [
                f"{v:.1f}" if v < 27 else "NA" for v in rng.normal(20, 4, n)
            ],
        }
    )
    table.to_csv("shops.csv", index=False)
    table.head(60).to_csv("later.csv", index=False)
    return table


def test_the_same_file_gives_the_same_model_by_pandas(shops):
    assert main(["fit", "shops.csv", *FIT]) == 0
    by_command = manyone.load("m.manyone")
    frame = pd.read_csv("shops.csv")
    model = TableModel("shop", anomalies="faults", method="default", random_state=0)
    by_pandas = model.fit(frame)
    for name in ("name", "kind", "used", "features", "missing", "note"):
        assert by_command.columns_[name].tolist() == by_pandas.columns_[name].tolist()
    assert by_command.tasks_.tolist() == by_pandas.tasks_.tolist()
    rows = pd.read_csv("later.csv")
    assert np.array_equal(by_command.pvalues(rows), by_pandas.pvalues(rows))
    assert main(["score", "m.manyone", "later.csv", "--out", "s.csv"]) == 0
    scores = pl.read_csv("s.csv")
    assert scores["p_value"].to_numpy() == pytest.approx(by_pandas.pvalues(rows))


@pytest.mark.parametrize(
    "library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas]
)
@pytest.mark.parametrize("ids", [int, str])
def test_ids_of_files_are_those_of_frames(shops, library, ids):
    """A model of the command refused the frame that the file holds."""
    rows = pd.read_csv("later.csv").astype({"shop": ids})
    assert main(["fit", "shops.csv", *FIT]) == 0
    model = manyone.load("m.manyone")
    wanted = model.pvalues(pd.read_csv("later.csv"))
    scores = model.score(library(rows), unknown="error")
    assert np.asarray(scores["p_value"]) == pytest.approx(wanted)
    frame = pd.read_csv("shops.csv").astype({"shop": ids})
    other = TableModel("shop", anomalies="faults", method="default", random_state=0)
    manyone.save(other.fit(library(frame)), "frame.manyone")
    for name in ("later.csv", "later.parquet"):
        pl.from_pandas(pd.read_csv("later.csv")).write_parquet("later.parquet")
        command = ["score", "frame.manyone", name, "--unknown", "error"]
        assert main([*command, "--out", "s.csv"]) == 0
        found = pl.read_csv("s.csv")["p_value"].to_numpy()
        assert found == pytest.approx(np.asarray(other.pvalues(library(rows))))


def test_a_column_that_is_ignored_is_not_looked_at(shops, capsys):
    """`--ignore zip` was the remedy named for zip, and refused all the same."""
    codes = [f"{10_000 + k}" for k in range(len(shops))]
    codes[16] = "WX1 6LT"
    shops.assign(zip=codes).to_csv("shops.csv", index=False)
    assert main(["fit", "shops.csv", *FIT]) == 2
    err = capsys.readouterr().err
    assert "column 'zip', row 16: 'WX1 6LT' among numbers" in err
    assert "--bad-values missing" in err and "--ignore" in err
    assert main(["fit", "shops.csv", *FIT, "--ignore", "zip"]) == 0
    assert main(["score", "m.manyone", "shops.csv", "--out", "s.csv"]) == 0
    frame = pd.read_csv("shops.csv")
    with pytest.raises(ValueError, match=r"Row 16 has 'WX1 6LT' among the numbers"):
        TableModel("shop").fit(frame)
    assert len(manyone.load("m.manyone").score(frame)) == len(frame)


def test_one_bad_cell_need_not_stop_the_night(shops, capsys):
    lines = (pd.read_csv("later.csv", dtype=str)).fillna("")
    lines.loc[[3, 9], "sales"] = "ERR"
    lines.loc[5, "open"] = "perhaps"
    lines.to_csv("later.csv", index=False)
    assert main(["fit", "shops.csv", *FIT]) == 0
    score = ["score", "m.manyone", "later.csv", "--out", "s.csv"]
    capsys.readouterr()
    assert main(score) == 2
    assert "column 'sales', row 3: 'ERR' is not a number" in capsys.readouterr().err
    for options in ([], ["--fdr", "0.2"]):
        assert main([*score, "--bad-values", "missing", *options]) == 0
        err = capsys.readouterr().err
        assert "3 bad values taken as missing, by column: 'sales' 2, 'open' 1" in err
        assert "column 'sales', row 3: 'ERR'" in err
    assert len(pl.read_csv("s.csv")) == 60
    bad = pd.read_csv("shops.csv", dtype=str)
    bad.loc[7, "sales"] = "ERR"
    bad.to_csv("shops.csv", index=False)
    assert main(["fit", "shops.csv", *FIT, "--bad-values", "missing"]) == 0
    assert "1 bad value taken as missing" in capsys.readouterr().err
    columns = manyone.load("m.manyone").columns_
    missing = dict(zip(columns["name"].tolist(), columns["missing"], strict=True))
    assert missing["sales"] == pytest.approx(1 / 300)


def test_times_as_they_are_written_in_the_us(shops, capsys):
    us = pd.read_csv("shops.csv", parse_dates=["when"])
    us["when"] = us.when.dt.strftime("%m/%d/%Y %H:%M")
    us.to_csv("us.csv", index=False)
    us.head(60).to_csv("us_later.csv", index=False)
    assert main(["fit", "us.csv", *FIT, "--time", "when"]) == 2
    err = capsys.readouterr().err
    assert "row 0 has '01/01/2026 00:00', which is no time" in err
    assert '"%m/%d/%Y %H:%M", or "%d/%m/%Y %H:%M" with the day first' in err
    form = ["--time", "when", "--time-format", "%m/%d/%Y %H:%M"]
    assert main(["fit", "us.csv", *FIT, *form]) == 0
    found = manyone.load("m.manyone")
    assert main(["fit", "shops.csv", *FIT, "--time", "when"]) == 0
    wanted = manyone.load("m.manyone")
    rows = pd.read_csv("later.csv")
    assert np.array_equal(found.pvalues(rows), wanted.pvalues(rows))
    manyone.save(found, "us.manyone")
    watch = ["watch", "us.manyone", "us_later.csv", "--state", "w", "--out", "w.csv"]
    capsys.readouterr()
    assert main(watch) == 0
    assert "older than a row" not in capsys.readouterr().err
    assert main(["report", "us.manyone", "us_later.csv", "--out", "p.html"]) == 0
    assert main(["fit", "us.csv", *FIT, "--time-format", "%d"]) == 2
    assert "Give --time too" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("options", [[], ["--fdr", "0.1"]])
def test_a_header_without_rows_has_answers_without_rows(shops, capsys, suffix, options):
    assert main(["fit", "shops.csv", *FIT]) == 0
    empty = pl.read_csv("later.csv").clear()
    empty.write_csv("empty.csv")
    empty.write_parquet("empty.parquet")
    capsys.readouterr()
    command = ["score", "m.manyone", f"empty{suffix}", "--explain", "1", *options]
    assert main([*command, "--out", f"s{suffix}"]) == 0
    read = pl.read_csv if suffix == ".csv" else pl.read_parquet
    names = ["row", "task", "score", "p_value", "alarm", "basis", "reason_1"]
    scores = read(f"s{suffix}")
    assert scores.columns == names and len(scores) == 0
    assert re.search(r"0 rows of 0 tasks, 0 alarms", capsys.readouterr().out)
    assert main(["fit", f"empty{suffix}", *FIT]) == 2
    assert "no rows" in capsys.readouterr().err
