"""The admin interface, where it is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from shim.admin.live.asked.shim import Shim
from shim.config import Settings
from shim.given import Given
from shim.listener_config import AdminListener
from shim.log import Share
from shim.serve.errors import CannotStart
from shim.serve.health import Health
from shim.serve.tasks import keep_up
from shim.tls import TlsContext
from shim.upstream import reason_of
from shim.workers.all_workers import AllWorkers
from shim.workers.remote_calls import OtherWorker, Questions
from shim.workers_folder import admin_path


@asynccontextmanager
async def admin_port(
    listener: AdminListener | None, settings: Settings, shim: Shim, tls: TlsContext | None
) -> AsyncIterator[None]:
    """It is open while the context lasts, from before anything else is there; with ``tls`` where that is spoken there.
    Raises :class:`CannotStart`."""
    if listener is None:
        yield
        return
    # Only where it is wanted, and before there are clients that would wait for it: aiohttp takes its time.
    from shim.admin.live.guard.access import Access, TokenFor
    from shim.admin.live.guard.token_file import CannotUse, TokenFile
    from shim.admin.live.port import serving

    insecure = settings.admin_insecure
    try:
        token = TokenFile(Path(settings.admin_token_file)) if settings.admin_token_file else None
        access = Access(
            token, for_all=settings.admin_token_for == TokenFor.ALL, certificates=listener.wants_certificates
        )
    except CannotUse as error:
        raise CannotStart(f"admin.token.file: {error}") from error

    async with AsyncExitStack() as stack:
        try:
            serve = serving.serve_admin(listener.address, shim, access, tls=tls, insecure=insecure)
            await stack.enter_async_context(serve)
        except serving.CannotListen as error:
            raise CannotStart(str(error)) from error
        yield


@asynccontextmanager
async def asked_together(given: Given, share: Share, health: Health) -> AsyncIterator[Shim]:
    """All workers as one, of the worker that has the admin port; what it asks of the others is answered while the
    context lasts. Raises :class:`CannotStart`."""
    if given.settings.admin_listen == "":
        yield health
        return
    data_dir = given.data_dir.absolute()
    if share.number:
        path = admin_path(data_dir, share.number)
        questions = Questions(path, health)
        try:
            await questions.open()
        except OSError as error:
            raise CannotStart(f"cannot listen on {path}: {reason_of(error)}") from error
        try:
            yield health
        finally:
            await questions.close()
        return
    others = [OtherWorker(number, admin_path(data_dir, number)) for number in range(1, share.of)]
    workers = AllWorkers(health, others, given.settings.offsets_topic_num_partitions)
    looking = asyncio.get_running_loop().create_task(keep_up("the look at other workers", workers.run))
    try:
        yield workers
    finally:
        looking.cancel()
        await asyncio.wait({looking})
