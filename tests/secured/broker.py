"""A real broker that asks who is there and what they may do.

It has a plain listener beside the one with SASL: whoever comes by that is ANONYMOUS, a super user, so that tests can
make topics, users and rules past the shim.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from shim.config import HostPort
from shim.demo.parts import Broker, free_port_range
from shim.demo.parts.broker import Properties
from tests.certificates import Authority
from tests.secured.users import MECHANISMS, PASSWORDS
from tests.waiting import wait_until
from tests.wire import WireClient

_HOST: Final = "127.0.0.1"
_TIMEOUT_S: Final = 30.0
_ITERATIONS: Final = 4096
_LOGIN: Final = "org.apache.kafka.common.security"
_UNSECURED_ISSUER: Final = f'{_LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="shim";'


_LIBRDKAFKAS_NAMES: Final = {"CLUSTER": "BROKER"}


class Rule(NamedTuple):
    """What an ACL allows (or denies) one user, from any host."""

    user: str
    operation: str
    resource_type: str
    resource_name: str
    prefixed: bool = False
    allow: bool = True

    @property
    def binding(self) -> AclBinding:
        return AclBinding(
            ResourceType[
                "BROKER" if self.resource_type == "CLUSTER" else self.resource_type
            ],  # librdkafka's name for it
            self.resource_name,
            ResourcePatternType.PREFIXED if self.prefixed else ResourcePatternType.LITERAL,
            f"User:{self.user}",
            "*",
            AclOperation[self.operation],
            AclPermissionType.ALLOW if self.allow else AclPermissionType.DENY,
        )


class Door(NamedTuple):
    """A port where SASL is wanted, and how to speak there: TLS, or None."""

    port: int
    context: ssl.SSLContext | None = None

    def client(self) -> WireClient:
        return WireClient(self.port, context=self.context)


class SecuredBroker(NamedTuple):
    """`broker.bootstrap_servers` takes everybody, as ANONYMOUS, who is a super user; `sasl` wants SASL, over TLS where
    there is an `authority`: that of its certificate.
    """

    broker: Broker
    sasl: HostPort
    authority: Authority | None

    @property
    def security_protocol(self) -> str:
        return "SASL_PLAINTEXT" if self.authority is None else "SASL_SSL"

    @property
    def bootstrap_servers(self) -> str:
        """Where clients have to authenticate."""
        return str(self.sasl)

    @property
    def door(self) -> Door:
        return self.door_at(self.sasl.port)

    def door_at(self, port: int) -> Door:
        """Another one where the same is spoken, with a certificate of the same authority: the shim's."""
        return Door(port, None if self.authority is None else self.context())

    def context(self, keystore: Path | None = None) -> ssl.SSLContext:
        """A client's, that trusts the authority."""
        assert self.authority is not None
        made = ssl.create_default_context(cafile=self.authority.truststore)
        if keystore is not None:
            made.load_cert_chain(keystore)
        return made

    @property
    def admin(self) -> AdminClient:
        """A new one, by the plain listener; what it has begun ends with it."""
        return AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})

    def allow(self, *rules: Rule) -> None:
        """Returns when the broker knows them."""
        admin = self.admin
        for future in admin.create_acls([rule.binding for rule in rules]).values():
            future.result(_TIMEOUT_S)
        wait_until(lambda: {rule.binding for rule in rules} <= self.rules(), "the broker has not heard of them")

    def revoke(self, *rules: Rule) -> None:
        """Returns when the broker knows that they are gone."""
        admin = self.admin
        for future in admin.delete_acls([_only(rule) for rule in rules]).values():
            future.result(_TIMEOUT_S)
        wait_until(lambda: not {rule.binding for rule in rules} & self.rules(), "the broker goes on with them")

    def rules(self) -> set[AclBinding]:
        anything: Any = None
        everything = AclBindingFilter(
            ResourceType.ANY,
            anything,
            ResourcePatternType.ANY,
            anything,
            anything,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        admin = self.admin
        return set(admin.describe_acls(everything).result(_TIMEOUT_S))

    def add_scram_user(self, user: str, password: str) -> None:
        """For both kinds of SCRAM."""
        admin = self.admin
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):  # a request takes one of a user
            info = ScramCredentialInfo(mechanism, _ITERATIONS)
            change = UserScramCredentialUpsertion(user, info, password.encode())
            admin.alter_user_scram_credentials([change])[user].result(_TIMEOUT_S)


def _only(rule: Rule) -> AclBindingFilter:
    it = rule.binding
    return AclBindingFilter(
        it.restype, it.name, it.resource_pattern_type, it.principal, it.host, it.operation, it.permission_type
    )


@contextmanager
def secured_broker(
    folder: Path,
    *,
    authority: Authority | None = None,
    mechanisms: Sequence[str] = MECHANISMS,
    properties: Properties | None = None,
    scram_users: Mapping[str, str] = PASSWORDS,
) -> Iterator[SecuredBroker]:
    """One with the users in `PASSWORDS` and no rules but that `admin` may do everything.

    With an `authority` it speaks SASL_SSL, otherwise SASL_PLAINTEXT. Further `properties` are those of the broker, as
    `{"connections.max.reauth.ms": 3000}`.
    """
    port = free_port_range(3)
    listeners = f"PLAINTEXT://{_HOST}:{port},SASL://{_HOST}:{port + 1}"
    controller = f"{_HOST}:{port + 2}"
    users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    jaas = {
        "PLAIN": f"{_LOGIN}.plain.PlainLoginModule required {users};",
        "SCRAM-SHA-256": f"{_LOGIN}.scram.ScramLoginModule required;",
        "SCRAM-SHA-512": f"{_LOGIN}.scram.ScramLoginModule required;",
        "OAUTHBEARER": _UNSECURED_ISSUER,
    }
    tls: dict[str, str | int | bool] = {}
    if authority is not None:
        tls = {
            "listener.name.sasl.ssl.keystore.type": "PEM",
            "listener.name.sasl.ssl.keystore.location": str(
                authority.keystore(f"broker-{port}.pem", common_name="broker")
            ),
        }
    security_protocol = "SASL_PLAINTEXT" if authority is None else "SASL_SSL"
    settings: dict[str, str | int | bool] = {
        "listeners": f"{listeners},CONTROLLER://{controller}",
        "advertised.listeners": f"{listeners},CONTROLLER://{controller}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,SASL:{security_protocol},CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(mechanisms),
        **{f"listener.name.sasl.{name.lower()}.sasl.jaas.config": jaas[name] for name in mechanisms},
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        **tls,
        **(properties or {}),
    }
    broker = Broker(folder, properties=settings)
    broker.port = port
    broker.quorum = broker.quorum._replace(controller=controller)
    with broker:
        secured = SecuredBroker(broker, HostPort(_HOST, port + 1), authority)
        if any(name.startswith("SCRAM") for name in mechanisms):
            for user, password in scram_users.items():
                secured.add_scram_user(user, password)
        yield secured
