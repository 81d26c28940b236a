"""A shim as a process, real ZooKeeper and Kafka: what stands in the one is what there is in the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import NotEmptyError

from shim.demo.parts import Broker, Cluster, StartFailed, ZooKeeper
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.legacy.parts import KAFKA_3, LegacyBroker
from tests.migration.changing_topics import delete, grow, make_many
from tests.migration.conftest import REFRESH_MS, Registering
from tests.migration.ensemble_view import EnsembleView, looking_at
from tests.shim_process import Shim
from tests.waiting import wait_until

_HOST = "127.0.0.1"
_MANY = 1_000
MARKER = "/offset-shim/registrar"


def _is_registered(view: EnsembleView, shim: Shim, broker: Broker) -> bool:
    return view.ids() == {broker.node_id: (_HOST, shim.broker_port(broker.node_id))}


def _refusal(shim: Shim, status: int = 1) -> str:
    """Of one that does not start: the one line it says."""
    with pytest.raises(StartFailed):
        shim.start()
    assert shim.returncode == status
    assert "Traceback" not in shim.log()
    (line,) = [each for each in shim.log().splitlines() if each.startswith("Error")]
    return line


def test_topics_are_made_grow_and_go(
    broker: Broker, chroot: str, registering: Registering, make_topic: TopicFactory
) -> None:
    before = make_topic(2)
    with registering(broker, chroot) as shim, looking_at(chroot) as view:
        assert _is_registered(view, shim, broker), "it is ready, and not registered"
        assert view.leaders(before) == {0: broker.node_id, 1: broker.node_id}
        later = make_topic(3)
        wait_until(lambda: later in view.topics(), "a topic that was made later is not registered")
        assert view.leaders(later) == dict.fromkeys(range(3), broker.node_id)
        grow(broker.bootstrap_servers, later, 5)
        wait_until(lambda: len(view.leaders(later)) == 5, "a topic that has grown is not registered as it is")
        delete(broker.bootstrap_servers, later)
        wait_until(lambda: later not in view.topics(), "a topic that was deleted stays registered")
        assert before in view.topics()
        assert {"__consumer_offsets", "__transaction_state"}.isdisjoint(view.topics())
        assert shim.stop() == 0
        assert view.ids() == {}
        assert before in view.topics()


def test_the_topics_of_the_log_are_internal_ones(
    broker: Broker, chroot: str, tmp_path: Path, make_topic: TopicFactory
) -> None:
    """Brokers say so of their own alone; an older shim has registered them."""
    topic = make_topic(2)
    args, settings = ["--zookeeper", chroot, "--registrar"], {"topology.refresh.interval.ms": REFRESH_MS}
    with (
        Shim(broker.bootstrap_servers, tmp_path / "data", args=args, settings=settings, offsets_log="kafka") as shim,
        looking_at(chroot) as view,
    ):
        of_log = f"{shim.topics_prefix}_offsets"
        assert of_log in AdminClient({"bootstrap.servers": shim.bootstrap}).list_topics(timeout=30).topics
        wait_until(lambda: topic in view.topics(), "no topic is registered")
        assert not [each for each in view.topics() if each.startswith(f"{shim.topics_prefix}_")]
        _copy(view, topic, of_log)
        wait_until(lambda: of_log not in view.topics(), "what an older shim has registered stays")
        assert topic in view.topics()


def _copy(view: EnsembleView, topic: str, name: str) -> None:
    """Register it under another name."""
    made = view.client.transaction()
    for below in ("", "/partitions", *(f"/partitions/{number}{rest}" for number in (0, 1) for rest in ("", "/state"))):
        path = f"/brokers/topics/{{}}{below}"
        made.create(path.format(name), view.client.get(path.format(topic))[0])
    assert all(isinstance(each, str) for each in made.commit())


def test_nothing_is_written_while_nothing_changes(
    broker: Broker, zookeeper: ZooKeeper, chroot: str, registering: Registering, make_topic: TopicFactory
) -> None:
    make_topic(2)
    with registering(broker, chroot), looking_at(chroot) as view:
        before = _written(zookeeper)
        _wait_for_looks(zookeeper)
        assert _written(zookeeper) == before
        topic = make_topic(2)
        wait_until(lambda: topic in view.topics(), "it has not looked at all")
        assert _written(zookeeper) == before + 1, "a new topic is one transaction"


def _written(zookeeper: ZooKeeper) -> int:
    """The ensemble's newest transaction, of whomever."""
    return int(_said(zookeeper)["Zxid"], 16)


def _wait_for_looks(zookeeper: ZooKeeper) -> None:
    """Return when the one shim there is has looked a few times: nobody else asks as often."""
    first, asked = int(_said(zookeeper)["Received"]), 0

    def enough() -> bool:
        nonlocal asked
        asked += 1  # which is received, too
        return int(_said(zookeeper)["Received"]) - first - asked > 20

    wait_until(enough, "the shim does not look")


