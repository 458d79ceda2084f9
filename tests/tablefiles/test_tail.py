"""Files that grow: every row once, wherever they were cut."""

import gzip

import numpy as np
import polars as pl
import pytest

from manyone.tablefiles import TableFileError, open_tail

KINDS = {"value": "number"}
TEXT = (
    'name,value\n"a, b",1.5\n\n"two\nlines",2\né,3\r\n"say ""x""",-4\nplain,5.25\n'
).encode()
ROWS = [("a, b", 1.5), ("two\nlines", 2), ("é", 3), ('say "x"', -4), ("plain", 5.25)]


def read(path, before=None, most_rows=2, kinds=KINDS):
    """New rows of a file, and its tail."""
    options = {"time_formats": {}, "bad_values": "refuse"}
    with open_tail(path, kinds, before, **options) as tail:
        rows = [row for block in tail.blocks(most_rows) for row in block.table.rows()]
    return rows, tail


@pytest.mark.parametrize("packed", [False, True])
def test_every_cut_gives_every_row_once(tmp_path, packed):
    path = tmp_path / "rows.csv"
    for cut in range(len(TEXT) + 1):
        rows = []
        before = None
        for end in (cut, len(TEXT)):
            content = TEXT[:end]
            path.write_bytes(gzip.compress(content) if packed else content)
            new, tail = read(path, before)
            rows += new
            if tail.consumed.size:
                before = tail.consumed
        assert rows == ROWS, cut
        assert not tail.waits
        assert tail.consumed.rows == len(ROWS)
        assert tail.consumed.size == len(TEXT)


def test_many_small_growths_give_every_row_once(tmp_path):
    path = tmp_path / "rows.csv"
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=200).round(3).tolist()
    text = "value;name\n" + "".join(
        f"{str(number).replace('.', ',')};é {k}\n" for k, number in enumerate(numbers)
    )
    content = text.encode()
    ends = np.sort(rng.integers(len(content), size=60)).tolist()
    before = None
    found = []
    for end in [*ends, len(content)]:
        path.write_bytes(content[:end])
        rows, tail = read(path, before, most_rows=7)
        assert tail.fate == ("new" if before is None else "grown")
        found += [value for value, _ in rows]
        before = tail.consumed if tail.consumed.size else None
    assert found == numbers


@pytest.mark.parametrize(
    ("content", "fate"),
    [
        (TEXT + b"more,6\n", "grown"),
        (TEXT, "grown"),
        (TEXT[:-5], "shorter"),
        (TEXT.replace(b"5.25", b"5.26"), "changed"),
        (b"name,value\nother,9\n", "shorter"),
        (TEXT.replace(b"name", b"NAME") + b"more,6\n", "changed"),
    ],
)
def test_the_fate_of_a_file_is_known(tmp_path, content, fate):
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXT)
    _, first = read(path)
    path.write_bytes(content)
    rows, tail = read(path, first.consumed)
    assert tail.fate == fate
    if fate == "grown":
        assert rows == ([("more", 6)] if content != TEXT else [])
    else:
        assert len(rows) == tail.consumed.rows > 0


def test_files_of_other_encodings_go_on(tmp_path):
    path = tmp_path / "rows.csv"
    for encoding in ("utf-16", "utf-8-sig", "cp1252"):
        path.write_bytes("name,value\né,1\n".encode(encoding))
        rows, first = read(path)
        path.write_bytes("name,value\né,1\nü,2\n".encode(encoding))
        more, tail = read(path, first.consumed)
        assert rows + more == [("é", 1), ("ü", 2)]
        assert tail.fate == "grown"


def test_parquet_goes_on_and_is_compared(tmp_path):
    path = tmp_path / "rows.parquet"
    table = pl.DataFrame({"name": list("abcde"), "value": [1.0, 2, None, 4, 5]})
    table[:3].write_parquet(path)
    rows, first = read(path)
    table.write_parquet(path)
    more, tail = read(path, first.consumed)
    assert rows + more == table.rows() and tail.fate == "grown"
    table[1:].write_parquet(path)
    assert read(path, tail.consumed)[1].fate == "shorter"
    table.reverse().write_parquet(path)
    rows, tail = read(path, tail.consumed)
    assert tail.fate == "changed" and len(rows) == 5


def test_places_are_counted_from_the_beginning_of_the_file(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXT)
    _, first = read(path)
    path.write_bytes(TEXT + b"a,1,2\n")
    with pytest.raises(TableFileError, match=r"row 5 \(line 9\) has 3 fields"):
        read(path, first.consumed)
    path.write_bytes(TEXT + b"a,word\n")
    with pytest.raises(TableFileError, match="row 5: 'word'"):
        read(path, first.consumed)
