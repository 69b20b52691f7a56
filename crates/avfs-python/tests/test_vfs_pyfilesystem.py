"""The suite of PyFilesystem2 over the filesystem in memory, through a small adapter.

The package is dormant and needs an old setuptools, so it is a test oracle and nothing else.
"""

from __future__ import annotations

# pyright: basic
# mypy: disable-error-code="misc, import-untyped, no-any-return, type-arg, unused-ignore"
import io
import unittest
import warnings
from typing import Any, ClassVar

import pytest
from agentvfs import AgentVFSError, VirtualFileSystem

with warnings.catch_warnings():
    # It says at its import that it is old.
    warnings.simplefilter("ignore")
    from fs import errors, test
    from fs.base import FS
    from fs.enums import ResourceType
    from fs.info import Info
    from fs.mode import Mode
    from fs.permissions import Permissions
    from fs.subfs import SubFS

pytestmark = pytest.mark.filterwarnings("ignore")

_ERRORS = {
    "not-found": errors.ResourceNotFound,
    "exists": errors.DirectoryExists,
    "not-a-directory": errors.DirectoryExpected,
    "is-a-directory": errors.FileExpected,
    "not-empty": errors.DirectoryNotEmpty,
    "root": errors.RemoveRootError,
    "bad-path": errors.InvalidCharsInPath,
}


class _File(io.BytesIO):
    """A file that is written when it is flushed or closed."""

    def __init__(self, vfs: VirtualFileSystem, path: str, mode: Mode) -> None:
        super().__init__(b"" if mode.truncate else vfs.read_file(path))
        self._vfs, self._path, self.access = vfs, path, mode
        self._written = self.getvalue()
        if mode.appending:
            self.seek(0, io.SEEK_END)

    @property
    def mode(self) -> str:
        return self.access.to_platform_bin()

    def readable(self) -> bool:
        return self.access.reading

    def writable(self) -> bool:
        return self.access.writing

    def _check(self, allowed: bool) -> None:
        if not allowed:
            raise OSError("not open for that")

    def read(self, size: int | None = -1) -> bytes:
        self._check(self.access.reading)
        return super().read(size)

    def readline(self, size: int | None = -1) -> bytes:
        self._check(self.access.reading)
        return super().readline(size)

    def write(self, data: Any) -> int:
        self._check(self.access.writing)
        if self.access.appending:
            self.seek(0, io.SEEK_END)
        return super().write(data)

    def truncate(self, size: int | None = None) -> int:
        self._check(self.access.writing)
        size = self.tell() if size is None else size
        grown = size - len(self.getvalue())
        if grown > 0:
            position = self.tell()
            self.seek(0, io.SEEK_END)
            super().write(bytes(grown))
            self.seek(position)
        return super().truncate(size)

    def flush(self) -> None:
        if not self.closed and self.access.writing and self.getvalue() != self._written:
            self._written = self.getvalue()
            self._vfs.write_file(self._path, self._written)

    def close(self) -> None:
        self.flush()
        super().close()


class VfsAdapter(FS):
    _meta: ClassVar[dict[str, str | int | bool | None]] = {
        "case_insensitive": False,
        "invalid_path_chars": "\0",
        "network": False,
        "read_only": False,
        "supports_rename": True,
        "thread_safe": True,
        "unicode_paths": True,
    }

    def __init__(self) -> None:
        super().__init__()
        self.vfs = VirtualFileSystem()

    def _call(self, path: str, call: Any) -> Any:
        self.check()
        try:
            return call(self.validatepath(path))
        except AgentVFSError as error:
            raise _ERRORS[error.code](path) from error

    def getinfo(self, path: str, namespaces: Any = None) -> Info:
        try:
            stat = self._call(path, self.vfs.stat)
        except errors.DirectoryExpected as error:
            # Below a file there is nothing; the suite does not tell the two apart.
            raise errors.ResourceNotFound(path) from error
        name = stat.path.rsplit("/", 1)[1]
        kind = ResourceType.directory if stat.is_dir else ResourceType.file
        return Info(
            {
                "basic": {"name": name, "is_dir": stat.is_dir},
                "details": {
                    "type": int(kind),
                    "size": stat.size,
                    "modified": stat.mtime,
                    "accessed": None,
                    "_write": ["modified"],
                },
                "access": {"permissions": Permissions(mode=stat.mode).dump()},
            }
        )

    def listdir(self, path: str) -> list[str]:
        return list(self._call(path, self.vfs.listdir))

    def makedir(self, path: str, permissions: Any = None, recreate: bool = False) -> SubFS[Any]:
        if not (recreate and self.isdir(path)):
            self._call(path, self.vfs.mkdir)
        return self.opendir(path)

    def openbin(self, path: str, mode: str = "r", buffering: int = -1, **options: Any) -> Any:
        parsed = Mode(mode)
        parsed.validate_bin()
        place = self.validatepath(path)
        if self.isdir(place):
            raise errors.FileExpected(path)
        parent = place.rstrip("/").rpartition("/")[0]
        if not self.isdir(parent or "/"):
            raise errors.ResourceNotFound(path)
        if self.exists(place):
            if parsed.exclusive:
                raise errors.FileExists(path)
        elif parsed.create:
            self._call(path, self.vfs.touch)
        else:
            raise errors.ResourceNotFound(path)
        if parsed.truncate:
            self._call(path, lambda place: self.vfs.write_file(place, b""))
        return self._call(path, lambda place: _File(self.vfs, place, parsed))

    def remove(self, path: str) -> None:
        if self.getinfo(path).is_dir:
            raise errors.FileExpected(path)
        self._call(path, self.vfs.remove)

    def removedir(self, path: str) -> None:
        place = self.validatepath(path)
        if place in ("", "/"):
            raise errors.RemoveRootError(path)
        if not self.getinfo(path).is_dir:
            raise errors.DirectoryExpected(path)
        self._call(path, self.vfs.remove)

    def setinfo(self, path: str, info: Any) -> None:
        self.getinfo(path)
        modified = info.get("details", {}).get("modified")
        if modified is not None:
            self._call(path, lambda place: self.vfs.set_mtime(place, int(modified * 1_000_000_000)))


class TestPyFilesystem(test.FSTestCases, unittest.TestCase):
    def make_fs(self) -> VfsAdapter:
        return VfsAdapter()
