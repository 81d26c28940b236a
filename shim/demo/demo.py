"""`offset-shim demo`: unmodified clients on a real Kafka broker, through a shim that is killed and started again.

`play` is the story, from top to bottom; `run` is the command around it.
"""

import json
import logging
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from shim.demo.clients import CONSUMERS
from shim.demo.parts import Broker, PartsUnavailable, StartFailed, ToolFailed, cache_folder
from shim.demo.parts.jars import KAFKA
from shim.demo.parts.tools import dump_offsets_log
from shim.demo.processes import ClientProcess, DemoFailed, ShimProcess, wait_until
from shim.demo.report import Findings, GroupFindings, as_json, show

TOPIC = "orders"
PARTITIONS = 4
MEMBERS = 2
FEW = 3  # every member has been given more records, and has had more commits acknowledged, before the kill
DOWN_S = 1.0  # how long the shim stays away
PHASE_TIMEOUT_S = 120.0
ADMIN_TIMEOUT_S = 30.0
MIRROR_TIMEOUT_S = 15.0
MIRROR_LOOK_S = 0.2
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PLAIN_WIDTH = 120  # columns, where standard output is no terminal
PROGRAM = "offset-shim"

Answer = TypeVar("Answer")


class Stage:
    """Says what the demo is doing, with the seconds since it began; on a terminal, with a moving line below it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begin = time.monotonic()
        self._status = console.status("") if console.is_terminal else None

    def say(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._begin:5.1f} s  {text}", markup=False, highlight=False)
        self.show("")

    def show(self, text: str) -> None:
        if self._status:
            self._status.update(text)

    @contextmanager
    def running(self) -> Iterator["Stage"]:
        with self._status or ExitStack():
            yield self


def play(folder: Path, stage: Stage) -> Findings:
    """The whole demo, everything it leaves in `folder`; nothing that it started runs on return.

    Raises PartsUnavailable, StartFailed, ToolFailed and DemoFailed.
    """
    with ExitStack() as running:
        stage.say(f"starting a broker of {KAFKA} (its jars are downloaded with Maven once, to {cache_folder()})")
        broker = running.enter_context(Broker(folder / "broker"))
        stage.say(f"broker at {broker.bootstrap_servers}; starting the shim")
        shim = running.enter_context(ShimProcess(folder / "shim", broker.bootstrap_servers, broker.node_id))
        stage.say(f"shim at {shim.bootstrap}; creating topic {TOPIC} through it, starting the clients")
        create_topic(shim.bootstrap)

        news = threading.Condition()  # something was heard from a client

        def start(name: str, *arguments: str) -> ClientProcess:
            return running.enter_context(ClientProcess(folder, name, arguments, news))

        producer = start("producer", "produce", shim.bootstrap, TOPIC)
        groups = {
            f"demo-{library}": [
                start(f"{library}-{number}", library, shim.bootstrap, TOPIC, f"demo-{library}")
                for number in range(1, MEMBERS + 1)
            ]
            for library in CONSUMERS
        }
        consumers = [member for members in groups.values() for member in members]
        clients = [producer, *consumers]

        def progress() -> None:
            counts = (f"{group} {sum(len(m.records) for m in members)}" for group, members in groups.items())
            stage.show(f"delivered {len(producer.delivered)}, consumed: {', '.join(counts)}")

        def until(what: str, done: Callable[[], bool], watched: Sequence[ClientProcess]) -> None:
            wait_until(done, what, watched, news, PHASE_TIMEOUT_S, progress)

        def at_work(records: Mapping[str, int], commits: Mapping[str, int]) -> bool:
            """Whether every member has been given more records, and has had more commits acknowledged, than these."""
            return all(len(m.records) > records[m.name] and m.commits > commits[m.name] for m in consumers)

        few = dict.fromkeys((m.name for m in consumers), FEW)
        until(
            "every member had work and every partition a commit",
            lambda: at_work(few, few) and all(len(latest(members)) == PARTITIONS for members in groups.values()),
            clients,
        )

        kill_status = shim.kill()
        killed = time.monotonic()
        stage.say("shim killed with SIGKILL while everyone was at work")
        time.sleep(DOWN_S)  # long enough for every client to notice
        # Held still, so that the offsets found are what the shim kept, not what a client has committed again.
        for consumer in consumers:
            consumer.pause()
        with news:
            given = {m.name: len(m.records) for m in consumers}
            commits = {m.name: m.commits for m in consumers}
            delivered_before = len(producer.delivered)
            acknowledged = {group: latest(members) for group, members in groups.items()}
        shim.start()
        down_seconds = time.monotonic() - killed
        found = {group: committed_offsets(shim.bootstrap, group) for group in groups}
        for consumer in consumers:
            consumer.resume()
        stage.say("shim started again on the same ports and data, and asked for the offsets; the clients go on")

        until(
            "every client was at work again",
            lambda: at_work(given, commits) and len(producer.delivered) > delivered_before,
            clients,
        )
        stage.say("every client has recovered; stopping the producer, the consumers finish")
        producer.ask_to_end()
        producer.wait_ended()
        ends = {p: offset + 1 for p, offset, _ in sorted(producer.delivered)}
        until(
            "every group had committed all",
            lambda: all(latest(members) == ends for members in groups.values()),
            consumers,
        )
        for consumer in consumers:
            consumer.ask_to_end()
        for consumer in consumers:
            consumer.wait_ended()

        stage.say("clients stopped; asking the shim and the broker for the offsets")
        committed = {group: committed_offsets(shim.bootstrap, group) for group in groups}
        at_broker = {group: copied_offsets(broker.bootstrap_servers, group, committed[group]) for group in groups}
        known_to_broker = coordinated_groups(broker.bootstrap_servers)
        stop_status = shim.stop()
        stage.say("shim stopped; reading its log with Kafka's DumpLogSegments")
        segments = sorted(s for s in shim.data.glob("__consumer_offsets-*/*.log") if s.stat().st_size)
        dump = dump_offsets_log(*segments).splitlines()

    return Findings(
        topic=TOPIC,
        partitions=PARTITIONS,
        delivered=producer.delivered,
        delivered_before_kill=delivered_before,
        kill_status=kill_status,
        down_seconds=down_seconds,
        stop_status=stop_status,
        groups=[
            GroupFindings(
                group=group,
                records={m.name: m.records for m in members},
                records_before_kill=sum(given[m.name] for m in members),
                positions=frozenset().union(*(m.positions for m in members)),
                failed_commits=sum(m.failed_commits for m in members),
                acknowledged=acknowledged[group],
                found=found[group],
                committed=committed[group],
                at_broker=at_broker[group],
                known_to_broker=group in known_to_broker,
            )
            for group, members in groups.items()
        ],
        data_dir=str(shim.data),
        dump=dump,
    )


def latest(members: Sequence[ClientProcess]) -> dict[int, int]:
    """By partition: the highest offset of a commit that was acknowledged to one of the members."""
    offsets: dict[int, int] = {}
    for member in members:
        for partition, offset in member.committed.items():
            offsets[partition] = max(offsets.get(partition, 0), offset)
    return offsets


def create_topic(bootstrap: str) -> None:
    def create(client: AdminClient) -> None:
        client.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(ADMIN_TIMEOUT_S)

    asked(bootstrap, create)


def committed_offsets(bootstrap: str, group: str) -> dict[int, int]:
    """What OffsetFetch at this address says of the group, by partition of the demo's topic."""

    def fetch(client: AdminClient) -> dict[int, int]:
        answers = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        offsets = answers[group].result(ADMIN_TIMEOUT_S).topic_partitions
        return {o.partition: o.offset for o in sorted(offsets) if o.topic == TOPIC and o.offset >= 0}

    return asked(bootstrap, fetch)


