"""A shim that is older than the commands, and a history that is not where the log is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shim.admin import admin_client
from shim.admin.commands.history_elsewhere import HISTORY_ELSEWHERE
from shim.admin.errors import NotOffered
from shim.config import parse_host_port
from tests.admin.live.grouped import WithoutMoves
from tests.admin.live.moved import Moved
from tests.admin.live.running import admin_of, offset_shim
from tests.admin.live.watching import OVERVIEW


@pytest.fixture(params=["without keys", "without the path"])
def older(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the shim tells is as it was before its log could be anywhere else, and at first nothing was told of it as a
    whole."""
    how: str = request.param
    get = admin_client.RunningShim.get

    def told(self: admin_client.RunningShim, path: str, query: Sequence[tuple[str, str]] = ()) -> Any:
        if path == "/v1/overview" and how == "without the path":
            return get(self, "/v1/nowhere", query)
        document = get(self, path, query)
        for name in ("owned", "others", "log", "log_moves", "warning"):
            document.pop(name, None)
        for each in document.get("moves", ()):
            del each["deleted"]
        return document

    monkeypatch.setattr(admin_client.RunningShim, "get", told)
    return how


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize(
    "command",
    [["groups", "list"], *(["migrate", *its.split()] for its in ("plan", "status", "verify", "start --all"))],
)
def test_an_older_shim_has_all_groups(moved: Moved, admin: str, command: list[str]) -> None:
    moved.add("g")
    moved.add("h", step="kafka")
    told = offset_shim(*command, "--admin", admin)
    assert (told.status, told.stderr) == (0, "")


@pytest.mark.usefixtures("older")
def test_an_older_shim_knows_of_no_deletions_and_of_no_other_place(moved: Moved, admin: str) -> None:
    moved.add("g", step="kafka")
    shown = offset_shim("groups", "history", "g", "--admin", admin)
    assert (shown.status, len(shown.stdout.splitlines())) == (0, 4)
    with admin_of(moved, WithoutMoves(moved)) as address:
        none = offset_shim("groups", "history", "g", "--admin", address)
    assert (none.status, none.stderr) == (
        0,
        "group g: the history has no move (--all-commits shows also what moved nothing)\n",
    )


@pytest.mark.usefixtures("older")
def test_of_what_the_history_has_nothing(moved: Moved) -> None:
    """It was `no such move`, whatever was asked for."""
    moved.add("g", step="kafka")
    with admin_of(moved, WithoutMoves(moved)) as address:
        history = ("groups", "history", "g", "--admin", address, "--topic", "t", "--partition", "orders:3")
        none = "group g: the history has no {} of t, orders:3 since 2026-03-01T00:00:00.000Z{}\n"
        more = " (--all-commits shows also what moved nothing)"
        assert offset_shim(*history, "--since", "2026-03-01").stderr == none.format("move", more)
        assert offset_shim(*history, "--since", "2026-03-01", "--all-commits").stderr == none.format("commit", "")


def test_a_shim_that_has_nothing_to_warn_of(admin: str) -> None:
    told = offset_shim("log", "move", "--json", "--admin", admin)
    assert (told.status, told.json["warning"]) == (0, "")


def test_what_an_older_shim_does_not_offer(admin: str) -> None:
    with pytest.raises(NotOffered, match=rf"^the shim at {admin} has no /v1/nowhere: it is an older one$"):
        admin_client.RunningShim(parse_host_port(admin)).get("/v1/nowhere", [("group", "g")])


def test_a_history_that_stayed_where_the_log_was() -> None:
    moved = Moved()
    moved.add("g", step="kafka")
    none = "group g: the history has no move (--all-commits shows also what moved nothing)"
    for log_moves, more in ((False, "\n"), (True, f"; {HISTORY_ELSEWHERE}\n")):
        with admin_of(moved, WithoutMoves(moved), whole=OVERVIEW._replace(log_moves=log_moves)) as address:
            told = offset_shim("groups", "history", "g", "--admin", address)
        assert (told.status, told.stderr) == (0, none + more)
