"""A disk without room for more, under the workers of a shim."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages import offset_fetch
from shim.demo.parts import Broker
from tests.serve.test_topics import commit
from tests.waiting import wait_until
from tests.wire import WireClient
from tests.workers.conftest import shim_of
from tests.workers.groups import of_both
from tests.workers.processes import workers_of

FULL: Final = """
import errno
import os
from pathlib import Path
from shim.log.disk import files

written, full = files._pwrite, Path({!r})

def written_unless_full(fd, *others):
    if full.exists():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.readlink(f"/proc/self/fd/{{fd}}"))
    return written(fd, *others)

files._pwrite = written_unless_full
"""
ASK_AGAIN: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def offsets(client: WireClient, groups: Sequence[str], topic: str) -> list[int | None]:
    """None where nobody says for now."""
    wanted = (offset_fetch.OffsetFetchRequestTopic(topic, (0,)),)
    answers = [client.ask(offset_fetch.API, 7, offset_fetch.OffsetFetchRequest(group, wanted)) for group in groups]
    return [None if each.error_code else each.topics[0].partitions[0].committed_offset for each in answers]


def test_commits_are_refused_until_there_is_room_and_none_is_lost(
    broker: Broker, data_dir: Path, topic: str, fresh_name: Callable[[], str]
) -> None:
    """Where one of the workers is killed meanwhile, too."""
    groups, full = of_both(fresh_name(), 4), data_dir.with_name("full")
    with shim_of(broker, data_dir, 2, FULL.format(str(full))) as shim:
        with WireClient(shim.broker_port(broker.node_id)) as client:
            assert [commit(client, group, topic, 5) for group in groups] == [ErrorCode.NONE] * 4
            full.touch()
            for _ in range(2):
                assert {commit(client, group, topic, 6) for group in groups} <= set(ASK_AGAIN)
            assert shim.log().count("a write failed, and it is read back for now: [Errno 28] No space left on") >= 2
        first, second = workers_of(shim.pid)
        os.kill(second, signal.SIGKILL)
        wait_until(lambda: "worker 1 serves again" in shim.log(), shim.log)
        assert first in workers_of(shim.pid)
        with WireClient(shim.broker_port(broker.node_id)) as client:
            assert {commit(client, group, topic, 6) for group in groups} <= set(ASK_AGAIN)
            full.unlink()
            wait_until(lambda: offsets(client, groups, topic) == [5] * 4, "what was acknowledged is not there")
            for group in groups:
                wait_until(lambda group=group: commit(client, group, topic, 7) == ErrorCode.NONE, shim.log)  # type: ignore[misc]
        shim.kill()
        shim.start()
        with WireClient(shim.broker_port(broker.node_id)) as client:
            assert offsets(client, groups, topic) == [7] * 4
