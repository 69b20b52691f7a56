"""Sandboxes for programs with an event loop: the same as `Sandbox`, with `await`."""

from __future__ import annotations

import builtins
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from . import _checks, _native
from ._output import Listener
from ._waiting import AsyncApprove, approve_on_loop, in_thread, on_loop
from .approvals import ApprovalRequest, Approve
from .commands import CommandHandle, Output, ProcessInfo, PtyHandle, PtySize
from .files import FileInfo, Files, Match, WatchHandle
from .files import PathLike as TreePath
from .limits import ResourceLimits, RuntimeType
from .result import Decision, RunResult
from .rules import Explanation, Preset, RuleLike
from .sandbox import Applied, Checkpoint, Command, Conflict, Diff, PathLike, Sandbox, SandboxInfo
from .session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: How long a wait that is cancelled may go on in its thread.
_STEP = 0.1


class AsyncCommandHandle:
    """A command that runs beside its caller: `CommandHandle` with `await`."""

    def __init__(self, handle: CommandHandle) -> None:
        #: The same for code that blocks.
        self.blocking = handle

    def __repr__(self) -> str:
        return f"<Async{repr(self.blocking)[1:]}"

    @property
    def pid(self) -> int:
        """Its number in this sandbox."""
        return self.blocking.pid

    @property
    def command(self) -> str | tuple[str, ...]:
        """What was started."""
        return self.blocking.command

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.blocking.is_running

    @property
    def stdout(self) -> str:
        """What it has printed until now."""
        return self.blocking.stdout

    @property
    def stderr(self) -> str:
        """The errors that it has printed until now."""
        return self.blocking.stderr

    async def wait(
        self,
        timeout: float | None = None,
        *,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """Waits for its end. A wait that is cancelled leaves the command alone."""
        _checks.seconds("timeout", timeout, or_zero=True)
        _checks.function("on_stdout", on_stdout)
        _checks.function("on_stderr", on_stderr)
        if on_stdout is not None or on_stderr is not None:
            async for stream, text in self:
                call = on_stdout if stream == "stdout" else on_stderr
                if call is not None:
                    call(text)
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            step = _STEP if until is None else max(0.0, min(_STEP, until - time.monotonic()))
            has_ended = await in_thread(partial(self.blocking.has_ended, step))
            if has_ended or step == 0:
                return self.blocking.wait(0)

    async def __aiter__(self) -> AsyncIterator[Output]:
        """Its output from its beginning, piece by piece, until it ends."""
        pieces = self.blocking.pieces(_STEP)
        while (piece := await in_thread(lambda: next(pieces, None))) is not None:
            if piece.text:
                yield piece

    async def send_stdin(self, data: str | bytes) -> None:
        """Gives it something to read."""
        await in_thread(lambda: self.blocking.send_stdin(data))

    async def close_stdin(self) -> None:
        """Ends its input."""
        self.blocking.close_stdin()

    async def send_signal(self, number: int) -> bool:
        """Sends a signal to it and what it has started."""
        return self.blocking.send_signal(number)

    async def kill(self) -> bool:
        """Kills it and what it has started."""
        return self.blocking.kill()


class AsyncPtyHandle(AsyncCommandHandle):
    """A command with a terminal."""

    blocking: PtyHandle

    async def resize(self, size: PtySize | tuple[int, int]) -> None:
        """Changes the size of its terminal."""
        self.blocking.resize(size)


class AsyncCommands:
    """The commands of a sandbox."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    def __repr__(self) -> str:
        return f"<Async{repr(self._sandbox.blocking.commands)[1:]}"

    @overload
    async def run(
        self,
        command: Command,
        background: Literal[False] = False,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: PathLike | None = None,
        stdin: str | bytes | None = None,
        raise_on_error: bool = False,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult: ...
    @overload
    async def run(
        self,
        command: Command,
        background: Literal[True],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: PathLike | None = None,
    ) -> AsyncCommandHandle: ...
    async def run(
        self,
        command: Command,
        background: bool = False,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: PathLike | None = None,
        stdin: str | bytes | None = None,
        raise_on_error: bool = False,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult | AsyncCommandHandle:
        """Runs a command to its end, or starts it (`background=True`)."""
        if not background:
            return await self._sandbox.run(
                command,
                timeout=timeout,
                env=env,
                cwd=cwd,
                stdin=stdin,
                raise_on_error=raise_on_error,
                on_stdout=on_stdout,
                on_stderr=on_stderr,
            )
        commands = self._sandbox.blocking.commands
        handle = await in_thread(lambda: commands.run(command, True, timeout=timeout, env=env, cwd=cwd))
        return AsyncCommandHandle(handle)

    async def list(self) -> builtins.list[ProcessInfo]:
        """The commands that were started in the background and still run."""
        return self._sandbox.blocking.commands.list()

    async def connect(self, pid: int) -> AsyncCommandHandle:
        """The handle of a command that was started in the background."""
        return AsyncCommandHandle(self._sandbox.blocking.commands.connect(pid))

    async def kill(self, pid: int) -> bool:
        """Kills a command."""
        return self._sandbox.blocking.commands.kill(pid)


class AsyncPty:
    """Terminals in a sandbox."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    def __repr__(self) -> str:
        return f"<Async{repr(self._sandbox.blocking.pty)[1:]}"

    async def create(
        self,
        size: PtySize | tuple[int, int] = (24, 80),
        command: Command | None = None,
        *,
        env: Mapping[str, str] | None = None,
        cwd: PathLike | None = None,
        timeout: float | None = None,
        on_data: Callable[[bytes], object] | None = None,
    ) -> AsyncPtyHandle:
        """Starts a shell, or another command, with a terminal of its own."""
        tell = on_loop(on_data)
        pty = self._sandbox.blocking.pty
        handle = await in_thread(
            lambda: pty.create(size, command, env=env, cwd=cwd, timeout=timeout, on_data=tell)
        )
        return AsyncPtyHandle(handle)

    async def resize(self, pid: int, size: PtySize | tuple[int, int]) -> None:
        """Changes the size of a terminal."""
        self._sandbox.blocking.pty.resize(pid, size)

    async def send_stdin(self, pid: int, data: str | bytes) -> None:
        """Types into a terminal."""
        await in_thread(lambda: self._sandbox.blocking.pty.send_stdin(pid, data))

    async def kill(self, pid: int) -> bool:
        """Kills what runs in a terminal."""
        return self._sandbox.blocking.pty.kill(pid)


class AsyncFiles:
    """The files of a sandbox: `Files` with `await`."""

    def __init__(self, files: Files) -> None:
        #: The same for code that blocks.
        self.blocking = files

    def __repr__(self) -> str:
        return f"<Async{repr(self.blocking)[1:]}"

    def as_owner(self) -> AsyncFiles:
        """The same files for the program that owns the sandbox: modes do not hold, rules do."""
        return AsyncFiles(self.blocking.as_owner())

    @overload
    async def read(
        self,
        path: TreePath,
        format: Literal["text"] = "text",
        *,
        offset: int = 0,
        length: int | None = None,
    ) -> str: ...
    @overload
    async def read(
        self, path: TreePath, format: Literal["bytes"], *, offset: int = 0, length: int | None = None
    ) -> bytes: ...
    @overload
    async def read(
        self, path: TreePath, format: Literal["stream"], *, offset: int = 0, length: int | None = None
    ) -> AsyncIterator[bytes]: ...
    async def read(
        self,
        path: TreePath,
        format: Literal["text", "bytes", "stream"] = "text",
        *,
        offset: int = 0,
        length: int | None = None,
    ) -> str | bytes | AsyncIterator[bytes]:
        """The contents of a file as text (UTF-8), bytes, or an iterator over pieces of bytes."""
        if format == "text":
            return await in_thread(lambda: self.blocking.read(path, "text", offset=offset, length=length))
        if format == "stream":
            return _awaited(
                await in_thread(lambda: self.blocking.read(path, "stream", offset=offset, length=length))
            )
        return await in_thread(lambda: self.blocking.read(path, format, offset=offset, length=length))

    async def write(
        self,
        path: TreePath,
        data: str | bytes,
        *,
        expected_version: str | None = None,
        append: bool = False,
    ) -> FileInfo:
        """Writes a file, and makes the directories above it that are missing."""
        return await in_thread(
            lambda: self.blocking.write(path, data, expected_version=expected_version, append=append)
        )

    async def write_files(self, files: Mapping[str, str | bytes]) -> None:
        """Writes several files in one step: all of them, or none."""
        await in_thread(lambda: self.blocking.write_files(files))

    async def edit(self, path: TreePath, old: str, new: str, *, replace_all: bool = False) -> int:
        """Replaces a text in a file."""
        return await in_thread(lambda: self.blocking.edit(path, old, new, replace_all=replace_all))

    async def list(self, path: TreePath = "/", depth: int | None = 1) -> builtins.list[FileInfo]:
        """What is in a directory, and below it down to a depth."""
        return await in_thread(lambda: self.blocking.list(path, depth))

    async def glob(self, pattern: str, path: TreePath = "/") -> builtins.list[str]:
        """The files below a directory whose paths match."""
        return await in_thread(lambda: self.blocking.glob(pattern, path))

    async def grep(
        self,
        pattern: str,
        path: TreePath = "/",
        *,
        glob: str | None = None,
        literal: bool = False,
        ignore_case: bool = False,
        limit: int | None = None,
    ) -> builtins.list[Match]:
        """The lines of files that match."""
        return await in_thread(
            lambda: self.blocking.grep(
                pattern, path, glob=glob, literal=literal, ignore_case=ignore_case, limit=limit
            )
        )

    async def exists(self, path: TreePath) -> bool:
        """Whether something is at a path, and the rules show it."""
        return await in_thread(lambda: self.blocking.exists(path))

    async def get_info(self, path: TreePath, *, follow: bool = True) -> FileInfo:
        """What is at a path."""
        return await in_thread(lambda: self.blocking.get_info(path, follow=follow))

    async def make_dir(self, path: TreePath) -> bool:
        """Makes a directory and those above it. Returns whether it is new."""
        return await in_thread(lambda: self.blocking.make_dir(path))

    async def rename(self, old: TreePath, new: TreePath) -> FileInfo:
        """Gives a file or directory another path."""
        return await in_thread(lambda: self.blocking.rename(old, new))

    async def copy(self, source: TreePath, target: TreePath) -> None:
        """Copies a file, or a directory with everything in it."""
        await in_thread(lambda: self.blocking.copy(source, target))

    async def remove(self, path: TreePath) -> None:
        """Removes a file, or a directory with everything in it."""
        await in_thread(lambda: self.blocking.remove(path))

    async def set_mode(self, path: TreePath, mode: int) -> None:
        """Gives a file or directory other permission bits."""
        await in_thread(lambda: self.blocking.set_mode(path, mode))

    async def watch_dir(self, path: TreePath = "/", *, recursive: bool = False) -> WatchHandle:
        """Watches a directory from now on."""
        return await in_thread(lambda: self.blocking.watch_dir(path, recursive=recursive))


async def _awaited(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (piece := await in_thread(lambda: next(pieces, None))) is not None:
        yield piece


class AsyncSession:
    """A shell that keeps its directory, its variables and `/tmp`: `Session` with `await`."""

    def __init__(self, session: Session) -> None:
        #: The same for code that blocks.
        self.blocking = session

    def __repr__(self) -> str:
        return f"<Async{repr(self.blocking)[1:]}"

    @property
    def id(self) -> str:
        """Its id in the audit log."""
        return self.blocking.id

    @property
    def is_open(self) -> bool:
        """Whether it takes commands."""
        return self.blocking.is_open

    async def exec(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        raise_on_error: bool = False,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """Runs a command in the shell. A cancelled one is stopped."""
        token = _native.CancelToken()
        tell_stdout, tell_stderr = on_loop(on_stdout), on_loop(on_stderr)
        return await in_thread(
            lambda: self.blocking.exec_with(
                token, command, timeout, stdin, raise_on_error, tell_stdout, tell_stderr
            ),
            token.cancel,
        )

    async def close(self) -> None:
        """Ends the shell and everything in it."""
        await in_thread(self.blocking.close)

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class Opening:
    """A sandbox on its way, to be awaited or to be entered with `async with`."""

    def __init__(self, make: Callable[[Approve | None], Sandbox], approve: AsyncApprove | None) -> None:
        self._make = make
        self._approve = approve
        self._made: AsyncSandbox | None = None

    def __await__(self) -> Generator[Any, Any, AsyncSandbox]:
        return self._open().__await__()

    async def _open(self) -> AsyncSandbox:
        approve = approve_on_loop(self._approve)
        made: list[Sandbox] = []
        try:
            await in_thread(lambda: made.append(self._make(approve)))
        except BaseException:
            # Cancelled when it was there already.
            for sandbox in made:
                await in_thread(sandbox.discard)
            raise
        return AsyncSandbox(made[0])

    async def __aenter__(self) -> AsyncSandbox:
        self._made = await self._open()
        return self._made

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._made is not None:
            await self._made.close()


class SandboxArguments(TypedDict, total=False):
    """What `AsyncSandbox` takes as `Sandbox` does."""

    permissions: Iterable[RuleLike] | None
    runtime: RuntimeType
    image: str | None
    resources: ResourceLimits | None
    env: Mapping[str, str] | None
    network: str | Sequence[str]
    name: str | None
    keep: bool
    principal: str | None
    store: PathLike | None


class AsyncSandbox:
    """A private copy of a directory in which commands run: `Sandbox` with `await`.

    Any number of them work side by side on one event loop. A coroutine that is cancelled ends its command.

    >>> import asyncio
    >>> async def main():
    ...     async with AsyncSandbox.from_local(project) as sandbox:
    ...         results = await asyncio.gather(*(sandbox.run(f"echo {n}") for n in range(3)))
    ...         return [result.stdout for result in results]
    >>> asyncio.run(main())
    ['0\\n', '1\\n', '2\\n']
    """

    def __init__(self, sandbox: Sandbox) -> None:
        #: The same sandbox for code that blocks.
        self.blocking = sandbox
        #: Commands that run beside the program that started them.
        self.commands = AsyncCommands(self)
        #: Terminals.
        self.pty = AsyncPty(self)

    @property
    def files(self) -> AsyncFiles:
        """Its files."""
        return AsyncFiles(self.blocking.files)

    @classmethod
    def from_local(
        cls,
        path: PathLike,
        preset: str | Preset = "agent-safe",
        *,
        approve: AsyncApprove | None = None,
        **arguments: Unpack[SandboxArguments],
    ) -> Opening:
        """A sandbox on a directory of this machine. `approve` may be a coroutine."""
        return Opening(lambda ask: Sandbox.from_local(path, preset, approve=ask, **arguments), approve)

    @classmethod
    def from_vault(
        cls,
        vault: str,
        preset: str | Preset = "agent-safe",
        *,
        approve: AsyncApprove | None = None,
        **arguments: Unpack[SandboxArguments],
    ) -> Opening:
        """A sandbox on a fork of a vault."""
        return Opening(lambda ask: Sandbox.from_vault(vault, preset, approve=ask, **arguments), approve)

    @classmethod
    def from_git(
        cls,
        repository: PathLike,
        revision: str = "HEAD",
        preset: str | Preset = "agent-safe",
        *,
        approve: AsyncApprove | None = None,
        **arguments: Unpack[SandboxArguments],
    ) -> Opening:
        """A sandbox on the files of a commit."""
        return Opening(
            lambda ask: Sandbox.from_git(repository, revision, preset, approve=ask, **arguments), approve
        )

    @classmethod
    def connect(
        cls,
        name: str,
        preset: str | Preset | None = None,
        *,
        permissions: Iterable[RuleLike] | None = None,
        resources: ResourceLimits | None = None,
        env: Mapping[str, str] | None = None,
        network: str | Sequence[str] = "none",
        keep: bool = True,
        approve: AsyncApprove | None = None,
        principal: str | None = None,
        store: PathLike | None = None,
    ) -> Opening:
        """A sandbox that was kept, or a vault itself."""
        return Opening(
            lambda ask: Sandbox.connect(
                name,
                preset,
                permissions=permissions,
                resources=resources,
                env=env,
                network=network,
                keep=keep,
                approve=ask,
                principal=principal,
                store=store,
            ),
            approve,
        )

    @staticmethod
    async def list(store: PathLike | None = None) -> builtins.list[SandboxInfo]:
        """The sandboxes and vaults of a store."""
        return await in_thread(lambda: Sandbox.list(store))

    def __repr__(self) -> str:
        return f"<Async{repr(self.blocking)[1:]}"

    @property
    def name(self) -> str:
        """Its name, for `connect` and the command line."""
        return self.blocking.name

    @property
    def path(self) -> str:
        """Where commands find its files."""
        return self.blocking.path

    @property
    def is_running(self) -> bool:
        """Whether it takes commands."""
        return self.blocking.is_running

    @property
    def exists(self) -> bool:
        """Whether its files are there."""
        return self.blocking.exists

    async def run(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: PathLike | None = None,
        stdin: str | bytes | None = None,
        raise_on_error: bool = False,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """Runs a command to its end. When the coroutine is cancelled, the command is killed."""
        token = _native.CancelToken()
        tell_stdout, tell_stderr = on_loop(on_stdout), on_loop(on_stderr)
        return await in_thread(
            lambda: self.blocking.run_with(
                token, command, timeout, env, cwd, stdin, raise_on_error, tell_stdout, tell_stderr
            ),
            token.cancel,
        )

    async def decide(self, command: Command, *, cwd: PathLike | None = None) -> Decision:
        """What the policy says about a command, which does not run."""
        return await in_thread(lambda: self.blocking.decide(command, cwd=cwd))

    async def approval(self, approval_id: str) -> ApprovalRequest:
        """A request for an approval, by the id that `ApprovalRequiredError` has."""
        return await in_thread(lambda: self.blocking.approval(approval_id))

    async def session(self) -> AsyncSession:
        """Starts a shell that stays."""
        return AsyncSession(await in_thread(self.blocking.session))

    async def read_file(self, path: TreePath) -> str:
        """The text of a file."""
        return await self.files.read(path)

    async def write_file(self, path: TreePath, data: str | bytes) -> FileInfo:
        """Writes a file."""
        return await self.files.write(path, data)

    async def list_files(self, path: TreePath = "/", depth: int | None = 1) -> builtins.list[FileInfo]:
        """What is in a directory."""
        return await self.files.list(path, depth)

    async def checkpoint(self, name: str | None = None, message: str | None = None) -> Checkpoint:
        """Gives the present state a name."""
        return await in_thread(lambda: self.blocking.checkpoint(name, message))

    async def checkpoints(self) -> builtins.list[Checkpoint]:
        """All checkpoints."""
        return await in_thread(self.blocking.checkpoints)

    async def restore(self, name: str) -> None:
        """Goes back to a checkpoint."""
        await in_thread(lambda: self.blocking.restore(name))

    async def diff(self, since: str | None = None) -> Diff:
        """What was changed in the sandbox, or since a checkpoint."""
        return await in_thread(lambda: self.blocking.diff(since))

    async def fork(self, count: int = 1) -> builtins.list[AsyncSandbox]:
        """Copies of the sandbox as it is now."""
        return [AsyncSandbox(one) for one in await in_thread(lambda: self.blocking.fork(count))]

    async def undo(self) -> str:
        """Undoes the last action."""
        return await in_thread(self.blocking.undo)

    async def apply(
        self,
        paths: Iterable[TreePath] = (),
        *,
        on_conflict: str = "refuse",
        allow: Iterable[TreePath] = (),
    ) -> Applied:
        """Writes what was changed into the directory that the sandbox was made from."""
        return await in_thread(lambda: self.blocking.apply(paths, on_conflict=on_conflict, allow=allow))

    async def conflicts(self) -> builtins.list[Conflict]:
        """Where an `apply()` would meet a conflict now."""
        return await in_thread(self.blocking.conflicts)

    async def export(self, destination: PathLike, *, force: bool = False) -> int:
        """Writes all of its files into a directory."""
        return await in_thread(lambda: self.blocking.export(destination, force=force))

    def explain(self, path: TreePath) -> Explanation:
        """Which rule decides about a path."""
        return self.blocking.explain(path)

    async def info(self) -> SandboxInfo:
        """What it holds."""
        return await in_thread(self.blocking.info)

    async def close(self) -> None:
        """Ends everything in it, and discards its changes, unless it was made with `keep=True`."""
        await in_thread(self.blocking.close)

    async def discard(self) -> None:
        """Ends everything in it, and discards its changes in any case."""
        await in_thread(self.blocking.discard)

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
