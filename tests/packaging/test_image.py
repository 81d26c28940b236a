"""The container image: who it runs as, what it can write, how its health is known; and its steps, run as a script."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from shim.config import load_configuration, parse_host_port
from tests.packaging.files import ROOT, Instruction, dockerfile, image_environment

BEGUN: Final = {
    "Dockerfile": [
        ["offset-shim", *each]
        for each in (["--version"], ["config", "--changed"], ["serve", "--help"], ["log", "--help"])
    ],
    "Dockerfile.spark": [["python", "-c", "import kafka, numpy, pandas, pyarrow, pipeline.main"]],
}
"""What each image has to begin, by its Dockerfile; that of Spark has PySpark from another stage."""


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


def built(name: str) -> list[Instruction]:
    """The steps of the stage that packages are installed in."""
    steps = dockerfile(name)
    (stage,) = {each.stage for each in steps if each.word == "RUN" and "pip install" in each.text}
    return [each for each in steps if each.stage == stage]


def packages(lock: str) -> set[str]:
    """What a lock file's text names."""
    return set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE))


@pytest.mark.parametrize("name", BEGUN)
def test_what_is_copied_is_there(name: str) -> None:
    for each in dockerfile(name):
        if each.word == "COPY" and not each.text.startswith("--from"):
            for source in each.text.split()[:-1]:
                assert (ROOT / source).exists(), source


@pytest.mark.parametrize(("name", "extra"), [("Dockerfile", None), ("Dockerfile.spark", "pipeline")])
def test_what_is_installed_is_in_the_locks_that_are_downloaded(name: str, extra: str | None) -> None:
    """No index is asked by then. Of the extra all but PySpark, which comes with Spark itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (install,) = [each.text for each in built(name) if each.word == "RUN" and "pip install" in each.text]
    here, *named = install.partition("--find-links /wheels ")[2].split()
    assert here == "."
    wanted = project["project"]["optional-dependencies"][extra] if extra else []
    assert set(named) == names_of(wanted) - {"pyspark"}
    copied = {source for each in built(name) if each.word == "COPY" for source in each.text.split()[:-1]}
    downloaded = [packages((ROOT / source).read_text()) for source in copied if source.endswith(".lock")]
    assert {*named, *names_of(project["build-system"]["requires"])} <= set.union(*downloaded)


def names_of(requirements: Sequence[str]) -> set[str]:
    return {re.split("[<>=]", each)[0] for each in requirements}


def test_spark_alone_is_left_out_of_what_is_downloaded(tmp_path: Path) -> None:
    (step,) = [each.text for each in built("Dockerfile.spark") if "without-spark.lock" in each.text]
    whole = (ROOT / "requirements-pipeline.lock").read_text()
    (tmp_path / "requirements-pipeline.lock").write_text(whole)
    subprocess.run(["bash", "-ec", step.partition("&&")[0]], check=True, cwd=tmp_path)
    kept = (tmp_path / "without-spark.lock").read_text()
    assert packages(kept) == packages(whole) - {"py4j", "pyspark"}
    assert kept.count("# via") == len(re.findall("^[^ #]", kept, re.MULTILINE)), "a hash, or a comment, of what is gone"


@pytest.mark.soak
@pytest.mark.parametrize(("name", "begun"), BEGUN.items())
def test_its_steps_leave_what_starts(name: str, begun: Sequence[Sequence[str]], tmp_path: Path) -> None:
    """As the stage has them, its folders being ones of the test. Takes packages from the index pip knows."""
    build = tmp_path / "build"
    build.mkdir()
    script = ["set -eu", f"cd {build}"]
    for each in built(name):
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
    (installed,) = (tmp_path / "opt").iterdir()
    for command, *arguments in begun:
        subprocess.run([installed / "bin" / command, *arguments], check=True, env=environ, cwd=tmp_path)
