"""Users with different rights, each by his own name: the same answers through the shim as at the broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest
from confluent_kafka.cimpl import NewTopic

from protocol.errors import ErrorCode
from tests.authorization import test_same_answers as same
from tests.authorization.guarded import RULES, TOPICS
from tests.authorization.test_rights import assert_kept_out, commit, fetch
from tests.secured.broker import Door, Rule, SecuredBroker
from tests.secured.conftest import shim_settings
from tests.secured.dialogue import logged_in
from tests.shim_process import Shim

CACHE_MS: Final = 500
MECHANISMS: Final = {"bob": "PLAIN", "carol": "SCRAM-SHA-512", "admin": "SCRAM-SHA-256"}
GROUP: Final = "g-all-of-carol"
CAROLS: Final = [
    Rule("carol", rule.operation.name, rule.resource.name, rule.name, True, rule.permission.name == "ALLOW")
    for rule in RULES
]


class Doors(NamedTuple):
    """The broker's own, and the shim's port for it."""

    direct: Door
    shim: Door


@pytest.fixture(scope="module")
def doors(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """`bob` has no right, `carol` a few, `admin` is a super user."""
    admin = secured.admin  # kept until the topics are there
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in TOPICS]).values():
        future.result(30)
    secured.allow(*CAROLS)
    settings = {**shim_settings(secured), "authorization.cache.ms": CACHE_MS}
    data_dir = tmp_path_factory.mktemp("rights") / "data"
    try:
        with Shim(secured.bootstrap_servers, data_dir, settings=settings) as shim:
            yield Doors(secured.door, secured.door_at(shim.broker_port(secured.broker.node_id)))
    finally:
        secured.revoke(*CAROLS)


@pytest.mark.parametrize("user", MECHANISMS)
def test_a_user_gets_the_same_answers_through_the_shim(doors: Doors, user: str) -> None:
    with (
        logged_in(doors.direct, user, MECHANISMS[user]) as direct,
        logged_in(doors.shim, user, MECHANISMS[user]) as client,
    ):
        for scenario in same.SCENARIOS:
            if user == "admin" and scenario in (same.transactional_commits, same.coordinators):
                continue  # he may: nobody has begun such transactions, and ports are not the same
            same.assert_same(scenario, direct, client)


def test_one_users_rights_are_no_others(secured: SecuredBroker, doors: Doors) -> None:
    """In the same moment one may and the others may not; and one who may no longer may not soon after."""
    with (
        logged_in(doors.shim, "carol", MECHANISMS["carol"]) as carol,
        logged_in(doors.shim, "bob") as bob,
        logged_in(doors.shim, "alice", "SCRAM-SHA-256") as alice,
    ):
        assert commit(carol, GROUP, 7) == ErrorCode.NONE
        for other in (bob, alice):
            assert_kept_out(other, GROUP)
        assert fetch(carol, GROUP) == (ErrorCode.NONE, [7])
        secured.revoke(*CAROLS)
        try:
            time.sleep(1.2 * CACHE_MS / 1000)  # so long is an answer believed
            assert_kept_out(carol, GROUP)
        finally:
            secured.allow(*CAROLS)
        time.sleep(1.2 * CACHE_MS / 1000)  # and so long one that says no
        assert fetch(carol, GROUP) == (ErrorCode.NONE, [7])
