"""Certificates for tests: a CA of their own, and files as the shim, brokers and clients want them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

LONG_AGO: Final = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


class Authority:
    """A CA, and the files in `folder` that it makes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.truststore = folder / f"ca-{id(self)}.pem"
        """The CA's own certificate."""
        self.ca.cert_pem.write_to_path(str(self.truststore))

    def keystore(
        self, name: str, *identities: str, expired: bool = False, password: str = "", common_name: str | None = None
    ) -> Path:
        """Key and certificate chain for these hosts (127.0.0.1 where none is given), in one file; the key is PKCS #8,
        as Kafka wants it.
        """
        made = self.ca.issue_cert(
            *(identities or ("127.0.0.1",)), common_name=common_name, not_after=LONG_AGO if expired else None
        )
        key = load_pem_private_key(made.private_key_pem.bytes(), None).private_bytes(
            Encoding.PEM,
            PrivateFormat.PKCS8,
            BestAvailableEncryption(password.encode()) if password else NoEncryption(),
        )
        file = self.folder / name
        # Put there as a whole, as whoever renews certificates should.
        new = file.with_suffix(".new")
        new.write_bytes(key + b"".join(blob.bytes() for blob in made.cert_chain_pems))
        new.replace(file)
        return file


def librdkafka(trust: Path, keystore: Path | None = None) -> Mapping[str, str]:
    """Settings of a confluent-kafka client."""
    own = {} if keystore is None else {"ssl.key.location": str(keystore), "ssl.certificate.location": str(keystore)}
    return {"security.protocol": "ssl", "ssl.ca.location": str(trust), **own}


def kafka_python(trust: Path, keystore: Path | None = None) -> Mapping[str, str | bool]:
    """Settings of a kafka-python client."""
    own = {} if keystore is None else {"ssl_keyfile": str(keystore), "ssl_certfile": str(keystore)}
    return {"security_protocol": "SSL", "ssl_cafile": str(trust), **own}


def java(trust: Path, keystore: Path | None = None) -> str:
    """A Java client's properties."""
    lines = ["security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={trust}"]
    if keystore is not None:
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={keystore}"]
    return "\n".join(lines) + "\n"
