"""Three brokers without Docker, and two shims in front of them, by the page about the log on topics."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from shim.demo.parts import free_port, free_port_range
from tests.docs.collecting import commands_of_page
from tests.docs.conftest import READY
from tests.docs.desk import Desk
from tests.docs.pages import ROOT
from tests.docs.stories import SERVE_ON_TOPICS, THREE_BROKERS
from tests.serve.scraped import AdminPort
from tests.waiting import wait_until

_HOST: Final = "127.0.0.1"
_TIMEOUT_S: Final = 120.0  # a guard against hanging, on a machine that does much else at the same time
_BEFORE: Final = """
export JAVA_TOOL_OPTIONS='-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1'  # as all brokers of the tests have them
trap 'kill -9 $(jobs -p); exit 0' TERM"""


def the_loop(brokers: int, controllers: int) -> str:
    """As the page has it, with other ports: those behind ``brokers`` and ``controllers``."""
    _, _, section = (ROOT / "docs" / "log-on-topics.md").read_text().partition("## Three brokers without Docker")
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert commands_of_page(f"```sh\n{block}```") == [step.doc for step in THREE_BROKERS]
    block = block.replace("2909$i", f"$(({brokers} + i))").replace("2919$i", f"$(({controllers} + i))")
    typed = re.sub(r"2919(\d)", lambda found: str(controllers + int(found[1])), block)
    assert not re.search(r"29[01]9\d?", typed)
    return typed


@contextmanager
def three_brokers(desk: Desk) -> Iterator[str]:
    """Their addresses, once all are there; none runs afterwards."""
    brokers, controllers = free_port_range(4, _HOST), free_port_range(4, _HOST)
    (desk.folder / "three.sh").write_text(f"{_BEFORE}\n{the_loop(brokers, controllers)}wait\n")
    addresses = ",".join(f"{_HOST}:{brokers + number}" for number in (1, 2, 3))
    with desk.running("bash three.sh", None) as shell:
        try:
            admin = AdminClient({"bootstrap.servers": addresses, "log_level": 0})

            def all_are_there() -> bool:
                try:
                    return len(admin.list_topics(timeout=1.0).brokers) == 3
                except KafkaException:
                    return False

            wait_until(all_are_there, "three brokers", _TIMEOUT_S)
            yield addresses
        finally:
            shell.send_signal(signal.SIGTERM)  # it takes the brokers with it, which would outlive it otherwise
            shell.wait()


def another(folder: Path, addresses: str) -> Desk:
    """Where one of the shims is started."""
    admin = f"{_HOST}:{free_port()}"
    own = {
        "kafka-1:9092,kafka-2:9092,kafka-3:9092": addresses,
        "10.0.0.5:19092": f"{_HOST}:{free_port_range(5, _HOST)}",
        "10.0.0.5:19191": f"{_HOST}:{free_port()}",
        "/var/lib/offset-shim-topics": str(folder / "data"),
        "127.0.0.1:9644": admin,
    }
    return Desk(folder, own, admin)


def ready(desk: Desk) -> bool:
    status, said = AdminPort(desk.admin).get("/readyz")
    return (status, json.loads(said)["ready"]) == (200, True)


def test_two_shims_in_front_of_three_brokers_by_the_book(tmp_path: Path) -> None:
    with three_brokers(Desk(tmp_path / "brokers", {})) as addresses:
        one, two = (another(tmp_path / name, addresses) for name in ("one", "two"))
        with one.running(SERVE_ON_TOPICS.command, READY), two.running(SERVE_ON_TOPICS.command, READY):
            wait_until(lambda: ready(one) and ready(two), "both have what is theirs", _TIMEOUT_S)
            seen = one.log() + two.log()
            assert "made __offset_shim_offsets and __offset_shim_history" in seen
            assert re.search(r"generation \d+: .* shims: [\d.:]+, [\d.:]+", seen)
