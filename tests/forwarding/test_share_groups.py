"""Share groups (KIP-932) where several shims share the work: their members may come to any of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import count
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from shim.demo.parts import Cluster
from tests.forwarding.shims import forwarding, owner_of
from tests.java_tools import RunningTool
from tests.migration.modern_clients import values, write
from tests.ownership.registers import PATIENCE_S
from tests.shim_process import Shim
from tests.waiting import wait_until

_CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
_TOPIC: Final = "shared"


@pytest.fixture(scope="module")
def shims(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Shim]]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(_TOPIC, 1, 3)])[_TOPIC].result(PATIENCE_S)
    with forwarding(cluster, "shared-log", tmp_path_factory.mktemp("sharing")) as running:
        yield running


def test_members_at_others_than_the_owner_go_on_when_that_is_killed(shims: list[Shim]) -> None:
    group = next(name for number in count() if owner_of(shims, name := f"share-{number}")[0] is shims[1])
    others = shims[0], shims[2]
    deadline = time.monotonic() + PATIENCE_S
    with ExitStack() as stack:
        members = [
            stack.enter_context(
                RunningTool(_CONSOLE, "--bootstrap-server", each.bootstrap, "--topic", _TOPIC, "--group", group)
            )
            for each in others
        ]
        read: set[str] = set()
        written = 0
        while not read:  # it begins where the topic ends when it is first asked for, which nobody tells
            assert time.monotonic() < deadline
            write(others[0].bootstrap, _TOPIC, 0, range(written, written := written + 10))
            for member in members:
                read.update(lines_now(member))
        shims[1].kill()
        wait_until(lambda: owner_of(shims, group)[0] in others, "nobody takes its place")
        write(others[0].bootstrap, _TOPIC, 0, range(written, written + 100))
        while not read.issuperset(values(range(written, written + 100))):
            assert time.monotonic() < deadline
            for member in members:
                read.update(lines_now(member))


def lines_now(tool: RunningTool) -> Iterator[str]:
    """Until it says nothing for a moment."""
    with suppress(TimeoutError):
        while (line := tool.read_line(0.5)) is not None:
            yield line
