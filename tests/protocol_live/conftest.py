"""Brokers from before Kafka 4, each started when the first test asks for it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.legacy.parts import LegacyBroker


@pytest.fixture(scope="package")
def legacy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], LegacyBroker]]:
    """Gives the one running broker of a release."""
    running: dict[str, LegacyBroker] = {}
    with ExitStack() as stack:

        def started(release: str) -> LegacyBroker:
            if release not in running:
                running[release] = stack.enter_context(LegacyBroker(tmp_path_factory.mktemp(release), release))
            return running[release]

        yield started
