"""kafka-python leaves sockets unclosed, in the process of the tests: none of them fails for that, as for all others."""

from __future__ import annotations

import gc
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from kafka.net.compat import KafkaNetClient

NODE = "bootstrap-0"


@pytest.fixture
def client() -> Iterator[KafkaNetClient]:
    """One that need not be told anything by the broker to be connected."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        yield KafkaNetClient(bootstrap_servers=f"{host}:{port}", api_version=(0, 9))


def while_it_connects(client: KafkaNetClient) -> None:
    client._manager.get_connection(NODE)
    client.close()


def before_a_request_is_sent(client: KafkaNetClient) -> None:
    connected = client._manager.get_connection(NODE).init_future
    client.poll(timeout_ms=30_000, future=connected)
    assert connected.succeeded()
    client.send(NODE, client.cluster.metadata_request())
    client.close()


CLOSED = pytest.mark.parametrize("closed", [while_it_connects, before_a_request_is_sent])


@CLOSED
def test_what_it_leaves_is_nobodys_failure(client: KafkaNetClient, closed: Callable[[KafkaNetClient], None]) -> None:
    closed(client)
    client.__dict__.clear()
    gc.collect()


@CLOSED
def test_it_does_leave_them(client: KafkaNetClient, closed: Callable[[KafkaNetClient], None]) -> None:
    """Where it does not any more, nothing needs to be ignored."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        closed(client)
        client.__dict__.clear()
        gc.collect()
    assert [str(each.message).partition(" fd=")[0] for each in told] == ["unclosed <tests.conftest.KafkaPythonSocket"]


def test_what_others_leave_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[SimpleNamespace] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        unclosed: list[object] = [socket.create_connection(listening.getsockname())]
        unclosed.append(unclosed)  # a collector's
        del unclosed
        gc.collect()
    (only,) = told
    assert str(only.exc_value).startswith("unclosed <socket.socket fd=")
