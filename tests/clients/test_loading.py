"""What clients do whose partition loads in the midst of a rebalance: what they join is loading then, and they wait."""

from collections.abc import Iterator

import pytest

from shim.demo.parts import Broker
from tests.clients.client_table import CLIENTS, Client
from tests.clients.group_view import GroupView
from tests.clients.programs import Programs
from tests.conftest import TopicFactory
from tests.shim_process import Shim

# Every other SyncGroup finds its partition loading.
LOADS = """
from itertools import cycle
from protocol.errors import ErrorCode
from shim.api.call import Call
from shim.coordinator import GroupCoordinator

decide, loads = Call.decide, cycle((True, False))


def loading(call, services, group_id, operation, **more):
    if operation is GroupCoordinator.sync_group and next(loads):
        call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    else:
        decide(call, services, group_id, operation, **more)


Call.decide = loading
"""


@pytest.fixture(scope="module")
def shim(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    with Shim(broker.bootstrap_servers, tmp_path_factory.mktemp("shim") / "data", late_patch=LOADS) as running:
        yield running


@pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])
def test_a_sync_group_that_comes_while_the_partition_loads(
    client: Client, shim: Shim, programs: Programs, make_topic: TopicFactory, group: str
) -> None:
    topic, seen = make_topic(1), GroupView(shim.bootstrap, group)
    member = programs.start(client.name, client.consume(shim.bootstrap, topic, group))
    programs.wait("a member with the partition", lambda: seen.shared_by(1, 1))
    member.terminate()
    assert programs.wait_end(member) == client.left, member.report()
