"""Subscriptions and assignments with any version in front, beside what Kafka's consumers and brokers make of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from protocol.consumer import (
    NEWEST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from protocol.errors import DecodeError
from protocol.schema import Table, table
from shim.demo.parts.tools import java_tool
from tests.protocol_java.values import same_message

PROGRAM: Final = str(Path(__file__).with_name("ConsumerPayloads.java"))
VERSIONS: Final = (-(2**15), -2, -1, 0, 1, 2, 3, 4, 5, 99, 2**15 - 1)

OWNED: Final = (TopicPartition("a", (0, 2)), TopicPartition("b", ()))
SUBSCRIPTIONS: Final = (
    ConsumerProtocolSubscription(("a", "b"), b"user", OWNED, 7, "rack"),
    ConsumerProtocolSubscription((), None),
)
ASSIGNMENTS: Final = (ConsumerProtocolAssignment(OWNED, b"user"), ConsumerProtocolAssignment((), None))


def payloads(bodies: list[bytes]) -> list[bytes]:
    """Every body after every version, with more behind it, and cut off anywhere."""
    whole = [version.to_bytes(2, "big", signed=True) + body for version in VERSIONS for body in bodies]
    return [
        *whole,
        *(raw + b"more" for raw in whole),
        *(raw[:size] for raw in whole for size in range(len(raw))),
    ]


OF_SUBSCRIPTIONS: Final = payloads(
    [encode_subscription(each, version)[2:] for each in SUBSCRIPTIONS for version in range(NEWEST_VERSION + 1)]
)
OF_ASSIGNMENTS: Final = payloads([encode_assignment(each)[2:] for each in ASSIGNMENTS])


@pytest.fixture(scope="module")
def told() -> dict[tuple[str, bytes], Any]:
    """What Kafka read, as JSON; None for what it refuses."""
    questions = dict.fromkeys(
        [
            *(("subscription", raw) for raw in OF_SUBSCRIPTIONS),
            *(("coordinator", raw) for raw in OF_SUBSCRIPTIONS),
            *(("assignment", raw) for raw in OF_ASSIGNMENTS),
        ]
    )
    asked = "".join(f"{kind} {raw.hex()}\n" for kind, raw in questions)
    answers = java_tool(PROGRAM, input=asked).stdout.splitlines()
    found = {}
    for question, line in zip(questions, answers, strict=True):
        verdict, _, rest = line.partition(" ")
        assert verdict in ("read", "refused"), line
        found[question] = json.loads(rest) if verdict == "read" else None
    return found


def read(decode: Callable[[bytes], Any], raw: bytes) -> Any:
    try:
        return decode(raw)
    except DecodeError:
        return None


@pytest.mark.parametrize(
    ("kind", "decode", "here", "asked"),
    [
        ("subscription", decode_subscription, table(ConsumerProtocolSubscription, 3, False), OF_SUBSCRIPTIONS),
        ("assignment", decode_assignment, table(ConsumerProtocolAssignment, 3, False), OF_ASSIGNMENTS),
    ],
    ids=["subscription", "assignment"],
)
def test_as_consumers_read_them(
    told: dict[tuple[str, bytes], Any], kind: str, decode: Callable[[bytes], Any], here: Table, asked: list[bytes]
) -> None:
    taken = set()
    for raw in asked:
        ours, theirs = read(decode, raw), told[kind, raw]
        assert (ours is None) == (theirs is None), (raw, ours, theirs)
        if ours is not None:
            same_message(theirs, ours, here)
            taken.add(int.from_bytes(raw[:2], "big", signed=True))
    assert taken == {version for version in VERSIONS if version >= 0}


def test_as_group_coordinators_read_them(told: dict[tuple[str, bytes], Any]) -> None:
    taken = set()
    for raw in OF_SUBSCRIPTIONS:
        ours, theirs = read(subscribed_topics, raw), told["coordinator", raw]
        assert ours == (None if theirs is None else tuple(theirs["topics"])), raw
        if ours:
            taken.add(int.from_bytes(raw[:2], "big", signed=True))
    assert taken == set(VERSIONS)
