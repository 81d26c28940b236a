"""The example of settings, the systemd unit and the Kubernetes example."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from shim.config import load_configuration, parse_host_port
from shim.given import given_to_serve
from tests.packaging.files import DEPLOY, ROOT, dockerfile, image_environment, unit_lines, yaml_documents

UNIT = DEPLOY / "systemd" / "offset-shim.service"


def test_the_example_of_settings() -> None:
    given = given_to_serve(load_configuration(DEPLOY / "offset-shim.toml", ()))
    assert str(given.data_dir) == "/var/lib/offset-shim"
    assert given.admin is not None
    assert given.admin.address.host == "127.0.0.1"


def test_what_is_commented_out_in_the_example_are_settings_too(tmp_path: Path) -> None:
    lines = (DEPLOY / "offset-shim.toml").read_text().splitlines()
    file = tmp_path / "all.toml"
    file.write_text("\n".join(line.removeprefix("# ") if line.startswith('# "') else line for line in lines))
    configuration = load_configuration(file, (), {"OFFSET_SHIM_UPSTREAM_SASL_PASSWORD": "x"})
    assert given_to_serve(configuration).listening[0].security_protocol == "SASL_SSL"


def unit(name: str) -> list[str]:
    return [value for section, each, value in unit_lines(UNIT) if each == name and section == "Service"]


def test_the_unit_runs_what_is_installed_on_what_it_may_write() -> None:
    assert unit("ExecStart") == ["/opt/offset-shim/bin/offset-shim serve --config /etc/offset-shim/offset-shim.toml"]
    assert any("/opt/offset-shim" in each.text for each in dockerfile()), "as in the image"
    assert unit("ExecReload") == ["/bin/kill -HUP $MAINPID"]
    # To systemd SIGHUP is an end in good order, and on-failure would leave it there.
    assert unit("RestartForceExitStatus") == ["SIGHUP"]
    (state,) = unit("StateDirectory")
    settings = load_configuration(DEPLOY / "offset-shim.toml", ()).settings
    assert settings.data_dir == f"/var/lib/{state}"
    assert unit("ProtectSystem") == ["strict"]
    assert unit("NoNewPrivileges") == ["yes"]
    assert unit("User") != ["root"]
    # It says that it is ready (tests/serve/test_service_manager.py), and need not be soon.
    assert unit("Type") == ["notify"]
    assert unit("TimeoutStartSec") == ["infinity"]
    assert "AF_UNIX" in unit("RestrictAddressFamilies")[0].split()
    # Longer than the shim takes to drain and write what is last.
    assert int(unit("TimeoutStopSec")[0]) * 1000 > 2 * settings.shutdown_drain_timeout_ms


def test_what_the_unit_names_is_installed_by_the_steps_at_its_top() -> None:
    steps = [line.removeprefix("#   ") for line in UNIT.read_text().splitlines() if line.startswith("#   ")]
    program, config = (unit("ExecStart")[0].split()[at] for at in (0, 3))
    environment = str(Path(program).parents[1])
    assert steps[:2] == [f"python3 -m venv {environment}", f"{environment}/bin/pip install ."]
    installed = {words[-1]: words[-2] for step in steps if (words := step.split())[0] == "install"}
    assert installed.keys() == {config, f"/etc/systemd/system/{UNIT.name}"}
    assert all((ROOT / source).is_file() for source in installed.values())
    (user,) = unit("User")
    assert any(step.startswith("useradd ") and step.endswith(f" {user}") for step in steps)
    assert f"{program} config --config {config}" in steps


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not here")
    # It wants to find the program, and the user.
    lines = [
        "ExecStart=/bin/true" if line.startswith("ExecStart=") else line
        for line in UNIT.read_text().splitlines()
        if not line.startswith(("User=", "Group="))
    ]
    copy = tmp_path / UNIT.name
    copy.write_text("\n".join(lines))
    checked = subprocess.run([analyze, "verify", copy], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    assert UNIT.name not in checked.stderr


ONE: Final = "offset-shim.yaml"
THREE: Final = "three-shims.yaml"
both = pytest.mark.parametrize("example", [ONE, THREE])


def kubernetes(example: str = ONE) -> dict[tuple[str, str], Any]:
    """By kind and name."""
    documents = yaml_documents(DEPLOY / "kubernetes" / example)
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def stateful_set(example: str = ONE) -> Any:
    return kubernetes(example)["StatefulSet", "offset-shim"]["spec"]


def container(example: str = ONE) -> Any:
    (found,) = stateful_set(example)["template"]["spec"]["containers"]
    return found


def service_ports(example: str, name: str) -> dict[str, int]:
    return {each["targetPort"]: each["port"] for each in kubernetes(example)["Service", name]["spec"]["ports"]}


@both
def test_kubernetes_settings_are_settings(tmp_path: Path, example: str) -> None:
    ((name, text),) = kubernetes(example)["ConfigMap", "offset-shim"]["data"].items()
    file = tmp_path / name
    file.write_text(text)
    command, option, path, *more = container(example)["args"]
    assert (command, option, path) == ("serve", "--config", f"/etc/offset-shim/{name}")
    options = {"advertised.host": (more[0], pod_named(more[1]))} if more else {}
    given = given_to_serve(load_configuration(file, (), image_environment(), options))
    ports = {each["name"]: each["containerPort"] for each in container(example)["ports"]}
    port = given.listening[0].listen.port
    assert ports == {"bootstrap": port, **{f"broker-{i}": port + 1 + i for i in range(len(given.bootstrap))}}
    # Clients are told these numbers: the Service must not change them.
    governing = stateful_set(example)["serviceName"]
    assert service_ports(example, governing) == ports
    host = given.listening[0].advertised.host
    assert host == {ONE: "offset-shim", THREE: f"offset-shim-7.{governing}"}[example]


def pod_named(text: str) -> str:
    """What a container of a pod with that name is given."""
    (variable,) = container(THREE)["env"]
    assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    return text.replace(f"$({variable['name']})", "offset-shim-7")


def test_kubernetes_has_a_name_for_each_of_three_that_share_a_log() -> None:
    documents = kubernetes(THREE)
    settings = tomllib.loads(documents["ConfigMap", "offset-shim"]["data"]["offset-shim.toml"])
    assert settings["offsets.log"] == "kafka"
    assert stateful_set(THREE)["replicas"] == 3
    named = documents["Service", stateful_set(THREE)["serviceName"]]["spec"]
    assert (named["clusterIP"], named["publishNotReadyAddresses"]) == ("None", True)
    assert service_ports(THREE, "offset-shim") == {"bootstrap": 19092}
    budget = documents["PodDisruptionBudget", "offset-shim"]["spec"]
    assert budget == {"maxUnavailable": 1, "selector": stateful_set(THREE)["selector"]}


@both
def test_kubernetes_runs_what_can_write_its_volume_alone(example: str) -> None:
    stateful = stateful_set(example)
    pod = stateful["template"]["spec"]
    assert stateful["replicas"] == {ONE: 1, THREE: 3}[example]
    uid, _, gid = next(each.text for each in dockerfile() if each.word == "USER").partition(":")
    context = pod["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (int(uid), int(gid), int(gid))
    assert context["runAsNonRoot"] is True
    assert container(example)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {each["name"]: each["mountPath"] for each in container(example)["volumeMounts"]}
    (claim,) = stateful["volumeClaimTemplates"]
    assert mounts.keys() == {claim["metadata"]["name"], *(each["name"] for each in pod["volumes"])}
    assert mounts[claim["metadata"]["name"]] == image_environment()["OFFSET_SHIM_DATA_DIR"]
    assert pod["enableServiceLinks"] is False
    services = [each for (kind, _), each in kubernetes(example).items() if kind == "Service"]
    labels = {tuple(each.items()) for each in (
        stateful["selector"]["matchLabels"], stateful["template"]["metadata"]["labels"],
        *(each["spec"]["selector"] for each in services),
    )}  # fmt: skip
    assert len(labels) == 1


@both
@pytest.mark.parametrize(
    ("probe", "path"), [("startupProbe", "livez"), ("livenessProbe", "livez"), ("readinessProbe", "readyz")]
)
def test_kubernetes_probes_ask_where_the_admin_interface_is(example: str, probe: str, path: str) -> None:
    python, option, code = container(example)[probe]["exec"]["command"]
    assert (python, option) == ("python", "-c")
    compile(code, probe, "exec")
    assert f"'http://{image_environment()['OFFSET_SHIM_ADMIN_LISTEN']}/{path}'" in code


def test_what_the_examples_say_of_the_image() -> None:
    assert container()["image"] == "offset-shim"
    text = (ROOT / "docker-compose.yml").read_text()
    assert "image: offset-shim\n" in text
    assert parse_host_port(image_environment()["OFFSET_SHIM_ADMIN_LISTEN"]).port == 9644, "as the commands have it"
