"""An admin interface on a free loopback port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from shim.admin.live.port.serving import serve_admin
from shim.config import HostPort
from tests.admin.live.moved import Moved
from tests.admin.live.running import admin_of
from tests.admin.live.watching import Watching


@pytest.fixture
def moved() -> Moved:
    return Moved()


@pytest.fixture
async def port(moved: Moved) -> AsyncIterator[int]:
    async with serve_admin(HostPort("127.0.0.1", 0), Watching(moved)) as port:
        yield port


@pytest.fixture
def admin(moved: Moved) -> Iterator[str]:
    with admin_of(moved) as address:
        yield address
