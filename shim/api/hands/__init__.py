"""In front of what the shim serves: is the group the shim's to serve, or is its request to be passed on?

What is passed on goes to the broker behind the connection, as this client, and what that answers is the answer: the
client was led there by FindCoordinator. Requests that make a group are where it is found out whose one is that nobody
has asked for; to all others such a group is the cluster's, which says that it knows nothing of it, if it does not.
"""

from __future__ import annotations

from protocol.apis import ApiKey
from shim.api.authorization import Handle, Policy, authorized
from shim.api.hands.by_owner import many_by_owner, one_by_owner
from shim.api.hands.listing import listing
from shim.api.hands.many import MANY, about_many
from shim.api.hands.one import about_one, finding_out

__all__ = ["by_hands"]


def by_hands(key: ApiKey, policy: Policy, handle: Handle) -> Handle:
    """The handler, for groups that the shim serves and for what the client may do with them."""
    served = authorized(policy, handle)
    if key == ApiKey.LIST_GROUPS:
        return listing(served)
    if key in MANY:
        return many_by_owner(key, policy, about_many(key, policy, served))
    opening = authorized(policy, finding_out(key, handle))
    return one_by_owner(key, policy, about_one(key, policy, served, opening))
