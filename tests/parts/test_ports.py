"""Free ports."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from shim.demo.parts import ports
from shim.demo.parts.ports import free_port, free_port_range


def test_ports_are_consecutive_free_and_not_given_twice() -> None:
    firsts = [free_port_range(4) for _ in range(50)]
    given = [first + i for first in firsts for i in range(4)]
    assert len(set(given)) == len(given)
    listeners = [socket.create_server(("127.0.0.1", port)) for port in given[:8]]
    for listener in listeners:
        listener.close()


def test_no_outgoing_connection_is_given_such_a_port() -> None:
    lowest_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(free_port("127.0.0.3") < lowest_ephemeral for _ in range(50))


def test_what_another_process_was_given_is_not_given_while_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may listen there in a moment, or again."""
    monkeypatch.setattr(ports, "_CLAIMS", tmp_path / "claims")
    theirs, gone_s, ours = (free_port() for _ in range(3))
    with subprocess.Popen(["/bin/true"]) as gone:
        pass
    (tmp_path / "claims" / str(theirs)).write_text(str(os.getppid()))
    (tmp_path / "claims" / str(gone_s)).write_text(str(gone.pid))
    ports._given.difference_update((theirs, gone_s, ours))
    chosen = iter((theirs, gone_s, ours))
    monkeypatch.setattr("random.randrange", lambda *_: next(chosen))
    assert [free_port(), free_port()] == [gone_s, ours]
    assert (tmp_path / "claims" / str(gone_s)).read_text() == str(os.getpid())
