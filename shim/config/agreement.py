"""What settings have to be to each other, a rule at a time. Each raises :class:`SettingError`, which names the settings
that do not go together."""

from __future__ import annotations

import re
from typing import Final

from shim.config.addresses import SettingError, parse_counts, parse_host_port

_TOPICS_PREFIX: Final = re.compile(r"[a-zA-Z0-9._-]{1,241}")
"""A topic's name has 249 characters at most, and `_offsets` and `_history` come behind it."""

_BROKERS_OWN: Final = "__consumer"
"""With `_offsets` behind it this is the topic that the cluster's own coordinators read."""


def check_session_timeouts(least_ms: int, most_ms: int) -> None:
    if least_ms > most_ms:
        raise SettingError(
            f"group.min.session.timeout.ms ({least_ms}) is larger than group.max.session.timeout.ms ({most_ms})"
        )


def check_connections_per_ip(most: int, overrides: str) -> None:
    if not parse_counts(overrides) and not most:
        raise SettingError("max.connections.per.ip can be 0 only where max.connections.per.ip.overrides is set")


def check_credentials(mechanism: str, username: str, password: str, token_url: str) -> None:
    """Where brokers authenticate: without any the shim could not ask them anything."""
    if mechanism == "OAUTHBEARER":
        if not token_url.startswith("file:///"):
            raise SettingError(
                f"upstream.sasl.oauthbearer.token.endpoint.url: {token_url!r} is not file:/// and the path of a file"
            )
    elif not username or not password:
        raise SettingError(
            f"upstream.sasl.mechanism {mechanism} needs upstream.sasl.username and upstream.sasl.password"
        )


def check_zookeeper_user(username: str, password: str, *, set_acl: bool) -> None:
    if bool(username) != bool(password):
        raise SettingError("zookeeper.username and zookeeper.password are of use only together")
    if set_acl and not username:
        raise SettingError("zookeeper.set.acl needs zookeeper.username: what is created has to be somebody's")


def check_statsd_address(address: str) -> None:
    """Empty: nothing is sent."""
    if not address:
        return
    try:
        parse_host_port(address)
    except SettingError as error:
        raise SettingError(f"metrics.statsd.address: {error}") from error


def check_topics_prefix(prefix: str) -> None:
    if not _TOPICS_PREFIX.fullmatch(prefix):
        raise SettingError(
            f"offsets.log.topics.prefix: {prefix!r} is not 1 to 241 letters, digits, dots, underscores and hyphens"
        )
    if prefix == _BROKERS_OWN:
        raise SettingError(f"offsets.log.topics.prefix: {prefix}_offsets is the cluster's own topic")
