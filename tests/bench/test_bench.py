"""The benchmark: everybody measured alike, files that say it, and what is missing named."""

import csv

import numpy as np

from manyone.bench import Case, measure
from manyone.bench.contenders import CONTENDERS, FLOOR, OURS, fleet
from manyone.bench.run import task_auc
from manyone.bench.write import COLUMNS, write_all
from manyone.cli import main


def test_cases_are_measured_and_written(tmp_path, monkeypatch):
    def missing(data, landmarks):
        raise ImportError("no module named 'nowhere'")

    monkeypatch.setitem(CONTENDERS, "himalaya KernelRidge", missing)
    some = (OURS, FLOOR, "Nystroem + Ridge", "OneClassSVM per task", "himalaya KernelRidge")
    cases = [Case("rows", n, 5, 4, 20, some) for n in (100, 200)]
    found = measure(cases, 2)
    write_all(found, tmp_path)
    with open(tmp_path / "bench.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0]) == COLUMNS
    assert [row["contender"] for row in rows] == [*some, *some]
    assert rows[0]["ratio_to_ours"] == "1"
    assert "nowhere" in rows[4]["note"]
    assert float(rows[0]["auc"]) > 0.6
    assert rows[1]["auc"] == ""
    assert all(float(row["peak_mb"]) > 0 for row in rows[:4])
    assert "not installed" in (tmp_path / "bench.md").read_text()
    assert (tmp_path / "bench_rows.png").stat().st_size > 1000


def test_auc_is_the_mean_over_tasks():
    data = fleet(60, 3, 4)
    assert task_auc(data, np.where(data.outlier, 0.0, 1.0)) == 1.0
    assert task_auc(data, np.zeros(len(data.outlier))) == 0.5


def test_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("manyone.bench.QUICK", (Case("rows", 60, 3, 4, 10, (OURS, FLOOR)),))
    assert main(["bench", "--quick", "--out", str(tmp_path)]) == 0
    assert "JointOCKSR" in capsys.readouterr().out
    assert (tmp_path / "bench.csv").exists()
    (tmp_path / "file").touch()
    assert main(["bench", "--quick", "--out", str(tmp_path / "file")]) == 2
