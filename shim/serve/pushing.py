"""The push of metrics, where it is wanted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from shim.config import Settings, parse_host_port
from shim.metrics import Series
from shim.serve.measuring import Measuring


def push_to(
    settings: Settings, measuring: Measuring, look: Callable[[], Awaitable[Sequence[Series]]]
) -> Callable[[], Coroutine[Any, Any, None]]:
    """A chore: what ``look`` gives goes to ``metrics.statsd.address``, and ``measuring`` tells how many datagrams."""
    from shim.serve.statsd import StatsdPush  # only where it is wanted

    address, interval_seconds = (
        parse_host_port(settings.metrics_statsd_address),
        settings.metrics_statsd_interval_ms / 1000,
    )
    push = StatsdPush(address, interval_seconds, settings.metrics_statsd_dialect, look)
    measuring.statsd = push
    return push.run
