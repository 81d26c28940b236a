"""Secured brokers, and shims in front of them, for all tests that do not change them: SASL_SSL on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from shim.demo.parts.broker import Properties
from tests.certificates import Authority
from tests.protocol_live.place import Place
from tests.secured.broker import Door, Rule, SecuredBroker, secured_broker
from tests.secured.users import PASSWORDS
from tests.shim_process import Shim

DESCRIBE_GROUPS = Rule("shim", "DESCRIBE", "GROUP", "*")
ALL_GROUPS = (Rule("shim", "READ", "GROUP", "*"), Rule("shim", "DELETE", "GROUP", "*"))
"""Each of which says that they may be described, too."""

SHIM_RULES = (
    Rule("shim", "DESCRIBE", "TOPIC", "*"),
    DESCRIBE_GROUPS,
    Rule("shim", "READ", "TOPIC", "__consumer_offsets"),
    # For the mirror.
    Rule("shim", "READ", "TOPIC", "*"),
    *ALL_GROUPS,
)
"""What the shim itself has to be allowed (docs/security.md)."""

OF_ALICE = tuple(Rule("alice", "ALL", kind, "alice", prefixed=True) for kind in ("TOPIC", "GROUP"))

CREDENTIALS: Final = {
    "upstream.sasl.mechanism": "SCRAM-SHA-512",
    "upstream.sasl.username": "shim",
    "upstream.sasl.password": PASSWORDS["shim"],
}


def shim_settings(secured: SecuredBroker) -> dict[str, str | int]:
    """Of a shim that speaks with clients what its broker does."""
    settings: dict[str, str | int] = {**CREDENTIALS, "upstream.security.protocol": secured.security_protocol}
    if secured.authority is not None:
        settings |= {
            "security.protocol": secured.security_protocol,
            "ssl.keystore.location": str(secured.authority.keystore("shim.pem", common_name="shim")),
            "upstream.ssl.truststore.location": str(secured.authority.truststore),
        }
    return settings


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Of all certificates here but those that are to be refused."""
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[SecuredBroker]:
    """`alice` may do everything with topics and groups whose names begin with `alice`; `bob` and `carol` nothing."""
    lifetime = {"connections.max.reauth.ms": 3_600_000}  # without, brokers let nobody authenticate again
    with secured_broker(tmp_path_factory.mktemp("secured"), authority=authority, properties=lifetime) as running:
        running.allow(*SHIM_RULES, *OF_ALICE)
        with Place(running.broker.port, running.broker.release) as place:
            place.new_group()  # so that the broker coordinates groups, and says of each what is wrong with it
        yield running


@pytest.fixture(scope="session")
def secured_shim(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    data_dir = tmp_path_factory.mktemp("secured-shim") / "data"
    with Shim(secured.bootstrap_servers, data_dir, settings=shim_settings(secured)) as running:
        yield running


@pytest.fixture(scope="session")
def shim_door(secured: SecuredBroker, secured_shim: Shim) -> Door:
    """The shim's port for the broker."""
    return secured.door_at(secured_shim.broker_port(secured.broker.node_id))


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[SecuredBroker]:
    """One whose users and rules tests change. It grants short sessions, and has no SCRAM-SHA-256."""
    properties: Properties = {"connections.max.reauth.ms": 1500, "delegation.token.secret.key": "secret"}
    mechanisms = ["PLAIN", "SCRAM-SHA-512"]
    folder = tmp_path_factory.mktemp("own")
    with secured_broker(folder, authority=authority, mechanisms=mechanisms, properties=properties) as running:
        yield running
