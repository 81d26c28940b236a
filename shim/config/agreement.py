"""What settings have to be to each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from shim.config.addresses import SettingError, parse_counts, parse_host_port

if TYPE_CHECKING:
    from shim.config.settings import Settings

_TOPICS_PREFIX: Final = re.compile(r"[a-zA-Z0-9._-]{1,241}")
"""A topic's name has 249 characters at most, and `_offsets` and `_history` come behind it."""

_BROKERS_OWN: Final = "__consumer"
"""With `_offsets` behind it this is the topic that the cluster's own coordinators read."""


def check_together(settings: Settings) -> None:
    """Raises :class:`SettingError`, which names the settings, for values that do not go together."""
    if settings.group_min_session_timeout_ms > settings.group_max_session_timeout_ms:
        raise SettingError(
            f"group.min.session.timeout.ms ({settings.group_min_session_timeout_ms}) is larger than "
            f"group.max.session.timeout.ms ({settings.group_max_session_timeout_ms})"
        )
    overrides = parse_counts(settings.max_connections_per_ip_overrides)
    if not settings.max_connections_per_ip and not overrides:
        raise SettingError("max.connections.per.ip can be 0 only where max.connections.per.ip.overrides is set")
    if settings.brokers_authenticate:
        _check_credentials(settings)
    if bool(settings.zookeeper_username) != bool(settings.zookeeper_password):
        raise SettingError("zookeeper.username and zookeeper.password are of use only together")
    if settings.zookeeper_set_acl and not settings.zookeeper_username:
        raise SettingError("zookeeper.set.acl needs zookeeper.username: what is created has to be somebody's")
    if settings.metrics_statsd_address:
        _check_statsd_address(settings.metrics_statsd_address)
    _check_topics_prefix(settings.offsets_log_topics_prefix)


def _check_topics_prefix(prefix: str) -> None:
    if not _TOPICS_PREFIX.fullmatch(prefix):
        raise SettingError(
            f"offsets.log.topics.prefix: {prefix!r} is not 1 to 241 letters, digits, dots, underscores and hyphens"
        )
    if prefix == _BROKERS_OWN:
        raise SettingError(f"offsets.log.topics.prefix: {prefix}_offsets is the cluster's own topic")


def _check_statsd_address(address: str) -> None:
    try:
        parse_host_port(address)
    except SettingError as error:
        raise SettingError(f"metrics.statsd.address: {error}") from error


def _check_credentials(settings: Settings) -> None:
    """Without any the shim could not ask the brokers anything."""
    mechanism = settings.upstream_sasl_mechanism
    if mechanism == "OAUTHBEARER":
        url = settings.upstream_sasl_oauthbearer_token_endpoint_url
        if not url.startswith("file:///"):
            raise SettingError(
                f"upstream.sasl.oauthbearer.token.endpoint.url: {url!r} is not file:/// and the path of a file"
            )
    elif not settings.upstream_sasl_username or not settings.upstream_sasl_password:
        raise SettingError(
            f"upstream.sasl.mechanism {mechanism} needs upstream.sasl.username and upstream.sasl.password"
        )
