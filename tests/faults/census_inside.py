"""The half of `census.py` that runs in the shim's process: at SIGUSR1 it writes what there is into a file."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final

from shim.api import Call
from shim.net.broker_side import BrokerSide
from shim.net.listeners import Listeners
from shim.net.order import Slot
from shim.net.session import ClientSession
from shim.upstream import BrokerLink
from shim.upstream.connection import BrokerConnection

COUNTED: Final = (ClientSession, BrokerSide, BrokerLink, BrokerConnection, Call, Slot)


def install(path: str) -> None:
    """To be called before the shim's loop runs."""
    opened = Listeners.open

    async def open_and_listen_for_the_signal(self: Listeners) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, partial(_write, Path(path)))
        await opened(self)

    Listeners.open = open_and_listen_for_the_signal  # type: ignore[method-assign]


def _write(path: Path) -> None:
    gc.collect()
    found = Counter(f"task {task.get_coro().__qualname__}" for task in asyncio.all_tasks())  # type: ignore[union-attr]
    found += Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, COUNTED))
    half = path.with_suffix(".half")
    half.write_text(json.dumps(found))
    half.replace(path)
