"""A group of old consumers on one machine, without Docker, by the page about the migration."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from shim.demo.parts import Broker, free_port, free_port_range, jar_set
from tests.docs.collecting import commands_of_page
from tests.docs.conftest import READY
from tests.docs.desk import Desk
from tests.docs.pages import ROOT
from tests.docs.stories import OLD_CONSUMER, OLD_PRODUCER, OLD_ZOOKEEPER, REHEARSAL, SERVE_A_REHEARSAL
from tests.docs.table import NOT_HERE
from tests.legacy.parts import KAFKA_1
from tests.offsets.conftest import kazoo
from tests.waiting import wait_until

_HOST: Final = "127.0.0.1"
_ENDED_BY_SIGTERM: Final = 143  # a Java virtual machine
_, _, _REST = (ROOT / "docs" / "migration.md").read_text().partition("## A rehearsal without Docker")
SECTION: Final = _REST.partition("\n## ")[0]


def given(broker: Broker, admin: str, group: str) -> dict[str, str]:
    return {
        "HOST:PORT": broker.bootstrap_servers,
        "127.0.0.1:19092": f"{_HOST}:{free_port_range(5, _HOST)}",
        "127.0.0.1:9644": admin,
        "127.0.0.1:29181": f"{_HOST}:{free_port()}",
        "GROUP": group,
    }


def planned(desk: Desk) -> list[tuple[Any, ...]]:
    rows = desk.run("offset-shim migrate plan GROUP --json").json["groups"]
    return [(row["offsets_storage"], row["offsets"], row["hindrance"]) for row in rows]


def test_an_old_consumer_by_the_book(broker: Broker, tmp_path: Path, fresh_name: Callable[[], str]) -> None:
    fetch, *there = [command for command in commands_of_page(SECTION) if command.startswith(("java", "mvn", "seq"))]
    assert fetch in NOT_HERE
    assert there == [step.doc for step in REHEARSAL if step is not SERVE_A_REHEARSAL]
    admin = f"{_HOST}:{free_port()}"
    desk = Desk(tmp_path / "desk", given(broker, admin, fresh_name()), admin)
    (desk.folder / "old").symlink_to(jar_set(KAFKA_1).folder)
    at = desk.stands_for["127.0.0.1:29181"]
    (settings,) = re.findall(r"zoo\.cfg <<END\n(.*?)END\n", SECTION, re.DOTALL)
    (desk.folder / "zoo.cfg").write_text(settings.replace("=29181", f"={at.rpartition(':')[2]}"))
    with (
        desk.running(OLD_ZOOKEEPER.command, None, status=_ENDED_BY_SIGTERM),
        kazoo(at) as znodes,
        desk.running(SERVE_A_REHEARSAL.command, READY),
    ):
        desk.run(OLD_PRODUCER.command)
        wait_until(lambda: znodes.exists("/brokers/topics/numbers"), "the topic is not registered")
        read = desk.run(OLD_CONSUMER.command).stdout.split()
        assert (len(read), read[-1]) == (60, OLD_CONSUMER.says)
        assert planned(desk) == [("zookeeper", 1, "")]
