"""Unmodified clients, while every API that they use is cut, in the middle of its request and of its response, delayed,
and answered with errors: they recover by themselves, nothing acknowledged is lost, and each gets its own answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.clients.client_table import CLIENTS, Client
from tests.clients.group_view import GroupView
from tests.clients.programs import Programs
from tests.conftest import TopicFactory
from tests.faults.every_record import every_record
from tests.hostile.watching import held, wait_settled
from tests.shim_process import Shim
from tests.wire import WireClient

PYTHON = [client for client in CLIENTS if client.name in ("kafka-python", "aiokafka", "confluent-kafka")]
PARTITIONS, RECORDS = 3, 600
# A member whose JoinGroup is cut comes back as another one, and its group waits for the first until its session ends:
# 45 s by default.
LIMIT_S = 180.0
# What a client does not recover from by itself. kafka-python 3.0 gives up looking for metadata; so does aiokafka 0.14
# at its start, and while it is closing it waits for a coordinator that it does not look for any more.
SPARED = {"kafka-python": ("Metadata",), "aiokafka": ("Metadata", "OffsetCommit")}
# librdkafka 2.16 waits for metadata of the topic before it joins; where that comes while it looks for a coordinator
# anew, it joins at the next refresh, which is 5 minutes later by default.
CONSUMES_WITH = {"confluent-kafka": ("topic.metadata.refresh.interval.ms=1000",)}
CUT = (
    "Produce",
    "Fetch",
    "Metadata",
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "OffsetFetch",
    "OffsetCommit",
    "Heartbeat",
)
REFUSED = {"OffsetCommit": "NOT_COORDINATOR", "Heartbeat": "COORDINATOR_NOT_AVAILABLE", "JoinGroup": "NOT_COORDINATOR"}


def rules(spared: Sequence[str]) -> str:
    """Each API is cut twice: one request after 7 bytes, one response after 9. Of Produce there may be few."""
    found = []
    for api in CUT:
        if api in spared:
            continue
        first, second = (0, 0) if api == "Produce" else (1, 2)
        found.append(f'[[fault]]\napi = "{api}"\naction = "cut"\nbytes = 7\nskip = {first}\ntimes = 1\n')
        found.append(
            f'[[fault]]\napi = "{api}"\ndirection = "response"\naction = "cut"\nbytes = 9\nskip = {second}\ntimes = 1\n'
        )
    for api, error in REFUSED.items():
        if api in spared:
            continue
        found.append(f'[[fault]]\napi = "{api}"\naction = "error"\nerror = "{error}"\nskip = 3\ntimes = 1\n')
    found.append('[[fault]]\napi = "Fetch"\ndirection = "response"\naction = "delay"\nms = 200\nskip = 5\ntimes = 3\n')
    return "\n".join(found)


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path, LIMIT_S) as running:
        yield running


@pytest.mark.parametrize("client", PYTHON, ids=[client.name for client in PYTHON])
def test_clients_recover_from_cuts_delays_and_errors(
    client: Client, broker: Broker, tmp_path: Path, programs: Programs, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(PARTITIONS)
    faults = tmp_path / "faults.toml"
    faults.write_text(rules(SPARED.get(client.name, ())))
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings={"fault.injection.file": str(faults)}) as shim:
        with WireClient(shim.port):
            before = held(shim)
        producer = programs.start("producer", client.produce(shim.bootstrap, topic))
        settings = CONSUMES_WITH.get(client.name, ())
        member = programs.start("member", [*client.consume(shim.bootstrap, topic, group), *settings])
        producer.write(f"key-{number}\t{number}" for number in range(RECORDS))
        producer.end_input()
        assert programs.wait_end(producer) == 0, producer.report()
        written = every_record(broker, topic, PARTITIONS)
        assert {int(record.value) for record in written} == set(range(RECORDS)), "acknowledged, and lost"
        programs.wait("every record read", lambda: {r[:2] for r in member.records} >= {r[:2] for r in written})
        assert set(member.records) == set(written), "a record at an offset where it does not stand"
        member.terminate()
        assert programs.wait_end(member) == client.left, member.report()
        ends = {
            partition: 1 + max(r.offset for r in written if r.partition == partition) for partition in range(PARTITIONS)
        }
        # Two more that it may have by now: its own to the broker, to ask for topics and for groups.
        wait_settled(shim, before._replace(descriptors=before.descriptors + 2, connections=before.connections + 2))
        assert "Traceback" not in shim.log()
        for api in ("PRODUCE", "FETCH", "JOIN_GROUP", "FIND_COORDINATOR"):
            assert f"fault: cut, the request of {api} " in shim.log()
        assert "fault: cut, the response of PRODUCE " in shim.log()
        assert "fault: cut, the response of FETCH " in shim.log()
        faults.write_text("")
        shim.restart()
        assert GroupView(shim.bootstrap, group).committed() == ends
        assert shim.log().count("faults are injected") == 2