def copied_offsets(bootstrap: str, group: str, wanted: Mapping[int, int]) -> dict[int, int]:
    """What the brokers have of it, which follow the shim's log by some seconds at most."""
    deadline = time.monotonic() + MIRROR_TIMEOUT_S
    while (found := committed_offsets(bootstrap, group)) != wanted and time.monotonic() < deadline:
        time.sleep(MIRROR_LOOK_S)  # a broker tells nobody
    return found


def coordinated_groups(bootstrap: str) -> set[str]:
    """The groups that ListGroups at this address names, and that have had members there."""

    def list_groups(client: AdminClient) -> set[str]:
        listed = client.list_consumer_groups().result(ADMIN_TIMEOUT_S)
        if listed.errors:
            raise listed.errors[0]
        return {group.group_id for group in listed.valid if not group.is_simple_consumer_group}

    return asked(bootstrap, list_groups)


def asked(bootstrap: str, question: Callable[[AdminClient], Answer]) -> Answer:
    """What an unmodified admin client answers. Raises DemoFailed when it cannot."""

    # A signal must wait: an exception raised while the client's C code runs comes out of it as a SystemError.
    with signals_held():
        try:
            return question(AdminClient({"bootstrap.servers": bootstrap, "log_level": 4}))
        except (KafkaException, TimeoutError) as error:
            raise DemoFailed(f"the admin client at {bootstrap}: {error!r}") from error


