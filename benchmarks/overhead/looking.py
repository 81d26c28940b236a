"""Who looks at a shim while it works: a console that is open, and a Prometheus."""

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
PROMETHEUS: Final = Look(("metrics",), 5.0)
"""Three times as often as it looks by default."""


@contextmanager
def looked_at(admin: str, group: str) -> Iterator[None]:
    """``admin``: the address of its port. What cannot be had is raised at the end."""
    over = threading.Event()

    def look(what: Look) -> None:
        while not over.is_set():
            for path in what.paths:
                with urllib.request.urlopen(f"http://{admin}/{path.format(group=group)}", timeout=_ANSWER_S) as answer:
                    answer.read()
            over.wait(what.every_seconds)

    looks = (*PAGES, PROMETHEUS)
    with ThreadPoolExecutor(len(looks)) as threads:
        going_on = [threads.submit(look, each) for each in looks]
        try:
            yield
        finally:
            over.set()
        for each in going_on:
            each.result()


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
