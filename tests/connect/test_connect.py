"""Kafka Connect with its file source and sink: what goes in comes out, and the shim serves workers and consumers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from protocol.errors import ErrorCode
from shim.demo.parts import Broker
from tests.clients.group_view import GroupView, described
from tests.clients.programs import Programs
from tests.conftest import TopicFactory
from tests.connect.growing_file import GrowingFile, first_left_out, gone_back, whole_lines
from tests.connect.workers import LEFT, Worker, distributed, file_sink, file_source, standalone
from tests.shim_process import Shim

_LINES = 1_000
_TWO = ("first", "second")
_KILLS = 10
_TIMEOUT_S = 20.0


def _values(bootstrap: str, topic: str) -> list[str]:
    """The values of the topic's one partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks-on", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), _TIMEOUT_S)
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[str] = []
        while len(values) < end:
            (record,) = consumer.consume(1, _TIMEOUT_S)
            assert record.error() is None, record.error()
            values.append((record.value() or b"").decode())
        return values
    finally:
        consumer.close()


def _stop(programs: Programs, worker: Worker) -> None:
    """It commits, leaves its groups and ends."""
    worker.wait_up()
    worker.program.terminate()
    assert programs.wait_end(worker.program) == LEFT, worker.program.report()


def _has_kept_to_the_shim(programs: Programs, worker: Worker, shim: Shim, broker: Broker) -> None:
    port = shim.broker_port(broker.node_id)
    programs.wait("a look at its connections", lambda: port in worker.program.remote_ports)
    assert broker.port not in worker.program.remote_ports, worker.program.report()


def test_a_standalone_worker(
    broker: Broker, shim: Shim, programs: Programs, make_topic: TopicFactory, group: str, tmp_path: Path
) -> None:
    topic, source, sink = make_topic(1), GrowingFile(tmp_path / "in.txt", 1), tmp_path / "out.txt"
    at_shim, at_broker = (GroupView(at, f"connect-{group}") for at in (shim.bootstrap, broker.bootstrap_servers))
    worker = standalone(programs, tmp_path, shim.bootstrap)
    worker.connect(file_source(f"{group}-source", source.path, topic))
    worker.connect(file_sink(group, sink, topic))

    # While it runs, lines are added; the offset after the last one is committed.
    source.add(_LINES)
    worker.start()
    programs.wait("all lines", lambda: len(whole_lines(sink)) >= _LINES)
    source.add(_LINES)
    programs.wait("the lines that were added", lambda: len(whole_lines(sink)) >= 2 * _LINES)
    programs.wait("their commit", lambda: at_shim.committed() == {0: 2 * _LINES})
    assert at_shim.assigned().members == [{0}]
    _has_kept_to_the_shim(programs, worker, shim, broker)
    _stop(programs, worker)

    # What comes while it is away, it reads after its return, and nothing twice.
    source.add(_LINES)
    worker.start()
    programs.wait("what came meanwhile", lambda: len(whole_lines(sink)) >= 3 * _LINES)
    _stop(programs, worker)
    assert whole_lines(sink) == source.lines == _values(broker.bootstrap_servers, topic)
    assert at_shim.committed() == {0: 3 * _LINES}
    assert at_shim.listed()
    assert not at_broker.listed()
    assert at_broker.committed() == {}


