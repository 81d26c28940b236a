"""The question that tells whether a cluster has an authorizer, and whether who asks may DESCRIBE the cluster."""

from __future__ import annotations

from typing import Final

from protocol.messages import describe_acls

_TOPIC, _LITERAL, _DESCRIBE, _ALLOW = 2, 3, 8, 3  # Kafka's numbers (KIP-140)

NO_ACLS: Final = describe_acls.DescribeAclsRequest(
    _TOPIC,
    "?",
    _LITERAL,
    principal_filter="User:?",
    host_filter="*",
    operation=_DESCRIBE,
    permission_type=_ALLOW,
)
"""Asks for rules of which there are none: the name is of no topic. Its error is that of DESCRIBE on the cluster, or
SECURITY_DISABLED where a broker has no authorizer."""
