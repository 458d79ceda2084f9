"""A file is there whole, or as it was before."""

import os
import stat

import pytest

from manyone.files import write_atomically


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
