"""A broker whose order of doing things is known, and a shim in front of it."""

from collections.abc import Iterator

import pytest

from shim.demo.parts import Broker
from tests.differential.pair import DELAYED, USUAL, Pair, in_order_broker, pair_with


@pytest.fixture(scope="package")
def usual_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with the settings of most sequences."""
    with in_order_broker(tmp_path_factory.mktemp("usual"), USUAL) as running:
        yield running


@pytest.fixture(scope="package")
def usual_pair(usual_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """That broker, and a shim in front of it."""
    with pair_with(usual_broker, tmp_path_factory.mktemp("shim"), USUAL) as both:
        yield both


@pytest.fixture(scope="package")
def delayed_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both with an initial rebalance delay, and small limits."""
    folder = tmp_path_factory.mktemp("delayed")
    with in_order_broker(folder, DELAYED) as broker, pair_with(broker, folder, DELAYED) as both:
        yield both
