"""Where an agent works: what every integration is made of."""

from __future__ import annotations

import builtins
import contextlib
import os
import posixpath
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import _native
from ._output import Listener
from ._waiting import in_thread, on_loop
from .errors import (
    AgentVFSError,
    ApprovalRequiredError,
    CommandTimeoutError,
    InvalidInputError,
    PathExistsError,
    PathIsADirectoryError,
    PathNotADirectoryError,
    PathNotFoundError,
    PermissionDeniedError,
    PolicyDeniedError,
    SessionClosedError,
)
from .files import FileInfo, Files, Match
from .limits import ResourceLimits
from .result import RunResult
from .sandbox import WORKSPACE, Command, Sandbox
from .session import Session

T = TypeVar("T")

#: What a workspace is opened on: a sandbox, the name of a vault, or a directory of this machine.
Place = Sandbox | str | os.PathLike[str]

#: Frameworks have limits of their own, and most of them want output whole.
OUTPUT_BYTES = 16 << 20

#: How much of a file outside the tree is read by one command.
_PIECE = 8 << 20


@dataclass(frozen=True)
class Answer:
    """What a model is told about a command. One that was not run, or was ended, is an answer too."""

    stdout: str
    stderr: str
    #: As a shell shows it: 124 if the command took too long, 126 if it may not run.
    exit_code: int
    is_timeout: bool = False
    #: Output was left out.
    is_truncated: bool = False
    #: In seconds.
    duration: float = 0.0

    @property
    def text(self) -> str:
        """What it printed, its errors last."""
        between = "\n" if self.stdout and self.stderr and not self.stdout.endswith("\n") else ""
        return f"{self.stdout}{between}{self.stderr}"

    @property
    def report(self) -> str:
        """The same, with the exit code of a command that failed."""
        if self.exit_code == 0:
            return self.text
        return f"{self.text.rstrip()}\n\nExit code: {self.exit_code}".lstrip()


