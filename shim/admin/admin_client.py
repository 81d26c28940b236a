"""The client of the admin interface of a running shim, with which commands ask it."""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from shim.admin.errors import BrokenOff, Declined, NotDone, NotOffered, StoppedLooking
from shim.admin.live.asked.migration import NotKnown
from shim.admin.live.shown.documents import JSON, LINES, Row, encoded
from shim.admin.reasons import reason_of
from shim.config import HostPort
from shim.counted import counted
from shim.tls import refuses_certificate, tls_reason

_CONNECT_SECONDS: Final = 10.0
_SILENT_SECONDS: Final = 75.0  # a shim gives up what only looks after a minute, and sends an empty line while it moves
_LIVES_AFTER_SECONDS: Final = 8.0
"""Who waits for so long asks whether the shim lives, and that is answered at once, whatever it waits for."""
_LIVES_SECONDS: Final = 3.0
_LIVEZ: Final = "/livez"
_LONGEST_LINE: Final = 1 << 20
_MOST_NAMES: Final = 500
_MOST_BYTES: Final = 256 << 10

_NOT_CERTAIN: Final = (http.HTTPStatus.INTERNAL_SERVER_ERROR, http.HTTPStatus.SERVICE_UNAVAILABLE)
"""Of a change that was begun; of what only looks, they say that there is nothing to be seen."""

_NO_SUCH_PATH: Final = (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.NOT_FOUND.phrase)
"""Of what is not known at a path that there is, it says what that is."""

_OPEN_TO_ALL: Final = "/v1/access"


class Answers(NamedTuple):
    """``groups``: how many there will be. ``rows`` raises :class:`BrokenOff` where they end before. ``unanswered``: a
    line for each broker that has not answered, whose groups may be left out. ``left_alone``: rows with ``group`` and
    ``why``, of those that are not meant, though they fit."""

    groups: int
    rows: Iterator[Row]
    unanswered: Sequence[str] = ()
    left_alone: Sequence[Row] = ()


