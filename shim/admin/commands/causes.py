"""Who does it, from where, for the shim's log and history."""

from __future__ import annotations

import getpass
import os
import socket

_LONGEST = 500  # of what stands before it


def cause_of(what: str, why: str | None) -> str:
    """``groups reset --to-earliest, by alice@laptop: change 4711``."""
    said = f"{what[:_LONGEST]}, by {_user()}@{socket.gethostname()}"
    return f"{said}: {why}" if why else said


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for it
        return str(os.getuid())
