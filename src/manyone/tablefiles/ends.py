"""Both ends of what was read of a file, or written to it: enough to know it again.

A file that only grows is known by the beginning and the end of what was seen of it. So
it takes the same time to know a long file as a short one. Whoever changes bytes far
from both ends is not noticed; a file that was rotated, cut, replaced or written anew
is.
"""

from __future__ import annotations

import hashlib
from typing import IO

#: Bytes of each end.
SIZE = 2**16


class Ends:
    """The first and the last bytes of a text that grows.

    Parameters
    ----------
    first, last : bytes
        At most `SIZE` each. They overlap in a short text.
    """

    def __init__(self, first: bytes = b"", last: bytes = b"") -> None:
        self._first = first
        self._last = last

    @classmethod
    def of_stream(cls, stream: IO[bytes], begin: int, size: int) -> Ends:
        """Ends of `size` bytes from `begin` on; the stream then stands behind them."""
        length = min(size, SIZE)
        stream.seek(begin)
        first = stream.read(length)
        stream.seek(begin + size - length)
        return cls(first, stream.read(length))

    def add(self, content: bytes) -> None:
        """Let the text go on."""
        self._first += content[: SIZE - len(self._first)]
        self._last = (self._last + content)[-SIZE:]

    @property
    def digest(self) -> str:
        """SHA-256 of both ends."""
        return hashlib.sha256(self._first + self._last).hexdigest()
