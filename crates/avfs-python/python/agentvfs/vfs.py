"""A filesystem in memory: files, versions, forks and a shell, and nothing of the host.

>>> from agentvfs import SandboxShell, VirtualFileSystem
>>> vfs = VirtualFileSystem()
>>> vfs.write_file("/notes/todo.txt", "- build\\n- test\\n")
1
>>> shell = SandboxShell(vfs)
>>> shell.exec("cd /notes && grep -c '^-' todo.txt").stdout
'2\\n'
>>> before = vfs.snapshot()
>>> attempt = vfs.fork()
>>> attempt.append_file("/notes/todo.txt", "- ship\\n", expected_version=1)
2
>>> attempt.changes(before)
[PathChange('/notes/todo.txt', updated)]
>>> vfs.read_text("/notes/todo.txt")
'- build\\n- test\\n'
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Union

from . import _checks
from ._native import DirEntry, Hook, NodeContext, PathChange, PathEvent, Snapshot, Stat, WriteEvent
from ._native import Shell as _Shell
from ._native import Vfs as _Vfs
from ._vfs_errors import CommandCancelledError, StorageConflictError
from .errors import CommandExecutionError, InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._native import ShellLimits

#: Text is UTF-8.
Data: TypeAlias = "str | bytes"
Path: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"


@dataclass(frozen=True)
class NodePolicy:
    """What may be done with an entry, and with everything below it that has no policy of its own."""

    readable: bool = True
    writable: bool = True
    append_only: bool = False
    classification: str = "public"
    principals: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "principals", _words(self.principals))


@dataclass(frozen=True)
class VisibilityView:
    """What one reader of a filesystem can see; everything else does not exist for it.

    A policy with principals is seen by those alone, other entries by their classification. `path_prefixes` limits the
    view to some paths. For each key of `metadata_filters`, a file must have one of the values, itself or from a
    directory above.
    """

    classifications: frozenset[str] | None = None
    principals: frozenset[str] | None = None
    path_prefixes: tuple[Path, ...] | None = None
    metadata_filters: Mapping[str, Iterable[str]] = field(default_factory=lambda: {})

    def __post_init__(self) -> None:
        for name in ("classifications", "principals"):
            words = getattr(self, name)
            object.__setattr__(self, name, None if words is None else _words(words))
        if self.path_prefixes is not None:
            prefixes = self.path_prefixes
            alone = isinstance(prefixes, (str, bytes, os.PathLike))
            object.__setattr__(self, "path_prefixes", (prefixes,) if alone else tuple(prefixes))
        filters = {key: _words(values) for key, values in self.metadata_filters.items()}
        object.__setattr__(self, "metadata_filters", filters)


def _words(words: Iterable[str]) -> frozenset[str]:
    return frozenset([words]) if isinstance(words, str) else frozenset(words)


ContentProvider: TypeAlias = Callable[[NodeContext], Data]
DirectoryProvider: TypeAlias = Callable[[NodeContext], "Mapping[str, Node]"]


@dataclass(frozen=True)
class ProvidedNode:
    """A file or directory that a provider gives. Use `ProvidedNode.file` and `ProvidedNode.directory`."""

    kind: Literal["file", "directory"]
    content: Data | None = None
    content_provider: ContentProvider | None = None
    children: Mapping[str, Node] | None = None
    directory_provider: DirectoryProvider | None = None
    metadata: Mapping[str, str] | None = None
    policy: NodePolicy | None = None
    ttl: float | None = None

    def __post_init__(self) -> None:
        _checks.seconds("ttl", self.ttl, or_zero=True)
        _checks.function("content_provider", self.content_provider)
        _checks.function("directory_provider", self.directory_provider)
        if self.content is not None:
            _checks.data(self.content)
        if self.children is not None:
            _checks.mapping("children", self.children)
        _checks.instance("policy", self.policy, NodePolicy, or_none=True)

    @classmethod
    def file(
        cls,
        content: Data | None = None,
        content_provider: ContentProvider | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        policy: NodePolicy | None = None,
        ttl: float | None = None,
    ) -> ProvidedNode:
        """A file with this content, or with what the provider computes at each read (once in `ttl` seconds)."""
        if (content is None) == (content_provider is None):
            raise InvalidInputError("a provided file has a content or a content_provider")
        return cls("file", content, content_provider, metadata=metadata, policy=policy, ttl=ttl)

    @classmethod
    def directory(
        cls,
        children: Mapping[str, Node] | None = None,
        directory_provider: DirectoryProvider | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        policy: NodePolicy | None = None,
        ttl: float | None = None,
    ) -> ProvidedNode:
        """A directory with these children, or with what the provider computes at each access."""
        if (children is None) == (directory_provider is None):
            raise InvalidInputError("a provided directory has children or a directory_provider")
        return cls(
            "directory",
            children=children,
            directory_provider=directory_provider,
            metadata=metadata,
            policy=policy,
            ttl=ttl,
        )


#: What a provider may give for a name: a node, the content of a file, or the children of a directory.
Node: TypeAlias = Union[ProvidedNode, str, bytes, "Mapping[str, Node]"]


@dataclass(frozen=True)
class StorageEntry:
    """A file as a storage keeps it."""

    data: bytes
    version: int = 1


class StorageAdapter(Protocol):
    """A place outside that keeps files by path. Any object with these methods is one."""

    def read(self, path: str) -> StorageEntry:
        """One file."""
        ...

    def write(self, path: str, data: bytes, version: int) -> object:
        """Stores a file that has this version now.

        Raises `ValueError` or `ConflictError` if this version or a later one is stored already.
        """
        ...

    def list(self) -> Mapping[str, int] | Mapping[str, StorageEntry] | Iterable[str]:
        """The paths of all files, if possible with their versions."""
        ...

    def delete(self, path: str) -> object:
        """Removes a file. One that is gone is fine."""
        ...


class MemoryStorageAdapter:
    """Keeps files in a dictionary: for tests, and to share files between filesystems of one process."""

    def __init__(self, initial: Mapping[str, Data] | None = None) -> None:
        self.files: dict[str, StorageEntry] = {
            path: StorageEntry(_bytes(data)) for path, data in (initial or {}).items()
        }

    def __repr__(self) -> str:
        return f"MemoryStorageAdapter({len(self.files)} files)"

    def read(self, path: str) -> StorageEntry:
        """One file."""
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def write(self, path: str, data: Data, version: int) -> StorageEntry:
        """Stores a file, unless this version or a later one is stored."""
        known = self.files.get(path)
        if known is not None and known.version >= version:
            raise StorageConflictError(f"version {known.version} of {path} is stored", path=path)
        self.files[path] = StorageEntry(_bytes(data), version)
        return self.files[path]

    def list(self) -> dict[str, int]:
        """The versions by path."""
        return {path: entry.version for path, entry in self.files.items()}

    def delete(self, path: str) -> None:
        """Removes a file."""
        self.files.pop(path, None)


class FsspecAdapter:
    """Keeps files in any filesystem of fsspec, below one of its paths."""

    def __init__(self, filesystem: Any, root: str = "") -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._known: dict[str, tuple[int, Any]] = {}

    def __repr__(self) -> str:
        return f"FsspecAdapter({type(self._filesystem).__name__}, {self._root!r})"

    def _place(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _stamp(self, path: str) -> Any:
        """What the file looks like now; `None` if there is none."""
        place = self._place(path)
        self._filesystem.invalidate_cache()
        if not self._filesystem.isfile(place):
            return None
        try:
            return self._filesystem.ukey(place)
        except NotImplementedError:
            return self._filesystem.info(place)

    def _version(self, path: str) -> int:
        stamp = self._stamp(path)
        version, known = self._known.get(path, (0, None))
        if stamp != known:
            version += 1
            self._known[path] = (version, stamp)
        return version

    def read(self, path: str) -> StorageEntry:
        """One file."""
        version = self._version(path)
        return StorageEntry(self._filesystem.cat_file(self._place(path)), version)

    def write(self, path: str, data: bytes, version: int) -> None:
        """Stores a file, unless others have changed it."""
        stamp = self._stamp(path)
        known_version, known = self._known.get(path, (0, None))
        if stamp is not None and (stamp != known or known_version >= version):
            raise StorageConflictError(f"{path} was changed by others", path=path)
        place = self._place(path)
        self._filesystem.makedirs(place.rsplit("/", 1)[0] or "/", exist_ok=True)
        self._filesystem.pipe_file(place, data)
        self._known[path] = (version, self._stamp(path))

    def list(self) -> dict[str, int]:
        """The versions by path."""
        self._filesystem.invalidate_cache()
        root = self._filesystem._strip_protocol(self._root or "/").rstrip("/")
        found = self._filesystem.find(root or "/")
        paths = [str(place)[len(root) :].lstrip("/") for place in found]
        return {path: self._version(path) for path in paths}

    def delete(self, path: str) -> None:
        """Removes a file."""
        self._known.pop(path, None)
        if self._filesystem.isfile(self._place(path)):
            self._filesystem.rm_file(self._place(path))


class FileSystemAdapter:
    """Keeps files in a directory of the host. Symbolic links in it are neither followed nor shown."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        from ._native import DirectoryStorage

        self._directory = _checks.host_path("directory", directory)
        self._storage = DirectoryStorage(self._directory)

    def __repr__(self) -> str:
        return f"FileSystemAdapter({self._directory!r})"

    def read(self, path: str) -> StorageEntry:
        """One file."""
        return StorageEntry(*self._storage.read(path))

    def write(self, path: str, data: Data, version: int) -> None:
        """Stores a file, unless others have changed it."""
        self._storage.write(path, _bytes(data), version)

    def list(self) -> dict[str, int]:
        """The versions by path."""
        return dict(self._storage.list())

    def delete(self, path: str) -> None:
        """Removes a file."""
        self._storage.delete(path)


