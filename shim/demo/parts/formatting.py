"""What a new cluster begins with: the features of its release, as `kafka-storage format` writes them.

That tool is a Java process, which takes a third of what a broker takes to start. So it is run once per jar set, and
what it wrote is kept beside the jars: it says nothing of the cluster, its nodes or their addresses.
"""

import logging
import tempfile
from pathlib import Path
from typing import Final

from shim.demo.parts.jars import JarSet
from shim.demo.parts.jvm import java_command
from shim.demo.parts.process import Child, StartFailed

FEATURES: Final = "bootstrap.checkpoint"
"""Its name, in the data folder of a controller and in the cache."""

_ANY_CLUSTER = "eHh4eHh4eHh4eHh4eHh4eA"
_TIMEOUT_S = 60.0
_HEAP_MB = 128
_log = logging.getLogger("shim.demo.parts")


def features(jars: JarSet) -> bytes:
    """The content of the file. Raises StartFailed where the tool does not make it, and PartsUnavailable.

    Where the cache cannot be written it is made each time.
    """
    kept = jars.folder / FEATURES
    if kept.exists():
        return kept.read_bytes()
    with tempfile.TemporaryDirectory(prefix="offset-shim-format-") as folder:
        made = _made(jars, Path(folder))
    try:
        # Whole or not there, whoever else makes it at this moment.
        with tempfile.TemporaryDirectory(prefix=".format-", dir=jars.folder) as beside:
            new = Path(beside) / FEATURES
            new.write_bytes(made)
            new.rename(kept)
    except OSError as error:
        _log.warning("what %s is formatted with is not kept: %s", jars.name, error)
    return made


def _made(jars: JarSet, folder: Path) -> bytes:
    properties, data = folder / "server.properties", folder / "data"
    controller = "127.0.0.1:9093"  # nobody listens there: nothing of it is in what is made
    settings = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": f"CONTROLLER://{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{controller}",
        "log.dirs": str(data),
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="ascii")
    arguments = ["format", "--cluster-id", _ANY_CLUSTER, "-c", str(properties)]
    child = Child(java_command(jars, "kafka.tools.StorageTool", *arguments, heap_mb=_HEAP_MB), cwd=folder)
    try:
        in_time = child.wait(_TIMEOUT_S)
    finally:
        child.kill()
    if not in_time or child.returncode != 0:
        raise StartFailed(f"{jars.name}: nothing could be formatted:\n{child.tail()}")
    return (data / FEATURES).read_bytes()
