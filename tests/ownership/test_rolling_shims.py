"""Each of three shims that share a log is restarted in turn, and one is killed, under idempotent producers and a group
of consumers; and each is replaced by the next release. What is acknowledged stands in the log once and is consumed,
nothing whose commit was acknowledged is consumed again by who gets its partition, and clients report nothing but what
they report of brokers, too."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

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
from tests.packaging.files import ROOT
from tests.shim_process import Shim


def restart(shim: Shim) -> None:
    assert shim.restart() == 0, shim.log()[-2000:]


def killed(shim: Shim) -> None:
    shim.kill()
    shim.start()


OLDER_RELEASE: Final = "76265b16bef1"
"""A commit: shims that share a log, as they were when they first did."""
_RUNS: Final = "runs the code at"


@pytest.fixture
def older_release(tmp_path: Path) -> Path:
    """A folder with what this project was then."""
    folder, archive = tmp_path / "older", tmp_path / "older.tar"
    command = ("git", "archive", f"--output={archive}", OLDER_RELEASE, "shim", "protocol", "compat")
    try:
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"commit {OLDER_RELEASE} is not here: {getattr(error, 'stderr', None) or error}")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder


def running(release: Path) -> str:
    """What a shim's process runs before, to be what is in this folder, and to say so."""
    return (
        f"import sys\nsys.path.insert(0, {str(release)!r})\n"
        f"import shim\nprint({_RUNS!r}, shim.__file__, file=sys.stderr, flush=True)"
    )


def runs(shim: Shim) -> Path:
    """Where the code of its last start is."""
    said = [line for line in shim.log().splitlines() if line.startswith(_RUNS)]
    return Path(said[-1].removeprefix(_RUNS).strip())


def in_turn(
    cluster: Cluster,
    topic: str,
    group: str,
    shims: list[Shim],
    steps: list[tuple[str, Callable[[], object]]],
) -> None:
    """Nobody notices more of them than of brokers."""
    try:
        for shim in shims:
            shim.start()
        everywhere = ",".join(shim.bootstrap for shim in shims)
        with RollingLoad(everywhere, topic, group) as load:
            load.go_on("start", RECORDS, TIME_LIMIT_SECONDS)
            for name, step in steps:
                load.enter(name)
                step()
                load.go_on(name, RECORDS, TIME_LIMIT_SECONDS)
            load.end(TIME_LIMIT_SECONDS)
        assert_nothing_lost_or_doubled(load, cluster, topic)
        assert kinds(load) <= REPORTED
        assert load.reports.again == []
        for shim in shims:
            assert committed(shim.bootstrap, group, topic, PARTITIONS) == ends(cluster, topic)
    finally:
        for shim in shims:
            if shim.running:
                shim.kill()


def test_nobody_notices_that_shims_are_restarted_in_turn(
    cluster: Cluster, make_topic: TopicFactory, group: str, tmp_path: Path
) -> None:
    topic = make_topic(PARTITIONS, config={"min.insync.replicas": "2"})
    shims = shims_of(cluster, topic, tmp_path)
    steps: list[tuple[str, Callable[[], object]]] = [
        (f"shim {number} restarted", partial(restart, shim)) for number, shim in enumerate(shims)
    ]
    steps.append(("shim 1 killed", partial(killed, shims[1])))
    in_turn(cluster, topic, group, shims, steps)


@pytest.mark.soak
@pytest.mark.parametrize("goes_back", [False, True])
def test_nobody_notices_an_upgrade(
    cluster: Cluster, make_topic: TopicFactory, group: str, tmp_path: Path, older_release: Path, goes_back: bool
) -> None:
    """One shim after the other, so that older and newer ones share the work meanwhile; the first one may go back."""
    topic = make_topic(PARTITIONS, config={"min.insync.replicas": "2"})
    shims = shims_of(cluster, topic, tmp_path)
    older, newer = running(older_release), running(ROOT)

    def changed(shim: Shim, patch: str) -> None:
        assert shim.stop() == 0, shim.log()[-2000:]
        shim.patch = patch
        shim.start()
        assert runs(shim).is_relative_to(older_release) == (patch == older)

    for shim in shims:
        shim.patch = older
    steps: list[tuple[str, Callable[[], object]]] = [
        (f"shim {number} upgraded", partial(changed, shim, newer)) for number, shim in enumerate(shims)
    ]
    if goes_back:
        steps[1:1] = [("shim 0 back at the older release", partial(changed, shims[0], older)), steps[0]]
    in_turn(cluster, topic, group, shims, steps)
