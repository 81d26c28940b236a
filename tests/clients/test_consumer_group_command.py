"""Kafka's own `kafka-consumer-groups`: what it prints through the shim; as a control, the same at the broker."""

import pytest

from shim.demo.parts import Broker
from tests.clients.client_table import CONFLUENT_KAFKA, JAVA
from tests.clients.group_commands import GroupCommands
from tests.clients.group_view import GroupView
from tests.clients.programs import Programs
from tests.conftest import TopicFactory
from tests.shim_process import Shim

_PARTITIONS = 4
_RECORDS, _MORE = 1_000, 100
_NO_MEMBER = "-"


def _rows(printed: str, group: str) -> list[dict[str, str]]:
    lines = [line.split() for line in printed.replace("COORDINATOR (ID)", "COORDINATOR ID").splitlines() if line]
    headings = next(line for line in lines if line[0] == "GROUP")
    return [dict(zip(headings, line, strict=False)) for line in lines if line[0] == group]


def _column(rows: list[dict[str, str]], heading: str) -> dict[int, str]:
    """One column of the offsets table, by partition."""
    return {int(row["PARTITION"]): row[heading] for row in rows}


def _offsets(rows: list[dict[str, str]], heading: str) -> dict[int, int]:
    return {partition: int(offset) for partition, offset in _column(rows, heading).items()}


@pytest.mark.parametrize("through", ["shim", "broker"])
def test_list_and_describe(
    through: str,
    broker: Broker,
    shim: Shim,
    programs: Programs,
    make_topic: TopicFactory,
    group: str,
    group_commands: GroupCommands,
) -> None:
    topic = make_topic(_PARTITIONS)
    bootstrap, port = {
        "shim": (shim.bootstrap, shim.broker_port(broker.node_id)),
        "broker": (broker.bootstrap_servers, broker.port),
    }[through]
    view = GroupView(bootstrap, group)

    def told(*args: str) -> str:
        printed = group_commands.run(bootstrap, *args)
        assert printed.status == 0, printed
        return printed.text

    def table(*what: str) -> list[dict[str, str]]:
        """The rows of `--describe --group`, by the table's own headings; a last column may be empty."""
        return _rows(told("--describe", "--group", group, *what), group)

    def produce(count: int) -> None:
        producer = programs.start("producer", CONFLUENT_KAFKA.produce(bootstrap, topic))
        producer.write(f"key-{number}\t{number}" for number in range(count))
        producer.end_input()
        assert programs.wait_end(producer) == 0, producer.report()

    members = [programs.start("member", JAVA.consume(bootstrap, topic, group)) for _ in range(2)]
    programs.wait("two members, two partitions each", lambda: view.shared_by(2, _PARTITIONS))

    # With members.
    assert told("--list").splitlines().count(group) == 1
    [state] = table("--state")
    assert state == {
        "GROUP": group,
        "COORDINATOR": f"127.0.0.1:{port}",
        "ID": f"({broker.node_id})",
        "ASSIGNMENT-STRATEGY": "range",
        "STATE": "Stable",
        "#MEMBERS": "2",
    }
    rows = table("--members", "--verbose")
    owners = {}
    for row in rows:
        assigned = row["CURRENT-ASSIGNMENT"].removeprefix(f"{topic}:").split(",")
        assert (row["HOST"], row["CLIENT-ID"], row["#PARTITIONS"]) == ("/127.0.0.1", "console-consumer", "2")
        owners.update({int(partition): row["CONSUMER-ID"] for partition in assigned})
    assert sorted(owners) == list(range(_PARTITIONS))
    assert len(set(owners.values())) == len(rows) == 2
    rows = table()
    assert _column(rows, "CONSUMER-ID") == owners
    assert set(_column(rows, "TOPIC").values()) == {topic}

    # They have read, committed and left.
    produce(_RECORDS)
    programs.wait("every record read", lambda: sum(len(member.records) for member in members) >= _RECORDS)
    for member in members:
        member.terminate()
        assert programs.wait_end(member) == JAVA.left, member.report()
    [state] = table("--state")
    assert (state["STATE"], state["#MEMBERS"]) == ("Empty", "0")
    rows = table()
    committed = _offsets(rows, "CURRENT-OFFSET")
    assert sum(committed.values()) == _RECORDS
    assert committed == _offsets(rows, "LOG-END-OFFSET") == view.committed()
    assert _offsets(rows, "LAG") == dict.fromkeys(range(_PARTITIONS), 0)
    assert set(_column(rows, "CONSUMER-ID").values()) == {_NO_MEMBER}

    # More has come meanwhile.
    produce(_MORE)
    rows = table()
    assert _offsets(rows, "CURRENT-OFFSET") == committed
    lag = {partition: end - committed[partition] for partition, end in _offsets(rows, "LOG-END-OFFSET").items()}
    assert _offsets(rows, "LAG") == lag
    assert sum(lag.values()) == _MORE
