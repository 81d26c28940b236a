"""Which listeners settings name, and one line for those that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.config import HostPort, SettingError, load_configuration
from shim.listener_config import Listener, listeners_of, overlap

LISTEN = HostPort("127.0.0.1", 19092)
TWO = "listeners=INTERNAL://10.0.0.5:29092,EXTERNAL://0.0.0.0:39092"
MAP = "listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:SSL"
TOLD = "advertised.listeners=EXTERNAL://kafka.example.com:9092"


def found(*settings: str, host: str | None = None, listen: HostPort = LISTEN) -> tuple[Listener, ...]:
    credentials = ("upstream.sasl.username=shim", "upstream.sasl.password=secret")
    return listeners_of(load_configuration(None, (*credentials, *settings)), listen, host)


def test_the_one_of_the_command_line() -> None:
    (one,) = found()
    assert one[:4] == ("PLAINTEXT", LISTEN, LISTEN, "PLAINTEXT")
    assert not one.speaks_tls
    (one,) = found(host="shim.example.org", listen=HostPort("0.0.0.0", 19092))
    assert one.advertised == HostPort("shim.example.org", 19092)
    assert str(one) == "PLAINTEXT (PLAINTEXT) at 0.0.0.0:19092, clients are told shim.example.org:19092"


@pytest.mark.parametrize(
    ("settings", "protocol"),
    [
        ([], "PLAINTEXT"),
        (["security.protocol=SSL"], "SSL"),
        (["upstream.security.protocol=SSL"], "PLAINTEXT"),
        (["upstream.security.protocol=SASL_PLAINTEXT"], "SASL_PLAINTEXT"),
        (["upstream.security.protocol=SASL_SSL", "security.protocol=SASL_PLAINTEXT"], "SASL_PLAINTEXT"),
        (["upstream.security.protocol=SASL_SSL", "security.protocol=SASL_SSL"], "SASL_SSL"),
    ],
)
def test_what_is_spoken_there(settings: list[str], protocol: str) -> None:
    (one,) = found(*settings)
    assert (one.name, one.security_protocol) == (protocol, protocol)


def test_more_of_them() -> None:
    first, internal, external = found(TWO, MAP, TOLD)
    assert first.name == "PLAINTEXT"
    assert internal[:4] == ("INTERNAL", HostPort("10.0.0.5", 29092), HostPort("10.0.0.5", 29092), "PLAINTEXT")
    assert external[:4] == ("EXTERNAL", HostPort("0.0.0.0", 39092), HostPort("kafka.example.com", 9092), "SSL")


def test_a_name_that_says_what_is_spoken_and_an_address_of_every_interface() -> None:
    _, one = found("listeners=SSL://:29092", "advertised.listeners=PLAINTEXT://nat:9092,SSL://nat:9192")
    assert one[:4] == ("SSL", HostPort("", 29092), HostPort("nat", 9192), "SSL")


def test_the_first_one_behind_nat() -> None:
    (one,) = found("advertised.listeners=PLAINTEXT://nat:9092", listen=HostPort("0.0.0.0", 19092))
    assert one.advertised == HostPort("nat", 9092)


def test_what_a_listener_has_for_itself(tmp_path: Path) -> None:
    file = tmp_path / "shim.toml"
    file.write_text(
        'listeners = "INTERNAL://10.0.0.5:29092,EXTERNAL://10.0.0.6:39092"\n'
        'listener.security.protocol.map = "INTERNAL:PLAINTEXT,EXTERNAL:SSL"\n'
        'ssl.keystore.location = "/all.pem"\n'
        "[listener.name.external]\n"
        'ssl.keystore.location = "/external.pem"\n'
        "socket.request.max.bytes = 2000\n"
    )
    configuration = load_configuration(file, ["listener.name.external.ssl.client.auth=required"])
    first, internal, external = listeners_of(configuration, LISTEN, None)
    assert first.settings == internal.settings == configuration.settings
    assert configuration.settings.ssl_keystore_location == "/all.pem"
    assert external.settings.ssl_keystore_location == "/external.pem"
    assert external.settings.ssl_client_auth == "required"
    assert external.settings.socket_request_max_bytes == 2000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["listeners=10.0.0.5:29092"], "listeners: '10.0.0.5:29092' is not NAME://host:port"),
        (["listeners=A B://h:1"], "listeners: 'A B://h:1' is not NAME://host:port"),
        (["listeners=A://h"], "listeners: A: 'h' is not host:port"),
        (["listeners=A://h:0"], "listeners: A: 'h:0': the port must be a number from 1 to 65535"),
        (["listeners=A://h:1,a://h:2"], "listeners: a is there twice"),
        (["listeners=PLAINTEXT://h:1"], "listeners: PLAINTEXT is the name of the one at --listen"),
        (["listeners=A://h:1"], "listener.security.protocol.map: it does not say what is spoken at A"),
        ([TWO, TOLD, "listener.security.protocol.map=A:TLS"], "map: 'A:TLS' is not a name and one of PLAINTEXT, SSL"),
        ([TWO, MAP], "clients cannot connect to 0.0.0.0: give EXTERNAL in advertised.listeners"),
        ([TWO, MAP, "advertised.listeners=EXTERNAL://0.0.0.0:1"], "clients cannot connect to 0.0.0.0"),
        (
            [TWO, MAP, "advertised.listeners=EXTERNA://h:1"],
            "there is no listener EXTERNA, only PLAINTEXT, INTERNAL, EX",
        ),
        (["listener.name.x.ssl.client.auth=none"], "listener.name.x: there is no such listener"),
        (["listener.name.x.group.max.size=1"], "x.group.max.size: group.max.size is the same for all listeners"),
        (["listener.name.x.ssl.client.aut=1"], "unknown setting 'listener.name.x.ssl.client.aut', did you mean ssl.c"),
        (["listener.name.x"], "listener.name.x: expected name=value"),
        (["listener.name.x=1"], "unknown setting 'listener.name.x'"),
        (["listener.name.x.ssl.client.auth=some"], "listener.name.x.ssl.client.auth: 'some' is not one of none, req"),
        (["security.protocol=SASL_SSL"], "SASL_SSL at listener SASL_SSL and upstream.security.protocol=PLAINTEXT do"),
        (["upstream.security.protocol=SASL_SSL"], "say what clients speak at --listen: security.protocol=SASL_SSL"),
        (["upstream.security.protocol=SASL_SSL", "security.protocol=SSL"], "SSL at listener SSL and upstream.security"),
        (["listeners=A://127.0.0.1:19092", "listener.security.protocol.map=A:SSL"], "port 19092 would be bootstrap of"),
        (["offsets.log=kafka", "shims.listener=127.0.0.1:19092"], "would be bootstrap of PLAINTEXT and shims.listener"),
        (["admin.listen=127.0.0.1:19092"], "port 19092 would be bootstrap of PLAINTEXT and --admin"),
        (["ssl.keystore.type=JKS"], "ssl.keystore.type: 'JKS' is not one of PEM"),
    ],
)
def test_what_cannot_be_is_one_line(settings: list[str], message: str) -> None:
    with pytest.raises(SettingError) as refused:
        found(*settings)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_host_of_the_command_line_and_of_the_setting() -> None:
    with pytest.raises(SettingError, match="PLAINTEXT is at --listen, and has its --advertised-host"):
        found("advertised.listeners=PLAINTEXT://nat:9092", host="nat")


def test_a_secret_is_not_shown() -> None:
    (one,) = found("ssl.key.password=hush")
    assert "hush" not in repr(one)


@pytest.mark.parametrize(
    ("hosts", "distance", "node_ids", "line"),
    [
        (("h", "h"), 3, [1, 2], "port 1003 would be broker 2 of A and bootstrap of B"),
        (("h", "h"), 4, [1, 2], None),
        (("h", "h"), 4, [1, 6], None),
        (("h", "h"), 4, [0, 1, 5], "port 1006 would be broker 5 of A and broker 1 of B"),
        (("h", "0.0.0.0"), 3, [2], "port 1003 would be broker 2 of A and bootstrap of B"),
        (("", "h"), 0, [], "port 1000 would be bootstrap of A and bootstrap of B"),
        (("h", "g"), 0, [1], None),
    ],
)
def test_ports_that_two_would_want(
    hosts: tuple[str, str], distance: int, node_ids: list[int], line: str | None
) -> None:
    settings = load_configuration(None, ()).settings
    pair = [
        Listener(name, HostPort(host, port), HostPort("told", port), "PLAINTEXT", settings)
        for name, host, port in zip("AB", hosts, (1000, 1000 + distance), strict=True)
    ]
    assert overlap(pair, node_ids) == line


@pytest.mark.parametrize(
    ("setting", "node_ids", "line"),
    [
        ("shims.listener=127.0.0.1:19094", [1, 2], "port 19094 would be broker 1 of PLAINTEXT and shims.listener"),
        ("shims.listener=127.0.0.1:19094", [2, 3], None),
        ("shims.listener=10.0.0.5:19094", [1], None),
        ("admin.listen=127.0.0.1:19096", [3], "port 19096 would be broker 3 of PLAINTEXT and --admin"),
    ],
)
def test_a_port_that_a_broker_and_something_else_would_want(
    setting: str, node_ids: list[int], line: str | None
) -> None:
    assert overlap(found(setting), node_ids) == line


def test_each_has_what_says_where_it_listens() -> None:
    assert [(each.name, each.setting) for each in found(TWO, MAP, TOLD)] == [
        ("PLAINTEXT", "--listen"),
        ("INTERNAL", "listeners"),
        ("EXTERNAL", "listeners"),
    ]
