"""The members' processes, and everything that they say, while a timetable is followed."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from subprocess import PIPE
from types import TracebackType
from typing import NoReturn, Self

from shim.demo.parts.jars import KAFKA, jar_set
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import Child
from tests.hung import stop
from tests.java_tools import compiled
from tests.rebalancing.history import Event, Holdings, Number, parse
from tests.rebalancing.timetable import JAVA, Action, Group, Member

_HERE = Path(__file__).parent
_HEAP_MB = 128
_ENDS_WITHIN_S = 60.0
_EVENTS_SHOWN = 300
_SHOWN = 3_000  # characters of each program's standard error in a failure


class MembersFailed(AssertionError):
    """A member ended that should not have, or something did not come in time."""


class Running:
    """Groups at one coordinator: members that come and go, a producer that goes on all the time.

    `names`: the group id, which is also the topic, of each group. Everything is killed at the end of the `with` block.
    """

    def __init__(
        self, folder: Path, bootstrap: str, groups: Sequence[Group], names: Mapping[str, str], session: float
    ) -> None:
        self.groups = groups
        self._folder = folder
        self._bootstrap = bootstrap
        self._names = names
        self._session_ms = str(round(session * 1000))
        self._group_of = {member.name: group for group in groups for member in group.members}
        self._changed = threading.Condition()
        self._events: dict[str, list[Event]] = defaultdict(list)
        self._holdings = {group.name: Holdings(group.partitions) for group in groups}
        self._absent = {member.name for group in groups for member in group.members}
        self._children: dict[str, Child] = {}  # by the member's name, or by its host's
        self._killed: set[str] = set()
        self._broken: list[str] = []
        self.produced: dict[str, list[Number]] = defaultdict(list)
        self._telling = threading.Lock()
        self._producer: Child | None = None
        self._jars = (
            compiled(jar_set(KAFKA), _HERE / "Members.java", folder)
            if any(member.library == JAVA for member in self._members())
            else None
        )

    def _members(self) -> list[Member]:
        return [member for group in self.groups for member in group.members]

    # What is said.

    def _heard(self, program: str, line: str) -> None:
        try:
            event = parse(line)
        except (ValueError, KeyError) as error:
            if program not in self._killed:  # in the middle of a line
                self._broken.append(f"{program}: {error!r}: {line}")
            return
        self._take(event)

    def _take(self, event: Event) -> None:
        group = self._group_of[event.member].name
        with self._changed:
            self._events[group].append(event)
            self._holdings[group].apply(event)
            if event.what in ("left", "killed"):
                self._absent.add(event.member)
            self._changed.notify_all()

    def _done_to(self, member: Member, what: str) -> None:
        self._take(Event(time.monotonic_ns(), member.name, what))

    def history(self, group: Group) -> list[Event]:
        """All of a group, in the order of the times."""
        with self._changed:
            return sorted(self._events[group.name], key=lambda event: event.at)

    def wait(self, what: str, holds: Callable[[], bool], seconds: float) -> None:
        """Wait until it holds, looked at whenever something is said, and every half second. Raises MembersFailed."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not holds():
                self.check_running()
                if time.monotonic() > deadline:
                    self.fail(f"not within {seconds:g} s: {what}")
                self._changed.wait(0.5)

    def settled(self) -> bool:
        return all(holdings.settled for holdings in self._holdings.values())

    def check_running(self) -> None:
        """Raises MembersFailed when a program has ended by itself, or has said what nobody understands."""
        for name, child in list(self._children.items()):
            if not child.running and child.returncode and name not in self._killed:
                self.fail(f"{name} has ended with status {child.returncode}")
        if self._broken:
            self.fail("; ".join(self._broken))

    def fail(self, what: str) -> NoReturn:
        """Raises MembersFailed: who holds what, what has happened last, and what the programs have complained of."""
        held = {group.name: self._holdings[group.name].of for group in self.groups}
        last = "\n".join(
            f"{at / 1e9:.3f} {member} {event} {generation} {sorted(partitions)} {why}"
            for group in self.groups
            for at, member, event, generation, partitions, _, _, why in self.history(group)[-_EVENTS_SHOWN:]
            if event not in ("records", "committed")
        )
        logs = "\n".join(
            f"{path.stem}:\n{text[-_SHOWN:]}"
            for path in sorted(self._folder.glob("*.stderr"))
            if (text := path.read_text(encoding="utf-8", errors="replace").strip())
        )
        raise MembersFailed(f"{what}\n{held}\n{last}\n{logs}")

    # What is done.

    def _launch(self, name: str, argv: Sequence[str]) -> Child:
        self._close_input(name)
        self._killed.discard(name)
        with (self._folder / f"{name}.stderr").open("ab") as stderr:
            child = self._children[name] = Child(argv, on_line=partial(self._heard, name), stdin=PIPE, stderr=stderr)
        return child

    def _close_input(self, name: str) -> None:
        if name in self._children:
            stdin = self._children[name].process.stdin
            assert stdin is not None
            stdin.close()

    def _tell(self, name: str, line: str) -> None:
        stdin = self._children[name].process.stdin
        assert stdin is not None
        with self._telling:  # members of two groups may share a host
            stdin.write(f"{line}\n")
            stdin.flush()

    def start(self, member: Member) -> None:
        """Once the one of this name that was before has ended."""
        group = self._group_of[member.name]
        name = self._names[group.name]
        self.wait(f"the end of {member.name}", lambda: member.name in self._absent, _ENDS_WITHIN_S)
        if member.library != JAVA and (before := self._children.get(member.name)):
            self._wait_end(member.name, before)
        with self._changed:
            self._absent.remove(member.name)
        instance = f"{member.name}-instance" if member.instance else ""
        if member.library == JAVA:
            host = member.host or member.name
            if host not in self._children or not self._children[host].running:
                assert self._jars is not None
                command = java_command(self._jars, "Members", self._bootstrap, self._session_ms, heap_mb=_HEAP_MB)
                self._launch(host, command)
            self._tell(host, "\t".join(("join", member.name, name, name, group.strategy, instance)).rstrip("\t"))
        else:
            arguments = (member.name, self._bootstrap, name, name, group.strategy, self._session_ms, instance)
            self._launch(member.name, [sys.executable, str(_HERE / "members.py"), member.library, *arguments])

    def leave(self, member: Member) -> None:
        """Once it has begun to join: before that it is not ready for a signal."""
        holdings = self._holdings[self._group_of[member.name].name]
        self.wait(f"{member.name} joins", lambda: member.name in holdings.of, _ENDS_WITHIN_S)
        if member.library == JAVA:
            self._tell(member.host or member.name, f"leave\t{member.name}")
        else:
            self._children[member.name].send_signal(signal.SIGTERM)

    def kill(self, member: Member) -> None:
        self._killed.add(member.name)
        self._children[member.name].kill()
        self._done_to(member, "killed")

    def freeze(self, member: Member) -> None:
        """Its history has it as frozen once it is, as until then it may still be given partitions."""
        stop(self._children[member.name].pid)
        self._done_to(member, "frozen")

    def thaw(self, member: Member) -> None:
        self._done_to(member, "thawed")
        self._children[member.name].send_signal(signal.SIGCONT)

    def follow(self, actions: Mapping[str, Sequence[Action]], seconds: float) -> None:
        """Do everything at its time, each group by itself, for so many seconds. Raises MembersFailed."""
        begun = time.monotonic()
        do = {"start": self.start, "leave": self.leave, "kill": self.kill, "freeze": self.freeze, "thaw": self.thaw}
        failed = threading.Event()

        def one_group(of_group: Sequence[Action]) -> None:
            try:
                for action in of_group:
                    if failed.wait(max(0.0, begun + action.at - time.monotonic())):
                        return
                    self.check_running()
                    do[action.what](action.member)
                failed.wait(max(0.0, begun + seconds - time.monotonic()))
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(max(1, len(actions))) as pool:
            for done in [pool.submit(one_group, of_group) for of_group in actions.values()]:
                done.result()
        self.check_running()

    def start_all(self, seconds: float) -> None:
        for member in self._members():
            self.start(member)
        self.wait("all groups have settled", self.settled, seconds)

    def end_all(self) -> None:
        """Everybody leaves, in order."""
        for member in self._members():
            if member.name not in self._absent:
                self.leave(member)
        everybody = {member.name for member in self._members()}
        self.wait("the end of everybody", lambda: self._absent >= everybody, _ENDS_WITHIN_S)
        for name in {member.host or member.name for member in self._members() if member.library == JAVA}:
            self._close_input(name)
        for name, child in self._children.items():
            self._wait_end(name, child)

    def _wait_end(self, name: str, child: Child) -> None:
        if not child.wait(_ENDS_WITHIN_S) or (child.returncode and name not in self._killed):
            self.fail(f"{name} did not end in order: {child.returncode}")

    def start_producing(self, rate: int) -> None:
        """So many records a second, to all topics."""
        targets = [f"{self._names[group.name]}:{group.partitions}" for group in self.groups]
        argv = [sys.executable, str(_HERE / "producing.py"), self._bootstrap, str(rate), *targets]
        with (self._folder / "producer.stderr").open("wb") as stderr:
            self._producer = Child(argv, on_line=self._delivered, stderr=stderr)

    def _delivered(self, line: str) -> None:
        said = json.loads(line)
        self.produced[said["topic"]] += [(partition, offset, number) for partition, offset, number in said["d"]]

    def end_producing(self) -> None:
        """All that was produced is in `produced` then, by topic."""
        assert self._producer is not None
        self._producer.send_signal(signal.SIGTERM)
        if not self._producer.wait(_ENDS_WITHIN_S) or self._producer.returncode:
            self.fail(f"the producer did not end in order: {self._producer.returncode}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._producer is not None:
            self._producer.kill()
        for name, child in self._children.items():
            child.kill()
            self._close_input(name)
