"""The admin interface, where it is wanted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from shim.config import HostPort, Settings
from shim.serve.errors import CannotStart
from shim.serve.health import Health


@asynccontextmanager
async def admin_port(address: HostPort | None, settings: Settings, health: Health) -> AsyncIterator[None]:
    """It is open while the context lasts, from before anything else is there. Raises :class:`CannotStart`."""
    if address is None:
        yield
        return
    # Only where it is wanted, and before there are clients that would wait for it: aiohttp takes its time.
    from shim.admin.live import serving
    from shim.admin.live.access import Access, CannotUse, TokenFile, TokenFor

    insecure = settings.admin_insecure
    try:
        token = TokenFile(Path(settings.admin_token_file)) if settings.admin_token_file else None
        access = Access(token, for_all=settings.admin_token_for == TokenFor.ALL)
    except CannotUse as error:
        raise CannotStart(f"admin.token.file: {error}") from error

    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serving.serve_admin(address, health, access, insecure=insecure))
        except serving.CannotListen as error:
            raise CannotStart(str(error)) from error
        yield
