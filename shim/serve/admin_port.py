"""The admin interface, where it is wanted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext

from shim.config import HostPort
from shim.groups.groups import Groups
from shim.migration.migration import Migration
from shim.serve.errors import CannotStart


def admin_port(address: HostPort | None) -> Callable[[Migration, Groups], AbstractAsyncContextManager[object]]:
    """Opens it, once there is somebody to move groups. That raises :class:`CannotStart`."""
    if address is None:
        return lambda *_: nullcontext()
    # Only where it is wanted, and before there are clients that would wait for it: aiohttp takes its time.
    from shim.admin.live import serving

    @asynccontextmanager
    async def port(migration: Migration, groups: Groups) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(serving.serve_admin(address, migration, groups))
            except serving.CannotListen as error:
                raise CannotStart(str(error)) from error
            yield

    return port
