"""Documented commands in an order in which each finds what it needs. `conftest.py` says what there is before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple


class Step(NamedTuple):
    """`doc`: the command, as it is documented; `adds`: what a reader adds, where the text has said it before or leaves
    it to them; `says`: a part of its standard output, with placeholders; `status`: its exit status."""

    doc: str
    adds: str = ""
    says: str = ""
    status: int = 0

    @property
    def command(self) -> str:
        return f"{self.doc} {self.adds}".strip()


Story = tuple[Step, ...]

SERVE_THE_DESK: Final = Step("offset-shim serve … --admin 127.0.0.1:9644")

AT_A_SHIM: Final[Mapping[str, Story]] = {
    "metrics": (
        Step("curl -s http://127.0.0.1:9644/readyz", says='{"ready":true,"missing":[]}'),
        Step("curl -s http://127.0.0.1:9644/metrics", says="offset_shim_build_info{"),
    ),
    "looking": (
        Step("offset-shim groups list", says="G"),
        Step("offset-shim groups list --lag", says="LAG"),
        Step("offset-shim groups describe G", says="orders"),
        Step("offset-shim groups history G", says="orders"),
        Step("kafka-consumer-groups.sh --describe --group G", "--bootstrap-server 10.0.0.5:19092", says="orders"),
        Step("kafka-topics.sh", "--bootstrap-server 10.0.0.5:19092 --list", says="orders"),
        Step("kafka-share-groups.sh", "--bootstrap-server 10.0.0.5:19092 --list"),
        Step("kafka-transactions.sh … find-hanging", "--broker-id 1", says="ProducerId"),
    ),
    "resetting": (
        Step("offset-shim groups reset G", "--to-earliest --all-topics --dry-run", says="orders"),
        Step("offset-shim groups reset G", "--shift-by -2 --topic orders --cause 'change 4711'", says="orders"),
        Step("offset-shim groups history G", says="groups reset --shift-by -2"),
        Step("offset-shim groups reset G", "--undo", says="orders"),
        Step("offset-shim groups reset G", "--from-history TIME --topic orders --dry-run", says="orders"),
    ),
    "from zookeeper on": (
        Step("offset-shim migrate plan", says="billing"),
        Step("offset-shim migrate start billing --cause 'change 4711'", says="zookeeper"),
        Step("offset-shim migrate status", says="change 4711"),
        Step("offset-shim groups describe billing", says="orders"),
        Step("offset-shim groups reset billing --to-earliest --topic orders --dry-run", says="orders"),
        Step("offset-shim migrate advance billing --dry-run", says="kafka+dual"),
        Step(
            "offset-shim migrate verify billing && offset-shim migrate advance billing",
            says="kafka",
        ),
    ),
    "the runbook": (
        Step("offset-shim migrate start GROUP"),
        Step("offset-shim migrate status GROUP", says="zookeeper"),
        Step("offset-shim migrate verify GROUP", says="GROUP"),
        Step("offset-shim migrate advance GROUP", says="kafka"),
        Step("offset-shim groups describe GROUP", says="step: kafka+dual"),
        Step("offset-shim migrate rollback GROUP", says="zookeeper"),
    ),
    "asked by HTTP, and deleted": (
        Step(
            """curl -sN -H 'Content-Type: application/json' -d '{"pattern": "etl-*"}' """
            "http://127.0.0.1:9644/v1/migrate/start",
            says='{"done":1}',
        ),
        Step("offset-shim groups delete G…", "--cause 'not used any more'", says="retired"),
        Step(
            "kafka-consumer-groups.sh --delete", "--bootstrap-server 10.0.0.5:19092 --group etl-group", says="etl-group"
        ),
    ),
}
"""What is typed beside the shim that `SERVE_THE_DESK` has started."""

WATCHED: Final = Step("offset-shim groups watch [G…]", says="G")
"""Goes on until Ctrl-C."""

BACKED_UP: Final = Step("offset-shim log backup TARGET --data-dir DIR")
"""While the shim runs."""

RESTORED: Final = Step("cp -a TARGET DIR")

AT_REST: Final[Mapping[str, Story]] = {
    "dumped": (
        Step("offset-shim log verify", "--data-dir DIR", says="__consumer_offsets"),
        Step("offset-shim log dump --data-dir DIR", says="orders"),
        Step("offset-shim log dump", "--data-dir DIR --state", says="orders"),
        Step("offset-shim log dump --topic __offset_shim_state", "--data-dir DIR", says="__offset_shim_state-"),
        Step("offset-shim log dump --group G --at TIME", "--data-dir DIR", says="orders"),
        Step(
            "offset-shim log dump --topic __offset_shim_history --group G --from TIME --to TIME",
            "--data-dir DIR",
            says="orders",
        ),
        Step(
            """kafka-dump-log.sh --offsets-decoder --files "$(echo DIR/__consumer_offsets-17/*.log | tr ' ' ,)\"""",
            says="orders",
        ),
    ),
    "put right": (
        Step("offset-shim log repair --dry-run", "--data-dir DIR"),
        Step("offset-shim log repair", "--data-dir DIR --yes"),
        Step("offset-shim log repair --skip", "--data-dir DIR --yes"),
        Step("offset-shim log compact", "--data-dir DIR"),
        Step("offset-shim log backup TARGET", "--data-dir DIR", status=2),  # it is there
    ),
    "taken away": (
        Step("offset-shim log export --data-dir DIR --to-bootstrap kafka-1:9092 --dry-run", "--group G", says="G"),
        Step("offset-shim log export --to-bootstrap", "kafka-1:9092 --data-dir DIR --group G", says="G"),
        Step("offset-shim log export --data-dir DIR --to-folder OUT --partitions N", "--group G", says="G"),
        Step("offset-shim log import --from-folder OUT --partitions N", "--data-dir NEW"),
        Step("offset-shim log import --from-folder OUT", "--data-dir NEW --dry-run --replace"),
        Step("offset-shim log import --data-dir /var/lib/offset-shim --from-folder state --group billing --replace"),
        Step("offset-shim log import --from-bootstrap", "kafka-1:9092 --data-dir ANOTHER --group G"),
        Step("offset-shim log dump", "--data-dir ANOTHER --state", says="orders"),
    ),
}
"""What is typed where that backup is restored, and no shim uses it."""

