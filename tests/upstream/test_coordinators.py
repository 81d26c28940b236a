"""Where a coordinator is."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages import find_coordinator
from shim.config import HostPort, Settings
from shim.upstream import Cluster, UpstreamError
from shim.upstream.coordinators import Coordinators, KeyType

CUT_OFF, HANGS, LEADS = (HostPort("127.0.0.1", port) for port in (1, 2, 3))


async def test_one_that_tells_where_it_was_is_not_asked_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[HostPort] = []

    async def ask(_: Coordinators, address: HostPort, *_args: Any, **_more: Any) -> Any:
        asked.append(address)
        if address == HANGS:
            raise UpstreamError("not answered")
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if address == CUT_OFF else ErrorCode.NONE
        found = find_coordinator.Coordinator("id", 3, LEADS.host, LEADS.port, error)
        return find_coordinator.FindCoordinatorResponse(coordinators=(found,))

    monkeypatch.setattr(Coordinators, "ask", ask)
    its = Coordinators(Cluster([CUT_OFF, HANGS, LEADS], Settings()), Settings())
    told = [await its.of("id", KeyType.TRANSACTION) for _ in range(4)]
    there, not_there = (ErrorCode.NONE, LEADS), (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    assert told == [not_there, there, there, not_there]
    assert asked == [CUT_OFF, HANGS, LEADS, LEADS, CUT_OFF]
