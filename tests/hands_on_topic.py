"""In whose hands the groups of a shim are, as the topic that its log is on says, whether it runs or not."""

from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.cimpl import KafkaError

from protocol.own.state_log import GroupHandsKey, GroupHandsValue, Hands
from protocol.own.topic_log import decode_own, is_own

_TIMEOUT_S: Final = 30.0


def hands_on_topic(bootstrap_servers: str, topic: str) -> dict[str, Hands]:
    """By group; nothing where there is no such topic. Raises KafkaException, TimeoutError."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "none, it commits nothing",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = set(consumer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        return _read(consumer, partitions)
    finally:
        consumer.close()


def _read(consumer: Consumer, partitions: set[int]) -> dict[str, Hands]:
    """All that its partitions, which these are, have now. The set is empty at the end."""
    found: dict[str, Hands] = {}
    while partitions:
        message = consumer.poll(_TIMEOUT_S)
        if message is None:
            raise TimeoutError(f"partitions {sorted(partitions)} are not read to their ends")
        if (error := message.error()) is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            partitions.discard(message.partition())
        elif is_own(raw_key := message.key() or b""):
            key, value = decode_own(raw_key, message.value())
            if isinstance(key, GroupHandsKey):
                assert isinstance(value, GroupHandsValue)
                found[key.group] = Hands(value.hands)
    return found
