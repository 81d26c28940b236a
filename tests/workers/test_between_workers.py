"""What is said of other workers, of which one is no other shim."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from shim.config import Settings
from shim.log import Share
from shim.workers.between_workers import between_workers
from tests.forwarding.test_over_tcp import REQUEST, Client


@pytest.mark.parametrize("leaves", [False, True])
async def test_one_that_is_gone_is_told_of_unless_all_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, leaves: bool
) -> None:
    between = between_workers(tmp_path, Share(0, 2), Settings())
    peer = between.peers.owner_of(1)
    assert peer is not None
    if leaves:
        between.leave()
    client = Client()
    between.peers.forward(peer, REQUEST, client)
    async with asyncio.timeout(30.0):
        assert await client.end is ErrorCode.NOT_COORDINATOR
    told = [record.getMessage() for record in caplog.records]
    assert [bool(re.match("requests cannot be forwarded to worker 1 for now: ", each)) for each in told] == [True] * (
        not leaves
    )
    between.close()
