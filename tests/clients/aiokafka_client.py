"""produce BOOTSTRAP TOPIC: a record for every line `key<TAB>value` of standard input, with aiokafka.
consume BOOTSTRAP TOPIC GROUP: a line for every record; SIGTERM: commit, leave, end.

Behind both may come further settings, `name=milliseconds`.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


def further(settings: Iterable[str]) -> dict[str, int]:
    return {name: int(value) for name, _, value in (text.partition("=") for text in settings)}


async def produce(bootstrap: str, topic: str, *settings: str) -> None:
    made = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5, **further(settings))
    async with made as producer:
        sent = []
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            key, value = line.rstrip(b"\n").split(b"\t")
            sent.append(await producer.send(topic, key=key, value=value))
        await asyncio.gather(*sent)


async def consume(bootstrap: str, topic: str, group: str, *settings: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=300,
        **further(settings),
    )
    async with consumer:
        while not stop.is_set():
            for partition, records in (await consumer.getmany(timeout_ms=200)).items():
                for record in records:
                    print(f"Partition:{partition.partition}\tOffset:{record.offset}\t{record.value.decode()}")
            sys.stdout.flush()


MODES: dict[str, Callable[..., Coroutine[None, None, None]]] = {"produce": produce, "consume": consume}

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    asyncio.run(MODES[sys.argv[1]](*sys.argv[2:]))
