"""What the user can mend is one line with code 2, and leaves every file as it was."""

import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import manyone
from manyone.cli import main

FIT = ["fit", "events.csv", "--task", "machine", "--out", "m.manyone"]
SCORE = ["score", "fleet.manyone", "today.csv", "--out", "s.csv"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            ["fit", "no.csv", "--task", "a", "--out", "m"],
            "no.csv: no such file or directory. Check its name and permissions.",
        ),
        (
            ["fit", ".", "--task", "a", "--out", "m"],
            ". is a folder without Parquet files. Name a file",
        ),
        (["fit", "events.csv", "--out", "m"], "--task"),
        (
            [*FIT[:2], "--task", "pump", "--out", "m"],
            "--task pump: events.csv has no such column",
        ),
        (
            [*FIT, "--time", "now"],
            "--time now: events.csv has no such column. The columns are 'machine'",
        ),
        (
            [*FIT, "--time", "machine"],
            "row 0 has 'pump 0', which is no time, in the time column 'machine'",
        ),
        ([*FIT, "--groups", "g"], "--groups g: events.csv has no such column"),
        ([*FIT, "--outlier", "machine"], "'machine'"),
        ([*FIT, "--outlier", "a"], "'a'"),
        ([*FIT, "--ignore", "a,z"], "--ignore z: events.csv has no such column"),
        ([*FIT, "--ignore", "a,b,c,d,when"], "no column"),
        (
            ["fit", "events.csv", "--task", "machine,machine", "--out", "m"],
            "--task: 'machine' is named twice. Keep one.",
        ),
        ([*SCORE, "--keep", "a,b,a"], "--keep: 'a' is named twice. Keep one."),
        ([*FIT, "--alarm-rate", "5"], "--alarm-rate 5: give a share between 0 and 1"),
        ([*FIT, "--method", "Magic"], "--method Magic: give auto, or one of"),
        ([*FIT, "--anomalies", "bad"], "--anomalies bad: 'bad' is not one of 'any'"),
        ([*FIT, "--alarm-rate", "5%"], "--alarm-rate 5%: should be a valid number"),
        (["fitt"], "Did you mean 'fit'? See manyone --help."),
        ([*FIT[:4], "--out", "events.csv"], "would be written over events.csv"),
        ([*FIT[:4], "--out", "no/m.manyone"], "there is no folder no"),
        ([*FIT[:4], "--out", "."], "is a folder"),
        ([*FIT[:4], "--out", "-"], "--out - is a folder, or stdout. Name a file"),
        (
            ["score", "no.manyone", "today.csv", "--out", "s.csv"],
            "no.manyone: no such file",
        ),
        (
            ["score", "today.csv", "today.csv", "--out", "s.csv"],
            "today.csv is not a manyone model",
        ),
        (
            ["score", "fleet.manyone", "no.csv", "--out", "s.csv"],
            "no.csv: no such file",
        ),
        (
            ["score", "fleet.manyone", "fleet.manyone", "--out", "s.csv"],
            "fleet.manyone is a model or a state. Give a table in CSV",
        ),
        ([*SCORE[:4], "s.xlsx"], "ends in .csv, .csv.gz or .parquet"),
        ([*SCORE[:4], "today.csv"], "would be written over today.csv"),
        ([*SCORE, "--keep", "z"], "--keep z: today.csv has no such column"),
        ([*SCORE, "--fdr", "2"], "--fdr 2: give a share between 0 and 1"),
        ([*SCORE, "--explain", "-1"], "--explain -1: should be"),
        ([*SCORE, "--unknown", "guess"], "guess"),
        ([*SCORE, "--guess"], "No such option: --guess. See manyone score --help."),
        ([*SCORE[:4], "-", "--json"], "both want stdout"),
        (["evaluate", "fleet.manyone", "today.csv", "--outlier", "z"], "--outlier z"),
        (["evaluate", "fleet.manyone", "today.csv", "--outlier", "a"], "today.csv: "),
        (["enroll", "fleet.manyone", "no.csv"], "no.csv: no such file"),
        (["enroll", "no.manyone", "today.csv"], "no.manyone: no such file"),
        (
            ["forget", "fleet.manyone", "pump 9"],
            "no task 'pump 9'. The model knows 'pump 0'",
        ),
        (["forget", "fleet.manyone", "a", "b"], "give one task"),
        (["recalibrate", "fleet.manyone", "--alarm-rate", "0"], "between 0 and 1"),
        (
            ["report", "fleet.manyone", "no.csv", "--out", "p.html"],
            "no.csv: no such file",
        ),
        (["report", "fleet.manyone", "--out", "no/p.html"], "there is no folder"),
        (["report", "fleet.manyone", "--out", "-"], "stdout. Name a file"),
        (["info", "today.csv"], "not a manyone model"),
        (
            ["watch", "fleet.manyone", "today.csv", "--state", "s", "--notify-later"],
            "URL",
        ),
        (
            ["serve", "fleet.manyone", "--host", "192.0.2.1"],
            "--host 192.0.2.1 --port 8000: cannot listen there",
        ),
        (["demo", "--out", "today.csv"], "today.csv is a file"),
    ],
)
def test_bad_input_is_one_line(args, words, refused):
    refused(args, words)


