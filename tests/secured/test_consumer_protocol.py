"""Members of the consumer protocol (KIP-848) where the shim may know less of their group than they do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from shim.demo.parts import free_port
from tests.admin.live.running import offset_shim
from tests.conftest import TopicFactory
from tests.migration.consumer_members import Member, until
from tests.secured.broker import Rule, SecuredBroker
from tests.secured.conftest import ALL_GROUPS, DESCRIBE_GROUPS, OF_ALICE, SHIM_RULES, shim_settings
from tests.secured.way import way_to
from tests.shim_process import Shim

_LESS = (Rule("shim", "READ", "TOPIC", "__consumer_offsets"), DESCRIBE_GROUPS, *ALL_GROUPS)


def test_without_the_right_to_describe_their_topics_they_go_through_it_all_the_same(
    own: SecuredBroker,
    tmp_path: Path,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
    request: pytest.FixtureRequest,
) -> None:
    """Brokers say nothing of such a group then but that it is one."""
    topic, group = (f"alice-{fresh_name()}" for _ in range(2))
    make_topic(2, name=topic, on=own.broker)
    own.revoke(*SHIM_RULES)
    request.addfinalizer(lambda: own.allow(*SHIM_RULES))
    own.allow(*OF_ALICE, *_LESS)
    admin = f"127.0.0.1:{free_port()}"
    args, settings = ["--admin", admin], shim_settings(own)
    with Shim(own.bootstrap_servers, tmp_path / "data", settings=settings, args=args, passes_groups=True) as shim:
        at_broker = {"bootstrap.servers": own.broker.bootstrap_servers}
        at_shim = way_to(shim.bootstrap, own).librdkafka("PLAIN", "alice")
        with closing(Member(at_broker, group, topic)) as first:
            until(lambda: len(first.assigned) == 2)
            with closing(Member(at_shim, group, topic)) as second:
                until(lambda: len(first.assigned) + len(second.assigned) == 2 and bool(second.assigned))
                assert not first.errors + second.errors
                planned = offset_shim("migrate", "plan", group, "--json", "--admin", admin)
                (row,) = planned.json["groups"]
                assert row["state"] == "Unknown"
                assert "the consumer protocol (KIP-848)" in row["hindrance"]


def test_of_a_group_that_the_shim_serves_they_are_told_all_the_same(
    own: SecuredBroker,
    tmp_path: Path,
    make_topic: TopicFactory,
    fresh_name: Callable[[], str],
    request: pytest.FixtureRequest,
) -> None:
    """Two coordinators are at work, whoever the members are."""
    topic, group = (f"alice-{fresh_name()}" for _ in range(2))
    make_topic(2, name=topic, on=own.broker)
    own.revoke(*SHIM_RULES)
    request.addfinalizer(lambda: own.allow(*SHIM_RULES))
    own.allow(*OF_ALICE, *_LESS)
    admin = f"127.0.0.1:{free_port()}"
    args, settings = ["--admin", admin], shim_settings(own)
    with Shim(own.bootstrap_servers, tmp_path / "data", settings=settings, args=args) as shim:
        at_shim = way_to(shim.bootstrap, own).librdkafka("PLAIN", "alice")
        with closing(Member(at_shim, group, topic, "classic")) as here:
            until(lambda: len(here.assigned) == 2)
        with closing(Member({"bootstrap.servers": own.broker.bootstrap_servers}, group, topic)) as past:
            until(lambda: len(past.assigned) == 2)

            def alarm() -> str:
                return str(
                    offset_shim("migrate", "status", group, "--json", "--admin", admin).json["groups"][0]["alarm"]
                )

            until(lambda: past.assigned is not None and "past the shim" in alarm())
            assert (
                "it has members in the cluster, past the shim, where it is a group of the consumer protocol" in alarm()
            )
            assert "once the shim's principal may Describe its topics" in alarm()
            back = offset_shim("migrate", "rollback", group, "--yes", "--json", "--admin", admin)
            (refused,) = back.json["not_done"]
            assert "where it is a group of the consumer protocol (KIP-848); stop them there" in refused["error"]
