"""Tables nobody prepared: a right result, or code 2 and one clear line."""

import csv
import gzip
import io

import numpy as np
import polars as pl
import pytest

from manyone.cli import main

from .conftest import FAST

FIT = ["fit", "rows.csv", "--task", "machine", "--out", "m.manyone", *FAST]
SCORE = ["score", "m.manyone", "rows.csv", "--out", "scores.csv"]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MANYONE_DEBUG", raising=False)


def rows(n_tasks=4, n=20, seed=0, **more):
    """A table of texts: a machine and three numbers."""
    rng = np.random.default_rng(seed)
    machine = [f"m{k}" for k in range(n_tasks) for _ in range(n)]
    X = rng.normal(size=(len(machine), 3)).round(4) + 5 * np.arange(3)
    columns = {
        "machine": machine,
        **{name: list(map(str, x)) for name, x in zip("xyz", X.T, strict=True)},
    }
    return columns | more


def write(columns, name="rows.csv", encoding="utf-8", **style):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, **style)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    with open(name, "wb") as file:
        file.write(stream.getvalue().encode(encoding))


def answered(folder, n):
    """Both commands end well, and every row has an answer."""
    assert main(FIT) == 0
    assert main(SCORE) == 0
    scores = pl.read_csv("scores.csv")
    assert scores["row"].to_list() == list(range(n))
    assert (
        np.isfinite(scores["score"].to_numpy()).all()
        and not scores["alarm"].has_nulls()
    )
    assert {path.name for path in folder.iterdir()} == {
        "rows.csv",
        "m.manyone",
        "scores.csv",
    }
    return scores


def refused(folder, args, capsys, *words):
    before = sorted(path.name for path in folder.iterdir())
    capsys.readouterr()
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1, err
    for word in words:
        assert word in err, err
    assert sorted(path.name for path in folder.iterdir()) == before


def with_gaps(columns):
    return {
        name: [v if k % 7 != at else "" for k, v in enumerate(values)] if at else values
        for at, (name, values) in enumerate(columns.items())
    }


def replaced(columns, name, at, value):
    return columns | {
        name: [value if k == at else v for k, v in enumerate(columns[name])]
    }


