"""What cannot be read is one line, and exit status 2."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.main import cli
from shim.demo.parts import Broker, ZooKeeper, free_port
from tests.pipeline.commands import in_a_process


def run(*args: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """In this process; whatever it raises beside its exit status fails the test."""
    done = CliRunner().invoke(cli, ["audit", *args], env=env, catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


def refused(*args: str, env: Mapping[str, str] | None = None) -> str:
    """The one line."""
    status, stdout, stderr = run(*args, env=env)
    assert (status, stdout) == (2, ""), stderr
    assert stderr.startswith("Error: ")
    assert stderr.count("\n") == 1
    return stderr.removeprefix("Error: ").rstrip()


@pytest.fixture
def at_broker(broker: Broker) -> list[str]:
    """As if it were the shim, too: what is asked of that it has."""
    return ["--shim", broker.bootstrap_servers, "--upstream", broker.bootstrap_servers]


@pytest.fixture
def nobody() -> str:
    return f"127.0.0.1:{free_port()}"


def test_no_shim(broker: Broker, nobody: str) -> None:
    line = refused("--shim", nobody, "--upstream", broker.bootstrap_servers)
    assert line == f"the shim: no broker answers at {nobody}: Connection refused"


def test_no_cluster(broker: Broker, nobody: str) -> None:
    line = refused("--shim", broker.bootstrap_servers, "--upstream", nobody)
    assert line == f"the cluster: no broker answers at {nobody}: Connection refused"


def test_no_zookeeper(at_broker: list[str], nobody: str) -> None:
    line = refused(*at_broker, "--zookeeper", nobody)
    assert line == f"no ZooKeeper answers at {nobody}: {nobody}: Connection refused"


def test_no_such_chroot(at_broker: list[str], zookeeper: ZooKeeper) -> None:
    line = refused(*at_broker, "--zookeeper", f"{zookeeper.connect_string}/nowhere")
    assert line == f"ZooKeeper at {zookeeper.connect_string}/nowhere has no znode /nowhere"


def test_no_admin_port(at_broker: list[str], nobody: str) -> None:
    assert refused(*at_broker, "--admin", nobody).startswith(f"no shim answers at {nobody}: Connection refused. ")


def test_another_admin_port(at_broker: list[str], zookeeper: ZooKeeper) -> None:
    line = refused(*at_broker, "--admin", zookeeper.connect_string)
    assert line.startswith(f"something else than a shim's admin port answers at {zookeeper.connect_string}")


def test_what_is_no_broker(broker: Broker, zookeeper: ZooKeeper) -> None:
    line = refused("--shim", zookeeper.connect_string, "--upstream", broker.bootstrap_servers)
    assert line.startswith(f"the shim: {zookeeper.connect_string}: ")


def test_no_java(at_broker: list[str], tmp_path: Path) -> None:
    line = refused(*at_broker, env={"JAVA_HOME": str(tmp_path)})
    assert line.startswith(f"no java in JAVA_HOME ({tmp_path}): install a Java runtime, 17 or newer")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--shim", "nowhere", "--upstream", "a:1"], "'nowhere' is not host:port"),
        (["--shim", "a:1", "--upstream", "a:0"], "the port must be a number from 1 to 65535"),
        (["--shim", "a:1", "--upstream", "a:1", "--zookeeper", "a:1//b"], "is no path of a znode"),
        (["--shim", "a:1"], "Missing option '--upstream'"),
    ],
)
def test_bad_usage(args: list[str], said: str) -> None:
    status, stdout, stderr = run(*args)
    assert (status, stdout) == (2, "")
    assert said in stderr


def test_help_is_quick_and_names_what_it_does() -> None:
    assert "audit" in cli.list_commands(None)  # type: ignore[arg-type]  # it looks at no context
    status, stdout, _ = in_a_process("audit", "--help")
    assert status == 0
    assert "Exit status: 0 all agree, 1 something differs" in stdout
