"""What each API that the shim serves needs of the client, and where its refusals stand in the response.

As in Kafka 4.3 (KIP-11), and in its order: a group first, then its topics, and only then whether these exist and what
the coordinator says. So nobody learns of what he may not see. tests/authorization compares with a broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from protocol.apis import ApiKey
from shim.api.authorization import Policy
from shim.api.policies import commits, groups, membership, offset_fetch

POLICIES: Final[Mapping[ApiKey, Policy]] = {
    **membership.POLICIES,
    **commits.POLICIES,
    **offset_fetch.POLICIES,
    **groups.POLICIES,
}
"""The APIs that are served and not here ask the cluster for their whole answer, as the client: FindCoordinator and
ApiVersions."""
