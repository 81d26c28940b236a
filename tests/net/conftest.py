"""The tests of this folder run on both event loops: the standard one, and the one that `serve` takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

from shim.net import broker_side


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def ids_of_clients(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripted brokers answer under the client's ids, but in tests that are marked with ``own_ids``."""
    if "own_ids" not in request.keywords:
        monkeypatch.setattr(broker_side, "new_id", lambda theirs: theirs)
