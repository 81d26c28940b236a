"""What the tests of a running shim commit offsets for."""

from __future__ import annotations

import pytest

from shim.demo.parts import Broker
from tests.protocol_live.place import Place


@pytest.fixture(scope="session")
def topic_t(broker: Broker) -> str:
    """A topic of one partition, `t`."""
    with Place(broker.port, broker.release) as place:
        return place.new_topic("t")
