"""TLS and SASL together: clients that show a certificate, certificates that change, brokers that are not who they say.

The shim has three listeners here: TLS, TLS with a certificate of the client's, and plaintext; all in front of a broker
that speaks SASL_SSL.
"""

from __future__ import annotations

import signal
import ssl
import time
from collections.abc import Callable, Iterator
from os import kill
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from protocol.errors import ErrorCode
from protocol.messages import metadata, sasl_handshake
from shim.demo.parts import free_port_range
from tests.authorization.test_rights import commit, fetch
from tests.certificates import Authority
from tests.conftest import TopicFactory
from tests.secured.broker import Door, SecuredBroker
from tests.secured.conftest import shim_settings
from tests.secured.dialogue import HEARTBEAT, authenticate, handshake, log_in, logged_in, say
from tests.secured.test_clients import CLIENTS
from tests.secured.users import plain
from tests.secured.way import Way
from tests.shim_process import Shim
from tests.wire import WireClient

TIMEOUT_S: Final = 30.0
PORTS: Final = 8  # of one listener: as many as `Shim` keeps free


class Listening(NamedTuple):
    """A shim, and the bootstrap ports of its listeners that are not the first."""

    shim: Shim
    certificate: Path
    mutual: int
    plain: int
    client: Path


@pytest.fixture(scope="module")
def listening(
    secured: SecuredBroker, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Listening]:
    mutual, plaintext = free_port_range(PORTS), free_port_range(PORTS)
    certificate = authority.keystore("listening.pem", common_name="first")
    settings = {
        **shim_settings(secured),
        "ssl.keystore.location": str(certificate),
        "listeners": f"MUTUAL://127.0.0.1:{mutual},PLAIN://127.0.0.1:{plaintext}",
        "listener.security.protocol.map": "MUTUAL:SASL_SSL,PLAIN:SASL_PLAINTEXT",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.location": str(authority.truststore),
    }
    data_dir = tmp_path_factory.mktemp("listening") / "data"
    client = authority.keystore("client.pem", common_name="a client")
    with Shim(secured.bootstrap_servers, data_dir, settings=settings) as shim:
        yield Listening(shim, certificate, mutual, plaintext, client)


def named(context: ssl.SSLContext, port: int) -> str:
    """Whose certificate is shown there."""
    with WireClient(port, context=context) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        shown = client.socket.getpeercert()
    assert shown is not None
    subject: dict[str, str] = dict(pair for part in shown["subject"] for pair in part)  # type: ignore[misc]
    return subject["commonName"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "Java"])
def test_clients_at_the_other_listeners(
    secured: SecuredBroker,
    authority: Authority,
    listening: Listening,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
    client: str,
    mechanism: str,
) -> None:
    """With a certificate, and in plaintext. They stay at the listener that they came to."""
    ways = (
        Way(f"127.0.0.1:{listening.mutual}", authority.truststore, listening.client),
        Way(f"127.0.0.1:{listening.plain}"),
    )
    for way in ways:
        topic, group = make_topic(name=f"alice-{fresh_name()}", on=secured.broker), f"alice-{fresh_name()}"
        assert CLIENTS[client](way, mechanism, topic, group) == 1


def test_a_certificate_is_no_user(secured: SecuredBroker, listening: Listening) -> None:
    """Who shows one has to authenticate all the same, and who authenticates has to show one."""
    context = secured.context(listening.client)
    door = Door(listening.mutual + 1 + secured.broker.node_id, context)
    with door.client() as client:
        client.send(metadata.API, 9, metadata.MetadataRequest(()))
        assert client.ended()
    with logged_in(door, "alice", "SCRAM-SHA-512") as client:
        assert commit(client, "alice-mutual", 3, "alice-none") != ErrorCode.GROUP_AUTHORIZATION_FAILED
        told = client.ask(metadata.API, 9, metadata.MetadataRequest(()))
        assert [broker.port for broker in told.brokers] == [door.port]
    with Door(door.port, secured.context()).client() as client, pytest.raises((ssl.SSLError, ConnectionError)):
        client.ask(sasl_handshake.API, 1, sasl_handshake.SaslHandshakeRequest("PLAIN"))
    listening.shim.wait_logged("TLS handshake: it has shown no certificate")


def test_a_certificate_changes_and_sessions_go_on(
    secured: SecuredBroker, authority: Authority, listening: Listening, make_topic: TopicFactory
) -> None:
    """Those in the middle of their authentication, too."""
    topic = make_topic(name="alice-changes", on=secured.broker)
    shim = listening.shim
    door = secured.door_at(shim.broker_port(secured.broker.node_id))
    context = secured.context()
    assert named(context, shim.port) == "first"
    with logged_in(door, "alice", "SCRAM-SHA-512") as before, door.client() as between:
        assert say(between, handshake(1, "PLAIN")) != b""
        assert commit(before, "alice-changes", 1, topic) == ErrorCode.NONE
        authority.keystore("listening.pem", common_name="second")
        kill(shim.pid, signal.SIGHUP)
        shim.wait_logged("certificate files read again")
        assert named(context, shim.port) == "second"
        assert commit(before, "alice-changes", 2, topic) == ErrorCode.NONE
        assert isinstance(say(between, authenticate(2, plain("alice"))), bytes)
        assert fetch(between, "alice-changes") == (ErrorCode.NONE, [2])
        time.sleep(1.1)  # brokers take no sooner one
        log_in(before, "alice", "SCRAM-SHA-512")
        assert fetch(before, "alice-changes") == (ErrorCode.NONE, [2])
        assert isinstance(say(before, HEARTBEAT), bytes)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("truststore", "its certificate is refused: unable to get local issuer certificate"),
        ("host name", "its certificate is refused: Hostname mismatch"),
        ("plaintext port", "closed in the TLS handshake: does it speak TLS there?"),
    ],
)
def test_a_broker_that_is_not_who_it_says(secured: SecuredBroker, tmp_path: Path, wrong: str, words: str) -> None:
    """The shim's password is not for it."""
    settings, bootstrap = shim_settings(secured), secured.bootstrap_servers
    if wrong == "truststore":
        settings["upstream.ssl.truststore.location"] = str(Authority(tmp_path).truststore)
    elif wrong == "host name":
        bootstrap = f"localhost:{secured.sasl.port}"
    else:
        bootstrap = secured.broker.bootstrap_servers
    shim = Shim(bootstrap, tmp_path / "data", settings=settings, start_timeout=TIMEOUT_S)
    shim.launch()
    try:
        shim.wait_logged(words)
        assert f"{bootstrap}: {words}" in shim.log()
    finally:
        shim.kill()
