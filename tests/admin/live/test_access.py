"""The token: who has to bring it, and what becomes of whoever does not."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from shim.admin.live.guard import token_file
from shim.admin.live.guard.access import Access, TokenFor
from shim.admin.live.guard.cross_site import Own
from shim.admin.live.guard.token_file import CannotUse, TokenFile, token_in
from shim.admin.live.port.application import application_of
from shim.admin.live.port.routes import Route
from shim.admin.live.port.serving import CannotListen, serve_admin
from shim.admin.live.sampled.sampling import Sampler
from shim.config import HostPort
from tests.admin.live.grouped import Grouped
from tests.admin.live.moved import Moved
from tests.admin.live.running import admin_of, offset_shim
from tests.admin.live.watching import Watching

TOKEN: Final = "a-token-of-some-length"
LOOKS: Final = ("/v1/groups", "/v1/groups/summary", "/v1/overview", "/v1/clients", "/v3/kafka", "/nowhere")
CHANGES: Final = ("reset", "delete", "start", "advance", "rollback")
OPEN: Final = ("/", "/v1/access", "/v1/openapi.json", "/console/app.js")


def path_of(change: str) -> str:
    return f"/v1/{'groups' if change in ('reset', 'delete') else 'migrate'}/{change}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture(params=["changes", "all"])
def access(request: pytest.FixtureRequest, file: Path) -> Access:
    return Access(TokenFile(file), for_all=request.param == "all")


@pytest.fixture
async def client(moved: Moved, access: Access) -> AsyncIterator[aiohttp.ClientSession]:
    moved.add("g")
    async with (
        serve_admin(HostPort("127.0.0.1", 0), Watching(moved, Grouped(moved)), access) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=aiohttp.ClientTimeout(20)) as session,
    ):
        yield session


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("headers", [{}, bearing("another-token-of-some-length"), {"Authorization": f"Basic {TOKEN}"}])
async def test_no_change_without_the_token(
    moved: Moved,
    client: aiohttp.ClientSession,
    change: str,
    headers: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with client.post(path_of(change), json={"groups": ["g"]}, headers=headers) as response:
        assert response.status == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert "admin.token.file" in (await response.json())["error"]
    assert moved.begun == []
    assert f"{path_of(change)} from 127.0.0.1 refused" in caplog.text
    assert TOKEN not in caplog.text


async def test_a_change_without_a_token_is_told_as_that(moved: Moved, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    moved.add("g")
    with admin_of(moved) as address:
        assert offset_shim("migrate", "start", "g", "--admin", address).status == 0
    assert "/v1/migrate/start from 127.0.0.1, without a token: " in caplog.text


async def test_with_the_token(moved: Moved, client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    question = {"groups": ["g"], "cause": "4711\n\x1b"}
    async with client.post("/v1/migrate/start", json=question, headers=bearing(TOKEN)) as response:
        assert response.status == 200
        await response.read()
    assert moved.begun == ["g"]
    (line,) = [each.getMessage() for each in caplog.records if "/v1/migrate/start" in each.getMessage()]
    assert line.startswith("/v1/migrate/start from 127.0.0.1, with the token: ")
    assert "4711" in line
    assert line.isprintable()
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("path", LOOKS)
async def test_looking_needs_it_where_all_does(client: aiohttp.ClientSession, access: Access, path: str) -> None:
    async with client.get(path) as without, client.get(path, headers=bearing(TOKEN)) as bringing:
        found = 404 if path == "/nowhere" else 200
        assert without.status == (401 if access.token_for is TokenFor.ALL else found)
        assert bringing.status == found


@pytest.mark.parametrize("path", OPEN)
async def test_what_anybody_may_have(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(path) as response:
        assert response.status == 200


async def test_what_is_told_of_it(client: aiohttp.ClientSession, access: Access) -> None:
    async with client.get("/v1/access") as response:
        assert await response.json() == {"token_for": str(access.token_for)}


async def test_what_answers_two_requests_asks_for_the_token_where_each_does(moved: Moved, access: Access) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response()

    table = [
        Route("POST", "/both", answer, changes=True),
        Route("GET", "/both", answer, open=True),
        Route("POST", "/one", answer),
        Route("POST", "/other", answer, changes=True),
        Route("GET", "/open", answer, open=True),
    ]
    application = application_of(table, Own("127.0.0.1"), access, Sampler(Watching(moved)))
    looking = 401 if access.token_for is TokenFor.ALL else 200
    expected = [("/both", 401), ("/one", looking), ("/other", 401)]
    async with TestClient(TestServer(application)) as client:
        for path, status in expected:
            async with client.post(path, json={}) as without, client.post(path, json={}, headers=bearing(TOKEN)) as by:
                assert (without.status, by.status) == (status, 200), path
        for path in ("/both", "/open"):
            async with client.get(path) as looked_at, client.head(path) as asked_for:
                assert (looked_at.status, asked_for.status) == (200, 200), path


async def test_a_token_that_has_changed(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    access = Access(TokenFile(file))
    await asyncio.to_thread(file.write_text, "a-newer-token-of-some-length")
    assert await access.refused("bearer  a-newer-token-of-some-length ", changes=True) is None
    assert await access.refused(f"Bearer {TOKEN}", changes=True) is not None
    await asyncio.to_thread(file.write_text, "short")
    assert await access.refused("Bearer a-newer-token-of-some-length", changes=True) is None
    assert await access.refused("Bearer short", changes=True) is not None
    assert "the token before stays" in caplog.text
    assert "newer" not in caplog.text
    await asyncio.to_thread(file.unlink)
    assert await access.refused("Bearer a-newer-token-of-some-length", changes=True) is None


async def test_a_file_that_takes_its_time_holds_up_nobody_else(
    moved: Moved, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe, at whose other end nobody writes for now."""
    newer = "a-newer-token-of-some-length"
    moved.add("g")
    async with (
        serve_admin(HostPort("127.0.0.1", 0), Watching(moved, Grouped(moved)), Access(TokenFile(file))) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=aiohttp.ClientTimeout(20)) as session,
    ):
        await asyncio.to_thread(file.unlink)
        os.mkfifo(file)
        start = partial(session.post, "/v1/migrate/start", json={"groups": ["g"]}, headers=bearing(newer))
        try:
            monkeypatch.setattr(token_file, "LOOK_SECONDS", 0.1)
            for _ in range(3):
                async with start() as response:
                    assert response.status == 504
            monkeypatch.setattr(token_file, "LOOK_SECONDS", 20)
            waiting = asyncio.create_task(start())
            async with session.get("/v1/groups") as response:
                assert response.status == 200
            assert moved.begun == []
        finally:
            await asyncio.to_thread(file.write_text, newer)
        async with await waiting as response:
            assert response.status == 200
            await response.read()
    assert moved.begun == ["g"]


