"""In front of what the shim serves: is the group the shim's to serve, or is its request to be passed on?

What is passed on goes to the broker behind the connection, as this client, and what that answers is the answer: the
client was led there by FindCoordinator. Requests that make a group are where it is found out whose one is that nobody
has asked for; to all others such a group is the cluster's, which says that it knows nothing of it, if it does not.
"""

from __future__ import annotations

from shim.api.authorization import Handle, Policy, authorized
from shim.api.hands.by_owner import many_by_owner, one_by_owner
from shim.api.hands.listing import listing
from shim.api.hands.many import ManyGroups, about_many
from shim.api.hands.one import OneGroup, about_one

__all__ = ["ManyGroups", "OneGroup", "of_all_groups", "of_many_groups", "of_one_group"]


def of_one_group(its: OneGroup, policy: Policy, handle: Handle) -> Handle:
    """The handler, for groups that the shim serves and for what the client may do with them."""
    return one_by_owner(its.kept, policy, about_one(its, policy, handle))


def of_many_groups(its: ManyGroups, policy: Policy, handle: Handle) -> Handle:
    """Likewise, for requests about several groups."""
    return many_by_owner(its.divided, policy, about_many(its, policy, handle))


def of_all_groups(policy: Policy, handle: Handle) -> Handle:
    """Likewise, for those that list groups."""
    return listing(authorized(policy, handle))
