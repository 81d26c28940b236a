"""The admin interface of a running shim over TLS: for others than this machine, by certificate, without a token."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from shim.demo.parts import Broker, free_port
from tests.admin.live.running import in_a_process
from tests.certificates import Authority
from tests.serve.test_start import ONE_PARTITION, refused, serve
from tests.shim_process import Shim
from tests.waiting import wait_until

_OVER_TLS: Final = ("--set", "listener.security.protocol.map=admin:SSL")
_CERTIFICATES: Final = ("--set", "listener.name.admin.ssl.client.auth=required")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def _with(authority: Authority, *more: str) -> list[str]:
    own = authority.keystore("shim.pem", "127.0.0.1")
    settings = [f"keystore.location={own}", f"truststore.location={authority.truststore}", *more]
    return [*_OVER_TLS, *(word for each in settings for word in ("--set", f"listener.name.admin.ssl.{each}"))]


def test_who_shows_a_certificate_may_come_from_other_machines(
    broker: Broker, tmp_path: Path, authority: Authority
) -> None:
    port = free_port()
    args = ["--admin", f"0.0.0.0:{port}", *_with(authority, "client.auth=required"), *ONE_PARTITION]
    of_alice = str(authority.keystore("alice.pem", "alice.example.org", common_name="alice"))
    with Shim(broker.bootstrap_servers, tmp_path / "data", args=args) as shim:
        at = ("--admin", f"127.0.0.1:{port}", "--admin-ca-file", str(authority.truststore))
        as_alice = (*at, "--admin-certificate-file", of_alice)
        assert in_a_process("groups", "list", "--json", *as_alice).json["groups"] == []
        assert in_a_process("groups", "list", *at).status == 2
        assert in_a_process("groups", "list", "--admin", f"127.0.0.1:{port}").status == 2
        assert in_a_process("groups", "delete", "nobody", *as_alice).status == 1
        authority.keystore("shim.pem", "127.0.0.2")  # it is read again
        wait_until(lambda: "IP address mismatch" in in_a_process("groups", "list", *as_alice).stderr)
        assert shim.stop() == 0
    said = shim.log()
    assert f"admin interface on 0.0.0.0:{port}, over TLS" in said
    assert "/v1/groups/delete from 127.0.0.1 (alice), without a token: " in said
    assert "listener admin: certificate files read again" in said
    assert "in clear" not in said
    assert "whoever reaches" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ((), "whoever reaches 0.0.0.0:9644 could move, reset and delete groups: set admin.token.file"),
        (_OVER_TLS, "listener admin: ssl.keystore.location is not set"),
        (("--set", "listener.security.protocol.map=admin:SASL_SSL"), "SASL_SSL is not spoken at the admin interface"),
        (_CERTIFICATES, "listener.name.admin.ssl.client.auth: there is no TLS there without admin:SSL"),
        (("--set", "listener.security.protocol.map=ADMIN:SSL"), "listener admin: ssl.keystore.location is not set"),
        (("--set", "listener.name.admin.max.connections=3"), "this listener has settings of TLS alone for itself"),
        (("--set", "listeners=admin://127.0.0.1:1"), "listeners: admin is the name of the one at --admin"),
    ],
)
def test_what_does_not_go_together(tmp_path: Path, more: tuple[str, ...], error: str) -> None:
    host = "0.0.0.0" if not more else "127.0.0.1"
    admin = ("--admin", f"{host}:{9644 if not more else free_port()}")
    assert error in refused(serve(tmp_path / "data", "127.0.0.1:1", 19_092, *admin, *more))


def test_tls_without_certificates_of_clients_needs_a_token(tmp_path: Path, authority: Authority) -> None:
    told = refused(serve(tmp_path / "data", "127.0.0.1:1", 19_092, "--admin", "0.0.0.0:9644", *_with(authority)))
    assert "set admin.token.file" in told
