"""TLS at the admin interface: what the commands say where both do not fit together, and who is let in."""

from __future__ import annotations

import http.client
import logging
import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from shim.admin.live.guard.access import Access
from shim.admin.live.port.connections import MOST_CONNECTIONS
from shim.config import Settings
from shim.tls import context_for_clients
from tests.admin.live.moved import Moved
from tests.admin.live.running import TIME_LIMIT_SECONDS, admin_of, offset_shim
from tests.certificates import Authority
from tests.waiting import wait_until

_LIST: Final = ("groups", "list", "--admin")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"))


@contextmanager
def tls_admin(authority: Authority, *hosts: str, client_auth: str = "none") -> Iterator[str]:
    moved = Moved()
    moved.add("g")
    keystore = authority.keystore("shim.pem", *hosts)
    settings = Settings(
        ssl_keystore_location=str(keystore),
        ssl_truststore_location=str(authority.truststore),
        ssl_client_auth=client_auth,
    )
    tls = context_for_clients("listener admin", settings)
    with admin_of(moved, access=Access(certificates=client_auth == "required"), tls=tls) as address:
        yield address


def test_commands_ask_over_tls(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    with tls_admin(authority) as address:
        told = offset_shim(*_LIST, address, "--admin-ca-file", str(authority.truststore))
        assert (told.status, told.stdout.splitlines()[-1].split()[0]) == (0, "g")
        assert (
            offset_shim(
                "migrate", "start", "g", "--admin", address, "--admin-ca-file", str(authority.truststore)
            ).status
            == 0
        )
        monkeypatch.setenv("OFFSET_SHIM_ADMIN_CA_FILE", str(authority.truststore))
        assert offset_shim("groups", "describe", "g", "--admin", address).status == 0


def test_without_a_word_of_tls_it_is_no_shim(authority: Authority) -> None:
    with tls_admin(authority) as address:
        told = offset_shim(*_LIST, address)
    assert (told.status, told.stderr.count("\n")) == (2, 1)
    assert f"something else than a shim's admin port answers at {address}" in told.stderr
    assert "--admin-ca-file" in told.stderr


def test_tls_where_none_is_spoken(authority: Authority) -> None:
    with admin_of(Moved()) as address:
        told = offset_shim(*_LIST, address, "--admin-ca-file", str(authority.truststore))
    assert told == (2, "", f"Error: no TLS with the shim at {address}: it does not speak TLS there\n")


@pytest.mark.parametrize(
    ("host", "of_other", "why"),
    [
        ("127.0.0.1", True, "self-signed certificate in certificate chain"),
        ("127.0.0.2", False, "IP address mismatch"),
    ],
)
def test_a_certificate_that_is_not_believed(
    authority: Authority, other: Authority, host: str, of_other: bool, why: str
) -> None:
    believed = (other if of_other else authority).truststore
    with tls_admin(authority, host) as address:
        told = offset_shim(*_LIST, address, "--admin-ca-file", str(believed))
    assert (told.status, told.stderr.count("\n")) == (2, 1)
    assert f"no TLS with the shim at {address}: its certificate is refused: " in told.stderr
    assert why in told.stderr


def test_who_shows_a_certificate_is_let_in_and_named(
    authority: Authority, other: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shim.admin")
    ca = ("--admin-ca-file", str(authority.truststore))
    of_alice = authority.keystore("alice.pem", "alice.example.org", common_name="alice")
    stranger = other.keystore("mallory.pem", "alice.example.org", common_name="alice")
    with tls_admin(authority, client_auth="required") as address:
        shown = ("--admin-certificate-file", str(stranger))
        for command in (_LIST, ("migrate", "start", "g", "--admin")):
            told = offset_shim(*command, address, *ca)
            assert told == (2, "", f"Error: no TLS with the shim at {address}: it wants a certificate\n")
            told = offset_shim(*command, address, *ca, *shown)
            refused = "it refuses the certificate of --admin-certificate-file: unknown CA"
            assert told == (2, "", f"Error: no TLS with the shim at {address}: {refused}\n")
        assert (
            offset_shim(
                "migrate", "start", "g", "--admin", address, *ca, "--admin-certificate-file", str(of_alice)
            ).status
            == 0
        )
    assert "/v1/migrate/start from 127.0.0.1 (alice), without a token: " in caplog.text
    assert "a connection to the admin interface from 127.0.0.1 was closed: " in caplog.text


@pytest.mark.parametrize("cut_off", [ssl.SSLEOFError, ConnectionResetError, BrokenPipeError])
def test_that_a_certificate_is_wanted_is_heard_when_it_has_closed(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, cut_off: type[OSError]
) -> None:
    """With TLS 1.3 that is after the handshake, so it may be while the request is sent, of which a body is a part."""
    send = http.client.HTTPConnection.send

    def send_late(connection: http.client.HTTPConnection, data: bytes) -> None:
        closed = select.poll()
        closed.register(connection.sock, select.POLLRDHUP)
        assert closed.poll(1_000 * TIME_LIMIT_SECONDS)
        try:
            send(connection, data)
        except OSError as error:  # which one is a matter of Python's version
            raise cut_off from error

    with tls_admin(authority, client_auth="required") as address:
        monkeypatch.setattr(http.client.HTTPConnection, "send", send_late)
        for command in (("groups", "list"), ("migrate", "status"), ("migrate", "start", "g")):
            told = offset_shim(*command, "--admin", address, "--admin-ca-file", str(authority.truststore))
            assert told == (2, "", f"Error: no TLS with the shim at {address}: it wants a certificate\n")


def test_files_that_are_none(authority: Authority, tmp_path: Path) -> None:
    none, empty = tmp_path / "none", tmp_path / "empty"
    empty.touch()
    locked = authority.keystore("locked.pem", password="secret")
    ca = ("--admin-ca-file", str(authority.truststore))
    for options, why in (
        (("--admin-ca-file", none), f"--admin-ca-file: {none}: No such file or directory"),
        (("--admin-ca-file", empty), f"--admin-ca-file: {empty}: no PEM with certificates"),
        ((*ca, "--admin-certificate-file", empty), f"{empty}: no PEM with a key and a certificate chain"),
        ((*ca, "--admin-certificate-file", locked), f"--admin-certificate-file: {locked}: the key is encrypted"),
        (("--admin-certificate-file", locked), "give both"),
    ):
        told = offset_shim("groups", "list", *map(str, options))
        assert told.status == 2, told
        assert why in told.stderr


def test_a_page_with_all_that_it_is_made_of(authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.truststore))
    with tls_admin(authority) as address:
        host, _, port = address.partition(":")
        for path in ("/", "/v1/openapi.json", "/metrics"):
            connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=20)
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
            connection.close()
            assert (response.status, len(body) > 1_000 or path == "/metrics") == (200, True), path


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("shim.example.org", 200),
        ("SHIM.example.org", 200),
        ("evil.example", 421),
        ("a.wild.example.org", 421),
        ("*.wild.example.org", 421),
    ],
)
def test_a_person_may_ask_by_a_name_that_the_certificate_is_for(authority: Authority, host: str, status: int) -> None:
    context = ssl.create_default_context(cafile=str(authority.truststore))
    names = ("127.0.0.1", "Shim.Example.org", "*.wild.example.org")
    with tls_admin(authority, *names) as address:
        at, _, port = address.partition(":")
        connection = http.client.HTTPSConnection(at, int(port), context=context, timeout=20)
        connection.request("GET", "/v1/groups", headers={"Host": f"{host}:{port}"})
        assert connection.getresponse().status == status
        connection.close()


def test_a_page_that_came_in_clear_changes_nothing(authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.truststore))
    with tls_admin(authority) as address:
        at, _, port = address.partition(":")
        for scheme, status in (("http", 403), ("https", 200)):
            connection = http.client.HTTPSConnection(at, int(port), context=context, timeout=20)
            headers = {"Origin": f"{scheme}://{address}", "Content-Type": "application/json"}
            connection.request("POST", "/v1/migrate/start", '{"groups": ["g"]}', headers)
            assert connection.getresponse().status == status
            connection.close()


def test_who_connects_and_says_nothing_keeps_nobody_out(authority: Authority) -> None:
    with tls_admin(authority) as address, ExitStack() as silent:
        host, _, port = address.partition(":")
        for _ in range(2 * MOST_CONNECTIONS):
            silent.enter_context(socket.create_connection((host, int(port))))
        ca = ("--admin-ca-file", str(authority.truststore))
        # Of those that come in one moment the last may be turned away.
        wait_until(lambda: offset_shim(*_LIST, address, *ca).status == 0, "nobody is let in", TIME_LIMIT_SECONDS)
