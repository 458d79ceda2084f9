"""``manyone reproduce``: one line and code 2 for what users can mend; help."""

import pytest

from manyone.cli import main


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MANYONE_DATA", raising=False)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["reproduce", "--data", "cifar"], "cifar"),
        (["reproduce", "--protocol", "some"], "some"),
        (["reproduce", "--repeats", "0"], "--repeats"),
        (["reproduce", "--repeats", "many"], "--repeats"),
        (["reproduce", "--seed", "-1"], "--seed"),
        (["reproduce", "--workers", "0"], "--workers"),
        (["reproduce", "--out", "file.txt"], "file.txt is a file"),
        (["reproduce", "--out", "file.txt/inside"], "is a file"),
        (["reproduce", "--data-home", "nowhere"], "nowhere is not a folder"),
        (["reproduce", "--speed", "11"], "--speed"),
        (["reproduce", "extra"], "extra"),
        (["invent"], "invent"),
    ],
)
def test_bad_input_is_one_line_and_code_2(args, words, tmp_path, capsys):
    (tmp_path / "file.txt").write_text("mine")
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith("manyone: ") and words in err
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]
    assert (tmp_path / "file.txt").read_text() == "mine"


def test_missing_data_is_told_before_anything_is_written(tmp_path, capsys, monkeypatch):
    import manyone.experiments.data as data
    from manyone.datasets import DatasetNotFoundError

    def missing(name, data_home=None):
        raise DatasetNotFoundError(
            "The data file 'coil.npz' was not found.\nPut it there."
        )

    monkeypatch.setattr(data, "load", missing)
    assert main(["reproduce", "--data", "coil100"]) == 2
    assert capsys.readouterr().err == (
        "manyone: The data file 'coil.npz' was not found. Put it there.\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("args", [["--help"], ["reproduce", "--help"]])
def test_help(args, capsys):
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "manyone" in out and "reproduce" in out


@pytest.mark.parametrize("args", [["--help"], ["reproduce", "--help"]])
def test_help_has_examples(args, capsys):
    main(args)
    out = capsys.readouterr().out
    assert "Examples:" in out and "manyone reproduce --quick" in out


def test_reproduce_ends_with_table_and_page(tmp_path, capsys, monkeypatch):
    import manyone.experiments.runner as runner

    def compute(cell, data_home=None):
        assert cell.shrink == 5
        return {"auc": [0.9, 0.8]}

    monkeypatch.setattr(runner, "compute", compute)
    args = [
        "reproduce",
        "--quick",
        "--workers",
        "1",
        "--out",
        "deep/results",
        "--seed",
        "3",
    ]
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "C-OCKSR" in out and "85.00" in out and "96.91" in out
    assert "one repetition" in out and "±" not in out
    assert out.rstrip().endswith("deep/results/report.html")
    page = (tmp_path / "deep/results/report.html").read_text(encoding="utf-8")
    assert "--seed 3 --out deep/results --quick" in page
    assert (tmp_path / "deep/results/table.csv").exists()


def test_rivals_that_are_not_installed_are_told(capsys, monkeypatch):
    import sys

    import manyone.experiments.runner as runner

    module = sys.modules[
        "manyone.experiments.methods"
    ]  # the package has a function of that name
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setattr(
        runner, "compute", lambda cell, data_home=None: {"auc": [0.9, 0.8]}
    )
    assert main(["reproduce", "--repeats", "1", "--workers", "1"]) == 0
    note, page = capsys.readouterr().out.splitlines()[-2:]
    assert "ECOD (PyOD)" in note and ".[experiments]" in note
    assert page.startswith("Page: ")


def test_failures_are_told(capsys, monkeypatch):
    import manyone.experiments.runner as runner

    def compute(cell, data_home=None):
        if cell.method == "OCKSR":
            raise RuntimeError("no luck")
        return {"auc": [0.9, 0.8]}

    monkeypatch.setattr(runner, "compute", compute)
    assert main(["reproduce", "--quick", "--workers", "1"]) == 1
    wanted = "note: OCKSR failed in 2 cells: RuntimeError: no luck\n"
    assert wanted in capsys.readouterr().err
