"""Real time for the process: a thread of it that wakes up has a core before all that is not in real time."""

from __future__ import annotations

import logging
import os
from typing import Final

from shim.config import Settings
from shim.upstream import reason_of

_PRIORITY: Final = 1
"""The least: whatever else of the machine is in real time comes first, or takes turns."""

_NEEDED: Final = (
    "it takes a limit for real-time priority of 1 (ulimit -r 1, rtprio of limits.conf, ulimits of Docker) or "
    "CAP_SYS_NICE; systemd gives it with CPUSchedulingPolicy=rr"
)

log = logging.getLogger("shim")


def take_real_time(settings: Settings) -> None:
    """Where that is set, before there are other threads and processes, which inherit it. One that has been given it
    keeps what it has. Where the system refuses, that is logged, and everything goes on without."""
    if not settings.process_realtime_enable:
        return
    if not hasattr(os, "sched_setscheduler"):
        log.warning("process.realtime.enable: not in real time: this system has no such thing")
        return
    try:
        # A policy that threads would not inherit (SCHED_RESET_ON_FORK) has that flag in it, and is none of the two.
        if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
            log.info("in real time, as the process was started")
            return
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))
    except OSError as error:
        log.warning("process.realtime.enable: not in real time: %s: %s", reason_of(error), _NEEDED)
    else:
        log.info("in real time: SCHED_RR, priority %d", _PRIORITY)
