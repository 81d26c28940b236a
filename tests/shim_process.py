"""The shim as its users run it: a process of its own, on free loopback ports."""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from protocol.own.state_log import Hands
from shim.demo.parts import Broker, StartFailed, free_port_range
from shim.demo.parts.process import Child
from tests.hands_on_disk import hands_on_disk, passed_through
from tests.hands_on_topic import hands_on_topic
from tests.template import Template
from tests.waiting import wait_until

_HOST = "127.0.0.1"
_READY = "offset-shim ready"
_HIGHEST_NODE_ID = 6
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_LOG_SHOWN = 4_000  # characters of the log in an exception
# Quick, for tests that do not look at it; a test of Kafka's own 3000 says so in its settings.
_QUICK: Mapping[str, int] = {"group.initial.rebalance.delay.ms": 0}
_ON_TOPICS: Mapping[str, str | int] = {"offsets.log": "kafka", "offsets.topic.replication.factor": 1}
_SEGMENT_BYTES = "offsets.topic.segment.bytes"
_LEAST_SEGMENT_BYTES = 1_048_576  # that brokers of 4.3 take for a topic

OFFSETS_PARTITIONS: Final = 4
"""Of a shim whose test does not say. Fifty, each a part of three logs, are a lot to begin with for each of many tests,
and for one broker."""

OFFSETS_LOG: Final = os.environ.get("OFFSETS_LOG", "local")
"""Where the log of every shim is whose test does not say: as in `offsets.log`."""

template: Template | None = None
"""What shims are copies of. Where there is none, each is begun by its command line; so is one that has a `patch`,
always: what was imported before that may have taken what it changes."""


