"""ADK agents (Google) that work in a sandbox:
`LlmAgent(tools=[EnvironmentToolset(environment=AvfsEnvironment("web"))])`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.adk.environment import BaseEnvironment, ExecutionResult

from ..workspace import Place, Workspace


class AvfsEnvironment(BaseEnvironment):
    """An environment whose commands share one shell in a sandbox, unless `session=False`."""

    def __init__(self, place: Place, *, session: bool = True, **options: Any) -> None:
        #: The sandbox with its files: `workspace.sandbox.diff()` shows what the agent did.
        self.workspace = Workspace(place, session=session, **options)

    @property
    def working_dir(self) -> Path:
        return Path(self.workspace.root)

    async def initialize(self) -> None:
        await self.workspace.later(lambda: self.workspace.root)
        self.is_initialized = True

    async def close(self) -> None:
        await self.workspace.later(self.workspace.close)
        self.is_initialized = False

    async def execute(self, command: str, *, timeout: float | None = None) -> ExecutionResult:
        answer = await self.workspace.atell(command, timeout)
        return ExecutionResult(
            exit_code=answer.exit_code,
            stdout=answer.stdout,
            stderr=answer.stderr,
            timed_out=answer.is_timeout,
        )

    async def read_file(self, path: str | Path) -> bytes:
        return await self.workspace.later(self.workspace.read, str(path))

    async def write_file(self, path: str | Path, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        await self.workspace.later(self.workspace.write, str(path), data)
