"""Whether all of a simulation follows from its seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def retold(module: str, folder: Path) -> tuple[bytes, bytes]:
    """What that module's ``tell``, which is given a folder, prints in two processes of their own. Sets of strings are
    in another order in each."""
    first, second = (
        subprocess.run(
            [
                sys.executable,
                "-c",
                f"import pathlib, {module} as model; model.tell(pathlib.Path({str(folder / hashes)!r}))",
            ],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for hashes in ("1", "2")
    )
    return first, second
