"""Every command on tables, as an engineer would use it."""

import io
import json
import subprocess
import sys
from contextlib import contextmanager
from itertools import pairwise

import polars as pl
import polars.testing
import pytest
from sklearn.metrics import roc_auc_score

import manyone
from manyone.cli import main

from .conftest import FAST

SCORE = ["score", "fleet.manyone", "today.csv", "--out"]
COLUMNS = ["row", "task", "score", "p_value", "alarm", "basis"]


def test_fit_ends_with_what_was_learned(here, capsys):
    assert (
        main(["fit", "events.csv", "--task", "machine", "--out", "new.manyone", *FAST])
        == 0
    )
    out, err = capsys.readouterr()
    for words in (
        "150",
        "6 by 'machine', 25 rows each",
        "columns used",
        "IndependentOCKSR",
    ):
        assert words in out
    assert (
        "at most 5 % of normal rows" in " ".join(out.split())
        and "OneClassSVM" not in out
    )
    assert err.count("manyone:") == 1 and "--time when" in err  # beside a bar
    assert out.rstrip().endswith("Model: new.manyone")
    model = manyone.load("new.manyone")
    table = pl.read_csv("today.csv", try_parse_dates=True)
    main([*SCORE, "scores.csv"])
    assert pl.read_csv("scores.csv")["score"].equals(
        manyone.load("fleet.manyone").score(table)["score"]
    )
    assert model.tasks_.tolist() == [f"pump {k}" for k in range(6)]


def test_rows_of_no_task_may_be_abnormal(here, capsys):
    table = pl.read_csv("events.csv").with_columns(bad=pl.lit(0))
    nobody = table.head(3).with_columns(machine=pl.lit(None, pl.String), bad=pl.lit(1))
    pl.concat([table, nobody]).write_csv("events.csv")
    roles = ["--task", "machine", "--outlier", "bad", "--ignore", "when"]
    assert main(["fit", "events.csv", *roles, "--out", "m.manyone", *FAST]) == 0
    out = capsys.readouterr().out
    assert "153, of which 3 are known to be abnormal ('bad')" in out
    assert "6 by 'machine', 25 rows each" in out


def test_fit_takes_every_role(here, capsys):
    table = pl.read_csv("events.csv").with_columns(
        site=pl.lit("x, y"), bad=pl.lit(0), day=pl.col("when").str.head(10)
    )
    table.write_csv("events.csv")
    args = [
        "fit",
        "events.csv",
        "--task",
        "site,machine",
        "--out",
        "m.manyone",
        "--time",
        "when",
    ]
    args += [
        "--groups",
        "day",
        "--outlier",
        "bad",
        "--ignore",
        "a,b",
        "--alarm-rate",
        "0.2",
    ]
    assert main([*args, *FAST]) == 0
    model = manyone.load("m.manyone")
    assert model.columns_["name"].tolist() == ["c", "d"] and model.alarm_rate == 0.2
    assert model.get_params()["groups"] == "day" and len(model.tasks_) == 6
    assert main(["forget", "m.manyone", "x, y", "pump 3"]) == 0
    assert len(manyone.load("m.manyone").tasks_) == 5


@pytest.mark.parametrize("name", ["scores.csv", "scores.csv.gz", "scores.parquet"])
def test_scores_are_those_of_the_model(here, name, capsys):
    assert main([*SCORE, name, "--keep", "when,a", "--explain", "2"]) == 0
    read = pl.read_parquet if name.endswith("parquet") else pl.read_csv
    scores = read(name)
    table = pl.read_csv("today.csv", try_parse_dates=True)
    wanted = manyone.load("fleet.manyone").score(table)
    assert scores.columns == [*COLUMNS, "when", "a", "reason_1", "reason_2"]
    assert scores.select("row", "score", "p_value", "alarm").equals(
        wanted.select("row", "score", "p_value", "alarm")
    )
    out, err = capsys.readouterr()
    assert (
        f"180 rows of 6 tasks, {scores['alarm'].sum()} alarms; at most 9 expected"
        in out
        and err == ""
    )
    reasons = scores.filter("alarm")["reason_1"]
    assert reasons.str.contains("expected about").all()


