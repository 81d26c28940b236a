"""Real parts for every test: a Kafka broker, a cluster of three, a ZooKeeper, and fresh names on them.

Each part is started when the first test asks for it, and serves all tests up to the end of the last folder that has
such tests; a test that stops or kills one finds it started again for the next test.
"""

import gc
import re
import resource
import socket
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from hypothesis import HealthCheck, settings

from shim.demo.parts import Broker, Cluster, ZooKeeper
from shim.demo.parts.metadata import cluster_view
from tests import shim_process
from tests.examples import examples
from tests.shim_process import OFFSETS_LOG
from tests.template import Template
from tests.waiting import wait_until

# How long an example, or making one, takes says how busy the machine is.
settings.register_profile(
    "untimed", deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

_TOPIC_TIMEOUT_S = 30.0
_DEAREST = 20
_DEAR_S = 5
_SECONDS_OF_FILES: defaultdict[str, float] = defaultdict(float)
"""Of a part that serves several files they are with the file that was the last one."""
Part = TypeVar("Part", Broker, Cluster, ZooKeeper)
_PARTS = ("_broker", "_cluster", "_zookeeper")
_RUNNING: dict[str, Broker | Cluster | ZooKeeper] = {}
_ENDS_BEHIND: dict[str, list[str]] = {}
"""As of `ends_behind`."""
_LONGEST_TEST_NAME = 60  # in a topic or group name


class KafkaPythonSocket(socket.socket):
    """One that is left unclosed is kafka-python's own affair, and known by its name."""


class TopicFactory(Protocol):
    """Creates a topic directly at a broker; gives back its name once every broker knows every partition's leader.

    `name`: by default a fresh one. `on`: by default the one part that the test uses, the broker where it names none.
    """

    def __call__(
        self,
        partitions: int = 1,
        *,
        name: str | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        on: Broker | Cluster | None = None,
    ) -> str: ...


def pytest_configure() -> None:
    shim_process.template = Template()


def pytest_unconfigure() -> None:
    if shim_process.template is not None:
        shim_process.template.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`local_log` says why a test is of the log on a disk alone."""
    if OFFSETS_LOG == "local":
        return
    for item in items:
        for mark in item.iter_markers("local_log"):
            item.add_marker(pytest.mark.skip(reason=mark.args[0]))


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.collect()
    gc.freeze()  # what thousands of tests are made of is not looked through again and again
    # Only where a test has imported it: that takes a while.
    if (inet := sys.modules.get("kafka.net.inet")) is not None:
        inet.KafkaNetSocket.socket = staticmethod(KafkaPythonSocket)
    _ENDS_BEHIND.update(ends_behind(session.items))


def ends_behind(items: Sequence[pytest.Item]) -> dict[str, list[str]]:
    """By test, the parts that nobody uses any more when it is over, and so are the fixtures of its folder."""
    ends: defaultdict[str, list[str]] = defaultdict(list)
    for part in _PARTS:
        folders = {item.path.parent for item in items if part in getattr(item, "fixturenames", ())}
        for last in [item for item in items if item.path.parent in folders][-1:]:
            ends[last.nodeid].append(part)
    return ends


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = sum(_processor_seconds())
    try:
        return (yield)
    finally:
        _SECONDS_OF_FILES[item.location[0]] += sum(_processor_seconds()) - before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """A part that nobody uses costs processor time all the same, a cluster a tenth of a core."""
    try:
        return (yield)
    finally:
        for part in _ENDS_BEHIND.get(item.nodeid, ()):
            if part in _RUNNING:
                _RUNNING[part].kill()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the run has cost: where others run beside it, that is not to be seen from how long it took."""
    own, begun = _processor_seconds()
    terminalreporter.write_line(
        f"processor time: {own:.0f} s of these tests, {begun:.0f} s of the processes that they have begun and reaped"
    )
    dearest = sorted(((seconds, path) for path, seconds in _SECONDS_OF_FILES.items()), reverse=True)[:_DEAREST]
    for seconds, path in dearest:
        if seconds >= _DEAR_S:
            terminalreporter.write_line(f"{seconds:9.0f} s {path}")


def _processor_seconds() -> tuple[float, float]:
    """Of this process, and of those that it has begun and reaped: a part that serves several tests is in neither before
    its end."""
    own, begun = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    copies = shim_process.template.seconds if shim_process.template else 0.0
    return own.ru_utime + own.ru_stime, begun.ru_utime + begun.ru_stime + copies


@pytest.fixture
def offsets_log() -> str:
    """Where the log of the test's shims is; a test may be parametrised with others."""
    return OFFSETS_LOG


@contextmanager
def _running(name: str, part: Part) -> Iterator[Part]:
    _RUNNING[name] = part.start()
    try:
        yield part
    finally:
        # Nobody looks at what it has, and an end in good order costs as much as half a start.
        part.kill()


@pytest.fixture(scope="session")
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with _running("_broker", Broker(tmp_path_factory.mktemp("broker"))) as running:
        yield running


@pytest.fixture(scope="session")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    hosts = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    with _running("_cluster", Cluster(tmp_path_factory.mktemp("cluster"), brokers=3, hosts=hosts)) as running:
        yield running


@pytest.fixture(scope="session")
def _zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with _running("_zookeeper", ZooKeeper(tmp_path_factory.mktemp("zookeeper"))) as running:
        yield running


# Under names that a folder may give to parts of its own: by the ones above it is known who uses these.


@pytest.fixture(scope="session")
def broker(_broker: Broker) -> Broker:
    """One Kafka broker on 127.0.0.1."""
    return _broker


@pytest.fixture(scope="session")
def cluster(_cluster: Cluster) -> Cluster:
    """Three Kafka brokers on 127.0.0.2, .3 and .4: a connection to one of them shows itself by its remote address."""
    return _cluster


@pytest.fixture(scope="session")
def zookeeper(_zookeeper: ZooKeeper) -> ZooKeeper:
    """One ZooKeeper on 127.0.0.1."""
    return _zookeeper


@pytest.fixture(autouse=True)
def _parts_run_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start again what the test stopped: the session's parts serve the next test too."""
    used = [
        request.getfixturevalue(name) for name in ("broker", "cluster", "zookeeper") if name in request.fixturenames
    ]
    yield
    for part in used:
        part.start()


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes names that no topic or group had before, the test's own name in front."""
    test = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:_LONGEST_TEST_NAME]
    return lambda: f"{test}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(fresh_name: Callable[[], str]) -> str:
    """A topic name of this test alone; `make_topic(name=topic)` creates the topic."""
    return fresh_name()


