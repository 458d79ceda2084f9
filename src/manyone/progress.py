"""Progress of long work, for callers that listen."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

#: Called with the number of steps that are done, and of all steps so far.
Tell = Callable[[int, int], None]
#: Called with a line of text for people.
Say = Callable[[str], None]
T_co = TypeVar("T_co", covariant=True)


class _Counted(Sized, Iterable[T_co], Protocol[T_co]):
    """An iterable of known length."""


@dataclass
class _Count:
    """Numbers of steps, and the functions to call."""

    tell: Tell
    say: Say | None
    done: int = 0
    total: int = 0

    def add(self, done: int, total: int) -> None:
        self.done += done
        self.total += total
        self.tell(self.done, self.total)


_count: ContextVar[_Count | None] = ContextVar("count", default=None)


@contextmanager
def listening(tell: Tell, say: Say | None = None) -> Iterator[None]:
    """Call `tell` after each step inside the block, and `say` with announcements."""
    token = _count.set(_Count(tell, say))
    try:
        yield
    finally:
        _count.reset(token)


def counted(steps: _Counted[T_co]) -> Generator[T_co]:
    """Yield steps and report each to a listener; at the end all count as done."""
    count = _count.get()
    if count is None:
        yield from steps
        return
    left = len(steps)
    count.add(0, left)
    try:
        for step in steps:
            yield step
            left -= 1
            count.add(1, 0)
    finally:
        if left:
            count.add(left, 0)


def announce(text: str) -> None:
    """Send a line of text to a listener, if there is one."""
    count = _count.get()
    if count is not None and count.say is not None:
        count.say(text)
