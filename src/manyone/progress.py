"""How far long work has come, for whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

#: Called with the steps done and those known of.
Tell = Callable[[int, int], None]
#: Called with a line for people.
Say = Callable[[str], None]
T_co = TypeVar("T_co", covariant=True)


class _Counted(Sized, Iterable[T_co], Protocol[T_co]):
    """What can be counted before it is gone through."""


@dataclass
class _Count:
    """Steps done and known of, and who is told."""

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
    """Call `tell` whenever a step is done inside, and `say` with what is announced."""
    token = _count.set(_Count(tell, say))
    try:
        yield
    finally:
        _count.reset(token)


def counted(steps: _Counted[T_co]) -> Generator[T_co]:
    """Go through steps, and tell who listens; steps that are left out count as done."""
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
    """Say a line to whoever listens."""
    count = _count.get()
    if count is not None and count.say is not None:
        count.say(text)
