"""docker-compose.yml: its profiles, and that their parts find each other."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, Final

import pytest

from shim.config import HostPort, load_configuration, parse_host_port, parse_servers
from tests.packaging.files import DEPLOY, ROOT, compose, dockerfile, image_environment, yaml_documents

PROFILES: Final = {
    "": {"kafka", "shim"},
    "zookeeper": {"zookeeper"},
    "legacy": {"zookeeper", "kafka-legacy", "shim-legacy"},
    "three": {f"{part}-{number}" for part in ("kafka", "shim") for number in (1, 2, 3)},
    "monitoring": {"prometheus", "grafana"},
    "spark": {"spark-master", "spark-worker"},
    "spark-job": {"offset-pipeline"},
}
COMPOSE: Final = (("docker", "compose"), ("docker-compose",))
"""Neither needs a daemon for this."""
OF_THREE: Final = ("shim-1", "shim-2", "shim-3")
SHIMS: Final = ("shim", "shim-legacy", *OF_THREE)


def services() -> Mapping[str, Any]:
    found: Mapping[str, Any] = compose()["services"]
    return found


def real_time_services() -> Mapping[str, Any]:
    (document,) = yaml_documents(ROOT / "docker-compose.realtime.yml")
    found: Mapping[str, Any] = document["services"]
    return found


def shim_settings(name: str) -> Any:
    """As its process has them."""
    options, assignments = {}, []
    called = {"--bootstrap-servers": "bootstrap.servers", "--advertised-host": "advertised.host",
              "--listen": "listen", "--zookeeper": "zookeeper.connect"}  # fmt: skip
    command, *rest = services()[name]["command"]
    assert command == "serve"
    for each in rest:
        option, _, value = each.partition("=")
        if option == "--set":
            assignments.append(value)
        else:
            options[called[option]] = (option, value)
    return load_configuration(None, assignments, image_environment(), options).settings


def listening(name: str) -> set[int]:
    """The ports of a broker's listeners."""
    return {int(each.rpartition(":")[2]) for each in services()[name]["environment"]["KAFKA_LISTENERS"].split(",")}


def test_profiles() -> None:
    found: dict[str, set[str]] = {}
    for name, service in services().items():
        for profile in service.get("profiles", [""]):
            found.setdefault(profile, set()).add(name)
    assert found == PROFILES


def test_whoever_is_needed_is_in_the_same_profile() -> None:
    for name, service in services().items():
        needed = [*service.get("depends_on", []), *service.get("network_mode", "").split(":")[1:]]
        for other in needed:
            theirs = services()[other].get("profiles")
            assert theirs is None or set(service["profiles"]) <= {*theirs, "spark-job"}, (name, other)


def test_volumes_and_mounted_folders_are_there() -> None:
    document = compose()
    used = set()
    for service in services().values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).is_dir(), source
            else:
                used.add(source)
    assert used == document["volumes"].keys()


def test_no_port_is_published_twice_nor_to_others() -> None:
    published = [port for service in services().values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published)
    ports = [port.split(":")[1] for port in published]
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize("name", SHIMS)
def test_a_shim_reaches_its_brokers_and_clients_reach_the_shim(name: str) -> None:
    settings, service = shim_settings(name), services()[name]
    brokers = parse_servers(settings.bootstrap_servers)
    for server in brokers:
        assert server.port in listening(server.host)
        assert server.host in service["depends_on"]
    if settings.zookeeper_connect:
        assert parse_host_port(settings.zookeeper_connect).host == "zookeeper"
    environments = [services()[server.host]["environment"] for server in brokers]
    node_ids = [int(each.get("KAFKA_NODE_ID", each.get("KAFKA_BROKER_ID"))) for each in environments]
    port = parse_host_port(settings.listen).port
    ports = (port, *(port + 1 + node_id for node_id in node_ids))
    assert service["ports"] == [f"127.0.0.1:{each}:{each}" for each in ports]
    assert settings.advertised_host == "localhost"


