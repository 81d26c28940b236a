"""The worker processes of a shim that runs with several."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from pathlib import Path

_GONE_WITHIN_S = 30.0


def workers_of(parent: int) -> list[int]:
    """Their process ids, in the order in which they were begun."""
    return list(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()))


def wait_until_gone(pids: Sequence[int]) -> None:
    """Whoever's children they are."""
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            gone, _, _ = select.select([fd], [], [], _GONE_WITHIN_S)
        finally:
            os.close(fd)
        assert gone, f"process {pid} does not end"
