"""The messages of the other codecs: each makes its own objects from our bytes, and the same bytes from them.

kafka-python: `decode` and `encode` of its message classes, which compile themselves to Python at first use, as ours do.
aiokafka: `decode` and `encode` of the struct of the version. kio: its `entity_reader`, which is Rust, and its
`entity_writer`, which is Python, both fetched beforehand.
"""

import importlib
import io
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import kafka.protocol.consumer
import kafka.protocol.metadata
import kio.index
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from benchmarks.codec.messages import Sample
from benchmarks.codec.sides import Column


class Rival(NamedTuple):
    """Another codec for one message in one version: `decode()` and `encode()` of what was given to it beforehand."""

    column: Column
    decode: Callable[[], object]
    encode: Callable[[], bytes]
    encode_again: Callable[[Any], bytes]
    """The bytes of what `decode` gave."""
    native_decode: bool = False


def kafka_python(sample: Sample, raw: bytes) -> Rival:
    name = type(sample.message).__name__
    package = kafka.protocol.consumer if hasattr(kafka.protocol.consumer, name) else kafka.protocol.metadata
    cls = getattr(package, name)
    decode = partial(cls.decode, raw, version=sample.version)
    # A decoded message knows its version.
    return Rival(Column.KAFKA_PYTHON, decode, decode().encode, lambda theirs: bytes(theirs.encode()))


_AIOKAFKA_MODULES = {3: "metadata", 8: "commit", 9: "commit", 11: "group", 18: "admin"}


def aiokafka(sample: Sample, raw: bytes) -> Rival | None:
    module = importlib.import_module(f"aiokafka.protocol.{_AIOKAFKA_MODULES[sample.api.key]}")
    name = f"{type(sample.message).__name__}_v{sample.version}".replace("ApiVersions", "ApiVersion")
    cls = getattr(module, name, None)
    if cls is None:
        return None
    decode = partial(cls.decode, raw)
    return Rival(Column.AIOKAFKA, decode, decode().encode, lambda theirs: bytes(theirs.encode()))


def kio_(sample: Sample, raw: bytes) -> Rival:
    module = kio.index.load_payload_module(
        sample.api.key, sample.version, EntityType.request if sample.direction == "request" else EntityType.response
    )
    cls = getattr(module, type(sample.message).__name__)
    decode = partial(entity_reader(cls), raw, 0)
    write = entity_writer(cls)

    def encode(theirs: Any) -> bytes:
        out = io.BytesIO()
        write(out, theirs)
        return out.getvalue()

    return Rival(Column.KIO, decode, partial(encode, decode()[0]), lambda theirs: encode(theirs[0]), native_decode=True)


RIVALS: tuple[Callable[[Sample, bytes], Rival | None], ...] = (kafka_python, aiokafka, kio_)
