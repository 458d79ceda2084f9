"""Disks that are full or cannot be written: one line, and nothing is lost."""

import subprocess

import pytest

from manyone.cli import main
from streams import WATCH, query


@pytest.fixture
def disk(here):
    """A folder ``disk`` with its own file system, and a function that changes it."""
    (here / "disk").mkdir()

    def mount(*options):
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", "disk"]
        return subprocess.run(command, capture_output=True, check=False).returncode

    if mount("size=200k"):
        pytest.skip("this user cannot mount file systems")
    yield lambda *options: mount("remount", *options)
    subprocess.run(["umount", here / "disk"], check=True)


def test_a_disk_that_is_full_gets_room_again(here, disk, capsys):
    assert main([*WATCH[:4], "wanted"]) == 0
    args = [*WATCH[:4], "disk/s"]
    capsys.readouterr()
    assert main(args) == 2
    full = "manyone: the disk is full. Make room, and give the command again.\n"
    assert capsys.readouterr().err == full
    assert disk("size=50m") == 0
    assert main(args) == 0
    for table in ("scores", "incidents"):
        columns = "id, score" if table == "scores" else "id, alarms, by_chance"
        sql = f"SELECT {columns} FROM {table} ORDER BY id"
        assert query(sql, "disk/s") == query(sql, "wanted") != []


def test_a_folder_that_cannot_be_written_can_be_read(here, disk, capsys):
    assert disk("size=50m") == 0
    assert main([*WATCH[:4], "disk/s"]) == 0
    before = (here / "disk/s").read_bytes()
    assert disk("ro") == 0
    for state in ("disk/s", "disk/new"):
        capsys.readouterr()
        assert main([*WATCH[:4], state]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and "cannot write in disk" in err
    report = ["report", "fleet.manyone", "--state", "disk/s", "--out", "page.html"]
    assert main(report) == 0
    assert (here / "disk/s").read_bytes() == before
