"""A small fleet as CSV files in the current folder, and a model that is fitted once."""

import shutil

import polars as pl
import pytest

from fleets import machine_tables
from manyone.cli import main

FAST = ["--anomalies", "faults", "--no-tune"]


def write_fleet(folder):
    """events.csv, today.csv (with the truth in `broken`) and fleet.manyone."""
    events, today = machine_tables(6, 25, 4, n_test=30, fault="own")
    today["broken"] = today.pop("fault")
    for name, table in (("events", events), ("today", today)):
        table.insert(0, "machine", "pump " + table.pop("machine").str[1:])
        days = [f"2026-01-{1 + k % 28:02} 12:00" for k in range(len(table))]
        table.insert(1, "when", days)
        pl.from_pandas(table).write_csv(folder / f"{name}.csv")
    files = [str(folder / "events.csv"), "--task", "machine", "--time", "when"]
    files += ["--history", "none"]  # the past of rows has tests of its own
    assert main(["fit", *files, "--out", str(folder / "fleet.manyone"), *FAST]) == 0


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    write_fleet(folder)
    return folder


@pytest.fixture
def here(fitted, tmp_path, monkeypatch, capsys):
    """The current folder, with copies of these files and nothing else."""
    for path in fitted.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MANYONE_DEBUG", raising=False)
    # Where many tests run at once, work that is short takes long: no bars.
    monkeypatch.setattr("manyone.cli.common._SHORT", 600.0)
    capsys.readouterr()
    return tmp_path


@pytest.fixture
def refused(here, capsys):
    """Checks that a command is refused in one line and leaves files alone."""

    def check(args, *words):
        capsys.readouterr()
        before = {
            path.name: path.read_bytes() for path in here.iterdir() if path.is_file()
        }
        assert main(args) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and err.startswith("manyone: "), err
        for word in words:
            assert word in err, err
        assert {
            path.name: path.read_bytes() for path in here.iterdir() if path.is_file()
        } == before
        return err

    return check
