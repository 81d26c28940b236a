"""Each of three shims that share a log is restarted in turn, and one is killed, under idempotent producers and a group
of consumers: what is acknowledged stands in the log once and is consumed, and clients report nothing but what they
report of brokers, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from shim.demo.parts import Cluster
from tests.cluster.rolling_load import RollingLoad, committed
from tests.cluster.test_rolling import (
    PARTITIONS,
    RECORDS,
    REPORTED,
    TIME_LIMIT_SECONDS,
    assert_nothing_lost_or_doubled,
    ends,
    kinds,
)
from tests.conftest import TopicFactory
from tests.ownership.test_shims_together import shims_of
from tests.shim_process import Shim


def restart(shim: Shim) -> None:
    assert shim.restart() == 0, shim.log()[-2000:]


def killed(shim: Shim) -> None:
    shim.kill()
    shim.start()


def test_nobody_notices_that_shims_are_restarted_in_turn(
    cluster: Cluster, make_topic: TopicFactory, group: str, tmp_path: Path
) -> None:
    topic = make_topic(PARTITIONS, config={"min.insync.replicas": "2"})
    shims = shims_of(cluster, topic, tmp_path)
    try:
        for shim in shims:
            shim.start()
        everywhere = ",".join(shim.bootstrap for shim in shims)
        steps: list[tuple[str, Callable[[], object]]] = [
            (f"shim {number} restarted", partial(restart, shim)) for number, shim in enumerate(shims)
        ]
        steps.append(("shim 1 killed", partial(killed, shims[1])))
        with RollingLoad(everywhere, topic, group) as load:
            load.go_on("start", RECORDS, TIME_LIMIT_SECONDS)
            for name, step in steps:
                load.enter(name)
                step()
                load.go_on(name, RECORDS, TIME_LIMIT_SECONDS)
            load.end(TIME_LIMIT_SECONDS)
        assert_nothing_lost_or_doubled(load, cluster, topic)
        assert kinds(load) <= REPORTED
        for shim in shims:
            assert committed(shim.bootstrap, group, topic, PARTITIONS) == ends(cluster, topic)
    finally:
        for shim in shims:
            if shim.running:
                shim.kill()
