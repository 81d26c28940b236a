"""The ZooKeeper beside the cluster: a session with it, and what is registered there."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from protocol.own.state_log import IN_ZOOKEEPER, Hands
from shim.config import Settings
from shim.counted import counted
from shim.listener_config import Listener
from shim.logged_once import LoggedOnce
from shim.migration.dual.lookup import Lookup
from shim.migration.registrar.registrar import Registrar
from shim.migration.words import STEP_NAMES
from shim.offsets.store import StoreError
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.znodes import Acl, ChrootMissing, EnsembleError
from shim.runtime import Runtime
from shim.serve.errors import CannotStart

log = logging.getLogger("shim")

_START_SECONDS: Final = 3.0
"""The longest wait for a session, each time."""


def own_name(data_dir: Path) -> str:
    """Of this shim and no other that runs, and the same when it is started anew: nobody shares a data directory."""
    return f"{socket.gethostname()}:{data_dir.resolve()}"


def registered_listener(listening: Sequence[Listener]) -> Listener:
    """The consumers that look in ZooKeeper speak neither TLS nor SASL."""
    for listener in listening:
        if listener.security_protocol == "PLAINTEXT":
            return listener
    raise CannotStart("--registrar is for consumers that speak PLAINTEXT alone, and no listener does")


def ensemble_at(zookeeper: str, settings: Settings) -> Ensemble:
    auth = (settings.zookeeper_username, settings.zookeeper_password) if settings.zookeeper_username else None
    acl = Acl.CREATOR if settings.zookeeper_set_acl else Acl.WORLD
    return Ensemble(zookeeper, session_timeout_ms=settings.zookeeper_session_timeout_ms, auth=auth, acl=acl)


async def begin_session(ensemble: Ensemble, tried: asyncio.Event, begun: asyncio.Event, *, waits: bool) -> None:
    """With a ZooKeeper that is away until it is there; what is in it is not known until then. One without the chroot
    is another one than was meant, unless the registrar is about to make it (``waits``)."""
    trouble, what = LoggedOnce(log), "offsets in ZooKeeper are not served"
    while True:
        try:
            await ensemble.start(_START_SECONDS)
            tried.set()
            begun.set()
            trouble.went_well(what)
            break
        except ChrootMissing as error:
            if not waits:
                raise CannotStart(str(error)) from error
            await asyncio.sleep(_START_SECONDS / 10)  # ZooKeeper would tell, but not a session that is none
        except EnsembleError as error:
            tried.set()
            trouble.failed(what, error)
    await asyncio.Event().wait()  # kazoo goes on by itself


async def look_for_groups(
    lookup: Lookup, session: asyncio.Event, found: Callable[[], Awaitable[None]], zookeeper: str
) -> None:
    """Say what is there, once there is a session: a chroot that was forgotten shows nothing else. ``found``: called
    where groups have offsets or consumers there."""
    await session.wait()
    trouble, what = LoggedOnce(log), "what groups are in ZooKeeper is not known"
    while True:
        try:
            groups = await lookup.groups()
            trouble.went_well(what)
            break
        except StoreError as error:
            trouble.failed(what, error)
            await asyncio.sleep(_START_SECONDS)
    if groups:
        have = "has" if len(groups) == 1 else "have"
        log.info("ZooKeeper at %s: %s %s offsets or consumers there", zookeeper, counted(len(groups), "group"), have)
        await found()
    else:
        log.warning("ZooKeeper at %s: no group has offsets or consumers there: is the chroot right?", zookeeper)
    await asyncio.Event().wait()  # that is all


def warn_of_zookeeper(runtime: Runtime) -> None:
    """Where the shim runs without one, of groups that it cannot serve, or cannot keep up there."""
    steps = Counter(
        STEP_NAMES[coordinator.step_of(group)]
        for coordinator in filter(None, map(runtime.coordinator, range(runtime.num_partitions)))
        for group, word in coordinator.hands().items()
        if word.hands == Hands.SERVED and coordinator.step_of(group) in IN_ZOOKEEPER
    )
    if steps:
        counts = ", ".join(f"{count} at {step}" for step, count in steps.items())
        log.warning("groups have their offsets in ZooKeeper, and this shim runs without --zookeeper: %s", counts)


async def registered(registrar: Registrar | None) -> None:
    """A ZooKeeper that is away is waited for while others are served; one that is somebody else's is a mistake."""
    if registrar is not None:
        await registrar.tried.wait()
        if registrar.refused is not None:
            raise CannotStart(registrar.refused)
