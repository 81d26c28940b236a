"""Where in a data directory its processes have what is theirs: for who makes it, and who judges whether it can be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SHARES_NAME: Final = "workers"
"""Where processes that have the directory together note what is theirs: shim/log/directory/shares.py."""

_REQUESTS_NAME: Final = "requests"
_ADMIN_NAME: Final = "admin"

MOST_PATH_BYTES: Final = 107
"""That the path of a socket of the system may have."""


def share_folder(data_dir: Path, number: int) -> Path:
    return data_dir / SHARES_NAME / str(number)


def requests_path(data_dir: Path, number: int) -> Path:
    """A socket: others forward requests there."""
    return share_folder(data_dir, number) / _REQUESTS_NAME


def admin_path(data_dir: Path, number: int) -> Path:
    """A socket: who has the admin port asks there. The worker at which that is has none."""
    return share_folder(data_dir, number) / _ADMIN_NAME


def has_room_for_sockets(data_dir: Path, count: int) -> bool:
    """Whether the paths of the sockets of so many processes are short enough."""
    paths = (path(data_dir.absolute(), count - 1) for path in (requests_path, admin_path))
    return all(len(os.fsencode(path)) <= MOST_PATH_BYTES for path in paths)