@pytest.mark.parametrize("options", [[], ["--fdr", "0.2"], ["--unknown", "skip"]])
def test_kept_columns_are_as_the_file_has_them(here, monkeypatch, options):
    events = pl.read_csv("events.csv").with_columns(on=pl.col("a") > 1.0)
    events.write_csv("events.csv")
    fit = ["fit", "events.csv", "--task", "machine", *FAST, "--out", "fleet.manyone"]
    assert main(fit) == 0
    kinds = manyone.load("fleet.manyone").encoder_.layout.kinds
    assert (kinds["when"], kinds["on"], kinds["a"]) == ("date", "boolean", "number")
    table = pl.read_csv("today.csv", infer_schema=False)
    table = table.with_columns(
        when=pl.col("when").str.replace(r"(\d+)-(\d+)-(\d+)", "$3.$2.$1"),
        on=pl.Series(["True", "FALSE", "true"] * 60),
        a=pl.concat_str("a", pl.lit("00")),
        code=pl.Series(["007", "7", "NA"] * 60),
    )
    table.write_csv("today.csv")
    monkeypatch.setattr("manyone.tablefiles.reading._CHUNK", 1000)
    kept = ["when", "on", "a", "code", "machine"]
    for name in ("scores.csv", "scores.parquet"):
        assert main([*SCORE, name, "--keep", ",".join(kept), *options]) == 0
    scores = pl.read_csv("scores.csv", infer_schema=False)
    wanted = table.select(kept)
    assert scores.select(kept).equals(wanted)
    assert pl.read_parquet("scores.parquet").select(kept).equals(wanted)


def test_blocks_do_not_matter(here, monkeypatch, capsys):
    from manyone.tablefiles import reading

    assert main([*SCORE, "whole.csv"]) == 0
    monkeypatch.setattr(reading, "_CHUNK", 1000)
    assert main([*SCORE, "blocks.csv"]) == 0
    polars.testing.assert_frame_equal(
        pl.read_csv("blocks.csv"), pl.read_csv("whole.csv")
    )
    assert main([*SCORE, "fdr.csv", "--fdr", "0.2"]) == 0
    table = pl.read_csv("today.csv", try_parse_dates=True)
    wanted = manyone.load("fleet.manyone").score(table, fdr=0.2)
    assert pl.read_csv("fdr.csv")["alarm"].equals(wanted["alarm"])
    lines = (here / "today.csv").read_text().splitlines()
    lines[150] = "," * lines[0].count(",")
    (here / "today.csv").write_text("\n".join([*lines, ""]))
    assert main([*SCORE, "none.csv", "--unknown", "error"]) == 2
    assert (
        "today.csv: row 149 has no value in the task column" in capsys.readouterr().err
    )


def test_a_row_without_a_task_is_answered_by_every_command(here, capsys):
    (here / "today.csv").write_text(
        "machine,when,a,b,c,d,broken\n,2026-01-01,90,0,0,0,1\n"
    )
    assert main([*SCORE, "scores.csv", "--explain", "1"]) == 0
    said = (
        "1 row of 0 tasks, 1 alarm; at most 0 expected if all rows are normal; "
        "1 row of tasks never seen"
    )
    assert said in capsys.readouterr().out
    line = pl.read_csv("scores.csv").row(0, named=True)
    assert (line["task"], line["basis"], line["alarm"]) == (None, "unknown", True)
    watch = ["watch", "fleet.manyone", "today.csv", "--state", "s", "--out", "seen.csv"]
    assert main(watch) == 0
    out = capsys.readouterr().out
    assert "1 new row, 1 alarm" in out and "1 row of tasks never seen ('(none)')" in out
    assert pl.read_csv("seen.csv")["task"].to_list() == [None]
    assert main(["evaluate", "fleet.manyone", "today.csv", "--outlier", "broken"]) == 0
    assert "(unknown)" in capsys.readouterr().out
    assert main(["report", "fleet.manyone", "today.csv", "--out", "page.html"]) == 0
    assert "(none)" in (here / "page.html").read_text()


