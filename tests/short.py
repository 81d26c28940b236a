"""`make test`: everything that is not marked `soak`, in three processes at a time. Arguments go to all, so they cannot
be tests, nor a folder that each would make anew.

Tests of real parts mostly wait for them, so two processes share them: one what is named here, the other the rest. Those
that need none run beside them, and after these those of Spark: they get what processor time is left, so that the others
do not notice. What the others said is printed at the end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
WITHOUT_PARTS: Final = (
    *("api", "client", "coordinator", "following", "log", "log_format", "net", "protocol", "runtime", "security"),
    *("config", "logs", "metrics", "packaging", "tls", "upstream"),
    *("test_config.py", "test_counted.py", "test_listener_config.py", "pipeline"),
)
"""Some of them start a real broker for a test or two; what is not named here runs with the others."""

NAMED: Final = (
    *("admin", "authorization", "benchmarks", "clients", "cluster", "connect", "crash", "demo", "differential"),
    *("endurance", "faults", "groups", "hostile", "secured", "serve", "streams"),
)
"""About half of the time that tests of real parts take."""

_LEAST_PRIORITY: Final = ("nice", "-n", "10")
_NO_TESTS: Final = 5  # pytest's exit status where arguments leave none


def main(arguments: list[str]) -> int:
    pytest = (sys.executable, "-m", "pytest", "-m", "not soak", *arguments)
    beside = [(*pytest, *_paths(NAMED)), (*_LEAST_PRIORITY, *pytest, *_paths(WITHOUT_PARTS))]
    rest = (*pytest, *(f"--ignore={path}" for path in _paths((*NAMED, *WITHOUT_PARTS))))
    with ExitStack() as stack:
        said = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in beside]
        running = [
            stack.enter_context(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT))
            for command, file in zip(beside, said, strict=True)
        ]
        try:
            statuses = {subprocess.run(rest).returncode, *(each.wait() for each in running)}
        finally:
            for each in running:
                each.kill()
        for file in said:
            file.seek(0)
            print(file.read(), flush=True)
    # One that was ended by a signal has a negative one.
    return 0 if statuses <= {0, _NO_TESTS} else 1


def _paths(names: Iterable[str]) -> list[str]:
    return [str(TESTS / name) for name in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