def test_of_two_distributed_workers_one_is_killed(
    broker: Broker, shim: Shim, programs: Programs, make_topic: TopicFactory, group: str, tmp_path: Path
) -> None:
    topic, source, sink = make_topic(1), GrowingFile(tmp_path / "in.txt", 2), tmp_path / "out.txt"
    at_shim, at_broker = (GroupView(at, f"connect-{group}") for at in (shim.bootstrap, broker.bootstrap_servers))
    workers_group, port = f"{group}-workers", shim.broker_port(broker.node_id)
    workers = [distributed(programs, tmp_path, name, shim.bootstrap, workers_group) for name in _TWO]
    for worker in workers:
        worker.start()

    def shared_by(count: int) -> bool:
        found = described(port, workers_group)
        return (found.group_state, found.protocol_type, len(found.members)) == ("Stable", "connect", count)

    programs.wait("both workers in one group", lambda: shared_by(2))
    assert all(member.member_assignment for member in described(port, workers_group).members)
    workers[0].configure(file_source(f"{group}-source", source.path, topic))
    workers[0].configure(file_sink(group, sink, topic))
    source.add(_LINES)
    programs.wait("all lines", lambda: len(whole_lines(sink)) >= _LINES)
    programs.wait("their commit", lambda: at_shim.committed() == {0: _LINES})
    assert whole_lines(sink) == source.lines

    # The one that writes is killed in the midst of it, and the other goes on.
    by_address = {worker.rest_address: worker for worker in workers}
    killed = by_address.pop(workers[0].at_work(group))
    (left,) = by_address.values()
    with source:
        programs.wait("lines on their way", lambda: at_shim.committed()[0] > _LINES)
        committed = at_shim.committed()[0]
        programs.wait("lines without a commit", lambda: len(whole_lines(sink)) > committed)
        killed.kill()
        programs.wait("one worker", lambda: shared_by(1))
        programs.wait("the other in its place", lambda: at_shim.committed()[0] > committed + _LINES)
    programs.wait("all lines", lambda: whole_lines(sink)[-1] == source.lines[-1])
    programs.wait("word of it", lambda: left.at_work(group) == left.rest_address)
    assert at_shim.assigned().members == [{0}]
    _has_kept_to_the_shim(programs, left, shim, broker)
    _stop(programs, left)

    in_topic = _values(broker.bootstrap_servers, topic)
    assert gone_back(in_topic, source.lines), "lines are lost, or out of order, on their way into the topic"
    again = gone_back(whole_lines(sink), in_topic)
    assert again, "lines are lost, or out of order, on their way out of the topic"
    _, taken_over_at = again
    assert committed <= taken_over_at
    assert at_shim.committed() == {0: len(in_topic)}
    # Nobody but the shim has heard of either group.
    assert described(broker.port, workers_group).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert not at_broker.listed()
    assert at_broker.committed() == {}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_killed(
    seed: int, broker: Broker, shim: Shim, programs: Programs, make_topic: TopicFactory, group: str, tmp_path: Path
) -> None:
    """Lines come again where one of the two had not said yet how far it was; none is left out."""
    rng = random.Random(seed)
    topic, source, sink = make_topic(1), GrowingFile(tmp_path / "in.txt", seed), tmp_path / "out.txt"
    workers = [distributed(programs, tmp_path, name, shim.bootstrap, f"{group}-workers") for name in _TWO]
    for worker in workers:
        worker.start()
    workers[0].configure(file_source(f"{group}-source", source.path, topic))
    workers[0].configure(file_sink(group, sink, topic))

    def wait_committed(beyond: int) -> int:
        # Anew each time: librdkafka (seen with 2.16) can lose a request when all brokers have been away for seconds. It
        # begins again at its bootstrap servers then, and the request waits for a broker that it has let go.
        view = GroupView(shim.bootstrap, f"connect-{group}")
        programs.wait(f"a commit beyond {beyond}", lambda: view.committed().get(0, 0) > beyond)
        return view.committed()[0]

    for _ in range(_KILLS):
        with source:
            known = wait_committed(len(whole_lines(sink)))
            match rng.randrange(4):
                case (0 | 1) as at:
                    workers[at].kill()
                    workers[at].start()
                case _:
                    shim.kill()
                    shim.start()
            assert GroupView(shim.bootstrap, f"connect-{group}").committed()[0] >= known
            wait_committed(known + _LINES)
        programs.wait("all lines", lambda: whole_lines(sink)[-1] == source.lines[-1])
    for worker in workers:
        _stop(programs, worker)

    in_topic = _values(broker.bootstrap_servers, topic)
    assert first_left_out(in_topic) is None
    assert first_left_out(whole_lines(sink)) is None
    assert set(whole_lines(sink)) == set(source.lines)
    assert GroupView(shim.bootstrap, f"connect-{group}").committed() == {0: len(in_topic)}
    assert "Traceback" not in shim.log()
