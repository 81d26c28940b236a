"""Where in a data directory its processes have what is theirs: for who makes it, and who judges whether it can be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SHARES_NAME: Final = "workers"
"""Where processes that have the directory together note what is theirs: shim/log/shares.py."""

REQUESTS_NAME: Final = "requests"
"""A socket, in the folder of each: others forward requests there."""

MOST_PATH_BYTES: Final = 107
"""That the path of a socket of the system may have."""


def share_folder(data_dir: Path, number: int) -> Path:
    return data_dir / SHARES_NAME / str(number)


def has_room_for_sockets(data_dir: Path, count: int) -> bool:
    """Whether the paths of the sockets of so many processes are short enough."""
    longest = share_folder(data_dir.absolute(), count - 1) / REQUESTS_NAME
    return len(os.fsencode(longest)) <= MOST_PATH_BYTES
