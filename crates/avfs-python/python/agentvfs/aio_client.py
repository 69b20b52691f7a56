"""Sandboxes on a server, for programs with an event loop: the same as `SandboxClient`, with `await`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import IO, overload

from ._http import Abort
from ._output import Listener
from ._waiting import in_thread, on_loop
from .client import (
    Codebase,
    SandboxChanges,
    SandboxClient,
    ServerSandbox,
    SessionInfo,
    UploadResult,
)
from .files import FileInfo
from .limits import ResourceLimits
from .result import RunResult
from .rules import Preset, RuleLike
from .sandbox import Command


class AsyncSandboxClient:
    """A client of `avfs serve`: `SandboxClient` with `await`. A call that is cancelled ends its command.

    >>> import asyncio
    >>> async def main() -> str:
    ...     async with AsyncSandboxClient() as client:
    ...         sandbox = await client.create_sandbox()
    ...         return (await client.exec(sandbox.id, "echo hello")).stdout
    >>> asyncio.run(main())
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
        #: The same for code that blocks.
        self.blocking = SandboxClient(endpoint, token=token, ca_file=ca_file, timeout=timeout)

    def __repr__(self) -> str:
        return f"Async{self.blocking!r}"

    async def close(self) -> None:
        """Closes its connections. What is on the server stays there."""
        self.blocking.close()

    async def __aenter__(self) -> AsyncSandboxClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # Codebases

    async def create_codebase(self, name: str) -> Codebase:
        """Makes an empty codebase."""
        return await in_thread(partial(self.blocking.create_codebase, name))

    async def fork_codebase(self, codebase_id: str, name: str, *, revision: str | None = None) -> Codebase:
        """Makes a codebase with the files of another one."""
        return await in_thread(partial(self.blocking.fork_codebase, codebase_id, name, revision=revision))

    async def get_codebase(self, codebase_id: str) -> Codebase:
        """Shows a codebase."""
        return await in_thread(partial(self.blocking.get_codebase, codebase_id))

    async def list_codebases(self) -> list[Codebase]:
        """All codebases, by name."""
        return await in_thread(self.blocking.list_codebases)

    async def delete_codebase(self, codebase_id: str) -> None:
        """Deletes a codebase with its history. Needs the scope `admin`."""
        await in_thread(partial(self.blocking.delete_codebase, codebase_id))

    # Files, of a codebase or a sandbox

    async def upload_file(
        self,
        codebase_id: str,
        file_path: str,
        content: bytes | str | IO[bytes],
        *,
        mode: int | None = None,
        expected_version: str | None = None,
    ) -> UploadResult:
        """Writes a file, with the directories above it."""
        upload = partial(self.blocking.upload_file, codebase_id, file_path, content)
        return await in_thread(partial(upload, mode=mode, expected_version=expected_version))

    @overload
    async def download_file(self, codebase_id: str, file_path: str) -> bytes: ...
    @overload
    async def download_file(self, codebase_id: str, file_path: str, to: IO[bytes]) -> int: ...
    async def download_file(
        self, codebase_id: str, file_path: str, to: IO[bytes] | None = None
    ) -> bytes | int:
        """The contents of a file; or, with `to`, how many bytes were written to that file."""
        if to is None:
            return await in_thread(lambda: self.blocking.download_file(codebase_id, file_path))
        return await in_thread(lambda: self.blocking.download_file(codebase_id, file_path, to))

    async def list_files(self, codebase_id: str, path: str = "/", recursive: bool = False) -> list[FileInfo]:
        """What is in a directory."""
        return await in_thread(partial(self.blocking.list_files, codebase_id, path, recursive))

    async def delete_file(self, codebase_id: str, file_path: str) -> None:
        """Removes a file, or a directory with everything in it."""
        await in_thread(partial(self.blocking.delete_file, codebase_id, file_path))

    # Sandboxes

    async def create_sandbox(
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
        """Makes a sandbox on a fork of a codebase, or an empty one."""
        create = partial(
            self.blocking.create_sandbox,
            codebase_id,
            permissions,
            preset=preset,
            labels=labels,
            expires_in=expires_in,
            idle_timeout=idle_timeout,
            resources=resources,
            network=network,
            env=env,
            read_only=read_only,
        )
        return await in_thread(create)

    async def fork_sandbox(self, sandbox_id: str, count: int = 1) -> list[ServerSandbox]:
        """Makes sandboxes with the present files of one."""
        return await in_thread(partial(self.blocking.fork_sandbox, sandbox_id, count))

    async def get_sandbox(self, sandbox_id: str) -> ServerSandbox:
        """Shows a sandbox."""
        return await in_thread(partial(self.blocking.get_sandbox, sandbox_id))

    async def list_sandboxes(self, codebase_id: str | None = None) -> list[ServerSandbox]:
        """All sandboxes, or those on a codebase."""
        return await in_thread(partial(self.blocking.list_sandboxes, codebase_id))

    async def start_sandbox(self, sandbox_id: str) -> ServerSandbox:
        """Prepares a sandbox, so that its next command starts at once."""
        return await in_thread(partial(self.blocking.start_sandbox, sandbox_id))

    async def stop_sandbox(self, sandbox_id: str) -> ServerSandbox:
        """Ends everything that runs in a sandbox. Its files stay."""
        return await in_thread(partial(self.blocking.stop_sandbox, sandbox_id))

    async def apply(self, sandbox_id: str, codebase_id: str | None = None) -> SandboxChanges:
        """Merges what a sandbox changed into its codebase. Needs the scope `admin`."""
        return await in_thread(partial(self.blocking.apply, sandbox_id, codebase_id))

    async def destroy_sandbox(self, sandbox_id: str) -> None:
        """Ends a sandbox and deletes its files."""
        await in_thread(partial(self.blocking.destroy_sandbox, sandbox_id))

    # Commands

    async def exec(
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
        """Runs a command to its end."""
        abort = Abort()
        run = partial(
            self.blocking.exec_with,
            abort,
            sandbox_id,
            command,
            (stdin, env, workdir, timeout),
            raise_on_error,
            on_loop(on_stdout),
            on_loop(on_stderr),
        )
        return await in_thread(run, abort.abort)

    async def exec_stream(
        self,
        sandbox_id: str,
        command: Command,
        *,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[bytes]:
        """The output of a command as it comes. Closing the iterator ends the command."""
        abort = Abort()
        options = (stdin, env, workdir, timeout)
        pieces = self.blocking.exec_stream_with(abort, sandbox_id, command, options)
        try:
            while (piece := await in_thread(lambda: next(pieces, None), abort.abort)) is not None:
                yield piece
        finally:
            abort.abort()

    # Sessions

    async def create_session(self, sandbox_id: str, *, env: Mapping[str, str] | None = None) -> SessionInfo:
        """Starts a shell that keeps its directory and its variables between commands."""
        return await in_thread(partial(self.blocking.create_session, sandbox_id, env=env))

    async def session(self, sandbox_id: str, *, env: Mapping[str, str] | None = None) -> AsyncServerSession:
        """The same as an object, which ends the shell with its `async with` block."""
        return AsyncServerSession(self, await self.create_session(sandbox_id, env=env))

    async def get_session(self, session_id: str) -> SessionInfo:
        """Shows a session."""
        return await in_thread(partial(self.blocking.get_session, session_id))

    async def list_sessions(self, sandbox_id: str) -> list[SessionInfo]:
        """The sessions of a sandbox, also those that have ended."""
        return await in_thread(partial(self.blocking.list_sessions, sandbox_id))

    async def session_exec(
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
        abort = Abort()
        run = partial(
            self.blocking.session_exec_with,
            abort,
            session_id,
            command,
            stdin,
            timeout,
            raise_on_error,
            on_loop(on_stdout),
            on_loop(on_stderr),
        )
        return await in_thread(run, abort.abort)

    async def destroy_session(self, session_id: str) -> None:
        """Ends a session and everything in it."""
        await in_thread(partial(self.blocking.destroy_session, session_id))


class AsyncServerSession:
    """A shell that stays, on a server: `ServerSession` with `await`."""

    def __init__(self, client: AsyncSandboxClient, info: SessionInfo) -> None:
        self._client = client
        self.id = info.id
        self.sandbox_id = info.sandbox_id

    def __repr__(self) -> str:
        return f"<AsyncServerSession {self.id}>"

    async def exec(
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
        return await self._client.session_exec(
            self.id,
            command,
            stdin=stdin,
            timeout=timeout,
            raise_on_error=raise_on_error,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
        )

    async def close(self) -> None:
        """Ends it and everything in it."""
        await self._client.destroy_session(self.id)

    async def __aenter__(self) -> AsyncServerSession:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
