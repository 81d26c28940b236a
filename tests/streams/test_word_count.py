"""Kafka Streams, unmodified: what its instances count is right whatever becomes of them; the shim serves the group."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from shim.demo.parts import Broker, JarSet
from tests.clients.group_view import GroupView, described
from tests.clients.programs import Program, Programs
from tests.shim_process import Shim
from tests.streams.counting import LEFT, Application, Counts, Text

_LINES = 1_000
_KILLS = 12


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.soak), "exactly_once_v2"])
def test_two_instances(
    guarantee: str,
    broker: Broker,
    shim: Shim,
    programs: Programs,
    word_count: JarSet,
    topics: tuple[str, str],
    text: Text,
    counts: Counts,
    group: str,
    tmp_path: Path,
) -> None:
    exactly_once = guarantee == "exactly_once_v2"
    source, target = topics
    application = Application(programs, word_count, tmp_path, shim.bootstrap, group, guarantee, source, target)
    at_shim, at_broker = (GroupView(at, group) for at in (shim.bootstrap, broker.bootstrap_servers))
    port = shim.broker_port(broker.node_id)

    def all_counted() -> bool:
        return counts.look() >= text.words.total()

    def shared_by(members: int) -> bool:
        found = described(port, group)
        stable = (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "stream")
        return stable and len(found.members) == members and all(at_shim.assigned().members)

    # One alone.
    text.write(_LINES)
    first = application.start("first")
    programs.wait("all words", all_counted)
    programs.wait("one instance", lambda: shared_by(1))

    # A second one takes its share; then the first one goes, in the midst of counting.
    second = application.start("second")
    programs.wait("two instances", lambda: shared_by(2))
    before = text.words.total()
    text.write(2 * _LINES)
    programs.wait("some words", lambda: counts.look() > before)
    if exactly_once:
        first.child.kill()
    else:
        first.terminate()
        assert programs.wait_end(first) == LEFT, first.report()
    programs.wait("all words", all_counted)
    programs.wait("one instance", lambda: shared_by(1))

    # It comes back to the state that it has on disk.
    text.write(_LINES)
    back = application.start("first")
    programs.wait("two instances", lambda: shared_by(2))
    text.write(_LINES)
    programs.wait("all words", all_counted)
    programs.wait("a look at their connections", lambda: port in second.remote_ports & back.remote_ports)
    for instance in (second, back):
        instance.terminate()
        assert programs.wait_end(instance) == LEFT, instance.report()
    for instance in (first, second, back):
        assert broker.port not in instance.remote_ports, instance.report()

    counts.look(1.0)
    assert counts.last() == text.words
    if exactly_once:
        assert counts.of == {word: list(range(1, count + 1)) for word, count in text.words.items()}
    programs.wait("the last commit", lambda: at_shim.committed(source) == text.ends)
    # The broker has the offsets that are part of transactions, and a copy of the others; it has seen no member.
    programs.wait("the broker's copy", lambda: at_broker.committed(source) == text.ends)
    of_broker = described(broker.port, group)
    assert (of_broker.group_state, of_broker.members) == ("Empty", ())


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_killed(
    seed: int,
    shim: Shim,
    programs: Programs,
    word_count: JarSet,
    topics: tuple[str, str],
    text: Text,
    counts: Counts,
    group: str,
    tmp_path: Path,
) -> None:
    """Exactly once: each word is counted once, and each of its counts is written once."""
    rng = random.Random(seed)
    application = Application(programs, word_count, tmp_path, shim.bootstrap, group, "exactly_once_v2", *topics)
    running: dict[str, Program] = {name: application.start(name) for name in ("first", "second")}

    def more_than(words: int) -> bool:
        return counts.look(0.01) > words

    for _ in range(_KILLS):
        before = text.words.total()
        text.write(_LINES)
        programs.wait("some words", partial(more_than, before))
        victim = rng.choice(("shim", "shim", *running))
        if victim == "shim":
            shim.kill()
            shim.start()
        else:
            running[victim].child.kill()
            running[victim] = application.start(victim)
        programs.wait(f"all words after {victim} was killed", lambda: counts.look() >= text.words.total())
    counts.look(1.0)
    assert counts.of == {word: list(range(1, count + 1)) for word, count in text.words.items()}
    assert all(instance.child.running for instance in running.values())
    assert "Traceback" not in shim.log()
