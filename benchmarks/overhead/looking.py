"""Who looks at a shim while it works: a console that is open, and a Prometheus, as often as they do by default."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, NamedTuple

_ANSWER_S: Final = 30.0


class Look(NamedTuple):
    """Each of ``paths`` is asked for, and again so many seconds after the answers, as long as it is looked at."""

    paths: tuple[str, ...]
    every_seconds: float


PAGES: Final = (
    Look(("v1/overview", "v1/groups/summary?sort=lag&order=desc&limit=5"), 3.0),
    Look(("v1/groups/summary?sort=lag&order=desc&offset=0&limit=50",), 3.0),
    Look(("v1/groups/describe?group={group}",), 3.0),
)
"""The console's first page, its groups and one group, each as its own script asks for it: open in three windows."""
PROMETHEUS: Final = Look(("metrics",), 15.0)


class Lookers:
    """``admin``: the address of its port. ``group``: of which one page is open.

    Between measurements nobody looks, and no time passes for them: so each looks as often, in all of them together, as
    if they were one.
    """

    def __init__(self, admin: str, group: str) -> None:
        self._admin = admin
        self._group = group
        self._due_in: dict[Look, float] = dict.fromkeys((*PAGES, PROMETHEUS), 0.0)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """What cannot be had is raised at the end."""
        over = threading.Event()
        with ThreadPoolExecutor(len(self._due_in)) as threads:
            going_on = [threads.submit(self._look, each, over) for each in self._due_in]
            try:
                yield
            finally:
                over.set()
            for each in going_on:
                each.result()

    def _look(self, what: Look, over: threading.Event) -> None:
        due = time.monotonic() + self._due_in[what]
        while not over.wait(max(0.0, due - time.monotonic())):
            for path in what.paths:
                url = f"http://{self._admin}/{path.format(group=self._group)}"
                with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:
                    answer.read()
            due = time.monotonic() + what.every_seconds
        self._due_in[what] = max(0.0, due - time.monotonic())


def until_ready(admin: str, seconds: float) -> None:
    """Until every part of the shim can be asked; raises OSError if that takes longer than ``seconds``."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(f"http://{admin}/readyz", timeout=_ANSWER_S):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
