"""Kafka Streams with a protocol of its own (KIP-1071): such a group is the cluster's, and passed through to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages import streams_group_describe
from shim.demo.parts import Broker, JarSet
from tests.clients.group_view import GroupView
from tests.clients.programs import Programs
from tests.migration.test_changing_hands import Administered, administered
from tests.shim_process import Shim
from tests.streams.counting import LEFT, Application, Counts, Text
from tests.wire import WireClient

_LINES = 1_000


@pytest.fixture
def at(broker: Broker, tmp_path: Path) -> Iterator[Administered]:
    with administered(broker, tmp_path / "data") as running:
        yield running


@pytest.fixture
def shim(at: Administered) -> Shim:
    return at.shim


def test_two_instances_of_which_one_is_killed(
    broker: Broker,
    at: Administered,
    shim: Shim,
    programs: Programs,
    word_count: JarSet,
    topics: tuple[str, str],
    text: Text,
    counts: Counts,
    group: str,
    tmp_path: Path,
) -> None:
    """And the shim with it. Then the group is one of the classic protocol, which goes on from there."""

    def all_counted() -> bool:
        return counts.look() >= text.words.total()

    at_broker = GroupView(broker.bootstrap_servers, group)
    settings = (programs, word_count, tmp_path, shim.bootstrap, group, "exactly_once_v2", *topics)
    text.write(_LINES)
    application = Application(*settings, "streams")
    instances = [application.start(name) for name in ("first", "second")]
    programs.wait("all words", all_counted)
    programs.wait("its state", lambda: _described(broker.port, group) == ("Stable", 2))
    told = at.status(group)
    assert (told["offsets_storage"], told["state"], told["type"], told["members"]) == (
        ("upstream", "Stable", "Streams", 2)
    )
    (planned,) = at.migrate("plan", group).json["groups"]
    assert "the streams protocol (KIP-1071)" in planned["hindrance"]
    before = text.words.total()
    text.write(_LINES)
    programs.wait("some words", lambda: counts.look() > before)
    shim.kill()
    shim.start()
    instances[0].child.kill()
    programs.wait("all words", all_counted)
    assert instances[1].child.running
    assert broker.port not in instances[1].remote_ports, instances[1].report()
    instances[1].terminate()
    assert programs.wait_end(instances[1]) == LEFT, instances[1].report()
    programs.wait("nobody is there", lambda: _described(broker.port, group) == ("Empty", 0))

    classic = Application(*settings).start("first")
    text.write(_LINES)
    programs.wait("all words", all_counted)
    classic.terminate()
    assert programs.wait_end(classic) == LEFT, classic.report()
    counts.look(1.0)
    assert counts.of == {word: list(range(1, count + 1)) for word, count in text.words.items()}
    programs.wait("the last commit", lambda: at_broker.committed(topics[0]) == text.ends)


def _described(port: int, group: str) -> tuple[str, int]:
    with WireClient(port) as client:
        request = streams_group_describe.StreamsGroupDescribeRequest((group,), False)
        (found,) = client.ask(streams_group_describe.API, 0, request).groups
        return found.group_state, len(found.members)
