"""The benchmark: everybody measured alike, files that say it, and what is missing named."""

import csv

import numpy as np

from manyone.bench import Case, Measured, measure
from manyone.bench.contenders import CONTENDERS, FLOOR, OURS, fleet
from manyone.bench.run import task_auc
from manyone.bench.write import COLUMNS, STUDIES, as_markdown, charts, write_all
from manyone.cli import main


def test_cases_are_measured_and_written(tmp_path, monkeypatch):
    def missing(data, landmarks):
        raise ImportError("no module named 'nowhere'")

    monkeypatch.setitem(CONTENDERS, "himalaya KernelRidge", missing)
    some = (
        OURS,
        FLOOR,
        "Nystroem + Ridge",
        "OneClassSVM per task",
        "himalaya KernelRidge",
    )
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
    page = (tmp_path / "bench.md").read_text()
    assert "not installed" in page
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == ["## More rows"]
    assert page.count(f"| {OURS} |") == 2
    assert (tmp_path / "bench_rows.png").stat().st_size > 1000


def test_rows_on_workers_are_told_apart_by_what_grows():
    cases = [Case("strong", 80, 5, 4, 9, (OURS,), n) for n in (1, 2)]
    cases += [Case("weak", 80 * n, 5, 4, 9, (OURS,), n) for n in (1, 2)]
    found = [Measured(case, OURS, (1.0 + case.workers,), (1.0,)) for case in cases]
    page = as_markdown(found)
    for study in ("strong", "weak"):
        assert f"## {STUDIES[study][0]}" in page
    strong, weak = charts(found)
    assert strong.panels[0].x.names == weak.panels[0].x.names == ("1", "2")
    assert strong.panels[0].x.label != weak.panels[0].x.label
    assert strong.panels[0].content[0].y == (2.0, 3.0)


def test_auc_is_the_mean_over_tasks():
    data = fleet(60, 3, 4)
    assert task_auc(data, np.where(data.outlier, 0.0, 1.0)) == 1.0
    assert task_auc(data, np.zeros(len(data.outlier))) == 0.5


def test_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "manyone.bench.QUICK", (Case("rows", 60, 3, 4, 10, (OURS, FLOOR)),)
    )
    assert main(["bench", "--quick", "--out", str(tmp_path)]) == 0
    assert "JointOCKSR" in capsys.readouterr().out
    assert (tmp_path / "bench.csv").exists()
    (tmp_path / "file").touch()
    assert main(["bench", "--quick", "--out", str(tmp_path / "file")]) == 2
