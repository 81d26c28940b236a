"""Client settings in a properties file, as Kafka's own tools take them (``--command-config``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pipeline.errors import NotDone

_NAMES: Final = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "ssl.truststore.location": "ssl_cafile",
}
"""Settings that both Spark's Java client and kafka-python have."""

_JAAS: Final = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def read_settings(path: Path | None) -> dict[str, str]:
    """Raises NotDone for a line that is no ``name=value``, OSError for a file that cannot be read."""
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path else (), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, equals, value = text.partition("=")
        if not equals:
            raise NotDone(f"{path}, line {number}: expected name=value")
        found[name.strip()] = value.strip()
    return found


def for_kafka_python(settings: Mapping[str, str]) -> dict[str, str]:
    """Of PLAINTEXT, SSL, and SASL with a user and a password. Raises NotDone for what kafka-python cannot be told."""
    chosen = {_NAMES[name]: value for name, value in settings.items() if name in _NAMES}
    if "ssl_cafile" in chosen and settings.get("ssl.truststore.type", "").upper() != "PEM":
        raise NotDone("ssl.truststore.location has to be a PEM file, with ssl.truststore.type=PEM")
    if "sasl.jaas.config" in settings:
        found = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _JAAS.findall(settings["sasl.jaas.config"])}
        if set(found) != {"username", "password"}:
            raise NotDone("sasl.jaas.config: expected a login module with username and password")
        chosen |= {"sasl_plain_username": found["username"], "sasl_plain_password": found["password"]}
    return chosen
