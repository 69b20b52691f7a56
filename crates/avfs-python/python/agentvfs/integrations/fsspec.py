"""Vaults for everything that opens files through fsspec: `fsspec.open("avfs://vault/path")`.

The first name of a path is that of the vault, as the bucket is in object stores. The protocol is registered when the
package is installed, so pandas, pyarrow, DuckDB and others know it without an import.

>>> import fsspec
>>> from agentvfs import AVFS
>>> AVFS().create_vault("data")
>>> with fsspec.open("avfs://data/table.csv", "w") as file:
...     _ = file.write("a,b\\n1,2\\n")
>>> fsspec.filesystem("avfs").cat("data/table.csv")
b'a,b\\n1,2\\n'
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from datetime import datetime, timezone
from errno import ENOTEMPTY
from typing import Any, ClassVar

from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile

from ..errors import InvalidInputError, VersionMismatchError
from ..files import FileInfo, Files
from ..sandbox import PathLike
from ..vault import AVFS

_DEEP = 1_000_000


class AvfsFileSystem(AbstractFileSystem):
    """The vaults of a store. `store=` names another one than the environment does."""

    protocol: ClassVar[str | tuple[str, ...]] = "avfs"
    root_marker = ""
    #: Changes by others are seen at once, because nothing is kept here.
    cachable = True

    def __init__(self, *, store: PathLike | None = None, **storage_options: Any) -> None:
        super().__init__(**storage_options)
        self._avfs_home = None if store is None else os.fspath(store)

    def _vaults(self) -> AVFS:
        return AVFS(store=self._avfs_home)

    def _split(self, path: str) -> tuple[str, str]:
        """The vault of a path, and the path in it."""
        vault, _, rest = self._strip_protocol(path).lstrip("/").partition("/")
        return vault, f"/{rest}"

    def _in_vault(self, path: str) -> tuple[Files, str]:
        vault, place = self._split(path)
        if not vault:
            raise IsADirectoryError("the root holds vaults, and no files")
        try:
            return AVFS(vault, store=self._avfs_home).files, place
        except LookupError as error:
            raise FileNotFoundError(f"there is no vault {vault!r}") from error

    # Looking

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        vault, place = self._split(path)
        if not vault:
            found = [_directory(one.name) for one in self._vaults().list_vaults()]
        else:
            files, place = self._in_vault(path)
            info = files.get_info(place)
            if info.is_dir:
                found = [self._shown(files, vault, one) for one in files.list(place)]
            else:
                found = [_shown(vault, info)]
        return found if detail else sorted(one["name"] for one in found)

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        vault, place = self._split(path)
        if not vault:
            return _directory("")
        files, place = self._in_vault(path)
        return _shown(vault, files.get_info(place))

    def _shown(self, files: Files, vault: str, info: FileInfo) -> dict[str, Any]:
        """An entry of a listing. A link is what it leads to, if that is there."""
        if info.kind != "symlink":
            return _shown(vault, info)
        shown = _shown(vault, info)
        try:
            meant = files.get_info(info.path)
        except OSError:
            return shown
        return {**_shown(vault, meant), "name": shown["name"], "islink": True, "destination": info.target}

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        vault, place = self._split(path)
        if not vault:
            return super().find(path, maxdepth, withdirs, detail, **kwargs)
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        found: dict[str, dict[str, Any]] = {}
        try:
            files, place = self._in_vault(path)
            start = files.get_info(place)
            if start.is_dir:
                listed = [self._shown(files, vault, one) for one in files.list(place, maxdepth or _DEEP)]
                found = {one["name"]: one for one in listed if withdirs or one["type"] != "directory"}
            if not start.is_dir or (withdirs and place != "/"):
                found[_name(vault, place)] = _shown(vault, start)
        except (FileNotFoundError, NotADirectoryError):
            pass
        names = sorted(found)
        return {name: found[name] for name in names} if detail else names

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)

    def ukey(self, path: str) -> str:
        """Names the contents of a file."""
        return str(self.info(path).get("version"))

    checksum = ukey

    # Reading and writing

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> AvfsFile:
        if mode not in ("rb", "wb", "ab", "xb"):
            raise ValueError(f"mode {mode!r}: a file is opened with 'rb', 'wb', 'ab' or 'xb'")
        files, place = self._in_vault(path)
        if mode != "rb":
            self._check_place(files, place, mode)
        size = block_size if isinstance(block_size, int) else self.blocksize
        return AvfsFile(self, path, mode, size, autocommit, cache_options=cache_options, **kwargs)

    def _check_place(self, files: Files, place: str, mode: str) -> None:
        """Refuses what cannot be written when it is opened, and not when it is closed."""
        try:
            info = files.get_info(place)
        except FileNotFoundError:
            return
        if info.is_dir:
            raise IsADirectoryError(f"{place} is a directory")
        if mode == "xb":
            raise FileExistsError(f"{place} exists")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        files, place = self._in_vault(path)
        if start is None and end is None:
            return files.read(place, "bytes")
        size = files.get_info(place).size
        begin, stop, _ = slice(start, end).indices(size)
        return files.read(place, "bytes", offset=begin, length=max(0, stop - begin))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        files, place = self._in_vault(path)
        try:
            files.write(place, value, expected_version="absent" if mode == "create" else None)
        except VersionMismatchError as error:
            raise FileExistsError(f"{place} exists") from error

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        files, place = self._in_vault(path)
        files.write(place, b"", append=not truncate)

    # Changing

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        vault, place = self._split(path)
        if place == "/":
            if vault in self._names():
                raise FileExistsError(f"there is a vault {vault!r}")
            self._vaults().create_vault(vault)
            return
        if create_parents and vault not in self._names():
            self._vaults().create_vault(vault)
        files, place = self._in_vault(path)
        if not create_parents and not files.get_info(place.rpartition("/")[0] or "/").is_dir:
            raise NotADirectoryError(f"{place.rpartition('/')[0]} is not a directory")
        if not files.make_dir(place):
            raise FileExistsError(f"{place} exists")

    def _names(self) -> set[str]:
        return {one.name for one in self._vaults().list_vaults()}

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        try:
            self.mkdir(path, create_parents=True)
        except FileExistsError:
            if not exist_ok or not self.isdir(path):
                raise

    def rmdir(self, path: str) -> None:
        files, place = self._removable(path)
        if not files.get_info(place, follow=False).is_dir:
            raise NotADirectoryError(f"{place} is not a directory")
        if files.list(place):
            raise OSError(ENOTEMPTY, "Directory not empty", place)
        files.remove(place)

    def _removable(self, path: str) -> tuple[Files, str]:
        files, place = self._in_vault(path)
        if place == "/":
            raise InvalidInputError(
                f"{self._split(path)[0]!r} is a vault", hint="AVFS.delete_vault deletes a vault"
            )
        return files, place

    def rm_file(self, path: str) -> None:
        files, place = self._removable(path)
        if files.get_info(place, follow=False).is_dir:
            raise IsADirectoryError(f"{place} is a directory")
        files.remove(place)

    _rm = rm_file

    def rm(self, path: str | Iterable[str], recursive: bool = False, maxdepth: int | None = None) -> None:
        if isinstance(path, str) and recursive and maxdepth is None and not _is_pattern(path):
            files, place = self._removable(path)
            # One step, and not one for each file.
            files.remove(place)
            return
        for one in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
            if self.isdir(one):
                self.rmdir(one)
            else:
                self.rm_file(one)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        files, source = self._in_vault(path1)
        others, target = self._in_vault(path2)
        if files.get_info(source).is_dir:
            others.make_dir(target)
        elif self._split(path1)[0] == self._split(path2)[0]:
            files.copy(source, target)
        else:
            others.write(target, files.read(source, "bytes"))

    def mv(
        self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> None:
        if isinstance(path1, str) and isinstance(path2, str) and not _is_pattern(path1):
            vault, source = self._split(path1)
            other, target = self._split(path2)
            if vault == other and source != "/" and not path1.endswith("/") and not self.isdir(path2):
                files, source = self._in_vault(path1)
                if files.get_info(source, follow=False).is_dir and not recursive:
                    raise IsADirectoryError(f"{source} is a directory")
                files.rename(source, target)
                return
        super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)


class AvfsFile(AbstractBufferedFile):
    """A file of a vault. What is written is there when it is closed: all of it, in one step."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        files, place = self.fs._in_vault(self.path)
        return files.read(place, "bytes", offset=start, length=max(0, end - start))

    def _upload_chunk(self, final: bool = False) -> bool:
        if final and self.autocommit:
            self.commit()
        # What was written is kept until then, or until the end of a transaction.
        return False

    def _initiate_upload(self) -> None:
        pass

    def commit(self) -> None:
        """Writes the file."""
        files, place = self.fs._in_vault(self.path)
        self.buffer.seek(0)
        data = self.buffer.read()
        if self.mode == "xb":
            self.fs.pipe_file(self.path, data, mode="create")
        else:
            files.write(place, data, append=self.mode == "ab")

    def discard(self) -> None:
        """Forgets what was written."""


def _name(vault: str, place: str) -> str:
    return f"{vault}{place}".rstrip("/")


def _directory(name: str) -> dict[str, Any]:
    return {"name": name, "size": 0, "type": "directory"}


#: What fsspec calls them, and their bits in a mode.
_KINDS = {
    "file": ("file", stat.S_IFREG),
    "dir": ("directory", stat.S_IFDIR),
    "symlink": ("link", stat.S_IFLNK),
}


def _shown(vault: str, info: FileInfo) -> dict[str, Any]:
    kind, format_bits = _KINDS.get(info.kind, (info.kind, 0))
    shown: dict[str, Any] = {
        "name": _name(vault, info.path),
        "size": 0 if info.is_dir else info.size,
        "type": kind,
        "mode": format_bits | info.mode,
        "mtime": info.modified,
        "islink": info.kind == "symlink",
    }
    if info.version is not None:
        shown["version"] = info.version
    if info.target is not None:
        shown["destination"] = info.target
    return shown


def _is_pattern(path: str) -> bool:
    return any(sign in path for sign in "*?[")
