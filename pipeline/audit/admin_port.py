"""The shim's admin port as it is given on the command line: where it is, and the token and certificate it may want."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from pipeline.audit.addresses import address
from pipeline.audit.brokers import Address

_SHORTEST: Final = 16
_LONGEST: Final = 4096
_TOKEN_OPTION: Final = "--admin-token-file"  # noqa: S105  # what it is called
_CA_OPTION: Final = "--admin-ca-file"
_CERTIFICATE_OPTION: Final = "--admin-certificate-file"


@dataclass(frozen=True, slots=True)
class AdminPort:
    """``token``: "" where none is at hand; it is in no text that is made of this. ``tls``: None where it is asked in
    clear."""

    address: Address
    token: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None


def admin_port(
    text: str, token_file: Path | None, ca_file: Path | None = None, certificate_file: Path | None = None
) -> AdminPort:
    """``text``: ``host:port``; the files as docs/admin.md has them.

    Raises :class:`click.UsageError`, with nothing of what is in the files.
    """
    token = "" if token_file is None else _token_in(token_file)
    return AdminPort(address("--admin", text), token, _tls(ca_file, certificate_file))


def _tls(ca_file: Path | None, certificate_file: Path | None) -> ssl.SSLContext | None:
    if ca_file is None:
        if certificate_file is not None:
            raise click.UsageError(f"{_CERTIFICATE_OPTION} is shown to a shim that {_CA_OPTION} has checked: give both")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it checks certificate and host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    locked: list[bool] = []

    def no_password() -> str:  # without it OpenSSL would ask at the terminal
        locked.append(True)
        return ""

    option, file, wanted = _CA_OPTION, ca_file, "certificates"
    try:
        context.load_verify_locations(ca_file)
        if certificate_file is not None:
            option, file, wanted = _CERTIFICATE_OPTION, certificate_file, "a key and its certificate chain"
            context.load_cert_chain(certificate_file, password=no_password)
    except ssl.SSLError:
        why = "the key is encrypted" if locked else f"no PEM with {wanted}"
        raise click.BadParameter(f"{file}: {why}", param_hint=option) from None
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint=option) from None
    return context


def _token_in(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            text = opened.read(_LONGEST + 2).decode("ascii").strip()
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint=_TOKEN_OPTION) from None
    except UnicodeDecodeError:
        text = ""
    if not _SHORTEST <= len(text) <= _LONGEST or not all("!" <= each <= "~" for each in text):
        raise click.BadParameter(
            f"{file}: expected a token, {_SHORTEST} to {_LONGEST} ASCII characters in a line, none of them a space",
            param_hint=_TOKEN_OPTION,
        )
    return text
