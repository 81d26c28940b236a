"""At kafka+dual: an old consumer writes more than once while the shim does not see it, and then a client commits, which
the shim is about to write to ZooKeeper, and cannot."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from protocol.own.state_log import Step
from shim.migration.dual.log_side import LogSide
from shim.offsets.store import StoreUnavailable
from tests.migration.simulated import virtual_time
from tests.migration.simulated.disk import WritesOf
from tests.migration.simulated.dual_place import GROUP, SOON, DualPlace, at_kafka_dual

BOTH_HAD, CLIENTS, LAST = 9, 60, 80
CONSUMERS: Final = (70, 71)


@pytest.fixture(autouse=True)
def _writes_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.disk_log.writer.WritingThread", WritesOf)


def _consumer_writes(at: DualPlace, *offsets: int) -> None:
    for each in offsets:
        at.consumer(0, each)


async def _about_to_write(at: DualPlace) -> None:
    at.shim.ensemble.lose()
    _consumer_writes(at, *CONSUMERS)
    await at.commit({0: CLIENTS})
    await asyncio.sleep(SOON)


def test_what_it_wrote_is_older_than_the_commit(tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await _about_to_write(at)
            await at.is_back()
            assert at.log == at.zookeeper == {0: CLIENTS}

    virtual_time.run(lived())


def test_and_so_it_is_after_a_sudden_end(tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await _about_to_write(at)
            await at.ends_suddenly()
            assert at.log == at.zookeeper == {0: CLIENTS}

    virtual_time.run(lived())


@pytest.mark.parametrize("is_lost", [False, True], ids=["told", "lost on the way"])
def test_but_what_it_writes_once_both_were_alike_is_newer(
    is_lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``is_lost``: what ZooKeeper had answered to the shim's write, which it found there later."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            store = at.shim.dual_commit.store
            commit = store.commit

            async def lost(*what: object) -> dict[tuple[str, int], int]:
                await commit(*what)  # type: ignore[arg-type]
                monkeypatch.setattr(store, "commit", commit)
                raise StoreUnavailable("lost on the way")

            if is_lost:
                monkeypatch.setattr(store, "commit", lost)
            await at.commit({0: CLIENTS})
            await asyncio.sleep(SOON)
            await at.ends_suddenly(lambda: _consumer_writes(at, *CONSUMERS, LAST))
            assert at.log == at.zookeeper == {0: LAST}

    virtual_time.run(lived())


def test_what_it_wrote_before_a_client_committed_what_was_being_carried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has written twice, and the first is carried when a client commits that very offset: that commit is newer than
    the second, of which the shim hears later."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            note = LogSide.note

            async def beside_a_client(self: LogSide, *what: Any, **more: Any) -> None:
                if more.get("replaced"):
                    monkeypatch.setattr(LogSide, "note", note)
                    at.consumer(0, LAST)
                    await at.commit({0: CONSUMERS[0]})
                await note(self, *what, **more)

            monkeypatch.setattr(LogSide, "note", beside_a_client)
            at.consumer(0, CONSUMERS[0])
            await asyncio.sleep(SOON)
            assert LogSide.note is note, "it was carried"
            assert at.log == at.zookeeper == {0: CONSUMERS[0]}

    virtual_time.run(lived())


@pytest.mark.parametrize("killed", ["behind the last note", "while ZooKeeper is away"])
def test_and_so_it_is_where_the_shim_is_killed_behind_that(
    killed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands there is not noted over what the client's commit has noted."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.commit({1: CLIENTS})
            await asyncio.sleep(SOON)
            note, noted, committed = LogSide.note, asyncio.Event(), asyncio.Event()

            async def beside_a_client(self: LogSide, *what: Any, **more: Any) -> None:
                noting = asyncio.ensure_future(note(self, *what, **more))
                await asyncio.sleep(0)  # it is decided, and not durable yet
                if more.get("replaced") and not committed.is_set():
                    at.consumer(0, LAST)
                    if killed == "while ZooKeeper is away":
                        await at.shim.does(at.shim.delete(GROUP, [1]))
                        at.shim.ensemble.lose()
                    await at.commit({0: CONSUMERS[0]})
                    committed.set()
                elif committed.is_set() and not noted.is_set():
                    await noting
                    noted.set()
                    if killed == "behind the last note":
                        await asyncio.Event().wait()
                await noting

            monkeypatch.setattr(LogSide, "note", beside_a_client)
            at.consumer(0, CONSUMERS[0])
            await noted.wait()
            if killed == "while ZooKeeper is away":
                await asyncio.sleep(10 * SOON)
            monkeypatch.setattr(LogSide, "note", note)
            await at.ends_suddenly()
            assert at.log[0] == at.zookeeper[0] == CONSUMERS[0]

    virtual_time.run(lived())


@pytest.mark.parametrize("beside", [True, False], ids=["beside a deletion", "alone"])
def test_what_it_wrote_before_a_client_came_back_to_what_is_being_restored(
    beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has deleted the znode of partition 0, and a client the offset of partition 1: while the shim is at the
    latter in ZooKeeper, a consumer writes to 0, and a client commits there, and comes back."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.commit({1: CLIENTS})
            await asyncio.sleep(SOON)
            store = at.shim.dual_commit.store
            delete, note, noted, has_come = store.delete, LogSide.note, asyncio.Event(), asyncio.Event()

            async def others_come() -> None:
                has_come.set()
                at.consumer(0, LAST)
                await at.commit({0: CLIENTS})
                await at.commit({0: BOTH_HAD})

            async def beside_others(*what: Any) -> None:
                await delete(*what)
                if beside and not has_come.is_set():
                    await others_come()

            async def until_it_is_about_to_write(self: LogSide, *what: Any, **more: Any) -> None:
                await note(self, *what, **more)
                if more.get("about"):
                    if not has_come.is_set():
                        await others_come()
                    noted.set()
                    await asyncio.Event().wait()

            monkeypatch.setattr(store, "delete", beside_others)
            monkeypatch.setattr(LogSide, "note", until_it_is_about_to_write)
            await at.shim.does(at.shim.delete(GROUP, [1]))
            at.shim.ensemble.lose()
            at.deleted(0)
            await asyncio.sleep(SOON)
            back = asyncio.ensure_future(at.is_back())
            await noted.wait()
            monkeypatch.setattr(LogSide, "note", note)
            await at.ends_suddenly()
            await back
            assert at.log == at.zookeeper == {0: BOTH_HAD}

    virtual_time.run(lived())


@pytest.mark.parametrize("deletes", [True, False])
def test_what_it_wrote_before_a_commit_and_its_deletion(
    deletes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither had anything, and all that comes while what stands there is being read, which takes longer than a request
    waits for it."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.shim.does(at.shim.delete(GROUP, [0]))
            await asyncio.sleep(SOON)
            assert at.stands(0) is None
            store = at.shim.dual_commit.store
            fetch, has_read = store.fetch, asyncio.Event()

            async def takes_a_while(*what: Any) -> Any:
                found = await fetch(*what)
                if not has_read.is_set():
                    has_read.set()
                    await asyncio.sleep(3)
                return found

            monkeypatch.setattr(store, "fetch", takes_a_while)
            fetching = asyncio.ensure_future(at.fetched())
            await has_read.wait()
            at.consumer(0, LAST)
            await at.commit({0: CLIENTS})
            if deletes:
                await at.shim.does(at.shim.delete(GROUP, [0]))
            await fetching
            await asyncio.sleep(SOON)
            assert at.log == at.zookeeper == ({} if deletes else {0: CLIENTS})
            assert at.stands(0) == (None if deletes else CLIENTS)

    virtual_time.run(lived())


def test_what_it_wrote_before_a_commit_and_its_deletion_amid_the_shims_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shim has just deleted the znode."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            store = at.shim.dual_commit.store
            delete = store.delete

            async def beside_others(*what: Any) -> None:
                await delete(*what)
                monkeypatch.setattr(store, "delete", delete)
                at.consumer(0, CONSUMERS[0])
                await at.commit({0: CLIENTS})
                await at.shim.does(at.shim.delete(GROUP, [0]))

            monkeypatch.setattr(store, "delete", beside_others)
            await at.shim.does(at.shim.delete(GROUP, [0]))
            await asyncio.sleep(SOON)
            assert store.delete == delete, "others have come"
            assert at.log == {}
            assert at.stands(0) is None

    virtual_time.run(lived())


@pytest.mark.parametrize("commits", [False, True], ids=["the consumer's is newer", "a client has committed since"])
def test_a_sudden_end_amid_writing_what_somebody_had_deleted(
    commits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer creates it anew meanwhile."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            is_writing = asyncio.Event()

            async def hangs(*_: object) -> dict[tuple[str, int], int]:
                is_writing.set()
                await asyncio.Event().wait()
                raise AssertionError

            monkeypatch.setattr(at.shim.dual_commit.store, "commit", hangs)
            at.deleted(0)
            fetching = asyncio.gather(at.fetched(), return_exceptions=True)  # so that it is seen
            await is_writing.wait()
            at.consumer(0, LAST)
            if commits:
                await at.commit({0: CLIENTS})
            await at.ends_suddenly()
            await fetching
            assert at.log == at.zookeeper == {0: CLIENTS if commits else LAST}

    virtual_time.run(lived())


def test_what_it_writes_where_neither_had_anything_is_newer(tmp_path: Path) -> None:
    """Somebody had deleted the znode, and a client the offset."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.deleted(0)
            await at.shim.does(at.shim.delete(GROUP, [0]))
            await asyncio.sleep(SOON)
            await at.ends_suddenly(lambda: _consumer_writes(at, *CONSUMERS))
            assert at.log == at.zookeeper == {0: CONSUMERS[-1]}

    virtual_time.run(lived())


