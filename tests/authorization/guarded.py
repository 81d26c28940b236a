"""A broker whose authorizer lets the clients of its plain listener do only what they were given the right to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from protocol.errors import ErrorCode
from protocol.messages import describe_groups, find_coordinator
from protocol.messages.describe_groups import DescribeGroupsRequest
from shim.demo.parts import Broker, free_port_range
from tests.waiting import wait_until
from tests.wire import WireClient

TIMEOUT_S: Final = 30.0
CLIENT: Final = "User:ANONYMOUS"
"""Whoever comes to the plain listener. All others have names, and are super users."""

_HOST: Final = "127.0.0.1"
_PASSWORD: Final = "admin's own"


class Rule(NamedTuple):
    """That the clients may, or may not, do something; ``name`` is a prefix, but for the cluster's."""

    resource: ResourceType
    name: str
    operation: AclOperation
    permission: AclPermissionType = AclPermissionType.ALLOW

    @property
    def binding(self) -> AclBinding:
        return AclBinding(self.resource, self.name, self._pattern, CLIENT, "*", self.operation, self.permission)

    @property
    def filter(self) -> AclBindingFilter:
        return AclBindingFilter(self.resource, self.name, self._pattern, CLIENT, "*", self.operation, self.permission)

    @property
    def _pattern(self) -> ResourcePatternType:
        # BROKER is what librdkafka calls the cluster.
        return ResourcePatternType.LITERAL if self.resource is ResourceType.BROKER else ResourcePatternType.PREFIXED


DESCRIBE_CLUSTER: Final = Rule(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
RULES: Final = (
    Rule(ResourceType.GROUP, "g-read", AclOperation.READ),
    Rule(ResourceType.GROUP, "g-describe", AclOperation.DESCRIBE),
    Rule(ResourceType.GROUP, "g-delete", AclOperation.DELETE),
    Rule(ResourceType.GROUP, "g-all", AclOperation.ALL),
    Rule(ResourceType.TOPIC, "__consumer_offsets", AclOperation.READ),  # the shim has the name that clients have
    Rule(ResourceType.TOPIC, "t-read", AclOperation.READ),
    Rule(ResourceType.TOPIC, "t-describe", AclOperation.DESCRIBE),
    # READ without DESCRIBE, which READ would have with it.
    Rule(ResourceType.TOPIC, "t-blind", AclOperation.READ),
    Rule(ResourceType.TOPIC, "t-blind", AclOperation.DESCRIBE, AclPermissionType.DENY),
    Rule(ResourceType.TRANSACTIONAL_ID, "x-write", AclOperation.WRITE),
    Rule(ResourceType.TRANSACTIONAL_ID, "x-describe", AclOperation.DESCRIBE),
)
"""Names say what the client may do: `g-read…` is a group that it may READ, `g-none…` one that it has no right to."""

TOPICS: Final = ("t-none", "t-read", "t-describe", "t-blind")
"""They have two partitions each."""


class Guarded:
    """The running broker. ``port`` is the plain listener's."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.port = broker.port
        self.admin = AdminClient(
            {
                "bootstrap.servers": f"{_HOST}:{broker.port + 1}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": _PASSWORD,
            }
        )

    def give(self, *rules: Rule) -> None:
        """Returns when the broker goes by them."""
        for future in self.admin.create_acls([rule.binding for rule in rules]).values():
            future.result(TIMEOUT_S)
        self._until(rules, there=True)

    def take(self, *rules: Rule) -> None:
        """Likewise."""
        for future in self.admin.delete_acls([rule.filter for rule in rules]).values():
            future.result(TIMEOUT_S)
        self._until(rules, there=False)

    def make_topics(self, names: Iterable[str]) -> None:
        for future in self.admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
            future.result(TIMEOUT_S)

    def _until(self, rules: Iterable[Rule], *, there: bool) -> None:
        for rule in rules:
            wait_until(
                lambda rule=rule: bool(self.admin.describe_acls(rule.filter).result(TIMEOUT_S)) is there,  # type: ignore[misc]
                f"the broker goes on as if {rule} had not changed",
            )


def made_broker(folder: Path, *, has_authorizer: bool = True, instead_of: Broker | None = None) -> Broker:
    """Not started yet. ``instead_of``: one that has ended, whose data and ports it takes over."""
    port = instead_of.port if instead_of is not None else free_port_range(3)
    controller = f"{_HOST}:{port + 2}"
    listeners = f"PLAINTEXT://{_HOST}:{port},ADMIN://{_HOST}:{port + 1},CONTROLLER://{controller}"
    login = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="admin" password="{_PASSWORD}" user_admin="{_PASSWORD}";'
    )
    authorizer: dict[str, str | int | bool] = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": False,
    }
    properties: dict[str, str | int | bool] = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ADMIN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "ADMIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.admin.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
    }
    if has_authorizer:
        properties |= authorizer
    broker = Broker(folder, properties=properties)
    broker.quorum = instead_of.quorum if instead_of is not None else broker.quorum._replace(controller=controller)
    broker.port = port
    return broker


@contextmanager
def guarded_broker(folder: Path) -> Iterator[Guarded]:
    """A broker with `RULES` and `TOPICS`, whose coordinator works."""
    with made_broker(folder) as broker:
        guarded = Guarded(broker)
        guarded.give(*RULES)
        guarded.make_topics(TOPICS)
        _have_a_coordinator(guarded)
        yield guarded


def _have_a_coordinator(guarded: Guarded) -> None:
    """A broker makes its topic of offsets when somebody looks for a coordinator."""
    guarded.admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    with WireClient(guarded.port) as client:

        def has_one() -> bool:
            find = find_coordinator.FindCoordinatorRequest(key="g-describe", key_type=0)
            client.ask(find_coordinator.API, 1, find)
            (group,) = client.ask(describe_groups.API, 0, DescribeGroupsRequest(("g-describe",))).groups
            return group.error_code == ErrorCode.NONE

        wait_until(has_one, "no coordinator")
