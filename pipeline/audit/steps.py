"""At which step each group is, asked at the shim's admin port (docs/admin.md)."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from pipeline.audit.admin_port import AdminPort
from pipeline.audit.brokers import Address
from pipeline.audit.words import CannotRead
from pipeline.console import count_shown

_CONNECT_SECONDS: Final = 10.0
_SILENT_SECONDS: Final = 75.0  # the shim gives up what only looks after a minute
_LONGEST_LINE: Final = 1 << 20

# OpenSSL's names for what is wrong with the other side.
_TLS_WORDS: Final[Mapping[str, str]] = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS there",
    "RECORD_LAYER_FAILURE": "it does not speak TLS there",
    "PACKET_LENGTH_TOO_LONG": "it does not speak TLS there",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate: --admin-certificate-file",
    "TLSV1_ALERT_UNKNOWN_CA": "it refuses the certificate of --admin-certificate-file: unknown CA",
}


def steps_of_groups(admin: AdminPort) -> dict[str, str]:
    """Of every group that the shim has heard of, such as ``kafka+dual``. Raises :class:`CannotRead`."""
    connection = _connection(admin)
    try:
        connection.connect()
        connection.sock.settimeout(_SILENT_SECONDS)
        # An address, as a name need not be one that the shim knows for its own.
        host, port = connection.sock.getpeername()[:2]
        headers = {"Content-Type": "application/json", "Host": str(Address(host, port))}
        if admin.token:
            headers["Authorization"] = f"Bearer {admin.token}"
        # Where it closes meanwhile, what it has sent says why: in TLS 1.3 that it wants a certificate, or another.
        with suppress(ssl.SSLEOFError, ConnectionError):
            connection.request("POST", "/v1/migrate/status", b'{"all":true}', headers)
        with connection.getresponse() as answer:
            if answer.status != http.client.OK:
                raise CannotRead(_why(answer))
            return _read(answer)
    except CannotRead as error:
        raise CannotRead(f"the shim's admin port at {admin.address}: {error}") from None
    except ssl.SSLError as error:
        raise CannotRead(f"no TLS with the shim's admin port at {admin.address}: {_tls_reason(error)}") from error
    except http.client.RemoteDisconnected as error:
        over_tls = ". One that speaks TLS there is asked with --admin-ca-file" if admin.tls is None else ""
        closed = "the connection was closed"
        raise CannotRead(f"no shim's admin port answers at {admin.address}: {closed}{over_tls}") from error
    except OSError as error:
        raise CannotRead(f"no shim's admin port answers at {admin.address}: {error.strerror or error}") from error
    except (http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        raise CannotRead(f"what answers at {admin.address} is no shim's admin port") from error
    finally:
        connection.close()


def _connection(admin: AdminPort) -> http.client.HTTPConnection:
    if admin.tls is None:
        return http.client.HTTPConnection(*admin.address, timeout=_CONNECT_SECONDS)
    return http.client.HTTPSConnection(*admin.address, timeout=_CONNECT_SECONDS, context=admin.tls)


def _tls_reason(error: ssl.SSLError) -> str:
    """A few words: Python's own text names a line of its C code."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    reason = getattr(error, "reason", None) or ""  # some of Python's own have none
    return _TLS_WORDS.get(reason) or reason.lower().replace("_", " ") or "TLS failed"


def _read(answer: http.client.HTTPResponse) -> dict[str, str]:
    begun = json.loads(answer.readline(_LONGEST_LINE))
    steps: dict[str, str] = {}
    while line := answer.readline(_LONGEST_LINE):
        if line == b"\n":
            continue
        row: dict[str, Any] = json.loads(line)
        if "done" in row:
            return steps
        if "error" in row:
            raise CannotRead(f"group {row['group']}: {row['error']}")
        steps[row["group"]] = f"{row['offsets_storage']}{'+dual' * row['dual_commit_enabled']}"
    raise CannotRead(f"it told of {len(steps)} of {count_shown(begun['groups'], 'group')}, and was cut off")


def _why(answer: http.client.HTTPResponse) -> str:
    try:
        return str(json.loads(answer.read(_LONGEST_LINE))["error"])
    except (ValueError, LookupError, TypeError):
        return f"{answer.status} {answer.reason}"
