"""Messages about new incidents, and how they are sent.

A store keeps messages until they are delivered. This module only carries them, and
tells how each try ended.

The address of a receiver is a secret, as whoever knows it can write there. It is in no
text that this module makes, and no error of another package is passed on.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from http.client import HTTPException, HTTPMessage
from typing import IO, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

#: Seconds that one try may take.
TIMEOUT = 10.0
#: After so many seconds a command begins no further try.
PATIENCE = 15.0
# After so many failures in a row no message is tried any more.
_FAILURES = 6
# Seconds before the next try after a failure; they double with every further one.
_FIRST_PAUSE = 0.1
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}")


class NotSentError(Exception):
    """A try has failed; the message says why and does not name the address."""


class AddressError(ValueError):
    """An address cannot be used; the message says why and does not name it."""


class Message(NamedTuple):
    """A message that waits.

    Attributes
    ----------
    number : int
        Of the message in its store.
    content : dict
        What a webhook gets as JSON. ``id`` stays the same when it is sent again, and
        ``text`` says it for people.
    """

    number: int
    content: dict[str, object]


class Outcome(NamedTuple):
    """How a try ended; `problem` is empty where the message was delivered."""

    number: int
    problem: str


#: A way to a receiver. It delivers what a message holds, or raises `NotSentError`: it
#: was not delivered, or nobody knows whether it was.
Send = Callable[[Mapping[str, object]], None]


def channel_to(address: str) -> Send:
    """The way to an address.

    Parameters
    ----------
    address : str
        ``http://`` and ``https://`` get JSON by POST; other schemes are those of
        Apprise, as ``slack://`` or ``mailto://``. ``$NAME`` is a variable of the
        environment that holds one of these.

    Raises
    ------
    AddressError
        If it is no address, or needs Apprise, which is not installed.
    """
    variable = _VARIABLE.fullmatch(address.strip())
    if variable is not None:
        name = variable[1] or variable[2]
        address = os.environ.get(name, "")
        if not address:
            raise AddressError(f"the environment has no variable {name}. Set it")
    address = address.strip()
    try:
        parts = urlsplit(address)
        is_whole = bool(parts.scheme and "://" in address)
    except ValueError:
        is_whole = False
    if not is_whole or re.search(r"[\x00-\x20\x7f]", address):
        raise AddressError(
            "this is no address (it is not shown here). Give one as "
            "https://host/path, or the variable that holds it, as '$NAME'"
        )
    if parts.scheme.lower() in ("http", "https"):
        if not parts.hostname:
            raise AddressError("the address has no host (it is not shown here)")
        return partial(_post, address)
    return _apprise(address)


class _NoRedirects(HTTPRedirectHandler):
    """A redirected POST would become a GET without a message."""

    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow none: the answer is an error."""


_OPENER = build_opener(_NoRedirects)


def _post(address: str, content: Mapping[str, object]) -> None:
    """Send JSON by POST; every answer of 200 to 299 says that it was delivered."""
    body = json.dumps(content).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "manyone",
        "Idempotency-Key": json.dumps(str(content.get("id", ""))),
    }
    try:
        request = Request(address, body, headers, method="POST")
        _OPENER.open(request, timeout=TIMEOUT).close()
    except (OSError, HTTPException, ValueError) as error:
        raise NotSentError(_why(error)) from None


def _why(error: Exception) -> str:
    """What went wrong, in words that hold nothing of the address."""
    if isinstance(error, HTTPError):
        error.close()
        return f"the receiver answered {error.code}"
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {TIMEOUT:g} seconds"
    return f"it cannot be reached ({type(cause).__name__})"


def _apprise(address: str) -> Send:
    """The way to Slack, Teams, mail and others, through Apprise."""
    try:
        import apprise
    except ImportError:
        raise AddressError(
            "addresses that do not begin with http:// or https:// need Apprise. "
            "Install: pip install apprise"
        ) from None
    # It would log parts of addresses.
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    service = apprise.Apprise()
    if not service.add(address):
        raise AddressError(
            "Apprise does not know such an address (it is not shown here)"
        )

    def send(content: Mapping[str, object]) -> None:
        try:
            delivered = service.notify(body=str(content["text"]), title="manyone")
        except Exception as error:
            # Whatever a service raises may name the address.
            raise NotSentError(f"Apprise failed ({type(error).__name__})") from None
        if not delivered:
            raise NotSentError("Apprise could not deliver it")

    return send


def send_all(
    send: Send, messages: Iterable[Message], seconds: float = PATIENCE
) -> Iterator[Outcome]:
    """Try to deliver messages, and tell how each try ended, right after it.

    After a failure the next try waits, 0.1 seconds at first, then twice as long after
    every further failure in a row. Messages that have waited longest are tried first,
    so one that is always refused does not hold up the others. After `_FAILURES` in a
    row, or so many seconds, no other try begins. One that has begun may take `TIMEOUT`.
    """
    waiting = deque(messages)
    failures = 0
    end = time.monotonic() + seconds
    while waiting and failures < _FAILURES and time.monotonic() < end:
        if failures:
            time.sleep(_FIRST_PAUSE * 2.0 ** (failures - 1))
        message = waiting.popleft()
        problem = ""
        try:
            send(message.content)
            failures = 0
        except NotSentError as error:
            problem = str(error)
            failures += 1
            waiting.append(message)
        yield Outcome(message.number, problem)
