"""What one worker asks another: errors come back as they are, and nothing goes on that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest

from shim.admin.live.asked.migration import Refused
from shim.admin.live.asked.shim import NotReady
from shim.workers import remote_calls
from shim.workers.all_workers import AllGroups, AllMigrations
from shim.workers.remote_calls import ASKED, CHANGES, OtherWorker, Questions
from tests.admin.live.test_described import the_routes


class Moves:
    """Of a migration what is asked for here; where it hangs it does so until it is given up."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.given_up = 0

    async def advance(self, group: str) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # as what has to be put in order first
            self.given_up += 1

    async def status(self, groups: object) -> object:
        return groups

    async def candidates(self) -> object:
        return lambda: None  # that has no pickle

    async def served(self) -> object:
        await asyncio.sleep(5 * remote_calls.SILENT_SECONDS)  # it takes its time, and goes on
        return ["g"]

    async def rollback(self, group: str) -> None:
        raise Refused(f"{group} stays")


class NotRead:
    """It is written, and cannot be read again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


@pytest.fixture
def moves() -> Moves:
    return Moves()


@pytest.fixture
def path() -> Iterator[Path]:
    with TemporaryDirectory(prefix="asking-") as folder:
        yield Path(folder) / "admin"


@pytest.fixture
async def questions(path: Path, moves: Moves) -> AsyncIterator[Questions]:
    opened = Questions(path, SimpleNamespace(migration=moves))
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def worker(path: Path, questions: Questions) -> OtherWorker:
    return OtherWorker(1, path)


async def test_what_is_asked_for_ends_with_who_answers(moves: Moves, questions: Questions, worker: OtherWorker) -> None:
    asking = asyncio.ensure_future(worker("migration", "advance", "g"))
    await moves.begun.wait()
    await questions.close()
    assert moves.given_up == 1
    with pytest.raises(NotReady, match="worker 1 is not there for now"):
        await asking
    with pytest.raises(NotReady, match="worker 1 is not there for now"):
        await worker("migration", "status", None)


async def test_what_is_asked_for_ends_with_who_asks(moves: Moves, worker: OtherWorker) -> None:
    asking = asyncio.ensure_future(worker("migration", "advance", "g"))
    await moves.begun.wait()
    asking.cancel()
    async with asyncio.timeout(30):
        while not moves.given_up:
            await worker("migration", "status", None)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_calls, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(remote_calls, "_AT_IT_SECONDS", 0.05)


async def test_what_nobody_waits_for_any_more_is_not_begun(
    path: Path, moves: Moves, questions: Questions, worker: OtherWorker
) -> None:
    """As of a worker that was held up, and has what was asked of it still to read."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(remote_calls._packed(("migration", "advance", ("g",), {})))
    assert await reader.readexactly(8) == bytes(8)  # it has read that
    writer.close()
    assert await worker("migration", "status", "there") == "there"
    await questions.close()
    assert not moves.begun.is_set()


async def test_an_answer_may_take_its_time(impatient: None, worker: OtherWorker) -> None:
    assert await worker("migration", "served") == ["g"]


@pytest.mark.parametrize("has_begun", [False, True])
async def test_one_that_hangs_is_not_waited_for(impatient: None, path: Path, has_begun: bool) -> None:
    waiting: list[asyncio.StreamWriter] = []

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting.append(writer)
        if has_begun:
            writer.write(bytes(8))

    worker = OtherWorker(1, path)
    async with await asyncio.start_unix_server(hang, path):
        with pytest.raises(NotReady, match=r"^worker 1 does not answer$"):
            await worker("migration", "status", None)
        unknown = "; it may have done what was asked for" if has_begun else ""
        with pytest.raises(NotReady, match=f"^worker 1 does not answer{unknown}$"):
            await worker("migration", "advance", "g")
        for each in waiting:
            each.close()


async def test_answers_and_refusals_are_told_as_they_are(worker: OtherWorker) -> None:
    assert await worker("migration", "status", ["a", "b"]) == ["a", "b"]
    with pytest.raises(Refused, match="g stays"):
        await worker("migration", "rollback", "g")
    with pytest.raises(NotReady, match=r"nobody asks for migration\.close"):
        await worker("migration", "close")


async def test_what_has_no_pickle_is_told_of_as_that(worker: OtherWorker) -> None:
    told = "it cannot be passed between workers"
    with pytest.raises(NotReady, match=f"{told}: .*lambda"):
        await worker("migration", "status", lambda: None)
    with pytest.raises(NotReady, match=f"{told}: ValueError"):
        await worker("migration", "status", NotRead())
    with pytest.raises(NotReady, match=f"{told}: .*lambda"):
        await worker("migration", "candidates")


def test_what_may_be_asked_is_what_is_asked() -> None:
    for part, asks in (("migration", AllMigrations), ("groups", AllGroups)):
        assert ASKED[part] == {name for name in vars(asks) if not name.startswith("_")}
    assert ASKED[""] == {"overview", "clients", "missing", "metrics"}


async def test_what_changes_something_is_what_the_paths_say() -> None:
    """A path that does is named after what it asks for."""
    changing = {route.path.rpartition("/")[2] for route in await the_routes() if route.changes}
    assert changing == CHANGES | {"move"}, "a log that is moved is at one process"
