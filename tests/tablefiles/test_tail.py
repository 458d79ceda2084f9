"""Files that grow: every row once, wherever they were cut."""

import gzip

import numpy as np
import polars as pl
import pytest

from manyone.tablefiles import TableFileError, open_tail, stamp_of

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


def long_text(rows, start=0):
    """Lines of a table, about twenty bytes each."""
    return "".join(f"name {k:07},{k}.5\n" for k in range(start, start + rows)).encode()


@pytest.mark.parametrize(
    ("change", "fate"),
    [
        (lambda text: text, "grown"),
        (lambda text: text.replace(b"name 0000003", b"name 0000009"), "changed"),
        (lambda text: text.replace(b"name 0019990", b"name 0019999"), "changed"),
        (lambda text: text[:300_000], "shorter"),
        # Far from both ends nobody looks: that would take longer every day.
        (lambda text: text.replace(b"name 0010000", b"name 0010001"), "grown"),
    ],
    ids=["same", "beginning", "end", "cut", "middle"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_long_file_is_known_by_both_ends(tmp_path, change, fate, packed):
    path = tmp_path / "rows.csv"
    text = b"\xef\xbb\xbfname,value\n" + long_text(20_000)
    path.write_bytes(gzip.compress(text) if packed else text)
    _, first = read(path, most_rows=3000)
    later = change(text) + long_text(10, start=20_000)
    path.write_bytes(gzip.compress(later) if packed else later)
    rows, tail = read(path, first.consumed, most_rows=3000)
    assert tail.fate == fate
    if fate == "grown":
        assert [name for name, _ in rows] == [
            f"name {k:07}" for k in range(20_000, 20_010)
        ]
        path.write_bytes(later + long_text(1, start=20_010))
        assert len(read(path, tail.consumed)[0]) == 1


def test_only_what_is_new_of_a_long_file_is_read(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"name,value\n" + long_text(50_000))
    _, first = read(path, most_rows=50_000)
    with open(path, "ab") as file:
        file.write(long_text(1, start=50_000))
    options = {"time_formats": {}, "bad_values": "refuse"}
    with open_tail(path, KINDS, first.consumed, **options) as tail:
        raw = tail._file.raw
        sizes = []
        counting = CountingReads(raw, sizes)
        tail._file = tail._file._replace(raw=counting)
        assert sum(len(block.table) for block in tail.blocks(10)) == 1
    assert sum(sizes) < 300_000 < first.consumed.size


class CountingReads:
    """A stream that notes how many bytes were read."""

    def __init__(self, stream, sizes):
        self._stream = stream
        self._sizes = sizes

    def read(self, size):
        content = self._stream.read(size)
        self._sizes.append(len(content))
        return content

    def __getattr__(self, name):
        return getattr(self._stream, name)


def test_the_stamp_is_that_of_a_file_read_to_its_end(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(TEXT)
    options = {"time_formats": {}, "bad_values": "refuse"}
    with open_tail(path, KINDS, None, **options) as tail:
        blocks = tail.blocks(2)
        next(blocks)
        assert tail.consumed.stamp == ""
        assert len([*blocks]) == 2
        assert tail.consumed.stamp == stamp_of(path.stat())
