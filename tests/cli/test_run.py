"""``manyone run``: what is due, by a file; bad files are one line."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from copy import deepcopy
from threading import Thread

import polars as pl
import pytest

import manyone
from manyone.cli import main
from manyone.cli.models import changing
from manyone.files import locked
from manyone.watch.refit import Verdict
from receivers import Receiver
from streams import broken, calm_rows, in_time, query

DATA = '[data]\nmodel = "fleet.manyone"\nstate = "s"\ntable = "today.csv"\n'


def write(text, name="fleet.toml"):
    with open(name, "w") as file:
        file.write(text)


def faulty():
    fault = broken(calm_rows(3), "pump 2", "abcd", 20.0)
    return in_time(pl.concat([calm_rows(), fault]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[data\n", ["not TOML", "line 1"]),
        ("", ["no section [data]"]),
        (DATA + "[wach]\n", ["wach is no section", "Known are data, watch"]),
        (DATA + "[watch]\nexplan = 3\n", ["explan", "Known are", "explain"]),
        (DATA + "[watch]\nqqq = 3\n", ["qqq is no key of [watch]", "Known are"]),
        (DATA + "[watch]\nnotify = 'x'\n", ["notify is no key of [watch]"]),
        (DATA + "[watch]\nexplain = true\n", ["[watch] explain = True", "a number"]),
        (DATA + "[watch]\nexplain = 'x'\n", ["[watch]", "--explain x", "integer"]),
        (DATA + "[watch]\nexplain = -1\n", ["[watch]", "--explain -1", "0"]),
        (DATA + "[watch]\nid = ['a', 'b']\n", ["[watch] id = ['a', 'b']", "a text"]),
        (DATA + "[watch]\nkeep = [true]\n", ["[watch] keep = [True]", "a list"]),
        (DATA + "[report]\nout = 'no/p.html'\n", ["[report] out", "no folder no"]),
        (DATA + "[report]\nout = 'fleet.toml'\n", ["written over fleet.toml"]),
        (DATA + "[watch]\nbad_values = 'x'\n", ["bad-values", "refuse", "missing"]),
        (DATA + "[refit]\nevery_days = -1\n", ["every_days = -1", "from 0 on"]),
        (DATA + "[refit]\nevery_days = true\n", ["every_days", "a number"]),
        (DATA + "[report]\nout = 3\n", ["[report] out = 3", "a text"]),
        (DATA + "[report]\n", ["[report] has no out"]),
        (DATA + "[notify]\ncool_down = 3\n", ["[notify] has no url"]),
        (DATA + "[notify]\nurl = 'very-secret'\n", ["no address"]),
        ("data = 3\n", ["data is no section"]),
        (DATA.replace("today", "never"), ["never.csv"]),
        (DATA.replace("fleet.manyone", "today.csv"), ["today.csv"]),
    ],
)
def test_files_that_are_wrong_are_refused(here, refused, text, words):
    write(text)
    said = refused(["run", "fleet.toml"], *words)
    assert "very-secret" not in said


def test_a_file_that_is_not_there_is_refused(refused):
    refused(["run", "none.toml"], "none.toml")


def test_what_is_due_is_done_from_the_folder_of_the_file(here, monkeypatch, capsys):
    (here / "conf").mkdir()
    calm_rows().write_csv("today.csv")
    text = DATA.replace('= "', '= "../')
    more = '[watch]\nout = "../seen.csv"\nexplain = 1\nmetrics = "../m.prom"\n'
    write(text + more + '[report]\nout = "../page.html"\n', "conf/fleet.toml")
    elsewhere = here / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert main(["run", str(here / "conf" / "fleet.toml")]) == 0
    assert {"s", "seen.csv", "m.prom", "page.html"} <= {*os.listdir(here)}
    assert os.listdir(elsewhere) == []


def test_the_exit_code_says_whether_something_stands_out(here):
    write(DATA)
    calm_rows().write_csv("today.csv")
    assert main(["run", "fleet.toml"]) == 0
    faulty().write_csv("today.csv")
    assert main(["run", "fleet.toml"]) == 3
    assert main(["run", "fleet.toml"]) == 0
    # A run that was killed after its rows were saved has told nobody.
    with closing(sqlite3.connect("s")) as store, store:
        store.execute("UPDATE meta SET value = '100' WHERE name = 'run_rows'")
    assert main(["run", "fleet.toml"]) == 3


def test_files_of_a_pattern_are_read_once_and_a_bad_one_holds_up_none(here, capsys):
    rows = calm_rows(2)
    write(DATA.replace("today.csv", "inbox/*.csv"))
    (here / "inbox").mkdir()
    assert main(["run", "fleet.toml"]) == 0
    assert "no file is called" in capsys.readouterr().err
    for number, start in enumerate(range(0, len(rows), 50)):
        rows[start : start + 50].write_csv(f"inbox/{number}.csv")
        assert main(["run", "fleet.toml"]) in (0, 3)
    assert query("SELECT count(*), count(DISTINCT id) FROM scores") == [
        (len(rows),) * 2
    ]
    with open("fleet.toml", "a") as file:
        file.write('[watch]\nmetrics = "m.prom"\n')
    capsys.readouterr()
    assert main(["run", "fleet.toml"]) == 0
    assert capsys.readouterr().out.count("0 new rows") == 1
    assert (here / "m.prom").exists()
    (here / "inbox" / "5a.csv").write_text("machine\nx,y\n")
    rows[:10].write_csv("inbox/9.csv")
    capsys.readouterr()
    assert main(["run", "fleet.toml"]) == 2
    assert "5a.csv" in capsys.readouterr().err
    assert query("SELECT count(*) FROM scores") == [(len(rows) + 10,)]


def test_a_page_replaces_no_table(here, capsys):
    calm_rows().write_csv("today.csv")
    rows = (here / "today.csv").read_bytes()
    write(DATA + '[report]\nout = "today.csv"\n')
    assert main(["run", "fleet.toml"]) == 2
    assert "written over a table that s has read" in capsys.readouterr().err
    report = ["report", "fleet.manyone", "--state", "s", "--out", "today.csv"]
    assert main(report) == 2
    assert (here / "today.csv").read_bytes() == rows


def test_one_run_at_a_time(here, capsys):
    write(DATA)
    command = [sys.executable, "-m", "manyone", "run", "fleet.toml"]
    with locked(here / "fleet.toml"):
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "another process" in done.stderr
    assert done.stderr.count("\n") == 1 and not (here / "s").exists()
    assert main(["run", "fleet.toml"]) in (0, 3)


def test_messages_and_answers_of_a_file(here, monkeypatch, capsys):
    receiver = Receiver()
    monkeypatch.setenv("HOOK", receiver.address)
    write(f'{DATA}[watch]\nfeedback = "answers.csv"\n[notify]\nurl = "$HOOK"\n')
    faulty().write_csv("today.csv")
    assert main(["run", "fleet.toml"]) == 3
    assert "No answers yet" in capsys.readouterr().out
    told = {content["task"] for _, content in receiver.delivered}
    assert "pump 2" in told
    alarms = [row for (row,) in query("SELECT id FROM alarms")]
    pl.DataFrame({"id": alarms, "answer": "fault"}).write_csv("answers.csv")
    assert main(["run", "fleet.toml"]) == 0
    assert query("SELECT count(*) FROM answers WHERE used") == [(len(alarms),)]
    receiver.die()


def test_a_refit_undoes_no_change_of_its_model_meanwhile(here, monkeypatch):
    """Somebody recalibrates while the challenger is fitted: both are in the file."""
    calm_rows(9).write_csv("today.csv")
    write(DATA + "[refit]\nevery_days = 0\n")
    assert main(["run", "fleet.toml"]) == 0
    others = []

    def recalibrate():
        with changing(here / "fleet.manyone") as model:
            model.recalibrate(0.02)

    def challenge_while_another_works(champion, rows, days):
        others.append(Thread(target=recalibrate))
        others[0].start()
        others[0].join(1.0)
        challenger = deepcopy(champion)
        challenger.random_state = 7
        return Verdict(challenger, "It took its place", {})

    monkeypatch.setattr("manyone.cli.run.challenge", challenge_while_another_works)
    assert main(["run", "fleet.toml"]) == 0
    others[0].join()
    model = manyone.load("fleet.manyone")
    assert (model.random_state, model.promised_rate_) == (7, 0.02)
