"""`offset-shim demo` as its users run it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from shim.demo.parts import free_port, free_port_range
from tests.docs.desk import Desk
from tests.docs.pages import ROOT
from tests.docs.stories import BY_HAND, SERVE_BY_HAND, STARTED_AGAIN
from tests.waiting import wait_until

TIMEOUT_S = 240  # seconds: a guard against hanging, on a machine that does much else at the same time
COMMAND = (sys.executable, "-m", "shim.main", "demo")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment by which every process that the demo starts can be told: its folder for temporary files."""
    return {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert _processes_of(tmp_path) == []
    assert list(tmp_path.glob("offset-shim-demo-*")) == []


def _processes_of(folder: Path) -> list[Sequence[str]]:
    """The command lines of all processes whose environment names this folder as the one for temporary files."""
    found: list[Sequence[str]] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR") == str(folder):
                found.append(process.cmdline())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # ended meanwhile, or not of this user
    return found


def test_it_ends_with_a_report_in_which_every_check_holds(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--json", "--keep"], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["holds"]
    assert all(check["holds"] for check in report["checks"])
    assert len(report["log_end"]) == 4
    assert sum(report["log_end"].values()) == report["delivered"] > 0
    assert [group["group"] for group in report["groups"]] == [
        "demo-kafka-python",
        "demo-aiokafka",
        "demo-confluent-kafka",
    ]
    for group in report["groups"]:
        assert sum(group["consumed"].values()) >= report["delivered"]
        assert len(group["consumed"]) == 2
        assert group["committed"] == report["log_end"]
        assert group["acknowledged_before_kill"].keys() == report["log_end"].keys()
        assert all(group["found_after_kill"][p] >= o for p, o in group["acknowledged_before_kill"].items())
        assert group["at_broker"] == group["committed"]
    assert "shim killed with SIGKILL" in done.stderr
    assert "Traceback" not in done.stderr
    (folder,) = re.findall(r"kept: (\S+)", done.stderr)
    _its_broker_is_started_again(Path(folder), Desk(tmp_path / "desk", {"FOLDER": folder}))
    shutil.rmtree(folder)


def _its_broker_is_started_again(folder: Path, desk: Desk) -> None:
    """As docs/trying.md says."""
    properties = (folder / "broker" / "server.properties").read_text()
    (address,) = re.findall(r"^listeners=PLAINTEXT://([\d.:]+)", properties, re.MULTILINE)
    with desk.running(STARTED_AGAIN.command, None, status=128 + signal.SIGTERM):
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})

        def has_the_groups_of_the_demo() -> bool:
            try:
                listed = admin.list_consumer_groups(request_timeout=1.0).result()
            except KafkaException:
                return False
            return {"demo-kafka-python", "demo-aiokafka", "demo-confluent-kafka"} <= {
                it.group_id for it in listed.valid
            }

        wait_until(has_the_groups_of_the_demo, "the broker does not have the groups of the demo")
        _a_shim_takes_its_groups_over(desk, address)


def _a_shim_takes_its_groups_over(desk: Desk, address: str) -> None:
    desk.admin = f"127.0.0.1:{free_port()}"
    listen = f"127.0.0.1:{free_port_range(3, '127.0.0.1')}"
    desk.stands_for |= {"HOST:PORT": address, "127.0.0.1:19092": listen, "127.0.0.1:9644": desk.admin}
    with desk.running(SERVE_BY_HAND.command, "offset-shim ready"):
        for step in BY_HAND:
            assert step.says in desk.run(step.command).stdout, step
        (numbers,) = desk.run(f"{BY_HAND[-1].command} --json").json["offsets"]
        assert (numbers["offset"], numbers["lag"]) == (60, 40), "as docs/trying.md says"


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_a_signal_stops_everything(environment: dict[str, str], number: signal.Signals, tmp_path: Path) -> None:
    demo = subprocess.Popen(COMMAND, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    guard = threading.Timer(TIMEOUT_S, demo.kill)
    guard.start()
    try:
        assert demo.stdout is not None
        output = []
        for line in demo.stdout:
            output.append(line)
            if "starting the clients" in line:
                assert any("kafka.Kafka" in command for command in _processes_of(tmp_path))
                demo.send_signal(number)
    finally:
        guard.cancel()
        demo.kill()
        demo.wait()
        if demo.stdout:
            demo.stdout.close()
    assert demo.returncode == 128 + number, "".join(output)
    assert output[-1] == f"Error: stopped by {number.name}, nothing is left running\n"
    assert not any("Traceback" in line for line in output)


def _error_line(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.strip()


def test_no_java_is_one_line(environment: dict[str, str]) -> None:
    without = {name: value for name, value in environment.items() if name != "JAVA_HOME"} | {"PATH": "/nonexistent"}
    assert _error_line(without, *COMMAND[1:]).startswith("Error: no java on the PATH: install")


def test_no_maven_and_no_jars_is_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    java = shutil.which("java")
    assert java is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(java)
    without = {**environment, "PATH": str(tmp_path / "bin"), "OFFSET_SHIM_CACHE": str(tmp_path / "cache")}
    assert _error_line(without, *COMMAND[1:]).startswith("Error: no mvn on the PATH")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What `make demo` looks at before it installs anything; there is nothing that it could install."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("Makefile", "shim"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def _made(clone: Path, environment: dict[str, str]) -> str:
    make = shutil.which("make")
    assert make is not None
    # As from a terminal: what a make that runs the tests has left is told of in a line of its own.
    environment = {name: value for name, value in environment.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        [make, "-C", str(clone), "demo", f"PYTHON={sys.executable}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 2
    assert list(clone.glob(".venv")) == []
    return done.stderr


def test_make_looks_for_java_and_maven_before_it_installs(
    environment: dict[str, str], tmp_path: Path, clone: Path
) -> None:
    """It took two minutes, and 600 MB, before the demo said so."""
    empty = {name: value for name, value in environment.items() if name not in ("JAVA_HOME", "PYTHONPATH")}
    empty |= {"PATH": "/nonexistent", "OFFSET_SHIM_CACHE": str(tmp_path / "cache")}
    said, *_ = _made(clone, empty).splitlines()
    assert said.startswith("Error: no java on the PATH: install a Java runtime, 17 or newer (Debian: ")
    assert said.endswith("no mvn on the PATH, and kafka-4.3.1 is not in the cache yet: install Maven (Debian: maven)")
    assert "No rule to make target 'requirements-pip.lock'" in _made(clone, environment), "it goes on with both"


def test_java_is_looked_for_before_the_clients(environment: dict[str, str]) -> None:
    without = {name: value for name, value in environment.items() if name != "JAVA_HOME"} | {"PATH": "/nonexistent"}
    program = "import sys; sys.modules['aiokafka'] = None; from shim.main import cli; cli()"
    assert _error_line(without, "-c", program, "demo").startswith("Error: no java on the PATH: install")


def test_a_missing_client_library_is_one_line_and_serve_does_without(environment: dict[str, str]) -> None:
    program = "import sys; sys.modules['aiokafka'] = None; from shim.main import cli; cli()"
    assert _error_line(environment, "-c", program, "demo") == (
        "Error: aiokafka not installed: in the clone, pip install '.[demo]'"
    )
    clients = {"kafka", "aiokafka", "confluent_kafka"}
    program = f"import sys, shim.main, shim.serve; sys.exit(not {clients}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == 0
