"""What there is inside of a shim's process: its tasks and what a connection is made of, counted there when asked."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from tests.hostile.watching import Held, held
from tests.shim_process import Shim

SETTLED_S: Final = 30.0

# One line of Python for `Shim(patch=…)`, before anything of the shim's is imported.
PATCH: Final = "import tests.faults.census_inside as census_inside; census_inside.install({path!r})"


class Census(NamedTuple):
    """``inside``: how many tasks of each coroutine, and objects of each class that belongs to a connection."""

    descriptors: int
    connections: int
    inside: Counter[str]

    def more_than(self, before: Census) -> dict[str, int]:
        """What there is now and was not then."""
        more = dict(self.inside - before.inside)
        for name in ("descriptors", "connections"):
            if (number := getattr(self, name) - getattr(before, name)) > 0:
                more[name] = number
        return more


def patch(folder: Path) -> str:
    """For a shim that is to be counted."""
    return PATCH.format(path=str(folder / "census.json"))


def census(shim: Shim, folder: Path) -> Census:
    """Ask the shim's own process."""
    path = folder / "census.json"
    path.unlink(missing_ok=True)
    os.kill(shim.pid, signal.SIGUSR1)
    deadline = time.monotonic() + SETTLED_S
    while not path.exists():
        assert time.monotonic() < deadline, f"it does not answer\n{shim.log()[-4000:]}"
        time.sleep(0.01)  # a file says nothing when it comes
    now: Held = held(shim)
    return Census(now.descriptors, now.connections, Counter(json.loads(path.read_text())))


def wait_quiet(shim: Shim, folder: Path, connections: int) -> Census:
    """Until there is no client, and the shim has so many connections of its own."""
    deadline = time.monotonic() + SETTLED_S
    while (now := census(shim, folder)).inside["ClientSession"] or now.inside["BrokerConnection"] != connections:
        assert time.monotonic() < deadline, f"{now}\n{shim.log()[-4000:]}"
        time.sleep(0.05)
    return now


def wait_settled(shim: Shim, folder: Path, before: Census) -> Census:
    """Until there is nothing more than there was. The shim tells nobody when."""
    deadline = time.monotonic() + SETTLED_S
    while more := (now := census(shim, folder)).more_than(before):
        assert time.monotonic() < deadline, f"left behind: {more}\n{shim.log()[-4000:]}"
        time.sleep(0.05)
    return now
