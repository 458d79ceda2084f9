"""A file is there whole, or as it was before."""

import os
import stat
import subprocess
import sys

import pytest

from manyone.files import write_atomically, written_beside


def test_content_and_permissions_are_those_of_a_plain_write(tmp_path):
    umask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", b"whole")
        (tmp_path / "plain").write_bytes(b"whole")
    finally:
        os.umask(umask)
    assert (tmp_path / "new").read_bytes() == b"whole"
    modes = {
        stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "plain")
    }
    assert modes == {0o640}


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt()]
)
def test_a_failure_leaves_what_was_there_and_nothing_else(
    tmp_path, monkeypatch, step, error
):
    path = tmp_path / "model"
    path.write_bytes(b"before")

    def fail(*_):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        write_atomically(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"no folder .*nowhere to write model into"
    ):
        write_atomically(tmp_path / "nowhere" / "model", b"")


def test_a_link_stays_and_its_target_is_written(tmp_path):
    target = tmp_path / "real" / "model"
    target.parent.mkdir()
    target.write_bytes(b"before")
    link = tmp_path / "link"
    link.symlink_to(target)
    write_atomically(link, b"after")
    assert link.is_symlink()
    assert target.read_bytes() == b"after"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_the_mode_of_a_file_is_kept(tmp_path, mode):
    path = tmp_path / "private"
    path.write_bytes(b"before")
    path.chmod(mode)
    write_atomically(path, b"after")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_the_owner_of_a_file_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "theirs"
    path.write_bytes(b"before")
    given = []
    owner = path.stat().st_uid + 1
    stated = os.stat

    def as_of_another(name, *args, **kwargs):
        status = stated(name, *args, **kwargs)
        fields = list(status)
        if str(name) == str(path):
            fields[stat.ST_UID] = owner
        return os.stat_result(fields)

    monkeypatch.setattr(os, "stat", as_of_another)
    monkeypatch.setattr(os, "chown", lambda name, *ids: given.append(ids))
    write_atomically(path, b"after")
    assert given == [(owner, path.stat().st_gid)]

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(PermissionError, match="theirs belongs to another user"):
        write_atomically(path, b"again")
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_folder_are_flushed(tmp_path, monkeypatch):
    flushed = []

    def note(handle):
        mode = os.fstat(handle).st_mode
        flushed.append("folder" if stat.S_ISDIR(mode) else "file")

    monkeypatch.setattr(os, "fsync", note)
    write_atomically(tmp_path / "model", b"whole")
    assert flushed == ["file", "folder"]


KILLED = """
import os, signal, sys
from pathlib import Path
from manyone.files import written_beside
with written_beside(Path(sys.argv[1])) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    pytest.importorskip("fcntl")
    path = tmp_path / "model[1]"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    (leftover,) = tmp_path.iterdir()
    assert leftover.name.endswith(".part")
    others = [tmp_path / ".model.x.part", tmp_path / ".model[1].txt"]
    for other in others:
        other.write_bytes(b"not ours")
    write_atomically(path, b"whole")
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_what_another_process_is_writing_stays(tmp_path):
    path = tmp_path / "model"
    with written_beside(path) as stream:
        stream.write(b"first")
        write_atomically(path, b"second")
        assert len(list(tmp_path.iterdir())) == 2
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]
