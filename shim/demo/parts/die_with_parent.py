"""Become another program that is killed when its parent dies.

`python die_with_parent.py PARENT_PID PROGRAM [ARGUMENT…]`. A program of its own rather than a `preexec_fn`, because no
Python code can safely run between fork and exec in a process that has threads. The parent-death signal outlives exec;
it fires when the *thread* that forked ends (prctl(2)), so the parent starts its children from a thread that never ends
(`process.spawn`).
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with(parent: int) -> None:
    """Have this process killed when that one, its parent, dies. Raises SystemExit where it cannot be, or has died."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    # The parent may have died before the signal was asked for; then nobody would ever send it.
    if os.getppid() != parent:
        sys.exit("the parent process is gone")


def main() -> None:
    parent, program = int(sys.argv[1]), sys.argv[2:]
    die_with(parent)
    # Python ignores these two at start-up, and what is ignored stays ignored across exec.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(program[0], program)  # noqa: S606 - an argument list built by process.spawn


if __name__ == "__main__":
    main()
