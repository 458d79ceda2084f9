"""Text files are read as Python's csv module does, or refused with a remedy."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyone.tablefiles import TableFileError
from manyone.tablefiles.text import read_text


def read(content, chunk=2**20):
    chunks = (content[at : at + chunk] for at in range(0, len(content), chunk))
    tables = [table for table, _ in read_text(chunks, "rows.csv")]
    return tables[0].columns, [row for table in tables for row in table.rows()]


texts = st.text(st.sampled_from("ab1 \",;\t|\n\r'é🙂"), max_size=5).filter(
    lambda text: (
        text.strip("\r") == text
    )  # a lone return at an edge is part of the line end
)


@given(
    st.integers(2, 4).flatmap(
        lambda width: st.lists(st.tuples(*[texts] * width), max_size=6)
    ),
    st.sampled_from(",;\t|"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.integers(4, 40),
)
def test_any_table_comes_back(rows, delimiter, end, encoding, quoting, chunk):
    stream = io.StringIO(newline="")
    writer = csv.writer(
        stream, delimiter=delimiter, lineterminator=end, quoting=quoting
    )
    header = [f"column {k}" for k in range(len(rows[0]) if rows else 2)]
    writer.writerows([header, *rows])
    names, found = read(stream.getvalue().encode(encoding), chunk)
    assert names == header
    assert [tuple(value or "" for value in row) for row in found] == rows


@pytest.mark.parametrize("last", ["", "\n", "\r\n", "\n\n\n", "\n\x1a"])
def test_the_last_line_may_end_in_many_ways(last):
    assert read(f"a,b\n1,2{last}".encode()) == (["a", "b"], [("1", "2")])


def test_lines_of_nothing_are_no_rows():
    assert read(b"\n\na,b\n\n1,2\n\r\n3,4\n")[1] == [("1", "2"), ("3", "4")]


def test_columns_without_a_name_get_one():
    assert read(b", machine ,x\n0,a,1\n")[0] == ["column_1", "machine", "x"]


def test_latin_1_is_read_and_noted_wherever_it_begins():
    content = b"name,x\n" + b"plain,1\n" * 50 + "café,2\n".encode("latin-1")
    with pytest.warns(UserWarning, match=r"not in UTF-8 \(line 52\).*Windows-1252"):
        assert read(content, chunk=40)[1][-1] == ("café", "2")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\r\n\n", "is empty"),
        (b"a,b\r1,2\r3,4", "header cannot be read .* ordinary line ends"),
        ("a,b\n1,2\n".encode("utf-32"), "zero bytes. Save it as"),
        (b"a,b\n1,2\n3,4,5\n6,7\n", r"row 1 \(line 3\) has 3 fields, the header 2"),
        (
            b'a,b\n"x\ny",2\n\n3\n4,5\n',
            r"row 1 \(line 5\) has 1 fields, the header 2. Mend it",
        ),
        (
            b"a,b,c\n1,2,3\n4,5",
            r"row 1 \(line 3\) has 2 fields, the header 3. The file is cut off",
        ),
        (
            b'a,b\n1,2\n3,"fo',
            "line 3: a quote opens here and never closes. Copy the file again",
        ),
        (b'a,b\n1,2\n5" pipe,6" pipe\n', "line 3: a quote inside a field"),
        (b'a,b\n1,2\n"5" pipe,6\n', "line 3: a quote inside a field"),
        (b"a,b,a\n1,2,3\n", "columns 1 and 3 are both called 'a'. Rename one"),
        (b"a,b\n1,\0\n", "zero bytes. Save it as CSV in UTF-8"),
        ("a,b\n1,é\n".encode() + b"2,\xe9\n", "line 3: byte 0xe9 is not UTF-8"),
        (
            b"a,b\n1,\x81\xff\n",
            "line 2: byte 0x81 is not text in UTF-8 or Windows-1252",
        ),
        ("a,b\n1,2\n".encode("utf-16")[:-1], "in the middle of a character"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*not in UTF-8")
@pytest.mark.parametrize("chunk", [5, 2**20])
def test_what_is_wrong_has_a_place_and_a_remedy(content, words, chunk):
    with pytest.raises(TableFileError, match=words):
        read(content, chunk)
