"""A real broker that speaks TLS at one port, beside plaintext at another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shim.demo.parts import Broker, free_port_range
from shim.demo.parts.broker import Properties

_HOST = "127.0.0.1"


def tls_port(broker: Broker) -> int:
    """Where it speaks TLS; at its own port it does not."""
    return broker.port + 1


@contextmanager
def tls_broker(
    folder: Path, keystore: Path, truststore: Path, *, client_auth: str = "none", properties: Properties | None = None
) -> Iterator[Broker]:
    """The files are PEM; `client_auth` is the TLS listener's `ssl.client.auth`."""
    port = free_port_range(3)
    listeners = f"PLAINTEXT://{_HOST}:{port},SSL://{_HOST}:{port + 1},CONTROLLER://{_HOST}:{port + 2}"
    settings: Properties = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(truststore),
        "ssl.client.auth": client_auth,
        **(properties or {}),
    }
    broker = Broker(folder, properties=settings)
    broker.port = port
    broker.quorum = broker.quorum._replace(controller=f"{_HOST}:{port + 2}")
    with broker:
        yield broker
