"""Members of four libraries that join, leave, are killed, freeze and come back, while records go on coming.

At the shim, and at the real coordinator: every record is processed, no partition has two owners in a generation, no
commit is beyond what was processed, none that was acknowledged is taken back. Each partition has an offset from the
beginning, and a member that is told of none fails the test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.cluster.asking import committed_offsets, listed_groups
from tests.conftest import TopicFactory
from tests.rebalancing.rebalance_times import table
from tests.rebalancing.running import MembersFailed
from tests.rebalancing.side import Plan, Side, at, state, told, until_one_fails
from tests.rebalancing.timetable import JAVA, KINDS, Group, Member
from tests.shim_process import Shim

SETTINGS: Mapping[str, str | int] = {
    "group.min.session.timeout.ms": 1_000,
    "group.initial.rebalance.delay.ms": 200,
    "offsets.mirror.upstream": "false",  # the broker is asked whether it knows of anything
}

SHORT = Plan(
    groups=(
        Group(
            "eager",
            "range",
            12,
            (
                Member("eager-kafka-python", "kafka-python", instance=True),
                Member("eager-aiokafka", "aiokafka"),
                Member("eager-confluent-kafka", "confluent-kafka"),
                Member("eager-java", JAVA, host="jvm"),
            ),
        ),
        Group(
            "cooperative",
            "cooperative-sticky",
            9,
            (
                Member("cooperative-static", "confluent-kafka", instance=True),
                Member("cooperative-confluent-kafka", "confluent-kafka"),
                Member("cooperative-java", JAVA, host="jvm"),
            ),
        ),
    ),
    kinds={
        "eager": ("leaves", "killed, away longer than its session", "static, killed, back within its session"),
        "cooperative": ("leaves", "static, killed, away longer than its session"),
    },
    seed=6,
    seconds=12.0,
    session=3.0,
    pause=(0.5, 1.0),
    rate=200,
)

LONG = Plan(
    groups=(
        Group(
            "eager",
            "range",
            24,
            (
                Member("eager-kafka-python", "kafka-python"),
                Member("eager-kafka-python-static", "kafka-python", instance=True),
                Member("eager-aiokafka", "aiokafka"),
                Member("eager-aiokafka-static", "aiokafka", instance=True),
                Member("eager-confluent-kafka", "confluent-kafka"),
                Member("eager-confluent-kafka-static", "confluent-kafka", instance=True),
                Member("eager-java", JAVA),
                Member("eager-java-static", JAVA, instance=True, host="jvm"),
            ),
        ),
        Group(
            "in-turn",
            "roundrobin",
            18,
            (
                Member("in-turn-kafka-python", "kafka-python"),
                Member("in-turn-kafka-python-static", "kafka-python", instance=True),
                Member("in-turn-aiokafka", "aiokafka"),
                Member("in-turn-aiokafka-2", "aiokafka"),
                Member("in-turn-confluent-kafka", "confluent-kafka"),
                Member("in-turn-java", JAVA, host="jvm"),
            ),
        ),
        Group(
            "cooperative",
            "cooperative-sticky",
            18,
            (
                Member("cooperative-confluent-kafka", "confluent-kafka"),
                Member("cooperative-confluent-kafka-2", "confluent-kafka"),
                Member("cooperative-confluent-kafka-static", "confluent-kafka", instance=True),
                Member("cooperative-java", JAVA, host="jvm"),
                Member("cooperative-java-2", JAVA, host="jvm"),
                Member("cooperative-java-static", JAVA, instance=True),
            ),
        ),
    ),
    kinds=dict.fromkeys(("eager", "in-turn", "cooperative"), tuple(KINDS)),
    seed=6,
    seconds=300.0,
    session=6.0,
    pause=(3.0, 5.0),
    rate=400,
)


@pytest.fixture(scope="module")
def shim(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    with Shim(broker.bootstrap_servers, tmp_path_factory.mktemp("shim") / "data", settings=SETTINGS) as running:
        yield running


def check_only_at_the_shim(side: Side, shim: Shim, broker: Broker) -> None:
    for name in side.names.values():
        assert state(shim.port, name) == ("Empty", 0)
        assert name not in listed_groups(broker.port)
        assert committed_offsets(broker.port, name) == {}
    assert "Traceback" not in shim.log()


def check_all_of_one_group(side: Side, plan: Plan) -> None:
    """Every group had a generation that all its members had records in, whatever their libraries."""
    for group in plan.groups:
        had = {(event.generation, event.member) for event in side.histories[group.name] if event.records}
        members = {member.name for member in group.members}
        assert any({name for number, name in had if number == generation} == members for generation, _ in had)


@pytest.mark.soak
def test_seven_members_of_four_libraries(broker: Broker, shim: Shim, make_topic: TopicFactory, tmp_path: Path) -> None:
    side = at(shim.port, SHORT, tmp_path / "members", make_topic)
    print(told(side, SHORT), table({"shim": side.times}), sep="\n")
    check_only_at_the_shim(side, shim, broker)
    check_all_of_one_group(side, SHORT)
    assert side.changes.keys() == {kind for kinds in SHORT.kinds.values() for kind in kinds}


WRONG = """
import shim.coordinator.requests.offset_fetch as module
asked = module._asked
def wrong(*arguments):
    topic = asked(*arguments)
    said = ({said} for offset in (p.committed_offset for p in topic.partitions))
    return topic._replace(partitions=tuple(
        p._replace(committed_offset=offset) for p, offset in zip(topic.partitions, said)
    ))
