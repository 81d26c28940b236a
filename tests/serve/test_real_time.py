"""`process.realtime.enable`: all of a shim is in real time where it may be, and serves where it may not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from shim.demo.parts import Broker
from tests.serve.test_connections import commit, committed
from tests.shim_process import Shim
from tests.wire import WireClient
from tests.workers.conftest import shim_of
from tests.workers.processes import workers_of

SETTING: Final = "process.realtime.enable"
CAP_SYS_NICE: Final = 23  # linux/capability.h
ROUND_ROBIN: Final = {(os.SCHED_RR, 1)}
FAIR: Final = {(os.SCHED_OTHER, 0)}

REFUSED: Final = (
    f"{SETTING}: not in real time: Operation not permitted: it takes a limit for real-time priority of 1 (ulimit -r 1, "
    "rtprio of limits.conf, ulimits of Docker) or CAP_SYS_NICE; systemd gives it with CPUSchedulingPolicy=rr"
)


def with_limit(most: int) -> str:
    """Python that has a process in real time only as far as its limit goes, as of a user who is not root."""
    return f"""
import ctypes, os, resource
resource.setrlimit(resource.RLIMIT_RTPRIO, ({most}, {most}))
libc = ctypes.CDLL(None)
header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable, of the first 32 capabilities; then of the others
assert libc.capget(header, sets) == 0
for each in range(3):
    sets[each] &= ~(1 << {CAP_SYS_NICE})
assert libc.capset(header, sets) == 0
"""


def allowed() -> bool:
    """Whether tests may take real time; it is tried by a thread that ends."""
    found: list[bool] = []

    def take() -> None:
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
            found.append(True)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return bool(found)


def may_raise_the_limit() -> bool:
    """From what it is here, which is 0 as a rule: CAP_SYS_RESOURCE."""
    raising = "import resource; resource.setrlimit(resource.RLIMIT_RTPRIO, (1, 1))"
    return not subprocess.run([sys.executable, "-c", raising], stderr=subprocess.DEVNULL).returncode


where_allowed = pytest.mark.skipif(not allowed(), reason="real time is not permitted here")


def policies(pid: int) -> set[tuple[int, int]]:
    """Policy and priority of all threads of a process, of which a shim that serves has several."""
    threads = [int(each.name) for each in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) > 1
    found = set()
    for thread in threads:
        with suppress(ProcessLookupError):  # some are for one call alone
            found.add((os.sched_getscheduler(thread), os.sched_getparam(thread).sched_priority))
    return found


def said(shim: Shim) -> list[str]:
    return re.findall(r"(?m)^\S+ \S+ ((?:INFO|WARNING) .*in real time.*)$", shim.log())


def serves(shim: Shim, broker: Broker) -> None:
    with WireClient(shim.broker_port(broker.node_id)) as client:
        group = f"of {shim.pid}"  # the cluster has the other ones' by now
        commit(client, group, 7)
        assert committed(client, group) == 7


def shim_with(broker: Broker, tmp_path: Path, patch: str = "", enable: str = "true") -> Shim:
    return Shim(broker.bootstrap_servers, tmp_path / "data", settings={SETTING: enable}, patch=patch)


@pytest.mark.usefixtures("topic_t")
@pytest.mark.parametrize(
    ("patch", "possible"),
    [("", allowed), (with_limit(1), may_raise_the_limit)],
    ids=["by its rights", "by the limit alone"],
)
def test_all_threads_are_in_real_time(broker: Broker, tmp_path: Path, patch: str, possible: Callable[[], bool]) -> None:
    if not possible():
        pytest.skip("this user may not do that here")
    with shim_with(broker, tmp_path, patch) as shim:
        serves(shim, broker)
        assert policies(shim.pid) == ROUND_ROBIN
        assert said(shim) == ["INFO in real time: SCHED_RR, priority 1"]


@where_allowed
def test_all_workers_are_in_real_time(broker: Broker) -> None:
    """And the parent, of which those are forks, too, that are begun later."""
    with TemporaryDirectory(prefix="workers-") as folder:  # short enough for a socket in it
        shim = shim_of(broker, Path(folder) / "data", 2)
        shim.settings[SETTING] = "true"
        with shim:
            assert os.sched_getscheduler(shim.pid) == os.SCHED_RR
            assert [policies(each) for each in workers_of(shim.pid)] == [ROUND_ROBIN] * 2
            assert said(shim) == ["INFO in real time: SCHED_RR, priority 1"]


@where_allowed
@pytest.mark.usefixtures("topic_t")
def test_one_that_was_started_in_real_time_keeps_what_it_has(broker: Broker, tmp_path: Path) -> None:
    """And needs no right to it."""
    given = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))"
    with shim_with(broker, tmp_path, given + with_limit(0)) as shim:
        serves(shim, broker)
        assert policies(shim.pid) == {(os.SCHED_FIFO, 2)}
        assert said(shim) == ["INFO in real time, as the process was started"]


@pytest.mark.usefixtures("topic_t")
@pytest.mark.parametrize(
    ("patch", "line"),
    [
        (with_limit(0), REFUSED),
        ("import os; del os.sched_setscheduler", f"{SETTING}: not in real time: this system has no such thing"),
    ],
    ids=["refused", "no such thing"],
)
def test_where_it_may_not_it_says_so_once_and_serves(broker: Broker, tmp_path: Path, patch: str, line: str) -> None:
    with shim_with(broker, tmp_path, patch) as shim:
        serves(shim, broker)
        assert policies(shim.pid) == FAIR
        assert said(shim) == [f"WARNING {line}"]


def test_nobody_is_in_real_time_who_does_not_ask_for_it(broker: Broker, tmp_path: Path) -> None:
    with shim_with(broker, tmp_path, enable="false") as shim:
        assert policies(shim.pid) == FAIR
        assert said(shim) == []
