"""Processes that change one file take turns; the dead leave no lock."""

import multiprocessing
import os
import signal
import time

import pytest

from manyone.files import BusyError, locked, write_atomically

pytest.importorskip("fcntl")
fork = multiprocessing.get_context("fork")


def add_one(path, times):
    for _ in range(times):
        with locked(path):
            number = int(path.read_bytes())
            time.sleep(0.001)
            write_atomically(path, b"%d" % (number + 1))


def hold(path, ready):
    with locked(path):
        ready.set()
        time.sleep(60)


def test_no_update_is_lost(tmp_path):
    path = tmp_path / "number"
    path.write_bytes(b"0")
    processes = [fork.Process(target=add_one, args=(path, 30)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert path.read_bytes() == b"90"
    assert [file.name for file in tmp_path.iterdir()] == ["number"]


def test_errors_of_who_holds_the_lock_are_theirs(tmp_path):
    path = tmp_path / "number"
    path.write_bytes(b"0")
    with (
        pytest.raises(BlockingIOError, match="a pipe is full"),
        locked(path, patience=1.0),
    ):
        raise BlockingIOError("a pipe is full")  # what a lock that is taken raises, too


def test_waiting_ends_with_a_clear_line_and_the_lock_with_its_process(tmp_path):
    path = tmp_path / "number"
    ready = fork.Event()
    path.write_bytes(b"0")
    process = fork.Process(target=hold, args=(path, ready))
    process.start()
    assert ready.wait(60)
    with pytest.raises(
        BusyError, match=r"number is being changed by another process. Try again"
    ):
        locked(path, patience=0.2).__enter__()
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    with locked(path, patience=5.0):
        pass
