"""The example of settings, the systemd unit and the Kubernetes example."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shim.config import load_configuration, parse_host_port
from shim.given import given_to_serve
from tests.packaging.files import DEPLOY, ROOT, dockerfile, image_environment, unit_lines, yaml_documents

UNIT = DEPLOY / "systemd" / "offset-shim.service"


def test_the_example_of_settings() -> None:
    given = given_to_serve(load_configuration(DEPLOY / "offset-shim.toml", ()))
    assert str(given.data_dir) == "/var/lib/offset-shim"
    assert given.admin is not None
    assert given.admin.host == "127.0.0.1"


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
    # Longer than the shim takes to drain and write what is last.
    assert int(unit("TimeoutStopSec")[0]) * 1000 > 2 * settings.shutdown_drain_timeout_ms


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


def kubernetes() -> dict[str, Any]:
    documents = yaml_documents(DEPLOY / "kubernetes" / "offset-shim.yaml")
    return {document["kind"]: document for document in documents}


def container() -> Any:
    (found,) = kubernetes()["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return found


def test_kubernetes_settings_are_settings(tmp_path: Path) -> None:
    ((name, text),) = kubernetes()["ConfigMap"]["data"].items()
    file = tmp_path / name
    file.write_text(text)
    given = given_to_serve(load_configuration(file, (), image_environment()))
    assert given.listening[0].advertised.host == kubernetes()["Service"]["metadata"]["name"]
    ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    port = given.listening[0].listen.port
    assert ports == {"bootstrap": port, **{f"broker-{i}": port + 1 + i for i in range(len(given.bootstrap))}}
    # Clients are told these numbers: the Service must not change them.
    assert {each["targetPort"]: each["port"] for each in kubernetes()["Service"]["spec"]["ports"]} == ports
    assert container()["args"] == ["serve", "--config", f"/etc/offset-shim/{name}"]


def test_kubernetes_runs_one_that_can_write_its_volume_alone() -> None:
    stateful = kubernetes()["StatefulSet"]["spec"]
    pod = stateful["template"]["spec"]
    assert stateful["replicas"] == 1
    uid, _, gid = next(each.text for each in dockerfile() if each.word == "USER").partition(":")
    context = pod["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (int(uid), int(gid), int(gid))
    assert context["runAsNonRoot"] is True
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {each["name"]: each["mountPath"] for each in container()["volumeMounts"]}
    (claim,) = stateful["volumeClaimTemplates"]
    assert mounts.keys() == {claim["metadata"]["name"], *(each["name"] for each in pod["volumes"])}
    assert mounts[claim["metadata"]["name"]] == image_environment()["OFFSET_SHIM_DATA_DIR"]
    assert pod["enableServiceLinks"] is False
    labels = {tuple(each.items()) for each in (
        stateful["selector"]["matchLabels"], stateful["template"]["metadata"]["labels"],
        kubernetes()["Service"]["spec"]["selector"],
    )}  # fmt: skip
    assert len(labels) == 1


@pytest.mark.parametrize(
    ("probe", "path"), [("startupProbe", "livez"), ("livenessProbe", "livez"), ("readinessProbe", "readyz")]
)
def test_kubernetes_probes_ask_where_the_admin_interface_is(probe: str, path: str) -> None:
    python, option, code = container()[probe]["exec"]["command"]
    assert (python, option) == ("python", "-c")
    compile(code, probe, "exec")
    assert f"'http://{image_environment()['OFFSET_SHIM_ADMIN_LISTEN']}/{path}'" in code


def test_what_the_examples_say_of_the_image() -> None:
    assert container()["image"] == "offset-shim"
    text = (ROOT / "docker-compose.yml").read_text()
    assert "image: offset-shim\n" in text
    assert parse_host_port(image_environment()["OFFSET_SHIM_ADMIN_LISTEN"]).port == 9644, "as the commands have it"
