"""TLS without I/O: two ends that are handed each other's bytes, cut as the network may cut them."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.tls.stream import TlsStream
from shim.tls.words import NotTls, tls_reason
from tests.certificates import Authority

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def server_context(keystore: Path, clients: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(trust: Path, keystore: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(trust)
    if keystore is not None:
        context.load_cert_chain(keystore)
    return context


class Pair:
    """Two ends; `turn` carries what each of them has to send, in pieces that `cut` makes of it."""

    def __init__(
        self,
        server: ssl.SSLContext,
        client: ssl.SSLContext,
        cut: Callable[[bytes], list[bytes]] | None = None,
        hostname: str = "127.0.0.1",
    ) -> None:
        self.server = TlsStream(server, server_side=True)
        self.client = TlsStream(client, server_side=False, server_hostname=hostname)
        self.cut = cut or whole
        self.got: dict[TlsStream, bytes] = {self.server: b"", self.client: b""}
        assert self.client.receive(b"") == b""

    def turn(self) -> None:
        """Until nobody has anything to send."""
        moved = True
        while moved:
            moved = False
            for sender, receiver in ((self.client, self.server), (self.server, self.client)):
                for piece in self.cut(b"".join(sender.to_send())):
                    moved = True
                    self.got[receiver] += receiver.receive(piece)


def whole(data: bytes) -> list[bytes]:
    return [data] if data else []


def single_bytes(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def random_pieces(data: bytes) -> list[bytes]:
    rng = random.Random(len(data))
    pieces = []
    while data:
        size = rng.randint(1, 5000)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("cut", [whole, single_bytes, random_pieces])
def test_what_one_end_sends_the_other_gets(
    authority: Authority, version: str, cut: Callable[[bytes], list[bytes]]
) -> None:
    client = client_context(authority.truststore)
    client.minimum_version = client.maximum_version = VERSIONS[version]
    pair = Pair(server_context(authority.keystore("server.pem")), client, cut)
    pair.client.send(b"before the handshake ")
    pair.turn()
    assert (pair.client.secured, pair.server.secured) == (True, True)
    assert pair.server.object.version() == version
    sent = random.Random(1).randbytes(300_000 if cut is not single_bytes else 40_000)
    for size in (1, 16_384, 16_385, 65_536, 65_537, len(sent)):
        pair.client.send(sent[:size])
        pair.server.send(sent[:size][::-1])
        pair.turn()
        assert pair.got[pair.server] == b"before the handshake " + sent[:size]
        assert pair.got[pair.client] == sent[:size][::-1]
        pair.got[pair.server], pair.got[pair.client] = b"before the handshake ", b""


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b"\x00\x00\x00\x1a\x00\x12\x00\x00", "a plaintext request on a TLS port"),
        (b"\x00", "a plaintext request on a TLS port"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request on a TLS port"),
        (b"\x80\x2e\x01\x00\x02", "a plaintext request on a TLS port"),  # an SSL 2 hello is no TLS, either
    ],
)
def test_what_is_no_tls_is_named_and_not_answered(authority: Authority, first: bytes, words: str) -> None:
    stream = TlsStream(server_context(authority.keystore("server.pem")), server_side=True)
    with pytest.raises(NotTls, match=words):
        stream.receive(first)
    assert b"".join(stream.to_send()) == b""


def test_garbage_behind_the_first_byte_is_an_error_and_an_alert(authority: Authority) -> None:
    stream = TlsStream(server_context(authority.keystore("server.pem")), server_side=True)
    with pytest.raises(ssl.SSLError):
        stream.receive(b"\x16\x03\x01" + bytes(200))
    assert b"".join(stream.to_send())[:1] == b"\x15"


def test_a_record_that_was_changed_on_its_way_is_never_taken(authority: Authority) -> None:
    pair = Pair(server_context(authority.keystore("server.pem")), client_context(authority.truststore))
    pair.turn()
    pair.client.send(b"x" * 100)
    record = bytearray(b"".join(pair.client.to_send()))
    record[50] ^= 1
    with pytest.raises(ssl.SSLError) as refused:
        pair.server.receive(bytes(record))
    assert tls_reason(refused.value) == "decryption failed or bad record mac"


def test_an_end_is_seen_by_the_other_with_what_came_before_it(authority: Authority) -> None:
    pair = Pair(server_context(authority.keystore("server.pem")), client_context(authority.truststore))
    pair.turn()
    pair.server.send(b"last words")
    pair.server.end()
    assert not pair.client.ended
    assert pair.client.receive(b"".join(pair.server.to_send())) == b"last words"
    assert pair.client.ended


def test_an_end_before_the_handshake_says_nothing(authority: Authority) -> None:
    stream = TlsStream(server_context(authority.keystore("server.pem")), server_side=True)
    stream.end()
    assert b"".join(stream.to_send()) == b""


def reason_of_client(pair: Pair) -> str:
    with pytest.raises(ssl.SSLError) as refused:
        pair.turn()
    return tls_reason(refused.value)


def reason_of_server(pair: Pair) -> str:
    """What the server says of a client that refused it: that has raised, and its alert is on its way."""
    with pytest.raises(ssl.SSLError) as refused:
        pair.server.receive(b"".join(pair.client.to_send()))
    return tls_reason(refused.value)


def test_a_certificate_of_another_ca(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path)
    pair = Pair(server_context(authority.keystore("server.pem")), client_context(other.truststore))
    assert reason_of_client(pair) == "its certificate is refused: unable to get local issuer certificate"
    assert reason_of_server(pair) == "it refuses the shim's certificate: unknown CA"


def test_a_certificate_for_another_host(authority: Authority) -> None:
    server = server_context(authority.keystore("server.pem", "kafka.example.com"))
    pair = Pair(server, client_context(authority.truststore), hostname="localhost")
    assert reason_of_client(pair) == (
        "its certificate is refused: Hostname mismatch, certificate is not valid for 'localhost'."
    )
    pair = Pair(server, client_context(authority.truststore), hostname="127.0.0.1")
    assert "IP address mismatch" in reason_of_client(pair)


def test_a_certificate_that_has_expired(authority: Authority) -> None:
    pair = Pair(server_context(authority.keystore("server.pem", expired=True)), client_context(authority.truststore))
    assert reason_of_client(pair) == "its certificate is refused: certificate has expired"
    assert reason_of_server(pair) == "it refuses the shim's certificate: expired"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_without_the_certificate_that_is_required(authority: Authority, version: str) -> None:
    client = client_context(authority.truststore)
    client.minimum_version = client.maximum_version = VERSIONS[version]
    pair = Pair(server_context(authority.keystore("server.pem"), authority.truststore), client)
    with pytest.raises(ssl.SSLError) as refused:
        pair.turn()
    assert tls_reason(refused.value) == "it has shown no certificate"
    assert not pair.server.secured
    with pytest.raises(ssl.SSLError) as told:
        pair.client.receive(b"".join(pair.server.to_send()))
    assert tls_reason(told.value) in ("it wants a certificate", "it sent the alert: handshake failure")


def test_no_version_in_common(authority: Authority) -> None:
    server = server_context(authority.keystore("server.pem"))
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    client = client_context(authority.truststore)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    pair = Pair(server, client)
    assert reason_of_client(pair) == "no TLS version in common"
    with pytest.raises(ssl.SSLError) as told:
        pair.client.receive(b"".join(pair.server.to_send()))
    assert tls_reason(told.value) == "no TLS version in common"


def test_a_server_that_speaks_no_tls(authority: Authority) -> None:
    client = TlsStream(client_context(authority.truststore), server_side=False, server_hostname="127.0.0.1")
    client.receive(b"")
    with pytest.raises(ssl.SSLError) as refused:
        client.receive(b"\0\0\0\x0a\0\0\0\x01\0\0\0\0\0\0")
    assert tls_reason(refused.value) == "it does not speak TLS there"
