"""What can go wrong.

Every exception of this package is an `AgentVFSError` with a stable `code`, and what Python programs would expect too:
a file that is missing is a `FileNotFoundError`, a command that took too long a `TimeoutError`.

>>> import agentvfs
>>> try:
...     sandbox.files.read("missing.txt")
... except FileNotFoundError as error:
...     error.code
'not-found'
"""

from __future__ import annotations

import errno
from typing import Any, ClassVar


class AgentVFSError(Exception):
    """The base of every exception of this package."""

    #: The stable word of the exceptions that have no other.
    default_code: ClassVar[str] = "invalid"
    #: A stable word for programs, such as `unknown-vault`.
    code: str
    #: What helps, if something does.
    hint: str | None

    def __init__(
        self, message: str, *, code: str | None = None, hint: str | None = None, **details: Any
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.hint = hint
        self._details = details
        for name, value in details.items():
            setattr(self, name, value)

    def __str__(self) -> str:
        return f"{self.message} [{self.hint}]" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.message, self.code, self.hint, self._details)


def _again(
    kind: type[AgentVFSError], message: str, code: str, hint: str | None, details: dict[str, Any]
) -> AgentVFSError:
    return kind(message, code=code, hint=hint, **details)


class InvalidInputError(AgentVFSError, ValueError):
    """An argument cannot be used. Nothing was changed."""


class CommandTimeoutError(AgentVFSError, TimeoutError):
    """A command took too long and was ended."""

    default_code = "timeout"
    #: What the command had printed by then.
    stdout: str = ""
    stderr: str = ""


class CommandExecutionError(AgentVFSError):
    """A command failed, and its caller asked for an exception (`raise_on_error=True`)."""

    default_code = "command-failed"
    exit_code: int = 1
    stdout: str = ""
    stderr: str = ""


class ResourceLimitExceededError(CommandExecutionError):
    """A command failed because it reached a limit (`raise_on_error=True`)."""

    default_code = "limit-reached"
    #: `memory`, `processes` or `cpu`.
    limits: tuple[str, ...] = ()


class CommandNotStartedError(AgentVFSError):
    """There is no such program, or it cannot be executed."""

    default_code = "not-started"


class PathNotFoundError(AgentVFSError, FileNotFoundError):
    """Nothing is at a path, or the rules hide it."""

    default_code = "not-found"
    errno = errno.ENOENT
    path: str | None = None


class PathExistsError(AgentVFSError, FileExistsError):
    """Something is at a path that should be free."""

    default_code = "exists"
    errno = errno.EEXIST
    path: str | None = None


class PathIsADirectoryError(AgentVFSError, IsADirectoryError):
    """A directory is where a file is needed."""

    default_code = "is-a-directory"
    errno = errno.EISDIR
    path: str | None = None


class PathNotADirectoryError(AgentVFSError, NotADirectoryError):
    """Something else is where a directory is needed."""

    default_code = "not-a-directory"
    errno = errno.ENOTDIR
    path: str | None = None


class PermissionDeniedError(AgentVFSError, PermissionError):
    """The rules of the sandbox, or the mode of a file, do not allow it."""

    default_code = "denied"
    errno = errno.EACCES
    path: str | None = None
    #: The rule that decides about the path, if one does.
    rule: str | None = None


class VersionMismatchError(AgentVFSError):
    """A file is not in the version that the caller expected. Nothing was changed."""

    default_code = "stale-version"
    path: str | None = None
    #: The name of a version in a vault, or its number in a filesystem in memory.
    expected: str | int | None = None
    actual: str | int | None = None


class ConflictError(AgentVFSError):
    """Both sides changed the same. Nothing was changed."""

    default_code = "conflict"
    #: Each path with the kind of its conflict.
    conflicts: tuple[tuple[str, str], ...] = ()


class ApprovalRequiredError(AgentVFSError, PermissionError):
    """The policy asks for an approval first."""

    default_code = "approval_required"
    #: Under which it can be allowed.
    approval_id: str | None = None


class PolicyDeniedError(AgentVFSError, PermissionError):
    """The policy, or the person who was asked, denies a command."""

    default_code = "denied_by_policy"


class VaultNotFoundError(AgentVFSError, LookupError):
    """There is no vault or sandbox with this name."""

    default_code = "unknown-vault"


class AlreadyExistsError(AgentVFSError, ValueError):
    """A vault, sandbox or checkpoint has this name already. Nothing was changed."""

    default_code = "vault-exists"


class NotFoundError(AgentVFSError, LookupError):
    """There is no checkpoint, state or approval with this name."""

    default_code = "not-found"


class SandboxNotRunningError(AgentVFSError):
    """The sandbox is closed, or belongs to the parent of this process."""

    default_code = "sandbox-not-running"


class SessionClosedError(AgentVFSError):
    """The session has ended."""

    default_code = "session-closed"


class IsolationUnavailableError(AgentVFSError):
    """This machine cannot run a sandbox. `hint` says what to install or to allow."""

    default_code = "cannot_isolate"


class BusyError(AgentVFSError):
    """Another process is in the way. The same call may work in a moment."""

    default_code = "busy"


