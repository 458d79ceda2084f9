"""Tables in files: read whole or in blocks, written whole or not at all."""

import gzip
import io
import re
import sys
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manyone.tablefiles import (
    TableFileError,
    check_output,
    read_blocks,
    read_table,
    reading,
    table_writer,
)

TABLE = pl.DataFrame(
    {"name": ["a", "b,\n", 'c"🙂'] * 50, "x": [1.5, None, -1e300] * 50}
)


class Stdin:
    def __init__(self, content):
        self.buffer = io.BufferedReader(io.BytesIO(content))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_what_is_written_is_read(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"table{suffix}"
    with table_writer(path) as add:
        for start in range(0, 150, 40):
            add(TABLE[start : start + 40])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert read_table(path).equals(TABLE)
    other = path.rename(tmp_path / "other.txt")  # the content says what it is
    assert read_table(other).equals(TABLE)
    monkeypatch.setattr(sys, "stdin", Stdin(other.read_bytes()))
    assert read_table(Path("-")).equals(TABLE)


def test_files_are_read_where_stdin_is_closed(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n")
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it in a process without one
    assert read_table(path).rows() == [(1, 2)]
    with pytest.raises(TableFileError, match="stdin is closed"):
        read_table(Path("-"))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_blocks_are_the_table_in_pieces(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"table{suffix}"
    with table_writer(path) as add:
        add(TABLE)
    monkeypatch.setattr(reading, "_CHUNK", 100)
    monkeypatch.setattr(reading, "_ROWS", 7)
    blocks = list(read_blocks(path, {"x": "number"}))
    assert len(blocks) > 3 and pl.concat([block.table for block in blocks]).equals(
        TABLE
    )
    rows = [len(block.table) for block in blocks]
    assert [block.first_row for block in blocks] == [
        sum(rows[:k]) for k in range(len(rows))
    ]
    done = [block.done for block in blocks]
    assert done == sorted(done) and done[-1] == 1.0


NUMBERS = st.sampled_from(
    ["1", "1,234", "3.375", "7,82", "2.64", "1.234,5", "1,234.5", "0.125"]
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=2, max_size=4),
    st.sampled_from(",;"),
)
@example([("5", "7,82", "2.64"), ("1,234", "7,82", "2.64")], ",")
@pytest.mark.filterwarnings("ignore")
def test_numbers_of_blocks_are_those_of_the_table_or_refused(rows, delimiter):
    """A file whose decimals are written in another way further down is refused."""
    lines = [
        delimiter.join(f'"{text}"' for text in row) for row in (("a", "b", "c"), *rows)
    ]
    kinds = dict.fromkeys("abc", "number")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "rows.csv"
        path.write_text("\n".join(lines))
        patch.setattr(reading, "_CHUNK", 1)  # a block for each row
        try:
            parts = pl.concat(
                [b.table.cast(pl.Float64) for b in read_blocks(path, kinds)]
            )
        except TableFileError as error:
            place = (
                r"column '[abc]', row \d: '.*' is not written as the numbers before|"
                r"column '[abc]' has decimal points .* "
                r"and column '[abc]' decimal commas"
            )
            assert re.search(place, str(error))
            return
        assert parts.equals(read_table(path, kinds=kinds, find=()).cast(pl.Float64))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_table_that_fails_half_way_leaves_nothing(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    path.write_text("mine")
    with pytest.raises(ZeroDivisionError), table_writer(path) as add:  # noqa: PT012
        add(TABLE)
        1 / 0  # noqa: B018
    assert path.read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


def test_stdout_gets_everything_or_nothing(capfdbinary):
    with pytest.raises(ZeroDivisionError), table_writer(Path("-")) as add:  # noqa: PT012
        add(TABLE)
        1 / 0  # noqa: B018
    assert capfdbinary.readouterr().out == b""
    with table_writer(Path("-")) as add:
        add(TABLE)
    assert pl.read_csv(capfdbinary.readouterr().out).equals(TABLE)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,b\n", "a header and no rows"),
        (
            b"PK\x03\x04" + bytes(99),
            "damaged or cut off",
        ),
        (b"PAR1" + bytes(99), "cannot be read as Parquet"),
        (gzip.compress(b"a,b\n1,2\n" * 999)[:-20], "is damaged or cut off"),
        (
            gzip.compress(b"a,b\n1,2\n" * 999)[:20] + b"\xff" * 40,
            "is damaged or cut off",
        ),
    ],
    ids=[
        "header",
        "zip",
        "parquet",
        "gzip-cut",
        "gzip-damaged",
    ],  # bytes hold the time of day
)
def test_files_that_are_no_tables(tmp_path, content, words):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(TableFileError, match=words):
        read_table(path)
    with pytest.raises(TableFileError, match=words):
        list(read_blocks(path, {}))


def test_damaged_parquet_is_refused_wherever_it_is_cut(tmp_path):
    path = tmp_path / "table.parquet"
    TABLE.write_parquet(path)
    content = path.read_bytes()
    for end in range(4, len(content), 97):
        path.write_bytes(content[:end])
        with pytest.raises(TableFileError, match="cannot be read as Parquet"):
            read_table(path)


def test_places_to_write_are_looked_at_first(tmp_path):
    check_output("--out", Path("-"))
    check_output("--out", tmp_path / "scores.csv.gz")
    for name, words in [
        ("scores.xlsx", r"ends in .csv, .csv.gz or .parquet"),
        ("no/scores.csv", r"there is no folder"),
        (".", r"ends in"),
    ]:
        with pytest.raises(TableFileError, match=words):
            check_output("--out", tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableFileError, match="is a folder"):
        check_output("--out", tmp_path / "folder.csv")
