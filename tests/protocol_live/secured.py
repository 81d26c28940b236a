"""Brokers that ask who is there and what they may do: a SASL listener beside the plain one, and an authorizer."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)

from protocol.messages import describe_acls, sasl_authenticate, sasl_handshake
from shim.demo.parts import Broker, free_port_range
from shim.demo.parts.jars import KAFKA
from tests.legacy.parts import KAFKA_3, LegacyBroker
from tests.protocol_live.place import Place
from tests.waiting import wait_until
from tests.wire import WireClient

PASSWORDS: Final = {"admin": "admin's secret", "alice": "alice's secret", "bob": "bob's secret"}
"""The users that PLAIN knows: a super user, one with the rights in `ACLS`, and one with rights to nothing used here."""

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256")
SESSION_LIFETIME_MS: Final = 3_600_000

_HOST: Final = "127.0.0.1"

_AUTHORIZERS: Final[Mapping[str, str]] = {
    KAFKA_3: "kafka.security.authorizer.AclAuthorizer",  # ACLs are in ZooKeeper
    KAFKA: "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}

ANY: Final = 1  # of every type in a filter of ACLs
LITERAL: Final = 3


class Acl(NamedTuple):
    """One rule, in the numbers that go over the wire."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


def _acl(
    resource_type: str,
    resource_name: str,
    principal: str,
    operation: str,
    *,
    pattern_type: str = "LITERAL",
    host: str = "*",
    permission_type: str = "ALLOW",
) -> Acl:
    # The numbers are kafka-python's, so that ours have somebody to disagree with.
    return Acl(
        int(ResourceType[resource_type]),
        resource_name,
        int(ACLResourcePatternType[pattern_type]),
        f"User:{principal}",
        host,
        int(ACLOperation[operation]),
        int(ACLPermissionType[permission_type]),
    )


ACLS: Final = frozenset(
    {
        _acl("TOPIC", "topic-", "alice", "READ", pattern_type="PREFIXED"),
        _acl("GROUP", "group-", "alice", "READ", pattern_type="PREFIXED"),
        _acl("CLUSTER", "kafka-cluster", "alice", "DESCRIBE"),
        # Two rules of one resource, and a resource of the same name but another pattern.
        _acl("TOPIC", "orders", "bob", "WRITE", host="127.0.0.9", permission_type="DENY"),
        _acl("TOPIC", "orders", "zoë", "ALTER_CONFIGS"),
        _acl("TOPIC", "orders", "zoë", "DESCRIBE_CONFIGS", pattern_type="PREFIXED"),
        _acl("TRANSACTIONAL_ID", "*", "bob", "ALL"),
        _acl("DELEGATION_TOKEN", "token", "bob", "DESCRIBE"),
        _acl("USER", "User:alice", "bob", "CREATE_TOKENS"),
    }
)
"""Every rule that the brokers here have."""


class Secured(NamedTuple):
    """A running broker. `port` takes everybody, as ANONYMOUS, who is a super user; `sasl_port` wants SASL."""

    release: str
    port: int
    sasl_port: int

    def stranger(self) -> Place:
        """A connection that has to authenticate yet."""
        return Place(self.sasl_port, self.release)

    def place(self, user: str) -> Place:
        """A connection that has authenticated with PLAIN."""
        place = self.stranger()
        try:
            assert handshake(place, 1, "PLAIN").error_code == 0
            request = sasl_authenticate.SaslAuthenticateRequest(plain(user))
            assert place.ask(sasl_authenticate.API, 2, request).error_code == 0
        except BaseException:
            place.client.close()
            raise
        return place


def plain(user: str, password: str | None = None) -> bytes:
    """The one message of PLAIN (RFC 4616)."""
    return f"\0{user}\0{PASSWORDS[user] if password is None else password}".encode()


def handshake(place: Place, version: int, mechanism: str) -> sasl_handshake.SaslHandshakeResponse:
    return place.ask(sasl_handshake.API, version, sasl_handshake.SaslHandshakeRequest(mechanism))


def send_bare(client: WireClient, token: bytes) -> None:
    """A frame without a header, as SASL messages are sent after SaslHandshake 0."""
    client.socket.sendall(struct.pack(">i", len(token)) + token)


def described(response: describe_acls.DescribeAclsResponse) -> list[Acl]:
    return [
        Acl(resource.resource_type, resource.resource_name, resource.pattern_type, *acl[:4])
        for resource in response.resources
        for acl in resource.acls
    ]


@contextmanager
def secured_broker(folder: Path, release: str) -> Iterator[Secured]:
    """A broker of `release` (3.9.2 or 4.3.1) with the users in `PASSWORDS` and the rules in `ACLS`."""
    port = free_port_range(3)
    listeners = f"PLAINTEXT://{_HOST}:{port},SASL_PLAINTEXT://{_HOST}:{port + 1}"
    controller = f"{_HOST}:{port + 2}"
    if release == KAFKA:
        listeners += f",CONTROLLER://{controller}"
    users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    properties: dict[str, str | int] = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            if release == KAFKA
            else "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "connections.max.reauth.ms": SESSION_LIFETIME_MS,
        "authorizer.class.name": _AUTHORIZERS[release],
        "super.users": "User:admin;User:ANONYMOUS",
    }
    broker: Broker | LegacyBroker
    if release == KAFKA:
        broker = Broker(folder, properties=properties)
        broker.quorum = broker.quorum._replace(controller=controller)
    else:
        broker = LegacyBroker(folder, release, properties=properties)
    broker.port = port
    with broker:
        secured = Secured(release, port, port + 1)
        _create_acls(secured)
        yield secured


def _create_acls(secured: Secured) -> None:
    admin = KafkaAdminClient(
        bootstrap_servers=f"{_HOST}:{secured.sasl_port}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="admin",
        sasl_plain_password=PASSWORDS["admin"],
    )
    try:
        result = admin.create_acls(
            [
                ACL(
                    acl.principal,
                    acl.host,
                    ACLOperation(acl.operation),
                    ACLPermissionType(acl.permission_type),
                    ResourcePattern(
                        ResourceType(acl.resource_type), acl.resource_name, ACLResourcePatternType(acl.pattern_type)
                    ),
                )
                for acl in ACLS
            ]
        )
    finally:
        admin.close()
    assert (len(result["succeeded"]), result["failed"]) == (len(ACLS), [])
    with Place(secured.port, secured.release) as place:
        wait_until(
            lambda: len(described(place.ask(describe_acls.API, 3, everything(3)))) >= len(ACLS),
            "the broker's authorizer has not heard of them",
        )


def everything(version: int) -> describe_acls.DescribeAclsRequest:
    """A filter that lets all rules through: in version 0, all of literal names."""
    return describe_acls.DescribeAclsRequest(
        ANY,
        None,
        ANY if version else LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
