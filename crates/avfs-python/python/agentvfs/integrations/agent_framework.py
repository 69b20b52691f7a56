"""Agents of Microsoft's Agent Framework that work in a sandbox:
`Agent(client=…, tools=[AvfsShell("web").as_function()])`."""

from __future__ import annotations

import contextlib
from typing import Any, Literal

from agent_framework import AgentFileStore, FileStoreEntry, FunctionTool, tool
from agent_framework_tools.shell import ShellResult

from ..errors import VersionMismatchError
from ..workspace import Place, Workspace

_DESCRIPTION = (
    "Runs a command line in a sandbox, and returns what it prints. The directory, the variables and the files stay for "
    "the next command."
)


class AvfsShell:
    """A shell executor whose commands share one shell in a sandbox, unless `session=False`."""

    def __init__(self, place: Place, *, session: bool = True, **options: Any) -> None:
        #: The sandbox with its files: `workspace.sandbox.diff()` shows what the agent did.
        self.workspace = Workspace(place, session=session, **options)

    async def start(self) -> None:
        """Opens the sandbox."""
        await self.workspace.later(lambda: self.workspace.root)

    async def close(self) -> None:
        """Ends it."""
        await self.workspace.later(self.workspace.close)

    async def __aenter__(self) -> AvfsShell:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def run(self, command: str, *, timeout: float | None = None) -> ShellResult:
        """Runs a command line."""
        answer = await self.workspace.atell(command, timeout)
        return ShellResult(
            stdout=answer.stdout,
            stderr=answer.stderr,
            exit_code=answer.exit_code,
            duration_ms=round(answer.duration * 1000),
            truncated=answer.is_truncated,
            timed_out=answer.is_timeout,
        )

    def as_function(
        self,
        *,
        name: str = "run_shell",
        description: str = _DESCRIPTION,
        approval_mode: Literal["always_require", "never_require"] = "never_require",
    ) -> FunctionTool:
        """The tool for a model. The sandbox stands where an approval of each command would stand otherwise."""

        async def run_shell(command: str) -> str:
            return (await self.run(command)).format_for_model()

        return tool(func=run_shell, name=name, description=description, approval_mode=approval_mode)


class AvfsFileStore(AgentFileStore):
    """The files of a sandbox for the framework's file tools."""

    def __init__(self, place: Place | AvfsShell, **options: Any) -> None:
        self.workspace = place.workspace if isinstance(place, AvfsShell) else Workspace(place, **options)

    def _place(self, path: str) -> str:
        """A path below the root, which may not be left."""
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"{path!r} leads out of the store")
        return path or "."

    async def write(self, path: str, content: str, *, overwrite: bool = True) -> None:
        place = self._place(path)
        if overwrite:
            await self.workspace.later(self.workspace.write, place, content.encode())
            return
        try:
            await self.workspace.later(
                lambda: self.workspace.sandbox.files.write(place, content, expected_version="absent")
            )
        except VersionMismatchError as error:
            raise FileExistsError(f"{path} exists") from error

    async def read(self, path: str) -> str | None:
        try:
            return (await self.workspace.later(self.workspace.read, self._place(path))).decode()
        except FileNotFoundError:
            return None

    async def delete(self, path: str) -> bool:
        with contextlib.suppress(FileNotFoundError):
            await self.workspace.later(self.workspace.remove, self._place(path))
            return True
        return False

    async def list_children(self, directory: str = "") -> list[FileStoreEntry]:
        try:
            found = await self.workspace.later(self.workspace.list, self._place(directory))
        except (FileNotFoundError, NotADirectoryError):
            return []
        entries = [FileStoreEntry(name=one.name, type="directory" if one.is_dir else "file") for one in found]
        return sorted(entries, key=lambda one: (one.type != "directory", one.name))

    async def file_exists(self, path: str) -> bool:
        try:
            return (await self.workspace.later(self.workspace.stat, self._place(path))).is_file
        except (FileNotFoundError, NotADirectoryError):
            return False

    async def create_directory(self, path: str) -> None:
        await self.workspace.later(self.workspace.make_dir, self._place(path))
