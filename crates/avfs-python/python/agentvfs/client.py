"""Sandboxes on a server: what `avfs serve` does for programs, as calls.

>>> from agentvfs import SandboxClient
>>> client = SandboxClient()
>>> codebase = client.create_codebase("web")
>>> _ = client.upload_file(codebase.id, "greeting.txt", "hello\\n")
>>> sandbox = client.create_sandbox(codebase.id)
>>> client.exec(sandbox.id, "cat greeting.txt").stdout
'hello\\n'
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any, Literal, overload

from . import _checks
from ._http import Abort, Body, Endpoint, Event, Http, default_endpoint, part
from ._output import Listener
from .errors import AgentVFSError, CommandTimeoutError, InvalidInputError, from_native
from .files import FileInfo
from .limits import ResourceLimits
from .result import ChangedFile, RunResult
from .rules import Preset, RuleLike, texts
from .sandbox import Command, failure

#: How much of a file is read at a time.
_PIECE = 1 << 20
#: How many entries a list has at a time.
_PAGE = 1000
#: The input of a command, its variables, its directory and its time.
_Options = tuple[str | None, Mapping[str, str] | None, str | None, float | None]
_KINDS = {"directory": "dir", "link": "symlink"}


@dataclass(frozen=True)
class Codebase:
    """The files that sandboxes start with: a vault of the server, whose name is its id."""

    id: str
    name: str
    #: Bytes of its files.
    size: int
    file_count: int
    #: Seconds since 1970.
    created_at: float
    #: The codebase that it was forked from.
    parent: str | None = None


@dataclass(frozen=True)
class ServerSandbox:
    """A sandbox on a server."""

    id: str
    #: The codebase or sandbox that it is a fork of.
    codebase_id: str | None
    #: `running` while a command in it starts at once, `stopped` otherwise; the next command starts it again.
    status: str
    labels: Mapping[str, str]
    #: Seconds since 1970.
    created_at: float
    expires_at: float | None = None
    #: How many of its processes run.
    running: int = 0


@dataclass(frozen=True)
class SessionInfo:
    """A shell that stays, on a server."""

    id: str
    sandbox_id: str
    #: `active` or `closed`.
    status: str
    created_at: float


@dataclass(frozen=True)
class UploadResult:
    """A file as it is after an upload."""

    codebase_id: str
    file_path: str
    size: int
    #: Names its contents, for writes that must not overwrite another version.
    version: str


@dataclass(frozen=True)
class SandboxChanges:
    """What `apply` brought from a sandbox into its codebase."""

    #: How many paths changed.
    changed: int
    #: Paths that both sides changed.
    conflicts: tuple[str, ...] = ()


@dataclass
class _Sessions:
    """To which sandbox sessions belong, as far as this client knows."""

    sandboxes: dict[str, str] = field(default_factory=dict[str, str])


class SandboxClient:
    """A client of `avfs serve`.

    The server is that of your own store, at its Unix socket, unless `endpoint` or the variable AVFS_SERVER names another
    one: `unix:PATH`, `http://HOST:PORT` or `https://HOST:PORT`. The latter two need a token (`avfs token create`), given
    here or in AVFS_TOKEN. Results and exceptions are those of sandboxes in this process.

    >>> with SandboxClient() as client:
    ...     sandbox = client.create_sandbox()
    ...     client.exec(sandbox.id, ["echo", "hello"]).stdout
    'hello\\n'
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        timeout: float = 60.0,
    ) -> None:
        self.endpoint = endpoint or default_endpoint()
        self._http = Http(
            Endpoint.parse(self.endpoint),
            token or os.environ.get("AVFS_TOKEN") or None,
            None if ca_file is None else os.fspath(ca_file),
            timeout,
        )
        self._sessions = _Sessions()

    def __repr__(self) -> str:
        return f"<SandboxClient {self.endpoint}>"

    def close(self) -> None:
        """Closes its connections. What is on the server stays there."""
        self._http.close()

    def __enter__(self) -> SandboxClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Codebases

    def create_codebase(self, name: str) -> Codebase:
        """Makes an empty codebase."""
        return _codebase(self._http.json("POST", "/vaults", {"name": name}))

    def fork_codebase(self, codebase_id: str, name: str, *, revision: str | None = None) -> Codebase:
        """Makes a codebase with the files of another one."""
        body = {"names": [name], "revision": revision}
        made = self._http.json("POST", f"/vaults/{part(codebase_id)}/forks", body)
        return _codebase(made["vaults"][0])

    def get_codebase(self, codebase_id: str) -> Codebase:
        """Shows a codebase."""
        return _codebase(self._http.json("GET", f"/vaults/{part(codebase_id)}"))

    def list_codebases(self) -> list[Codebase]:
        """All codebases, by name. The files of sandboxes are none."""
        all_of_them = self._pages("/vaults", "vaults", {})
        return [_codebase(one) for one in all_of_them if not str(one["name"]).startswith("sandbox-")]

    def delete_codebase(self, codebase_id: str) -> None:
        """Deletes a codebase with its history. Sandboxes on it stay. Needs the scope `admin`."""
        self._http.json("DELETE", f"/vaults/{part(codebase_id)}")

    # Files, of a codebase or a sandbox

    def upload_file(
        self,
        codebase_id: str,
        file_path: str,
        content: bytes | str | IO[bytes],
        *,
        mode: int | None = None,
        expected_version: str | None = None,
    ) -> UploadResult:
        """Writes a file of a codebase or a sandbox, with the directories above it: bytes, text, or what a binary file has
        left to read, of any size.

        >>> client.upload_file(codebase.id, "src/main.py", "print('hi')\\n").size
        12
        """
        body: Body = content.encode() if isinstance(content, str) else content
        headers = {"Content-Type": "application/octet-stream"}
        if expected_version == "absent":
            headers["If-None-Match"] = "*"
        elif expected_version is not None:
            headers["If-Match"] = f'"{expected_version}"'
        query = {"path": file_path, "mode": None if mode is None else f"{mode:o}"}
        written = self._http.send("PUT", f"{_of(codebase_id)}/files", body, query=query, headers=headers)
        return UploadResult(codebase_id, str(written["path"]), int(written["size"]), str(written["version"]))

    @overload
    def download_file(self, codebase_id: str, file_path: str) -> bytes: ...
    @overload
    def download_file(self, codebase_id: str, file_path: str, to: IO[bytes]) -> int: ...
    def download_file(self, codebase_id: str, file_path: str, to: IO[bytes] | None = None) -> bytes | int:
        """The contents of a file of a codebase or a sandbox; or, with `to`, how many bytes were written to that file.

        >>> client.download_file(codebase.id, "greeting.txt")
        b'hello\\n'
        """
        pieces = self._http.pieces(f"{_of(codebase_id)}/files", {"path": file_path}, _PIECE)
        if to is None:
            return b"".join(pieces)
        return sum(to.write(piece) for piece in pieces)

    def list_files(self, codebase_id: str, path: str = "/", recursive: bool = False) -> list[FileInfo]:
        """What is in a directory of a codebase or a sandbox.

        >>> [info.path for info in client.list_files(codebase.id)]
        ['/greeting.txt']
        """
        query = {"path": path, "depth": 1_000_000 if recursive else 1}
        return [_file_info(one) for one in self._pages(f"{_of(codebase_id)}/files/list", "files", query)]

    def delete_file(self, codebase_id: str, file_path: str) -> None:
        """Removes a file of a codebase or a sandbox, or a directory with everything in it."""
        self._http.json("DELETE", f"{_of(codebase_id)}/files", query={"path": file_path})

    # Sandboxes

    def create_sandbox(
        self,
        codebase_id: str | None = None,
        permissions: Iterable[RuleLike] | None = None,
        *,
        preset: str | Preset | None = None,
        labels: Mapping[str, str] | None = None,
        expires_in: float | None = None,
        idle_timeout: float | None = None,
        resources: ResourceLimits | None = None,
        network: Iterable[str] = (),
        env: Mapping[str, str] | None = None,
        read_only: bool = False,
    ) -> ServerSandbox:
        """Makes a sandbox on a fork of a codebase, or an empty one. It is there at once, and starts with its first command.

        `preset` and `permissions` are the rules through which its commands see its files. After `expires_in` seconds it is
        deleted; after `idle_timeout` seconds without a command, what runs in it is ended.
        """
        limits = resources or ResourceLimits()
        for name in ("processes", "cpu_seconds", "output_bytes"):
            if getattr(limits, name) is not None:
                raise InvalidInputError(f"{name}: the server sets this limit")
        rules = [] if preset is None else texts(preset)
        if permissions is not None:
            rules = rules + texts(permissions)
        body: dict[str, Any] = {
            "vault": codebase_id,
            "rules": [rule for rule, _ in rules] or None,
            "metadata": dict(labels or {}),
            "expires_seconds": _seconds("expires_in", expires_in),
            "idle_seconds": _seconds("idle_timeout", idle_timeout),
            "timeout_seconds": _seconds("timeout", limits.timeout),
            "memory": limits.memory_bytes,
            "network": list(network),
            "env": dict(_checks.variables(env)),
            "read_only": read_only,
        }
        return _sandbox(self._http.json("POST", "/sandboxes", body))

    def fork_sandbox(self, sandbox_id: str, count: int = 1) -> list[ServerSandbox]:
        """Makes sandboxes with the present files of one."""
        made = self._http.json("POST", f"/sandboxes/{part(sandbox_id)}/forks", {"count": count})
        return [_sandbox(one) for one in made["sandboxes"]]

    def get_sandbox(self, sandbox_id: str) -> ServerSandbox:
        """Shows a sandbox."""
        return _sandbox(self._http.json("GET", f"/sandboxes/{part(sandbox_id)}"))

    def list_sandboxes(self, codebase_id: str | None = None) -> list[ServerSandbox]:
        """All sandboxes, or those on a codebase, in the order in which they were made."""
        found = [_sandbox(one) for one in self._pages("/sandboxes", "sandboxes", {})]
        return [one for one in found if codebase_id is None or one.codebase_id == codebase_id]

    def start_sandbox(self, sandbox_id: str) -> ServerSandbox:
        """Prepares a sandbox, so that its next command starts at once. A command does the same if nobody did."""
        return _sandbox(self._http.json("POST", f"/sandboxes/{part(sandbox_id)}/open"))

    def stop_sandbox(self, sandbox_id: str) -> ServerSandbox:
        """Ends everything that runs in a sandbox. Its files stay, and its next command starts it again."""
        self._http.json("POST", f"/sandboxes/{part(sandbox_id)}/close")
        return self.get_sandbox(sandbox_id)

    def apply(self, sandbox_id: str, codebase_id: str | None = None) -> SandboxChanges:
        """Merges what a sandbox changed into its codebase, or another one. Needs the scope `admin`."""
        into = codebase_id or self.get_sandbox(sandbox_id).codebase_id
        if into is None:
            raise InvalidInputError("the sandbox has no codebase", hint="name one with codebase_id=")
        done = self._http.json("POST", f"/vaults/{part(into)}/merge", {"from": [sandbox_id]})
        return SandboxChanges(int(done["changed"]), tuple(done["conflicts"]))

    def destroy_sandbox(self, sandbox_id: str) -> None:
        """Ends a sandbox and deletes its files. `apply` brings its changes home before."""
        self._http.json("DELETE", f"/sandboxes/{part(sandbox_id)}")

    # Commands

    def exec(
        self,
        sandbox_id: str,
        command: Command,
        *,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        timeout: float | None = None,
        raise_on_error: bool = False,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """Runs a command to its end: a line for a shell, or a program with its arguments.

        A status other than 0 is a result, unless `raise_on_error`. After `timeout` seconds the command is ended and
        `CommandTimeoutError` raised. If this program goes away, the command is killed.

        >>> client.exec(sandbox.id, "tr a-z A-Z; exit 3", stdin="hello").exit_code
        3
        """
        options = (stdin, env, workdir, timeout)
        return self.exec_with(Abort(), sandbox_id, command, options, raise_on_error, on_stdout, on_stderr)

    def exec_with(
        self,
        abort: Abort,
        sandbox_id: str,
        command: Command,
        options: _Options,
        raise_on_error: bool,
        on_stdout: Listener | None,
        on_stderr: Listener | None,
    ) -> RunResult:
        """The same for a command that another thread can break off."""
        events = self._events(abort, sandbox_id, command, options)
        return _finished(events, options[3], raise_on_error, on_stdout, on_stderr)

    def exec_stream(
        self,
        sandbox_id: str,
        command: Command,
        *,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        timeout: float | None = None,
    ) -> Generator[bytes, None, None]:
        """The output of a command as it comes, and `CommandExecutionError` at its end if it failed. Closing the iterator
        ends the command.

        >>> b"".join(client.exec_stream(sandbox.id, "echo one; echo two"))
        b'one\\ntwo\\n'
        """
        return self.exec_stream_with(Abort(), sandbox_id, command, (stdin, env, workdir, timeout))

    def exec_stream_with(
        self, abort: Abort, sandbox_id: str, command: Command, options: _Options
    ) -> Generator[bytes, None, None]:
        """The same for a command that another thread can break off."""
        return _stream(self._events(abort, sandbox_id, command, options), options[3])

    def _events(self, abort: Abort, sandbox_id: str, command: Command, options: _Options) -> Iterator[Event]:
        stdin, env, workdir, timeout = options
        body = {
            "command": _checks.command(command),
            "cwd": workdir,
            "env": dict(_checks.variables(env)),
            "stdin": stdin,
            "timeout_seconds": _seconds("timeout", timeout),
        }
        return self._http.events(f"/sandboxes/{part(sandbox_id)}/exec", body, abort)

    # Sessions

    def create_session(self, sandbox_id: str, *, env: Mapping[str, str] | None = None) -> SessionInfo:
        """Starts a shell that keeps its directory and its variables between commands."""
        body = {"env": dict(_checks.variables(env))}
        return self._session(self._http.json("POST", f"/sandboxes/{part(sandbox_id)}/sessions", body))

    def session(self, sandbox_id: str, *, env: Mapping[str, str] | None = None) -> ServerSession:
        """The same as an object, which ends the shell with its `with` block.

        >>> with client.session(sandbox.id) as session:
        ...     _ = session.exec("export WHO=me")
        ...     session.exec("echo $WHO").stdout
        'me\\n'
        """
        return ServerSession(self, self.create_session(sandbox_id, env=env))

    def get_session(self, session_id: str) -> SessionInfo:
        """Shows a session."""
        return self._session(self._http.json("GET", self._session_path(session_id)))

    def list_sessions(self, sandbox_id: str) -> list[SessionInfo]:
        """The sessions of a sandbox, also those that have ended."""
        found = self._pages(f"/sandboxes/{part(sandbox_id)}/sessions", "sessions", {})
        return [self._session(one) for one in found]

    def session_exec(
        self,
        session_id: str,
        command: Command,
        *,
        stdin: str | None = None,
        timeout: float | None = None,
        raise_on_error: bool = False,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """Runs a command in a session."""
        return self.session_exec_with(
            Abort(), session_id, command, stdin, timeout, raise_on_error, on_stdout, on_stderr
        )

    def session_exec_with(
        self,
        abort: Abort,
        session_id: str,
        command: Command,
        stdin: str | None,
        timeout: float | None,
        raise_on_error: bool,
        on_stdout: Listener | None,
        on_stderr: Listener | None,
    ) -> RunResult:
        """The same for a command that another thread can break off."""
        body = {
            "command": _checks.command(command),
            "stdin": stdin,
            "timeout_seconds": _seconds("timeout", timeout),
        }
        events = self._http.events(f"{self._session_path(session_id)}/exec", body, abort)
        return _finished(events, timeout, raise_on_error, on_stdout, on_stderr)

    def destroy_session(self, session_id: str) -> None:
        """Ends a session and everything in it."""
        self._http.json("DELETE", self._session_path(session_id))

    def _session_path(self, session_id: str) -> str:
        if session_id not in self._sessions.sandboxes:
            # Another client has started it.
            for sandbox in self.list_sandboxes():
                self.list_sessions(sandbox.id)
        sandbox_id = self._sessions.sandboxes.get(session_id)
        if sandbox_id is None:
            raise from_native("unknown-session", f"there is no session {session_id!r}", {})
        return f"/sandboxes/{part(sandbox_id)}/sessions/{part(session_id)}"

    def _session(self, body: Mapping[str, Any]) -> SessionInfo:
        self._sessions.sandboxes[str(body["id"])] = str(body["sandbox"])
        status = "active" if body["state"] == "open" else "closed"
        return SessionInfo(str(body["id"]), str(body["sandbox"]), status, body["created_ms"] / 1000)

    def _pages(self, path: str, name: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            page = self._http.json("GET", path, query={**query, "cursor": cursor, "limit": _PAGE})
            yield from page[name]
            cursor = page["next"]
            if cursor is None:
                return


class ServerSession:
    """A shell that stays, on a server."""

    def __init__(self, client: SandboxClient, info: SessionInfo) -> None:
        self._client = client
        self.id = info.id
        self.sandbox_id = info.sandbox_id

    def __repr__(self) -> str:
        return f"<ServerSession {self.id}>"

    @property
    def status(self) -> str:
        """`active` or `closed`."""
        return self._client.get_session(self.id).status

    def exec(
        self,
        command: Command,
        *,
        stdin: str | None = None,
        timeout: float | None = None,
        raise_on_error: bool = False,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """Runs a command in it."""
        return self._client.session_exec(
            self.id,
            command,
            stdin=stdin,
            timeout=timeout,
            raise_on_error=raise_on_error,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
        )

    def close(self) -> None:
        """Ends it and everything in it."""
        self._client.destroy_session(self.id)

    def __enter__(self) -> ServerSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _of(owner: str) -> str:
    """The path of what has files: sandboxes are called `sb` and twenty digits, codebases as their makers like."""
    is_sandbox = len(owner) == 22 and owner.startswith("sb") and set(owner[2:]) <= set("0123456789abcdef")
    return f"/sandboxes/{owner}" if is_sandbox else f"/vaults/{part(owner)}"


def _seconds(name: str, value: float | None) -> int | None:
    """Whole seconds, as the server counts them: none is cut short."""
    _checks.seconds(name, value)
    return None if value is None else math.ceil(value)


def _codebase(body: Mapping[str, Any]) -> Codebase:
    return Codebase(
        id=body["name"],
        name=body["name"],
        size=body["bytes"],
        file_count=body["files"],
        created_at=body["created_ms"] / 1000,
        parent=body["parent"],
    )


def _sandbox(body: Mapping[str, Any]) -> ServerSandbox:
    expires = body["expires_ms"]
    return ServerSandbox(
        id=body["id"],
        codebase_id=body["parent"],
        status="running" if body["state"] == "open" else "stopped",
        labels=body["metadata"],
        created_at=body["created_ms"] / 1000,
        expires_at=None if expires is None else expires / 1000,
        running=body["running"],
    )


def _file_info(body: Mapping[str, Any]) -> FileInfo:
    return FileInfo(
        path=body["path"],
        kind=_KINDS.get(body["kind"]) or str(body["kind"]),
        size=body["size"],
        mode=int(body["mode"], 8),
        modified=body["modified_ms"] / 1000,
        target=body.get("target"),
        version=body.get("version"),
    )


def _finished(
    events: Iterator[Event],
    timeout: float | None,
    raise_on_error: bool,
    on_stdout: Listener | None,
    on_stderr: Listener | None,
) -> RunResult:
    """The result of a command whose events are heard to their end."""
    for event in events:
        listener = {"stdout": on_stdout, "stderr": on_stderr}.get(event.name)
        if listener is not None:
            listener(_bytes(event.data).decode(errors="replace"))
        ended = _ended(event, timeout)
        if ended is not None:
            if raise_on_error and not ended.success:
                raise failure(ended)
            return ended
    raise _broken_off()


def _stream(events: Iterator[Event], timeout: float | None) -> Generator[bytes, None, None]:
    for event in events:
        if event.name in ("stdout", "stderr"):
            yield _bytes(event.data)
        ended = _ended(event, timeout)
        if ended is not None:
            if not ended.success:
                raise failure(ended)
            return
    raise _broken_off()


def _ended(event: Event, timeout: float | None) -> RunResult | None:
    if event.name == "error":
        approval = event.data.get("approval")
        details = {"approval_id": approval} if approval else {}
        raise from_native(str(event.data["code"]), str(event.data["detail"]), details)
    if event.name != "end":
        return None
    result = _result(event.data)
    if event.data["timed_out"]:
        after = "its time" if timeout is None else f"{timeout} seconds"
        raise CommandTimeoutError(
            f"the command was ended after {after}", stdout=result.stdout, stderr=result.stderr
        )
    return result


def _broken_off() -> AgentVFSError:
    return from_native("server-ending", "the server ended before the command did", {})


def _bytes(data: Mapping[str, Any]) -> bytes:
    coded: str | None = data.get("base64")
    return base64.b64decode(coded) if coded is not None else str(data["text"]).encode()


def _result(body: Mapping[str, Any]) -> RunResult:
    def stream(name: Literal["stdout", "stderr"]) -> bytes:
        coded: str | None = body.get(f"{name}_base64")
        return base64.b64decode(coded) if coded is not None else str(body[name]).encode()

    signal: int | None = body["signal"]
    code: int | None = body["exit_code"]
    return RunResult(
        stdout=body["stdout"],
        stderr=body["stderr"],
        exit_code=128 + signal if signal is not None else code if code is not None else -1,
        duration=body["duration_ms"] / 1000,
        changed_files=tuple(
            ChangedFile(one["path"], one["kind"], one.get("from")) for one in body["changed_files"]
        ),
        run=body["run"],
        truncated=body["stdout_truncated"] or body["stderr_truncated"],
        refused_hosts=tuple(body["network_refusals"]),
        stdout_bytes=stream("stdout"),
        stderr_bytes=stream("stderr"),
    )
