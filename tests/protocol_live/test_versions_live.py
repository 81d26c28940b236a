"""Every version of every API, sent to a real broker of the right age.

Kafka 4.3.1 for what it serves; for what Kafka 4 dropped, the oldest of the older brokers here that has it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

import pytest

import tests.protocol_live.scenarios  # noqa: F401 - fills SCENARIOS
from protocol.apis import APIS
from protocol.messages import list_transactions
from shim.demo.parts import Broker
from shim.demo.parts.jars import KAFKA
from tests.legacy.parts import KAFKA_0_8, KAFKA_0_10, KAFKA_1, KAFKA_3, LegacyBroker
from tests.protocol_live.place import SCENARIOS, Place

RELEASES: Final = (KAFKA_0_8, KAFKA_0_10, KAFKA_1, KAFKA_3, KAFKA)

# By API key: the versions that Kafka 4 dropped, and where they are tried.
DROPPED: Final[dict[int, dict[int, str]]] = {
    0: {0: KAFKA_0_8, 1: KAFKA_0_10, 2: KAFKA_0_10},
    1: {0: KAFKA_0_8, 1: KAFKA_0_10, 2: KAFKA_0_10, 3: KAFKA_0_10},
    2: {0: KAFKA_0_8},
    8: {0: KAFKA_0_8, 1: KAFKA_0_8},
    9: {0: KAFKA_0_8},
    19: {0: KAFKA_0_10, 1: KAFKA_0_10},
    20: {0: KAFKA_0_10},
    23: {0: KAFKA_1, 1: KAFKA_3},
    27: {0: KAFKA_1},
    29: {0: KAFKA_1},
    32: {0: KAFKA_1},
}

# Kafka 4 ends the connection over these, yet lists them, for the sake of librdkafka (KAFKA-18659).
ADVERTISED_ONLY: Final = {(0, 0), (0, 1), (0, 2)}

# (API key, version): why no broker here is asked for it.
NOT_ASKED: Final[dict[tuple[int, int], str]] = {}

TRIED: Final[dict[tuple[int, int], str]] = {
    (key, version): DROPPED.get(key, {}).get(version, KAFKA)
    for key, api in sorted(APIS.items())
    for version in range(api.versions[0], api.versions[1] + 1)
    if (key, version) not in NOT_ASKED
}
"""The broker that accepts each (API key, version)."""


@pytest.fixture
def place_at(broker: Broker, legacy: Callable[[str], LegacyBroker]) -> Iterator[Callable[[str], Place]]:
    """No transaction that a test has begun there stays open."""
    with ExitStack() as opened:

        def place(release: str) -> Place:
            its = opened.enter_context(Place(broker.port if release == KAFKA else legacy(release).port, release))
            opened.callback(its.abort_transactions)
            return its

        yield place


def in_order() -> list[tuple[int, int, str]]:
    """By broker, so that each is asked in one go."""
    return sorted(((key, version, release) for (key, version), release in TRIED.items()), key=lambda t: t[2])


@pytest.mark.parametrize(
    ("key", "version", "release"),
    in_order(),
    ids=[f"{APIS[key].name}-{version}-{release}" for key, version, release in in_order()],
)
def test_accepted(place_at: Callable[[str], Place], key: int, version: int, release: str) -> None:
    place = place_at(release)
    SCENARIOS[key](place, version)
    assert (key, version) in place.accepted


def test_every_version_is_tried_at_the_right_broker(place_at: Callable[[str], Place]) -> None:
    """The table is complete, and each choice in it follows from what the brokers say that they have."""
    every = {(key, version) for key, api in APIS.items() for version in range(api.versions[0], api.versions[1] + 1)}
    assert TRIED.keys() | NOT_ASKED.keys() == every
    assert not TRIED.keys() & NOT_ASKED.keys()
    has = {
        release: {
            (key, version)
            for key, (oldest, newest) in place_at(release).advertised().items()
            for version in range(oldest, newest + 1)
        }
        for release in RELEASES
    }
    has[KAFKA] -= ADVERTISED_ONLY
    for asked, release in TRIED.items():
        right = KAFKA if asked in has[KAFKA] else next(old for old in RELEASES if asked in has[old])
        assert release == right, asked


def test_no_transaction_is_left_open(broker: Broker) -> None:
    with Place(broker.port, KAFKA) as place:
        made = place.new_transaction()
        place.begin(made, place.new_topic())
        place.abort_transactions()
        request = list_transactions.ListTransactionsRequest(("Ongoing",), (made.producer_id,))
        assert place.ask(list_transactions.API, 0, request).transaction_states == ()


@pytest.mark.parametrize(("key", "version"), sorted(ADVERTISED_ONLY))
def test_what_is_advertised_only(place_at: Callable[[str], Place], key: int, version: int) -> None:
    with pytest.raises(ConnectionError):
        SCENARIOS[key](place_at(KAFKA), version)
