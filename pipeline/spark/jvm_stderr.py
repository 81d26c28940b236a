"""What the JVM says on standard error, without what it says at each start."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_AT_EACH_START: Final = b"WARNING: Using incubator modules"  # Spark's own choice of options, and no setting undoes it


@contextmanager
def without_greeting() -> Iterator[None]:
    """A JVM that is started within has a pipe for its standard error, and a thread passes its lines on."""
    read, write = os.pipe()
    before = os.dup(2)
    threading.Thread(target=_pass_on, args=(read, before), name="pipeline-jvm-stderr", daemon=True).start()
    os.dup2(write, 2)
    os.close(write)
    try:
        yield
    finally:
        os.dup2(before, 2)


def _pass_on(read: int, to: int) -> None:
    with os.fdopen(read, "rb") as lines, os.fdopen(to, "wb", buffering=0) as out:
        for line in lines:
            if not line.startswith(_AT_EACH_START):
                out.write(line)
