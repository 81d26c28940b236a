"""Where a server is, as applications say it."""


def address_of(server: object) -> tuple[str, int]:
    """(host, port), also of "host:port"; an IPv6 address stands in brackets there. Raises ValueError."""
    match server:
        case str():
            host, _, number = server.strip().rpartition(":")
            port = int(number) if number.isascii() and number.isdecimal() and len(number) < 6 else 0
            if host.startswith("[") and host.endswith("]"):
                host = host[1:-1]
            elif ":" in host or "," in host:
                host = ""
        case (str(host), int(port)):
            pass
        case _:
            host, port = "", 0
    if not host or not 0 < port < 65536:
        raise ValueError(f'{server!r} is no server: expected one (host, port), or "host:port" (IPv6 in brackets)')
    return host, port
