"""The audit asks the shim's admin port over TLS, as the shim's own commands do."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import click
import pytest

from pipeline.audit.admin_port import admin_ports
from pipeline.audit.command import audit_command
from pipeline.audit.steps import steps_of_groups
from pipeline.audit.words import CannotRead
from shim.admin.commands.groups import list_command
from shim.demo.parts import Broker
from tests.admin.live.moved import Moved
from tests.admin.live.running import admin_of
from tests.admin.live.test_tls import tls_admin
from tests.certificates import Authority
from tests.pipeline.audit.test_bad_input import refused


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"))


def test_it_is_asked_over_tls(authority: Authority) -> None:
    with tls_admin(authority) as at:
        assert steps_of_groups(admin_ports(at, None, authority.truststore), ["g"]).keys() == {"g"}


def test_a_certificate_is_shown_where_it_is_wanted(authority: Authority, other: Authority) -> None:
    own, stranger = authority.keystore("own.pem", "me.example.org"), other.keystore("own.pem", "me.example.org")
    with tls_admin(authority, client_auth="required") as at:
        assert steps_of_groups(admin_ports(at, None, authority.truststore, own), ["g"]).keys() == {"g"}
        no_tls = f"^no TLS with the shim at {at}: "
        with pytest.raises(CannotRead, match=no_tls + "it wants a certificate$"):
            steps_of_groups(admin_ports(at, None, authority.truststore), ["g"])
        with pytest.raises(CannotRead, match=no_tls + "it refuses the certificate of .*: unknown CA$"):
            steps_of_groups(admin_ports(at, None, authority.truststore, stranger), ["g"])


def test_what_does_not_fit_together(authority: Authority, other: Authority) -> None:
    with tls_admin(authority) as at:
        with pytest.raises(CannotRead, match=r"its certificate is refused: self-signed certificate in"):
            steps_of_groups(admin_ports(at, None, other.truststore), ["g"])
        with pytest.raises(CannotRead, match=r": the connection was closed; .* speaks TLS .* --admin-ca-file$"):
            steps_of_groups(admin_ports(at, None), ["g"])
    with tls_admin(authority, "127.0.0.2") as at, pytest.raises(CannotRead, match="IP address mismatch"):
        steps_of_groups(admin_ports(at, None, authority.truststore), ["g"])
    with admin_of(Moved()) as at, pytest.raises(CannotRead, match=r": it does not speak TLS there$"):
        steps_of_groups(admin_ports(at, None, authority.truststore), ["g"])


def test_who_closes_in_the_middle_of_it_is_told_in_one_line(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = f"127.0.0.1:{server.getsockname()[1]}"
        closing = threading.Thread(target=lambda: server.accept()[0].close())
        closing.start()
        with pytest.raises(CannotRead, match=f"at {at}: ") as told:
            steps_of_groups(admin_ports(at, None, authority.truststore), ["g"])
        closing.join()
    assert ".c:" not in str(told.value)


def test_files_that_are_none(authority: Authority, tmp_path: Path) -> None:
    none, empty = tmp_path / "none", tmp_path / "empty"
    empty.touch()
    locked = authority.keystore("locked.pem", password="secret")
    for ca, own, why in (
        (none, None, f"{none}: No such file or directory"),
        (empty, None, f"{empty}: no PEM with certificates"),
        (authority.truststore, none, f"{none}: No such file or directory"),
        (authority.truststore, empty, f"{empty}: no PEM with a key and a certificate chain"),
        (authority.truststore, locked, f"{locked}: the key is encrypted"),
        (None, locked, "give both"),
    ):
        with pytest.raises(click.UsageError, match=why):
            admin_ports("a:1", None, ca, own)


def test_the_command_has_the_options_of_the_shims_own(broker: Broker, authority: Authority, other: Authority) -> None:
    def told_of(command: click.Command) -> dict[str, tuple[object, str | None]]:
        options = [each for each in command.params if isinstance(each, click.Option)]
        return {
            name: (each.envvar, each.help)
            for each in options
            for name in each.opts
            if name in ("--admin-ca-file", "--admin-certificate-file")
        }

    assert told_of(audit_command) == told_of(list_command)
    at_broker = ("--shim", broker.bootstrap_servers, "--upstream", broker.bootstrap_servers)
    with tls_admin(authority) as at:
        line = f"no TLS with the shim at {at}: its certificate is refused: "
        wrong = str(other.truststore)
        assert refused(*at_broker, "--admin", at, "--admin-ca-file", wrong).startswith(line)
        assert refused(*at_broker, "--admin", at, env={"OFFSET_SHIM_ADMIN_CA_FILE": wrong}).startswith(line)
