"""What `shims.listener` wants beside it, and what becomes of what is forwarded where something is not there."""

from __future__ import annotations

import pytest

from shim.api.entrusted import doubt_without_principals
from shim.config import HostPort, SettingError, Settings, load_configuration
from shim.listener_config import ShimsListener, listeners_of, shims_listener_of
from shim.security.authorizer import Authorizer
from shim.upstream import Cluster

KAFKA = ("offsets.log=kafka", "shims.listener=127.0.0.1:19191")
TLS = (
    "listener.security.protocol.map=shims:SSL",
    "listener.name.shims.ssl.client.auth=required",
    "shims.principals=shim-1, shim-2",
)
SASL = (
    "upstream.security.protocol=SASL_PLAINTEXT",
    "upstream.sasl.username=shim",
    "upstream.sasl.password=secret",
)


def listener(*given: str) -> ShimsListener | None:
    configuration = load_configuration(None, given)
    listeners_of(configuration, HostPort("127.0.0.1", 19092), None)
    return shims_listener_of(configuration)


def test_none_is_wanted() -> None:
    assert listener("offsets.log=kafka") is None


def test_plaintext() -> None:
    found = listener(*KAFKA)
    assert found is not None
    assert found[:3] == (HostPort("127.0.0.1", 19191), False, frozenset())


@pytest.mark.parametrize("more", [(), SASL])
def test_with_certificates(more: tuple[str, ...]) -> None:
    found = listener(*KAFKA, *TLS, *more)
    assert found is not None
    assert found[1:3] == (True, frozenset({"shim-1", "shim-2"}))
    assert found.settings.ssl_client_auth == "required"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (KAFKA[1:], "offsets.log=kafka"),
        ((*KAFKA[:1], "shims.listener=0.0.0.0:1"), "cannot connect to 0.0.0.0"),
        ((*KAFKA[:1], "shims.listener=nowhere"), "nowhere"),
        ((*KAFKA, "listener.security.protocol.map=shims:SASL_SSL"), "is not spoken between shims"),
        ((*KAFKA, "listener.security.protocol.map=SHIMS:SASL_SSL"), "is not spoken between shims"),
        ((*KAFKA, *SASL), "other shims have to, too"),
        ((*KAFKA, *SASL, *TLS[1:]), "other shims have to, too"),
        ((*KAFKA, *SASL, *TLS[:1], *TLS[2:]), "other shims have to, too"),
        ((*KAFKA, *SASL, *TLS[:2]), "other shims have to, too"),
        ((*KAFKA, "shims.principals=shim-1"), "nobody shows a certificate"),
        ((*KAFKA, "listeners=shims://127.0.0.1:1"), "the name of the one at shims.listener"),
        (("listener.name.shims.ssl.client.auth=required",), "there is no such listener"),
    ],
)
def test_what_is_refused(given: tuple[str, ...], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        listener(*given)


def test_who_believes_nobody_says_what_is_missing() -> None:
    authorizer = Authorizer(Cluster([HostPort("127.0.0.1", 9)], Settings()), Settings())
    said_nothing = doubt_without_principals(authorizer)
    authorizer.known.set()
    there_is_one = doubt_without_principals(authorizer)
    assert "no broker has said" in (said_nothing or "")
    assert "shims.principals" in (there_is_one or "")
    authorizer.absent = True
    assert doubt_without_principals(authorizer) is None