@pytest.mark.parametrize("name", SHIMS)
def test_a_shim_can_write_its_volume_alone(name: str) -> None:
    service = services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    (volume,) = service["volumes"]
    assert volume.endswith(f":{image_environment()['OFFSET_SHIM_DATA_DIR']}")
    assert service["build"] == "."


def test_shims_may_have_the_real_time_that_they_take() -> None:
    """Those and no others, and by the limit alone: their user is not root, and they have no capability."""
    ((_, given),) = {str(each): each for each in real_time_services().values()}.items()
    assert set(real_time_services()) == set(SHIMS)
    assert load_configuration(None, [], given["environment"], {}).settings.process_realtime_enable
    assert given == {"environment": given["environment"], "ulimits": {"rtprio": 1}}
    assert not any("ulimits" in services()[name] for name in SHIMS), "Docker without root would not start them"


def test_the_three_shims_have_one_log_and_differ_in_their_ports_alone() -> None:
    settings = [shim_settings(name) for name in OF_THREE]
    assert {each.offsets_log for each in settings} == {"kafka"}
    assert len({dataclasses.replace(each, listen="") for each in settings}) == 1
    assert len({each.listen for each in settings}) == len({services()[name]["volumes"][0] for name in OF_THREE}) == 3


def test_the_three_brokers_are_one_cluster() -> None:
    environments = [services()[f"kafka-{number}"]["environment"] for number in (1, 2, 3)]
    for number, each in enumerate(environments, start=1):
        assert each["KAFKA_NODE_ID"] == number
        assert f"{number}@kafka-{number}:9093" in each["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")
        assert each["KAFKA_ADVERTISED_LISTENERS"] == f"INTERNAL://kafka-{number}:9092"
    own = ("KAFKA_NODE_ID", "KAFKA_ADVERTISED_LISTENERS")
    assert len({tuple((name, each[name]) for name in each if name not in own) for each in environments}) == 1


def test_prometheus_scrapes_the_shim_and_grafana_asks_prometheus() -> None:
    prometheus = services()["prometheus"]
    assert prometheus["network_mode"] == "service:shim"
    (config,) = yaml_documents(DEPLOY / "prometheus" / "prometheus.yml")
    (job,) = config["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    assert target == image_environment()["OFFSET_SHIM_ADMIN_LISTEN"]
    assert config["rule_files"] == ["alerts.yml"]
    provisioning = DEPLOY / "grafana" / "provisioning"
    (sources,) = yaml_documents(provisioning / "datasources" / "prometheus.yml")
    (source,) = sources["datasources"]
    (own,) = [each for each in prometheus["command"] if each.startswith("--web.listen-address=")]
    # It has the network of the shim, and so its name.
    assert source["url"] == f"http://{HostPort('shim', parse_host_port(own.partition('=')[2]).port)}"
    (dashboards,) = yaml_documents(provisioning / "dashboards" / "offset-shim.yml")
    folder = dashboards["providers"][0]["options"]["path"]
    mounts = services()["grafana"]["volumes"]
    assert f"./deploy/grafana:{folder}:ro" in mounts
    assert "./deploy/grafana/provisioning:/etc/grafana/provisioning:ro" in mounts


def test_images_that_are_built_have_a_dockerfile_and_others_a_version() -> None:
    for service in services().values():
        build = service.get("build")
        if build is None:
            assert ":" in service["image"], service["image"]
        else:
            assert dockerfile("Dockerfile" if build == "." else build["dockerfile"])


@pytest.fixture(scope="module")
def command() -> tuple[str, ...]:
    for each in COMPOSE:
        if shutil.which(each[0]) and subprocess.run([*each, "version"], capture_output=True).returncode == 0:
            return each
    pytest.skip("neither docker compose nor docker-compose is here")


@pytest.mark.parametrize("profile", [profile for profile in PROFILES if profile])
def test_docker_accepts_it(command: tuple[str, ...], profile: str) -> None:
    subprocess.run([*command, "--profile", profile, "config", "--quiet"], check=True, cwd=ROOT)