PLAIN = rows()
N = len(PLAIN["x"])
NAMES = ['a, "b"\nc', "é🙂", "x;y|z", " spaces "]
LABELS = [NAMES[int(name[1])] for name in PLAIN["machine"]]
RIGHT = {
    "missing values in every column": with_gaps(PLAIN),
    "words for missing values": replaced(replaced(PLAIN, "x", 3, "NA"), "y", 4, "n/a"),
    "a text with a level for every row": PLAIN
    | {"t": [f"level {k}" for k in range(N)]},
    "constants": PLAIN | {"one": ["1"] * N, "word": ["same"] * N, "nothing": [""] * N},
    "infinities": replaced(replaced(PLAIN, "x", 5, "inf"), "y", 6, "-inf"),
    "huge and tiny": replaced(replaced(PLAIN, "x", 5, "1e300"), "y", 6, "1e-300"),
    "a task with one row": {
        name: values[: 3 * 20 + 1] for name, values in PLAIN.items()
    },
    "a single task": {name: values[:20] for name, values in PLAIN.items()},
    "names of tasks": PLAIN | {"machine": LABELS},
    "duplicated rows": {name: values[:40] * 3 for name, values in PLAIN.items()},
    "codes of mixed types": PLAIN | {"code": ["1", "2", "B", "true"] * (N // 4)},
    "dates": PLAIN
    | {"when": [f"2026-03-{1 + k % 28:02}T{k % 24:02}:00:00Z" for k in range(N)]},
    "yes and no": PLAIN | {"on": ["true", "false"] * (N // 2)},
    "a column without a name": {"": list(map(str, range(N)))} | PLAIN,
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.filterwarnings("ignore")
def test_untidy_tables_are_answered(name, tmp_path):
    columns = RIGHT[name]
    write(columns)
    scores = answered(tmp_path, len(columns["x"]))
    assert scores["task"].to_list() == columns["machine"]


STYLES = {
    "semicolons and a decimal comma": {"delimiter": ";"},
    "tabs": {"delimiter": "\t"},
    "Windows line ends": {"lineterminator": "\r\n"},
    "a byte-order mark": {"encoding": "utf-8-sig"},
    "UTF-16": {"encoding": "utf-16"},
    "Latin-1": {"encoding": "latin-1"},
    "everything quoted": {"quoting": csv.QUOTE_ALL},
    "thousands": {},
    "gzip": {},
}


@pytest.mark.parametrize("name", STYLES)
def test_the_way_a_file_is_written_does_not_matter(name, tmp_path, capsys):
    columns = PLAIN | {"machine": [f"Süd {label}" for label in PLAIN["machine"]]}
    columns |= {"big": [f"{1000.5 * (1 + k % 11):.1f}" for k in range(N)]}
    write(columns)
    wanted = answered(tmp_path, N)
    if "comma" in name:
        columns = {
            key: [v.replace(".", ",") for v in values]
            for key, values in columns.items()
        }
    if name == "thousands":
        columns |= {"big": [f"{float(v):,.1f}" for v in columns["big"]]}
    write(columns, **STYLES[name])
    if name == "gzip":
        (tmp_path / "rows.csv").write_bytes(
            gzip.compress((tmp_path / "rows.csv").read_bytes())
        )
    capsys.readouterr()
    assert answered(tmp_path, N).equals(wanted)
    assert ("read as Windows-1252" in capsys.readouterr().err) == (name == "Latin-1")


def text(columns):
    write(columns)
    with open("rows.csv", "rb") as file:
        return file.read()


BAD = {
    "an empty file": (lambda: b"", "rows.csv is empty"),
    "a header only": (lambda: b"machine,x\r\n", "a header and no rows"),
    "cut in the middle": (
        lambda: text(PLAIN)[:1000].rpartition(b",")[0],
        "is cut off there",
    ),
    "cut inside a quote": (lambda: text(PLAIN) + b'm1,"1', "never closes"),
    "gzip cut": (lambda: gzip.compress(text(PLAIN))[:300], "damaged or cut off"),
    "another delimiter": (
        lambda: text(PLAIN).replace(b",", b"^"),
        "has no such column",
    ),
    "a row too long": (
        lambda: text(PLAIN) + b"m1,1,2,3,4\n",
        "row 80 (line 82) has 5 fields",
    ),
    "column names twice": (
        lambda: text(PLAIN).replace(b"z", b"x", 1),
        "are both called 'x'",
    ),
    "no label": (
        lambda: text(PLAIN) + b",1,2,3\n",
        "row 80 has no value in the task column",
    ),
    "not a table": (lambda: bytes(range(256)) * 20, "zero bytes"),
    "a list in JSON": (
        lambda: b'[{"machine": "m0", "x": 1}]',
        "is JSON. Give a table in CSV",
    ),
    "lines of JSON": (
        lambda: b'{"machine": "m0", "x": 1}\n',
        "is JSON. Give a table in CSV",
    ),
    "a cut workbook": (lambda: b"PK\x03\x04" + bytes(500), "cut off"),
    "a word among numbers": (
        lambda: text(replaced(PLAIN, "x", 7, "oops")),
        "column 'x', row 7: 'oops' among numbers",
    ),
    "an old code page": (
        lambda: text(PLAIN) + b"\x81\x8d,1,2,3\n",
        "Save the file as UTF-8",
    ),
    "labels only": (lambda: text({"machine": PLAIN["machine"]}), "no column"),
    "constants only": (
        lambda: text({"machine": PLAIN["machine"], "x": ["1"] * N}),
        "'x' is dropped: constant",
    ),
    "a task for every row": (
        lambda: text(PLAIN | {"machine": [f"m{k}" for k in range(N)]}),
        "has one normal row",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_table_is_refused(name, tmp_path, capsys):
    content, words = BAD[name]
    content = content()
    (tmp_path / "rows.csv").write_bytes(content)
    refused(tmp_path, FIT, capsys, "rows.csv", words)


@pytest.mark.slow
def test_5000_levels_and_10000_tasks(tmp_path):
    """As many entities as a large fleet has: all answered, none alone."""
    columns = rows(n_tasks=10_000, n=2)
    n = len(columns["x"])
    columns["level"] = [f"level {k % 5000}" for k in range(n)]
    write(columns)
    scores = answered(tmp_path, n)
    assert scores["alarm"].mean() < 0.1
