"""Sessions of a real ZooKeeper that end, servers that go, come back and hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from kazoo.exceptions import ConnectionLoss

from shim.demo.parts import ZooKeeper
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.znodes import EnsembleUnavailable, SessionEvent, Set
from tests.hung import hung
from tests.offsets.conftest import TIMEOUT_S, in_vain, kazoo
from tests.offsets.events import Events

CONNECTED, SUSPENDED, LOST = SessionEvent.CONNECTED, SessionEvent.SUSPENDED, SessionEvent.LOST

SESSION_MS = 3_000
SOON_S = 0.4
PATIENT_MS = 30_000


@asynccontextmanager
async def started(connect: str, *, session_ms: int, request_ms: int) -> AsyncIterator[Ensemble]:
    ensemble = Ensemble(connect, session_timeout_ms=session_ms, request_timeout_ms=request_ms)
    await ensemble.start(TIMEOUT_S, make_chroot=True)
    try:
        yield ensemble
    finally:
        await ensemble.close()


@pytest.fixture
async def hasty(connect: str) -> AsyncIterator[Ensemble]:
    """One with a short session, in a chroot with a znode `/z`. Its requests wait for as long as a busy machine takes
    for two thousand; for less where it is in vain."""
    async with started(connect, session_ms=SESSION_MS, request_ms=PATIENT_MS) as ensemble:
        await ensemble.create("/z", b"old")
        yield ensemble


async def value(ensemble: Ensemble) -> bytes:
    found = await ensemble.get("/z")
    assert found is not None
    return found.data


async def test_the_first_connection_is_heard_of_by_who_listens_before(connect: str) -> None:
    ensemble = Ensemble(connect)
    events = Events(ensemble)
    ids = [ensemble.session_id]
    await ensemble.start(TIMEOUT_S, make_chroot=True)
    assert await events.next() is CONNECTED
    ids.append(ensemble.session_id)
    await ensemble.close()
    ids.append(ensemble.session_id)
    assert [each is None for each in ids] == [True, False, True]
    assert events.none_left


async def test_ephemeral_znodes_go_with_the_session(connect: str, ensemble: Ensemble) -> None:
    other = Ensemble(connect)
    await other.start(TIMEOUT_S)
    await other.create("/e", ephemeral=True)
    found = await ensemble.get("/e")
    assert found is not None
    assert found.ephemeral_owner == other.session_id != ensemble.session_id
    await other.close()
    assert await ensemble.get("/e") is None


async def test_an_expired_session(ensemble: Ensemble, connect: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is expired as ZooKeeper's own tests do it: somebody takes the session over, and closes it."""
    caplog.set_level("INFO")
    events = Events(ensemble)
    first = ensemble.session_id
    await ensemble.create("/e", ephemeral=True)
    await ensemble.create("/stays", b"1")
    client = ensemble._session.client
    assert client is not None
    with kazoo(connect, client_id=client.client_id) as same:
        assert same.client_id[0] == first
    heard = [await events.next()]
    while heard[-1] is not CONNECTED or LOST not in heard:
        heard.append(await events.next())
    assert heard[-2:] == [LOST, CONNECTED]
    last = [(each.levelname, each.getMessage()) for each in caplog.records if "ZooKeeper at" in each.getMessage()][-2:]
    assert last == [
        ("WARNING", f"ZooKeeper at {connect}: the session has ended (lost), and another one is begun by itself"),
        ("INFO", f"ZooKeeper at {connect}: connected"),
    ]
    assert ensemble.session_id not in (None, first)
    assert await ensemble.get("/e") is None
    await ensemble.create("/e", ephemeral=True)
    assert await ensemble.set("/stays", b"2") == 1


@pytest.fixture
async def patient(connect: str) -> AsyncIterator[Ensemble]:
    """One whose requests wait for as long as a busy machine takes to start a server, and its session, too."""
    async with started(connect, session_ms=PATIENT_MS, request_ms=PATIENT_MS) as ensemble:
        yield ensemble


async def test_that_it_is_connected_is_said_once(patient: Ensemble, caplog: pytest.LogCaptureFixture) -> None:
    events, client = Events(patient), patient._session.client
    assert client is not None
    caplog.set_level("INFO")
    for event in (CONNECTED, SUSPENDED, SUSPENDED, CONNECTED, CONNECTED):
        patient._session._heard(client, event)
        assert await events.next() is event
    assert [each.getMessage().rpartition(": ")[2][:13] for each in caplog.records] == ["the connectio", "connected"]


async def test_a_server_that_is_stopped_and_started_again(zookeeper: ZooKeeper, patient: Ensemble) -> None:
    events = Events(patient)
    session = patient.session_id
    await patient.create("/e", ephemeral=True)
    await asyncio.to_thread(zookeeper.stop)
    assert await events.next() is SUSPENDED
    assert patient.session_id is None
    await asyncio.to_thread(zookeeper.start)
    assert await patient.get("/e") is not None, "a request waits for the connection"
    assert await events.next() is CONNECTED
    assert patient.session_id == session
    assert events.none_left


async def test_a_server_that_is_away(zookeeper: ZooKeeper, hasty: Ensemble) -> None:
    """What was given up is not done when it comes back."""
    events = Events(hasty)
    await asyncio.to_thread(zookeeper.stop)
    assert await events.next() is SUSPENDED
    async with asyncio.timeout(TIMEOUT_S):  # a thousand that waited each for itself would take 400 s
        with in_vain(hasty, SOON_S):
            with pytest.raises(EnsembleUnavailable, match=r"^ZooKeeper at \S+ cannot be reached"):
                await hasty.set("/z", b"given up")
            with pytest.raises(EnsembleUnavailable):
                await hasty.multi([Set("/z", b"given up")])
            with pytest.raises(EnsembleUnavailable):
                await hasty.get_many(["/z"] * 1000)
    await asyncio.to_thread(zookeeper.start)
    await events.connected()
    assert await value(hasty) == b"old"
    assert await hasty.set("/z", b"new") == 1


