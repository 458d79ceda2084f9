"""How much memory there is, and refusals of what needs more."""

from __future__ import annotations

import os
from pathlib import Path

from manyone.capabilities import methods_that


class NotEnoughMemory(MemoryError, ValueError):
    """A request needs more memory than there is."""


def available_bytes() -> float:
    """Bytes of memory that are free on the machine, or in the container."""
    limits = [float("inf")]
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(1024.0 * float(line.split()[1]))
    except OSError:  # no such file on this system
        # Windows has neither this file nor these names.
        if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
            limits.append(
                float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
            )
    group = Path("/sys/fs/cgroup")
    try:
        most = (group / "memory.max").read_text().strip()
        if most != "max":
            limits.append(float(most) - float((group / "memory.current").read_text()))
    except OSError:  # not in a container, or one without this file
        return min(limits)
    return min(limits)


def refuse_without_memory(n_rows: int) -> None:
    """Raise if memory has no room for a kernel matrix and one factor of it."""
    needed = 2 * 8.0 * n_rows**2
    if needed > available_bytes():
        raise NotEnoughMemory(too_large(n_rows))


def refuse_beyond_memory(n_floats: float, what: str, remedy: str) -> None:
    """Raise if memory has no room for so many floats, which `what` takes."""
    if 8.0 * n_floats > available_bytes():
        raise NotEnoughMemory(
            f"{what} take {8.0 * n_floats / 2**30:.1f} GiB, and "
            f"{available_bytes() / 2**30:.1f} GiB can be had. {remedy}"
        )


def too_large(n_rows: int, joint: bool = True) -> str:
    """Sentences: why a kernel matrix of so many rows does not fit, and what to do."""
    able = ", ".join(methods_that("landmarks"))
    text = (
        f"The kernel matrix of {n_rows} rows{'' if joint else ' of one task'} and one "
        f"factor of it take {16.0 * n_rows**2 / 2**30:.1f} GiB, and "
        f"{available_bytes() / 2**30:.1f} GiB can be had. Give landmarks=1000 or so "
        f"({able})"
    )
    alone = ", or use IndependentOCKSR, which needs the matrix of one task at a time."
    return text + (alone if joint else ".")