def _said(zookeeper: ZooKeeper) -> dict[str, str]:
    lines = (each.partition(": ") for each in zookeeper.four_letter_word("srvr").splitlines())
    return {name: value for name, _, value in lines}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two, for one test: the session's three would be begun for it alone, and idle until the session's end."""
    with Cluster(tmp_path / "cluster", brokers=2) as running:
        yield running


def test_brokers_go_and_come_back(
    cluster: Cluster, chroot: str, registering: Registering, make_topic: TopicFactory
) -> None:
    topic = make_topic(2, on=cluster)
    gone = cluster.brokers[1]
    with registering(cluster, chroot) as shim, looking_at(chroot) as view:
        everyone = {each.node_id: (_HOST, shim.broker_port(each.node_id)) for each in cluster.brokers}
        assert view.ids() == everyone
        wait_until(lambda: set(view.leaders(topic).values()) == {1, 2}, "not every broker leads a partition")
        gone.stop()
        wait_until(lambda: set(view.ids()) == {1}, "a broker that is down is registered")
        wait_until(lambda: set(view.leaders(topic).values()) == {1}, "a broker that is down leads a partition")
        gone.start()
        wait_until(lambda: view.ids() == everyone, "a broker that has come back is not registered")


def test_a_session_that_expires_is_begun_anew(
    broker: Broker, chroot: str, registering: Registering, make_topic: TopicFactory
) -> None:
    """The shim is stopped for longer than its session lives, so it learns of its end when all is over."""
    topic = make_topic()
    with registering(broker, chroot, session_ms=1_000) as shim, looking_at(chroot) as view:
        (session,) = view.owners()
        topic_made = view.client.get(f"/brokers/topics/{topic}")[1].ctime
        with hung(shim.pid):
            wait_until(lambda: not view.ids(), "the session does not expire")
        wait_until(lambda: _is_registered(view, shim, broker), "brokers are not registered anew")
        assert view.owners() == {view.client.get(f"{MARKER}/owner")[1].ephemeralOwner} != {session}
        assert view.client.get(f"/brokers/topics/{topic}")[1].ctime == topic_made, "topics were made anew"


def test_two_shims_do_not_fight(
    broker: Broker, chroot: str, registering: Registering, make_topic: TopicFactory
) -> None:
    """The one that was there first is registered. When it does not answer the other one is; and it stays so.

    Sessions so long do not end where a busy machine has no core for a shim for a while; that of the first one has to.
    """
    with (
        registering(broker, chroot, "one", session_ms=4_000) as one,
        registering(broker, chroot, "two", session_ms=30_000) as two,
        looking_at(chroot) as view,
    ):
        assert two.log().count("standing by as registrar for now") == 1
        assert "/one registers the cluster in ZooKeeper at" in two.log()
        assert _is_registered(view, one, broker)
        with hung(one.pid):
            wait_until(lambda: _is_registered(view, two, broker), "nobody takes the place")
        wait_until(lambda: "standing by as registrar for now" in one.log(), "the first one does not stand back")
        topic = make_topic()
        wait_until(lambda: topic in view.topics(), "the other one does not follow the cluster")
        assert _is_registered(view, two, broker)
        assert two.stop() == 0
        wait_until(lambda: _is_registered(view, one, broker), "the first one does not take its place again")


def test_one_that_was_killed_takes_its_place_again_at_once(
    broker: Broker, chroot: str, registering: Registering
) -> None:
    """The session of the one that was killed lives on for a while, and its entries with it."""
    with registering(broker, chroot, session_ms=10_000) as shim, looking_at(chroot) as view:
        before = view.owners()
        seen: list[list[str]] = []
        view.client.ChildrenWatch("/brokers/ids")(seen.append)
        shim.kill()
        shim.start()
        assert _is_registered(view, shim, broker)
        assert not view.owners() & before
        assert "standing by" not in shim.log()
        assert all(each == [str(broker.node_id)] for each in seen), "for a moment there was no broker"


def _deleted(client: KazooClient, path: str) -> bool:
    """Not where the registrar was quicker."""
    try:
        client.delete(path, recursive=True)
    except NotEmptyError:
        return False
    return True


def test_what_others_write_there_is_put_right(
    broker: Broker, chroot: str, registering: Registering, make_topic: TopicFactory
) -> None:
    topic = make_topic()
    with registering(broker, chroot) as shim, looking_at(chroot) as view:
        view.client.delete(f"/brokers/ids/{broker.node_id}")
        view.client.create("/brokers/topics/strange", b"no partitions")
        wait_until(partial(_deleted, view.client, f"/brokers/topics/{topic}"), "it is written all the time")
        wait_until(lambda: topic in view.topics() and "strange" not in view.topics(), "topics are not put right")
        wait_until(lambda: _is_registered(view, shim, broker), "the broker is not registered again")


def test_a_zookeeper_that_is_away_is_waited_for(
    broker: Broker, zookeeper: ZooKeeper, chroot: str, registering: Registering
) -> None:
    zookeeper.stop()
    with registering(broker, chroot) as shim:
        wait_until(lambda: "the cluster is not registered in ZooKeeper" in shim.log(), "it does not say so")
        zookeeper.start()
        wait_until(lambda: "registered in ZooKeeper at" in shim.log(), "it does not come back")
        assert shim.log().count("WARNING the cluster is not registered in ZooKeeper") == 1
        with looking_at(chroot) as view:
            assert _is_registered(view, shim, broker)
            topics = view.client.get("/brokers/topics")[1]
        zookeeper.restart()
        with looking_at(chroot) as view:  # a session of its own: that of before may have expired meanwhile
            wait_until(lambda: _is_registered(view, shim, broker), "brokers are gone after a restart")
            assert view.client.get("/brokers/topics")[1] == topics
        assert shim.stop() == 0


def test_znodes_of_another_cluster_are_left_alone(broker: Broker, registering: Registering, tmp_path: Path) -> None:
    with LegacyBroker(tmp_path / "legacy", KAFKA_3) as legacy:
        connect = legacy.zookeeper.connect_string
        with looking_at(connect) as view:
            everything = view.client.get_children("/"), view.client.get("/brokers/ids/1")
            refusal = _refusal(registering(broker, connect))
            assert "has a /brokers that the registrar did not make: it is a cluster's own" in refusal
            assert (view.client.get_children("/"), view.client.get("/brokers/ids/1")) == everything
            # Beside it, in a chroot, there is room.
            with registering(broker, f"{connect}/shim", "beside") as shim, looking_at(f"{connect}/shim") as beside:
                assert _is_registered(beside, shim, broker)


@pytest.mark.parametrize("path", ["/brokers", "/controller", "/cluster/id"])
def test_what_others_have_made_is_refused(path: str, broker: Broker, chroot: str, registering: Registering) -> None:
    with looking_at(chroot) as view:
        view.client.create(path, b"somebody's", makepath=True)
        before = view.client.get_children("/")
        assert f"has a {path} that the registrar did not make" in _refusal(registering(broker, chroot))
        assert view.client.get_children("/") == before
        assert view.client.get(path)[0] == b"somebody's"


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        (b'{"version":1,"cluster_id":"another"}', "is where cluster another is registered, and this one is"),
        (b'{"version":2}', "/offset-shim/registrar in ZooKeeper at"),
    ],
)
def test_the_marker_of_another_cluster_is_refused(
    marker: bytes, says: str, broker: Broker, chroot: str, registering: Registering
) -> None:
    with looking_at(chroot) as view:
        view.client.create(MARKER, marker, makepath=True)
        assert says in _refusal(registering(broker, chroot))
        assert view.client.get(MARKER)[0] == marker
        assert not view.has("/brokers")


def test_a_cluster_that_comes_later_is_not_written_into(
    broker: Broker, zookeeper: ZooKeeper, chroot: str, registering: Registering, make_topic: TopicFactory
) -> None:
    with registering(broker, chroot) as shim, looking_at(chroot) as view:
        view.client.create("/controller", b"{}", ephemeral=True)
        wait_until(lambda: "has a /controller that the registrar did not make" in shim.log(), "it does not notice")
        topic = make_topic()
        _wait_for_looks(zookeeper)
        assert topic not in view.topics()
        view.client.delete("/controller")
        wait_until(lambda: topic in view.topics(), "it does not go on when that one has left")
        assert shim.running
        assert shim.log().count("that the registrar did not make") == 1


@pytest.mark.parametrize(
    ("args", "says", "status"),
    [
        (("--registrar",), "--registrar needs to know where: --zookeeper", 2),
        (("--zookeeper", "127.0.0.1", "--registrar"), "--zookeeper: '127.0.0.1' is not host:port", 2),
        (("--zookeeper", "127.0.0.1:2181/a//b", "--registrar"), "--zookeeper: '127.0.0.1:2181/a//b'", 2),
        (
            ("--zookeeper", "127.0.0.1:2181", "--registrar", "--set", "security.protocol=SSL"),
            "--registrar is for consumers that speak PLAINTEXT alone, and no listener does",
            1,
        ),
    ],
)
def test_options_that_do_not_go_together(args: tuple[str, ...], says: str, status: int, tmp_path: Path) -> None:
    assert says in _refusal(Shim("127.0.0.1:1", tmp_path / "data", args=args), status)


@pytest.mark.soak
def test_a_thousand_topics(chroot: str, registering: Registering, tmp_path: Path) -> None:
    """Of ten partitions each: registered within seconds, and read back as quickly by one that takes the place."""
    with Broker(tmp_path / "broker", heap_mb=400) as large:
        make_many(large, [f"many-{n}" for n in range(_MANY)], partitions=10)
        shim = registering(large, chroot)
        with shim, looking_at(chroot) as view:
            wait_until(lambda: len(view.topics()) == _MANY, "not all of them are registered")
            assert all(len(view.leaders(f"many-{n}")) == 10 for n in range(_MANY))
            assert shim.stop() == 0
            view.client.delete("/brokers/topics", recursive=True)
            view.client.create("/brokers/topics")
            begun = time.monotonic()
            shim.start()
            assert time.monotonic() - begun < 5.0
            assert len(view.topics()) == _MANY
            begun = time.monotonic()
            shim.kill()
            shim.start()
            assert time.monotonic() - begun < 15.0
            assert len(view.topics()) == _MANY