def test_columns_that_leave_nothing_normal_or_hide_an_answer(here, refused):
    pl.read_csv("today.csv").with_columns(score=1, all=True).write_csv("today.csv")
    args = ["fit", "today.csv", "--task", "machine", "--out", "m", "--outlier", "all"]
    refused(args, "today.csv: Every row is marked as abnormal")
    refused([*SCORE, "--keep", "score"], "'score' is a column of the answers. Rename")


def test_labels_that_call_no_row_abnormal_are_noted(here, capsys):
    for is_outlier, words in ((False, "no row abnormal"), (True, "every row abnormal")):
        table = pl.read_csv("today.csv").with_columns(broken=is_outlier)
        table.write_csv("labelled.csv")
        args = ["evaluate", "fleet.manyone", "labelled.csv", "--outlier", "broken"]
        assert main(args) == 0
        said = capsys.readouterr().err
        assert f"labelled.csv: the column broken calls {words}" in said


def test_models_that_are_not_of_tables(here, refused):
    model = manyone.IndependentOCKSR().fit(
        np.random.default_rng(0).normal(size=(40, 2))
    )
    manyone.save(model, "arrays.manyone")
    refused(
        ["info", "arrays.manyone"], "holds a IndependentOCKSR, not a model of tables"
    )
    content = (here / "fleet.manyone").read_bytes()
    (here / "cut.manyone").write_bytes(content[:-100])
    refused(["info", "cut.manyone"], "cut.manyone is damaged", "Copy it again")


def test_columns_that_changed(here, refused):
    text = (here / "today.csv").read_text()
    (here / "today.csv").write_text(text.replace("machine,when,a,", "machine,when,A,"))
    refused(SCORE, "today.csv: ", "'a'")
    lines = text.splitlines()
    cells = lines[5].split(",")
    lines[5] = ",".join([*cells[:2], "broken sensor", *cells[3:]])
    (here / "today.csv").write_text("\n".join(lines))
    refused(SCORE, "today.csv, column 'a', row 4: 'broken sensor' is not a number")
    refused(["enroll", "fleet.manyone", "today.csv"], "column 'a', row 4")


@pytest.mark.parametrize(
    "args",
    [
        ["enroll", "fleet.manyone", "today.csv"],
        ["report", "fleet.manyone", "today.csv", "--out", "p.html"],
        ["evaluate", "fleet.manyone", "today.csv", "--outlier", "broken"],
    ],
)
def test_a_remedy_that_is_named_can_be_given(here, refused, capsys, args):
    table = pl.read_csv("today.csv").with_columns(
        pl.col("a").cast(str), broken=pl.int_range(pl.len()) < 5
    )
    table[3, "a"] = "sensor off"
    table.write_csv("today.csv")
    refused(args, "column 'a', row 3: 'sensor off'", "--bad-values missing")
    assert main([*args, "--bad-values", "missing"]) == 0
    assert "1 bad value taken as missing" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written(here, refused):
    locked = here / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    if os.access(locked, os.W_OK):
        pytest.skip("this user may write everywhere")
    refused([*SCORE[:4], "locked/s.csv"], "cannot write in locked")


@pytest.mark.slow
def test_nobody_reads_our_output_any_more(here):
    command = (
        f"{sys.executable} -m manyone score fleet.manyone today.csv --out - | head -1"
    )
    found = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=120
    )
    assert found.stdout.startswith("row,task,score") and "Traceback" not in found.stderr


def test_help_without_a_command(capsys):
    assert main([]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_a_parquet_file_that_was_cut_off_is_named(here, refused):
    whole = here / "whole.parquet"
    pl.read_csv("events.csv").write_parquet(whole)
    content = whole.read_bytes()
    (here / "cut.parquet").write_bytes(content[: len(content) // 2])
    words = "cut.parquet cannot be read as Parquet"
    refused(["fit", "cut.parquet", *FIT[2:]], words)
    refused([*SCORE[:2], "cut.parquet", *SCORE[3:]], words)
