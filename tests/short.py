"""`make test`: everything that is not marked `soak`, in two processes at a time. Arguments go to both, so they cannot
be tests, nor a folder that each would make anew.

Tests of real parts mostly wait for them. Those that need none run beside them, and get what processor time is left, so
that the others do not notice. What these said is printed at the end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
WITHOUT_PARTS: Final = (
    *("api", "client", "coordinator", "following", "log", "log_format", "net", "protocol", "runtime", "security"),
    *("tls", "upstream", "test_config.py", "test_listener_config.py"),
)
"""Some of them start a real broker for a test or two; what is not named here runs with the others."""

_LEAST_PRIORITY: Final = ("nice", "-n", "10")
_NO_TESTS: Final = 5  # pytest's exit status where arguments leave none


def main(arguments: list[str]) -> int:
    names = [str(TESTS / name) for name in WITHOUT_PARTS]
    pytest = (sys.executable, "-m", "pytest", "-m", "not soak", *arguments)
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen([*_LEAST_PRIORITY, *pytest, *names], stdout=said, stderr=subprocess.STDOUT) as beside,
    ):
        try:
            first = subprocess.run([*pytest, *(f"--ignore={name}" for name in names)]).returncode
            statuses = {first, beside.wait()}
        finally:
            beside.kill()
        said.seek(0)
        print(said.read(), flush=True)
    # One that was ended by a signal has a negative one.
    return 0 if statuses <= {0, _NO_TESTS} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
