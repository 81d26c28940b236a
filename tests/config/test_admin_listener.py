"""What is spoken at the admin interface, and what of its settings would be in vain."""

from __future__ import annotations

import pytest

from shim.config import SettingError, load_configuration
from shim.listener_config import admin_listener_of

_WANTED = "listener.name.admin.ssl.client.auth=required"


@pytest.mark.parametrize("name", ["admin", "ADMIN", "Admin"])
def test_its_name_is_in_any_case(name: str) -> None:
    found = admin_listener_of(
        load_configuration(None, ("admin.listen=h:1", f"listener.security.protocol.map={name}:SSL", _WANTED))
    )
    assert found is not None
    assert (found.speaks_tls, found.wants_certificates) == (True, True)


def test_certificates_are_not_wanted_in_vain() -> None:
    with pytest.raises(
        SettingError, match=r"listener.name.admin.ssl.client.auth: there is no TLS .* without admin:SSL"
    ):
        admin_listener_of(load_configuration(None, ("admin.listen=h:1", _WANTED)))


def test_what_clients_show_is_no_matter_of_its() -> None:
    found = admin_listener_of(load_configuration(None, ("admin.listen=h:1", "ssl.client.auth=required")))
    assert found is not None
    assert (found.speaks_tls, found.wants_certificates) == (False, False)
