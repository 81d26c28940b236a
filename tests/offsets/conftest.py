"""A ZooKeeper with a chroot of each test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from shim.demo.parts import ZooKeeper
from shim.offsets.zookeeper.ensemble import Ensemble

TIMEOUT_S = 20.0


@pytest.fixture
def connect(zookeeper: ZooKeeper, fresh_name: Callable[[], str]) -> str:
    """A connect string whose chroot nobody has; it does not exist yet."""
    return f"{zookeeper.connect_string}/{fresh_name()}"


@pytest.fixture
async def ensemble(connect: str) -> AsyncIterator[Ensemble]:
    started = Ensemble(connect)
    await started.start(TIMEOUT_S, make_chroot=True)
    try:
        yield started
    finally:
        await started.close()


@contextmanager
def in_vain(ensemble: Ensemble, seconds: float) -> Iterator[None]:
    """Requests wait no longer than that meanwhile: a server that works takes its time on a busy machine."""
    session = ensemble._session
    before, session._request_timeout = session._request_timeout, seconds
    try:
        yield
    finally:
        session._request_timeout = before


@contextmanager
def kazoo(connect: str, **arguments: object) -> Iterator[KazooClient]:
    client = KazooClient(connect, **arguments)
    client.start(TIMEOUT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.fixture
def others(ensemble: Ensemble, connect: str) -> Iterator[KazooClient]:
    """Somebody else, at the same chroot."""
    with kazoo(connect) as client:
        yield client


def put(others: KazooClient, path: str, value: bytes = b"") -> None:
    """As somebody else, whatever is there."""
    others.ensure_path(path)
    others.set(path, value)
