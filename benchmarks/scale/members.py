"""The load generator of `benchmarks.commit`, each member at the coordinator of its group, wherever that is.

`python -m benchmarks.scale.members HOST PORT CONNECTIONS` asks there.
"""

import gc
import json
import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from benchmarks.commit.generator import Load, Member, carry
from benchmarks.commit.wire import ask
from protocol.errors import ErrorCode
from protocol.messages import find_coordinator

_FIND_VERSION: Final = 2
_FOUND_WITHIN_S: Final = 60.0
_AGAIN_S: Final = 0.1


def coordinator(host: str, port: int, group: str) -> tuple[str, int]:
    """Raises RuntimeError when there is none for a minute."""
    until = time.monotonic() + _FOUND_WITHIN_S
    with socket.create_connection((host, port), timeout=_FOUND_WITHIN_S) as asked:
        while True:
            request = find_coordinator.FindCoordinatorRequest(group)
            found = ask(asked, find_coordinator.API, _FIND_VERSION, request)
            if found.error_code == ErrorCode.NONE:
                return found.host, found.port
            if time.monotonic() > until:
                raise RuntimeError(f"{group} has no coordinator: {ErrorCode.for_code(found.error_code).name}")
            time.sleep(_AGAIN_S)  # nobody tells when there is one


class MemberAnywhere(Member):
    """Its connection is to its group's coordinator, which is asked for at ``host`` and ``port``."""

    def __init__(self, host: str, port: int, number: int) -> None:
        # Of this run alone: the members of one before are in their groups until their sessions end, and waited for.
        group = f"scale-{os.getpid()}-{number}"
        super().__init__(*coordinator(host, port, group), number)
        self.group = group


def main(host: str, port: int, connections: int) -> None:
    with ThreadPoolExecutor(connections) as threads:
        members = list(threads.map(lambda number: MemberAnywhere(host, port, number), range(connections)))
        list(threads.map(MemberAnywhere.join, members))
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(carry(members, Load(*json.loads(line)))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
