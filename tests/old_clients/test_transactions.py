"""Producers of old with offsets in a transaction, the first ones of their offsets partition."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.demo.parts import Broker
from tests.conftest import TopicFactory
from tests.legacy.parts import KAFKA_1
from tests.old_clients.java_clients import WITH_TRANSACTIONS, program
from tests.shim_process import Shim

TIMEOUT_S = 60.0


@pytest.mark.parametrize(
    "release",
    # This one's requests have the versions of 0.11's.
    [pytest.param(each, marks=pytest.mark.soak) if each == KAFKA_1 else each for each in WITH_TRANSACTIONS],
)
def test_the_first_commit_in_a_transaction(
    release: str, broker: Broker, make_topic: TopicFactory, group: str, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    """The shim does not follow the cluster's log yet, and says to ask again."""
    topic = make_topic(1)
    with Shim(broker.bootstrap_servers, tmp_path / "data") as shim:
        command = [*program(release, "OffsetsInTransaction")(), shim.bootstrap, fresh_name(), group, topic, "5"]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S)
        assert run.returncode == 0, run.stdout
