"""Client settings of a properties file, for kafka-python."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import NotDone
from pipeline.kafka_settings import for_kafka_python, read_settings

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a\\"b" password="c=d";'


def test_a_file_as_kafkas_tools_take_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"# who\nsecurity.protocol = SASL_PLAINTEXT\n\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n")
    settings = read_settings(file)
    assert settings["sasl.jaas.config"] == JAAS
    assert for_kafka_python(settings) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": 'a"b',
        "sasl_plain_password": "c=d",
    }


def test_what_kafka_python_cannot_be_told() -> None:
    with pytest.raises(NotDone, match="PEM"):
        for_kafka_python({"ssl.truststore.location": "store.jks"})
    with pytest.raises(NotDone, match="username and password"):
        for_kafka_python({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"})
    pem = {"ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM"}
    assert for_kafka_python(pem) == {"ssl_cafile": "ca.pem"}


def test_a_line_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol\n")
    with pytest.raises(NotDone, match="line 1"):
        read_settings(file)