WITHOUT_A_SHIM: Final[Mapping[str, Story]] = {
    "settings": (
        Step("offset-shim config --config offset-shim.toml --changed", says="offset-shim.toml"),
        Step("offset-shim config --config FILE", says="offset-shim.toml"),
        Step("offset-shim config --changed"),
        Step("offset-shim config --describe", says="offset.metadata.max.bytes"),
        Step("offset-shim config", says="offset.metadata.max.bytes"),
    ),
    "completion": (
        Step('eval "$(_OFFSET_SHIM_COMPLETE=bash_source offset-shim)"', "&& complete -p offset-shim", says="complete"),
    ),
    "jars": (Step("offset-pipeline jars", says=".jar"),),
    "alert rules": (Step("promtool check rules alerts.yml", says="SUCCESS"),),
}

WITH_A_TOKEN: Final = Step("offset-shim serve … --admin shim:9644 --set admin.token.file=/etc/offset-shim/admin-token")
BEFORE_THE_TOKEN: Final = Step(
    "head -c 32 /dev/urandom | base64 | tr -d '=\\n' > /etc/offset-shim/admin-token "
    "&& chmod 600 /etc/offset-shim/admin-token"
)
BY_TOKEN: Final[Story] = (
    Step("offset-shim migrate status --admin shim:9644 --admin-token-file ~/.offset-shim-token"),
    Step('curl -H "Authorization: Bearer $(cat ~/.offset-shim-token)" http://shim:9644/v1/groups', says='{"groups":'),
)

BY_CERTIFICATE: Final[Story] = (
    Step("offset-shim groups list --admin shim:9644 --admin-ca-file ca.pem --admin-certificate-file me.pem"),
    Step("curl --cacert ca.pem --cert me.pem https://shim:9644/v1/groups", says='{"groups":'),
)

SERVES: Final[Story] = (
    Step(
        "offset-shim serve --bootstrap-servers kafka-1:9092,kafka-2:9092 --listen 10.0.0.5:19092 "
        "--advertised-host shim.example.org --data-dir /var/lib/offset-shim"
    ),
    Step(
        "offset-shim serve --bootstrap-servers kafka-1:9092 --listen 10.0.0.5:19092 --data-dir /var/lib/offset-shim "
        "--zookeeper zk-1:2181,zk-2:2181,zk-3:2181/old-consumers --registrar"
    ),
    Step("offset-shim serve --bootstrap-servers kafka-1:9094 …"),
)
"""Each until SIGTERM."""

THREE_BROKERS: Final[Story] = (
    Step(
        'java -cp "$KAFKA" kafka.tools.StorageTool format --cluster-id 4L6g3nShT-eMCtK--X86sw '
        "--config three/$i/server.properties"
    ),
    Step('java -cp "$KAFKA" kafka.Kafka three/$i/server.properties &'),
)
"""In a loop of the shell; `test_three_brokers.py` has it as it stands, and then:"""
BROKERS_ARE_THERE: Final = Step(
    'java -cp "$KAFKA" org.apache.kafka.tools.ClusterTool list-endpoints --bootstrap-server 127.0.0.1:29091'
)
THREE_SHIMS: Final[Story] = tuple(
    Step(
        "offset-shim serve --bootstrap-servers 127.0.0.1:29091,127.0.0.1:29092,127.0.0.1:29093 "
        f"--listen 127.0.0.1:{19082 + 10 * number} --data-dir three/shim-{number} --admin 127.0.0.1:{9643 + number} "
        f"--set offsets.log=kafka --set shims.listener=127.0.0.1:{19089 + 10 * number}"
    )
    for number in (1, 2, 3)
)
SERVE_ON_TOPICS: Final = Step(
    "offset-shim serve --bootstrap-servers kafka-1:9092,kafka-2:9092,kafka-3:9092 --listen 10.0.0.5:19092 "
    "--data-dir /var/lib/offset-shim-topics --admin 127.0.0.1:9644 --set offsets.log=kafka "
    "--set shims.listener=10.0.0.5:19191"
)

