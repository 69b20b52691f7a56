"""Vaults as paths: `UPath("avfs://vault/src")`, of universal_pathlib. The protocol is registered by the installation.

>>> from agentvfs import AVFS
>>> from upath import UPath
>>> AVFS().create_vault("notes")
>>> todo = UPath("avfs://notes/lists/todo.txt")
>>> todo.parent.mkdir()
>>> todo.write_text("one")
3
>>> [path.name for path in UPath("avfs://notes").iterdir()], todo.read_text()
(['lists'], 'one')
"""

from __future__ import annotations

import fsspec
from upath._flavour import WrappedFileSystemFlavour
from upath.implementations.cloud import CloudPath

from .fsspec import AvfsFileSystem

# The name of a vault is the anchor of a path, as that of a bucket is. universal_pathlib has a list of such protocols, and
# asks classes that are loaded how paths are taken apart; it may have done so on the way to this module.
WrappedFileSystemFlavour.protocol_config["netloc_is_anchor"].add("avfs")
fsspec.register_implementation("avfs", AvfsFileSystem, clobber=True)
WrappedFileSystemFlavour.from_protocol.cache_clear()


class AvfsPath(CloudPath):
    """A path in a vault."""

    __slots__ = ()
