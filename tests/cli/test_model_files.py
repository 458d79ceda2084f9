"""Model files of the command line: links and modes stay, hostile files are one line."""

import os
import stat

import polars as pl
import pytest

from forging import Forged
from manyone import load
from manyone.cli import main

COMMANDS = {
    "forget": ["forget", "link.manyone", "pump 3"],
    "recalibrate": ["recalibrate", "link.manyone", "--alarm-rate", "0.2"],
    "enroll": ["enroll", "link.manyone", "more.csv"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_model_is_changed_through_a_link(here, command):
    (here / "models").mkdir()
    real = here / "models" / "real.manyone"
    (here / "fleet.manyone").rename(real)
    real.chmod(0o600)
    (here / "link.manyone").symlink_to(real)
    events = pl.read_csv(here / "events.csv")
    events.head(20).write_csv(here / "more.csv")
    before = load(real)
    assert main(command) == 0
    after = load(real)
    assert (here / "link.manyone").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert os.listdir(here / "models") == ["real.manyone"]
    changes = {
        "forget": "pump 3" not in after.tasks_.tolist(),
        "recalibrate": after.model_.promised_rate_ != before.model_.promised_rate_,
        "enroll": after.n_rows_ > before.n_rows_,
    }
    assert changes[command[0]]


def forge_indices(content):
    forged = Forged(content)
    objects = forged.tree["objects"]
    rows = next(node for node in objects if node["type"] == "TrainingRows")
    forged.array(rows["fields"]["codes"]["array"])[0] = 2000
    return forged.content()


FORGERIES = {
    "index": (forge_indices, "cannot be read"),
    "cut": (lambda content: content[:-9], "damaged"),
    "old": (
        lambda content: b'{"format": "manyone model"}\n' + content,
        "Fit the model",
    ),
    "new": (lambda content: content.replace(b" 4\n", b" 5\n", 1), "Upgrade manyone"),
}


@pytest.mark.parametrize(("forge", "words"), FORGERIES.values(), ids=FORGERIES.keys())
@pytest.mark.parametrize("command", ["score", "info", "recalibrate"])
def test_files_that_are_no_models_are_refused_and_left_alone(
    here, refused, forge, words, command
):
    path = here / "fleet.manyone"
    path.write_bytes(forge(path.read_bytes()))
    more = {
        "score": ["today.csv", "--out", "x.csv"],
        "info": [],
        "recalibrate": ["--alarm-rate", "0.2"],
    }
    refused([command, "fleet.manyone", *more[command]], "fleet.manyone", words)


def test_hostile_names_in_tables_are_shown_and_not_obeyed(here, capsys):
    today = pl.read_csv(here / "today.csv")
    name = "\x1b[31mpump\x07"
    today.with_columns(machine=pl.lit(name)).write_csv(here / "hostile.csv")
    command = ["score", "fleet.manyone", "hostile.csv", "--out", "s.csv"]
    assert main([*command, "--unknown", "pooled"]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err and "\x07" not in out + err
    assert r"\x1b[31mpump" in out + err
    assert set(pl.read_csv(here / "s.csv")["task"]) == {name}
