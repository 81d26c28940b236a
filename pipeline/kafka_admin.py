"""A cluster asked as any administrator's tool asks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.admin import KafkaAdminClient

_CLIENT_ID: Final = "offset-pipeline"
_BOOTSTRAP_TIMEOUT_MS: Final = 10_000
_REQUEST_TIMEOUT_MS: Final = 30_000


def admin_of(bootstrap_servers: str, settings: Mapping[str, Any]) -> KafkaAdminClient:
    """Connected, and to be closed. ``settings``: of kafka-python. Raises its errors."""
    return KafkaAdminClient(
        bootstrap_servers=bootstrap_servers.split(","),
        client_id=_CLIENT_ID,
        bootstrap_timeout_ms=_BOOTSTRAP_TIMEOUT_MS,
        request_timeout_ms=_REQUEST_TIMEOUT_MS,
        **settings,
    )
