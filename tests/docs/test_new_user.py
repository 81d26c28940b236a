"""What somebody new does, by the README and the runbook alone: a shim, a group brought over, a look at the console."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from shim.demo.parts import free_port
from tests.docs.collecting import commands_of_page
from tests.docs.conftest import PARTITIONS, READY, Surroundings, given
from tests.docs.desk import KAFKAS_TOOLS, Desk
from tests.docs.pages import PAGES, ROOT, TRYING
from tests.docs.stories import SERVE_BY_HAND, STARTED_AGAIN
from tests.offsets.conftest import kazoo, put
from tests.serve.scraped import AdminPort

README = commands_of_page((ROOT / "README.md").read_text())
RUNBOOK = commands_of_page((ROOT / "docs" / "migration.md").read_text().partition("## The runbook")[2])
(SERVE,) = [command for command in README if command.startswith("offset-shim serve --") and "/var/lib/" in command]
PLAN, START, STATUS, VERIFY, ADVANCE = RUNBOOK[:5]


class Walk:
    """`page`: the console's address."""

    def __init__(self, desk: Desk, page: AdminPort, around: Surroundings) -> None:
        self.desk = desk
        self.page = page
        self.around = around
        self.group = around.old[1]
        desk.stands_for |= {"GROUP": self.group, "G": self.group}

    def command(self, documented: str) -> Any:
        """What it answers as JSON; it has to be one that they read."""
        assert documented in (*README, *RUNBOOK)
        return self.desk.run(f"{documented} --json").json

    def step(self) -> tuple[str, bool]:
        (found,) = self.command(STATUS)["groups"]
        return found["offsets_storage"], found["dual_commit_enabled"]

    def on_the_console(self) -> str:
        status, answer = self.page.document(f"/v1/groups/summary?search={self.group}")
        assert status == 200
        (found,) = answer["groups"]
        return str(found["step"])


@pytest.fixture
def walk(surroundings: Surroundings, tmp_path: Path) -> Iterator[Walk]:
    """What the README has them type, with the two options that the runbook asks for."""
    admin = f"127.0.0.1:{free_port()}"
    desk = Desk(tmp_path / "desk", given(surroundings, tmp_path, admin=admin), admin)
    with desk.running(f"{SERVE} --zookeeper {surroundings.connect} --admin 127.0.0.1:9644", READY):
        yield Walk(desk, AdminPort(admin), surroundings)
    assert desk.log().splitlines()[-1].endswith("stopped")


def next_read(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """By partition, where a consumer of today begins; it has committed that when this returns."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "error"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    found: dict[int, int] = {}
    try:
        consumer.subscribe([topic])
        while len(found) < PARTITIONS:
            message = consumer.poll(30.0)
            assert message is not None
            assert message.error() is None, message.error()
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            found.setdefault(partition, offset)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def test_from_zookeeper_to_kafka_by_the_book(walk: Walk) -> None:
    around, desk, group = walk.around, walk.desk, walk.group
    assert f"{len(around.old)} groups have offsets or consumers there" in desk.log()
    assert walk.page.get("/readyz") == (200, '{"ready":true,"missing":[]}')
    (planned,) = [each for each in walk.command(PLAN)["groups"] if each["group"] == group]
    assert (planned["offsets_storage"], planned["offsets"], planned["hindrance"]) == ("zookeeper", PARTITIONS, "")

    walk.command(START)
    assert (walk.step(), walk.on_the_console()) == (("zookeeper", True), "zookeeper+dual")
    with kazoo(around.connect) as old:
        old.create(f"/consumers/{group}/ids/{group}_old-1", b"{}", ephemeral=True, makepath=True)
        put(old, f"/consumers/{group}/offsets/{around.topic}/0", b"7")  # it works on meanwhile
        verified = walk.command(VERIFY)["groups"][0]
        assert (verified["offsets"], verified["differing"]) == (PARTITIONS, 0)
        walk.command(ADVANCE)
        assert (walk.step(), walk.on_the_console()) == (("kafka", True), "kafka+dual")
        # and is stopped here, as the runbook says.
    assert next_read(desk.stands_for["10.0.0.5:19092"], group, around.topic) == {0: 7, 1: 4}

    walk.command(ADVANCE)
    assert (walk.step(), walk.on_the_console()) == (("kafka", False), "kafka")
    assert group in {each["group"] for each in walk.command("offset-shim groups list --lag")["groups"]}
    assert {each["to"] for each in walk.command("offset-shim groups history G")["moves"]} >= {7, 10}

    status, page = walk.page.get("/")
    assert status == 200
    assert "<html" in page
    for _ in range(2):
        walk.command(ADVANCE)
    assert (walk.step(), walk.on_the_console()) == (("upstream", False), "upstream")
    told = desk.run("kafka-consumer-groups.sh --describe --group GROUP --bootstrap-server kafka-1:9092").stdout
    assert told.count(around.topic) == PARTITIONS


def test_what_goes_on_is_the_last_of_its_terminal() -> None:
    """Whoever pastes a block is not left at a command that does not end."""
    section = TRYING.read_text().partition("## Try it by hand\n")[2].partition("\n## ")[0]
    terminals = [commands_of_page(f"```\n{block}```") for block in re.findall(r"```\n(.*?)```", section, re.DOTALL)]
    assert terminals.pop(0) == [], "what is exported in each"
    assert len(terminals) == 3
    goes_on = (STARTED_AGAIN.doc, SERVE_BY_HAND.doc)
    assert [[at for at, each in enumerate(typed, 1) if each in goes_on] for typed in terminals] == [
        *([len(typed)] for typed in terminals[:2]),
        [],
    ]


def test_the_classes_of_kafkas_tools_are_named() -> None:
    """Of each that a text has, the one that is run there."""
    text = TRYING.read_text()
    named = dict(re.findall(r"^\| `(kafka-[a-z-]+\.sh)` \| `([\w.]+)` \|$", text, re.MULTILINE))
    assert named == KAFKAS_TOOLS
    assert named.keys() == {tool for page in PAGES for tool in re.findall(r"kafka-[a-z-]+\.sh", page.read_text())}
