"""Messages about new incidents, and the thread that sends them.

A store keeps messages until they are delivered. This module only carries them: a
`Sender` tries in a thread of its own, so that rows never wait for a receiver, and tells
how each try ended.

The address of a receiver is a secret, as whoever knows it can write there. It is in no
text that this module makes, and no error of another package is passed on.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO, NamedTuple, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

#: Seconds that one try may take.
TIMEOUT = 10.0
#: Seconds after which a command that has ended begins no other try.
PATIENCE = 15.0
# Tries of a message, and seconds before they may begin anew.
_TRIES = 6
_NEXT_ROUND = 60.0
# Seconds before the next try after a failure; they double with every further one.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0
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


class Channel(Protocol):
    """A way to a receiver."""

    def send(self, content: Mapping[str, object]) -> None:
        """Deliver a message.

        Raises
        ------
        NotSentError
            If it was not delivered, or nobody knows whether it was.
        """


def channel_to(address: str) -> Channel:
    """The channel to an address.

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
        return Webhook(address)
    return AppriseChannel(address)


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


class Webhook:
    """JSON by POST; every answer of 200 to 299 says that it was delivered."""

    def __init__(self, address: str) -> None:
        self._address = address

    def send(self, content: Mapping[str, object]) -> None:
        """Deliver a message, see `Channel`."""
        body = json.dumps(content).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "manyone",
            "Idempotency-Key": json.dumps(str(content.get("id", ""))),
        }
        try:
            request = Request(self._address, body, headers, method="POST")
            _OPENER.open(request, timeout=TIMEOUT).close()
        except (OSError, HTTPException, ValueError) as error:
            raise NotSentError(_why(error)) from None


def _why(error: Exception) -> str:
    """What went wrong, in words that hold nothing of the address."""
    if isinstance(error, HTTPError):
        error.close()
        return f"the receiver answered {error.code}"
    cause = error.reason if isinstance(error, URLError) else error
    reasons: list[tuple[type[BaseException], str]] = [
        (TimeoutError, f"no answer within {TIMEOUT:g} seconds"),
        (ConnectionRefusedError, "nobody listens there"),
        (ssl.SSLError, "its certificate or encryption is not accepted"),
        (socket.gaierror, "its host is not known"),
        (ConnectionError, "the connection broke"),
        (HTTPException, "the connection broke"),
    ]
    for kind, reason in reasons:
        if isinstance(cause, kind):
            return reason
    return f"it cannot be reached ({type(cause).__name__})"


class AppriseChannel:
    """Slack, Teams, mail and others through Apprise.

    Raises
    ------
    AddressError
        If Apprise is not installed, or does not know the address.
    """

    def __init__(self, address: str) -> None:
        try:
            import apprise
        except ImportError:
            raise AddressError(
                "addresses that do not begin with http:// or https:// need Apprise. "
                "Install: pip install apprise"
            ) from None
        # It would log parts of addresses.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        self._service = apprise.Apprise()
        if not self._service.add(address):
            raise AddressError(
                "Apprise does not know such an address (it is not shown here)"
            )

    def send(self, content: Mapping[str, object]) -> None:
        """Deliver a message, see `Channel`."""
        try:
            delivered = self._service.notify(body=str(content["text"]), title="manyone")
        except Exception as error:
            # Whatever a service raises may name the address.
            raise NotSentError(f"Apprise failed ({type(error).__name__})") from None
        if not delivered:
            raise NotSentError("Apprise could not deliver it")


class Sender:
    """Sends messages in a thread of its own.

    A message is tried `_TRIES` times. After a failure the next try waits, 0.1 seconds
    at first, then twice as long after every further failure. Messages that have waited
    longest are tried first, so one that is always refused does not hold up the others.
    What was tried in vain can be offered again a minute later.

    Parameters
    ----------
    channel : Channel
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._tries: dict[int, int] = {}
        self._waiting: deque[Message] = deque()
        self._outcomes: deque[Outcome] = deque()
        self._changed = threading.Condition()
        self._is_sending = False
        self._closed = threading.Event()
        self._next_round = 0.0
        self._thread = threading.Thread(
            target=self._work, name="manyone-notify", daemon=True
        )
        self._thread.start()

    def offer(self, messages: Iterable[Message]) -> None:
        """Send messages; those that were offered before are on their way already."""
        with self._changed:
            if time.monotonic() >= self._next_round:
                for number in [
                    n for n, tries in self._tries.items() if tries >= _TRIES
                ]:
                    del self._tries[number]
            for message in messages:
                if message.number not in self._tries:
                    self._tries[message.number] = 0
                    self._waiting.append(message)
            self._changed.notify_all()

    def outcomes(self) -> list[Outcome]:
        """How the tries since the last call have ended."""
        with self._changed:
            ended = list(self._outcomes)
            self._outcomes.clear()
        return ended

    def finish(self, seconds: float = PATIENCE) -> None:
        """Wait until all are delivered or tried in vain; then stop.

        After so many seconds no other try begins. The one that has begun may take its
        time, `TIMEOUT`: else nobody would know how it ended.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: not self._waiting and not self._is_sending, seconds
            )
            self._closed.set()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_sending, TIMEOUT)

    def _work(self) -> None:
        failures = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed.is_set())
                if self._closed.is_set():
                    return
                message = self._waiting.popleft()
                self._is_sending = True
            try:
                self._channel.send(message.content)
                problem = ""
            except NotSentError as error:
                problem = str(error)
            with self._changed:
                self._is_sending = False
                self._outcomes.append(Outcome(message.number, problem))
                if problem:
                    self._try_again(message)
                self._changed.notify_all()
            failures = failures + 1 if problem else 0
            if failures:
                pause = _FIRST_PAUSE * 2.0 ** min(failures - 1, 20)
                self._closed.wait(min(pause, _LONGEST_PAUSE))

    def _try_again(self, message: Message) -> None:
        self._tries[message.number] += 1
        if self._tries[message.number] < _TRIES:
            self._waiting.append(message)
        else:
            self._next_round = time.monotonic() + _NEXT_ROUND
