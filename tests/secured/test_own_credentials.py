"""The shim's own connections: who it is to the brokers, what it has to be allowed, and what it says when it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from shim.demo.parts import Broker, StartFailed
from tests.conftest import TopicFactory
from tests.secured.broker import Rule, SecuredBroker
from tests.secured.conftest import CREDENTIALS, DESCRIBE_GROUPS, OF_ALICE, SHIM_RULES, shim_settings
from tests.secured.test_clients import TIMEOUT_S
from tests.secured.users import MECHANISMS, PASSWORDS, unsecured_jwt
from tests.secured.way import way_to
from tests.shim_process import Shim
from tests.waiting import wait_until


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_shim_authenticates(secured: SecuredBroker, tmp_path: Path, mechanism: str) -> None:
    (tmp_path / "token").write_text(unsecured_jwt("shim") + "\n")
    settings = {
        **shim_settings(secured),
        "upstream.sasl.mechanism": mechanism,
        "upstream.sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path}/token",
    }
    with Shim(secured.bootstrap_servers, tmp_path / "data", settings=settings) as shim:
        assert f"cluster brokers: 1 at {secured.sasl}" in shim.log()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"upstream.sasl.password": "wrong"}, "SCRAM-SHA-512 as shim: Authentication failed"),
        ({"upstream.sasl.mechanism": "PLAIN", "upstream.sasl.password": "wrong"}, "Invalid username or password"),
        ({"upstream.sasl.username": "nobody"}, "SCRAM-SHA-512 as nobody: Authentication failed"),
        (
            {
                "upstream.sasl.mechanism": "OAUTHBEARER",
                "upstream.sasl.oauthbearer.token.endpoint.url": "file:///nowhere/token",
            },
            "/nowhere/token: No such file or directory",
        ),
        (
            {
                "upstream.sasl.mechanism": "OAUTHBEARER",
                "upstream.sasl.oauthbearer.token.endpoint.url": "file:///dev/null",
            },
            "OAUTHBEARER: Authentication failed",
        ),
    ],
    ids=["SCRAM", "PLAIN", "nobody", "no token", "no good token"],
)
def test_wrong_credentials_are_one_line_and_the_end(
    secured: SecuredBroker, tmp_path: Path, changed: dict[str, str], words: str
) -> None:
    shim = Shim(secured.bootstrap_servers, tmp_path / "data", settings={**shim_settings(secured), **changed})
    with pytest.raises(StartFailed):
        shim.start()
    assert shim.returncode == 1
    *_, last = shim.log().splitlines()
    assert last.startswith("Error: the brokers do not take the shim's credentials: ")
    assert words in last
    assert "Traceback" not in shim.log()


def test_a_mechanism_that_the_brokers_do_not_have(own: SecuredBroker, tmp_path: Path) -> None:
    settings = {**shim_settings(own), "upstream.sasl.mechanism": "SCRAM-SHA-256"}
    shim = Shim(own.bootstrap_servers, tmp_path / "data", settings=settings)
    with pytest.raises(StartFailed):
        shim.start()
    assert "has no mechanism SCRAM-SHA-256, but PLAIN, SCRAM-SHA-512" in shim.log().splitlines()[-1]


def test_brokers_that_want_no_sasl(broker: Broker, tmp_path: Path) -> None:
    settings = {**CREDENTIALS, "upstream.security.protocol": "SASL_PLAINTEXT"}
    shim = Shim(broker.bootstrap_servers, tmp_path / "data", settings=settings)
    with pytest.raises(StartFailed):
        shim.start()
    assert "does not want SASL, upstream.security.protocol says it does" in shim.log().splitlines()[-1]


TELLS_TRIES = """
import sys
from shim.upstream.cluster import Cluster

refresh = Cluster._refresh

async def told(cluster):
    known = await refresh(cluster)
    if not known:
        print("tried in vain", file=sys.stderr, flush=True)
    return known

Cluster._refresh = told
"""


def test_a_password_that_is_changed_while_the_shim_runs(own: SecuredBroker, tmp_path: Path) -> None:
    """It goes on with what it knows, says so once, and is back when it may be."""
    settings = {**shim_settings(own), "topology.refresh.interval.ms": "100"}
    with Shim(own.bootstrap_servers, tmp_path / "data", settings=settings, late_patch=TELLS_TRIES) as shim:
        own.add_scram_user("shim", "another")
        shim.wait_logged("no broker can be reached, trying again every 0.5 s: ")
        before = len(shim.log())
        wait_until(lambda: shim.log()[before:].count("tried in vain\n") > 2, "it does not try again")
        own.add_scram_user("shim", PASSWORDS["shim"])
        shim.wait_logged("cluster reached again")
        assert shim.log().count("SCRAM-SHA-512 as shim: Authentication failed") == 1
        assert shim.running


def test_without_rights_it_says_what_is_missing_and_with_them_it_is_complete(
    own: SecuredBroker, tmp_path: Path, make_topic: TopicFactory, fresh_name: Callable[[], str]
) -> None:
    topic, group = make_topic(name=f"alice-{fresh_name()}", on=own.broker), f"alice-{fresh_name()}"
    own.revoke(*SHIM_RULES)
    own.allow(*OF_ALICE, Rule("alice", "ALL", "TRANSACTIONAL_ID", "alice", prefixed=True))
    without_mirror = {
        **shim_settings(own),
        "offsets.mirror.upstream": "false",
    }  # that lacks rights, too, sooner or later
    with Shim(own.bootstrap_servers, tmp_path / "data", settings=without_mirror) as shim:
        consumer = Consumer({**way_to(shim.bootstrap, own).librdkafka("PLAIN", "alice"), "group.id": group})
        try:
            with pytest.raises(KafkaException, match="COORDINATOR_LOAD_IN_PROGRESS"):
                consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
            shim.wait_logged(f"whether the cluster knows group {group} cannot be found out for now: ")
            own.allow(DESCRIBE_GROUPS, Rule("shim", "READ", "TOPIC", "__consumer_offsets"))
            consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
            shim.wait_logged(f"the shim may not describe {topic}:")
            own.allow(*SHIM_RULES)
            producer = Producer(
                {**way_to(shim.bootstrap, own).librdkafka("PLAIN", "alice"), "transactional.id": "alice-transactions"}
            )
            producer.init_transactions(TIMEOUT_S)
            producer.begin_transaction()
            producer.produce(topic, b"record")
            positions, member = [TopicPartition(topic, 0, 7)], consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(positions, member, TIMEOUT_S)
            producer.commit_transaction(TIMEOUT_S)
            (committed,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
        finally:
            consumer.close()
        assert committed.offset == 7
        assert shim.log().count("AUTHORIZATION_FAILED") == 1
