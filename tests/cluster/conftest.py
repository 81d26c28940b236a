"""The shim at 127.0.0.1 in front of three brokers at 127.0.0.2, .3 and .4, where no client has any business."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocol.errors import ErrorCode
from protocol.messages import find_coordinator
from shim.demo.parts import Cluster
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient


@pytest.fixture(scope="module")
def coordinators(cluster: Cluster) -> None:
    """The cluster knows a coordinator for every group: its first FindCoordinator request creates its offsets topic."""
    request = find_coordinator.FindCoordinatorRequest("the first group")
    for broker in cluster.brokers:
        with WireClient(broker.port, broker.host) as client:
            wait_until(
                lambda client=client: client.ask(find_coordinator.API, 2, request).error_code == ErrorCode.NONE,  # type: ignore[misc]
                f"broker {broker.node_id} knows no coordinator",
            )


@pytest.fixture(scope="module")
def shim(cluster: Cluster, coordinators: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    """One for all tests of a module; it looks often which brokers there are."""
    settings = {"topology.refresh.interval.ms": 200}
    data_dir = tmp_path_factory.mktemp("shim") / "data"
    with Shim(cluster.bootstrap_servers, data_dir, settings=settings) as running:
        yield running