async def _is_back_and_a_client_deletes(at: DualPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper is; what the shim reads there it has when the client is done."""
    store = at.shim.dual_commit.store
    fetch, has_deleted = store.fetch, asyncio.Event()

    async def until_then(*what: Any) -> Any:
        found = await fetch(*what)
        await has_deleted.wait()
        return found

    monkeypatch.setattr(store, "fetch", until_then)
    at.shim.ensemble.connect(expired=True)
    at.tree.catch_up()
    await at.shim.does(at.shim.delete(GROUP, [0]))
    assert at.log == {}, "it is acknowledged"
    has_deleted.set()
    await asyncio.sleep(SOON)


def test_what_it_wrote_to_what_somebody_had_deleted_before_a_client_deleted_the_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The znode that it has created is not the one that the shim knows, and no version says which came first."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.shim.ensemble.lose()
            await at.commit({0: CLIENTS})
            at.deleted(0)
            at.consumer(0, LAST)
            await asyncio.sleep(SOON)
            await _is_back_and_a_client_deletes(at, monkeypatch)
            assert (at.log, at.stands(0)) == ({}, None)

    virtual_time.run(lived())


def test_what_it_wrote_before_a_client_deleted_once_more_what_there_is_none_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of that no record tells."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.shim.does(at.shim.delete(GROUP, [0]))
            await asyncio.sleep(SOON)
            assert (at.log, at.stands(0)) == ({}, None)
            at.shim.ensemble.lose()
            at.consumer(0, LAST)
            await _is_back_and_a_client_deletes(at, monkeypatch)
            assert (at.log, at.stands(0)) == ({}, None)

    virtual_time.run(lived())


def test_what_it_writes_behind_such_a_deletion_is_newer(tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            for _ in range(2):
                await at.shim.does(at.shim.delete(GROUP, [0]))
                await asyncio.sleep(SOON)
            at.consumer(0, LAST)
            await asyncio.sleep(SOON)
            assert (at.log, at.stands(0)) == ({0: LAST}, LAST)

    virtual_time.run(lived())


@pytest.mark.parametrize("again", [False, True], ids=["it is newer", "a client has deleted that once more"])
def test_what_it_created_where_nobody_told_the_shim_that_its_own_deletion_was_done(
    again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.commit({0: CLIENTS})
            await asyncio.sleep(SOON)
            store = at.shim.dual_commit.store
            delete, is_lost = store.delete, asyncio.Event()

            async def lost(*what: Any) -> None:
                await delete(*what)
                monkeypatch.setattr(store, "delete", delete)
                at.shim.ensemble.lose()
                is_lost.set()
                raise StoreUnavailable("lost on the way")

            monkeypatch.setattr(store, "delete", lost)
            await at.shim.does(at.shim.delete(GROUP, [0]))
            await is_lost.wait()
            at.consumer(0, LAST)
            if again:
                await at.commit({0: CLIENTS})
                await asyncio.sleep(SOON)
                await _is_back_and_a_client_deletes(at, monkeypatch)
            else:
                await at.is_back()
            assert (at.log, at.stands(0)) == (({}, None) if again else ({0: LAST}, LAST))

    virtual_time.run(lived())


def test_what_it_writes_behind_a_way_back_that_was_read_is_newer(tmp_path: Path) -> None:
    """ZooKeeper still has what both had, and that is read, not written: what is noted of the way back is over."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.commit({0: CLIENTS})
            await at.shim.kill()
            at.start()
            at.shim.ensemble.lose()
            await asyncio.sleep(1)
            await at.commit({0: BOTH_HAD})
            await at.is_back()
            await at.ends_suddenly(lambda: _consumer_writes(at, *CONSUMERS))
            assert at.log == at.zookeeper == {0: CONSUMERS[-1]}

    virtual_time.run(lived())


def test_what_it_writes_behind_a_deletion_right_after_a_start_is_newer(tmp_path: Path) -> None:
    """Of what a transaction had committed right before the end, so that nothing was noted of that, and ZooKeeper has
    nothing: the deletion is noted, until that is seen."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.shim.does(at.shim.delete(GROUP, [0]))
            await asyncio.sleep(SOON)
            await at.transactions.begin(CLIENTS)
            at.transactions.end()
            await at.shim.runtime.settled(0)
            await at.shim.kill()
            at.start()
            await at.transactions.are_followed.wait()
            await at.shim.does(at.shim.delete(GROUP, [0]))
            await asyncio.sleep(SOON)
            assert at.log == {}
            await at.ends_suddenly(lambda: _consumer_writes(at, *CONSUMERS))
            assert at.log == at.zookeeper == {0: CONSUMERS[-1]}

    virtual_time.run(lived())


def test_what_it_writes_behind_what_both_have_by_chance_is_newer(tmp_path: Path) -> None:
    """A client has committed what it had written, and the shim died before it noted that: nothing is carried then, nor
    written, and it is noted all the same."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.shim.ensemble.lose()
            at.consumer(1, CLIENTS)
            await at.commit({1: CLIENTS})
            await at.ends_suddenly()
            assert at.log == at.zookeeper == {0: BOTH_HAD, 1: CLIENTS}
            await at.ends_suddenly(lambda: at.consumer(1, LAST))
            assert at.log == at.zookeeper == {0: BOTH_HAD, 1: LAST}

    virtual_time.run(lived())


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("dies", [None, "before it is read", "amid the transaction", "behind its end"])
def test_what_it_wrote_before_a_transaction_began(committed: bool, dies: str | None, tmp_path: Path) -> None:
    """What is carried is a later commit than what is pending, and would overrule that."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            at.shim.ensemble.lose()
            _consumer_writes(at, *CONSUMERS)
            await at.transactions.begin(CLIENTS)
            if dies == "before it is read":
                await at.ends_suddenly()
            else:
                await at.is_back()
            assert await at.fetched() == {0: BOTH_HAD}, "nobody knows yet which is newer"
            assert at.stands(0) == CONSUMERS[-1]
            if dies == "amid the transaction":
                await at.ends_suddenly()
            at.transactions.end(committed=committed)
            if dies == "behind its end":
                await at.ends_suddenly()
            await asyncio.sleep(SOON)
            assert at.log == at.zookeeper == {0: CLIENTS if committed else CONSUMERS[-1]}
            assert not at.shim.dual_commit.outbox.lagging
            _consumer_writes(at, LAST)
            await asyncio.sleep(SOON)
            assert at.log == {0: LAST}

    virtual_time.run(lived())


@pytest.mark.parametrize("committed", [True, False])
def test_what_it_wrote_where_neither_had_anything_before_a_transaction_ends(committed: bool, tmp_path: Path) -> None:
    """It stays there until then, and is not taken for what the log has deleted."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.shim.does(at.shim.delete(GROUP, [0]))
            await asyncio.sleep(SOON)
            await at.ends_suddenly()  # nothing is known of that partition from here on
            await at.transactions.begin(CLIENTS)
            _consumer_writes(at, *CONSUMERS)
            await asyncio.sleep(SOON)
            assert (at.log, at.stands(0)) == ({}, CONSUMERS[-1]), "nobody knows yet which is newer"
            at.transactions.end(committed=committed)
            await asyncio.sleep(SOON)
            assert at.log == at.zookeeper == {0: CLIENTS if committed else CONSUMERS[-1]}
            assert not at.shim.dual_commit.outbox.lagging

    virtual_time.run(lived())


def test_what_it_writes_behind_a_step_that_a_sudden_end_follows_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stood there when the group was at that step before, and was deleted since, says nothing of it."""

    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            _consumer_writes(at, *CONSUMERS)
            await asyncio.sleep(SOON)
            await at.shim.does(at.shim.stepping.move(GROUP, Step.ZOOKEEPER_DUAL, "a test"))
            await at.shim.does(at.shim.delete(GROUP, [0]))
            dual_commit, is_there = at.shim.dual_commit, asyncio.Event()

            async def has_no_turn(_: str) -> None:
                is_there.set()
                await asyncio.Event().wait()

            enter = dual_commit.enter

            def entered(*what: Any) -> None:
                monkeypatch.setattr(dual_commit.outbox, "_feed", has_no_turn)
                enter(*what)

            monkeypatch.setattr(dual_commit, "enter", entered)
            await at.shim.does(at.shim.stepping.move(GROUP, Step.KAFKA_DUAL, "a test"))
            await is_there.wait()
            await at.ends_suddenly(lambda: _consumer_writes(at, *CONSUMERS, LAST))
            assert at.log == at.zookeeper == {0: LAST}

    virtual_time.run(lived())


def test_what_it_wrote_before_a_client_came_back_while_the_shim_ran_without_zookeeper(tmp_path: Path) -> None:
    async def lived() -> None:
        async with at_kafka_dual(tmp_path, BOTH_HAD) as at:
            await at.shim.kill()
            at.start(has_zookeeper=False)
            _consumer_writes(at, LAST)
            await asyncio.sleep(SOON)
            await at.commit({0: CLIENTS})
            await at.commit({0: BOTH_HAD})
            await at.ends_suddenly()
            assert at.log == at.zookeeper == {0: BOTH_HAD}

    virtual_time.run(lived())
