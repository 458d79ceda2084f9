"""The option --notify: its address, a test of it, warnings of undelivered messages."""

from __future__ import annotations

from pathlib import Path

import typer

from manyone.alerts.notify import AddressError, NotSentError, Send, channel_to
from manyone.cli.common import InputError
from manyone.messages import plural, warn_user
from manyone.watch.outbox import Unsent


def channel_of(address: str, said_in: str = "--notify") -> Send:
    """A way to an address. One that cannot be used is refused, and never shown."""
    try:
        return channel_to(address)
    except AddressError as error:
        raise InputError(f"{said_in}: {error}.") from None


def send_test(send: Send | None, state: Path) -> None:
    """Send a test message."""
    if send is None:
        raise InputError("--notify-test needs --notify URL.")
    text = "This is a test of manyone watch: new incidents arrive here."
    content = {"id": "test", "kind": "test", "text": text, "state": state.name}
    try:
        send(content)
    except NotSentError as error:
        raise InputError(
            f"--notify: the test was not delivered: {error}. Check the address, and "
            "whether this machine may reach it."
        ) from None
    typer.echo("The test message was delivered")


def warn_of_messages(unsent: Unsent) -> None:
    """Warn of messages that could not be delivered."""
    if unsent.waiting:
        warn_user(
            f"{plural(unsent.waiting, 'message')} could not be delivered "
            f"({unsent.problem}). The next command tries again."
        )
    if unsent.expired:
        warn_user(
            f"{plural(unsent.expired, 'message')} could not be delivered for a week "
            "and will not be tried again. The view messages of the state has them."
        )
