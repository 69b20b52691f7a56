"""The files of a sandbox, for the program that uses it."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, overload

from . import _checks, _native
from .errors import InvalidInputError, PathNotADirectoryError, PathNotFoundError
from .result import ChangedFile, changed_file

#: A path in a sandbox: from the root of its files, with or without a slash in front. A path below `/workspace`, or below
#: the directory that the sandbox was made from, means the same file as inside.
PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]

#: How much of a file is read at a time.
_PIECE = 1 << 20


@dataclass(frozen=True)
class FileInfo:
    """What is at a path."""

    path: str
    #: `file`, `dir`, `symlink` or `other`.
    kind: str
    size: int
    mode: int
    #: Seconds since 1970.
    modified: float
    #: Where a symbolic link leads.
    target: str | None = None
    #: Names the contents of a file, for writes that must not overwrite another version.
    version: str | None = None

    @property
    def name(self) -> str:
        """The last part of its path."""
        return PurePosixPath(self.path).name

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.kind == "dir"

    @property
    def is_file(self) -> bool:
        """Whether it is a file."""
        return self.kind == "file"


@dataclass(frozen=True)
class Match:
    """A line of a file that matches."""

    path: str
    line: int
    text: str


class Files:
    """The files of a sandbox or vault.

    Rules hold as they do for commands, and so do the modes of files, unless these are those of `as_owner()`.

    >>> sandbox.files.write("src/main.py", "print('hi')\\n").size
    12
    >>> sandbox.files.read("src/main.py")
    "print('hi')\\n"
    """

    def __init__(self, vault: _native.Vault, places: tuple[str, ...] = (), *, as_user: bool = True) -> None:
        self._vault = vault
        self._places = places
        self._native = _native.Files(vault, as_user)

    def __repr__(self) -> str:
        return f"<Files of {self._vault.name!r}>"

    def as_owner(self) -> Files:
        """The same files for the program that owns the sandbox: modes do not hold, rules do."""
        return Files(self._vault, self._places, as_user=False)

    def path_in_tree(self, path: PathLike) -> str:
        """A path from the root of the files."""
        text = _checks.text("path", os.fsdecode(path))
        for place in self._places:
            if text == place or text.startswith(f"{place}/"):
                return text[len(place) :] or "/"
        return text

    @overload
    def read(
        self,
        path: PathLike,
        format: Literal["text"] = "text",
        *,
        offset: int = 0,
        length: int | None = None,
    ) -> str: ...
    @overload
    def read(
        self, path: PathLike, format: Literal["bytes"], *, offset: int = 0, length: int | None = None
    ) -> bytes: ...
    @overload
    def read(
        self, path: PathLike, format: Literal["stream"], *, offset: int = 0, length: int | None = None
    ) -> Iterator[bytes]: ...
    def read(
        self,
        path: PathLike,
        format: Literal["text", "bytes", "stream"] = "text",
        *,
        offset: int = 0,
        length: int | None = None,
    ) -> str | bytes | Iterator[bytes]:
        """The contents of a file as text (UTF-8), bytes, or an iterator over pieces of bytes.

        >>> sandbox.files.read("greeting.txt", "bytes", offset=1, length=3)
        b'ell'
        """
        _checks.whole("offset", offset)
        _checks.whole("length", length)
        place = self.path_in_tree(path)
        if format == "text":
            return self._native.read(place, offset, length).decode(errors="replace")
        if format == "bytes":
            return self._native.read(place, offset, length)
        if format != "stream":
            raise InvalidInputError(f"format: {format!r} is not 'text', 'bytes' or 'stream'")
        # What is wrong with the path is told now, and not at the first piece.
        self._native.read(place, 0, 0)
        return self._pieces(place, offset, length)

    def _pieces(self, place: str, offset: int, length: int | None) -> Iterator[bytes]:
        left = length
        while left is None or left > 0:
            piece = self._native.read(place, offset, _PIECE if left is None else min(left, _PIECE))
            if not piece:
                return
            yield piece
            offset += len(piece)
            left = None if left is None else left - len(piece)

    def write(
        self,
        path: PathLike,
        data: str | bytes,
        *,
        expected_version: str | None = None,
        append: bool = False,
    ) -> FileInfo:
        """Writes a file, and makes the directories above it that are missing.

        With `expected_version`, only if the file has that version; `absent` means that there is none.
        """
        place = self.path_in_tree(path)
        version = _checks.optional("expected_version", expected_version)
        self._native.write([(place, _checks.data(data), version)], append)
        return self.get_info(path)

    def write_files(self, files: Mapping[str, str | bytes]) -> None:
        """Writes several files in one step: all of them, or none.

        >>> sandbox.files.write_files({"a.txt": "a", "deep/b.txt": b"b"})
        >>> sandbox.files.exists("deep/b.txt")
        True
        """
        new: builtins.list[tuple[str, bytes, str | None]] = [
            (self.path_in_tree(path), _checks.data(data), None)
            for path, data in _checks.mapping("files", files).items()
        ]
        self._native.write(new, False)

    def edit(self, path: PathLike, old: str, new: str, *, replace_all: bool = False) -> int:
        """Replaces a text in a file, which must be there once, unless `replace_all`. Returns how often it was there.

        >>> sandbox.files.edit("greeting.txt", "hello", "goodbye")
        1
        """
        if not _checks.utf8("old", old):
            raise InvalidInputError("there is no text to replace")
        _checks.utf8("new", new)
        info = self.get_info(path)
        text = self.read(path, "bytes")
        count = text.count(old.encode())
        if count == 0 or (count > 1 and not replace_all):
            found = "is not in it" if count == 0 else f"is in it {count} times; replace_all replaces them all"
            raise InvalidInputError(f"{info.path} was not changed: the text {found}")
        changed = text.replace(old.encode(), new.encode())
        self.write(path, changed, expected_version=info.version)
        return count

    def list(self, path: PathLike = "/", depth: int | None = 1) -> builtins.list[FileInfo]:
        """What is in a directory, and below it down to a depth; `None` is all of it.

        >>> [one.name for one in sandbox.files.list()]
        ['greeting.txt', 'notes.md']
        """
        _checks.whole("depth", depth, 1)
        return [_info(one) for one in self._native.list(self.path_in_tree(path), depth, [])]

    def glob(self, pattern: str, path: PathLike = "/") -> builtins.list[str]:
        """The files below a directory whose paths match, as in `.gitignore`: `*.py` at any depth, `/*.py` at its root.

        >>> sandbox.files.glob("*.md")
        ['/notes.md']
        """
        globs = [_checks.utf8("pattern", pattern)]
        return [one.path for one in self._native.list(self.path_in_tree(path), None, globs)]

    def grep(
        self,
        pattern: str,
        path: PathLike = "/",
        *,
        glob: str | None = None,
        literal: bool = False,
        ignore_case: bool = False,
        limit: int | None = None,
    ) -> builtins.list[Match]:
        """The lines of files that match a regular expression, or a plain text (`literal`).

        >>> sandbox.files.grep("h.llo")
        [Match(path='/greeting.txt', line=1, text='hello')]
        """
        globs = [] if glob is None else [_checks.utf8("glob", glob)]
        _checks.utf8("pattern", pattern)
        _checks.whole("limit", limit)
        place = self.path_in_tree(path)
        found = self._native.grep(pattern, place, globs, literal, ignore_case, limit)
        return [Match(*one) for one in found]

    def exists(self, path: PathLike) -> bool:
        """Whether something is at a path, and the rules show it."""
        return self._native.stat(self.path_in_tree(path), True, False) is not None

    def get_info(self, path: PathLike, *, follow: bool = True) -> FileInfo:
        """What is at a path."""
        found = self._native.stat(self.path_in_tree(path), follow, True)
        if found is None:
            place = self.path_in_tree(path)
            raise PathNotFoundError(f"{place} does not exist", path=place)
        return _info(found)

    def make_dir(self, path: PathLike) -> bool:
        """Makes a directory and those above it. Returns whether it is new."""
        return self._native.make_dir(self.path_in_tree(path))

    def rename(self, old: PathLike, new: PathLike) -> FileInfo:
        """Gives a file or directory another path."""
        self._native.rename(self.path_in_tree(old), self.path_in_tree(new))
        return self.get_info(new, follow=False)

    def copy(self, source: PathLike, target: PathLike) -> None:
        """Copies a file, or a directory with everything in it."""
        self._native.copy(self.path_in_tree(source), self.path_in_tree(target))

    def remove(self, path: PathLike) -> None:
        """Removes a file, or a directory with everything in it."""
        self._native.remove(self.path_in_tree(path))

    def set_mode(self, path: PathLike, mode: int) -> None:
        """Gives a file or directory other permission bits."""
        _checks.whole("mode", mode, 0, 0o7777)
        self._native.set_mode(self.path_in_tree(path), mode)

    def watch_dir(self, path: PathLike = "/", *, recursive: bool = False) -> WatchHandle:
        """Watches a directory from now on, for changes by any process.

        >>> watch = sandbox.files.watch_dir("/")
        >>> _ = sandbox.run("touch new.txt && rm notes.md")
        >>> [(event.kind, event.path) for event in watch.get_new_events()]
        [('create', '/new.txt'), ('remove', '/notes.md')]
        """
        info = self.get_info(path)
        if not info.is_dir:
            raise PathNotADirectoryError(f"{info.path} is no directory", path=info.path)
        return WatchHandle(self._vault, self.path_in_tree(path), recursive)


@dataclass(frozen=True)
class FilesystemEvent:
    """Something that happened in a directory."""

    path: str
    #: `create`, `write`, `remove`, `rename` or `chmod`.
    kind: str
    #: Where it was before it was renamed.
    moved_from: str | None = None


_EVENTS = {
    "added": "create",
    "modified": "write",
    "deleted": "remove",
    "renamed": "rename",
    "metadata": "chmod",
}


class WatchHandle:
    """Tells what changed in a directory. The states of the sandbox are compared: nothing is missed between two calls, and
    what was made and removed between them is not told."""

    def __init__(self, vault: _native.Vault, place: str, recursive: bool) -> None:
        self._vault: _native.Vault | None = vault
        self._parent = PurePosixPath("/", place.lstrip("/"))
        self._recursive = recursive
        self._seen = vault.head()

    def __repr__(self) -> str:
        state = "stopped" if self._vault is None else "watching"
        return f"<WatchHandle on {str(self._parent)!r} {state}>"

    def get_new_events(self) -> builtins.list[FilesystemEvent]:
        """What changed since the last call, by path."""
        if self._vault is None:
            raise InvalidInputError("the watch was stopped")
        head = self._vault.head()
        if head == self._seen:
            return []
        changes = map(changed_file, self._vault.changes(self._seen, head))
        self._seen = head
        return [
            FilesystemEvent(change.path, _EVENTS[change.kind], change.moved_from)
            for change in changes
            if self._concerns(change)
        ]

    def _concerns(self, change: ChangedFile) -> bool:
        path = PurePosixPath(change.path)
        return self._parent in path.parents if self._recursive else path.parent == self._parent

    def stop(self) -> None:
        """Watches no longer."""
        self._vault = None


def _info(found: _native.FileInfo) -> FileInfo:
    target = None if found.target is None else os.fsdecode(found.target)
    return FileInfo(found.path, found.kind, found.size, found.mode, found.modified, target, found.version)
