"""Kroxylicious in front of one broker: a process of its own, its jars from Maven Central."""

from pathlib import Path
from typing import Final, Self

from shim.demo.parts.jars import POM_FOLDERS, jar_set
from shim.demo.parts.jvm import java_command
from shim.demo.parts.ports import free_port_range
from shim.demo.parts.process import Child

RELEASE: Final = "kroxylicious-0.12.0"
_HERE: Final = Path(__file__).parent
_HEAP_MB: Final = 1024
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 15.0
FULL_SIZE: Final = ("-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4")
"""JVM options for what is measured: the parts' own are for programs that are to start quickly."""
# One virtual cluster without filters: what it costs to pass bytes on, and to put addresses right.
_CONFIGURATION: Final = """
virtualClusters:
  - name: behind
    targetCluster:
      bootstrapServers: {bootstrap_servers}
    gateways:
      - name: front
        portIdentifiesNode:
          bootstrapAddress: {host}:{port}
          advertisedBrokerAddressPattern: {host}
          nodeStartPort: {first_port}
          nodeIdRanges:
            - name: all
              start: {node_id}
              end: {node_id}
"""

if (_POMS := _HERE / "poms") not in POM_FOLDERS:
    POM_FOLDERS.append(_POMS)


class KroxyliciousProcess:
    """It listens on every address of the machine, whatever it is told: `isolation.py` is for that.

    It has no program of its own in these jars: `Kroxylicious.java` is one, which Java compiles as it starts: a
    JDK is needed. Raises PartsUnavailable and StartFailed when it does not start.
    """

    def __init__(self, folder: Path, bootstrap_servers: str, host: str, node_id: int) -> None:
        port = free_port_range(2, host)
        self.bootstrap = f"{host}:{port}"
        self.broker_port = port + 1
        folder.mkdir()
        self._configuration = folder / "proxy.yaml"
        self._configuration.write_text(
            _CONFIGURATION.format(
                bootstrap_servers=bootstrap_servers, host=host, port=port, first_port=port + 1, node_id=node_id
            )
        )
        self._log = folder / "proxy.log"
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def __enter__(self) -> Self:
        source, configuration = str(_HERE / "Kroxylicious.java"), str(self._configuration)
        jars = jar_set(RELEASE)
        command = java_command(jars, source, configuration, heap_mb=_HEAP_MB, jvm_options=FULL_SIZE)
        self._child = Child(command, ready="Kroxylicious started", log=self._log)
        try:
            self._child.wait_ready(_START_TIMEOUT_S)
        except BaseException:
            self._child.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.stop(_STOP_TIMEOUT_S)