_bytes = _checks.data
#: What makes an object a storage.
_STORAGE_METHODS = ("read", "write", "list", "delete")


def _codec(name: str) -> str:
    """The name of an encoding, checked."""
    try:
        return codecs.lookup(_checks.text("encoding", name)).name
    except LookupError as error:
        raise InvalidInputError(f"encoding: {error}") from error


class VirtualFileSystem(_Vfs):
    """A filesystem in memory. Paths start at `/`, with or without the slash; `..` is refused.

    Every method that changes something changes all of it or nothing. Objects of this class are handles: `fork` makes
    another filesystem, and `with_view` another handle of the same one.
    """

    def read_text(self, path: Path, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The content of a file as text."""
        try:
            codecs.lookup_error(_checks.text("errors", errors))
        except LookupError as error:
            raise InvalidInputError(f"errors: {error}") from error
        return self.read_file(path).decode(_codec(encoding), errors)

    def write_text(self, path: Path, data: str, encoding: str = "utf-8") -> int:
        """Writes a file as text."""
        if not isinstance(data, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"text is a str, and not {type(data).__name__}")
        return self.write_file(path, data.encode(_codec(encoding)))

    def is_file(self, path: Path) -> bool:
        """Whether a file is there."""
        return self.exists(path) and self.stat(path).kind == "file"

    def is_dir(self, path: Path) -> bool:
        """Whether a directory is there."""
        return self.exists(path) and self.stat(path).is_dir

    def listdir(self, path: Path = "/") -> list[str]:
        """The names in a directory."""
        return [entry.name for entry in self.ls(path)]

    def export(self, destination: str | os.PathLike[str], path: Path = "/") -> None:
        """Writes a file or directory to the host, where nothing may be but an empty directory."""
        self._export(path, _checks.host_path("destination", destination))

    def import_(self, source: str | os.PathLike[str], path: Path = "/") -> None:
        """Reads a file or directory of the host into `path`, where nothing may be but an empty directory."""
        self._import(_checks.host_path("source", source), path)

    @classmethod
    def hydrate(cls, data: bytes) -> Self:
        """The filesystem that `serialize` wrote, or that is in the file of any vault."""
        return cls(_handle=cls._hydrate(data))

    def fork(self) -> Self:
        """Another filesystem with the same entries, policies and providers, at the cost of a few pointers."""
        return type(self)(_handle=self._fork())

    def with_view(self, view: VisibilityView) -> Self:
        """A handle through which only what the view shows exists."""
        _checks.instance("view", view, VisibilityView)
        return type(self)(_handle=self._with_view(view))

    def set_policy(self, path: Path, policy: NodePolicy | None) -> None:
        """Sets what may be done with an entry; `None` leaves it to the policies above."""
        _checks.instance("policy", policy, NodePolicy, or_none=True)
        self._set_policy(path, policy)

    def get_policy(self, path: Path) -> NodePolicy:
        """What may be done with an entry: its own policy, or the nearest above."""
        return NodePolicy(**self._policy(path))

    def mount(self, path: Path, node: Node) -> None:
        """Shows a provided file or directory."""
        self._mount(path, node)

    def mount_file(self, path: Path, provider: ContentProvider, *, ttl: float | None = None) -> None:
        """Shows a file that is computed at each read, or once in `ttl` seconds."""
        _checks.function("provider", provider, or_none=False)
        self._mount(path, ProvidedNode.file(content_provider=provider, ttl=ttl))

    def mount_directory(
        self, path: Path, provider: DirectoryProvider | Mapping[str, Node], *, ttl: float | None = None
    ) -> None:
        """Shows a directory that is computed at each access, or once in `ttl` seconds.

        >>> vfs = VirtualFileSystem()
        >>> vfs.mount_directory("/logs", lambda context: {"latest.log": f"log of {context.path}\\n"})
        >>> vfs.read_text("/logs/latest.log")
        'log of /logs\\n'
        """
        if callable(provider):
            self._mount(path, ProvidedNode.directory(directory_provider=provider, ttl=ttl))
        else:
            self._mount(path, ProvidedNode.directory(provider, ttl=ttl))

    def mount_storage(self, path: Path, adapter: Any) -> None:
        """Shows the files of a storage. From then on every change there is stored before it happens.

        `adapter` is a `StorageAdapter`, or a filesystem of fsspec.
        """
        is_storage = all(callable(getattr(adapter, name, None)) for name in _STORAGE_METHODS)
        if not is_storage and not hasattr(adapter, "cat_file"):
            needed = ", ".join(_STORAGE_METHODS)
            raise TypeError(f"{type(adapter).__name__} is no storage: it needs {needed}")
        self._mount_storage(path, FsspecAdapter(adapter) if hasattr(adapter, "cat_file") else adapter)

    def register_write_hook(
        self, prefix: Path, hook: Callable[[WriteEvent], object], *, after: bool = False
    ) -> Hook:
        """Calls `hook` with every write at or below `prefix`, whichever way a file gets new content.

        Before the write, an exception stops it and nothing changes. With `after`, the change has happened.
        """
        _checks.function("hook", hook, or_none=False)
        return self._register_write_hook(prefix, hook, after)

    def register_path_hook(self, prefix: Path, hook: Callable[[PathEvent], object]) -> Hook:
        """Calls `hook` with every change at or below `prefix`, in order, after it has happened."""
        _checks.function("hook", hook, or_none=False)
        return self._register_path_hook(prefix, hook)


class InboxRecorder:
    """Keeps the events below a prefix.

    >>> vfs = VirtualFileSystem()
    >>> inbox = InboxRecorder().attach(vfs, "/inbox")
    >>> vfs.write_file("/inbox/item.txt", "hello")
    1
    >>> vfs.remove("/inbox/item.txt")
    >>> [(event.event, event.path) for event in inbox.events]
    [('create', '/inbox/item.txt'), ('delete', '/inbox/item.txt')]
    """

    def __init__(self) -> None:
        self.events: list[PathEvent] = []

    def __repr__(self) -> str:
        return f"InboxRecorder({len(self.events)} events)"

    def attach(self, vfs: VirtualFileSystem, prefix: Path) -> Self:
        """Starts recording."""
        vfs.register_path_hook(prefix, self.events.append)
        return self


@dataclass(frozen=True)
class CommandResult:
    """What a line of a shell, or one command of it, has answered."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    #: Standard output and standard error as they were. Text that is not UTF-8 is replaced in the other two.
    stdout_bytes: bytes = field(default=b"", repr=False, compare=False)
    stderr_bytes: bytes = field(default=b"", repr=False, compare=False)

    @property
    def success(self) -> bool:
        """Whether the status is 0."""
        return self.exit_code == 0


@dataclass(frozen=True)
class CommandCall:
    """One use of a command of your own."""

    name: str
    args: list[str]
    stdin: bytes
    cwd: str
    env: dict[str, str]
    vfs: VirtualFileSystem


@dataclass(frozen=True)
class HostCall(CommandCall):
    """A program that goes to the host, and the directory that it works on."""

    argv: list[str]
    tree: str


#: Returns the answer, what it prints, or its status.
OwnCommand: TypeAlias = Callable[[CommandCall], "CommandResult | str | bytes | int | None"]
HostBridge: TypeAlias = Callable[[HostCall], "CommandResult | str | bytes | int | None"]


def _answer(result: object) -> tuple[bytes, bytes, int]:
    match result:
        case CommandResult():
            stdout = result.stdout_bytes or result.stdout.encode()
            return stdout, result.stderr_bytes or result.stderr.encode(), result.exit_code
        case None:
            return b"", b"", 0
        case int():
            return b"", b"", result
        case str() | bytes():
            return _bytes(result), b"", 0
        case _:
            raise TypeError("a command returns a CommandResult, str, bytes, int or None")


def _run_own(  # pyright: ignore[reportUnusedFunction]
    command: OwnCommand, values: dict[str, Any]
) -> tuple[bytes, bytes, int]:
    return _answer(command(CommandCall(**values)))


def _run_bridge(  # pyright: ignore[reportUnusedFunction]
    bridge: HostBridge, values: dict[str, Any]
) -> tuple[bytes, bytes, int]:
    return _answer(bridge(HostCall(**values)))


class SandboxShell(_Shell):
    """A shell over a filesystem in memory. Directory, variables and functions last from line to line.

    No line starts a process or sees a file of the host, except `host`, `python` and, with `host_fallback`, commands
    that the shell does not have: those run in a sandbox, on the files of the filesystem, and their changes come back
    together.
    """

    def __new__(
        cls,
        vfs: VirtualFileSystem,
        view: VisibilityView | None = None,
        allowed_commands: Iterable[str] | None = None,
        max_output_bytes: int | None = None,
        env: Mapping[str, str] | None = None,
        *,
        cwd: str | None = None,
        timeout: float = 30.0,
        max_commands: int = 100_000,
        max_loop_rounds: int = 100_000,
        max_depth: int = 16,
        commands: Mapping[str, OwnCommand] | None = None,
        host_fallback: bool = False,
        bridge: HostBridge | None = None,
    ) -> Self:
        _checks.instance("vfs", vfs, VirtualFileSystem)
        _checks.seconds("timeout", timeout)
        for name, most in (("max_output_bytes", max_output_bytes), ("max_commands", max_commands)):
            _checks.whole(name, most)
        for name, most in (("max_loop_rounds", max_loop_rounds), ("max_depth", max_depth)):
            _checks.whole(name, most)
        _checks.function("bridge", bridge)
        own = dict(_checks.mapping("commands", commands or {}))
        for name, command in own.items():
            _command_name(name, command)
        if cwd is not None:
            _checks.optional("cwd", cwd)
        limits: ShellLimits = {
            "timeout": timeout,
            "max_commands": max_commands,
            "max_loop_rounds": max_loop_rounds,
            "max_depth": max_depth,
        }
        if host_fallback and bridge is None:
            from ._bridge import run_in_sandbox

            bridge = run_in_sandbox
        return super().__new__(
            cls,
            vfs if view is None else vfs.with_view(view),
            None if allowed_commands is None else set(_checks.many("allowed_commands", allowed_commands)),
            max_output_bytes,
            dict(_checks.variables(env)),
            cwd,
            limits,
            own,
            bridge,
            host_fallback,
        )

    def exec(self, script: str, *, stdin: Data = b"", raise_on_error: bool = False) -> CommandResult:
        """Runs a line, or a script of many. A status other than 0 is an answer, unless asked to raise."""
        stdout, stderr, exit_code = self._exec(_checks.utf8("script", script), _checks.data(stdin))
        result = CommandResult(
            stdout.decode(errors="replace"),
            stderr.decode(errors="replace"),
            exit_code,
            stdout,
            stderr,
        )
        if raise_on_error and exit_code != 0:
            raise CommandExecutionError(
                f"the command ended with status {exit_code}",
                exit_code=exit_code,
                stdout=result.stdout,
                stderr=result.stderr,
            )
        return result

    def register_command(self, name: str, command: OwnCommand) -> None:
        """Adds a command, or replaces one of your own.

        >>> shell = SandboxShell(VirtualFileSystem())
        >>> shell.register_command("greet", lambda call: f"hello {call.args[0]}\\n")
        >>> shell.exec("greet world | tr a-z A-Z").stdout
        'HELLO WORLD\\n'
        """
        _command_name(name, command)
        self._register_command(name, command)

    def get_variable(self, name: str) -> str | None:
        """The value of a variable."""
        return self._variable(_variable_name(name))

    def set_variable(self, name: str, value: str) -> None:
        """Sets an exported variable."""
        self._set_variable(_variable_name(name), _checks.utf8("value", value))


def _command_name(name: str, command: object) -> None:
    """A word that can stand for a command, and what it calls."""
    if not _checks.utf8("the name of a command", name) or set(name) & set(" \t\n/|&;<>()$`\\\"'"):
        raise InvalidInputError(f"{name!r} cannot be the name of a command")
    _checks.function(f"command {name!r}", command, or_none=False)


def _variable_name(name: str) -> str:
    if not (_checks.utf8("the name of a variable", name).isidentifier() and name.isascii()):
        raise InvalidInputError(f"{name!r} cannot be the name of a variable")
    return name


__all__ = [
    "CommandCall",
    "CommandCancelledError",
    "CommandResult",
    "DirEntry",
    "FileSystemAdapter",
    "FsspecAdapter",
    "HostCall",
    "InboxRecorder",
    "MemoryStorageAdapter",
    "NodeContext",
    "NodePolicy",
    "PathChange",
    "PathEvent",
    "ProvidedNode",
    "SandboxShell",
    "Snapshot",
    "Stat",
    "StorageAdapter",
    "StorageEntry",
    "VirtualFileSystem",
    "VisibilityView",
    "WriteEvent",
]
