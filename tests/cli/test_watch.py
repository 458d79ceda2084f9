"""``manyone watch``: appends, resumes, listens to answers, says what drifts."""

import io
import json
import os
import shutil
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from manyone.cli import main
from manyone.watch.schema import FORMAT

WATCH = ["watch", "fleet.manyone", "today.csv", "--state", "s", "--out", "seen.csv"]
COLUMNS = ["id", "task", "score", "p_value", "alarm", "basis", "drift"]


def query(sql, store="s"):
    """Rows of a store, read as a dashboard would."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def numbered(table, start=0):
    """A table with ids."""
    return table.with_row_index("reading", offset=start)


def test_a_table_is_watched_once(here, capsys):
    pl.read_csv("today.csv").sort("when").write_csv("today.csv")
    assert main(WATCH) == 0
    out, err = capsys.readouterr()
    assert "180 new rows" in out and "promised" in out and err == ""
    first = (here / "seen.csv").read_bytes()
    seen = pl.read_csv("seen.csv")
    assert seen.columns == COLUMNS and seen["id"].to_list() == list(range(180))
    assert main(WATCH) == 0
    assert "0 new rows" in capsys.readouterr().out
    assert (here / "seen.csv").read_bytes() == first


def test_growing_and_further_tables_are_appended(here, capsys):
    whole = pl.read_csv("today.csv")
    whole[:70].write_csv("today.csv")
    assert main(WATCH) == 0
    whole[:120].write_csv("today.csv")
    assert main(WATCH) == 0
    whole[120:].write_csv("tomorrow.csv")
    assert main([*WATCH[:2], "tomorrow.csv", *WATCH[3:]]) == 0
    parts = (here / "seen.csv").read_bytes()
    whole.write_csv("all.csv")
    args = ["watch", "fleet.manyone", "all.csv", "--state", "t", "--out", "at_once.csv"]
    assert main(args) == 0
    assert (here / "at_once.csv").read_bytes() == parts


def test_ids_count_once_and_answers_are_used(here, capsys):
    table = pl.read_csv("today.csv").with_row_index("reading", offset=1000)
    table.write_csv("today.csv")
    pl.concat([table[100:], table[:0]]).write_csv("again.csv")
    assert main([*WATCH, "--id", "reading"]) == 0
    assert main([*WATCH[:2], "again.csv", *WATCH[3:], "--id", "reading"]) == 0
    seen = pl.read_csv("seen.csv")
    assert seen["id"].to_list() == list(range(1000, 1180))
    alarms = seen.filter("alarm")["id"]
    pl.DataFrame({"id": alarms, "normal": [True] * len(alarms)}).write_csv(
        "answers.csv"
    )
    capsys.readouterr()
    answered = [*WATCH, "--id", "reading", "--feedback", "answers.csv"]
    assert main(answered) == 0
    assert f"{len(alarms)} of {len(alarms)} answers were new" in capsys.readouterr().out
    assert main(answered) == 0
    assert f"0 of {len(alarms)} answers were new" in capsys.readouterr().out


def test_a_recalibrated_model_goes_on_and_says_so_once(here, capsys):
    table = pl.read_csv("today.csv").filter(~pl.col("broken"))
    table.write_csv("today.csv")
    assert main(WATCH) == 0
    before = pl.read_csv("seen.csv")
    # Without ids of their own rows are numbered as they come.
    assert before["id"].to_list() == list(range(len(table)))
    assert main(["recalibrate", "fleet.manyone", "--alarm-rate", "0.3"]) == 0
    capsys.readouterr()
    pl.concat([table] * 2).write_csv("today.csv")
    assert main(WATCH) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("alarms on 0.3 of normal rows now, before it was 0.05.") == 1
    after = pl.read_csv("seen.csv")
    assert after["id"].to_list() == list(range(2 * len(table)))
    later = after[len(table) :]
    # The same rows, at six times the rate.
    assert later["alarm"].sum() > before["alarm"].sum()
    assert later["alarm"].mean() < 0.6
    assert main(WATCH) == 0
    assert "of normal rows now" not in capsys.readouterr().err


def test_a_single_task_that_drifts_is_told_apart_from_chance(here, capsys):
    table = pl.read_csv("today.csv").filter(~pl.col("broken"))
    moved = table.with_columns(
        pl.when(pl.col("machine") == "pump 2")
        .then(pl.col(name) + 9)
        .otherwise(name)
        .alias(name)
        for name in "abcd"
    )
    pl.concat([table, table, *[moved] * 4]).write_csv("today.csv")
    assert main(WATCH) == 0
    out = capsys.readouterr().out
    assert "pump 2" in out
    assert "Taken together, all tasks drift too: this is not chance" in out


def test_drift_is_told_with_what_to_do(here, capsys):
    table = pl.read_csv("today.csv").filter(~pl.col("broken"))
    calm = pl.concat([table] * 3)
    moved = table.with_columns(pl.col("a", "b", "c", "d") * 3 + 5)
    pl.concat([calm, moved]).write_csv("today.csv")
    assert main(WATCH) == 0
    out = capsys.readouterr().out
    assert "Drifting" in out and "2026-01-" in out and "--feedback" in out


def test_answers_before_a_drift_do_not_say_that_it_is_normal(here, capsys):
    """False alarms that were answered tell nothing of the rows that came after them."""
    table = pl.read_csv("today.csv").filter(~pl.col("broken"))
    pl.concat([table] * 3).write_csv("today.csv")
    assert main(WATCH) == 0
    seen = pl.read_csv(WATCH[WATCH.index("--out") + 1]).filter("alarm")
    seen.select("id", normal=pl.lit(True)).write_csv("answers.csv")
    table.with_columns(pl.col("a", "b", "c", "d") * 3 + 5).write_csv("today.csv")
    assert main([*WATCH, "--feedback", "answers.csv"]) == 0
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "if its rows since then are normal" in out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--id", "reading"], ["--id reading", "no such column"]),
        (["--feedback", "today.csv"], ["--feedback today.csv", "no column id"]),
        (["--out", "seen.parquet"], [".csv"]),
        (["--out", "s"], ["s"]),
        (["--out", "today.csv"], ["today.csv", "Name another file"]),
        (["--state", "fleet.manyone"], ["fleet.manyone"]),
    ],
)
def test_bad_input_is_refused(refused, more, words):
    refused([*WATCH, *more], *words)


def test_files_that_do_not_belong_are_refused(here, refused):
    (here / "s").write_text("hello")
    refused(WATCH, "s is not a store of manyone watch")
    (here / "s").write_bytes(b"manyone monitor state 2\n and more")
    refused(WATCH, "s is a state of an older manyone")
    (here / "s").unlink()
    with closing(sqlite3.connect("s")) as connection:
        connection.execute("CREATE TABLE mine (a)")
    refused(WATCH, "s is a database of another program")
    (here / "s").unlink()
    (here / "seen.csv").write_text("mine\n")
    refused(WATCH, "seen.csv", "Name a new file")


def test_rows_that_look_wrong_are_told(here, capsys):
    table = pl.read_csv("today.csv").sort("when").with_row_index("reading")
    table.write_csv("today.csv")
    odd = table[:40].with_columns(
        pl.col("reading") + 1000,
        machine=pl.when(pl.col("reading") < 5)
        .then(pl.lit("pump 99"))
        .otherwise("machine"),
    )
    pl.concat([odd, odd[:7]]).write_csv("odd.csv")
    assert main([*WATCH, "--id", "reading"]) == 0
    out, err = capsys.readouterr()
    assert "id that came before" not in out and "never seen" not in out and err == ""
    pl.DataFrame({"id": [3, 77777], "normal": [True, True]}).write_csv("answers.csv")
    more = ["--id", "reading", "--feedback", "answers.csv"]
    assert main([*WATCH[:2], "odd.csv", *WATCH[3:], *more]) == 0
    out, err = capsys.readouterr()
    assert "40 new rows" in out and "7 rows with an id that came before" in out
    assert "5 rows of tasks never seen ('pump 99')" in out
    assert "2 of 2 answers were new" in out
    assert "No row has come yet for 1 of 2 answers, as '77777'" in err
    assert "is older than a row of its task before it" in err


def test_contradicting_answers_are_refused(here, refused):
    pl.DataFrame({"id": [3, 4, 3], "normal": [True, True, False]}).write_csv(
        "answers.csv"
    )
    refused(
        [*WATCH, "--feedback", "answers.csv"], "answers.csv: row 2: id 3", "Keep one"
    )
    pl.DataFrame({"id": [3, 4], "normal": ["yes", None]}).write_csv("answers.csv")
    refused(
        [*WATCH, "--feedback", "answers.csv"], "row 1 has no value in the column normal"
    )
    pl.DataFrame({"id": [3, 4], "normal": ["yes", "maybe"]}).write_csv("answers.csv")
    refused(
        [*WATCH, "--feedback", "answers.csv"],
        "answers.csv: Column 'normal'",
        "got 'maybe'",
    )


def test_answers_may_be_words(here, capsys):
    pl.DataFrame({"id": [3, 4], "normal": ["yes", "no"]}).write_csv("answers.csv")
    assert main([*WATCH, "--feedback", "answers.csv"]) == 0
    assert "2 of 2 answers were new" in capsys.readouterr().out


# -------------------------------------------------------------- what was read of a file


def test_a_rotated_file_is_read_from_its_beginning(here, capsys):
    """The same name and the same first row, other rows: all of them are scored."""
    table = pl.read_csv("today.csv")
    table[:60].write_csv("today.csv")
    assert main(WATCH) == 0
    broken = table[60:].with_columns(pl.col("a", "b", "c", "d") + 90)
    pl.concat([table[:1], broken]).write_csv("today.csv")
    capsys.readouterr()
    assert main(WATCH) == 0
    out, err = capsys.readouterr()
    assert "121 new rows" in out
    assert "today.csv does not begin as when it was read" in err
    assert int(out.split(" new rows, ")[1].split(" alarms")[0]) > 100
    assert query("SELECT rows FROM files") == [(60,), (121,)]


def test_a_shorter_file_is_new(here, capsys):
    table = pl.read_csv("today.csv")
    assert main(WATCH) == 0
    table[:50].write_csv("today.csv")
    capsys.readouterr()
    assert main(WATCH) == 0
    out, err = capsys.readouterr()
    assert "50 new rows" in out and "today.csv is shorter than when it was read" in err


def test_the_same_name_in_two_folders_is_two_files(here, capsys):
    table = pl.read_csv("today.csv")
    for folder, part in (("monday", table[:20]), ("tuesday", table[20:40])):
        (here / folder).mkdir()
        part.write_csv(here / folder / "rows.csv")
    for folder in ("monday", "tuesday", "monday", "tuesday"):
        assert main([*WATCH[:2], f"{folder}/rows.csv", *WATCH[3:]]) == 0
    assert len(pl.read_csv("seen.csv")) == 40
    assert query("SELECT count(*) FROM scores") == [(40,)]
    # From another folder it is still the same file.
    os.chdir("monday")
    assert (
        main(["watch", "../fleet.manyone", "rows.csv", "--state", "../s"]) == 0
        and "0 new rows" in capsys.readouterr().out
    )


def test_an_incomplete_last_line_waits(here, capsys):
    whole = (here / "today.csv").read_bytes()
    lines = whole.splitlines(keepends=True)
    (here / "today.csv").write_bytes(b"".join(lines[:101]) + lines[101][:-4])
    assert main(WATCH) == 0
    out, err = capsys.readouterr()
    assert "100 new rows" in out and "the last line has no line end" in err
    (here / "today.csv").write_bytes(whole)
    assert main(WATCH) == 0
    out, err = capsys.readouterr()
    assert "80 new rows" in out and "line end" not in err
    assert main([*WATCH[:4], "t", "--out", "at_once.csv"]) == 0
    assert (here / "at_once.csv").read_bytes() == (here / "seen.csv").read_bytes()


@pytest.mark.parametrize("rows", [1, 3, 70])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_any_cut_of_a_growing_file_gives_the_same_scores(here, ending, rows):
    table = pl.read_csv("today.csv")[:71]

    def write(part, name):
        if ending == ".parquet":
            part.write_parquet(name)
        else:
            opened = pl.DataFrame.write_csv(part).encode()
            if ending == ".csv.gz":
                import gzip

                opened = gzip.compress(opened)
            (here / name).write_bytes(opened)

    for end in [*range(rows, len(table), max(rows, 20)), len(table)]:
        write(table[:end], f"grows{ending}")
        assert main(["watch", "fleet.manyone", f"grows{ending}", *WATCH[3:]]) == 0
    table.write_csv("all.csv")
    args = ["watch", "fleet.manyone", "all.csv", "--state", "t", "--out", "once.csv"]
    assert main(args) == 0
    assert (here / "once.csv").read_bytes() == (here / "seen.csv").read_bytes()


def test_places_in_a_file_that_goes_on_are_those_of_the_file(here, refused):
    whole = (here / "today.csv").read_text()
    assert main(WATCH) == 0
    (here / "today.csv").write_text(whole + "pump 1,2026-01-01 12:00,1,2,x,4,false\n")
    refused(WATCH, "today.csv", "row 180")
    (here / "today.csv").write_text(whole + "pump 1,2026-01-01 12:00,1\n")
    refused(WATCH, "today.csv, row 180 (line 182) has 3 fields, the header 7")


def test_a_file_without_rows_waits_for_them(here, capsys):
    whole = (here / "today.csv").read_text()
    for start in ("", whole[:5], whole.splitlines(keepends=True)[0]):
        (here / "today.csv").write_text(start)
        assert main(WATCH) == 0
        assert "0 new rows" in capsys.readouterr().out
    (here / "today.csv").write_text(whole)
    assert main(WATCH) == 0
    assert "180 new rows" in capsys.readouterr().out


def test_ids_are_remembered_without_end(here, capsys, monkeypatch):
    """More ids than a Monitor remembers by itself."""
    monkeypatch.setattr("manyone.watch.memory.REMEMBERED", 50)
    numbered(pl.read_csv("today.csv")).write_csv("first.csv")
    shutil.copy("first.csv", "again.csv")
    for name, expected in (("first.csv", "180 new rows"), ("again.csv", "0 new rows")):
        assert main([*WATCH[:2], name, *WATCH[3:], "--id", "reading"]) == 0
        assert expected in capsys.readouterr().out
    assert query("SELECT count(*), count(DISTINCT id) FROM scores") == [(180, 180)]


def test_rows_with_ids_and_rows_without_are_not_mixed(here, refused):
    numbered(pl.read_csv("today.csv")).write_csv("today.csv")
    assert main(WATCH) == 0
    refused([*WATCH, "--id", "reading"], "s: its rows have no ids", "Leave --id out")


# ----------------------------------------------------------------- copies of the scores


def test_an_output_of_another_state_is_refused_and_never_cut(here, refused):
    table = pl.read_csv("today.csv")
    table[:100].write_csv("a.csv")
    table[100:150].write_csv("b.csv")
    table[150:].write_csv("c.csv")
    for name in "ab":
        (here / f"folder_{name}").mkdir()
        args = ["--state", f"{name}.state", "--out", f"folder_{name}/out.csv"]
        assert main(["watch", "fleet.manyone", f"{name}.csv", *args]) == 0
    args = ["--state", "b.state", "--out", "folder_a/out.csv"]
    refused(["watch", "fleet.manyone", "c.csv", *args], "folder_a/out.csv", "new file")
    assert len(pl.read_csv("folder_a/out.csv")) == 100


@pytest.mark.parametrize("change", ["longer", "shorter", "edited"])
def test_an_output_that_was_changed_is_refused(here, refused, change):
    assert main(WATCH) == 0
    content = (here / "seen.csv").read_text()
    changed = {
        "longer": content + "mine\n",
        "shorter": content[:-30],
        "edited": content.replace("pump 1", "pump X", 1),
    }
    (here / "seen.csv").write_text(changed[change])
    refused(WATCH, "--out seen.csv was changed since it was last written")


def test_an_output_that_is_gone_comes_back_whole(here):
    assert main(WATCH) == 0
    wanted = (here / "seen.csv").read_bytes()
    (here / "seen.csv").unlink()
    assert main(WATCH) == 0
    assert (here / "seen.csv").read_bytes() == wanted
    # Nor does it have to be there from the beginning.
    assert main([*WATCH[:6], "later.csv"]) == 0
    assert (here / "later.csv").read_bytes() == wanted


@pytest.mark.parametrize("written", [0, 1, 50, 60, 61, 2000])
def test_an_output_that_a_kill_cut_off_is_completed(here, monkeypatch, written):
    """The store knows of rows that the file has in part."""
    from manyone.watch.score_copy import ScoreCopy

    monkeypatch.setattr("manyone.cli.watching._BATCH", 40)
    assert main([*WATCH[:4], "t", "--out", "wanted.csv"]) == 0
    wanted = (here / "wanted.csv").read_bytes()
    catch_up = ScoreCopy.catch_up
    calls = []

    def dies(self):
        calls.append(self)
        if len(calls) < 3:
            catch_up(self)
            return
        size = (here / "seen.csv").stat().st_size
        with open("seen.csv", "ab") as stream:
            stream.write(wanted[size : size + written])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ScoreCopy, "catch_up", dies)
        assert main(WATCH) == 130
    assert query("SELECT count(*) FROM scores") == [(120,)]
    assert main(WATCH) == 0
    assert (here / "seen.csv").read_bytes() == wanted


def test_scores_need_no_output(here, capsys):
    assert main(WATCH[:5]) == 0
    assert "Scores:" not in capsys.readouterr().out
    assert query("SELECT count(*) FROM scores") == [(180,)]


# ---------------------------------------------------------------------------- the store


def test_a_store_without_rows_takes_ids_that_it_did_not_take_before(here):
    numbered(pl.read_csv("today.csv")).write_csv("numbered.csv")
    (here / "today.csv").write_text("")
    assert main(WATCH) == 0
    shutil.copy("numbered.csv", "today.csv")
    assert main([*WATCH, "--id", "reading"]) == 0
    assert query("SELECT count(*) FROM scores") == [(180,)]


def test_a_second_writer_is_refused_and_readers_are_not(here, refused, monkeypatch):
    from manyone.watch.store import open_store

    monkeypatch.setattr("manyone.watch.store._PATIENCE", 0.05)
    assert main(WATCH) == 0
    with open_store(here / "s"):
        assert query("SELECT count(*) FROM scores") == [(180,)]
        assert main(WATCH) == 2
    assert main(WATCH) == 0


@pytest.mark.parametrize("commit", [1, 2, 3])
def test_a_writer_that_slips_in_is_noticed(here, monkeypatch, capsys, commit):
    from manyone.watch.store import Store

    monkeypatch.setattr("manyone.cli.watching._BATCH", 60)
    execute = Store.execute
    commits = []

    def slips_in(self, sql, values=()):
        cursor = execute(self, sql, values)
        if sql == "COMMIT":
            commits.append(self)
            if len(commits) == commit:
                with closing(sqlite3.connect("s")) as other:
                    other.execute("INSERT INTO meta VALUES ('slipped', 'in')")
                    other.commit()
        return cursor

    monkeypatch.setattr(Store, "execute", slips_in)
    assert main(WATCH) == 2
    assert "s was written by another process in between" in capsys.readouterr().err
    monkeypatch.undo()
    os.chdir(here)
    assert main(WATCH) == 0
    assert query("SELECT count(*), count(DISTINCT id) FROM scores") == [(180, 180)]


@pytest.mark.parametrize("busy", [False, True])
def test_a_store_that_another_process_fills_first_is_not_removed(
    here, monkeypatch, busy
):
    from manyone.watch import store

    monkeypatch.setattr("manyone.watch.store._PATIENCE", 0.05)
    make_file = store.make_file
    others = ExitStack()

    def slowly(path):
        is_new = make_file(path)
        monkeypatch.setattr(store, "make_file", make_file)
        other = others.enter_context(store.open_store(path))
        other.set_note("whose", "of the other process")
        other.commit()
        if not busy:
            others.close()
        return is_new

    monkeypatch.setattr(store, "make_file", slowly)
    with others:
        assert main([*WATCH, "--id", "nowhere"]) == 2
    with store.read_store(here / "s") as kept:
        assert kept.note("whose") == "of the other process"


def test_a_full_disk_is_one_line_and_nothing_is_lost(here, monkeypatch, capsys):
    from manyone.watch.store import Store

    monkeypatch.setattr("manyone.cli.watching._BATCH", 60)
    assert main([*WATCH[:4], "t", "--out", "wanted.csv"]) == 0
    add_rows = Store.add_rows
    batches = []

    def full(self, *batch):
        batches.append(batch)
        if len(batches) == 2:
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            self._connection.execute(f"PRAGMA max_page_count = {pages}")
        return add_rows(self, *batch)

    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(Store, "add_rows", full)
        assert main(WATCH) == 2
    assert capsys.readouterr().err == (
        "manyone: the disk is full. Make room, and give the command again.\n"
    )
    assert query("SELECT count(*) FROM scores") == [(60,)]
    assert main(WATCH) == 0
    assert (here / "seen.csv").read_bytes() == (here / "wanted.csv").read_bytes()


def test_a_state_that_cannot_be_written_is_one_line(here, capsys):
    assert main(WATCH[:5]) == 0
    (here / "s").chmod(0o444)
    if os.access("s", os.W_OK):
        pytest.skip("nothing is read-only for this user")
    capsys.readouterr()
    assert main(WATCH[:5]) == 2
    assert "s cannot be written" in capsys.readouterr().err


def test_damaged_stores_are_one_line(here, capsys):
    assert main(WATCH[:5]) == 0
    content = (here / "s").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(20):
        damaged = bytearray(content)
        at = int(rng.integers(100, len(content) - 2000))
        damaged[at : at + 2000] = rng.bytes(2000)
        (here / "s").write_bytes(damaged)
        capsys.readouterr()
        assert main(WATCH[:5]) in (0, 2)
        assert "This is a mistake in manyone" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE monitor SET state = 'text'",
        "UPDATE monitor SET state = x'00'",
        "UPDATE file SET form = '[]'",
        'UPDATE file SET form = \'{"styles": 1, "nothing": 2}\'',
        "UPDATE file SET rows = 'many'",
        "UPDATE output SET columns = '{'",
        "UPDATE judged_row SET p_value = 'low' WHERE number = 1",
        "UPDATE judged_row SET score = 'low' WHERE number = 1",
    ],
)
def test_forged_stores_are_one_line(here, capsys, change):
    numbered(pl.read_csv("today.csv")).write_csv("today.csv")
    args = [*WATCH, "--id", "reading"]
    assert main(args) == 0
    with closing(sqlite3.connect("s")) as connection, connection:
        connection.execute(change)
    shutil.copy("today.csv", "again.csv")
    capsys.readouterr()
    codes = [main(args), main([*args[:2], "again.csv", *args[3:]])]
    assert 2 in codes
    err = capsys.readouterr().err
    assert "mistake in manyone" not in err and err.count("\n") <= 2


@pytest.mark.parametrize("number", [1, 9])
def test_stores_of_another_format_are_refused_and_stay(here, capsys, number):
    assert main(WATCH) == 0
    with closing(sqlite3.connect("s")) as connection, connection:
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("DROP TABLE incident")  # as an older store may lack it
    before = Path("s").read_bytes()
    report = ["report", "fleet.manyone", "--state", "s", "--out", "page.html"]
    for command in (WATCH, report):
        capsys.readouterr()
        assert main(command) == 2
        wanted = (
            f"manyone: s is a store of format {number}, and this manyone reads format "
            f"{FORMAT}. Watch the table again with a new file.\n"
        )
        assert capsys.readouterr().err == wanted
    assert Path("s").read_bytes() == before


def test_views_have_plain_columns(here):
    assert main([*WATCH, "--explain", "2"]) == 0
    with closing(sqlite3.connect("s")) as connection:
        views = {
            name: [
                column
                for _, column, *_ in connection.execute(f"PRAGMA table_info({name})")
            ]
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'view'"
            )
        }
        for name in views:
            connection.execute(f"SELECT * FROM {name}").fetchall()
    assert set(views) == {
        *("scores", "alarms", "tasks", "rates_by_day", "answers", "files"),
        *("incidents", "messages"),
    }
    assert " ".join(views["scores"]) == (
        "id task time score p_value alarm basis drift answer file row seen"
    )
    assert " ".join(views["incidents"]) == (
        "task column alarms rows begin end by_chance stands_out worst_row reason "
        "id answer seen changed"
    )
    assert query("SELECT sum(rows), sum(alarms) FROM tasks") == query(
        "SELECT count(*), sum(alarm) FROM scores"
    )
    assert query("SELECT sum(rows) FROM rates_by_day") == [(180,)]
    assert all(reason for (reason,) in query("SELECT reason FROM alarms"))


def test_values_are_kept_for_some_days(here):
    table = pl.read_csv("today.csv")
    assert main(WATCH) == 0
    (content,) = query("SELECT content FROM row_values WHERE number = 1")[0]
    assert json.loads(content) == table.row(0, named=True) | {
        "broken": str(table["broken"][0]).lower()
    }
    with closing(sqlite3.connect("s")) as connection, connection:
        connection.execute(
            "UPDATE row_values SET seen = '2020-01-01T00:00:00Z' WHERE number <= 100"
        )
    assert main(WATCH) == 0
    assert query("SELECT count(*) FROM row_values") == [(80,)]
    assert query("SELECT count(*) FROM scores") == [(180,)]
    assert main([*WATCH[:4], "t", "--keep-days", "0"]) == 0
    assert query("SELECT count(*) FROM row_values", "t") == [(0,)]


# ------------------------------------------------------------------ options and answers


def test_columns_are_kept_and_alarms_explained(here):
    assert main([*WATCH, "--keep", "when,broken", "--explain", "2"]) == 0
    seen = pl.read_csv("seen.csv")
    assert seen.columns == [*COLUMNS, "when", "broken", "reason_1", "reason_2"]
    table = pl.read_csv("today.csv")
    assert seen["when"].to_list() == table["when"].to_list()
    alarms = seen.filter("alarm")
    assert alarms["reason_1"].str.contains("^[abcd] = .*, expected about ").all()
    assert seen.filter(~pl.col("alarm"))["reason_1"].null_count() == len(seen) - len(
        alarms
    )


def test_kept_columns_are_as_the_file_has_them(here):
    table = pl.read_csv("today.csv", infer_schema=False)
    table = table.with_columns(a=pl.concat_str("a", pl.lit("00")))
    by_day = pl.col("when").str.replace(r"(\d+)-(\d+)-(\d+)", "$3.$2.$1")
    table = table.with_columns(when=by_day)
    table.write_csv("today.csv")
    assert main([*WATCH, "--keep", "when,a,broken"]) == 0
    seen = pl.read_csv("seen.csv", infer_schema=False)
    kept = ["when", "a", "broken"]
    assert seen.select(kept).equals(table.select(kept))


def test_other_columns_than_before_are_refused(here, refused):
    assert main(WATCH) == 0
    refused([*WATCH, "--keep", "when"], "--out seen.csv has other columns")


def test_a_summary_for_machines(here, capsys):
    assert main([*WATCH, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["rows"] == 180 and summary["table"] == "today.csv"
    assert summary["alarms"] == sum(summary["alarms_by_task"].values()) > 0
    assert summary["drifting"] == [] and summary["stands_out"] is True


def test_the_exit_code_says_whether_something_stands_out(here):
    table = pl.read_csv("today.csv")
    calm = table.filter(~pl.col("broken"))
    calm.write_csv("today.csv")
    assert main([*WATCH, "--exit-code"]) == 0
    calm.with_columns(pl.col("a", "b", "c", "d") * 3 + 5).write_csv("today.csv")
    assert main([*WATCH, "--exit-code"]) == 3
    assert main([*WATCH, "--exit-code"]) == 0  # nothing new


def test_the_drift_level_is_kept(here, refused):
    refused([*WATCH, "--drift-level", "2"], "--drift-level 2", "between 0 and 1")
    table = pl.read_csv("today.csv").filter(~pl.col("broken"))
    moved = table.with_columns(pl.col("a", "b", "c", "d") + 3)
    pl.concat([table, moved]).write_csv("today.csv")
    assert main([*WATCH, "--drift-level", "1e-300"]) == 0
    assert main(WATCH) == 0
    assert query("SELECT count(*) FROM tasks WHERE drift_flagged IS NOT NULL") == [(0,)]
    assert main([*WATCH[:4], "t"]) == 0
    (flagged,) = query(
        "SELECT count(*) FROM tasks WHERE drift_since <= drift_flagged", "t"
    )[0]
    assert flagged > 0


def test_answers_in_words_of_the_page(here, capsys, refused):
    pl.DataFrame({"id": [3, 4, 5], "answer": ["normal", "Fault", "later"]}).write_csv(
        "answers.csv"
    )
    args = [*WATCH, "--feedback", "answers.csv"]
    assert main(args) == 0
    assert "3 of 3 answers were new" in capsys.readouterr().out
    assert query("SELECT id, answer FROM answers") == [
        ("3", "normal"),
        ("4", "fault"),
        ("5", "later"),
    ]
    assert query("SELECT id, answer FROM scores WHERE answer IS NOT NULL") == [
        ("3", "normal"),
        ("4", "fault"),
    ]
    assert main(args) == 0
    assert "0 of 3 answers were new" in capsys.readouterr().out
    answers = pl.DataFrame({"id": [3, 4], "answer": ["normal", "Perhaps"]})
    answers.write_csv("answers.csv")
    refused(args, "row 1: the answer is 'Perhaps'", "normal, fault or later")


def test_answers_that_come_before_their_rows_are_kept(here, capsys):
    table = numbered(pl.read_csv("today.csv"))
    table[:100].write_csv("today.csv")
    pl.DataFrame({"id": [150, 999], "normal": [False, False]}).write_csv("answers.csv")
    args = [*WATCH, "--id", "reading"]
    assert main([*args, "--feedback", "answers.csv"]) == 0
    assert "for 2 of 2 answers, as '150', '999'" in capsys.readouterr().err
    assert query("SELECT id, used FROM answers") == [("150", 0), ("999", 0)]
    table.write_csv("today.csv")
    assert main(args) == 0
    assert query("SELECT answer FROM scores WHERE id = '150'") == [("fault",)]
    assert query("SELECT id, used FROM answers") == [("150", 1), ("999", 0)]


def test_advice_does_not_point_at_alarms_that_are_not_there(here, capsys):
    """A value that is stuck in the middle: rows have changed, and none is unusual."""
    table = pl.read_csv("today.csv").filter(~pl.col("broken"))
    means = table.group_by("machine").agg(pl.col("a", "b", "c", "d").mean())
    stuck = table.select("machine", "when").join(means, on="machine")
    stuck = stuck.with_columns(broken=pl.lit(False)).select(table.columns)
    pl.concat([stuck] * 6).write_csv("today.csv")
    assert main(WATCH) == 0
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "0 alarms" in out and "Drifting" in out
    assert "look at its alarms" not in out


def test_rows_from_a_pipe_are_watched_once_by_their_ids(here, monkeypatch, capsys):
    numbered(pl.read_csv("today.csv")).write_csv("today.csv")
    content = (here / "today.csv").read_bytes().rstrip(b"\n")  # the stream is over
    args = ["watch", "fleet.manyone", "-", "--state", "s", "--id", "reading"]
    for expected in ("180 new rows", "0 new rows"):
        stream = io.BufferedReader(io.BytesIO(content))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
        assert main(args) == 0
        assert expected in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_named_time_formats_are_read(here, ending, capsys):
    """Times as 31/01/2026 12:00, which a model was told how to read."""

    def told(name):
        when = pl.col("when").str.to_datetime("%Y-%m-%d %H:%M")
        return pl.read_csv(name).with_columns(when.dt.strftime("%d/%m/%Y %H:%M"))

    told("events.csv").write_csv("events.csv")
    fit = ["fit", "events.csv", "--task", "machine", "--time", "when", "--no-tune"]
    form = ["--time-format", "%d/%m/%Y %H:%M", "--out", "fleet.manyone"]
    assert main([*fit, *form, "--anomalies", "faults"]) == 0
    table = told("today.csv")
    table.write_csv("today.csv")
    table.write_parquet("today.parquet")
    assert main([*WATCH[:2], f"today.{ending}", *WATCH[3:]]) == 0
    moments = query("SELECT moment FROM judged_row")
    assert all(moment is not None and moment > 1.7e9 for (moment,) in moments)
    assert "is older than a row" in capsys.readouterr().err


def test_bad_values_may_be_taken_as_missing(here, refused, capsys):
    whole = (here / "today.csv").read_text()
    (here / "today.csv").write_text(whole + "pump 1,2026-01-01 12:00,1,2,x,4,false\n")
    refused(WATCH, "row 180", "'x'")
    assert main([*WATCH, "--bad-values", "missing"]) == 0
    assert "181 new rows" in capsys.readouterr().out


def test_a_state_of_another_model_is_refused(here, refused):
    assert main(WATCH) == 0
    pl.read_csv("events.csv")[::2].write_csv("fewer.csv")
    fit = [
        "fit",
        "fewer.csv",
        "--task",
        "machine",
        "--no-tune",
        "--anomalies",
        "faults",
    ]
    assert main([*fit, "--out", "fleet.manyone"]) == 0
    refused(WATCH, "s: The state belongs to another model")


def test_metrics_are_numbers_of_the_store(here):
    parser = pytest.importorskip("prometheus_client.parser")
    assert main([*WATCH, "--metrics", "m.prom"]) == 0
    assert main([*WATCH, "--metrics", "m.prom"]) == 0  # all rows are known by now
    families = parser.text_string_to_metric_families((here / "m.prom").read_text())
    values = {s.name: s.value for family in families for s in family.samples}
    ((rows, alarms),) = query("SELECT count(*), sum(alarm) FROM scores")
    assert values["manyone_rows_total"] == rows == 180
    assert values["manyone_alarms_total"] == alarms > 0
    ((drifting,),) = query("SELECT count(drift_flagged) FROM tasks")
    assert values["manyone_drifting_tasks"] == drifting
    assert 0 < values["manyone_watch_seconds"] < 600


def test_metrics_never_replace_what_is_read(refused):
    refused([*WATCH, "--metrics", "today.csv"], "--metrics", "Name another file")