class Interrupted(BaseException):
    """A signal that asks the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def interruptible() -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP raises Interrupted here; later ones do not disturb the stopping."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    with signals_to(interrupt):
        yield


@contextmanager
def signals_held() -> Iterator[None]:
    """A signal that comes during the block takes effect at its end."""
    came: list[int] = []
    try:
        with signals_to(lambda number, frame: came.append(number)):
            yield
    finally:
        if came:
            signal.raise_signal(came[0])


@contextmanager
def signals_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    earlier = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield
    finally:
        for number, before in earlier.items():
            signal.signal(number, before)


@contextmanager
def working_folder(keep: bool, stage: Stage) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="offset-shim-demo-"))
    try:
        yield folder
    finally:
        if keep:
            stage.say(f"kept: {folder}")
        else:
            shutil.rmtree(folder)


def log_to(stage: Stage) -> None:
    """Have the real parts say what takes long (a download) where everything else is said."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            stage.say(record.getMessage())

    parts = logging.getLogger("shim.demo.parts")
    parts.setLevel(logging.INFO)
    parts.addHandler(Handler())


def run(*, keep: bool, json_wanted: bool) -> int:
    """The command: exit status 0 when every check of the report holds, 1 when one fails or the demo cannot be played.

    128 + n when signal n ended it. With `json_wanted` the report is one JSON document, progress is on standard error.
    """
    console = Console(stderr=json_wanted)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    complaints = Console(stderr=True)
    stage = Stage(console)
    log_to(stage)
    try:
        with interruptible(), stage.running(), working_folder(keep, stage) as folder:
            findings = play(folder, stage)
    except Interrupted as interrupted:
        _complain(complaints, f"stopped by {signal.Signals(interrupted.number).name}, nothing is left running")
        return 128 + interrupted.number
    except (PartsUnavailable, StartFailed, ToolFailed, DemoFailed) as error:
        return _complain(complaints, str(error))
    if json_wanted:
        report = as_json(findings)
        print(json.dumps(report, indent=2))  # noqa: T201 - the command's output
        return 0 if report["holds"] else 1
    holds = show(findings, console)
    program = sys.argv[0] if Path(sys.argv[0]).name == PROGRAM else PROGRAM  # as it was called: `make` has it in .venv
    last = f"kept: {folder}" if keep else f"`{program} demo --keep` keeps all this, to look at"
    console.print(last, markup=False, highlight=False, soft_wrap=True)
    return 0 if holds else 1


def _complain(console: Console, text: str) -> int:
    console.print(f"Error: {text}", markup=False, highlight=False, soft_wrap=True)
    return 1
