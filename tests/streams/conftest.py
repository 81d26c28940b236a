"""A broker that soon ends what transactions are abandoned, a shim with short sessions, and the instances."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.demo.parts import Broker, JarSet, jar_set
from tests.clients.programs import Programs
from tests.conftest import TopicFactory
from tests.java_tools import compiled
from tests.shim_process import Shim
from tests.streams.counting import PARTITIONS, STREAMS, WORD_COUNT, Counts, Text

_LIMIT_S = 120.0
_SOAK_LIMIT_S = 1_200.0


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """In the place of the session's: it looks every second for transactions that have timed out."""
    properties = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
        "group.streams.min.session.timeout.ms": 6_000,
        "group.streams.session.timeout.ms": 6_000,
        "group.streams.min.heartbeat.interval.ms": 500,
        "group.streams.heartbeat.interval.ms": 500,
    }
    with Broker(tmp_path_factory.mktemp("broker"), properties=properties) as running:
        yield running


@pytest.fixture(scope="package")
def word_count(tmp_path_factory: pytest.TempPathFactory) -> JarSet:
    """Kafka's jars, and the program."""
    return compiled(jar_set(STREAMS), WORD_COUNT, tmp_path_factory.mktemp("word-count"))


@pytest.fixture
def shim(broker: Broker, tmp_path: Path) -> Iterator[Shim]:
    settings = {"group.min.session.timeout.ms": 500}
    with Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings) as running:
        yield running


@pytest.fixture
def topics(make_topic: TopicFactory) -> tuple[str, str]:
    """Where the text is, and where the counts go."""
    return make_topic(PARTITIONS), make_topic(PARTITIONS)


@pytest.fixture
def text(broker: Broker, topics: tuple[str, str]) -> Text:
    return Text(broker.bootstrap_servers, topics[0], seed=5)


@pytest.fixture
def counts(broker: Broker, topics: tuple[str, str]) -> Iterator[Counts]:
    reader = Counts(broker.bootstrap_servers, topics[1])
    yield reader
    reader.close()


@pytest.fixture
def programs(shim: Shim, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Programs]:
    """The test's instances; they have two minutes, and in a soak twenty."""
    limit = _SOAK_LIMIT_S if request.node.get_closest_marker("soak") else _LIMIT_S
    with Programs(tmp_path, limit, shim.log) as running:
        yield running