def test_a_scheduler_gets_json_and_a_code(here, capsys):
    """Exit code 3 says that something stands out, not that there are alarms."""
    assert main([*SCORE, "scores.csv", "--json", "--exit-code"]) == 3
    summary = json.loads(capsys.readouterr().out)
    assert summary["rows"] == 180
    assert summary["alarms"] == sum(summary["alarms_by_task"].values())
    assert summary["basis"] == {"own": 0, "pooled": 180, "unknown": 0}
    assert summary["expected_false_alarms"] == 9.0
    assert summary["stands_out"] is True
    assert summary["more_alarms_than_chance"] is True
    standing_out = [line["stands_out"] for line in summary["incidents"]]
    assert sum(standing_out) == summary["incidents_standing_out"]
    assert standing_out == sorted(standing_out, reverse=True)
    assert summary["incidents"][0]["begin"].startswith("2026-")
    # Normal rows raise alarms, which are no failure.
    pl.read_csv("today.csv").filter(pl.col("broken") == 0).write_csv("today.csv")
    assert main([*SCORE, "scores.csv", "--json", "--exit-code"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["alarms"] > 0
    assert summary["stands_out"] is False
    assert main([*SCORE, "scores.csv", "--exit-code"]) == 0
    assert "Nothing stands out from chance." in capsys.readouterr().out


def test_incidents_that_stand_out_are_told_with_their_reasons(here, capsys):
    table = pl.read_csv("today.csv")
    machine = table["machine"][0]
    moved = pl.when(pl.col("machine") == machine).then(pl.col("a") + 30)
    table.with_columns(a=moved.otherwise("a")).write_csv("today.csv")
    assert main([*SCORE, "scores.csv", "--incidents", "incidents.csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (found,) = pl.read_csv("incidents.csv").filter("stands_out").to_dicts()
    assert found["task"] == machine
    told = lines[lines.index("1 incident stands out:") + 1]
    assert told.startswith(f"  {machine}: a = ")
    assert told == f"  {machine}: {found['reason']} ({found['alarms']} alarms)"


def test_values_of_incidents_do_not_control_the_terminal(here, capsys):
    for path in ("events.csv", "today.csv"):
        row = pl.int_range(pl.len())
        kind = pl.when(row % 2 == 0).then(pl.lit("p")).otherwise(pl.lit("q"))
        pl.read_csv(path).with_columns(kind=kind).write_csv(path)
    table = pl.read_csv("today.csv")
    is_first = pl.col("machine") == table["machine"][0]
    wild = pl.when(is_first).then(pl.lit("\x1b[31mred\x07")).otherwise("kind")
    table.with_columns(kind=wild).write_csv("today.csv")
    fit = ["fit", "events.csv", "--task", "machine", "--out", "fleet.manyone", *FAST]
    assert main(fit) == 0
    assert main([*SCORE, "scores.csv", "--incidents", "incidents.csv"]) == 0
    told = capsys.readouterr().out
    assert r"\x1b[31mred\x07" in told
    assert "\x1b" not in told and "\x07" not in told


def test_times_of_incidents_are_written_as_people_write_them(here):
    assert main([*SCORE, "scores.csv", "--incidents", "incidents.csv"]) == 0
    begin = pl.read_csv("incidents.csv", infer_schema=False)["begin"]
    table = pl.read_csv("today.csv", try_parse_dates=True)
    moments = manyone.load("fleet.manyone").incidents(table)["begin"]
    assert begin.to_list() == [str(moment) for moment in moments.to_list()]


def test_incidents_are_written_as_the_model_finds_them(here, capsys):
    assert main([*SCORE, "scores.csv", "--incidents", "incidents.parquet"]) == 0
    out = capsys.readouterr().out
    assert "More alarms than chance explains" in out
    assert "Incidents: incidents.parquet" in out
    written = pl.read_parquet("incidents.parquet")
    table = pl.read_csv("today.csv", try_parse_dates=True)
    wanted = manyone.load("fleet.manyone").incidents(table)
    polars.testing.assert_frame_equal(written, wanted)
    assert written.columns == [
        *("task", "column", "alarms", "rows", "begin", "end"),
        *("by_chance", "stands_out", "worst_row", "reason"),
    ]
    scores = pl.read_csv("scores.csv")
    assert written["alarms"].sum() == scores["alarm"].sum()
    alarms = scores.filter("alarm")["row"].to_list()
    assert set(written["worst_row"]) <= set(alarms)
    assert main([*SCORE, "scores.csv", "--incidents", "scores.csv"]) == 2
    assert "--incidents scores.csv" in capsys.readouterr().err


def test_no_incidents_are_a_table_without_rows(here):
    scores = manyone.load("fleet.manyone").score(pl.read_csv("today.csv"))
    pl.read_csv("today.csv").filter(~scores["alarm"]).write_csv("quiet.csv")
    args = ["score", "fleet.manyone", "quiet.csv", "--out", "s.csv", "--exit-code"]
    assert main([*args, "--incidents", "i.parquet"]) == 0
    written = pl.read_parquet("i.parquet")
    assert len(written) == 0
    assert written.schema["task"] == pl.String
    assert written.schema["worst_row"] == pl.Int64


def test_tasks_never_seen(here, capsys, refused):
    table = pl.read_csv("today.csv")
    table[:20].with_columns(machine=pl.lit("new")).vstack(table[20:]).write_csv(
        "today.csv"
    )
    assert main([*SCORE, "scores.csv"]) == 0
    assert "20 rows of tasks never seen" in capsys.readouterr().out
    scores = pl.read_csv("scores.csv")
    assert (
        scores["basis"].to_list()[:20] == ["unknown"] * 20
        and not scores["score"].has_nulls()
    )
    assert main([*SCORE, "scores.csv", "--unknown", "skip"]) == 0
    out, err = capsys.readouterr()
    assert "160 rows of 6 tasks" in out  # those that were scored
    assert (
        "skipped" not in out
        and err == "manyone: note: 20 rows of tasks never seen skipped.\n"
    )
    assert pl.read_csv("scores.csv")["row"].to_list() == list(range(20, 180))
    refused(
        [*SCORE, "scores.csv", "--unknown", "error"],
        "today.csv: row 0 has the unknown task 'new' in the column 'machine'",
    )
    table.with_columns(pl.col("machine") + " ").write_csv("today.csv")
    assert main([*SCORE, "scores.csv", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["basis"]["unknown"] == len(table)
    assert (
        "'pump 0 '" in err and "'pump 0'" in err and "written in the same way?" in err
    )


def test_tasks_with_equally_many_alarms_are_in_the_order_of_their_names(here, capsys):
    assert main([*SCORE, "scores.csv", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)["alarms_by_task"]
    assert list(counts) == sorted(counts, key=lambda task: (-counts[task], task))


def test_evaluate_tells_what_is_caught(here, capsys):
    args = ["evaluate", "fleet.manyone", "today.csv", "--outlier", "broken"]
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "(all)" in out and "pump 5" in out and "false alarms" in out
    assert main([*args, "--json"]) == 0
    whole, *tasks = json.loads(capsys.readouterr().out)
    assert len(tasks) == 6 and whole["auc"] > 0.7


def test_evaluate_says_which_auc_is_a_mean(here, capsys):
    args = ["evaluate", "fleet.manyone", "today.csv", "--outlier", "broken"]
    model = manyone.load("fleet.manyone")
    table = pl.read_csv("today.csv", try_parse_dates=True)
    results = model.evaluate(table, outlier="broken")
    p_values = model.score(table)["p_value"].to_numpy()
    over_rows = roc_auc_score(~table["broken"].cast(bool).to_numpy(), p_values)
    assert results["auc"][0] == pytest.approx(results["auc"][1:].fill_nan(None).mean())
    assert results["auc_over_rows"][0] == pytest.approx(over_rows)
    assert main(args) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"it is {100 * over_rows:.1f}." in out
    assert "the mean of the tasks' AUCs" in out
    assert main([*args, "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert lines[0]["auc"] == pytest.approx(results["auc"][0])
    assert lines[0]["auc_over_rows"] == pytest.approx(over_rows)
    assert [line["task"] for line in lines] == results["task"].to_list()


def test_info_shows_every_column(here, capsys):
    assert main(["info", "fleet.manyone"]) == 0
    out = capsys.readouterr().out
    for words in (
        "'pump 0'",
        "left-out",
        "number",
        "machine",
        "IndependentOCKSR",
        "150",
    ):
        assert words in out


def test_upkeep_changes_the_file(here, capsys):
    assert main(["recalibrate", "fleet.manyone", "--alarm-rate", "0.2"]) == 0
    assert manyone.load("fleet.manyone").alarm_rate == 0.2
    assert main(["forget", "fleet.manyone", "pump 3"]) == 0
    assert "pump 3" not in manyone.load("fleet.manyone").tasks_.tolist()
    assert b"pump 3" not in (here / "fleet.manyone").read_bytes()
    new = pl.read_csv("today.csv").filter(
        ~pl.col("broken"), pl.col("machine") == "pump 3"
    )
    new.write_csv("new.csv")
    capsys.readouterr()
    assert main(["enroll", "fleet.manyone", "new.csv"]) == 0
    assert f"{len(new)} rows and 1 new task enrolled" in capsys.readouterr().out
    assert manyone.load("fleet.manyone").n_rows_ == 125 + len(new)
    assert sorted(path.name for path in here.iterdir()) == [
        "events.csv",
        "fleet.manyone",
        "new.csv",
        "today.csv",
    ]


@pytest.mark.parametrize(("rate", "borrowing"), [("0.05", 6), ("0.3", 0)])
def test_tasks_that_borrow_a_threshold_are_counted(here, capsys, rate, borrowing):
    """25 rows have a threshold at the fifth lowest score at 20 % and more."""
    options = ["--task", "machine", "--alarm-rate", rate, "--out", "m", *FAST]
    assert main(["fit", "events.csv", *options]) == 0
    words = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert ("6 of 6 tasks borrow scores of others" in words) == (borrowing > 0)
    assert main(["score", "m", "today.csv", "--out", "scores.csv"]) == 0
    basis = set(pl.read_csv("scores.csv")["basis"])
    assert ("pooled" in basis) == (borrowing > 0)


@pytest.fixture
def big(here, monkeypatch):
    """big.manyone: a model of a sample of the Parquet files in rows/."""
    monkeypatch.setattr("manyone.tables.sampling.MOST_TASK_ROWS", 20)
    events = pl.read_csv("events.csv").drop("when")
    (here / "rows").mkdir()
    for k in range(3):
        events[50 * k : 50 * (k + 1)].write_parquet(here / "rows" / f"{k}.parquet")
    args = ["fit", "rows", "--task", "machine", "--out", "big.manyone", *FAST]
    assert main(args) == 0
    return events.filter(pl.col("machine") != "pump 3")


def test_a_sample_is_called_one(here, big, capsys):
    capsys.readouterr()
    assert main(["info", "big.manyone"]) == 0
    cells = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "a sample of 120 of 150" in cells
    assert "6 by 'machine', 25 rows each" in cells


def test_rows_come_to_a_sampled_model(here, big, capsys):
    new = pl.read_csv("today.csv").filter(
        ~pl.col("broken"), pl.col("machine") == "pump 3"
    )
    new.with_columns(machine=pl.lit("pump 7")).write_csv("new.csv")
    assert main(["enroll", "big.manyone", "new.csv"]) == 0
    assert f"{len(new)} rows and 1 new task enrolled" in capsys.readouterr().out
    model = manyone.load("big.manyone")
    assert model.n_rows_ == 150 + len(new)
    assert "pump 7" in model.tasks_.tolist()
    assert main(["score", "big.manyone", "new.csv", "--out", "s.csv"]) == 0
    assert set(pl.read_csv("s.csv")["basis"]) <= {"own", "pooled"}


def test_a_sampled_model_forgets(here, big, capsys):
    assert main(["forget", "big.manyone", "pump 3"]) == 0
    out = capsys.readouterr().out
    assert "25 rows of pump 3 forgotten; big.manyone has 5 tasks now" in out
    big.write_parquet("others.parquet")
    args = ["fit", "others.parquet", "--task", "machine", "--out", "other.manyone"]
    assert main([*args, *FAST]) == 0
    today = pl.read_csv("today.csv")
    scores = [manyone.load(f"{name}.manyone").score(today) for name in ("big", "other")]
    polars.testing.assert_frame_equal(*scores)
    assert b"pump 3" not in (here / "big.manyone").read_bytes()


def test_what_is_promised_is_what_the_rows_allow(here, capsys):
    assert main(["recalibrate", "fleet.manyone", "--alarm-rate", "0.001"]) == 0
    out, err = capsys.readouterr()
    allowed = manyone.load("fleet.manyone").model_.alarm_rate_.max()
    assert allowed > 0.005  # one of the rows that thresholds were set on
    assert f"{allowed:.2%} of normal rows" in out and "cannot promise" in err
    assert main([*SCORE, "s.csv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["alarm_rate"] == allowed
    assert told["expected_false_alarms"] == pytest.approx(
        allowed * told["rows"], abs=0.1
    )


@pytest.mark.parametrize(
    ("args", "doing"),
    [
        (["fit", "events.csv", "--task", "machine", "--out", "m"], "fitting"),
        (
            ["evaluate", "fleet.manyone", "today.csv", "--outlier", "broken"],
            "evaluating",
        ),
        (["report", "fleet.manyone", "today.csv", "--out", "page.html"], "reporting"),
        (["enroll", "fleet.manyone", "events.csv"], "enrolling"),
        (["forget", "fleet.manyone", "pump 1"], "forgetting"),
        (
            ["score", "fleet.manyone", "today.csv", "--out", "s.csv", "--fdr", "0.1"],
            "scoring",
        ),
    ],
)
def test_long_work_has_a_bar_whose_steps_are_done_one_by_one(
    here, args, doing, monkeypatch
):
    """As if everything took over a second: the log has each step."""
    told = []

    @contextmanager
    def bar(doing, things, delay=1.0):
        yield lambda done, total: told.append((doing, done, total))

    for module in ("common", "score"):
        monkeypatch.setattr(f"manyone.cli.{module}.progress", bar)
    assert main(args) == 0
    mine = [(done, total) for name, done, total in told if name == doing]
    assert len(mine) > 2 and mine[-1][0] == mine[-1][1] > 1
    assert all(a <= b for (a, _), (b, _) in pairwise(mine))


def test_whole_numbers_name_tasks_in_csv_and_parquet(here, capsys):
    events = pl.read_csv("events.csv", try_parse_dates=True).with_columns(
        pl.col("machine").str.slice(5).cast(pl.Int64)
    )
    today = pl.read_csv("today.csv").with_columns(
        pl.col("machine").str.slice(5).cast(pl.Int64)
    )
    events.write_parquet("numbers.parquet")
    events.write_csv("numbers.csv")
    today.write_parquet("now.parquet")
    today.write_csv("now.csv")
    for trained in ("numbers.parquet", "numbers.csv"):
        assert (
            main(
                [
                    "fit",
                    trained,
                    "--task",
                    "machine",
                    "--time",
                    "when",
                    "--history",
                    "none",
                    "--out",
                    "m",
                    *FAST,
                ]
            )
            == 0
        )
        for scored in ("now.parquet", "now.csv"):
            assert main(["score", "m", scored, "--out", "s.csv"]) == 0
            assert set(pl.read_csv("s.csv")["basis"]) == {"pooled"}
        assert main(["forget", "m", "3"]) == 0


def test_streams(here):
    def run(args, content):
        command = [sys.executable, "-m", "manyone", *args]
        return subprocess.run(command, input=content, capture_output=True, timeout=120)

    today = (here / "today.csv").read_bytes()
    found = run(["score", "fleet.manyone", "-", "--out", "-"], today)
    assert found.returncode == 0 and b"180 rows of 6 tasks" in found.stderr
    assert pl.read_csv(io.BytesIO(found.stdout)).columns == COLUMNS
    found = run(["score", "fleet.manyone", "-", "--out", "-"], today[:-20])
    assert found.returncode == 2 and found.stdout == b""
    assert (
        found.stderr.count(b"\n") == 1 and b"stdin, row 179 (line 181)" in found.stderr
    )


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "fit",
        "info",
        "score",
        "evaluate",
        "report",
        "enroll",
        "forget",
        "recalibrate",
    ],
)
def test_help_has_examples(command, capsys):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Examples:" in out and f"manyone {command}" in out.partition("Examples:")[2]


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_every_form_of_a_table_gives_the_same_model(engine, here, capsys):
    """A folder of Parquet files, one of them, a text: on every engine."""
    pytest.importorskip("dask.dataframe")
    table = pl.read_csv("events.csv", try_parse_dates=True)
    (here / "events").mkdir()
    for k in range(3):
        table[50 * k : 50 * (k + 1)].write_parquet(f"events/{k}.parquet")
    table.write_parquet("events.parquet")
    args = ["--task", "machine", "--time", "when", "--out", "new.manyone", "--no-tune"]
    expected = None
    for name in ("events.csv", "events.parquet", "events"):
        assert main(["fit", name, *args, "--engine", engine]) == 0
        out = capsys.readouterr().out
        assert "6 by 'machine', 25 rows each" in out
        assert main(["score", "new.manyone", "today.csv", "--out", "scores.csv"]) == 0
        scores = pl.read_csv("scores.csv")
        if expected is None:
            expected = scores
        polars.testing.assert_frame_equal(scores, expected)
    assert 0 < expected["alarm"].sum() < 120


def test_what_dask_cannot_fit(refused):
    pytest.importorskip("dask.dataframe")
    args = ["--task", "machine", "--out", "new.manyone"]
    refused(["fit", "none.csv", *args, "--engine", "dask"], "none.csv", "no such file")
    refused(
        ["fit", "none.parquet", *args, "--engine", "dask"],
        "none.parquet",
        "no such file",
    )
    refused(["fit", "events.csv", *args, "--scheduler", "tcp://a:1"], "--engine dask")
