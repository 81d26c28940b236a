"""Free ports."""

import socket
from pathlib import Path

from shim.demo.parts.ports import free_port, free_port_range


def test_ports_are_consecutive_free_and_not_given_twice() -> None:
    firsts = [free_port_range(4) for _ in range(50)]
    ports = [first + i for first in firsts for i in range(4)]
    assert len(set(ports)) == len(ports)
    listeners = [socket.create_server(("127.0.0.1", port)) for port in ports[:8]]
    for listener in listeners:
        listener.close()


def test_no_outgoing_connection_is_given_such_a_port() -> None:
    lowest_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(free_port("127.0.0.3") < lowest_ephemeral for _ in range(50))
