"""Brokers from before Kafka 4, one at a time, each with a shim in front."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.legacy.parts import LegacyBroker
from tests.shim_process import Shim


class Behind(NamedTuple):
    broker: LegacyBroker
    shim: Shim


@pytest.fixture(scope="module")
def behind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """A broker of the release that the test names, `indirect`, and the shim in front."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "broker").mkdir()
    with (
        LegacyBroker(folder / "broker", request.param) as broker,
        Shim(broker.bootstrap_servers, folder / "data") as shim,
    ):
        yield Behind(broker, shim)
