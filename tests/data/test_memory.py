"""How much memory there is, on systems that tell in different ways."""

import os
from pathlib import Path

from manyone.data.memory import available_bytes


def test_a_system_without_proc_and_sysconf_sets_no_limit(monkeypatch):
    """As on Windows."""

    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.delattr(os, "sysconf_names")
    monkeypatch.delattr(os, "sysconf")
    assert available_bytes() == float("inf")


def test_this_machine_has_some_memory():
    assert 0 < available_bytes() < float("inf")
