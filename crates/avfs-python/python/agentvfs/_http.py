"""Requests to a server: HTTP over TCP, TLS or a Unix socket, with nothing but the standard library."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import socket
import ssl
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

from . import _lifecycle
from .errors import AgentVFSError, InvalidInputError, ServerUnreachableError, from_native

#: A stream says every 15 seconds that it is still there.
_SILENCE = 60.0
#: How many connections wait for the next request.
_IDLE = 8
_JSON = "application/json"
_EVENTS = "text/event-stream"

Body = bytes | IO[bytes]


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(frozen=True)
class Endpoint:
    """Where a server is."""

    #: `unix`, `http` or `https`.
    scheme: str
    #: A path, or a host.
    place: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Reads `unix:PATH`, `http://HOST:PORT` or `https://HOST:PORT`.

        >>> Endpoint.parse("https://box.example:8443")
        Endpoint(scheme='https', place='box.example', port=8443)
        """
        if text.startswith("unix:"):
            path = text.removeprefix("unix:")
            return cls("unix", path.removeprefix("//") if path.startswith("///") else path)
        parts = urlsplit(text)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or port == -1
            or parts.path not in ("", "/")
        ):
            raise InvalidInputError(
                f"{text!r} is no server", hint="unix:PATH, http://HOST:PORT or https://HOST:PORT"
            )
        return cls(parts.scheme, parts.hostname, port)


def default_endpoint() -> str:
    """The server that AVFS_SERVER names, or the one of the user's own store."""
    given = os.environ.get("AVFS_SERVER")
    return given or f"unix:{os.path.join(_lifecycle.home_of(None), 'server', 'socket')}"


@dataclass
class Event:
    """One event of a stream."""

    name: str
    data: dict[str, Any]


class Abort:
    """Breaks a request off from another thread. The server ends the command for which it was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._is_aborted = False

    def hold(self, connection: http.client.HTTPConnection | None) -> None:
        """The connection that is used from now on."""
        with self._lock:
            self._connection = connection
            aborted = self._is_aborted
        if aborted:
            self.abort()

    def abort(self) -> None:
        """Breaks the connection."""
        with self._lock:
            self._is_aborted = True
            connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)


@dataclass(eq=False)
class Http:
    """A server, and the connections to it."""

    endpoint: Endpoint
    token: str | None
    ca_file: str | None
    timeout: float
    _idle: list[http.client.HTTPConnection] = field(default_factory=list[http.client.HTTPConnection])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        # Whoever forgets to close it leaves no connection open.
        weakref.finalize(self, _close_all, self._idle)

    def _connect(self) -> http.client.HTTPConnection:
        kind, place, port = self.endpoint.scheme, self.endpoint.place, self.endpoint.port
        if kind == "unix":
            return _UnixConnection(place, self.timeout)
        if kind == "http":
            return http.client.HTTPConnection(place, port, timeout=self.timeout)
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self.ca_file)
        return http.client.HTTPSConnection(place, port, timeout=self.timeout, context=self._tls)

    def _take(self) -> http.client.HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Closes the connections that wait."""
        while (connection := self._take()) is not None:
            connection.close()

    def json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """A request whose body and answer are JSON."""
        sent = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": _JSON}
        if method == "POST":
            # If the connection breaks off before the answer, the same request is sent again and carried out once.
            headers["Idempotency-Key"] = secrets.token_hex(16)
        connection, response = self._ask(method, path, query, sent, headers)
        text = self._whole(connection, response)
        answer: dict[str, Any] = json.loads(text) if text else {}
        return answer

    def send(
        self, method: str, path: str, body: Body, *, query: Mapping[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """A request whose body is bytes."""
        connection, response = self._ask(method, path, query, body, dict(headers))
        text = self._whole(connection, response)
        answer: dict[str, Any] = json.loads(text) if text else {}
        return answer

    def pieces(self, path: str, query: Mapping[str, Any], size: int) -> Iterator[bytes]:
        """An answer of bytes, piece by piece."""
        connection, response = self._ask("GET", path, query, None, {})
        try:
            while piece := response.read(size):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self.endpoint, error) from error
        finally:
            self._done(connection, response)

    def events(self, path: str, body: Mapping[str, Any], abort: Abort) -> Iterator[Event]:
        """The events with which a request is answered. Closing the iterator ends the command."""
        headers = {"Content-Type": _JSON, "Accept": _EVENTS}
        connection, response = self._ask("POST", path, None, json.dumps(body).encode(), headers, abort)
        if connection.sock is not None:
            connection.sock.settimeout(_SILENCE)
        try:
            yield from _events(response)
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self.endpoint, error) from error
        finally:
            abort.hold(None)
            # It is not used again: nobody knows how much of the stream is left.
            connection.close()

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Body | None,
        headers: dict[str, str],
        abort: Abort | None = None,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Sends a request, and once more if the connection had been closed while it waited."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        place = f"/api/v1{path}" + (f"?{urlencode(given)}" if given else "")
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        waited = self._take() if body is None or isinstance(body, bytes) else None
        for connection in (waited, None):
            used = connection or self._connect()
            try:
                if abort is not None:
                    abort.hold(used)
                used.request(method, place, body=body, headers=headers, encode_chunked=True)
                response = used.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
                used.close()
                if connection is None:
                    raise unreachable(self.endpoint, error) from error
                continue
            except (OSError, http.client.HTTPException) as error:
                used.close()
                raise unreachable(self.endpoint, error) from error
            except BaseException:
                used.close()
                raise
            if response.status >= 400:
                raise problem(response.status, self._whole(used, response))
            return used, response
        raise AssertionError("one of the two connections is new")

    def _whole(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self.endpoint, error) from error
        finally:
            self._done(connection, response)

    def _done(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        # What is not read to its end belongs to no other request.
        if response.isclosed() and not response.will_close:
            self._give_back(connection)
        else:
            connection.close()


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    for connection in connections:
        connection.close()


def _events(response: http.client.HTTPResponse) -> Iterator[Event]:
    name = ""
    while line := response.readline():
        text = line.decode().rstrip("\r\n")
        if text.startswith("event:"):
            name = text.removeprefix("event:").strip()
        elif text.startswith("data:"):
            yield Event(name, json.loads(text.removeprefix("data:")))


def problem(status: int, body: bytes) -> AgentVFSError:
    """The exception for an answer that tells a problem (RFC 9457)."""
    try:
        told: dict[str, Any] = json.loads(body)
    except ValueError:
        told = {}
    code = str(told.get("code") or "server-error")
    message = str(told.get("detail") or f"the server answered with status {status}")
    approval = told.get("approval")
    return from_native(code, message, {"approval_id": approval} if approval else {})


def unreachable(endpoint: Endpoint, error: Exception) -> ServerUnreachableError:
    """The exception for a server that does not answer."""
    at = endpoint.place if endpoint.port is None else f"{endpoint.place}:{endpoint.port}"
    reason = str(error) or type(error).__name__
    return ServerUnreachableError(
        f"no answer from {endpoint.scheme}:{at}: {reason}", hint="`avfs serve` starts a server"
    )


def part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")
