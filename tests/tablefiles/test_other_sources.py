"""Workbooks and queries give the same rows as text files."""

import subprocess
import sys
import zipfile

import numpy as np
import polars as pl
import pytest

from manyone.tablefiles import Query, TableFileError, open_tail, read_blocks, read_table

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("fastexcel")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    when = pl.datetime_range(
        pl.datetime(2026, 1, 1), pl.datetime(2026, 1, 2), "1h", eager=True
    )
    return pl.DataFrame(
        {
            "machine": ["lathe", "press"] * 12 + ["press"],
            "when": when.cast(pl.Datetime("us")),
            "load": np.where(np.arange(25) == 4, np.nan, rng.normal(size=25)),
            "mode": ["on", None, "off", "on", "idle"] * 5,
            "parts": rng.integers(0, 99, 25),
        },
        nan_to_null=True,
    )


@pytest.fixture(scope="module")
def places(table, tmp_path_factory):
    """The same table as text, as a workbook, in a folder, and in a database."""
    folder = tmp_path_factory.mktemp("sources")
    table.write_csv(folder / "rows.csv")
    (folder / "parts").mkdir()
    table[:11].write_parquet(folder / "parts" / "1.parquet")
    table[11:].write_parquet(folder / "parts" / "2.parquet")
    pytest.importorskip("xlsxwriter")
    table.write_excel(folder / "rows.xlsx", float_precision=15)
    with duckdb.connect(folder / "rows.duckdb") as connection:
        connection.register("given", table.to_arrow())
        connection.execute("CREATE TABLE rows AS SELECT * FROM given")
    return folder


def sources(folder):
    return {
        "workbook": folder / "rows.xlsx",
        "folder": folder / "parts",
        "database": Query("SELECT * FROM rows ORDER BY rowid", folder / "rows.duckdb"),
        "files": Query(f"SELECT * FROM '{folder}/rows.csv'"),
    }


@pytest.mark.parametrize("kind", ["workbook", "folder", "database", "files"])
def test_rows_are_those_of_the_text_file(places, table, kind):
    rows = read_table(sources(places)[kind])
    assert rows.columns == table.columns
    assert rows["machine"].to_list() == table["machine"].to_list()
    assert rows["mode"].to_list() == table["mode"].to_list()
    np.testing.assert_allclose(
        rows["load"].cast(float).to_numpy(), table["load"].to_numpy(), rtol=1e-12
    )
    assert rows["when"].cast(pl.Datetime("us")).to_list() == table["when"].to_list()
    blocks = list(read_blocks(sources(places)[kind], {}))
    assert sum(len(block.table) for block in blocks) == len(table)
    assert blocks[-1].done == 1.0


def test_a_query_is_watched_as_a_file_that_grows(tmp_path):
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE rows AS SELECT range AS x FROM range(5)")
    query = Query("SELECT x FROM rows ORDER BY x", path)

    def read(before):
        with open_tail(query, {}, before, time_formats={}, bad_values="refuse") as tail:
            rows = [value for block in tail.blocks(2) for value in block.table["x"]]
            return rows, tail.consumed, tail.fate

    rows, consumed, _ = read(None)
    assert rows == [0, 1, 2, 3, 4]
    assert read(consumed)[0] == []
    with duckdb.connect(path) as connection:
        connection.execute("INSERT INTO rows VALUES (5), (6)")
    assert read(consumed)[0] == [5, 6]
    with duckdb.connect(path) as connection:
        connection.execute("DELETE FROM rows WHERE x = 2")
    rows, _, fate = read(consumed)
    assert fate == "changed" and rows == [0, 1, 3, 4, 5, 6]


def test_wide_numbers_of_a_database_are_numbers(tmp_path):
    query = Query(
        "SELECT sum(range) AS total, 1.25::DECIMAL(9, 2) AS price FROM range(9)"
    )
    rows = read_table(query)
    assert rows.row(0) == (36.0, 1.25)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELEC 1", "syntax error"),
        ("SET threads = 1", "no rows"),
        ("SELECT 1 AS a, 2 AS b, 3 AS a", "several columns 'a'"),
        ("SELECT 1 AS a, INTERVAL 1 DAY AS b", "column 'b' .* INTERVAL"),
        ("SELECT [INTERVAL 1 DAY] AS a", r"column 'a' .* INTERVAL\[\]"),
        ("SELECT union_value(a := 1) AS a", "column 'a' .* UNION"),
    ],
)
def test_a_query_that_fails_is_named(query, said):
    with pytest.raises(TableFileError, match=said) as caught:
        read_table(Query(query))
    assert query in str(caught.value) and "\n" not in str(caught.value)


def test_a_process_that_reads_a_query_says_nothing_at_its_end():
    """duckdb told of leaks, in forty lines on stderr."""
    code = "from manyone.tablefiles import Query, read_table; "
    code += "assert read_table(Query('SELECT 1 AS a')).rows() == [(1,)]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_database_is_never_written(places):
    before = (places / "rows.duckdb").read_bytes()
    with pytest.raises(TableFileError, match="read-only"):
        read_table(Query("DELETE FROM rows", places / "rows.duckdb"))
    with pytest.raises(TableFileError, match="no such file"):
        read_table(Query("SELECT 1", places / "other.duckdb"))
    assert (places / "rows.duckdb").read_bytes() == before
    assert not (places / "other.duckdb").exists()


def test_other_archives_and_cut_workbooks_are_refused(places, tmp_path):
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("rows.csv", "a,b\n1,2\n")
    with pytest.raises(TableFileError, match="no workbook"):
        read_table(other)
    cut = tmp_path / "cut.xlsx"
    cut.write_bytes((places / "rows.xlsx").read_bytes()[:2000])
    with pytest.raises(TableFileError, match="cut off"):
        read_table(cut)


def test_a_bomb_is_refused_before_it_is_unpacked(places, tmp_path, monkeypatch):
    monkeypatch.setattr("manyone.tablefiles.reading._LARGEST_WORKBOOK", 1000)
    with pytest.raises(TableFileError, match="unpacks to"):
        read_table(places / "rows.xlsx")
