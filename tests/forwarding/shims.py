"""Three shims that share a log on topics and forward to each other, in front of three brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Final

from protocol.messages import find_coordinator
from shim.demo.parts import Cluster, free_port, free_port_range
from tests.ownership.registers import PATIENCE_S
from tests.ownership.test_shims_together import shims_of
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import WireClient

NODES: Final = (1, 2, 3)

_EXTRA: Final = "EXTRA"


@contextmanager
def forwarding(
    cluster: Cluster, topic: str, folder: Path, *, extra_at_first: bool = False, **settings: str | int
) -> Iterator[list[Shim]]:
    """``extra_at_first``: the first one has a listener EXTRA that the others have not, see :func:`extra_port`; the
    settings say what is spoken there."""
    shims = shims_of(cluster, topic, folder, **settings)
    for shim in shims:
        assert isinstance(shim.settings, dict)
        shim.settings["shims.listener"] = f"127.0.0.1:{free_port()}"
        shim.passes_groups = True
        if extra_at_first and shim is shims[0]:
            shim.settings["listeners"] = f"{_EXTRA}://127.0.0.1:{free_port_range(2 + max(NODES))}"
    try:
        for shim in shims:
            shim.launch()
        for shim in shims:
            shim.wait_ready()
        yield shims
    finally:
        for shim in shims:
            with suppress(RuntimeError):
                shim.kill()


def undisturbed(test: Callable[..., None]) -> Callable[..., None]:
    """For a test of answers that a hand-over changes: clients are told to ask again, or led away to where their broker
    stands now. Once more where one of the shims has said anything in its log meanwhile, as it does of a hand-over: the
    machine was too busy for their heartbeats."""

    @wraps(test)
    def until_undisturbed(*, shims: Sequence[Shim], **fixtures: Any) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            before = [shim.log() for shim in shims]
            try:
                return test(shims=shims, **fixtures)
            except (AssertionError, ConnectionError, LookupError):
                if time.monotonic() > until or not _says_something(shims, before):
                    raise

    return until_undisturbed


def _says_something(shims: Sequence[Shim], before: Sequence[str]) -> bool:
    """Its line may come behind what a client sees of it."""
    try:
        return wait_until(lambda: [shim.log() for shim in shims] != before, seconds=3.0)
    except TimeoutError:
        return False


def extra_port(shim: Shim) -> int:
    """For bootstrap, at that listener."""
    return int(str(shim.settings["listeners"]).rpartition(":")[2])


def coordinator_port(shim: Shim, group: str) -> int:
    """Where this one leads clients of the group."""
    with WireClient(shim.port) as client:

        def ask() -> int | None:
            answer = client.ask(find_coordinator.API, 3, find_coordinator.FindCoordinatorRequest(group))
            return None if answer.error_code else int(answer.port)

        return wait_until(ask, lambda: shim.log()[-3000:], PATIENCE_S)


def owner_of(shims: Sequence[Shim], group: str) -> tuple[Shim, int]:
    """The shim, and the node id of the broker that coordinates the group in the cluster. All of them say the same by
    then."""

    def agreed() -> int | None:
        port, *others = {coordinator_port(shim, group) for shim in shims if shim.running}
        return None if others else port

    port = wait_until(agreed, "they do not say the same", PATIENCE_S)
    return next((shim, node) for shim in shims for node in NODES if shim.broker_port(node) == port)
