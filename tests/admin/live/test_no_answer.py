"""Commands that are given wrong, and those to which no shim answers, or not to the end."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest
from click.testing import CliRunner

from shim.admin import admin_client
from shim.admin.live.asked.groups import Details, NotCertain, Plan, Scope, Target
from shim.admin.live.asked.migration import GroupStatus, Source
from shim.demo.parts import free_port
from shim.main import cli
from shim.relocation.words import LogPlaces
from shim.terminal import progress
from tests.admin.live.grouped import Grouped
from tests.admin.live.moved import Moved
from tests.admin.live.running import (
    TIME_LIMIT_SECONDS,
    admin_of,
    at_a_terminal_of_its_own,
    offset_shim,
    read_until,
)
from tests.admin.live.watching import OVERVIEW, Relocated

_WRONG_PORT: Final = (
    "if clients bootstrap there, it is the wrong port. A shim that speaks TLS there is asked with --admin-ca-file"
)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["migrate", "start"], "Which groups?"),
        (["migrate", "advance"], "Which groups?"),
        (["migrate", "rollback"], "Which groups?"),
        (["migrate", "verify", "g", "--all"], "one of them"),
        (["migrate", "start", "g", "--all"], "one of them"),
        (["migrate", "plan", "--pattern", "*", "--all"], "one of them"),
        (["migrate", "status", "--admin", "nowhere"], "is not host:port"),
        (["migrate", "start", "\udc80"], "not UTF-8"),
        (["migrate", "start", "--all", "--cause", "\udc80"], "not UTF-8"),
        (["groups", "list", "--pattern", "\udc80"], "not UTF-8"),
        (["groups", "describe", "\udc80"], "not UTF-8"),
        (["groups", "describe"], "Missing argument"),
        (["groups", "describe", "a", "b"], "unexpected extra argument"),
    ],
)
def test_bad_usage(args: list[str], told: str) -> None:
    result = offset_shim(*args)
    assert (result.status, result.stdout) == (2, "")
    assert told in result.stderr


@dataclass
class Slow(Grouped):
    """Answers nothing that is asked about offsets before it is let."""

    let: threading.Event = field(default_factory=threading.Event)

    async def plan_reset(self, group: str, target: Target, scope: Scope, *, soon: bool = False) -> Plan:
        await asyncio.to_thread(self.let.wait, TIME_LIMIT_SECONDS)
        return await super().plan_reset(group, target, scope)


_DRY_RUN: Final = ("groups", "reset", "g", "--to-earliest", "--all-topics", "--dry-run")


@pytest.fixture
def slow(moved: Moved) -> Iterator[Slow]:
    slow = Slow(moved)
    yield slow
    slow.let.set()


def test_whoever_waits_for_long_is_told_what_for(moved: Moved, slow: Slow) -> None:
    with admin_of(moved, slow) as admin:
        command = [sys.executable, "-m", "shim.main", *_DRY_RUN, "--admin", admin]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:
            assert asking.stderr is not None
            line = asking.stderr.readline()
            slow.let.set()
            stdout, errors = asking.communicate(timeout=TIME_LIMIT_SECONDS)
    assert line == f"waiting for the shim at {admin}, which may be waiting for brokers\n"
    assert (asking.returncode, errors, stdout.startswith("TOPIC ")) == (0, "", True)


def test_at_a_terminal_it_is_said_for_as_long_as_it_lasts(moved: Moved, slow: Slow) -> None:
    with admin_of(moved, slow) as admin, at_a_terminal_of_its_own(*_DRY_RUN, "--admin", admin) as (asking, terminal):
        read_until(terminal, "which may be waiting for brokers")
        slow.let.set()
        read_until(terminal, "\x1b[2K")  # the line is taken away
        stdout, _ = asking.communicate(timeout=TIME_LIMIT_SECONDS)
    assert (asking.returncode, stdout.startswith("TOPIC ")) == (0, True)


def test_whoever_is_answered_soon_is_told_nothing(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor whoever presses a key for a group's name, in the middle of a line."""
    told: list[object] = []
    monkeypatch.setattr(progress.Waiting, "_tell", told.append)
    with admin_of(moved) as admin:
        assert offset_shim("groups", "list", "--admin", admin).status == 0
        assert told == []
        monkeypatch.setattr(progress, "_WAITING_AFTER_S", 0.0)
        monkeypatch.setenv("_OFFSET_SHIM_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", f"offset-shim groups describe --admin {admin} ")
        monkeypatch.setenv("COMP_CWORD", "5")
        CliRunner().invoke(cli, prog_name="offset-shim")
    assert told == []


