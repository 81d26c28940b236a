"""Which znodes a cluster makes, and how one set of them becomes another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compat.registration import (
    IDS,
    NO_TOPIC,
    TOPICS,
    Change,
    Kind,
    Partition,
    Registration,
    TopicZnodes,
    broker_value,
    differences,
    marked_cluster,
    marker_value,
    partitions_of,
    portions,
    topic_znodes,
)

NOTHING = Registration({}, {})
ONE = Partition(1, 5, (1, 2), (1,))

Znodes = dict[str, bytes]


def test_values_are_those_of_a_broker_of_0_8() -> None:
    assert json.loads(broker_value("shim", 9093, 1_400_000_000_000)) == {
        "jmx_port": -1, "timestamp": "1400000000000", "host": "shim", "version": 1, "port": 9093,
    }  # fmt: skip
    made = topic_znodes({1: Partition(-1, 7, (2,), ()), 0: ONE})
    assert made.value is not None
    assert json.loads(made.value) == {"version": 1, "partitions": {"0": [1, 2], "1": [2]}}
    assert list(made.states) == ["0", "1"]
    assert json.loads(made.states["0"] or b"") == {
        "controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 5, "isr": [1],
    }  # fmt: skip
    assert json.loads(made.states["1"] or b"")["leader"] == -1


def test_brokers_come_before_topics_and_go_after_them() -> None:
    old = Registration({1: b"one", 2: b"two"}, {"gone": topic_znodes({0: ONE})})
    new = Registration({2: b"moved", 3: b"three"}, {"orders": topic_znodes({0: ONE})})
    paths = [step[0].path for step in differences(old, new)]
    assert paths[:2] == [f"{IDS}/2", f"{IDS}/3"]
    assert paths[-1] == f"{IDS}/1"
    kinds = {change.path: change.kind for step in differences(old, new) for change in step}
    assert kinds[f"{IDS}/2"] is Kind.SET
    assert kinds[f"{IDS}/3"] is Kind.CREATE_EPHEMERAL
    assert kinds[f"{IDS}/1"] is Kind.DELETE


def test_what_is_the_same_is_not_written() -> None:
    one = Registration({1: b"one"}, {"orders": topic_znodes({0: ONE, 1: ONE})})
    same = Registration({1: b"one"}, {"orders": topic_znodes({0: ONE, 1: ONE})})
    assert not list(differences(one, same))


def test_what_was_made_of_partitions_is_read_back() -> None:
    partitions = {number: ONE._replace(leader_epoch=number) for number in range(12)}
    assert partitions_of(topic_znodes(partitions)) == partitions


@pytest.mark.parametrize(
    "znodes",
    [
        NO_TOPIC,
        TopicZnodes(b""),
        TopicZnodes(b"[]"),
        TopicZnodes(b'{"partitions":7}'),
        topic_znodes({0: ONE})._replace(has_partitions=False),
        topic_znodes({0: ONE})._replace(states={}),
        topic_znodes({0: ONE})._replace(states={"0": None}),
        topic_znodes({0: ONE})._replace(states={"0": b"{}"}),
        topic_znodes({0: ONE})._replace(states={**topic_znodes({0: ONE}).states, "1": None}),
    ],
)
def test_of_what_others_have_made_nothing_is_read(znodes: TopicZnodes) -> None:
    assert partitions_of(znodes) is None


def test_a_leader_that_moves_is_one_write() -> None:
    one = Registration({}, {"orders": topic_znodes({0: ONE, 1: ONE})})
    moved = Registration({}, {"orders": topic_znodes({0: ONE, 1: ONE._replace(leader=2, leader_epoch=6)})})
    ((change,),) = differences(one, moved)
    assert (change.kind, change.path) == (Kind.SET, f"{TOPICS}/orders/partitions/1/state")


_PARTITIONS = st.sampled_from([ONE, ONE._replace(leader=2), ONE._replace(leader_epoch=6), Partition(-1, 0, (1,), ())])
_TOPIC = st.dictionaries(st.sampled_from([0, 1, 2, 10]), _PARTITIONS, min_size=1).map(topic_znodes)
# As a connection that was lost, or another program, may leave it.
_IN_PIECES = st.one_of(
    st.builds(
        TopicZnodes,
        st.sampled_from([b"", b"what is this", topic_znodes({0: ONE}).value]),
        st.just(False),
        st.just({}),
    ),
    st.builds(
        TopicZnodes,
        st.just(b"{}"),
        st.just(True),
        st.dictionaries(st.sampled_from(["0", "1", "x"]), st.sampled_from([None, b"", b"old"])),
    ),
)
_NAMES = st.sampled_from(["a", "b"])
_BROKERS = st.dictionaries(st.integers(0, 3), st.sampled_from([b"one", b"two"]))
_CLUSTERS = st.builds(Registration, _BROKERS, st.dictionaries(_NAMES, _TOPIC))
_LEFT = st.builds(Registration, _BROKERS, st.dictionaries(_NAMES, st.one_of(_TOPIC, _IN_PIECES)))


@given(_LEFT, _CLUSTERS)
def test_whatever_is_there_becomes_what_is_wanted(old: Registration, new: Registration) -> None:
    znodes = _flat(old)
    for step in differences(old, new):
        for change in step:
            _apply(znodes, change)
    assert znodes == _flat(new)
    assert not list(differences(new, new))


@given(_CLUSTERS, _CLUSTERS)
def test_no_topic_is_seen_without_the_state_of_its_partitions(old: Registration, new: Registration) -> None:
    znodes = _flat(old)
    for step in differences(old, new):
        for change in step:
            _apply(znodes, change)
        for path, value in znodes.items():
            if path.startswith(TOPICS) and path.count("/") == 3:
                for number in json.loads(value)["partitions"]:
                    assert f"{path}/partitions/{number}/state" in znodes


@given(_CLUSTERS, st.integers(1, 5_000))
def test_portions_are_of_whole_steps_and_keep_their_order(new: Registration, most_bytes: int) -> None:
    steps = list(differences(NOTHING, new))
    made = list(portions(steps, most_bytes))
    assert [change for portion in made for change in portion] == [change for step in steps for change in step]
    ends = {0}
    for step in steps:
        ends.add(max(ends) + len(step))
    at = 0
    for portion in made:
        at += len(portion)
        assert at in ends
        size = sum(len(change.path) + len(change.data) for change in portion)
        assert size <= most_bytes or portion in [list(step) for step in steps]


def test_a_thousand_topics_are_a_few_requests() -> None:
    new = Registration({1: b"one"}, {f"topic-{n}": topic_znodes(dict.fromkeys(range(10), ONE)) for n in range(1000)})
    assert 5 < len(list(portions(differences(NOTHING, new), 256 << 10))) < 40


def test_a_marker_says_which_cluster_it_is() -> None:
    assert marked_cluster(marker_value("K1vzuRnMSE2gHAMvpN1UIg")) == "K1vzuRnMSE2gHAMvpN1UIg"


@pytest.mark.parametrize("marker", [b"", b"\xff", b"[]", b"1", b'{"version":1}', b'{"version":1,"cluster_id":7}'])
def test_what_is_no_marker_is_refused(marker: bytes) -> None:
    with pytest.raises(ValueError, match=r"is not a registrar's|is of another version"):
        marked_cluster(marker)


def test_a_marker_of_a_later_version_is_refused() -> None:
    with pytest.raises(ValueError, match="of another version than 1"):
        marked_cluster(b'{"version":2,"cluster_id":"x"}')


def _flat(registration: Registration) -> Znodes:
    return {f"{IDS}/{node_id}": value for node_id, value in registration.brokers.items()} | {
        path: value for topic, each in registration.topics.items() for path, value in _of_topic(topic, each)
    }


def _of_topic(topic: str, znodes: TopicZnodes) -> Iterator[tuple[str, bytes]]:
    assert znodes != NO_TOPIC
    path = f"{TOPICS}/{topic}"
    yield path, znodes.value or b""
    if znodes.has_partitions:
        yield f"{path}/partitions", b""
    for name, state in znodes.states.items():
        yield f"{path}/partitions/{name}", b""
        if state is not None:
            yield f"{path}/partitions/{name}/state", state


def _apply(znodes: Znodes, change: Change) -> None:
    """As ZooKeeper does, and refuses to."""
    parent = change.path.rpartition("/")[0]
    if change.kind in (Kind.CREATE, Kind.CREATE_EPHEMERAL):
        assert change.path not in znodes
        assert parent in (IDS, TOPICS) or parent in znodes
        znodes[change.path] = change.data
    elif change.kind is Kind.SET:
        assert change.path in znodes
        znodes[change.path] = change.data
    else:
        assert not _below(znodes, change.path)
        del znodes[change.path]


def _below(znodes: Mapping[str, bytes], path: str) -> list[str]:
    return [each for each in znodes if each.startswith(f"{path}/")]