class Shim:
    """`offset-shim serve` in front of the cluster at `bootstrap_servers`, the log in `data_dir`.

    It listens on `listen_port` P and on P + 1 + i for the broker with node id i; ports for ids up to 6 are kept free.
    Ports, data and settings stay the same over `stop`, `kill` and `start`. `settings` are given with `--set`, `args`
    are further options; `patch` is Python that its process runs before, for what no setting says. So is `late_patch`,
    which changes nothing but what is looked up in a class or module when it is used, so that it does not matter what
    has been imported. The process dies with this one, however that ends; as a context manager it is started, and
    stopped however the block ends.

    Its log has few partitions where `settings` do not say how many. `offsets_log` is as in the setting, and
    `OFFSETS_LOG` of the environment by default. On topics each data directory has its own. They are looked into at
    `plaintext_servers`, where the brokers at `bootstrap_servers` want TLS or SASL.

    At the end of the block every group that was made at it has been served by it, and none passed through to the
    cluster: otherwise it would have been the cluster's own coordinator that was tested. A test in which that is as it
    should be says so with `passes_groups`.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        data_dir: Path,
        *,
        listen_port: int | None = None,
        settings: Mapping[str, str | int] | None = None,
        args: Sequence[str] = (),
        patch: str = "",
        late_patch: str = "",
        passes_groups: bool = False,
        offsets_log: str = OFFSETS_LOG,
        plaintext_servers: str | None = None,
        start_timeout: float = _START_TIMEOUT_S,
        stop_timeout: float = _STOP_TIMEOUT_S,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.plaintext_servers = plaintext_servers or bootstrap_servers
        self.data_dir = data_dir
        self.log_file = data_dir.with_name(f"{data_dir.name}.stderr")
        self.port = listen_port or free_port_range(2 + _HIGHEST_NODE_ID, _HOST)
        self.topics_prefix: str | None = None
        if offsets_log == "kafka":
            self.topics_prefix = f"__shim_{sha256(bytes(data_dir.absolute())).hexdigest()[:12]}"
        partitions = {"offsets.topic.num.partitions": OFFSETS_PARTITIONS}
        self.settings = {**_QUICK, **partitions, **(settings or {})}
        if self.topics_prefix is not None:
            segment_bytes = max(int(self.settings.get(_SEGMENT_BYTES, 0)), _LEAST_SEGMENT_BYTES)
            self.settings = {**_ON_TOPICS, **self.settings, _SEGMENT_BYTES: segment_bytes}
            self.settings["offsets.log.topics.prefix"] = self.topics_prefix
        self.args = tuple(args)
        self.patch = patch
        self.late_patch = late_patch
        self.passes_groups = passes_groups
        self.start_timeout = start_timeout
        self.stop_timeout = stop_timeout
        self._child: Child | None = None

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return f"{_HOST}:{self.port}"

    def broker_port(self, node_id: int) -> int:
        """The port where clients reach the broker with this node id."""
        return self.port + 1 + node_id

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError when the shim does not run."""
        if self._child is None or not self._child.running:
            raise RuntimeError("the shim is not running")
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while it runs or when it was never started."""
        return self._child.returncode if self._child is not None else None

    def log(self) -> str:
        """All that it wrote to standard error, over all its starts."""
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    def wait_logged(self, words: str, behind: int = 0) -> None:
        """Until `log` has them, behind so many characters: a file tells nobody that it has grown.

        Raises TimeoutError with the log's end.
        """
        wait_until(lambda: words in self.log()[behind:], lambda: f"not said: {words}\n{self.log()[-_LOG_SHOWN:]}")

    def start(self) -> Self:
        """Start it; returns when it has said that it is ready. Nothing happens when it runs already.

        Raises StartFailed with the end of its log; nothing is left running then.
        """
        self.launch()
        self.wait_ready()
        return self

    def launch(self) -> None:
        """The first half of `start`: the process exists on return, and need not be ready."""
        if self.running:
            return
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as stderr:
            if template is None or self.patch:
                before = f"{self.patch}\n{self.late_patch}"
                program = (sys.executable, "-c", f"{before}\nfrom shim.main import cli\ncli()")
                self._child = Child([*program, *self._arguments()], ready=_READY, stderr=stderr)
            else:
                argv = ["offset-shim", *self._arguments()]
                copied = partial(template.spawn, patch=self.late_patch)
                self._child = Child(argv, ready=_READY, stderr=stderr, spawned_by=copied)

    def wait_ready(self) -> None:
        """The second half of `start`. Raises StartFailed, and the process is gone then."""
        assert self._child is not None, "launch comes first"
        try:
            self._child.wait_ready(self.start_timeout)
        except StartFailed as error:
            self._child.kill()
            raise StartFailed(f"shim at {self.bootstrap}: {error}\n{self.log()[-_LOG_SHOWN:]}") from None
        except BaseException:
            self._child.kill()
            raise

    def stop(self) -> int:
        """SIGTERM, SIGKILL after `stop_timeout` seconds; the exit status (-9 when SIGKILL was needed).

        Where it does not run: the exit status that it ended with. Raises RuntimeError when it was never started.
        """
        if self._child is None:
            raise RuntimeError("the shim was never started")
        self._child.stop(self.stop_timeout)
        return self._ended()

    def kill(self) -> int:
        """SIGKILL; the exit status, -9. Raises RuntimeError when it was never started."""
        if self._child is None:
            raise RuntimeError("the shim was never started")
        self._child.kill()
        return self._ended()

    def wait_ended(self) -> int:
        """Wait for an end that it comes to by itself; the exit status, negative for a signal. Raises TimeoutError."""
        if self._child is None:
            raise RuntimeError("the shim was never started")
        if not self._child.wait(self.stop_timeout):
            raise TimeoutError(f"the shim goes on\n{self.log()[-_LOG_SHOWN:]}")
        return self._ended()

    def restart(self) -> int:
        """`stop`, then `start`: same ports, same data. Gives back the exit status of the stop."""
        status = self.stop()
        self.start()
        return status

    def hands(self) -> dict[str, Hands]:
        """In whose hands its groups are, as its log says, whether it runs or not."""
        if self.topics_prefix is None:
            return hands_on_disk(self.data_dir)
        return hands_on_topic(self.plaintext_servers, f"{self.topics_prefix}_offsets")

    def segments(self, broker: Broker) -> list[Path]:
        """The files of its offsets that hold something, on topics those of that broker."""
        folder, name = self.data_dir, "__consumer_offsets"
        if self.topics_prefix is not None:
            folder, name = broker.data, f"{self.topics_prefix}_offsets"
        return sorted(path for path in folder.rglob(f"{name}-*/*.log") if path.stat().st_size)

    def _ended(self) -> int:
        assert self._child is not None
        status = self._child.returncode
        assert status is not None, "it is gone and reaped"
        return status

    def _arguments(self) -> list[str]:
        return [
            *("serve", "--bootstrap-servers", self.bootstrap_servers),
            *("--listen", self.bootstrap),
            *("--data-dir", str(self.data_dir)),
            *(text for name, value in self.settings.items() for text in ("--set", f"{name}={value}")),
            *self.args,
        ]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self.stop()
        if kind is None and not self.passes_groups:
            passed = passed_through(self.hands())
            assert not passed, f"these groups were the cluster's, and never served by the shim: {sorted(passed)}"