class RunningShim:
    """At its admin port. Methods raise NotDone, with a line, where there is none, or it does not do what is asked."""

    def __init__(
        self,
        address: HostPort,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        waiting: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """``token``: the one of its admin.token.file; "" where none is at hand. ``tls``: None where it speaks none.
        ``waiting``: entered, with what is waited for, until its answer begins."""
        self.address = address
        self._waiting = waiting
        self._tls = tls
        self._changes = False
        self._authorization = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Any:
        """The document. Raises NotKnown besides."""
        with self._looking(), self._sent("GET", _with_query(path, query)) as response:
            return self._document(response)

    def ask(self, path: str, question: Row, query: Sequence[tuple[str, str]] = ()) -> Any:
        """As :meth:`get`, where the question takes a body."""
        with self._looking(), self._sent("POST", _with_query(path, query), encoded(question)) as response:
            return self._document(response)

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """Raises StoppedLooking for a KeyboardInterrupt."""
        try:
            yield
        except KeyboardInterrupt:
            if self._changes:
                raise
            raise StoppedLooking from None

    def change(self, path: str, wanted: Row, look: str) -> Any:
        """Has it done, and gives the document. Raises BrokenOff besides, where nobody knows what became of it: once it
        is asked for, a shim that goes, or says nothing, may have done it. ``look``: the command that shows it."""
        self._changes = True
        try:
            response = self._sent("POST", path, encoded(wanted), look)
        except Declined as error:
            if error.status in _NOT_CERTAIN:
                raise BrokenOff(str(error)) from error
            raise
        except KeyboardInterrupt:
            raise self._is_not_known("stopped", look) from None
        with response:
            try:
                return json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError):
                raise self._is_not_known("the answer was cut off", look) from None
            except KeyboardInterrupt:
                raise self._is_not_known("stopped", look) from None

    def post(self, path: str, question: Row, look: str | None = None) -> Answers:
        """The groups that ``question`` is about, as each is done. ``look``: see :meth:`change`, of what changes them;
        BrokenOff is raised as there."""
        self._changes = self._changes or look is not None
        response = self._sent("POST", path, encoded(question), look)
        try:
            begun = json.loads(response.readline(_LONGEST_LINE))
            rows = self._rows(response, begun["groups"], look)
            return Answers(begun["groups"], rows, begun.get("unanswered", ()), begun.get("left_alone", ()))
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
            response.close()
            if look is not None and (isinstance(error, OSError) or response.headers["Content-Type"] == LINES):
                why = reason_of(error) if isinstance(error, OSError) else "the answer was cut off"
                raise self._is_not_known(why, look) from error
            raise (self._says_nothing() if isinstance(error, TimeoutError) else self._is_no_shim()) from error

    def _rows(self, response: http.client.HTTPResponse, groups: int, look: str | None) -> Iterator[Row]:
        done = 0
        with response:
            try:
                while line := response.readline(_LONGEST_LINE):
                    if line == b"\n":
                        continue
                    row: Row = json.loads(line)
                    if "done" in row:
                        return
                    yield row
                    done += 1
                why = "it stopped, or the connection was cut"
            except OSError as error:
                why = reason_of(error)
            except (http.client.HTTPException, ValueError):
                why = "what it sent cannot be read"
        others = "" if look is None else f". What became of the others is not certain: look with `{look}`"
        raise BrokenOff(f"the shim at {self.address} told of {done} of {counted(groups, 'group')}: {why}{others}")

    def _sent(
        self, method: str, path: str, body: bytes | None = None, look: str | None = None
    ) -> http.client.HTTPResponse:
        """The answer, where it is one of success. ``look``: see :meth:`change`."""
        if self._tls is not None and look is not None:
            # With TLS 1.3 a certificate that is refused is heard of when the request is on its way, if at all.
            self._sent("GET", _OPEN_TO_ALL).close()
        connection = self._connection()
        connected = False
        try:
            with self._waiting(f"the shim at {self.address}, which may be waiting for brokers"):
                connection.connect()
                connection.sock.settimeout(_SILENT_SECONDS)
                # An address, as a name need not be one that the shim knows for its own.
                host, port = connection.sock.getpeername()[:2]
                headers = {"Host": str(HostPort(host, port)), "Content-Type": JSON, "Connection": "close"}
                headers |= self._authorization
                connected = True
                # Where it closes meanwhile, what it has sent says why: in TLS 1.3 that it wants a certificate, or
                # another.
                with suppress(ssl.SSLEOFError, ConnectionError):  # the latter as of Python 3.12.3
                    connection.request(method, path, body, headers)
                if look is None:
                    self._await_sign_of_life(connection.sock)
                response = connection.getresponse()
        except OSError as error:
            connection.close()
            if isinstance(error, ssl.SSLError) and (not connected or refuses_certificate(error)):
                why = tls_reason(error, own="the certificate of --admin-certificate-file")
                raise NotDone(f"no TLS with the shim at {self.address}: {why}") from error
            if connected and look is not None:
                raise self._is_not_known(reason_of(error), look, closed=isinstance(error, ConnectionError)) from error
            if connected and isinstance(error, TimeoutError):
                raise self._says_nothing() from error
            if connected and isinstance(error, ConnectionError):
                raise self._is_no_shim(", or a shim that is ending: the connection was closed") from error
            raise NotDone(
                f"no shim answers at {self.address}: {reason_of(error)}. Does one run, with `serve --admin "
                f"{self.address}`? If that is elsewhere, name it here with --admin"
            ) from error
        except http.client.HTTPException as error:
            connection.close()
            raise self._is_no_shim() from error
        except NotDone:
            connection.close()
            raise
        if response.status != http.HTTPStatus.OK:
            with response:
                reason = self._reason(response, look)
            if (response.status, reason) == _NO_SUCH_PATH:
                raise NotOffered(f"the shim at {self.address} has no {path.partition('?')[0]}: it is an older one")
            if response.status == http.HTTPStatus.NOT_FOUND:
                raise NotKnown(reason)
            raise Declined(reason, response.status)
        return response

    def _await_sign_of_life(self, answering: socket.socket) -> None:
        """Until something comes there, for as long as the shim says at least that it lives. Raises NotDone."""
        until = time.monotonic() + _SILENT_SECONDS
        while not select.select([answering], [], [], min(_LIVES_AFTER_SECONDS, _SILENT_SECONDS))[0]:
            if time.monotonic() >= until:
                raise self._says_nothing()
            if not self._lives():
                raise NotDone(
                    f"the shim at {self.address} was reached, and says nothing, not even that it lives (GET "
                    f"{_LIVEZ}): it hangs, or its host does"
                )

    def _lives(self) -> bool:
        """Where that cannot be told it is not said to be dead."""
        connection = self._connection(_LIVES_SECONDS)
        try:
            connection.request("GET", _LIVEZ, headers={"Host": "localhost", "Connection": "close"})
            connection.getresponse().close()
        except TimeoutError:
            return False
        except (OSError, http.client.HTTPException):
            return True
        finally:
            connection.close()
        return True

    def _connection(self, timeout_seconds: float = _CONNECT_SECONDS) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(*self.address, timeout=timeout_seconds)
        return http.client.HTTPSConnection(*self.address, timeout=timeout_seconds, context=self._tls)

    def _document(self, response: http.client.HTTPResponse) -> Any:
        try:
            return json.loads(response.read())
        except TimeoutError:
            raise self._says_nothing() from None
        except (OSError, http.client.HTTPException, ValueError):
            raise self._is_no_shim() from None

    def _reason(self, response: http.client.HTTPResponse, look: str | None) -> str:
        try:
            document = self._document(response)
            reason = document.get("error") if isinstance(document, dict) else None
            if not isinstance(reason, str):
                raise self._is_no_shim()
        except NotDone as error:
            if look is None or response.status < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            # Whoever stands between has lost its answer.
            raise self._is_not_known(f"HTTP status {response.status}", look) from error
        return reason

    def _is_not_known(self, why: str, look: str, *, closed: bool = False) -> BrokenOff:
        wrong = f"; {self._wrong_port}" if closed else ""
        return BrokenOff(
            f"the shim at {self.address} did not say what became of it: {why}. Look with `{look}` before you do it "
            f"again{wrong}"
        )

    def _says_nothing(self) -> NotDone:
        return NotDone(
            f"the shim at {self.address} was reached, and has said nothing for {_SILENT_SECONDS:g} s: "
            "it hangs, or its disk does"
        )

    def _is_no_shim(self, more: str = "") -> NotDone:
        return NotDone(f"something else than a shim's admin port answers at {self.address}{more}; {self._wrong_port}")

    @property
    def _wrong_port(self) -> str:
        over_tls = "" if self._tls is not None else ". A shim that speaks TLS there is asked with --admin-ca-file"
        return f"if clients bootstrap there, it is the wrong port{over_tls}"


def _with_query(path: str, query: Sequence[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def in_parts(names: Iterable[str]) -> Iterator[list[str]]:
    """As many at a time as a request may name."""
    part: list[str] = []
    size = 0
    for name in names:
        # Escaped, a character may take six bytes for each of its own.
        room = 6 * len(name.encode()) + 3
        if part and (len(part) == _MOST_NAMES or size + room > _MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(name)
        size += room
    if part:
        yield part
