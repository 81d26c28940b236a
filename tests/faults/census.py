"""What there is inside of a shim's process: its tasks and what a connection is made of, counted there when asked."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from tests.hostile.watching import Held, held
from tests.shim_process import Shim
from tests.waiting import wait_until

# One line of Python for `Shim(late_patch=…)`.
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
    wait_until(path.exists, lambda: f"it does not answer\n{shim.log()[-4000:]}")
    now: Held = held(shim)
    return Census(now.descriptors, now.connections, Counter(json.loads(path.read_text())))


def wait_quiet(shim: Shim, folder: Path, connections: int) -> Census:
    """Until there is no client, and the shim has so many connections of its own."""

    def look() -> Census | None:
        now = census(shim, folder)
        is_quiet = not now.inside["ClientSession"] and now.inside["BrokerConnection"] == connections
        return now if is_quiet else None

    return wait_until(look, lambda: f"{census(shim, folder)}\n{shim.log()[-4000:]}")


def wait_settled(shim: Shim, folder: Path, before: Census) -> Census:
    """Until there is nothing more than there was. The shim tells nobody when."""

    def look() -> Census | None:
        now = census(shim, folder)
        return None if now.more_than(before) else now

    return wait_until(look, lambda: f"left behind: {census(shim, folder).more_than(before)}\n{shim.log()[-4000:]}")
