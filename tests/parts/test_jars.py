"""The jar cache: whole or not there, whatever happens while it is filled. Maven is real once; else something stands in
that fails, or copies what it has fetched, which takes no processor time."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.demo.parts.cache import PartsUnavailable
from shim.demo.parts.jars import ZOOKEEPER, JarSet, jar_set
from tests.parts.ended import ends_within

_FETCH = f"from shim.demo.parts.jars import jar_set; print(len(jar_set({ZOOKEEPER!r}).jars))"
_COPYING_MAVEN = """#!/bin/sh
echo run >> "$OFFSET_SHIM_CACHE/runs"
for option; do case $option in -DoutputDirectory=*) cp {folder}/*.jar "${{option#*=}}" ;; esac; done
"""


@pytest.fixture(scope="module")
def fetched() -> JarSet:
    """Once for all."""
    return jar_set(ZOOKEEPER)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("OFFSET_SHIM_CACHE", str(folder))
    return folder


@pytest.fixture
def whole(fetched: JarSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JarSet:
    """In a cache of this test's own."""
    shutil.copytree(fetched.folder, tmp_path / "cache" / "jars" / ZOOKEEPER)
    monkeypatch.setenv("OFFSET_SHIM_CACHE", str(tmp_path / "cache"))
    return jar_set(ZOOKEEPER)


@pytest.fixture
def put_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a script in Maven's place."""

    def put(script: str) -> None:
        programs = tmp_path / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "mvn").write_text(script)
        (programs / "mvn").chmod(0o755)
        monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)

    return put


def _names(cache: Path) -> set[str]:
    return {path.name for path in (cache / "jars").iterdir() if not path.name.endswith(".lock")}


def _remove_a_jar(jars: JarSet) -> None:
    jars.jars[3].unlink()


def _cut_a_jar(jars: JarSet) -> None:
    os.truncate(jars.jars[3], 100)


def _lose_the_list(jars: JarSet) -> None:
    (jars.folder / "complete.json").unlink()


def _cut_the_list(jars: JarSet) -> None:
    os.truncate(jars.folder / "complete.json", 40)


@pytest.mark.parametrize("damage", [_remove_a_jar, _cut_a_jar, _lose_the_list, _cut_the_list])
def test_a_damaged_set_is_fetched_again(
    whole: JarSet,
    fetched: JarSet,
    tmp_path: Path,
    put_maven: Callable[[str], None],
    damage: Callable[[JarSet], None],
) -> None:
    put_maven(_COPYING_MAVEN.format(folder=fetched.folder))
    sizes = {jar.name: jar.stat().st_size for jar in whole.jars}
    assert "zookeeper-3.9.5.jar" in sizes
    damage(whole)
    again = jar_set(ZOOKEEPER)
    assert {jar.name: jar.stat().st_size for jar in again.jars} == sizes
    assert again == whole
    assert _names(tmp_path / "cache") == {ZOOKEEPER}


def test_a_whole_set_is_not_fetched_again(whole: JarSet, put_maven: Callable[[str], None]) -> None:
    put_maven("#!/bin/sh\nexit 1\n")
    assert jar_set(ZOOKEEPER) == whole


def test_two_processes_at_once_fetch_it_once(fetched: JarSet, cache: Path, put_maven: Callable[[str], None]) -> None:
    put_maven(_COPYING_MAVEN.format(folder=fetched.folder))
    both = [subprocess.Popen([sys.executable, "-c", _FETCH], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    counts = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert counts[0] == counts[1] == f"{len(jar_set(ZOOKEEPER).jars)}\n"
    assert (cache / "runs").read_text() == "run\n"


def test_a_kill_in_the_middle_leaves_no_half_set(
    cache: Path, put_maven: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maven hangs after its first jar, and the fetching process is killed then."""
    os.mkfifo(cache / "reached")
    put_maven('#!/bin/sh\necho jar > half.jar\necho $$ > "$OFFSET_SHIM_CACHE/reached"\nexec sleep 600\n')
    with subprocess.Popen([sys.executable, "-c", _FETCH]) as fetching:
        maven = int((cache / "reached").read_text())
        fetching.send_signal(signal.SIGKILL)
    assert ends_within(maven, 10)
    assert ZOOKEEPER not in _names(cache)
    assert _names(cache) != set(), "the half-made folder lies there under another name"
    monkeypatch.undo()
    monkeypatch.setenv("OFFSET_SHIM_CACHE", str(cache))
    assert all(jar.is_file() for jar in jar_set(ZOOKEEPER).jars)
    assert _names(cache) == {ZOOKEEPER}


def test_mavens_words_are_shown_when_it_fails(cache: Path, put_maven: Callable[[str], None]) -> None:
    put_maven("#!/bin/sh\necho '[ERROR] the disk is full'\nexit 1\n")
    with pytest.raises(PartsUnavailable, match=r"(?s)zookeeper-3\.9\.5.*exit status 1.*the disk is full"):
        jar_set(ZOOKEEPER)
    assert _names(cache) == set()


@pytest.mark.parametrize(("present", "missing"), [((), "java"), (("java",), "mvn")])
def test_what_is_missing_is_named(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: tuple[str, ...], missing: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in present:
        found = subprocess.run(["which", program], check=True, capture_output=True, text=True).stdout.strip()
        (programs / program).symlink_to(found)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(PartsUnavailable, match=rf"no {missing} on the PATH.*install"):
        jar_set(ZOOKEEPER)


def test_an_unknown_set_is_a_key_error(cache: Path) -> None:
    with pytest.raises(KeyError, match="kafka-0"):
        jar_set("kafka-0")