@pytest.mark.parametrize(
    "content", [b"", b"short", b"two words of a token", b"t" * 5000, b"\xff" * 20, b"one-line-of-it\nand-another"]
)
def test_files_with_no_token(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(CannotUse, match=r"expected a token, 16 to 4096 ASCII characters"):
        token_in(file)


def test_no_more_of_a_file_is_read_than_a_token_may_have(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with file.open("wb") as opened:
        opened.truncate(1 << 42)  # more than fits into memory
    with pytest.raises(CannotUse, match="expected a token"):
        token_in(file)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(CannotUse, match="No such file or directory"):
        TokenFile(tmp_path / "none")


# --- the commands ----------------------------------------------------------------------------------------------------


def test_commands_bring_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = Moved()
    moved.add("g")
    start = ("migrate", "start", "g", "--json", "--admin")
    with admin_of(moved, access=Access(TokenFile(file), for_all=True)) as address:
        told = offset_shim(*start, address)
        assert (told.status, told.stderr.count("\n")) == (2, 1)
        assert "--admin-token-file" in told.stderr
        assert offset_shim(*start, address, "--admin-token-file", str(file)).status == 0
        assert moved.begun == ["g"]
        monkeypatch.setenv("OFFSET_SHIM_ADMIN_TOKEN_FILE", str(file))
        assert offset_shim("groups", "list", "--admin", address).status == 0
        assert offset_shim("groups", "describe", "g", "--admin", address).status == 0
        assert offset_shim("groups", "delete", "g", "--admin", address).status == 0


def test_a_token_file_that_is_none(tmp_path: Path) -> None:
    told = offset_shim("groups", "list", "--admin-token-file", str(tmp_path / "none"))
    assert told.status == 2
    assert "No such file or directory" in told.stderr


# --- addresses -------------------------------------------------------------------------------------------------------


async def test_what_is_said_of_an_address_that_others_reach(
    file: Path, moved: Moved, caplog: pytest.LogCaptureFixture
) -> None:
    anywhere = HostPort("0.0.0.0", 0)
    async with serve_admin(HostPort("localhost", 0), Watching(moved, Grouped(moved))):
        pass
    assert not [each for each in caplog.records if each.levelname == "WARNING"]
    with pytest.raises(CannotListen):
        async with serve_admin(anywhere, Watching(moved, Grouped(moved))):
            raise AssertionError("it was opened")
    async with serve_admin(anywhere, Watching(moved, Grouped(moved)), insecure=True):
        pass
    assert "nobody is asked who they are" in caplog.text
    caplog.clear()
    async with serve_admin(anywhere, Watching(moved, Grouped(moved)), Access(TokenFile(file))):
        pass
    assert "pass in clear" in caplog.text


async def test_a_post_to_nowhere_is_a_change(client: aiohttp.ClientSession) -> None:
    """So a path that is not in the table of routes is not open either."""
    async with client.post("/v1/migrate/forward", json={}) as without:
        assert without.status == 401
    async with client.post("/v1/migrate/forward", json={}, headers=bearing(TOKEN)) as bringing:
        assert bringing.status == 404
