"""Keys and certificates, read from files, and read again when the files have changed."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from shim.config import Settings
from shim.tls.subject_names import dns_names
from shim.tls.validity import not_after

log = logging.getLogger(__name__)

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_IANA_NAME: Final = re.compile(r"TLS_(\w+)_WITH_(AES_\d+|CHACHA20)_(GCM|POLY1305)_(SHA\d+)")
_CERTIFICATE: Final = re.compile(r"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----.*?-----END [^-]*-----", re.DOTALL)
_SOON: Final = timedelta(days=14)
_TLS_1_3_NAME: Final = re.compile(r"TLS_(AES|CHACHA20)_\w+")


class ServerContext(ssl.SSLContext):
    """``names``: the DNS names that its certificate is for, in lower case; one with a ``*`` is none. ``not_after``:
    when that ends; None where it does not tell."""

    names: frozenset[str] = frozenset()
    not_after: datetime | None = None


class CannotUse(Exception):
    """Files, or settings about them, that no context can be made from; the message is one line."""


class TlsContext:
    """What connections are made with from now on. Those that there are keep what they were made with."""

    def __init__(self, what: str, files: Sequence[Path], make: Callable[[], ssl.SSLContext]) -> None:
        """``what`` it is for, in a line of the log. Raises :class:`CannotUse`."""
        self._what = what
        self._files = tuple(files)
        self._make = make
        self._said = ""
        self._seen = self._look()
        try:
            self.current = make()
        except CannotUse as error:
            raise CannotUse(f"{what}: {error}") from error
        self._say_when_it_ends()

    def look(self, *, anyway: bool = False) -> None:
        """Read the files again if they have changed, or ``anyway``. Where they are of no use the ones before stay."""
        # Before they are read: what is written meanwhile is seen the next time.
        seen = self._look()
        if seen != self._seen or anyway:
            self._seen = seen
            self._read()
        self._say_when_it_ends()

    def _read(self) -> None:
        try:
            self.current = self._make()
        except CannotUse as error:
            log.error("%s: the changed certificate files are of no use, the ones before stay: %s", self._what, error)
        else:
            self._said = ""
            log.info("%s: certificate files read again", self._what)

    def _say_when_it_ends(self) -> None:
        """Once, some days before and when it has: clients refuse it then, and that is all that they say."""
        ends = self.current.not_after if isinstance(self.current, ServerContext) else None
        if ends is None or (left := ends - datetime.now(UTC)) > _SOON:
            return
        what, level = ("expires", logging.WARNING) if left > timedelta() else ("has expired", logging.ERROR)
        if what != self._said:
            self._said = what
            log.log(
                level,
                "%s: its certificate %s, on %s: clients refuse it then",
                self._what,
                what,
                f"{ends:%Y-%m-%d %H:%MZ}",
            )

    def _look(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(_state, self._files))


def _state(file: Path) -> tuple[int, ...]:
    try:
        stat = file.stat()  # of what a link leads to
    except OSError as error:
        return (error.errno or 0,)
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def context_for_clients(what: str, settings: Settings) -> TlsContext:
    """For a listener with these settings. Raises :class:`CannotUse`."""

    def make() -> ssl.SSLContext:
        context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        _set_versions(context, settings.ssl_enabled_protocols)
        _set_ciphers(context, settings.ssl_cipher_suites)
        if not settings.ssl_keystore_location:
            raise CannotUse("ssl.keystore.location is not set")
        _load_keystore(
            context,
            "ssl.keystore.location",
            settings.ssl_keystore_location,
            "ssl.key.password",
            settings.ssl_key_password,
        )
        _tell_of_certificate(context, settings.ssl_keystore_location)
        context.verify_mode = _CLIENT_AUTH[settings.ssl_client_auth]
        if settings.ssl_truststore_location:
            _load_truststore(context, "ssl.truststore.location", settings.ssl_truststore_location)
        elif context.verify_mode != ssl.CERT_NONE:
            raise CannotUse(f"ssl.client.auth={settings.ssl_client_auth} needs ssl.truststore.location")
        return context

    files = (settings.ssl_keystore_location, settings.ssl_truststore_location)
    return TlsContext(what, [Path(name) for name in files if name], make)


def context_for_shims(settings: Settings) -> TlsContext:
    """For connections to other shims, with what the listener for them has: the same certificate is shown, and theirs
    are from the same CAs, and for their hosts. Raises :class:`CannotUse`."""

    def make() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it checks certificate and host name
        context.options |= ssl.OP_NO_RENEGOTIATION
        _set_versions(context, settings.ssl_enabled_protocols)
        _load_keystore(
            context,
            "ssl.keystore.location",
            settings.ssl_keystore_location,
            "ssl.key.password",
            settings.ssl_key_password,
        )
        if settings.ssl_truststore_location:
            _load_truststore(context, "ssl.truststore.location", settings.ssl_truststore_location)
        else:
            context.load_default_certs()
        return context

    files = (settings.ssl_keystore_location, settings.ssl_truststore_location)
    return TlsContext("other shims", [Path(name) for name in files if name], make)


def context_for_admin(ca_file: Path | None, keystore: Path | None) -> ssl.SSLContext | None:
    """For the commands' connections to an admin interface; None where they were told of no CA. ``keystore``: what is
    shown there, where that is wanted. Raises :class:`CannotUse`, also for a keystore without a CA."""
    if ca_file is None:
        if keystore is not None:
            raise CannotUse("--admin-certificate-file is shown to a shim that --admin-ca-file has checked: give both")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it checks certificate and host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_truststore(context, "--admin-ca-file", str(ca_file))
    if keystore is not None:
        _load_keystore(context, "--admin-certificate-file", str(keystore))
    return context


def context_for_brokers(settings: Settings) -> TlsContext | None:
    """For connections to brokers; None where these are plaintext. The same one for the same settings: so everybody
    who connects has what was read again. Raises :class:`CannotUse`.
    """
    if not settings.upstream_security_protocol.endswith("SSL"):
        return None
    return _for_brokers(
        _Upstream(
            settings.upstream_ssl_truststore_location,
            settings.upstream_ssl_keystore_location,
            settings.upstream_ssl_key_password,
            settings.upstream_ssl_endpoint_identification_algorithm,
        )
    )


class _Upstream(NamedTuple):
    truststore: str
    keystore: str
    password: str
    identification: str


@lru_cache(maxsize=8)
def _for_brokers(wanted: _Upstream) -> TlsContext:
    def make() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it checks certificate and host name
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.check_hostname = bool(wanted.identification)
        if wanted.truststore:
            _load_truststore(context, "upstream.ssl.truststore.location", wanted.truststore)
        else:
            context.load_default_certs()
        if wanted.keystore:
            _load_keystore(
                context, "upstream.ssl.keystore.location", wanted.keystore, "upstream.ssl.key.password", wanted.password
            )
        return context

    return TlsContext("brokers", [Path(name) for name in wanted[:2] if name], make)


def _load_keystore(
    context: ssl.SSLContext, called: str, location: str, password_called: str = "", password: str = ""
) -> None:
    """``called``: what names the file; ``password_called``: what gives the password, "" where nothing does."""
    asked: list[bool] = []

    def told() -> str:  # without it OpenSSL would ask at the terminal
        asked.append(True)
        return password

    try:
        context.load_cert_chain(location, password=told)
    except ssl.SSLError as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            why = "the key is not that of the certificate"
        elif asked:
            why = f"the key cannot be decrypted with {password_called}" if password_called else "the key is encrypted"
        else:
            why = "no PEM with a key and a certificate chain"
        raise CannotUse(f"{called}: {location}: {why}") from error
    except OSError as error:
        raise CannotUse(f"{called}: {location}: {error.strerror}") from error
    except ValueError as error:  # of a password that is too long
        raise CannotUse(f"{password_called}: {error}") from error


def _tell_of_certificate(context: ServerContext, keystore: str) -> None:
    """Of the first one there, which is what is shown: OpenSSL has read it by then. It takes some of which nothing can
    be told here; no client that looks for a host in such a one will."""
    try:
        pem = _CERTIFICATE.search(Path(keystore).read_text("ascii", "replace"))
    except OSError as error:
        raise CannotUse(f"ssl.keystore.location: {keystore}: {error.strerror}") from error
    if pem is None:
        return
    certificate = ssl.PEM_cert_to_DER_cert(pem[0])
    with suppress(ValueError):
        context.not_after = not_after(certificate)
    with suppress(ValueError):
        context.names = dns_names(certificate)


def _load_truststore(context: ssl.SSLContext, called: str, location: str) -> None:
    try:
        context.load_verify_locations(location)
    except ssl.SSLError as error:
        raise CannotUse(f"{called}: {location}: no PEM with certificates") from error
    except OSError as error:
        raise CannotUse(f"{called}: {location}: {error.strerror}") from error


def _set_versions(context: ssl.SSLContext, text: str) -> None:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or not _VERSIONS.keys() >= set(names):
        raise CannotUse(f"ssl.enabled.protocols: {text!r} is not a list of {', '.join(_VERSIONS)}")
    wanted = [_VERSIONS[name] for name in names]
    context.minimum_version, context.maximum_version = min(wanted), max(wanted)


def _set_ciphers(context: ssl.SSLContext, text: str) -> None:
    """Named as Java does, or as OpenSSL does."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if _TLS_1_3_NAME.fullmatch(name) and "_WITH_" not in name:
            raise CannotUse(f"ssl.cipher.suites: {name} is of TLS 1.3, whose suites cannot be chosen")
        try:
            context.set_ciphers(_openssl_name(name))
        except ssl.SSLError as error:
            raise CannotUse(f"ssl.cipher.suites: OpenSSL knows no {name!r}") from error
    if names:
        context.set_ciphers(":".join(map(_openssl_name, names)))


def _openssl_name(name: str) -> str:
    """``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`` is OpenSSL's ``ECDHE-RSA-AES128-GCM-SHA256``; others stay."""
    match = _IANA_NAME.fullmatch(name)
    if match is None:
        return name
    exchange, cipher, mode, digest = match.groups()
    parts = [exchange.replace("_", "-"), cipher.replace("_", ""), mode]
    return "-".join(parts if mode == "POLY1305" else [*parts, digest])
