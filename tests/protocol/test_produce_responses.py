"""Responses to Produce that are known at a glance to name no address."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.messages import produce
from protocol.messages.produce import API, PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.protocol.strategies import messages

SIZE_FIELD = 4
VERSIONS = range(10, 14)

numbers = st.tuples(
    st.integers(0, 2**31 - 1), st.integers(-1, 120), *(st.integers(-(2**63), 2**63 - 1) for _ in range(3))
)
plain_partitions = st.lists(numbers.map(lambda each: PartitionProduceResponse(*each)), max_size=5).map(tuple)


def named(version: int, name: Any, partitions: tuple[PartitionProduceResponse, ...]) -> TopicProduceResponse:
    if version >= 13:
        return TopicProduceResponse(topic_id=name, partition_responses=partitions)
    return TopicProduceResponse(name, partition_responses=partitions)


def plain(version: int) -> st.SearchStrategy[ProduceResponse]:
    names = (
        st.binary(min_size=16, max_size=16)
        if version >= 13
        else st.text(st.characters(exclude_categories=["Cs"]), max_size=31)
    )  # of 4 bytes at most each
    topics = st.tuples(names, plain_partitions).map(lambda topic: named(version, *topic))
    return st.tuples(st.lists(topics, max_size=4).map(tuple), st.integers(0, 2**31 - 1)).map(
        lambda response: ProduceResponse(*response)
    )


def is_plain(version: int, *topics: TopicProduceResponse) -> bool:
    return produce.is_plain_response(API.response_frame(version, 7, ProduceResponse(topics)), version)


def says_more(response: Any) -> bool:
    """Whether there is anything in it beside numbers and the topics' names."""
    partitions = [each for topic in response.responses for each in topic.partition_responses]
    return bool(
        response.node_endpoints
        or response.tagged
        or any(topic.tagged for topic in response.responses)
        or any(each.record_errors or each.error_message is not None or each.tagged for each in partitions)
        or any(each.current_leader != produce.LeaderIdAndEpoch() for each in partitions)
    )


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_numbers_alone_are_plain(version: int, data: st.DataObject) -> None:
    frame = API.response_frame(version, 7, data.draw(plain(version)))
    assert produce.is_plain_response(frame, version)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_what_says_more_is_not_plain(version: int, data: st.DataObject) -> None:
    response = data.draw(messages(ProduceResponse, version, flexible=True))
    frame = API.response_frame(version, 7, response)
    assert produce.is_plain_response(frame, version) is not says_more(response)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_what_is_plain_can_be_read_and_says_no_more(version: int, data: st.DataObject) -> None:
    """Of any bytes: those of a response of which some are changed, left out, or put in."""
    frame = bytearray(API.response_frame(version, 7, data.draw(plain(version))))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(SIZE_FIELD, len(frame)))
        frame[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    if produce.is_plain_response(bytes(frame), version):
        try:
            more = says_more(API.parse_response(version, bytes(frame), SIZE_FIELD)[1])
        except DecodeError as error:
            more = not error.reason.startswith("not UTF-8")  # but a topic's name, which the client judges
        assert not more


@pytest.mark.parametrize("version", VERSIONS)
def test_many_are_not_known_at_a_glance(version: int) -> None:
    """Their numbers take two bytes."""
    partitions = tuple(PartitionProduceResponse(number, 0, number) for number in range(127))
    topics = [TopicProduceResponse(partition_responses=partitions[:count]) for count in (126, 127)]
    verdicts = [
        produce.is_plain_response(API.response_frame(version, 7, ProduceResponse((t,))), version) for t in topics
    ]
    assert verdicts == [True, False]
    many = ProduceResponse((TopicProduceResponse(),) * 127)
    assert not produce.is_plain_response(API.response_frame(version, 7, many), version)
    long = ProduceResponse((TopicProduceResponse(name="t" * 127),))
    assert version >= 13 or not produce.is_plain_response(API.response_frame(version, 7, long), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_other_byte_is_taken_where_it_says_how_it_goes_on(version: int) -> None:
    """Tagged fields of the header, of a partition, of a topic and at the end; counts and lengths; and what is null."""
    name = bytes(16) if version >= 13 else "t"
    response = ProduceResponse((named(version, name, (PartitionProduceResponse(0, 0, 7),)),))
    frame = API.response_frame(version, 7, response)
    assert produce.is_plain_response(frame, version)
    numbers = 27 if version >= 13 else 13
    rest = numbers + 30
    of_name = [] if version >= 13 else [10]
    for at in (8, 9, *of_name, numbers - 1, *range(rest, rest + 4), len(frame) - 1):
        others = [frame[:at] + bytes([byte]) + frame[at + 1 :] for byte in range(256) if byte != frame[at]]
        assert [other for other in others if produce.is_plain_response(other, version)] == [], at
