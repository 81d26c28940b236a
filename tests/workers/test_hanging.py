"""A worker that hangs: the others are told of, it is told of as that, and it is not waited for at the end."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from shim.demo.parts import Broker
from shim.metrics.counts import NOT_FORWARDED
from tests.hung import hung, stop
from tests.serve.scraped import AdminPort, until
from tests.shim_process import Shim
from tests.workers.conftest import admin_of, shim_of
from tests.workers.groups import of_both
from tests.workers.load import SteadyGroup
from tests.workers.processes import workers_of


async def commit(shim: Shim, groups: Sequence[str], topic: str) -> None:
    """Some offsets of each."""
    done = asyncio.Event()
    clients = [SteadyGroup(group, topic, [shim.port], random.Random(group)) for group in groups]
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for each in clients:
            tasks.create_task(each.run(done))
        await asyncio.gather(*(each.further(1) for each in clients))
        done.set()


async def test_who_looks_after_them_is_told_which_one_does_not_answer(
    shim: Shim, topic: str, fresh_name: Callable[[], str]
) -> None:
    of_first, of_second = of_both(fresh_name(), 2)
    await commit(shim, (of_first, of_second), topic)
    port = AdminPort(admin_of(shim))
    until(lambda: port.get("/readyz")[0] == 200)
    before = port.scrape()
    assert [before.value("worker_answers", worker=each) for each in "01"] == [1, 1]
    assert before.value("ready") == 1
    assert [each["reason"] for each in before.labels("forwarding_failures_total")] == list(NOT_FORWARDED)
    _, second = workers_of(shim.pid)
    with hung(second):
        meanwhile = port.scrape()
        assert [meanwhile.value("worker_answers", worker=each) for each in "01"] == [1, 0]
        assert meanwhile.value("ready") == 0
        assert meanwhile.value("offsets_committed_total") == before.value("offsets_committed_total") >= 2
        assert meanwhile.value("partitions", state="loaded") == before.value("partitions", state="loaded") / 2
        for path in ("/v1/migrate/candidates?move=start", f"/v1/groups/describe?group={of_second}"):
            status, told = port.document(path)
            assert (status, told["error"]) == (503, "worker 1 does not answer"), path
        assert port.document(f"/v1/groups/describe?group={of_first}")[1]["offsets"]
    until(lambda: port.scrape().value("worker_answers", worker="1") == 1)
    assert port.document(f"/v1/groups/describe?group={of_second}")[1]["offsets"]


@contextmanager
def held(pid: int) -> Iterator[None]:
    """Whatever comes of the test, nothing of that process is left."""
    fd = os.pidfd_open(pid)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)


def test_the_parent_waits_as_long_as_settings_say_by_now(broker: Broker, data_dir: Path, tmp_path: Path) -> None:
    """And not as they said when it was begun: a quarter of an hour."""
    drain, file = "shutdown.drain.timeout.ms", tmp_path / "shim.toml"
    file.write_text(f"{json.dumps(drain)} = 900000\n")
    shim = shim_of(broker, data_dir, 2)
    shim.args = ("--config", str(file), *shim.args)
    shim.late_patch = "from shim.workers import parent\nparent._PATIENCE_SECONDS = 0.5"
    with shim:
        file.write_text(f"{json.dumps(drain)} = 100\n")
        os.kill(shim.pid, signal.SIGHUP)
        until(lambda: shim.log().count(f"settings read again: {drain}=100 (was 900000)") == 2)
        _, second = workers_of(shim.pid)
        with held(second):
            stop(second)
            os.kill(shim.pid, signal.SIGTERM)
            until(lambda: not shim.running)
        assert shim.returncode == 1
    assert "1 worker did not end in time, and is killed" in shim.log()
    assert "Error: worker 1 did not end in good order: killed by SIGKILL" in shim.log()
