"""Documented commands that are not typed by the tests of this folder: which test runs them, or why none does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Elsewhere(NamedTuple):
    """`test`: file and function; `words`: those of the command that are in that file, besides all its `--options`."""

    test: str
    words: tuple[str, ...]


_AUDIT: Final = "tests/pipeline/audit/test_planted.py::test_the_command_finds_exactly_what_was_planted"
_LOAD: Final = "tests/pipeline/load/test_command.py::test_it_goes_on_with_what_comes_until_sigterm"
_HISTORY: Final = "tests/pipeline/history/test_live.py::test_what_the_shim_serves_and_had_served"
_CODEC: Final = "tests/benchmarks/test_codec.py::test_command"
_COMMIT: Final = "tests/benchmarks/test_commit.py::test_both_sides_carry_every_line"
_PROXY: Final = "tests/benchmarks/test_proxy.py::test_all_three_ways_in_a_network_of_their_own"
_DEMO: Final = "tests/demo/test_demo.py::test_it_ends_with_a_report_in_which_every_check_holds"
_BACK: Final = "tests/migration/test_coming_back.py::test_nothing_is_given_back_before_somebody_has_said_which_is_right"
_ADVICE: Final = "tests/migration/test_coming_back.py::test_the_advice_takes_back_no_commit_that_was_acknowledged"
_MOVED: Final = "tests/relocation/test_live.py::test_clients_commit_all_the_while"
_TWENTY: Final = "tests/rebalancing/test_rebalancing.py::test_twenty_members_beside_the_real_coordinator"

ELSEWHERE: Final[Mapping[str, Elsewhere]] = {
    "make demo": Elsewhere(_DEMO, ("demo",)),
    "offset-shim demo --keep": Elsewhere(_DEMO, ("demo",)),
    "offset-pipeline audit --shim shim:19092 --upstream kafka:9092 --zookeeper zk:2181": Elsewhere(_AUDIT, ("audit",)),
    "offset-pipeline load --bootstrap-servers shim:19092 --group lake --topics orders,payments "
    "--to /lake/raw": Elsewhere(_LOAD, ("load",)),
    "offset-pipeline load --bootstrap-servers shim:19092 --group lake --topics orders,payments --to /lake/raw "
    "--dry-run": Elsewhere(_LOAD, ("load",)),
    "offset-pipeline history state --data-dir /backup/offset-shim --at 2026-03-01T14:05 --to-folder state": Elsewhere(
        _HISTORY, ("history", "state")
    ),
    "offset-pipeline history state --to FILE.parquet": Elsewhere(_HISTORY, ("history", "state")),
    "python -m benchmarks.codec --json": Elsewhere(_CODEC, ("benchmarks.codec",)),
    'python -m benchmarks.codec --only "OffsetCommit request"': Elsewhere(_CODEC, ("benchmarks.codec",)),
    "python -m benchmarks.log commits": Elsewhere(
        "tests/benchmarks/test_log.py::test_commits_are_counted_and_weighed", ("benchmarks.log", "commits")
    ),
    "python -m benchmarks.log load": Elsewhere(
        "tests/benchmarks/test_log.py::test_loading_from_a_snapshot_and_without", ("benchmarks.log", "load")
    ),
    "python -m benchmarks.commit": Elsewhere(_COMMIT, ("benchmarks.commit",)),
    "python -m benchmarks.proxy": Elsewhere(_PROXY, ("benchmarks.proxy",)),
    "python -m benchmarks.connections": Elsewhere(
        "tests/benchmarks/test_connections.py::test_memory_and_waits_are_measured_at_both_sides",
        ("benchmarks.connections",),
    ),
    "python -m benchmarks.overhead": Elsewhere(
        "tests/benchmarks/test_overhead.py::test_lines_are_measured_at_all_sides", ("benchmarks.overhead",)
    ),
    "python -m benchmarks.failover --rounds 101": Elsewhere(
        "tests/benchmarks/test_failover.py::test_both_sides_go_on", ("benchmarks.failover",)
    ),
    "python -m benchmarks.scale": Elsewhere(
        "tests/benchmarks/test_scale_workers.py::test_one_and_two_carry_the_same_load", ("benchmarks.scale",)
    ),
    "python -m benchmarks.scale.shims": Elsewhere(
        "tests/benchmarks/test_scale_shims.py::test_each_arrangement_carries_its_load", ("benchmarks.scale.shims",)
    ),
    "offset-shim groups reset GROUP --from-upstream": Elsewhere(_BACK, ("groups", "reset")),
    "offset-shim groups reset GROUP --from-upstream --dry-run": Elsewhere(_ADVICE, ("groups", "reset")),
    "offset-shim groups reset GROUP --from-upstream --topic T:P": Elsewhere(_ADVICE, ("groups", "reset")),
    "offset-shim log move --to kafka": Elsewhere(_MOVED, ("log", "move", "kafka")),
    "offset-shim log move --to local": Elsewhere(_MOVED, ("log", "move", "local")),
    "offset-shim serve … --workers 2": Elsewhere(
        "tests/workers/test_workers.py::test_as_many_workers_as_it_is_told", ("serve",)
    ),
    "pytest -s -m soak -k twenty tests/rebalancing": Elsewhere(_TWENTY, ("soak",)),
}

_INDEX: Final = "takes hundreds of packages from an index"
_DOCKER: Final = "needs a Docker daemon; tests/packaging holds the files against each other"
_ROOT: Final = "changes the machine, as root; tests/packaging has systemd check the unit"
_KUBERNETES: Final = "needs a Kubernetes; tests/packaging checks the example"
_SPARK: Final = "needs a Spark of several machines"
_MINUTES: Final = "takes minutes, on a quiet machine; test_every_command.py asks for its help"
_ITSELF: Final = "runs the tests, this one among them"
_SAID: Final = "is no command: what is printed"

_CLASS: Final = "is named beside its class, which is run by docs/trying.md"

NOT_HERE: Final[Mapping[str, str]] = {
    "kafka-console-consumer.sh": _CLASS,
    "kafka-console-producer.sh": _CLASS,
    "offset-shim ready …": _SAID,
    "offset-shim groups reset --to-earliest, by alice@laptop": _SAID,
    "make test": _ITSELF,
    "make soak": _ITSELF,
    "make bench": _MINUTES,
    "make lint": "is what looks at the tests",
    "make site": "is the last of what `make lint` does",
    "make jars": "is `offset-pipeline jars`, which is run, behind an installation",
    "pip install .": _INDEX,
    "pip install '.[demo]'": _INDEX,
    "pip install -e '.[dev]'": _INDEX,
    "pip install '.[pipeline]'": _INDEX,
    'mvn -q -f CLONE/tests/legacy/poms/kafka-1.1.1.xml dependency:copy-dependencies -DoutputDirectory="$PWD/old"': (
        "fetches what the tests have in the cache, by the same file"
    ),
    "docker build -t offset-shim .": _DOCKER,
    "docker run --read-only --tmpfs /tmp -p 19092-19094:19092-19094 -v offsets:/var/lib/offset-shim offset-shim serve "
    "--bootstrap-servers HOST:9092 --listen 0.0.0.0:19092 --advertised-host localhost": _DOCKER,
    "docker exec CONTAINER offset-shim groups list": _DOCKER,
    "docker compose up --build": _DOCKER,
    "docker compose --profile spark up --build --detach": _DOCKER,
    "docker compose --profile three up --build": _DOCKER,
    "docker compose --profile spark run --rm offset-pipeline audit --shim shim:29092 --upstream kafka:9092 "
    "--to /lake/audit-1": _DOCKER,
    "systemctl reload offset-shim": _ROOT,
    "systemctl restart offset-shim": _ROOT,
    "systemctl status offset-shim": _ROOT,
    "systemctl daemon-reload && systemctl enable --now offset-shim": _ROOT,
    "journalctl -u offset-shim": _ROOT,
    "useradd --system --home-dir /var/lib/offset-shim --shell /usr/sbin/nologin offset-shim": _ROOT,
    "install -D -m 640 -g offset-shim deploy/offset-shim.toml /etc/offset-shim/offset-shim.toml": _ROOT,
    "install -m 644 deploy/systemd/offset-shim.service /etc/systemd/system/offset-shim.service": _ROOT,
    "kubectl apply -f deploy/kubernetes/offset-shim.yaml": _KUBERNETES,
    "kubectl apply -f deploy/kubernetes/three-shims.yaml": _KUBERNETES,
    "kubectl exec offset-shim-0 -- offset-shim groups list": _KUBERNETES,
    "kubectl exec offset-shim-0 -- sh -c 'kill -HUP 1'": _KUBERNETES,
    "ssh -L 9644:127.0.0.1:9644 shim": "needs another machine",
    'spark-submit --master spark://master:7077 --jars "$(offset-pipeline jars)" '
    "\"$(python -c 'import pipeline.main; print(pipeline.main.__file__)')\" "
    "load --bootstrap-servers shim:19092 --group lake --topics orders --to hdfs:///lake/raw": _SPARK,
    'spark-submit --master spark://HOST:7077 --jars "$(offset-pipeline jars)" '
    "--conf spark.pyspark.python=/opt/offset-pipeline/bin/python "
    "$(python -c 'import pipeline.main as m; print(m.__file__)') "
    "audit --shim shim:19092 --upstream kafka:9092 --to hdfs:///audits/1": _SPARK,
    "offset-pipeline audit --shim H:P --upstream H:P [--zookeeper H:P[,H:P][/chroot]] "
    "[--admin H:P[,H:P]": "is the form of the command before it",
    "python -m benchmarks.log memory": _MINUTES,
    "python -m benchmarks.log compaction": _MINUTES,
    'python -m benchmarks.commit --only "commits 8x8" --set offsets.history.retention.minutes=0': _MINUTES,
    "python -m benchmarks.proxy --spare-core": _MINUTES,
    "python -m benchmarks.proxy --only consume --without-kroxylicious --rounds 3 --megabytes 500": _MINUTES,
    "python -m tests.old_clients.matrix": "writes the page anew; tests/old_clients/test_matrix.py calls what it does",
    "python -m benchmarks.compat": _MINUTES,
    "python -m benchmarks.scale.handover": _MINUTES,
    "python -m benchmarks.pipeline.load": _MINUTES,
    "python -m benchmarks.pipeline.history": _MINUTES,
}
