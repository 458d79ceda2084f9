"""``manyone watch``: appends, resumes, listens to answers, says what drifts."""

import polars as pl
import pytest

from manyone.cli import main

WATCH = ["watch", "fleet.manyone", "today.csv", "--state", "s", "--out", "seen.csv"]
COLUMNS = ["id", "task", "score", "p_value", "alarm", "drift"]


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


def test_what_a_kill_left_behind_is_cut_off(here, monkeypatch, capsys):
    assert main(WATCH) == 0
    wanted = (here / "seen.csv").read_bytes()
    for path in ("s", "seen.csv"):
        (here / path).unlink()
    monkeypatch.setattr("manyone.cli.watch._BATCH", 40)
    from manyone.monitor import Monitor

    save, saved = Monitor.save_state, []

    def dies(self, path):
        saved.append(path)
        if len(saved) == 3:  # rows are in the file, the state does not know
            raise KeyboardInterrupt
        save(self, path)

    monkeypatch.setattr(Monitor, "save_state", dies)
    assert main(WATCH) == 130
    assert len((here / "seen.csv").read_bytes().splitlines()) == 121
    assert main(WATCH) == 0
    assert (here / "seen.csv").read_bytes() == wanted


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


def test_a_single_task_that_drifts_is_told_apart_from_chance(here, capsys):
    table = pl.read_csv("today.csv").filter(~pl.col("broken"))
    moved = table.with_columns(
        pl.when(pl.col("machine") == "pump 2")
        .then(pl.col(name) + 9)
        .otherwise(name)
        .alias(name)
        for name in "abcd"
    )
    pl.concat([table, table, moved, moved]).write_csv("today.csv")
    assert main(WATCH) == 0
    out = capsys.readouterr().out
    assert (
        "pump 2" in out
        and "Taken together, the 6 tasks drift too: this is not chance" in out
    )


def test_drift_is_told_with_what_to_do(here, capsys):
    table = pl.read_csv("today.csv").filter(~pl.col("broken"))
    calm = pl.concat([table] * 3)
    moved = table.with_columns(pl.col("a", "b", "c", "d") * 3 + 5)
    pl.concat([calm, moved]).write_csv("today.csv")
    assert main(WATCH) == 0
    out = capsys.readouterr().out
    assert "Drifting" in out and "2026-01-" in out and "--feedback" in out
    assert "Most tasks drift: look at what they share" in out


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
        (["--feedback", "today.csv"], ["--feedback id", "no such column"]),
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
    refused(WATCH, "s: s is not a state of a monitor")
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
    assert "1 of 2 answers were new" in out
    assert (
        "Of 2 answers, 1 name an id that is not among the last 100,000 rows, as '77777'"
        in err
    )
    assert (
        "is older than a row of its task before it" in err
        and "sort the table by when" in err
    )


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


def test_scores_that_are_gone_are_said_and_never_written_over_a_foreign_file(
    here, capsys, refused
):
    whole = pl.read_csv("today.csv")
    whole[:70].write_csv("today.csv")
    assert main(WATCH) == 0
    (here / "seen.csv").unlink()
    capsys.readouterr()
    assert main(WATCH) == 0
    out, err = capsys.readouterr()
    assert "seen.csv is gone" in err and "--state" in err and "Scores" not in out
    (here / "seen.csv").write_text("mine\n")
    refused(WATCH, "seen.csv", "Name a new file")
    (here / "seen.csv").unlink()
    whole.write_csv("today.csv")
    assert main(WATCH) == 0
    assert pl.read_csv("seen.csv")["id"].to_list() == list(range(70, 180))


def test_a_full_disk_leaves_what_the_next_run_goes_on_from(here, monkeypatch, capsys):
    assert main([*WATCH[:4], "t", "--out", "wanted.csv"]) == 0
    wanted = (here / "wanted.csv").read_bytes()
    from manyone.monitor import Monitor

    def full(self, path):
        raise OSError(28, "No space left on device")

    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "save_state", full)
        assert main(WATCH) == 2
    assert capsys.readouterr().err == (
        "manyone: the disk is full. Make room, and give the command again.\n"
    )
    (here / "seen.csv").write_bytes((here / "seen.csv").read_bytes()[:20])
    assert main(WATCH) == 0
    assert (here / "seen.csv").read_bytes() == wanted


def test_of_two_that_start_at_once_one_is_refused(here, monkeypatch, capsys):
    from manyone.cli import watch as command

    begin = command._begin

    def another_was_faster(state, model, out):
        begin(state, model, out)
        begin(state, model, out)

    monkeypatch.setattr(command, "_begin", another_was_faster)
    assert main(WATCH) == 2
    assert "s has just been made by another process" in capsys.readouterr().err
    assert not (here / "seen.csv").exists()
