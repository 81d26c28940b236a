"""`python -m benchmarks.connections.fetching HOST PORT TOPIC COUNT BYTES`: connections that fetch without a pause.

It says `ready` when each has its first answer, ends at the end of its standard input, and says how many bytes came.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
import threading

READ_BYTES = 1 << 18


def fetch_frame(topic: str, most: int) -> bytes:
    """Fetch v4 of partition 0 from its beginning."""
    name = topic.encode()
    body = struct.pack(">hhih", 1, 4, 1, -1) + struct.pack(">iiiib", -1, 500, 1, most, 0)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, 0, most)
    return struct.pack(">i", len(body)) + body


def main(host: str, port: int, topic: str, count: int, most: int) -> None:
    frame = fetch_frame(topic, most)
    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    missing: dict[socket.socket, int] = {}
    answered: set[socket.socket] = set()
    total = 0
    buffer = memoryview(bytearray(READ_BYTES))
    with selectors.DefaultSelector() as selector:
        for _ in range(count):
            sock = socket.create_connection((host, port))
            sock.sendall(frame)
            missing[sock] = 0
            selector.register(sock, selectors.EVENT_READ)
        while not over.is_set():
            for key, _ in selector.select(0.2):
                sock = key.fileobj  # type: ignore[assignment]
                if not missing[sock]:
                    head = sock.recv(4, socket.MSG_WAITALL)
                    if len(head) < 4:
                        raise ConnectionError("a connection has ended")
                    missing[sock] = int.from_bytes(head, "big")
                    continue
                got = sock.recv_into(buffer, min(READ_BYTES, missing[sock]))
                if not got:
                    raise ConnectionError("a connection has ended")
                total += got
                missing[sock] -= got
                if not missing[sock]:
                    sock.sendall(frame)
                    if len(answered) < count:
                        answered.add(sock)
                        if len(answered) == count:
                            print("ready", flush=True)
    print(total, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