async def test_kazoo_keeps_nothing_for_the_next_connection(zookeeper: ZooKeeper, hasty: Ensemble) -> None:
    """Also where the connection goes between our look at it and the request."""
    events = Events(hasty)
    client = hasty._session.client
    assert client is not None
    chroot = hasty.connect.partition("/")[2]
    await asyncio.to_thread(zookeeper.stop)
    assert await events.next() is SUSPENDED
    lost = [client.set_async(f"/{chroot}/z", b"late"), client.create_async(f"/{chroot}/late", b"")]
    assert all(isinstance(each.exception, ConnectionLoss) for each in lost)
    await asyncio.to_thread(zookeeper.start)
    await events.connected()
    assert await value(hasty) == b"old"
    assert await hasty.children("/") == ["z"]


async def test_requests_on_the_way_when_the_connection_goes(zookeeper: ZooKeeper, hasty: Ensemble) -> None:
    """Each of them is told: done, or nobody knows."""
    events = Events(hasty)
    with in_vain(hasty, 10.0):  # those that are not on the way by then wait as long
        writes = [asyncio.ensure_future(hasty.set("/z", b"%d" % number)) for number in range(2000)]
        await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(zookeeper.kill)
        ended = await asyncio.gather(*writes, return_exceptions=True)
    done = [each for each in ended if isinstance(each, int)]
    unknown = [each for each in ended if isinstance(each, EnsembleUnavailable)]
    assert done
    assert unknown
    assert len(done) + len(unknown) == 2000
    await asyncio.to_thread(zookeeper.start)
    await events.connected()
    found = await hasty.get("/z")
    assert found is not None
    assert max(done) <= found.version <= 2000


async def test_a_server_that_hangs(zookeeper: ZooKeeper, hasty: Ensemble) -> None:
    events = Events(hasty)
    with hung(zookeeper.pid), in_vain(hasty, SOON_S):
        begun = time.monotonic()
        with pytest.raises(EnsembleUnavailable, match="does not answer"):
            await hasty.get("/z")
        assert time.monotonic() - begun >= SOON_S
        assert events.none_left, "its patience ends before the session's"
        with pytest.raises(EnsembleUnavailable, match="does not answer"):
            await hasty.set("/z", b"not sent, as the one before has had no answer")
        while await events.next() is not SUSPENDED:
            with pytest.raises(EnsembleUnavailable):
                await hasty.get("/z")
    await events.connected()
    assert await value(hasty) == b"old"


async def test_a_server_that_hangs_while_requests_go_on(zookeeper: ZooKeeper, hasty: Ensemble) -> None:
    """They do not keep it from being noticed."""
    events = Events(hasty)

    async def go_on() -> None:
        while True:
            try:
                await asyncio.gather(*(hasty.get("/z") for _ in range(100)))
            except EnsembleUnavailable:
                failed.set()

    failed = asyncio.Event()
    with in_vain(hasty, SOON_S):
        going_on = asyncio.ensure_future(go_on())
        with hung(zookeeper.pid):
            assert await events.next() is SUSPENDED
            assert failed.is_set()
    await events.connected()
    going_on.cancel()
    assert await value(hasty) == b"old"


async def test_a_short_hang_is_got_over(zookeeper: ZooKeeper, hasty: Ensemble) -> None:
    with hung(zookeeper.pid), in_vain(hasty, SOON_S):
        writing = asyncio.ensure_future(hasty.set("/z", b"late"))
        with pytest.raises(EnsembleUnavailable):
            await hasty.get("/z")
        with pytest.raises(EnsembleUnavailable):
            await writing
    assert await value(hasty) == b"late", "the server had it, and did it when it went on"


async def test_no_server_at_the_start(zookeeper: ZooKeeper, connect: str) -> None:
    ensemble = Ensemble(connect)
    await asyncio.to_thread(zookeeper.stop)
    with pytest.raises(EnsembleUnavailable, match="no ZooKeeper answers at"):
        async with asyncio.timeout(TIMEOUT_S):
            await ensemble.start(0.5)
    await asyncio.to_thread(zookeeper.start)
    await ensemble.start(TIMEOUT_S, make_chroot=True)
    assert await ensemble.children("/") == []
    await ensemble.close()


async def test_a_server_that_hangs_at_the_start(zookeeper: ZooKeeper, connect: str) -> None:
    ensemble = Ensemble(connect)
    with hung(zookeeper.pid), pytest.raises(EnsembleUnavailable, match="no ZooKeeper answers at"):
        async with asyncio.timeout(TIMEOUT_S):
            await ensemble.start(0.5)
    await ensemble.start(TIMEOUT_S, make_chroot=True)
    await ensemble.close()


async def test_closing_does_not_wait_for_a_server_that_hangs(
    zookeeper: ZooKeeper, hasty: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    with hung(zookeeper.pid):
        with in_vain(hasty, SOON_S), pytest.raises(EnsembleUnavailable):
            await hasty.get("/z")
        async with asyncio.timeout(TIMEOUT_S):
            await hasty.close(within=0.3)
    assert "the session is left to expire" in caplog.text
    with pytest.raises(EnsembleUnavailable, match="there is no session"):
        await hasty.get("/z")
    await hasty.close()
    await hasty.start(TIMEOUT_S)
    assert await value(hasty) == b"old"


async def test_it_starts_once(ensemble: Ensemble) -> None:
    with pytest.raises(RuntimeError, match="begun already"):
        await ensemble.start(TIMEOUT_S)
