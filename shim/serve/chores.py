"""What goes on beside requests, as long as the shim runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from shim.given import Given
from shim.runtime import OffsetsOfTopics
from shim.serve.errors import CannotStart
from shim.serve.health import Health
from shim.serve.log_on_disk import share
from shim.serve.parts import Parts
from shim.serve.pushing import push_to
from shim.serve.service_manager import ServiceManager
from shim.serve.starting import Start
from shim.serve.tasks import keep_up
from shim.serve.tls_files import CertificateFiles
from shim.upstream import AuthenticationFailed, Cluster

_Chore = Callable[[], Coroutine[Any, Any, None]]

LOG = "log"
"""The chore that writes it."""


def begin(
    parts: Parts,
    start: Start,
    given: Given,
    certificates: CertificateFiles | None,
    health: Health,
    manager: ServiceManager | None = None,
) -> dict[str, asyncio.Task[None]]:
    """All of them, by name. One that ends is the end of the shim."""
    loop = asyncio.get_running_loop()
    kept_up = _kept_up(parts, start, given, certificates, health)
    if manager is not None and manager.every_seconds is not None:
        kept_up["the word that the loop comes round"] = partial(manager.run, health.missing)
    return {
        **{name: loop.create_task(chore(), name=name) for name, chore in _vital(parts, start).items()},
        **{name: loop.create_task(keep_up(name, chore), name=name) for name, chore in kept_up.items()},
    }


def _vital(parts: Parts, start: Start) -> dict[str, _Chore]:
    """Without these the shim is none."""
    chores: dict[str, _Chore] = {LOG: parts.runtime.run, "cluster": partial(_follow, parts.cluster)}
    if parts.sharing is not None:
        chores["sharing"] = partial(share, parts.sharing, parts.data_dir)
    if parts.zookeeper is not None:
        chores["ZooKeeper"] = start.hold_session
    return chores


def _kept_up(
    parts: Parts, start: Start, given: Given, certificates: CertificateFiles | None, health: Health
) -> dict[str, _Chore]:
    """These are begun again where they break off."""
    chores: dict[str, _Chore] = {
        "the look for expired offsets": parts.retention.run,
        "the look at topics": partial(parts.topics.run, OffsetsOfTopics(parts.runtime)),
        "the look for an authorizer": parts.authorizer.run,
        "other places for offsets": parts.feeding.run,
        "the mirror": parts.mirror.run,
        "the guard": parts.guard.run,
    }
    if certificates is not None:
        chores["the look at certificates"] = certificates.follow
    if parts.registrar is not None:
        chores["the registrar"] = parts.registrar.run
    if parts.zookeeper is not None:
        dual_commit = parts.zookeeper.dual_commit
        chores |= {
            "the look at ZooKeeper": start.look_for_groups,
            "the watch of offsets": dual_commit.watch.run,
            "the look for old consumers": dual_commit.run,
        }
    pushed = given.settings.metrics_statsd_address
    if given.admin is not None or pushed:
        chores["the look at the event loop"] = parts.loop_delay.run
    if pushed:
        chores["metrics by StatsD"] = push_to(given.settings, parts.measuring, health.metrics)
    return chores


async def _follow(cluster: Cluster) -> None:
    try:
        await cluster.run()
    except AuthenticationFailed as error:
        raise CannotStart(f"the brokers do not take the shim's credentials: {error}") from error
