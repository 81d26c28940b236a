"""The shim in front of the session's broker, and programs that end with their test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.clients.group_commands import GroupCommands
from tests.clients.programs import Programs
from tests.shim_process import Shim

_LIMIT_S = 90.0


@pytest.fixture(scope="module")
def shim(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    """One shim on the session's broker, for all tests of a module."""
    apart = {"offsets.mirror.upstream": "false"}  # the broker is asked whether it knows of anything
    with Shim(broker.bootstrap_servers, tmp_path_factory.mktemp("shim") / "data", settings=apart) as running:
        yield running


@pytest.fixture
def programs(shim: Shim, tmp_path: Path) -> Iterator[Programs]:
    """The test's client processes; they have a minute and a half."""
    with Programs(tmp_path, _LIMIT_S, shim.log) as running:
        yield running


@pytest.fixture(scope="session")
def group_commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupCommands]:
    with GroupCommands(tmp_path_factory.mktemp("group-commands") / "log") as running:
        yield running
