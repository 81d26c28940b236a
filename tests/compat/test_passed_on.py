"""Versions that brokers dropped: whether they are translated, or passed on to a broker that has nothing newer."""

from __future__ import annotations

from typing import Any

import pytest

from compat.table import TRANSLATIONS
from protocol.api import Api
from protocol.messages import api_versions, describe_configs, fetch, produce
from protocol.records.batches import Record
from protocol.records.message_sets import encode_message_set
from tests.api.driving import Client, answer, call, services

_MESSAGES = encode_message_set([Record(b"key", b"value", (), -1, 0)], 0)
_OLD_BROKER = {0: (0, 2), 1: (0, 3), 2: (0, 0), 18: (0, 0), 19: (0, 1), 20: (0, 0)}
_NEW_BROKER = {0: (0, 13), 1: (4, 18), 2: (1, 11), 18: (0, 5), 19: (2, 7), 20: (1, 6)}


class Broker:
    """Answers ApiVersions with ``has``, and anything else with ``response``."""

    def __init__(self, has: dict[int, tuple[int, int]], api: Api[Any, Any], response: Any) -> None:
        self.versions: list[tuple[int, int]] = []
        """Key and version of what it was asked."""
        self._keys = tuple(api_versions.ApiVersion(key, *versions) for key, versions in has.items())
        self._api = api
        self._response = response

    def __call__(self, frame: bytes) -> bytes:
        key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (4, 6))
        self.versions.append((key, version))
        if key == api_versions.API.key:
            response = api_versions.ApiVersionsResponse(0, self._keys)
            return api_versions.API.response_frame(version, 7, response)
        assert key == self._api.key
        return self._api.response_frame(version, 7, self._response)


def _produce(acks: int = -1) -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(0, _MESSAGES)
    return produce.ProduceRequest(
        acks=acks, topic_data=(produce.TopicProduceData("topic", partition_data=(partition,)),)
    )


def _produced() -> produce.ProduceResponse:
    partition = produce.PartitionProduceResponse(0, 0, 41)
    return produce.ProduceResponse((produce.TopicProduceResponse("topic", partition_responses=(partition,)),))


def _fetched() -> fetch.FetchResponse:
    partition = fetch.PartitionData(0, 0, 1, records=_MESSAGES)
    return fetch.FetchResponse(responses=(fetch.FetchableTopicResponse("topic", partitions=(partition,)),))


def _fetch() -> fetch.FetchRequest:
    return fetch.FetchRequest(topics=(fetch.FetchTopic("topic", partitions=(fetch.FetchPartition(0),)),))


@pytest.mark.parametrize("version", range(3))
async def test_what_the_broker_has_no_newer_version_of_is_passed_on_as_it_is(version: int) -> None:
    broker = Broker(_OLD_BROKER, produce.API, _produced())
    client = Client(broker=broker)
    assert await answer(produce.API, version, _produce(), await services(), client) == _produced()
    assert broker.versions == [(18, 0), (0, version)]
    assert client.asked[1] == produce.API.request_frame(version, 7, "me", _produce())


@pytest.mark.parametrize("has", [(0, 7), (0, 9)])
async def test_a_broker_with_newer_versions_but_not_that_one_has_the_old_ones(has: tuple[int, int]) -> None:
    broker = Broker({1: has}, fetch.API, _fetched())
    assert await answer(fetch.API, 2, _fetch(), await services(), Client(broker=broker)) == _fetched()
    assert broker.versions == [(18, 0), (1, 2)]


async def test_what_the_broker_has_is_translated() -> None:
    broker = Broker(_NEW_BROKER, produce.API, _produced())
    answered = await answer(produce.API, 1, _produce(), await services(), Client(broker=broker))
    assert answered == _produced()
    assert broker.versions == [(18, 0), (0, 3)]


async def test_the_broker_is_asked_once_on_a_connection() -> None:
    broker = Broker(_OLD_BROKER, produce.API, _produced())
    client, to = Client(broker=broker), await services()
    for _ in range(3):
        await answer(produce.API, 0, _produce(), to, client)
    assert broker.versions == [(18, 0), (0, 0), (0, 0), (0, 0)]


async def test_what_has_no_response_is_passed_on_too() -> None:
    client = Client(broker=Broker(_OLD_BROKER, produce.API, None))
    frames: list[bytes] = []
    served, made = call(produce.API, 0, produce.API.request_frame(0, 7, "me", _produce(acks=0)), client, frames.append)
    pending = served.handle(await services(), made)
    assert pending is not None
    await pending
    assert frames == [b""]
    assert client.told == [produce.API.request_frame(0, 7, "me", _produce(acks=0))]


async def test_an_api_that_the_broker_does_not_name_is_translated() -> None:
    """As before: nothing is known of it, and who has no such API has it in no version."""
    broker = Broker({}, describe_configs.API, describe_configs.DescribeConfigsResponse(0, ()))
    await answer(
        describe_configs.API, 0, describe_configs.DescribeConfigsRequest(()), await services(), Client(broker=broker)
    )
    assert broker.versions == [(18, 0), (32, 1)]


def test_each_translation_knows_whom_it_fits() -> None:
    for translation in TRANSLATIONS.values():
        assert translation.fits(translation.to, translation.to)
        assert not translation.fits(translation.first, translation.to - 1)
        assert not translation.fits(translation.to + 1, translation.to + 9)
