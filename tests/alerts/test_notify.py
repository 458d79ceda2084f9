"""Messages on their way to a receiver that refuses, hangs, dies and comes back."""

import random
import time
from collections import Counter

import pytest

from manyone.alerts import notify
from manyone.alerts.notify import (
    AddressError,
    Message,
    NotSentError,
    Sender,
    channel_to,
)
from receivers import Receiver

SECRET = "very-secret"


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.die()


def messages(n):
    return [Message(k, {"id": f"incident {k}", "text": "look"}) for k in range(n)]


def send_all(receiver, n, seconds):
    """Offer n messages; how long it took, and what became of the tries."""
    sender = Sender(channel_to(receiver.address))
    begin = time.monotonic()
    sender.offer(messages(n))
    sender.finish(seconds)
    return time.monotonic() - begin, sender.outcomes()


def test_a_message_arrives_once_as_json_with_its_id(receiver):
    _, outcomes = send_all(receiver, 1, 5.0)
    assert [outcome.problem for outcome in outcomes] == [""]
    assert [content for _, content in receiver.delivered] == [
        {"id": "incident 0", "text": "look"}
    ]
    assert receiver.headers[0]["Content-Type"] == "application/json"
    assert receiver.headers[0]["Idempotency-Key"] == '"incident 0"'


def test_a_receiver_that_refuses_half_gets_every_message_once(receiver, monkeypatch):
    """What one command has tried in vain, the next one delivers."""
    monkeypatch.setattr(notify, "_FIRST_PAUSE", 0.01)
    rng = random.Random(0)
    receiver.behaviour = lambda n: rng.choice([200, 503])
    waiting = messages(40)
    failures = 0
    for _ in range(10):
        sender = Sender(channel_to(receiver.address))
        sender.offer(waiting)
        sender.finish(60.0)
        outcomes = sender.outcomes()
        tries = Counter(outcome.number for outcome in outcomes)
        assert max(tries.values()) <= notify._TRIES
        failures += sum(bool(outcome.problem) for outcome in outcomes)
        sent = {outcome.number for outcome in outcomes if not outcome.problem}
        waiting = [message for message in waiting if message.number not in sent]
        if not waiting:
            break
    assert sorted(receiver.ids) == sorted(f"incident {k}" for k in range(40))
    assert failures == receiver.requests - 40 > 5


def test_a_stream_tries_again_later(receiver, monkeypatch):
    """One process that never ends does not forget what it has tried in vain."""
    monkeypatch.setattr(notify, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(notify, "_NEXT_ROUND", 0.2)
    receiver.behaviour = lambda n: 500 if n < 2 * notify._TRIES else 200
    sender = Sender(channel_to(receiver.address))
    until = time.monotonic() + 20
    while not receiver.ids and time.monotonic() < until:
        sender.offer(messages(1))
        time.sleep(0.02)
    assert receiver.ids == ["incident 0"]


def test_a_try_that_has_begun_is_waited_for(receiver, monkeypatch):
    """A message that arrives late is not sent again by the next command."""
    monkeypatch.setattr(receiver, "behaviour", lambda n: time.sleep(0.7) or 200)
    sender = Sender(channel_to(receiver.address))
    sender.offer(messages(3))
    sender.finish(0.2)
    assert [outcome.problem for outcome in sender.outcomes()] == [""]
    assert receiver.ids == ["incident 0"]


def test_one_that_is_always_refused_does_not_hold_up_the_others(receiver):
    receiver.behaviour = lambda n: 400 if n == 0 else 200
    sender = Sender(channel_to(receiver.address))
    sender.offer(messages(3))
    sender.finish(5.0)
    assert receiver.ids == ["incident 1", "incident 2", "incident 0"]


@pytest.mark.parametrize("what", ["hang", "drop", 500, 302])
def test_waiting_for_a_receiver_has_a_bound(receiver, monkeypatch, what):
    """Whatever it does, offering takes no time and the end comes when it should."""
    monkeypatch.setattr(notify, "TIMEOUT", 0.3)
    receiver.behaviour = lambda n: what
    sender = Sender(channel_to(receiver.address))
    begin = time.monotonic()
    sender.offer(messages(100))
    assert time.monotonic() - begin < 0.1
    sender.finish(1.0)
    assert time.monotonic() - begin < 1.5
    assert receiver.delivered == []
    problems = {outcome.problem for outcome in sender.outcomes()}
    expected = {
        "hang": "no answer within 0.3 seconds",
        "drop": "the connection broke",
        500: "the receiver answered 500",
        302: "the receiver answered 302",
    }
    assert problems == {expected[what]}


def test_a_receiver_that_dies_and_comes_back_gets_what_was_kept(receiver):
    sender = Sender(channel_to(receiver.address))
    receiver.die()
    sender.offer(messages(5))
    time.sleep(0.3)
    assert {o.problem for o in sender.outcomes()} == {"nobody listens there"}
    receiver.start()
    sender.finish(20.0)
    assert sorted(receiver.ids) == [f"incident {k}" for k in range(5)]


def test_what_is_offered_twice_is_sent_once(receiver):
    sender = Sender(channel_to(receiver.address))
    for _ in range(3):
        sender.offer(messages(2))
    sender.finish(5.0)
    assert receiver.ids == ["incident 0", "incident 1"]


# --- Addresses are secret.


def test_an_address_may_be_a_variable_of_the_environment(receiver, monkeypatch):
    monkeypatch.setenv("HOOK", receiver.address)
    for name in ("$HOOK", "${HOOK}"):
        channel_to(name).send({"id": "a", "text": "look"})
    assert receiver.ids == ["a", "a"]
    monkeypatch.delenv("HOOK")
    with pytest.raises(AddressError, match="no variable HOOK"):
        channel_to("$HOOK")


@pytest.mark.parametrize(
    "address",
    [
        f"host/{SECRET}",
        f"http:///{SECRET}",
        f"http://host/{SECRET} and more",
        f"http://[{SECRET}",
        f"nonsense://{SECRET}",
        f"file:///etc/{SECRET}",
        f"http://host:{SECRET}/",
        f"http://127.0.0.1:1/{SECRET}",
        f"http://{SECRET}.invalid/",
        f"https://127.0.0.1:1/{SECRET}",
        f"json://127.0.0.1:1/{SECRET}",
        "",
        "$",
    ],
)
def test_no_message_names_the_address(address, capfd, caplog):
    with pytest.raises((AddressError, NotSentError)) as caught:
        channel_to(address).send({"id": "a", "text": "look"})
    error = caught.value
    said = []
    while error is not None and not error.__suppress_context__:
        said.append(f"{error} {error!r}")
        error = error.__cause__ or error.__context__
    said.append(f"{caught.value} {caught.value!r}")
    out, err = capfd.readouterr()
    assert SECRET not in " ".join([*said, out, err, caplog.text])


def test_apprise_delivers_to_what_it_knows(receiver):
    pytest.importorskip("apprise")
    address = receiver.address.replace("http://", "json://")
    channel_to(address).send({"id": "a", "text": "pump 2: look"})
    ((_, content),) = receiver.delivered
    assert "pump 2: look" in str(content["message"])