OLD_ZOOKEEPER: Final = Step('java -cp "old/*" org.apache.zookeeper.server.ZooKeeperServerMain zoo.cfg')
SERVE_A_REHEARSAL: Final = Step(
    "offset-shim serve --bootstrap-servers HOST:PORT --listen 127.0.0.1:19092 --data-dir rehearsal "
    "--admin 127.0.0.1:9644 --zookeeper 127.0.0.1:29181 --registrar"
)
OLD_PRODUCER: Final = Step(
    'seq 100 | java -cp "old/*" kafka.tools.ConsoleProducer --broker-list 127.0.0.1:19092 --topic numbers'
)
OLD_CONSUMER: Final = Step(
    'java -cp "old/*" kafka.tools.ConsoleConsumer --zookeeper 127.0.0.1:29181 --topic numbers --group GROUP '
    "--from-beginning --max-messages 60",
    says="60",
)
REHEARSAL: Final[Story] = (OLD_ZOOKEEPER, SERVE_A_REHEARSAL, OLD_PRODUCER, OLD_CONSUMER)
"""`test_rehearsal.py` has them beside each other, as the page does."""

STARTED_AGAIN: Final = Step("java kafka.Kafka FOLDER/broker/server.properties")
"""The broker of a demo that was kept; tests/demo does that, and what docs/trying.md has after it:"""
SERVE_BY_HAND: Final = Step(
    "offset-shim serve --bootstrap-servers HOST:PORT --listen 127.0.0.1:19092 --data-dir FOLDER/new "
    "--admin 127.0.0.1:9644"
)
BY_HAND: Final[Story] = (
    Step("offset-shim migrate plan", says="demo-kafka-python"),
    Step("offset-shim migrate start --all", says="demo-kafka-python"),
    Step("offset-shim groups list --lag", says="demo-kafka-python"),
    Step("seq 100 | java org.apache.kafka.tools.ConsoleProducer --bootstrap-server 127.0.0.1:19092 --topic numbers"),
    Step(
        "java org.apache.kafka.tools.consumer.ConsoleConsumer "
        "--bootstrap-server 127.0.0.1:19092 --topic numbers --group mynums --from-beginning --max-messages 60",
        says="\n60\n",
    ),
    Step("offset-shim groups describe mynums", says="numbers"),
)

OF_AN_ADMINISTRATOR: Final[Story] = (
    Step(
        "kafka-configs.sh --bootstrap-server kafka-1:9093 --command-config admin.properties --alter "
        "--entity-type users --entity-name offset-shim --add-config 'SCRAM-SHA-512=[password=...]'",
        says="Completed updating config for user offset-shim",
    ),
    Step(
        "kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config admin.properties "
        "--add --allow-principal User:offset-shim --operation Describe --operation Read --topic '*'",
        says="User:offset-shim",
    ),
    Step(
        "kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config admin.properties "
        "--add --allow-principal User:offset-shim --operation Describe --operation Read --operation Delete --group '*'",
        says="operation=DELETE",
    ),
)
SERVE_SECURED: Final = Step(
    "offset-shim serve --bootstrap-servers kafka-1:9093 --listen 0.0.0.0:19092 --advertised-host shim.example.org "
    "--data-dir /var/lib/offset-shim --config /etc/offset-shim.toml"
)


def _all(stories: Mapping[str, Story]) -> Iterable[Step]:
    return (step for story in stories.values() for step in story)


RUN_HERE: Final[tuple[Step, ...]] = (
    *(SERVE_THE_DESK, WATCHED, BACKED_UP, RESTORED, BEFORE_THE_TOKEN, WITH_A_TOKEN),
    *(STARTED_AGAIN, SERVE_BY_HAND, *BY_HAND, *OF_AN_ADMINISTRATOR, SERVE_SECURED),
    *_all(AT_A_SHIM),
    *_all(AT_REST),
    *_all(WITHOUT_A_SHIM),
    *BY_TOKEN,
    *BY_CERTIFICATE,
    *SERVES,
    *THREE_BROKERS,
    BROKERS_ARE_THERE,
    *THREE_SHIMS,
    *REHEARSAL,
    SERVE_ON_TOPICS,
)