class Workspace:
    """A sandbox that is opened at its first use, for one agent.

    Paths are those that commands see: relative ones begin in the workspace's directory, and absolute ones mean the same
    file for commands and for these methods. The files of the workspace are reached directly; others, such as those in
    `/tmp`, by commands, as the sandbox's user.

    With `session`, command lines share one shell, whose directory, variables and `/tmp` last. Without it, every command
    starts in the workspace's directory, and commands run side by side; `/tmp` lasts as well.

    >>> from agentvfs.workspace import Workspace
    >>> with Workspace(project, session=True) as workspace:
    ...     _ = workspace.run("cd /tmp && echo hi > note")
    ...     workspace.run("cat note").stdout, workspace.read("/tmp/note"), workspace.read("notes.md")
    ('hi\\n', b'hi\\n', b'# Notes\\n')
    """

    def __init__(
        self, place: Place, *, session: bool = False, preset: str | None = None, **options: Any
    ) -> None:
        self._place = place
        self._session = session
        self._preset = preset
        self._options = options
        self._sandbox = place if isinstance(place, Sandbox) else None
        self._shell: Session | None = None
        self._opening = threading.Lock()
        if isinstance(place, Sandbox) and (options or preset is not None):
            raise InvalidInputError(
                "options are for sandboxes that are opened here; this one is open already"
            )

    def __repr__(self) -> str:
        return f"<Workspace {self._place!r}>"

    # What it is opened on

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, for `diff()`, `apply()` and the rest."""
        with self._opening:
            if self._sandbox is None:
                self._sandbox = self._opened()
            return self._sandbox

    def _opened(self) -> Sandbox:
        assert not isinstance(self._place, Sandbox)
        options: dict[str, Any] = {"resources": ResourceLimits(output_bytes=OUTPUT_BYTES), **self._options}
        if not isinstance(self._place, str) or self._place.startswith((".", "/", "~")):
            directory = os.path.expanduser(self._place)
            return Sandbox.from_local(directory, self._preset or "development", **options)
        return Sandbox.connect(self._place, self._preset, **options)

    @property
    def was_opened(self) -> bool:
        """Whether there is a sandbox already."""
        return self._sandbox is not None

    @property
    def exists_still(self) -> bool:
        """Whether nobody has closed it or deleted its files meanwhile."""
        return self.sandbox.is_running and self.sandbox.exists

    @property
    def root(self) -> str:
        """The directory in which commands start."""
        return self.sandbox.path

    def close(self) -> None:
        """Ends it. A sandbox that the program made stays open, without the shell."""
        with self._opening:
            shell, self._shell = self._shell, None
            sandbox = self._sandbox
            if not isinstance(self._place, Sandbox):
                self._sandbox = None
        if shell is not None:
            shell.close()
        if sandbox is not None and not isinstance(self._place, Sandbox):
            sandbox.close()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Commands

    def run(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
    ) -> RunResult:
        """Runs a command, in the shell that stays if there is one."""
        return self.run_with(_native.CancelToken(), command, timeout, cwd, env, stdin)

    async def arun(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """The same for coroutines. One that is cancelled ends its command."""
        token = _native.CancelToken()
        tell = (on_loop(on_stdout), on_loop(on_stderr))
        return await in_thread(
            lambda: self.run_with(token, command, timeout, cwd, env, stdin, *tell), token.cancel
        )

    def run_with(
        self,
        token: _native.CancelToken,
        command: Command,
        timeout: float | None,
        cwd: str | None,
        env: Mapping[str, str] | None,
        stdin: str | bytes | None,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """The same with a token that ends the command."""
        if not self._session:
            return self.sandbox.run_with(
                token, command, timeout, env, cwd, stdin, False, on_stdout, on_stderr
            )
        if cwd is not None or env:
            raise InvalidInputError("commands in a session have its directory and its variables")
        while True:
            shell = self._open_shell()
            try:
                return shell.exec_with(token, command, timeout, stdin, False, on_stdout, on_stderr)
            except SessionClosedError:
                # The command before ended it (`exit`), between the look at it and this one.
                if shell.is_open:
                    raise

    def tell(self, command: Command, timeout: float | None = None, *, is_approved: bool = False) -> Answer:
        """Runs a command for a model. One that a person has approved already is approved here, once."""
        try:
            return _answer(self.run(command, timeout=timeout))
        except ApprovalRequiredError as error:
            if not is_approved or error.approval_id is None:
                return _refusal(error)
            self.sandbox.approval(error.approval_id).answer(True)
            return self.tell(command, timeout)
        except _TOLD as error:
            return _refusal(error)

    async def atell(self, command: Command, timeout: float | None = None) -> Answer:
        """The same for coroutines. One that is cancelled ends its command."""
        try:
            return _answer(await self.arun(command, timeout=timeout))
        except _TOLD as error:
            return _refusal(error)

    def _open_shell(self) -> Session:
        sandbox = self.sandbox
        with self._opening:
            if self._shell is None or not self._shell.is_open:
                self._shell = sandbox.session()
            return self._shell

    # Files

    def absolute(self, path: str) -> str:
        """A path from the root of what commands see."""
        return posixpath.normpath(posixpath.join(self.root, path))

    def _in_tree(self, path: str) -> str | None:
        """A path from the root of the workspace's files, or nothing, if it lies elsewhere."""
        if "\0" in path:
            raise InvalidInputError(f"{path!r} is not a path")
        place = self.absolute(path)
        for root in (self.root, WORKSPACE):
            if place == root or place.startswith(f"{root}/"):
                return place[len(root) :] or "/"
        return None

    @property
    def _files(self) -> Files:
        return self.sandbox.files

    def read(self, path: str) -> bytes:
        """The contents of a file."""
        place = self._in_tree(path)
        if place is not None:
            return self._files.read(place, "bytes")
        size, read = self.stat(path).size, b""
        while len(read) < max(size, 1):
            # A file that grows, or has no size, as in /proc, is read to its end.
            piece = self._outside(path, _READ, stdin=None, more=(str(len(read) + 1), str(_PIECE)))
            read += piece
            if len(piece) < _PIECE:
                break
        return read

    def write(self, path: str, data: bytes) -> None:
        """Writes a file, and makes the directories above it that are missing."""
        place = self._in_tree(path)
        if place is not None:
            self._files.write(place, data)
        else:
            self._outside(path, _WRITE, stdin=data)

    def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> int:
        """Replaces a text that is in a file once, or everywhere (`replace_all`). Returns how often it was there; 0 and
        more than 1, without `replace_all`, have changed nothing."""
        place, wanted = self._in_tree(path), old.encode()
        version = self._files.get_info(place).version if place is not None else None
        content = self.read(path)
        count = content.count(wanted)
        if count == 1 or (count and replace_all):
            changed = content.replace(wanted, new.encode())
            if place is not None:
                self._files.write(place, changed, expected_version=version)
            else:
                self.write(path, changed)
        return count

    def stat(self, path: str) -> FileInfo:
        """What is at a path, through links."""
        place = self._in_tree(path)
        if place is not None:
            return self._shown(self._files.get_info(place), path)
        line = self._outside(path, _STAT, stdin=None).decode(errors="surrogateescape")
        return _entry(line.rstrip("\n"), self.absolute(path))

    def exists(self, path: str) -> bool:
        """Whether something is at a path."""
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def list(self, path: str) -> builtins.list[FileInfo]:
        """What is in a directory, by name. Entries that are links are shown as what they lead to."""
        place = self._in_tree(path)
        if place is None:
            lines = self._outside(path, _LIST, stdin=None).decode(errors="surrogateescape")
            base = self.absolute(path)
            return sorted(
                (
                    _entry(line, posixpath.join(base, line.split("\t", 3)[3]))
                    for line in lines.split("\0")
                    if line
                ),
                key=lambda one: one.path,
            )
        if not self._files.get_info(place).is_dir:
            raise PathNotADirectoryError(f"{path} is not a directory", path=path)
        below = self.absolute(path)
        return [self._followed(one, posixpath.join(below, one.name)) for one in self._files.list(place)]

    def _followed(self, info: FileInfo, path: str) -> FileInfo:
        if info.kind == "symlink":
            # One that leads nowhere, or to what is not seen, is shown as itself.
            with contextlib.suppress(OSError, AgentVFSError):
                info = replace(self.stat(path), target=info.target)
        return replace(info, path=path)

    def _shown(self, info: FileInfo, path: str) -> FileInfo:
        return replace(info, path=self.absolute(path))

    def make_dir(self, path: str) -> None:
        """Makes a directory and those above it."""
        place = self._in_tree(path)
        if place is None:
            self._outside(path, _MAKE_DIR, stdin=None)
            return
        try:
            self._files.make_dir(place)
        except NotADirectoryError as error:
            if self.exists(path):
                raise PathExistsError(f"{path} exists and is not a directory", path=path) from error
            raise

    def remove(self, path: str) -> None:
        """Removes a file, or a directory with everything in it."""
        if self.is_above_root(path):
            raise InvalidInputError(f"{path} holds the workspace, and stays")
        place = self._in_tree(path)
        if place is not None:
            self._files.remove(place)
        else:
            self._outside(path, _REMOVE, stdin=None)

    def is_above_root(self, path: str) -> bool:
        """Whether a path is the workspace's directory, or one above it."""
        place = self.absolute(path).rstrip("/")
        return any(root == place or root.startswith(f"{place}/") for root in (self.root, WORKSPACE))

    def find(self, path: str) -> builtins.list[FileInfo]:
        """The files at any depth below a directory, by path. Links are themselves."""
        place = self._in_tree(path)
        base = self.absolute(path)
        if place is not None:
            root = self.root.rstrip("/")
            found = self._files.list(place, depth=1_000_000)
            return [replace(one, path=root + one.path) for one in found if not one.is_dir]
        lines = self._outside(path, _FIND, stdin=None).decode(errors="surrogateescape")
        return [
            _entry(line, posixpath.join(base, line.split("\t", 3)[3])) for line in lines.split("\0") if line
        ]

    def grep(self, text: str, path: str, limit: int | None = None) -> builtins.list[Match]:
        """The lines of files below a directory, or of a file, that contain a text."""
        place = self._in_tree(path)
        if place is not None:
            root = self.root.rstrip("/")
            found = self._files.grep(text, place, literal=True, limit=limit)
            return [replace(one, path=root + one.path) for one in found]
        info = self.stat(path)
        files = self.find(path) if info.is_dir else [info]
        matches: builtins.list[Match] = []
        for file in files:
            content = self.read(file.path) if file.is_file else b""
            if b"\0" in content:
                continue
            lines = content.decode(errors="replace").splitlines()
            matches += [
                Match(file.path, number, line) for number, line in enumerate(lines, 1) if text in line
            ]
        return matches if limit is None else matches[:limit]

    def real_path(self, path: str) -> str:
        """A path with all links resolved. Names that are missing are kept."""
        answer = self._outside(path, _REAL_PATH, stdin=None)
        return answer.decode(errors="surrogateescape").rstrip("\n")

    def _outside(self, path: str, script: str, stdin: bytes | None, more: Sequence[str] = ()) -> bytes:
        """Does something with a file by a command."""
        # Not shortened: behind a link, `..` leads to where the link's target is.
        place = posixpath.join(self.root, path)
        command = ["sh", "-c", _CHECKS + script, "sh", place, *more]
        result = self.run(command, stdin=stdin if stdin is not None else b"")
        if result.exit_code != 0:
            last = result.stderr.strip().rsplit("\n", 1)[-1]
            raise _failure(result.exit_code, path, last)
        return result.stdout_bytes

    async def later(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Calls a method of this class from a coroutine."""
        return await in_thread(partial(call, *arguments, **named))


#: What becomes of a command without being an error of the program.
_TOLD = (CommandTimeoutError, PolicyDeniedError, ApprovalRequiredError)


def _answer(result: RunResult) -> Answer:
    return Answer(
        result.stdout,
        result.stderr,
        result.exit_code,
        is_truncated=result.truncated,
        duration=result.duration,
    )


def _refusal(error: AgentVFSError) -> Answer:
    if isinstance(error, CommandTimeoutError):
        return Answer(error.stdout, f"{error.stderr}{error}\n", 124, is_timeout=True)
    return Answer("", f"{error}\n", 126)


#: What the scripts below have in common: they end with a status that tells what is wrong with the path.
_CHECKS = r"""
p=$1
fail() { printf '%s\n' "$2" >&2; exit "$1"; }
above() {
    d=$(dirname -- "$1")
    while [ ! -e "$d" ] && [ "$d" != / ]; do d=$(dirname -- "$d"); done
    [ -d "$d" ] || fail 94 'Not a directory'
    [ -x "$d" ] || fail 95 'Permission denied'
}
there() {
    if [ ! -e "$p" ]; then above "$p"; fail 92 'No such file or directory'; fi
}
"""
_READ = r"""
there
[ -d "$p" ] && fail 93 'Is a directory'
[ -f "$p" ] || fail 97 'Not a regular file'
[ -r "$p" ] || fail 95 'Permission denied'
if [ "$2" -eq 1 ]; then head -c "$3" -- "$p"; else tail -c +"$2" -- "$p" | head -c "$3"; fi
"""
_WRITE = r"""
[ -d "$p" ] && fail 93 'Is a directory'
if [ -e "$p" ]; then
    [ -f "$p" ] || fail 97 'Not a regular file'
    [ -w "$p" ] || fail 95 'Permission denied'
else
    above "$p"
    mkdir -p -- "$(dirname -- "$p")" || fail 95 'Permission denied'
fi
cat > "$p" || fail 95 'Permission denied'
"""
_STAT = r"""
there
stat -L --printf '%F\t%s\t%a %Y\t' -- "$p" || exit 1
"""
_LIST = r"""
there
[ -d "$p" ] || fail 94 'Not a directory'
[ -r "$p" ] || fail 95 'Permission denied'
cd -- "$p" || fail 95 'Permission denied'
for name in * .[!.]* ..?*; do
    if [ -e "$name" ]; then stat -L --printf '%F\t%s\t%a %Y\t%n\0' -- "$name"
    elif [ -L "$name" ]; then stat --printf '%F\t%s\t%a %Y\t%n\0' -- "$name"
    fi
done
"""
_FIND = r"""
there
[ -d "$p" ] || fail 94 'Not a directory'
cd -- "$p" || fail 95 'Permission denied'
find . ! -type d -exec stat --printf '%F\t%s\t%a %Y\t%n\0' -- {} + | sort -z -k 4 | sed -z 's|\t\./|\t|'
"""
_MAKE_DIR = r"""
[ -d "$p" ] && exit 0
[ -e "$p" ] && fail 96 'File exists'
above "$p"
mkdir -p -- "$p" || fail 95 'Permission denied'
"""
_REMOVE = r"""
[ -L "$p" ] || there
rm -rf -- "$p" || fail 95 'Permission denied'
"""
_REAL_PATH = r"""
realpath -m -- "$p"
"""

#: The exceptions for the statuses of these scripts. All of them are built-in ones too.
_FAILURES: dict[int, type[AgentVFSError]] = {
    92: PathNotFoundError,
    93: PathIsADirectoryError,
    94: PathNotADirectoryError,
    95: PermissionDeniedError,
    96: PathExistsError,
}

_KINDS: dict[str, Literal["file", "dir", "symlink"]] = {
    "regular file": "file",
    "regular empty file": "file",
    "directory": "dir",
    "symbolic link": "symlink",
}


class SpecialFileError(AgentVFSError, OSError):
    """Neither a file nor a directory, but a pipe or a device, which this program does not wait for."""


def _failure(status: int, path: str, reason: str) -> AgentVFSError:
    if status == 97:
        return SpecialFileError(f"{path}: {reason}")
    kind = _FAILURES.get(status)
    if kind is None:
        return AgentVFSError(f"{path}: {reason or f'status {status}'}")
    return kind(f"{path}: {reason}", path=path)


def _entry(line: str, path: str) -> FileInfo:
    kind, size, mode_and_time, _ = line.split("\t", 3)
    mode, time = mode_and_time.split(" ")
    return FileInfo(path, _KINDS.get(kind, "other"), int(size), int(mode, 8), float(time))
