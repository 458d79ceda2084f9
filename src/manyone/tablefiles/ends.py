"""Both ends of the part of a file that was read or written, to recognise it later.

A file that only grows is recognised by the beginning and the end of that part. So it
takes no longer for a long file than for a short one. A file that was rotated, cut,
replaced or written again is noticed. A change of bytes far from both ends is not.
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
        """Ends of `size` bytes from `begin` on; the stream goes on behind them."""
        length = min(size, SIZE)
        stream.seek(begin)
        first = stream.read(length)
        stream.seek(begin + size - length)
        return cls(first, stream.read(length))

    def add(self, content: bytes) -> None:
        """Append to the text."""
        self._first += content[: SIZE - len(self._first)]
        self._last = (self._last + content)[-SIZE:]

    @property
    def digest(self) -> str:
        """SHA-256 of both ends."""
        return hashlib.sha256(self._first + self._last).hexdigest()