def test_what_the_shim_does_not_take(admin: str) -> None:
    result = offset_shim("migrate", "start", "x" * 40_000, "--admin", admin)
    assert result == (2, "", "Error: a group's name is longer than 32767 bytes\n")


@pytest.mark.parametrize("command", [["groups", "list"], ["groups", "describe", "g"], ["migrate", "start", "g"]])
def test_no_shim_there(command: list[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    expected = (
        f"Error: no shim answers at {address}: Connection refused. Does one run, with `serve --admin {address}`? "
        "If that is elsewhere, name it here with --admin\n"
    )
    assert offset_shim(*command, "--admin", address) == (2, "", expected)


@pytest.mark.parametrize("command", [["groups", "list"], ["groups", "describe", "g"], ["migrate", "start", "g"]])
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"220 mail.example.org ESMTP\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n<html>",
        b"HTTP/1.0 404 Not Found\r\n\r\n<html>",
        b"HTTP/1.0 403 Forbidden\r\n\r\n[]",
    ],
)
def test_something_else_is_there(command: list[str], answer: bytes) -> None:
    with answering(answer) as address:
        result = offset_shim(*command, "--admin", address)
    if not answer and command[0] == "migrate":  # or a shim that has begun with it
        assert (result.status, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: the shim at {address} did not say what became of it: ")
        assert result.stderr.endswith(f"; {_WRONG_PORT}\n")
        return
    assert (result.status, result.stdout) == (2, "")
    told = f"something else than a shim's admin port answers at {address}"
    ended = "" if answer else ", or a shim that is ending: the connection was closed"
    assert result.stderr == f"Error: {told}{ended}; {_WRONG_PORT}\n"


_CHANGES = (
    (("migrate", "start", "g"), "migrate status"),
    (("migrate", "advance", "g"), "migrate status"),
    (("migrate", "rollback", "g"), "migrate status"),
    (("groups", "delete", "g"), "groups list"),
    (("log", "move", "--to", "kafka"), "log move"),
)


@pytest.mark.parametrize(("command", "look"), _CHANGES, ids=lambda value: value if isinstance(value, str) else value[1])
@pytest.mark.parametrize(
    ("answer", "hangs", "why"),
    [
        (b"", True, "timed out"),
        (b"", False, "Remote end closed connection without response"),
        (b"HTTP/1.0 504 Gateway Time-out\r\n\r\n<html>", False, "HTTP status 504"),
    ],
    ids=["it hangs", "it is gone", "a proxy gives up"],
)
def test_a_change_that_the_shim_is_silent_about(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], look: str, answer: bytes, hangs: bool, why: str
) -> None:
    """It took the request, so it may have begun: that is no "nothing was done", and what shows it is named."""
    if hangs:  # the others answer, when the machine lets them
        monkeypatch.setattr(admin_client, "_SILENT_SECONDS", 0.1)
    with answering(answer, hangs=hangs) as address:
        result = offset_shim(*command, "--admin", address)
    assert (result.status, result.stdout) == (1, "")
    told = (
        f"Error: the shim at {address} did not say what became of it: {why}. "
        f"Look with `offset-shim {look} --admin {address}` before you do it again"
    )
    assert result.stderr.startswith(told)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("answer", [b"", b'{"groups"'])
