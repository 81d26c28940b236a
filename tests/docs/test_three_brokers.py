"""Three brokers without Docker, and shims in front of them, by the page about the log on topics."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from shim.demo.parts import free_port, free_port_range
from tests.docs.collecting import commands_of_page
from tests.docs.conftest import READY
from tests.docs.desk import Desk
from tests.docs.pages import ROOT
from tests.docs.stories import BROKERS_ARE_THERE, SERVE_ON_TOPICS, THREE_BROKERS, THREE_SHIMS
from tests.serve.scraped import AdminPort
from tests.waiting import wait_until

_HOST: Final = "127.0.0.1"
_JARS: Final = "$HOME/.cache/offset-shim/jars/kafka-4.3.1/*"
_PORTS: Final = 8  # of a shim on the page: bootstrap, those of the brokers with node ids up to 3, and for other shims
_TIMEOUT_S: Final = 120.0  # a guard against hanging, on a machine that does much else at the same time
_BEFORE: Final = """
export JAVA_TOOL_OPTIONS='-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1'  # as all brokers of the tests have them
trap 'kill -9 $(jobs -p); exit 0' TERM"""


def the_loop(brokers: int, controllers: int) -> str:
    """As the page has it, with other ports: those behind ``brokers`` and ``controllers``."""
    _, _, section = (ROOT / "docs" / "log-on-topics.md").read_text().partition("## Three brokers without Docker")
    block, *behind = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert commands_of_page(f"```sh\n{block}```") == [step.doc for step in THREE_BROKERS]
    assert [commands_of_page(f"```sh\n{each}```") for each in behind] == [
        [BROKERS_ARE_THERE.doc],
        [step.doc for step in THREE_SHIMS],
    ]
    block = block.replace("2909$i", f"$(({brokers} + i))").replace("2919$i", f"$(({controllers} + i))")
    typed = re.sub(r"2919(\d)", lambda found: str(controllers + int(found[1])), block)
    assert not re.search(r"29[01]9\d?", typed)
    return typed


@contextmanager
def three_brokers(desk: Desk) -> Iterator[str]:
    """Their addresses, once all are there; none runs afterwards."""
    brokers, controllers = free_port_range(4, _HOST), free_port_range(4, _HOST)
    (desk.folder / "three.sh").write_text(f"{_BEFORE}\n{the_loop(brokers, controllers)}wait\n")
    addresses = [f"{_HOST}:{brokers + number}" for number in (1, 2, 3)]
    desk.stands_for |= {"$KAFKA": _JARS, "127.0.0.1:29091": addresses[0]}
    with desk.running("bash three.sh", None) as shell:
        try:
            admin = AdminClient({"bootstrap.servers": ",".join(addresses), "log_level": 0})

            def all_are_there() -> bool:
                try:
                    return len(admin.list_topics(timeout=1.0).brokers) == 3
                except KafkaException:
                    return False

            wait_until(all_are_there, "three brokers", _TIMEOUT_S)
            yield ",".join(addresses)
        finally:
            shell.send_signal(signal.SIGTERM)  # it takes the brokers with it, which would outlive it otherwise
            shell.wait()


def shims_of_the_page(folder: Path, addresses: str) -> Desk:
    """Where the three of them are started, with other ports. None of theirs is another's, as on the page."""
    own = {"127.0.0.1:29091,127.0.0.1:29092,127.0.0.1:29093": addresses}
    for number in range(3):
        listen = free_port_range(_PORTS, _HOST)
        own |= {
            f"{_HOST}:{19092 + 10 * number}": f"{_HOST}:{listen}",
            f"{_HOST}:{19099 + 10 * number}": f"{_HOST}:{listen + 7}",
            f"{_HOST}:{9644 + number}": f"{_HOST}:{free_port()}",
        }
    return Desk(folder, own)


def another(folder: Path, addresses: str) -> Desk:
    """Where one more is started."""
    admin = f"{_HOST}:{free_port()}"
    own = {
        "kafka-1:9092,kafka-2:9092,kafka-3:9092": addresses,
        "10.0.0.5:19092": f"{_HOST}:{free_port_range(5, _HOST)}",
        "10.0.0.5:19191": f"{_HOST}:{free_port()}",
        "/var/lib/offset-shim-topics": str(folder / "data"),
        "127.0.0.1:9644": admin,
    }
    return Desk(folder, own, admin)


def ready(admin: str) -> bool:
    status, said = AdminPort(admin).get("/readyz")
    return (status, json.loads(said)["ready"]) == (200, True)


def test_shims_in_front_of_three_brokers_by_the_book(tmp_path: Path) -> None:
    at_brokers = Desk(tmp_path / "brokers", {})
    with three_brokers(at_brokers) as addresses, ExitStack() as running:
        listed = at_brokers.run(BROKERS_ARE_THERE.command).stdout
        assert [line.split()[0] for line in listed.splitlines()[1:]] == ["1", "2", "3"], listed
        three, one_more = shims_of_the_page(tmp_path / "three", addresses), another(tmp_path / "more", addresses)
        for step in THREE_SHIMS:
            running.enter_context(three.running(step.command, READY))
        running.enter_context(one_more.running(SERVE_ON_TOPICS.command, READY))
        admins = [three.stands_for[f"{_HOST}:{9644 + number}"] for number in range(3)]
        wait_until(lambda: all(map(ready, (*admins, one_more.admin))), "all have what is theirs", _TIMEOUT_S)
        seen = three.log() + one_more.log()
        assert "made __offset_shim_offsets and __offset_shim_history" in seen
        assert re.search(r"generation \d+: .* with broker ids .* shims: [\d.:]+, [\d.:]+, [\d.:]+, [\d.:]+\n", seen)
