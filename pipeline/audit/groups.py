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
        at_shim, at_brokers = groups_listed(shim), groups_listed(upstream)
        unlisted = (in_zookeeper | at_shim.keys()) - at_brokers.keys()
        at_brokers |= dict.fromkeys(led_by_nobody(upstream, unlisted), NO_LEADER)
    everywhere = sorted(in_zookeeper | at_shim.keys() | at_brokers.keys())
    groups = [group for group in everywhere if fnmatchcase(group, asked.groups)]
    steps = steps_of_groups(asked.admins, groups) if asked.admins else {}
    return [
        WhereGroup(group, group in in_zookeeper, at_shim.get(group), at_brokers.get(group), steps.get(group))
        for group in groups
    ]
