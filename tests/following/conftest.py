"""Here every group is served: whose they are is another matter (tests/migration)."""

from __future__ import annotations

import pytest

from protocol.own.state_log import Hands
from shim.coordinator.state.partition_state import PartitionState


@pytest.fixture(autouse=True)
def _every_group_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionState, "hands_of", lambda _state, _group: Hands.SERVED)
