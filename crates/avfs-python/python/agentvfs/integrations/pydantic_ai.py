"""Pydantic AI agents that work in a sandbox: `Agent(model, capabilities=[AvfsSandbox("web"), Coder()])`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import AgentDepsT, RunContext
from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from ..errors import (
    ApprovalRequiredError,
    CommandTimeoutError,
    PolicyDeniedError,
    SandboxNotRunningError,
    VaultNotFoundError,
)
from ..files import FileInfo
from ..workspace import OUTPUT_BYTES, Place, Workspace

T = TypeVar("T")

PROVIDER = "agentvfs"


class AvfsWorkspace:
    """A workspace backend: commands and files of a sandbox.

    One on a directory is kept when it is closed, as Pydantic AI wants it: its `ref` opens it again, in this process or in
    another one, and `Sandbox.connect(ref.id).discard()` ends it.
    """

    def __init__(
        self, place: Place | None = None, *, ref: WorkspaceRef | None = None, **options: Any
    ) -> None:
        if (place is None) == (ref is None):
            raise ValueError("a workspace is on a place, or on the one that a ref names")
        if ref is not None:
            place = ref.id
        elif _is_directory(place):
            options.setdefault("keep", True)
        assert place is not None
        self._ref = ref
        #: The sandbox with its files.
        self.workspace = Workspace(place, **options)

    @property
    def ref(self) -> WorkspaceRef | None:
        """Names the sandbox, once it is there."""
        if self._ref is None and self.workspace.was_opened:
            self._ref = WorkspaceRef(provider=PROVIDER, id=self.workspace.sandbox.name)
        return self._ref

    async def working_dir(self) -> str:
        """Where commands start."""
        return await self._call(lambda: self.workspace.root)

    async def _call(self, call: Callable[[], T]) -> T:
        try:
            value = await self.workspace.later(call)
            if not self.workspace.exists_still:
                raise WorkspaceUnavailableError(f"the sandbox {self.workspace.sandbox.name!r} was deleted")
        except (VaultNotFoundError, SandboxNotRunningError) as error:
            raise WorkspaceUnavailableError(str(error)) from error
        return value

    # Commands

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Runs a command. One whose caller is cancelled is ended."""
        if isinstance(command, str) != shell:
            raise TypeError("a string needs shell=True, and a sequence must not have it")
        if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
            raise ValueError("timeout must be a positive finite number or None")
        try:
            # Waited for by itself: what makes the sandbox is not cancelled with the command.
            await self.working_dir()
            result = await self.workspace.arun(command, timeout=timeout, env=env, stdin=b"")
        except CommandTimeoutError as error:
            raise WorkspaceTimeoutError(str(error), stdout=error.stdout, stderr=error.stderr) from error
        except (PolicyDeniedError, ApprovalRequiredError) as error:
            return CommandResult(exit_code=126, stdout="", stderr=f"{error}\n")
        except (VaultNotFoundError, SandboxNotRunningError) as error:
            raise WorkspaceUnavailableError(str(error)) from error
        if result.truncated:
            raise WorkspaceOutputLimitError(
                "the command printed more than is kept; redirect its output to a file and read parts of it",
                limit=OUTPUT_BYTES,
                stdout=result.stdout[:65536],
                stderr=result.stderr[:65536],
            )
        if not await self.workspace.later(lambda: self.workspace.exists_still):
            raise WorkspaceUnavailableError(f"the sandbox {self.workspace.sandbox.name!r} was deleted")
        return CommandResult(exit_code=result.exit_code, stdout=result.stdout, stderr=result.stderr)

    # Files

    async def read_bytes(self, path: str) -> bytes:
        """The contents of a file."""
        return await self._call(lambda: self.workspace.read(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Writes a file."""
        await self._call(lambda: self.workspace.write(path, data))

    async def stat(self, path: str) -> FileEntry:
        """What is at a path."""
        return _entry(await self._call(lambda: self.workspace.stat(path)))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """What is in a directory."""
        return [_entry(one) for one in await self._call(lambda: self.workspace.list(path))]

    async def make_dir(self, path: str) -> None:
        """Makes a directory and those above it."""
        await self._call(lambda: self.workspace.make_dir(path))

    async def remove(self, path: str) -> None:
        """Removes a file, or a directory with everything in it."""
        await self._call(lambda: self.workspace.remove(path))

    async def exists(self, path: str) -> bool:
        """Whether something is at a path."""
        return await self._call(lambda: self.workspace.exists(path))

    async def realpath(self, path: str) -> str:
        """A path with all links resolved."""
        return await self._call(lambda: self.workspace.real_path(path))


class AvfsSandbox(AbstractCapability[AgentDepsT]):
    """Gives the runs of an agent a sandbox as their workspace. Other capabilities (`Coder`, `Shell`) bring the tools.

    A vault and a `Sandbox` are the same for all runs; of a directory, every run without a ref gets a new copy.
    """

    def __init__(self, place: Place, **options: Any) -> None:
        self._place = place
        self._options = options
        self._shared = None if _is_directory(place) else AvfsWorkspace(place, **options)

    def get_workspace(
        self, ctx: RunContext[AgentDepsT], *, ref: WorkspaceRef | None
    ) -> WorkspaceBackend | None:
        if ref is not None and ref.provider != PROVIDER:
            return None
        if self._shared is not None and ref in (None, self._shared.ref):
            return self._shared
        if ref is not None:
            return AvfsWorkspace(ref=ref, **self._options)
        return AvfsWorkspace(self._place, **self._options)


def _is_directory(place: Place | None) -> bool:
    if isinstance(place, str):
        return place.startswith((".", "/", "~"))
    return isinstance(place, os.PathLike)


def _entry(info: FileInfo) -> FileEntry:
    return FileEntry(
        name=info.name, path=info.path, is_dir=info.is_dir, size=info.size if info.is_file else None
    )