module._asked = wrong
"""

NO_OFFSET = "NoOffsetForPartition|no previously committed offset"  # what the libraries say
NOT_IN_THE_LOG = "OffsetOutOfRange|Offset out of range"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        pytest.param(-1, NO_OFFSET, id="none"),
        pytest.param(1_000_000, NOT_IN_THE_LOG, id="beyond the log", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize(
    "library", ["kafka-python", "aiokafka", "confluent-kafka", pytest.param(JAVA, marks=pytest.mark.soak)]
)
def test_a_member_that_is_told_no_offset_of_the_log_fails(
    broker: Broker, make_topic: TopicFactory, tmp_path: Path, library: str, said: int, found: str
) -> None:
    """None of the libraries begins somewhere by itself."""
    alone = Group("alone", "range", 2, (Member("only", library),))
    plan = SHORT._replace(groups=(alone,), kinds={})
    with (
        Shim(
            broker.bootstrap_servers, tmp_path / "data", settings=SETTINGS, late_patch=WRONG.format(said=said)
        ) as shim,
        pytest.raises(MembersFailed, match=f"only has ended with status 1(.|\\n)*({found})"),
    ):
        until_one_fails(shim.port, plan, tmp_path / "members", make_topic)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("by", "found"), [(2, f"was not processed|{NOT_IN_THE_LOG}"), (-2, "had been committed")], ids=["2", "-2"]
)
def test_wrong_offsets_would_be_noticed(
    broker: Broker, make_topic: TopicFactory, tmp_path: Path, by: int, found: str
) -> None:
    """What the other tests rely on: a shim that tells members other offsets than those committed does not pass."""
    patch = WRONG.format(said=f"offset + ({by} if offset > 5 else 0)")
    with (
        Shim(broker.bootstrap_servers, tmp_path / "data", settings=SETTINGS, late_patch=patch) as shim,
        pytest.raises(AssertionError, match=found),
    ):
        at(shim.port, SHORT, tmp_path / "members", make_topic)


@pytest.mark.soak
def test_twenty_members_beside_the_real_coordinator(tmp_path: Path, make_topic: TopicFactory) -> None:
    """Five minutes each, the same timetable."""
    with (
        Broker(tmp_path / "broker", properties=SETTINGS) as broker,
        Shim(broker.bootstrap_servers, tmp_path / "data", settings=SETTINGS) as shim,
    ):
        sides = {}
        for name, port in (("shim", shim.port), ("Kafka", broker.port)):
            sides[name] = at(port, LONG, tmp_path / name, partial(make_topic, on=broker))
            print(f"{name}: {told(sides[name], LONG)}")
        print(table({name: side.times for name, side in sides.items()}))
        check_only_at_the_shim(sides["shim"], shim, broker)
        for side in sides.values():
            check_all_of_one_group(side, LONG)
            assert side.changes.keys() == KINDS.keys()
