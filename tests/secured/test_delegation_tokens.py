"""A delegation token (KIP-48): made through the shim, used through the shim, and shown as nobody's name."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from protocol.messages import offset_commit
from protocol.own.history_log import HISTORY_TOPIC
from shim.demo.parts.tools import java_tool
from shim.upstream.scram import ScramClient
from tests.conftest import TopicFactory
from tests.secured.broker import Door, SecuredBroker
from tests.secured.conftest import OF_ALICE, SHIM_RULES, shim_settings
from tests.secured.dialogue import log_in
from tests.secured.way import Way, way_to
from tests.shim_process import Shim
from tests.wire import WireClient

MECHANISM: Final = "SCRAM-SHA-512"


class ByToken(ScramClient):
    """Says beside its name that this is a token's id."""

    def __init__(self, token_id: str, token: str) -> None:
        super().__init__(MECHANISM, token_id, token)
        self._first_bare += ",tokenauth=true"


def new_token(way: Way, folder: Path) -> tuple[str, str]:
    """Alice's: its id, and itself."""
    config = way.java_file(folder / "client.properties", MECHANISM, "alice")
    options = ("--bootstrap-server", way.bootstrap, "--command-config", config, "--max-life-time-period", "-1")
    shown = java_tool("org.apache.kafka.tools.DelegationTokenCommand", *options, "--create").stdout
    token_id, token = next(line.split()[:2] for line in shown.splitlines() if "User:alice" in line)
    return token_id, token


def logged_in_by(door: Door, token_id: str, token: str) -> WireClient:
    """Asks again while the broker has not heard of the token: it tells nobody when it has."""
    deadline = time.monotonic() + 30.0
    while True:
        client = door.client()
        try:
            return log_in(client, token_id, MECHANISM, ByToken(token_id, token))
        except AssertionError:
            client.close()
            if time.monotonic() > deadline:
                raise


def test_a_token_passes_and_is_nobodys_name(own: SecuredBroker, tmp_path: Path, make_topic: TopicFactory) -> None:
    topic = make_topic(name="alice-topic", on=own.broker)
    own.allow(*SHIM_RULES, *OF_ALICE)
    with Shim(own.bootstrap_servers, tmp_path / "data", settings=shim_settings(own)) as shim:
        token_id, token = new_token(way_to(shim.bootstrap, own), tmp_path)
        with logged_in_by(own.door_at(shim.broker_port(1)), token_id, token) as client:
            partitions = (offset_commit.OffsetCommitRequestPartition(0, 5),)
            commit = offset_commit.OffsetCommitRequest(
                "alice-group", topics=(offset_commit.OffsetCommitRequestTopic(topic, partitions=partitions),)
            )
            answer = client.ask(offset_commit.API, 8, commit)
            assert answer.topics[0].partitions[0].error_code == 0
    dump = (sys.executable, "-m", "shim.main", "log", "dump", "--data-dir", str(tmp_path / "data"))
    shown = subprocess.run((*dump, "--topic", HISTORY_TOPIC, "--json"), check=True, capture_output=True, text=True)
    (record,) = map(json.loads, shown.stdout.splitlines())
    assert record["value"]["principal"] == f"DelegationToken:{token_id}"
    assert token not in shim.log()
