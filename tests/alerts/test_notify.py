"""Messages on their way to a receiver that refuses, hangs, dies and comes back."""

import random
import time

import pytest

from manyone.alerts import notify
from manyone.alerts.notify import (
    AddressError,
    Message,
    NotSentError,
    channel_to,
    send_all,
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


def outcomes_of(receiver, n, seconds=5.0):
    """How tries to deliver n messages have ended."""
    return list(send_all(channel_to(receiver.address), messages(n), seconds))


def test_a_message_arrives_once_as_json_with_its_id(receiver):
    outcomes = outcomes_of(receiver, 1)
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
        outcomes = list(send_all(channel_to(receiver.address), waiting, 60.0))
        failures += sum(bool(outcome.problem) for outcome in outcomes)
        sent = {outcome.number for outcome in outcomes if not outcome.problem}
        waiting = [message for message in waiting if message.number not in sent]
        if not waiting:
            break
    assert sorted(receiver.ids) == sorted(f"incident {k}" for k in range(40))
    assert failures == receiver.requests - 40 > 5


def test_a_receiver_that_refuses_all_is_left_alone(receiver, monkeypatch):
    monkeypatch.setattr(notify, "_FIRST_PAUSE", 0.001)
    receiver.behaviour = lambda n: 500
    assert len(outcomes_of(receiver, 100, 60.0)) == notify._FAILURES


def test_a_try_that_has_begun_is_waited_for(receiver, monkeypatch):
    """A message that arrives late is not sent again by the next command."""
    monkeypatch.setattr(receiver, "behaviour", lambda n: time.sleep(0.7) or 200)
    outcomes = outcomes_of(receiver, 3, 0.2)
    assert [outcome.problem for outcome in outcomes] == [""]
    assert receiver.ids == ["incident 0"]


def test_one_that_is_always_refused_does_not_hold_up_the_others(receiver):
    receiver.behaviour = lambda n: 400 if n == 0 else 200
    outcomes_of(receiver, 3)
    assert receiver.ids == ["incident 1", "incident 2", "incident 0"]


@pytest.mark.parametrize("what", ["hang", "drop", 500, 302])
def test_waiting_for_a_receiver_has_a_bound(receiver, monkeypatch, what):
    """Whatever it does, the end comes when it should."""
    monkeypatch.setattr(notify, "TIMEOUT", 0.3)
    receiver.behaviour = lambda n: what
    begin = time.monotonic()
    outcomes = outcomes_of(receiver, 100, 1.0)
    # Patience, a pause that had begun, and a last try.
    assert time.monotonic() - begin < 1.0 + 0.8 + 0.3 + 0.5
    assert receiver.delivered == []
    expected = {
        "hang": "no answer within 0.3 seconds",
        "drop": "it cannot be reached (RemoteDisconnected)",
        500: "the receiver answered 500",
        302: "the receiver answered 302",
    }
    assert {outcome.problem for outcome in outcomes} == {expected[what]}


def test_a_receiver_that_dies_and_comes_back_gets_what_was_kept(receiver):
    receiver.die()
    problems = []
    tries = send_all(channel_to(receiver.address), messages(5), 20.0)
    for outcome in tries:
        problems.append(outcome.problem)
        if len(problems) == 2:
            receiver.start()
    assert problems == ["it cannot be reached (ConnectionRefusedError)"] * 2 + [""] * 5
    assert sorted(receiver.ids) == [f"incident {k}" for k in range(5)]


# --- Addresses are secret.


def test_an_address_may_be_a_variable_of_the_environment(receiver, monkeypatch):
    monkeypatch.setenv("HOOK", receiver.address)
    for name in ("$HOOK", "${HOOK}"):
        channel_to(name)({"id": "a", "text": "look"})
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
        channel_to(address)({"id": "a", "text": "look"})
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
    channel_to(address)({"id": "a", "text": "pump 2: look"})
    ((_, content),) = receiver.delivered
    assert "pump 2: look" in str(content["message"])
