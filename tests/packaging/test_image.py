"""The container image: who it runs as, what it can write, how its health is known; and its steps, run as a script."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shim.config import load_configuration, parse_host_port
from tests.packaging.files import ROOT, dockerfile, image_environment


def only(word: str) -> str:
    (text,) = [each.text for each in dockerfile() if each.word == word and each.stage == 1]
    return text


def test_it_runs_as_nobody_who_may_write_the_program() -> None:
    uid = only("USER").partition(":")[0]
    assert uid.isdecimal(), "Kubernetes' runAsNonRoot cannot tell a name from root"
    assert f"useradd --system --uid {uid} " in only("RUN")
    assert only("VOLUME") == image_environment()["OFFSET_SHIM_DATA_DIR"]
    assert only("ENTRYPOINT") == '["offset-shim"]'


def test_its_settings_are_settings() -> None:
    configuration = load_configuration(None, (), image_environment())
    assert configuration.settings.data_dir == "/var/lib/offset-shim"
    assert parse_host_port(configuration.settings.admin_listen).host == "127.0.0.1", "nobody else's before it is asked"


def test_its_health_is_asked_where_it_listens() -> None:
    _, _, command = only("HEALTHCHECK").partition("CMD ")
    python, option, code = json.loads(command)
    assert (python, option) == ("python", "-c")
    compile(code, "healthcheck", "exec")
    assert f"'http://{image_environment()['OFFSET_SHIM_ADMIN_LISTEN']}/livez'" in code


def test_what_is_copied_is_there() -> None:
    for each in dockerfile():
        if each.word == "COPY" and not each.text.startswith("--from"):
            for source in each.text.split()[:-1]:
                assert (ROOT / source).exists(), source


@pytest.mark.soak
def test_its_steps_leave_a_shim_that_starts(tmp_path: Path) -> None:
    """As the first stage has them, its folders being ones of the test. Takes packages from the index pip knows."""
    build = tmp_path / "build"
    build.mkdir()
    script = ["set -eu", f"cd {build}"]
    for each in dockerfile():
        if each.stage != 0:
            continue
        if each.word == "COPY":
            *sources, target = each.text.split()
            script.append(f"cp -r {' '.join(str(ROOT / source) for source in sources)} {target}")
        elif each.word == "RUN":
            inside = re.sub(r"(?<![\w.])/(wheels|opt)\b", rf"{tmp_path}/\1", each.text)
            script.append(
                re.sub(r"(?<=[ &])(python|pip) ", rf"{sys.executable} -m \1 ", f" {inside}").replace(
                    f"{sys.executable} -m python", sys.executable
                )
            )
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(["bash", "-c", "\n".join(script)], check=True, env=environ, cwd=tmp_path)
    command = tmp_path / "opt" / "offset-shim" / "bin" / "offset-shim"
    for arguments in (["--version"], ["config", "--changed"], ["serve", "--help"], ["log", "--help"]):
        subprocess.run([command, *arguments], check=True, env=environ, cwd=tmp_path)