class StorageFullError(AgentVFSError, OSError):
    """No room is left, by quota or on the disk."""

    default_code = "disk-full"
    errno = errno.ENOSPC


class CorruptionError(AgentVFSError):
    """Something in the store is damaged."""

    default_code = "corrupt"


class ServerUnreachableError(AgentVFSError, ConnectionError):
    """A server does not answer."""

    default_code = "server-unreachable"


_CLASSES: dict[str, type[AgentVFSError]] = {
    "not-found": PathNotFoundError,
    "host-not-found": PathNotFoundError,
    "project-missing": PathNotFoundError,
    "no_such_directory": PathNotFoundError,
    "exists": PathExistsError,
    "host-exists": PathExistsError,
    "is-a-directory": PathIsADirectoryError,
    "not-a-file": PathIsADirectoryError,
    "not-a-directory": PathNotADirectoryError,
    "host-not-a-directory": PathNotADirectoryError,
    "denied": PermissionDeniedError,
    "other-rules": PermissionDeniedError,
    "host-denied": PermissionDeniedError,
    "stale-version": VersionMismatchError,
    "apply-conflicts": ConflictError,
    "open-conflicts": ConflictError,
    "approval_required": ApprovalRequiredError,
    "approval_denied": PolicyDeniedError,
    "denied_by_policy": PolicyDeniedError,
    "unknown-vault": VaultNotFoundError,
    "unknown-task": VaultNotFoundError,
    "vault-exists": AlreadyExistsError,
    "task-exists": AlreadyExistsError,
    "checkpoint-exists": AlreadyExistsError,
    "project-exists": AlreadyExistsError,
    "source-gone": NotFoundError,
    "unknown-source": NotFoundError,
    "unknown-image": NotFoundError,
    "not-mounted": NotFoundError,
    "no-conflict": NotFoundError,
    "unknown-checkpoint": NotFoundError,
    "unknown-revision": NotFoundError,
    "unknown-approval": NotFoundError,
    "unknown-apply": NotFoundError,
    "unknown-session": SessionClosedError,
    "session-closed": SessionClosedError,
    "sandbox-not-running": SandboxNotRunningError,
    "not-started": CommandNotStartedError,
    "cannot_isolate": IsolationUnavailableError,
    "limits_unavailable": IsolationUnavailableError,
    "no-fuse": IsolationUnavailableError,
    "mount-refused": IsolationUnavailableError,
    "workspace_unusable": IsolationUnavailableError,
    "quota-bytes": StorageFullError,
    "quota-files": StorageFullError,
    "disk-full": StorageFullError,
    "vault-busy": BusyError,
    "overtaken": BusyError,
    "owner-silent": BusyError,
    "owner-gone": BusyError,
    "session-silent": BusyError,
    "run-silent": BusyError,
    "mount-busy": BusyError,
    "mounted-alone": BusyError,
    "not-alone": BusyError,
    "project-running": BusyError,
    "contended": BusyError,
    "store-busy": BusyError,
    "apply-busy": BusyError,
    "apply-overtaken": BusyError,
    "source-restless": BusyError,
    "session_busy": BusyError,
    "torn-tree": CorruptionError,
    "damaged-record": CorruptionError,
    "audit-broken": CorruptionError,
    "damaged-journal": CorruptionError,
    "missing-object": CorruptionError,
    "corrupt": CorruptionError,
    "damaged-store": CorruptionError,
    "invalid": InvalidInputError,
    "bad-name": InvalidInputError,
    "bad-path": InvalidInputError,
    "bad-rules": InvalidInputError,
    "bad_plan": InvalidInputError,
    "bad-vault-file": InvalidInputError,
    "bad-archive": InvalidInputError,
    "ambiguous-revision": InvalidInputError,
    "import-refused": InvalidInputError,
    "merge-with-itself": InvalidInputError,
    "not-a-project": InvalidInputError,
    "not-a-task": InvalidInputError,
    "rules-need-mount": InvalidInputError,
    "rule-needs-open": InvalidInputError,
    # Of servers.
    "unauthenticated": PermissionDeniedError,
    "missing-scope": PermissionDeniedError,
    "wrong-host": PermissionDeniedError,
    "rules-of-vault": PermissionDeniedError,
    "unknown-sandbox": VaultNotFoundError,
    "unknown-tenant": VaultNotFoundError,
    "unknown-process": NotFoundError,
    "bad-request": InvalidInputError,
    "too-large": InvalidInputError,
    "tenant-full": StorageFullError,
    "too-many-sandboxes": BusyError,
    "too-many-commands": BusyError,
    "too-many-sessions": BusyError,
    "too-many-requests": BusyError,
    "server-ending": BusyError,
    "not-a-repository": InvalidInputError,
    "unknown-commit": InvalidInputError,
}


def from_native(code: str, message: str, details: dict[str, Any]) -> AgentVFSError:
    """The exception for an error of the library."""
    if code == "mount-refused" and "could not determine username" in message:
        details["hint"] = "fusermount3 asks for the name of the user: give this one a line in /etc/passwd"
    return _CLASSES.get(code, AgentVFSError)(message, code=code, **details)
