"""Commands of a sandbox that run beside the program that started them, and their terminals."""

from __future__ import annotations

import builtins
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, overload

from . import _checks, _lifecycle, _native
from ._output import Decoder, Listener
from .errors import CommandTimeoutError, InvalidInputError
from .result import RunResult, result_of

if TYPE_CHECKING:
    from .sandbox import Command, PathLike, Sandbox


class Output(NamedTuple):
    """A piece of output."""

    #: `stdout` or `stderr`.
    stream: str
    text: str


@dataclass(frozen=True)
class ProcessInfo:
    """A command that runs beside its caller."""

    pid: int
    command: str | tuple[str, ...]


class CommandHandle:
    """A command that runs beside its caller.

    >>> handle = sandbox.commands.run("read name; echo hello $name", background=True)
    >>> handle.send_stdin("you\\n")
    >>> handle.wait().stdout
    'hello you\\n'
    """

    def __init__(self, process: _native.Process, command: str | tuple[str, ...]) -> None:
        self._process = process
        self.command = command

    def __repr__(self) -> str:
        state = "running" if self.is_running else "ended"
        return f"<CommandHandle {self.pid} {self.command!r} {state}>"

    @property
    def pid(self) -> int:
        """Its number in this sandbox, which no other command gets."""
        return self._process.id

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_running

    @property
    def stdout(self) -> str:
        """What it has printed until now."""
        return self._process.output()[0].decode(errors="replace")

    @property
    def stderr(self) -> str:
        """The errors that it has printed until now."""
        return self._process.output()[1].decode(errors="replace")

    def wait(
        self,
        timeout: float | None = None,
        *,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """Waits for its end.

        When the timeout is up, `CommandTimeoutError` is raised, and the command goes on.
        """
        _checks.seconds("timeout", timeout, or_zero=True)
        _checks.function("on_stdout", on_stdout)
        _checks.function("on_stderr", on_stderr)
        if on_stdout is not None or on_stderr is not None:
            for stream, text in self:
                call = on_stdout if stream == "stdout" else on_stderr
                if call is not None:
                    call(text)
        report = self._process.wait(timeout)
        if report is None:
            raise CommandTimeoutError(
                f"the command has not ended after {timeout} seconds",
                stdout=self.stdout,
                stderr=self.stderr,
            )
        return result_of(report)

    def __iter__(self) -> Iterator[Output]:
        """Its output from its beginning, piece by piece, until it ends."""
        return self.pieces(None)

    def pieces(self, patience: float | None) -> Iterator[Output]:
        """The same for callers that want to hear, after so many seconds, that nothing came: by an empty piece."""
        decoder, reader = Decoder(), self._process.listen()
        while (piece := reader.next(patience)) is not None:
            text = decoder.text(*piece)
            if text or not piece[0]:
                yield Output("stdout" if piece[1] else "stderr", text)

    def has_ended(self, within: float) -> bool:
        """Whether it has ended, now or within so many seconds."""
        _checks.seconds("within", within, or_zero=True)
        return self._process.wait(within) is not None

    def send_stdin(self, data: str | bytes) -> None:
        """Gives it something to read."""
        self._process.write_stdin(_checks.data(data))

    def close_stdin(self) -> None:
        """Ends its input."""
        self._process.close_stdin()

    def send_signal(self, number: int | signal.Signals) -> bool:
        """Sends a signal to it and what it has started. Returns whether it was still running."""
        _checks.whole("a signal", number, 1, signal.NSIG - 1)
        return self._process.signal(int(number))

    def kill(self) -> bool:
        """Kills it and what it has started. Returns whether it was still running."""
        return self._process.kill()


class Commands:
    """The commands of a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._handles: dict[int, CommandHandle] = {}

    def __repr__(self) -> str:
        return f"<Commands of {self._sandbox.name!r}, {len(self.list())} in the background>"

    @overload
    def run(
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
    def run(
        self,
        command: Command,
        background: Literal[True],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: PathLike | None = None,
    ) -> CommandHandle: ...
    def run(
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
    ) -> RunResult | CommandHandle:
        """Runs a command to its end, as `Sandbox.run`, or starts it (`background=True`)."""
        if not background:
            return self._sandbox.run(
                command,
                timeout=timeout,
                env=env,
                cwd=cwd,
                stdin=stdin,
                raise_on_error=raise_on_error,
                on_stdout=on_stdout,
                on_stderr=on_stderr,
            )
        process = self._sandbox.start_native(command, timeout, env, cwd, None)
        return self._kept(CommandHandle(process, _shown(command)))

    def _kept(self, handle: CommandHandle) -> CommandHandle:
        self._handles = {pid: one for pid, one in self._handles.items() if one.is_running}
        self._handles[handle.pid] = handle
        return handle

    def list(self) -> builtins.list[ProcessInfo]:
        """The commands that were started in the background and still run."""
        running = (one for one in self._handles.values() if one.is_running)
        return [ProcessInfo(one.pid, one.command) for one in running]

    def connect(self, pid: int) -> CommandHandle:
        """The handle of a command that was started in the background."""
        _checks.whole("pid", pid)
        handle = self._handles.get(pid)
        if handle is None:
            raise InvalidInputError(f"no command of this sandbox has the number {pid}")
        return handle

    def kill(self, pid: int) -> bool:
        """Kills a command. Returns whether it was still running."""
        handle = self._handles.get(pid)
        return handle is not None and handle.kill()


class PtySize(NamedTuple):
    """How large a terminal is."""

    rows: int = 24
    columns: int = 80


class PtyHandle(CommandHandle):
    """A command with a terminal. Its output is all `stdout`."""

    def resize(self, size: PtySize | tuple[int, int]) -> None:
        """Changes the size of its terminal."""
        self._process.resize(*_size(size))


class Pty:
    """Terminals in a sandbox.

    >>> shell = sandbox.pty.create(PtySize(rows=30, columns=100))
    >>> shell.send_stdin("stty size; exit\\n")
    >>> "30 100" in shell.wait().stdout
    True
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._handles: dict[int, PtyHandle] = {}

    def __repr__(self) -> str:
        running = sum(one.is_running for one in self._handles.values())
        return f"<Pty of {self._sandbox.name!r}, {running} terminals>"

    def create(
        self,
        size: PtySize | tuple[int, int] = (24, 80),
        command: Command | None = None,
        *,
        env: Mapping[str, str] | None = None,
        cwd: PathLike | None = None,
        timeout: float | None = None,
        on_data: Callable[[bytes], object] | None = None,
    ) -> PtyHandle:
        """Starts a shell, or another command, with a terminal of its own. `on_data` is called, in another thread, with each
        piece of its output.

        The policy asks about shells, because it cannot read what will be typed into them. A program that starts one here
        has answered that.
        """
        words = ("bash",) if command is None else command
        _checks.function("on_data", on_data)
        process = self._sandbox.start_native(
            words, timeout, env, cwd, _size(size), is_allowed=command is None
        )
        handle = PtyHandle(process, _shown(words))
        self._handles = {pid: one for pid, one in self._handles.items() if one.is_running}
        self._handles[handle.pid] = handle
        if on_data is not None:
            _lifecycle.in_thread(lambda: _tell(process, on_data))
        return handle

    def resize(self, pid: int, size: PtySize | tuple[int, int]) -> None:
        """Changes the size of a terminal."""
        self._handle(pid).resize(size)

    def send_stdin(self, pid: int, data: str | bytes) -> None:
        """Types into a terminal."""
        self._handle(pid).send_stdin(data)

    def kill(self, pid: int) -> bool:
        """Kills what runs in a terminal. Returns whether it was still running."""
        handle = self._handles.get(pid)
        return handle is not None and handle.kill()

    def _handle(self, pid: int) -> PtyHandle:
        _checks.whole("pid", pid)
        handle = self._handles.get(pid)
        if handle is None:
            raise InvalidInputError(f"no terminal of this sandbox has the number {pid}")
        return handle


def _size(size: PtySize | tuple[int, int]) -> tuple[int, int]:
    """Rows and columns, checked."""
    pair = tuple(size)
    if len(pair) != 2:
        raise InvalidInputError(f"a size is (rows, columns), and not {size!r}")
    for name, number in zip(("rows", "columns"), pair, strict=True):
        _checks.whole(name, number, 1, 10_000)
    return pair[0], pair[1]


def _tell(process: _native.Process, on_data: Callable[[bytes], object]) -> None:
    reader = process.listen()
    while (piece := reader.next(None)) is not None:
        on_data(piece[0])


def _shown(command: Command) -> str | tuple[str, ...]:
    return command if isinstance(command, str) else tuple(os.fsdecode(word) for word in command)
