"""The main job, at a shim that has its log on topics of the cluster."""

from collections.abc import Iterator

import pytest

from shim.demo.parts import Broker
from tests.clients.client_table import CONFLUENT_KAFKA
from tests.clients.programs import Programs
from tests.clients.test_consumer_group import share_leave_and_come_back
from tests.conftest import TopicFactory
from tests.shim_process import Shim


@pytest.fixture(scope="module")
def shim(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    """In place of the one that all other tests here share."""
    data_dir = tmp_path_factory.mktemp("shim") / "data"
    apart = {"offsets.mirror.upstream": "false"}
    with Shim(broker.bootstrap_servers, data_dir, settings=apart, offsets_log="kafka") as running:
        yield running


def test_share_leave_and_come_back(
    broker: Broker, shim: Shim, programs: Programs, make_topic: TopicFactory, group: str
) -> None:
    share_leave_and_come_back(CONFLUENT_KAFKA, broker, shim, programs, make_topic(4), group)
