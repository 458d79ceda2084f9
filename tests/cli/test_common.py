"""What all commands share: nothing ends in a traceback, and the start is cheap."""

import io
import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest
import typer

import manyone
from manyone.cli import COMMANDS, common, function_of, main
from manyone.page.html import Cell, Row, Table
from manyone.progress import announce


def app_that(act):
    app = typer.Typer(add_completion=False)

    @app.callback()
    def nothing():
        pass

    @app.command()
    def go(number: int = 0):
        act(number)

    return app


def fail(error):
    def act(number):
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            common.InputError("no column 'a'.\n  Name another."),
            2,
            "no column 'a'. Name another.",
        ),
        (FileNotFoundError(2, "No such file", "rows.csv"), 2, "rows.csv"),
        (OSError(28, "No space left on device"), 2, "the disk is full"),
        (OSError("No space left on device (os error 28)"), 2, "the disk is full"),
        (pl.exceptions.ComputeError("parquet: (os error 28)"), 2, "the disk is full"),
        (
            OSError(30, "Read-only", "models/.m.x1.part"),
            2,
            "manyone: models: read-only.",
        ),
        (KeyboardInterrupt(), 130, "stopped. Nothing unfinished was saved"),
        (TypeError("of our own"), 1, "unexpected TypeError: of our own."),
        (typer.BadParameter("not so"), 2, "not so"),
    ],
)
def test_what_goes_wrong_is_one_line(error, code, words, capsys, monkeypatch):
    monkeypatch.delenv("MANYONE_DEBUG", raising=False)
    assert common.run(app_that(fail(error)), ["go"]) == code
    out, err = capsys.readouterr()
    assert (
        out == ""
        and err.count("\n") == 1
        and err.startswith("manyone: ")
        and words in err
    )


def test_what_was_stopped_goes_on_only_where_something_was_kept(capsys):
    def stop(number):
        raise KeyboardInterrupt

    app = app_that(stop)
    app.command("watch")(lambda: stop(0))
    assert common.run(app, ["watch"]) == 130
    assert "Run the same command again to go on." in capsys.readouterr().err


def test_a_request_to_end_has_the_exit_code_of_shells(capsys):
    def end(number):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    assert common.run(app_that(end), ["go"]) == 143
    assert capsys.readouterr().err.startswith("manyone: stopped.")


HOSTILE = "lathe \x1b[31m9\x1b]0;title\x07 \u202eevil\x9b2J"


def test_names_reach_a_terminal_as_texts_and_not_as_orders(capsys):
    heads = (HOSTILE, "alarms")
    common.print_lines(f"Alarms of {HOSTILE}", heads, [(HOSTILE, HOSTILE)])
    common.run(app_that(fail(common.InputError(f"no task {HOSTILE}"))), ["go"])
    out, err = capsys.readouterr()
    for text in (out, err):
        assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}
        assert r"\x1b[31m9" in text and r"\u202e" in text
    assert common.shown("Größe 25 °C\n日本") == "Größe 25 °C 日本"


def test_columns_of_numbers_stand_at_the_right(capsys):
    lines = [("pump 3", "99.5 ± 0.1", "2026-11-02"), ("pump 10", "1,200", "")]
    common.print_lines("Tasks", ("task", "AUC of faults", "when"), lines)
    out = capsys.readouterr().out
    assert "│ pump 10 │         1,200 │            │" in out
    assert "│    99.5 ± 0.1 │" in out


def test_our_own_mistakes_can_be_looked_at(monkeypatch):
    monkeypatch.setenv("MANYONE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        common.run(app_that(lambda number: 1 / number), ["go"])


def test_exit_codes_of_commands_are_kept():
    def leave(number):
        raise typer.Exit(number)

    assert common.run(app_that(leave), ["go", "--number", "3"]) == 3
    assert common.run(app_that(lambda number: None), ["go"]) == 0


def test_missing_packages_are_told_with_the_remedy():
    wanted = r"no_such_package.*\[plot,report\]"
    with pytest.raises(common.InputError, match=wanted), common.needs("plot,report"):
        import no_such_package  # noqa: F401


def test_a_bar_is_drawn_from_the_first_step_on(capsys):
    with common.progress("counting", "rows", delay=0.0):
        pass
    assert capsys.readouterr().err == ""
    with common.progress("counting", "rows") as update:
        update(3, 3)
    assert capsys.readouterr().err == ""  # too short for one
    with common.progress("counting", "rows", delay=0.0) as update:
        update(1, 3)
        update(3, 3)
    err = capsys.readouterr().err
    assert "counting" in err and "3/3 rows, left 0:00:00 elapsed" in err


def test_a_bar_without_a_total_has_no_holes(capsys):
    with common.progress("counting", "rows", delay=0.0) as update:
        update(2850, None)
    err = capsys.readouterr().err
    assert "2,850 rows, elapsed 0:00:0" in err and "?" not in err and "left" not in err


def test_tables_of_pages_are_printed(capsys):
    rows = (
        Row("a", (Cell("1.0", 1.0), Cell("0.01", 0.01))),
        Row("b", (Cell(), Cell("x"))),
    )
    common.print_table(Table("A title", ("who", "score", "p"), rows))
    out = capsys.readouterr().out
    assert "A title" in out and "score" in out and "1.0" in out and "0.01" in out


def test_ctrl_c_is_heard_while_the_command_is_imported():
    code = """
import sys
class Interrupted:
    def find_spec(self, name, *rest):
        if name == "manyone.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from manyone.__main__ import main
sys.exit(main())
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert (found.returncode, found.stderr) == (130, "manyone: stopped.\n")


def test_the_command_starts_without_what_it_may_not_need():
    heavy = ("matplotlib", "jinja2", "manyone.experiments", "polars")
    code = (
        "import sys, manyone.cli; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_of_a_command_what_it_says_of_itself(name):
    function, examples = function_of(name)
    assert function.__doc__.splitlines()[0] == COMMANDS[name].help
    assert f"manyone {name}" in examples


def test_python_m_is_the_same_command():
    found = subprocess.run(
        [sys.executable, "-m", "manyone", "reproduce", "--data", "cifar"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 2 and found.stderr.startswith("manyone: ")
    assert "cifar" in found.stderr and found.stderr.count("\n") == 1


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"manyone {manyone.__version__}\n"


def test_a_log_has_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(common, "_LOG_SECONDS", 0.05)
    with common.progress("counting", "rows") as update:
        for done in range(10):
            update(done, 1000)
            time.sleep(0.02)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 5
    assert lines[0].startswith("manyone: counting: ")
    assert lines[0].endswith(" of 1,000 rows, 0 seconds")


def test_what_is_announced_is_a_line(capsys):
    with common.working("fitting"):
        announce("fitting 3 rows: about 9 seconds")
    assert capsys.readouterr().err == "manyone: fitting 3 rows: about 9 seconds\n"


def test_names_that_a_terminal_cannot_write_are_shown_as_python_writes_them(
    monkeypatch,
):
    written = io.BytesIO()
    terminal = io.TextIOWrapper(written, encoding="ascii", write_through=True)
    monkeypatch.setattr("sys.stdout", terminal)

    def show(number):
        common.print_lines("Tasks", ["task"], [["p\xfcmpe"]])

    assert common.run(app_that(show), ["go"]) == 0
    assert b"p\\xfcmpe" in written.getvalue()
