"""Contexts from files: read again when these change, and one line for whatever they cannot be made from."""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shim.config import Settings
from shim.tls import CannotUse, TlsContext, context_for_brokers, context_for_clients
from shim.tls.contexts import ServerContext, _openssl_name
from tests.certificates import LONG_AGO, Authority


def served(keystore: Path, **settings: str) -> Settings:
    return replace(Settings(), ssl_keystore_location=str(keystore), **settings)  # type: ignore[arg-type]


def refusal(settings: Settings) -> str:
    with pytest.raises(CannotUse) as refused:
        context_for_clients("listener A", settings)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_file_that_has_changed_is_read_again_and_only_then(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    keystore = tmp_path / "shim.pem"
    keystore.write_bytes(authority.keystore("one.pem").read_bytes())
    context = context_for_clients("listener A", served(keystore))
    first = context.current
    context.look()
    assert context.current is first
    keystore.write_bytes(authority.keystore("two.pem").read_bytes())
    context.look()
    second = context.current
    assert second is not first
    context.look()
    assert context.current is second
    assert caplog.messages == ["listener A: certificate files read again"]
    context.look(anyway=True)
    assert context.current is not second


def test_a_link_that_leads_elsewhere_is_a_change(authority: Authority, tmp_path: Path) -> None:
    """As secrets are put in place in a container: the file behind may be as old and as long as the one before."""
    one, two = authority.keystore("one.pem"), authority.keystore("two.pem")
    link = tmp_path / "shim.pem"
    link.symlink_to(one)
    context = context_for_clients("listener A", served(link))
    first = context.current
    os.utime(two, ns=(one.stat().st_atime_ns, one.stat().st_mtime_ns))
    new = tmp_path / "new"
    new.symlink_to(two)
    new.replace(link)
    context.look()
    assert context.current is not first


def test_a_changed_file_of_no_use_leaves_the_one_before_and_has_one_line(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    keystore = tmp_path / "shim.pem"
    good = authority.keystore("one.pem").read_bytes()
    keystore.write_bytes(good)
    context = context_for_clients("listener A", served(keystore))
    first = context.current
    keystore.write_bytes(good[: len(good) // 2])
    for _ in range(3):
        context.look()
    assert context.current is first
    assert caplog.messages == [
        "listener A: the changed certificate files are of no use, the ones before stay: "
        f"ssl.keystore.location: {keystore}: no PEM with a key and a certificate chain"
    ]
    keystore.unlink()
    for _ in range(3):
        context.look()
    assert context.current is first
    assert caplog.messages[1:] == [
        "listener A: the changed certificate files are of no use, the ones before stay: "
        f"ssl.keystore.location: {keystore}: No such file or directory"
    ]
    keystore.write_bytes(good)
    context.look()
    assert context.current is not first


@pytest.mark.parametrize(
    ("days", "told"),
    [(-1, "listener A: its certificate has expired, on "), (13, "listener A: its certificate expires, on "), (15, "")],
)
def test_a_certificate_that_is_about_to_end_is_told_of_once(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, days: int, told: str
) -> None:
    ends = datetime.now(UTC) + timedelta(days=days)
    made = authority.ca.issue_cert("127.0.0.1", not_before=LONG_AGO, not_after=ends)
    keystore = tmp_path / "shim.pem"
    made.private_key_and_cert_chain_pem.write_to_path(str(keystore))
    context = context_for_clients("listener A", served(keystore))
    context.look()
    assert caplog.messages == ([f"{told}{ends:%Y-%m-%d %H:%MZ}: clients refuse it then"] if told else [])
    keystore.write_bytes(authority.keystore("good.pem").read_bytes())
    caplog.clear()
    context.look()
    assert caplog.messages == []


def test_one_that_ends_while_it_is_used_is_told_of_then(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    context = context_for_clients("listener A", served(authority.keystore("dead.pem", expired=True)))
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert isinstance(context.current, ServerContext)
    context.current.not_after = datetime.now(UTC) + timedelta(days=30)
    caplog.clear()
    context.look()
    assert caplog.messages == []
    for days, level in ((3, "WARNING"), (-3, "ERROR")):
        context.current.not_after = datetime.now(UTC) + timedelta(days=days)
        caplog.clear()
        for _ in range(2):
            context.look()
        assert [each.levelname for each in caplog.records] == [level]


def test_keystores_that_are_none(authority: Authority, tmp_path: Path) -> None:
    assert refusal(Settings()) == "listener A: ssl.keystore.location is not set"
    missing = tmp_path / "missing.pem"
    at = "listener A: ssl.keystore.location"
    assert refusal(served(missing)) == f"{at}: {missing}: No such file or directory"
    missing.write_text("no PEM")
    assert refusal(served(missing)) == f"{at}: {missing}: no PEM with a key and a certificate chain"
    one, two = authority.keystore("one.pem").read_text(), authority.keystore("two.pem").read_text()
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(one[: one.index("-----BEGIN CERT")] + two[two.index("-----BEGIN CERT") :])
    assert refusal(served(mixed)) == f"{at}: {mixed}: the key is not that of the certificate"


def test_a_key_with_a_password(authority: Authority) -> None:
    keystore = authority.keystore("locked.pem", password="a secret")
    assert context_for_clients("listener A", served(keystore, ssl_key_password="a secret")).current
    for wrong in ("", "another"):
        line = refusal(served(keystore, ssl_key_password=wrong))
        assert line == (
            f"listener A: ssl.keystore.location: {keystore}: the key cannot be decrypted with ssl.key.password"
        )


def test_clients_certificates_need_cas(authority: Authority, tmp_path: Path) -> None:
    keystore = authority.keystore("shim.pem")
    line = refusal(served(keystore, ssl_client_auth="required"))
    assert line == "listener A: ssl.client.auth=required needs ssl.truststore.location"
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    line = refusal(served(keystore, ssl_client_auth="requested", ssl_truststore_location=str(empty)))
    assert line == f"listener A: ssl.truststore.location: {empty}: no PEM with certificates"


@pytest.mark.parametrize("text", ["", "TLSv1.1", "TLSv1.2,SSLv3", "1.2"])
def test_tls_versions_that_are_not_spoken(authority: Authority, text: str) -> None:
    line = refusal(served(authority.keystore("shim.pem"), ssl_enabled_protocols=text))
    assert line == f"listener A: ssl.enabled.protocols: {text!r} is not a list of TLSv1.2, TLSv1.3"


def test_tls_versions_that_are_spoken(authority: Authority) -> None:
    keystore = authority.keystore("shim.pem")
    versions = ssl.TLSVersion
    for text, lowest, highest in (
        ("TLSv1.2,TLSv1.3", versions.TLSv1_2, versions.TLSv1_3),
        ("TLSv1.3", versions.TLSv1_3, versions.TLSv1_3),
        (" TLSv1.2 ", versions.TLSv1_2, versions.TLSv1_2),
    ):
        context = context_for_clients("listener A", served(keystore, ssl_enabled_protocols=text)).current
        assert (context.minimum_version, context.maximum_version) == (lowest, highest)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_cipher_suites_by_either_name(authority: Authority, java: str, openssl: str) -> None:
    assert _openssl_name(java) == openssl
    context = context_for_clients("listener A", served(authority.keystore("shim.pem"), ssl_cipher_suites=java)).current
    of_tls_1_2 = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.2"]
    assert of_tls_1_2 == [openssl]


def test_cipher_suites_that_cannot_be(authority: Authority) -> None:
    keystore = authority.keystore("shim.pem")
    known = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    line = refusal(served(keystore, ssl_cipher_suites=f"{known},TLS_MADE_UP"))
    assert line.startswith("listener A: ssl.cipher.suites: OpenSSL knows no 'TLS_MADE_UP'")
    line = refusal(served(keystore, ssl_cipher_suites=f"{known},TLS_AES_128_GCM_SHA256"))
    assert "TLS_AES_128_GCM_SHA256 is of TLS 1.3" in line


def test_all_who_connect_to_brokers_share_one_context(authority: Authority) -> None:
    assert context_for_brokers(Settings()) is None
    settings = Settings(
        upstream_security_protocol="SASL_SSL",
        upstream_ssl_truststore_location=str(authority.truststore),
        upstream_sasl_username="shim",
        upstream_sasl_password="secret",
    )
    one = context_for_brokers(settings)
    assert isinstance(one, TlsContext)
    assert context_for_brokers(replace(settings, group_max_size=7)) is one
    assert one.current.check_hostname
    lax = context_for_brokers(replace(settings, upstream_ssl_endpoint_identification_algorithm=""))
    assert lax is not None
    assert lax is not one
    assert not lax.current.check_hostname
    assert lax.current.verify_mode.name == "CERT_REQUIRED"


def test_a_truststore_for_brokers_that_is_none(tmp_path: Path) -> None:
    settings = Settings(
        upstream_security_protocol="SSL", upstream_ssl_truststore_location=str(tmp_path / "missing.pem")
    )
    with pytest.raises(CannotUse) as refused:
        context_for_brokers(settings)
    assert str(refused.value) == (
        f"brokers: upstream.ssl.truststore.location: {tmp_path / 'missing.pem'}: No such file or directory"
    )
