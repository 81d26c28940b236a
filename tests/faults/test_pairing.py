"""Faults of the network on both sides of the shim, at a real broker: every answer is the one to its question, in order,
and what has ended leaves nothing behind.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Final

import pytest

from tests.faults.census import Census, wait_settled
from tests.faults.conftest import Relayed
from tests.faults.conversation import Conversation, Subjects
from tests.faults.relay import Ending, Fault, Relay, Way

SIDES: Final = ("front", "behind")
ENDED_AT: Final = 14
"""Places in the bytes of one conversation, each on a connection of its own; all of these at a time."""

SHAPES: Final = {
    "latency": {"delay_seconds": 0.05},
    "a slow drip": {"piece_bytes": 23, "pause_seconds": 0.001},
    "single bytes, many at a time": {"piece_bytes": 1},
}


def relay(relayed: Relayed, side: str) -> Relay:
    return relayed.front if side == "front" else relayed.behind


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("side", SIDES)
def test_answers_that_come_late_or_in_pieces(
    relayed: Relayed, subjects: Subjects, before: Census, side: str, shape: str
) -> None:
    relay(relayed, side).put(*(Fault(way, **SHAPES[shape]) for way in Way))  # type: ignore[arg-type]
    with ExitStack() as clients:
        conversations = [
            clients.enter_context(Conversation(subjects, relayed.port, f"{shape}-{side}-{n}", 10 + n)) for n in range(3)
        ]
        for each in conversations:
            each.send()
        for each in conversations:
            assert not each.take_answers()
    relayed.heal()
    for each in conversations:
        each.check_commits(relayed.shim.broker_port(relayed.broker.node_id))
    wait_settled(relayed.shim, relayed.folder, before)


@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("side", SIDES)
def test_connections_that_end_at_any_byte(
    relayed: Relayed, subjects: Subjects, before: Census, side: str, way: Way, ending: Ending
) -> None:
    end_at_any_byte(relayed, subjects, before, side, way, ending, ENDED_AT)


def end_at_any_byte(
    relayed: Relayed, subjects: Subjects, before: Census, side: str, way: Way, ending: Ending, count: int
) -> None:
    between = relay(relayed, side)
    name = f"{side}-{way.name}-{ending.name}"
    with Conversation(subjects, relayed.port, f"{name}-{0:05}", 1) as whole:
        whole.send()
        assert not whole.take_answers()
        size = between.passed(way, whole.client_id)

    rng = random.Random(name)
    at = sorted({1, 3, 4, 7, 12, size - 1} | {rng.randrange(size) for _ in range(count - 6)})
    between.put(*(Fault(way, f"{name}-{each:05}", end=ending, after_bytes=each) for each in at))
    with ExitStack() as clients:
        conversations = [
            clients.enter_context(Conversation(subjects, relayed.port, f"{name}-{each:05}", each)) for each in at
        ]
        for each in conversations:
            each.send()
        for each in conversations:
            # Half-open between client and shim, nobody tells the client; everywhere else the shim knows, and says so.
            if side == "behind" or ending is not Ending.LOST:
                assert each.take_answers(), "it was never ended"
                assert len(each.answered) < len(each.questions)
        between.wait_hits(len(at))
    between.put()
    # What the relay has lost, the shim is still told by nobody.
    wait_settled(relayed.shim, relayed.folder, before)
    for each in conversations:
        each.check_commits(relayed.shim.broker_port(relayed.broker.node_id))
    if way is Way.TO_CLIENT and side == "behind" and ending is not Ending.RESET:
        assert len({len(each.answered) for each in conversations}) > count // 3, "they all ended at the same place"
    assert "Traceback" not in relayed.shim.log()
