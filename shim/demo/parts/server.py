"""What every server among the parts has in common: a folder, a port, and one process at a time."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from shim.demo.parts.archive import ArchiveRefused, made_archive
from shim.demo.parts.jars import JarSet, java_executable
from shim.demo.parts.process import Child, StartFailed


class Server(ABC):
    """A server on a loopback address. Port and data stay the same over `stop`, `kill` and `start`.

    As a context manager it is started, and stopped however the block ends. Starting raises PartsUnavailable (no Java,
    no jars) and StartFailed (with the tail of the log); nothing is left running then.
    """

    title: str
    log_name = "server.log"

    def __init__(
        self,
        folder: Path,
        host: str,
        port: int,
        heap_mb: int,
        start_timeout: float,
        stop_timeout: float,
        release: str,
    ) -> None:
        self.folder = folder
        self.host = host
        self.port = port
        self.heap_mb = heap_mb
        self.start_timeout = start_timeout
        self.stop_timeout = stop_timeout
        self.release = release
        self._child: Child | None = None
        self._record_archive: Path | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        """What the server printed, appended over restarts."""
        return self.folder / self.log_name

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError when the server does not run."""
        if self._child is None or not self._child.running:
            raise RuntimeError(f"{self.title} is not running")
        return self._child.pid

    def start(self) -> Self:
        """Start it, with the data it has; returns when it takes requests. Nothing happens when it runs already."""
        if not self.running:
            self.launch()
            self.wait_started()
        return self

    def launch(self) -> None:
        """The first half of `start`: the process exists on return, and need not have started. For several at once."""
        if not self.running:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._child = self._launched()

    @abstractmethod
    def _launched(self) -> Child:
        """The new process; the folder exists."""

    def _make_archive(self, jars: JarSet, another: Callable[[Path], "Server"]) -> None:
        """Have the class data archive of the jar set made by `another` one in the folder that it is given, unless there
        is one, or this one makes it."""
        if self._record_archive is None:
            made_archive(jars, java_executable(), lambda archive: _train(archive, another))

    def wait_started(self) -> None:
        """The second half of `start`. Raises StartFailed, and the process is gone then."""
        assert self._child is not None, "launch comes first"
        try:
            self._wait_serving(self._child)
        except StartFailed as error:
            self.kill()
            raise StartFailed(f"{self.title} at {self.address}: {error}") from None
        except BaseException:
            self.kill()
            raise

    def _wait_serving(self, child: Child) -> None:
        """Wait until it takes requests. Raises StartFailed."""
        child.wait_ready(self.start_timeout)

    def stop(self) -> None:
        """SIGTERM, SIGKILL after `stop_timeout` seconds. Nothing happens when it does not run."""
        if self._child is not None:
            self._child.stop(self.stop_timeout)

    def kill(self) -> None:
        """SIGKILL. Nothing happens when it does not run."""
        if self._child is not None:
            self._child.kill()

    def restart(self) -> None:
        """`stop`, then `start`: same port, same data."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _train(archive: Path, another: Callable[[Path], Server]) -> None:
    """Have a throw-away server write a class data archive as it ends. Raises ArchiveRefused, StartFailed, OSError."""
    with tempfile.TemporaryDirectory(prefix="offset-shim-archive-") as folder:
        server = another(Path(folder))
        server._record_archive = archive
        server.start()
        server.stop()
    if not archive.exists():
        raise ArchiveRefused("the Java runtime wrote none")
