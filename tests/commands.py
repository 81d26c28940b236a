"""`offset-shim …` to its end, in a process that is a copy of one that has imported all that it needs."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from typing import Final

from tests import shim_process

TIME_LIMIT_SECONDS: Final = 30


def ended(*args: str, stdin: int = subprocess.DEVNULL, stderr: int | None = None) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` would give. ``stderr``: where that goes, in place of the result."""
    assert shim_process.template is not None
    with tempfile.TemporaryFile() as said, os.fdopen(os.dup(said.fileno() if stderr is None else stderr), "wb") as to:
        process = shim_process.template.spawn(["offset-shim", *args], stdin=stdin, stderr=to, cwd=None)
        assert process.stdout is not None
        late = threading.Timer(TIME_LIMIT_SECONDS, os.kill, (process.pid, signal.SIGKILL))
        late.start()
        with process.stdout:
            told = process.stdout.read()
        process.await_end()
        late.cancel()
        late.join()  # its process id is its own until it is reaped
        status = process.wait()
        said.seek(0)
        return subprocess.CompletedProcess(args, status, told, said.read().decode())