@pytest.fixture
def group(fresh_name: Callable[[], str]) -> str:
    """A group id of this test alone."""
    return fresh_name()


@pytest.fixture
def make_topic(request: pytest.FixtureRequest, fresh_name: Callable[[], str]) -> TopicFactory:
    """Creates topics directly at the broker or the cluster, past the shim."""

    def chosen() -> Broker | Cluster:
        used = [name for name in ("broker", "cluster") if name in request.fixturenames]
        if len(used) == 2:
            raise ValueError("this test uses broker and cluster: say which with make_topic(on=…)")
        part = request.getfixturevalue(used[0] if used else "broker")
        assert isinstance(part, Broker | Cluster)
        return part if used else part.start()  # of a test that does not name it nobody knew that it uses it

    def make(
        partitions: int = 1,
        *,
        name: str | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        on: Broker | Cluster | None = None,
    ) -> str:
        part = on or chosen()
        brokers = part.brokers if isinstance(part, Cluster) else [part]
        name = name or fresh_name()
        new = NewTopic(name, partitions, replication_factor or min(3, len(brokers)), config=dict(config or {}))
        _create(part, new)
        for broker in brokers:
            if broker.running:
                _wait_known(broker, name, partitions)
        return name

    return make


def _create(part: Broker | Cluster, new: NewTopic) -> None:
    """librdkafka gives up a request at a broker that leaves the metadata meanwhile, as one does that an earlier test
    has restarted; whether the topic has been created by then it cannot say."""
    admin = AdminClient({"bootstrap.servers": part.bootstrap_servers})
    try:
        admin.create_topics([new])[new.topic].result(_TOPIC_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._DESTROY_BROKER:
            raise
        again = AdminClient({"bootstrap.servers": part.bootstrap_servers})
        try:
            again.create_topics([new])[new.topic].result(_TOPIC_TIMEOUT_S)
        except KafkaException as second:
            if second.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _wait_known(broker: Broker, topic: str, partitions: int) -> None:
    wait_until(
        lambda: len(cluster_view(broker.host, broker.port, (topic,)).leaders) == partitions,
        f"broker {broker.node_id} does not know leaders for {partitions} partitions of {topic}",
    )
