"""What can go wrong in a filesystem in memory and in its shell, besides what `errors` has."""

from __future__ import annotations

import errno
from typing import Any

from .errors import (
    AgentVFSError,
    CommandTimeoutError,
    ConflictError,
    InvalidInputError,
    PathExistsError,
    PathIsADirectoryError,
    PathNotADirectoryError,
    PathNotFoundError,
    PermissionDeniedError,
    StorageFullError,
    VersionMismatchError,
)


class DirectoryNotEmptyError(AgentVFSError, OSError):
    """A directory has entries, and the call does not say what happens to them."""

    default_code = "not-empty"
    errno = errno.ENOTEMPTY
    path: str | None = None


class LinkLoopError(AgentVFSError, OSError):
    """A path leads through too many symbolic links."""

    default_code = "too-many-links"
    errno = errno.ELOOP
    path: str | None = None


class BusyPathError(AgentVFSError, OSError):
    """The root, or the place of a storage, can be neither moved nor removed."""

    default_code = "mounted"
    errno = errno.EBUSY
    path: str | None = None


class HostError(AgentVFSError, OSError):
    """The host refused to read or write one of its files. `__cause__` says why."""

    default_code = "host-refused"
    path: str | None = None


class ProviderError(AgentVFSError, OSError):
    """A provider failed. `__cause__` is its exception."""

    default_code = "provider-failed"
    errno = errno.EIO
    path: str | None = None


class StorageError(AgentVFSError, OSError):
    """A storage adapter failed, and nothing was changed. `__cause__` is its exception."""

    default_code = "storage-failed"
    errno = errno.EIO
    path: str | None = None


class StorageConflictError(ConflictError):
    """A storage holds something newer. Nothing was changed on either side."""

    default_code = "storage-conflict"
    path: str | None = None


class HookError(AgentVFSError, RuntimeError):
    """Hooks made changes within a change, or without end."""

    default_code = "within-change"


class OutputTooLargeError(AgentVFSError):
    """A line of a shell wrote more than `max_output_bytes`."""

    default_code = "output-too-large"


class ShellLimitError(AgentVFSError):
    """A line of a shell reached one of its limits."""

    default_code = "shell-limit"


class CommandCancelledError(AgentVFSError):
    """A line of a shell was cancelled."""

    default_code = "cancelled"


_CLASSES: dict[str, type[AgentVFSError]] = {
    "not-found": PathNotFoundError,
    "exists": PathExistsError,
    "not-a-directory": PathNotADirectoryError,
    "is-a-directory": PathIsADirectoryError,
    "denied": PermissionDeniedError,
    "stale-version": VersionMismatchError,
    "over-limit": StorageFullError,
    "bad-path": InvalidInputError,
    "too-deep": InvalidInputError,
    "not-a-link": InvalidInputError,
    "into-itself": InvalidInputError,
    "invalid": InvalidInputError,
    "files-only": InvalidInputError,
    "not-empty": DirectoryNotEmptyError,
    "too-many-links": LinkLoopError,
    "root": BusyPathError,
    "mounted": BusyPathError,
    "host-refused": HostError,
    "provider-failed": ProviderError,
    "storage-failed": StorageError,
    "storage-conflict": StorageConflictError,
    "within-change": HookError,
    "hook-chain": HookError,
    "output-too-large": OutputTooLargeError,
    "shell-limit": ShellLimitError,
    "timeout": CommandTimeoutError,
    "cancelled": CommandCancelledError,
}


def from_vfs(code: str, message: str, details: dict[str, Any]) -> AgentVFSError:
    """The exception for an error of a filesystem or its shell."""
    return _CLASSES.get(code, AgentVFSError)(message, code=code, **details)
