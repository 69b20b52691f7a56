"""Safe workspaces for AI agents.

A sandbox on a directory is instant, whatever the size of the directory, and the directory stays untouched:

>>> from agentvfs import Sandbox
>>> with Sandbox.from_local(project) as sandbox:
...     result = sandbox.run("cat greeting.txt")
>>> result.stdout
'hello\\n'
"""

from typing import TYPE_CHECKING

from ._vfs_errors import (
    BusyPathError,
    CommandCancelledError,
    DirectoryNotEmptyError,
    HookError,
    HostError,
    LinkLoopError,
    OutputTooLargeError,
    ProviderError,
    ShellLimitError,
    StorageConflictError,
    StorageError,
)
from .approvals import ApprovalRequest, Preview
from .commands import CommandHandle, Commands, Output, ProcessInfo, Pty, PtyHandle, PtySize
from .errors import (
    AgentVFSError,
    AlreadyExistsError,
    ApprovalRequiredError,
    BusyError,
    CommandExecutionError,
    CommandNotStartedError,
    CommandTimeoutError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    IsolationUnavailableError,
    NotFoundError,
    PathExistsError,
    PathIsADirectoryError,
    PathNotADirectoryError,
    PathNotFoundError,
    PermissionDeniedError,
    PolicyDeniedError,
    ResourceLimitExceededError,
    SandboxNotRunningError,
    ServerUnreachableError,
    SessionClosedError,
    StorageFullError,
    VaultNotFoundError,
    VersionMismatchError,
)
from .files import FileInfo, Files, FilesystemEvent, Match, WatchHandle
from .limits import ResourceLimits, RuntimeType
from .result import ChangedFile, Decision, RunResult, Usage
from .rules import (
    Explanation,
    Preset,
    Rule,
    explain,
    extend_preset,
    get_preset,
    list_presets,
    register_preset,
)
from .sandbox import Applied, Checkpoint, Conflict, Diff, Sandbox, SandboxInfo
from .session import Session
from .vault import AVFS, AuditEntry, HistoryEntry, Merged, Mount, VaultInfo
from .vfs import (
    CommandCall,
    CommandResult,
    DirEntry,
    FileSystemAdapter,
    FsspecAdapter,
    HostCall,
    InboxRecorder,
    MemoryStorageAdapter,
    NodeContext,
    NodePolicy,
    PathChange,
    PathEvent,
    ProvidedNode,
    SandboxShell,
    Snapshot,
    Stat,
    StorageAdapter,
    StorageEntry,
    VirtualFileSystem,
    VisibilityView,
    WriteEvent,
)

if TYPE_CHECKING:
    from .aio import AsyncCommandHandle, AsyncFiles, AsyncSandbox, AsyncSession
    from .aio_client import AsyncSandboxClient, AsyncServerSession
    from .client import (
        Codebase,
        SandboxChanges,
        SandboxClient,
        ServerSandbox,
        ServerSession,
        SessionInfo,
        UploadResult,
    )

#: Importing an event loop, or a client of servers, takes longer than everything else: programs with one do it.
_LATER = {
    **dict.fromkeys(("AsyncCommandHandle", "AsyncFiles", "AsyncSandbox", "AsyncSession"), "aio"),
    **dict.fromkeys(("AsyncSandboxClient", "AsyncServerSession"), "aio_client"),
    **dict.fromkeys(("Codebase", "SandboxChanges", "SandboxClient", "ServerSandbox"), "client"),
    **dict.fromkeys(("ServerSession", "SessionInfo", "UploadResult"), "client"),
}


def __getattr__(name: str) -> object:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{module}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "AVFS",
    "AgentVFSError",
    "AlreadyExistsError",
    "Applied",
    "ApprovalRequest",
    "ApprovalRequiredError",
    "AsyncCommandHandle",
    "AsyncFiles",
    "AsyncSandbox",
    "AsyncSandboxClient",
    "AsyncServerSession",
    "AsyncSession",
    "AuditEntry",
    "BusyError",
    "BusyPathError",
    "ChangedFile",
    "Checkpoint",
    "Codebase",
    "CommandCall",
    "CommandCancelledError",
    "CommandExecutionError",
    "CommandHandle",
    "CommandNotStartedError",
    "CommandResult",
    "CommandTimeoutError",
    "Commands",
    "Conflict",
    "ConflictError",
    "CorruptionError",
    "Decision",
    "Diff",
    "DirEntry",
    "DirectoryNotEmptyError",
    "Explanation",
    "FileInfo",
    "FileSystemAdapter",
    "Files",
    "FilesystemEvent",
    "FsspecAdapter",
    "HistoryEntry",
    "HookError",
    "HostCall",
    "HostError",
    "InboxRecorder",
    "InvalidInputError",
    "IsolationUnavailableError",
    "LinkLoopError",
    "Match",
    "MemoryStorageAdapter",
    "Merged",
    "Mount",
    "NodeContext",
    "NodePolicy",
    "NotFoundError",
    "Output",
    "OutputTooLargeError",
    "PathChange",
    "PathEvent",
    "PathExistsError",
    "PathIsADirectoryError",
    "PathNotADirectoryError",
    "PathNotFoundError",
    "PermissionDeniedError",
    "PolicyDeniedError",
    "Preset",
    "Preview",
    "ProcessInfo",
    "ProvidedNode",
    "ProviderError",
    "Pty",
    "PtyHandle",
    "PtySize",
    "ResourceLimitExceededError",
    "ResourceLimits",
    "Rule",
    "RunResult",
    "RuntimeType",
    "Sandbox",
    "SandboxChanges",
    "SandboxClient",
    "SandboxInfo",
    "SandboxNotRunningError",
    "SandboxShell",
    "ServerSandbox",
    "ServerSession",
    "ServerUnreachableError",
    "Session",
    "SessionClosedError",
    "SessionInfo",
    "ShellLimitError",
    "Snapshot",
    "Stat",
    "StorageAdapter",
    "StorageConflictError",
    "StorageEntry",
    "StorageError",
    "StorageFullError",
    "UploadResult",
    "Usage",
    "VaultInfo",
    "VaultNotFoundError",
    "VersionMismatchError",
    "VirtualFileSystem",
    "VisibilityView",
    "WatchHandle",
    "WriteEvent",
    "explain",
    "extend_preset",
    "get_preset",
    "list_presets",
    "register_preset",
]