@pytest.mark.parametrize(("hangs", "why"), [(True, "timed out"), (False, "the answer was cut off")])
def test_a_change_that_the_shim_goes_silent_about_before_its_first_line(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, hangs: bool, why: str
) -> None:
    if hangs:  # behind what it says first
        monkeypatch.setattr(admin_client, "_SILENT_SECONDS", 1.0)
    with answering(HEAD + answer, hangs=hangs) as address:
        result = offset_shim("migrate", "advance", "g", "--json", "--admin", address)
    assert (result.status, result.json) == (1, {"groups": [], "not_done": []})
    assert f"of it: {why}. Look with `offset-shim migrate status --admin {address}`" in result.stderr


def test_what_only_looks_leaves_nothing_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_client, "_SILENT_SECONDS", 0.1)
    for command in (("groups", "delete", "g", "--dry-run"), ("migrate", "advance", "g", "--dry-run")):
        with answering(HEAD, hangs=True) as address:
            result = offset_shim(*command, "--admin", address)
        assert (result.status, result.stderr) == (2, f"Error: {silent_at(address)}\n")


@pytest.mark.parametrize("command", [("groups", "list"), ("migrate", "plan")])
def test_a_shim_that_hangs(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    """The kernel takes the connection, and nobody reads it."""
    monkeypatch.setattr(admin_client, "_SILENT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        result = offset_shim(*command, "--admin", address)
    assert (result.status, result.stdout) == (2, "")
    assert result.stderr == f"Error: {silent_at(address)}\n"


@pytest.mark.parametrize("command", [("groups", "list"), ("migrate", "plan")])
def test_a_shim_that_does_not_even_say_that_it_lives(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    """Nobody waits for it as for one that waits for brokers."""
    for name in ("_LIVES_AFTER_SECONDS", "_LIVES_SECONDS"):
        monkeypatch.setattr(admin_client, name, 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        result = offset_shim(*command, "--admin", address)
    assert (result.status, result.stdout) == (2, "")
    told = "was reached, and says nothing, not even that it lives (GET /livez): it hangs, or its host does"
    assert result.stderr == f"Error: the shim at {address} {told}\n"


def test_one_that_lives_is_waited_for(moved: Moved, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def lives(shim: admin_client.RunningShim) -> bool:
        asked.append(ask(shim))
        slow.let.set()
        return asked[-1]

    ask = admin_client.RunningShim._lives
    monkeypatch.setattr(admin_client, "_LIVES_AFTER_SECONDS", 0.1)
    monkeypatch.setattr(admin_client.RunningShim, "_lives", lives)
    with admin_of(moved, slow) as admin:
        assert offset_shim(*_DRY_RUN, "--admin", admin).status == 0
    assert asked
    assert all(asked)


@pytest.mark.parametrize("command", [("groups", "list"), ("migrate", "plan")])
def test_a_shim_that_hangs_in_the_middle(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    monkeypatch.setattr(admin_client, "_SILENT_SECONDS", 0.1)
    with answering(HEAD, hangs=True) as address:
        result = offset_shim(*command, "--admin", address)
    assert (result.status, result.stdout) == (2, "")
    assert result.stderr == f"Error: {silent_at(address)}\n"


def silent_at(address: str) -> str:
    return f"the shim at {address} was reached, and has said nothing for 0.1 s: it hangs, or its disk does"


HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"
ROW = (
    b'{"group":"a","offsets_storage":"kafka","dual_commit_enabled":false,"state":"Empty","members":0,'
    b'"changed_ms":null,"cause":"","lag_seconds":null,"alarm":""}\n'
)


@pytest.mark.parametrize("rest", [b"", b"\n\n", b'{"group":"b","offs', b"nonsense\n"])
def test_a_shim_that_goes_away_in_the_middle(rest: bytes) -> None:
    """What it has told is shown all the same."""
    with answering(HEAD + b'{"groups":2}\n' + ROW + rest) as address:
        result = offset_shim("migrate", "start", "a", "b", "--admin", address)
    assert result.status == 1
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["GROUP", "a"]
    assert result.stderr.startswith(f"Error: the shim at {address} told of 1 of 2 groups: ")
    status = f"offset-shim migrate status --admin {address}"
    assert result.stderr.endswith(f". What became of the others is not certain: look with `{status}`\n")


def test_a_shim_that_is_gone_between_two_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_client, "_MOST_NAMES", 1)
    with answering(HEAD + b'{"groups":1}\n' + ROW + b'{"done":1}\n') as address:
        result = offset_shim("migrate", "start", "a", "b", "--json", "--admin", address)
    assert result.status == 1
    assert [row["group"] for row in result.json["groups"]] == ["a"]
    assert result.stderr.startswith(f"Error: no shim answers at {address}")


@contextmanager
def answering(answer: bytes, *, hangs: bool = False) -> Iterator[str]:
    """Takes one request, answers so, and closes the port; ``hangs``: and says nothing more until it is given up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_one() -> None:
            connection, _ = listening.accept()
            listening.close()
            with connection:
                read = b""
                while b"\r\n\r\n" not in read and (piece := connection.recv(65_536)):
                    read += piece
                connection.sendall(answer)
                if not hangs:
                    connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass

        address = f"127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=answer_one)
        thread.start()
        try:
            yield address
        finally:
            thread.join(30)


class Awaited(Moved):
    """Its moves are seen, and let go on, from another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way, self.ended = threading.Event(), threading.Event()

    async def start(self, group: str, cause: str, source: Source | None = None) -> GroupStatus:
        self.loop = asyncio.get_running_loop()
        self.under_way.set()
        try:
            return await super().start(group, cause, source)
        finally:
            self.ended.set()


def interrupted(under_way: threading.Event, *args: str) -> tuple[int, str, str]:
    """Status, output and errors of a command that is told to stop then."""
    # Whoever runs this in the background has it ignored, and so would the child.
    begun = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from shim.main import cli; cli()"
    command = [sys.executable, "-c", begun, *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert under_way.wait(TIME_LIMIT_SECONDS)
            child.send_signal(signal.SIGINT)
            stdout, stderr = child.communicate(timeout=TIME_LIMIT_SECONDS)
        finally:
            child.kill()
    return child.returncode, stdout, stderr


def test_ctrl_c() -> None:
    moved = Awaited()
    moved.add("g")
    moved.held["g"] = asyncio.Event()
    with admin_of(moved) as address:
        status, stdout, stderr = interrupted(moved.under_way, "migrate", "start", "g", "--json", "--admin", address)
        moved.loop.call_soon_threadsafe(moved.held["g"].set)
        assert moved.ended.wait(TIME_LIMIT_SECONDS)
    assert status == 1
    assert json.loads(stdout) == {"groups": [], "not_done": []}
    look = f"offset-shim migrate status --admin {address}"
    assert stderr == f"Error: stopped; groups under way are brought to an end, no others begun: look with `{look}`\n"
    assert (moved.groups["g"].storage, moved.cancelled) == ("kafka", [])


def test_whoever_moves_a_group_that_waits_is_told_where_to_look() -> None:
    moved = Awaited()
    moved.add("g")
    moved.held["g"] = asyncio.Event()
    with admin_of(moved) as address:
        command = [sys.executable, "-m", "shim.main", "migrate", "start", "g", "--admin", address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as moving:
            assert moving.stderr is not None
            line = moving.stderr.readline()
            moved.loop.call_soon_threadsafe(moved.held["g"].set)
            stdout, errors = moving.communicate(timeout=TIME_LIMIT_SECONDS)
    look = f"offset-shim migrate status g --admin {address}"
    assert line == f"waiting for the start of g: `{look}` says which members it waits for, if any\n"
    assert (moving.returncode, errors, stdout.splitlines()[1].split()[:2]) == (0, "", ["g", "kafka"])


def test_what_fails_behind_ctrl_c_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever asked has gone, and is told nothing any more."""
    moved = Awaited()
    moved.add("g")
    moved.held["g"] = asyncio.Event()
    with admin_of(moved) as address:
        assert interrupted(moved.under_way, "migrate", "start", "g", "--admin", address)[0] == 1
        moved.uncertain["g"] = NotCertain("whether the cluster has it is not known")
        moved.loop.call_soon_threadsafe(moved.held["g"].set)
        assert moved.ended.wait(TIME_LIMIT_SECONDS)
    assert caplog.messages == [
        "/v1/migrate/start: whoever asked has gone and is not told: "
        "group g: failed: whether the cluster has it is not known"
    ]


class Looked(Grouped):
    """A look at a group is under way for longer than anybody waits."""

    def __init__(self, moved: Moved) -> None:
        super().__init__(moved)
        self.under_way = threading.Event()

    async def details(self, group: str, *, with_last_commit: bool = True) -> Details:
        self.under_way.set()
        await asyncio.Event().wait()
        return await super().details(group)

    async def plan_reset(self, group: str, target: Target, scope: Scope, *, soon: bool = False) -> Plan:
        self.under_way.set()
        await asyncio.Event().wait()
        return await super().plan_reset(group, target, scope)


@pytest.mark.parametrize("command", [["describe", "g"], ["reset", "g", "--to-earliest", "--all-topics", "--yes"]])
def test_ctrl_c_before_anything_is_asked_to_change(command: list[str]) -> None:
    moved = Moved()
    moved.add("g", step="kafka")
    grouped = Looked(moved)
    with admin_of(moved, grouped) as address:
        told = interrupted(grouped.under_way, "groups", *command, "--admin", address)
    assert told == (2, "", "stopped; nothing was done\n")
    assert grouped.resets == []


class Unending(Relocated):
    """Partitions are being moved for longer than anybody looks."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way = threading.Event()

    async def changed(self, changes: int, seconds: float) -> LogPlaces:
        self.under_way.set()
        await asyncio.sleep(0.05)  # as long as a turn
        return await super().changed(changes, seconds)


def test_who_stops_looking_at_a_move_stops_nothing() -> None:
    its = Unending()
    with admin_of(Moved(), relocates=lambda: its) as address:
        told = interrupted(its.under_way, "log", "move", "--to", "kafka", "--admin", address)
    assert told == (1, "", "stopped looking; the shim goes on, and the same command watches it again\n")


@pytest.mark.parametrize(("log", "where"), [("local", "its data directory"), ("kafka", "topics of the cluster")])
def test_where_a_log_is_that_is_not_moved(log: str, where: str) -> None:
    with admin_of(Moved(), whole=OVERVIEW._replace(log=log), relocates=lambda: None) as address:
        for more in ((), ("--to", "kafka")):
            told = offset_shim("log", "move", *more, "--admin", address)
            assert (told.status, told.stderr) == (
                2,
                f"Error: this shim has its log in one place, {where} (50 partitions): started with "
                "offsets.log=moving, it moves partitions\n",
            )


def test_a_shim_that_is_gone_amid_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(self: admin_client.RunningShim, path: str, wanted: object, look: str) -> object:
        return {"partitions": [{"log": "local"}], "to": "kafka", "turn": 1}

    monkeypatch.setattr(admin_client.RunningShim, "change", change)
    told = offset_shim("log", "move", "--to", "kafka", "--admin", f"127.0.0.1:{free_port()}")
    assert told.status == 1
    assert told.stderr.endswith(
        "name it here with --admin. Partitions were being moved: once it runs, give this command again\n"
    )
