"""Which groups there are, and where: the driver's part of the reading, before Spark is needed."""

from __future__ import annotations

from fnmatch import fnmatchcase

from pipeline.audit.asked import Asked
from pipeline.audit.brokers import Brokers
from pipeline.audit.committed import groups_listed, led_by_nobody
from pipeline.audit.ensemble import Ensemble
from pipeline.audit.steps import steps_of_groups
from pipeline.audit.words import NO_LEADER, WhereGroup


def find_groups(asked: Asked) -> list[WhereGroup]:
    """Raises :class:`pipeline.audit.words.CannotRead`."""
    addresses = asked.addresses
    in_zookeeper: set[str] = set()
    if addresses.zookeeper:
        with Ensemble(addresses.zookeeper) as ensemble:
            in_zookeeper = set(ensemble.groups())
    with Brokers("the shim", addresses.shim) as shim, Brokers("the cluster", addresses.upstream) as upstream:
        (at_shim, share_groups), (at_brokers, shared_there) = groups_listed(shim), groups_listed(upstream)
        unlisted = (in_zookeeper | at_shim.keys()) - at_brokers.keys() - shared_there
        at_brokers |= dict.fromkeys(led_by_nobody(upstream, unlisted), NO_LEADER)
    with_offsets = in_zookeeper | at_shim.keys() | at_brokers.keys()
    share_groups = (share_groups | shared_there) - with_offsets
    groups = sorted(group for group in with_offsets | share_groups if fnmatchcase(group, asked.groups))
    asked_about = [group for group in groups if group not in share_groups]
    steps = steps_of_groups(asked.admins, asked_about) if asked.admins else {}
    return [
        WhereGroup(
            *(group, group in in_zookeeper, at_shim.get(group), at_brokers.get(group), steps.get(group)),
            is_share=group in share_groups,
        )
        for group in groups
    ]
