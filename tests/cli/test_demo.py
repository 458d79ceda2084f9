"""``manyone demo``: the whole path in one command."""

from contextlib import nullcontext
from pathlib import Path

import polars as pl
import pytest

from manyone.cli import main
from manyone.cli.demo import example_tables


def test_the_example_is_a_table_nobody_prepared():
    events, today = example_tables()
    assert (
        events.null_count().sum_horizontal()[0] > 20 and "fault" not in events.columns
    )
    counts = events["machine"].value_counts()["count"]
    assert counts.n_unique() == 2 and set(today["machine"]) > set(events["machine"])
    assert 0.05 < today["fault"].mean() < 0.15
    assert example_tables()[0].equals(events)


def test_a_disk_that_is_full_leaves_no_half_of_a_table(tmp_path, capsys, monkeypatch):
    def fills_up(table, file, **options):
        with (
            open(file, "wb") if isinstance(file, Path) else nullcontext(file) as stream
        ):
            stream.write(b"when,mach")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_csv", fills_up)
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "the disk is full" in capsys.readouterr().err and not list(
        tmp_path.iterdir()
    )


@pytest.mark.parametrize("name", ["inbox/mine.csv", "fleet.state", "today.csv"])
def test_files_of_others_are_not_replaced(tmp_path, capsys, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert name.partition("/")[0] in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]


@pytest.mark.slow
def test_demo_ends_with_alarms_and_a_page(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "new" / "demo")]) == 0
    out, err = capsys.readouterr()
    for command in ("fit", "score", "evaluate", "report"):
        assert f"$ manyone {command} " in out
    assert "OneClassSVM" not in out and "Traceback" not in err
    folder = tmp_path / "new" / "demo"
    scores = pl.read_csv(folder / "scores.csv")
    today = pl.read_csv(folder / "today.csv")
    alarm = scores["alarm"]
    assert (
        alarm.filter(today["fault"]).mean()
        > 0.4
        > 0.12
        > alarm.filter(~today["fault"]).mean()
    )
    assert set(scores["basis"]) == {"pooled", "unknown"}
    assert (
        "reason_3" in scores.columns and (folder / "page.html").stat().st_size > 10_000
    )
