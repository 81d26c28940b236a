"""A broker that soon ends what transactions are abandoned."""

from collections.abc import Iterator

import pytest

from shim.demo.parts import Broker


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """In the place of the session's: it looks every half a second for transactions that have timed out. Tests kill it,
    and damage its log: each has topics and groups of its own."""
    properties = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}
    with Broker(tmp_path_factory.mktemp("broker"), properties=properties) as running:
        yield running
