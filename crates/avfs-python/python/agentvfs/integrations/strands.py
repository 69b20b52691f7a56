"""Strands agents (AWS) that work in a sandbox: `Agent(sandbox=AvfsSandbox("web"))`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from strands.sandbox import LANGUAGE_PATTERN, ExecutionResult, FileInfo, Sandbox, StreamChunk
from strands.sandbox.errors import SandboxPathNotFoundError, SandboxTimeoutError
from strands.types.tools import AgentTool
from strands.vended_tools.file_editor import make_file_editor
from strands.vended_tools.shell import make_shell

from ..errors import ApprovalRequiredError, CommandTimeoutError, PolicyDeniedError
from ..sandbox import Command
from ..workspace import Place, Workspace


class AvfsSandbox(Sandbox):
    """A sandbox whose commands start in its directory, and share its files and `/tmp`.

    It brings the framework's own shell and editor, unless the agent has others.
    """

    def __init__(self, place: Place, **options: Any) -> None:
        #: The sandbox with its files: `workspace.sandbox.diff()` shows what the agent did.
        self.workspace = Workspace(place, **options)

    def close(self) -> None:
        """Ends it."""
        self.workspace.close()

    def get_tools(self) -> list[AgentTool]:
        return [
            make_file_editor(sandbox=self, name="sandbox_file_editor"),
            make_shell(sandbox=self, name="sandbox_shell"),
        ]

    async def execute_streaming(
        self,
        command: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        async for one in self._streamed(command, None, timeout, cwd, env):
            yield one

    async def execute_code_streaming(
        self,
        code: str,
        language: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        if not LANGUAGE_PATTERN.fullmatch(language):
            raise ValueError(f"{language!r} is not the name of an interpreter")
        async for one in self._streamed([language], code, timeout, cwd, env):
            yield one

    async def _streamed(
        self,
        command: Command,
        stdin: str | None,
        timeout: float | None,
        cwd: str | None,
        env: dict[str, str] | None,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        pieces: asyncio.Queue[StreamChunk | None] = asyncio.Queue()
        place = self.workspace.absolute(cwd) if cwd is not None else None
        running = asyncio.ensure_future(
            self.workspace.arun(
                command,
                timeout=timeout,
                cwd=place,
                env=env,
                stdin=stdin or b"",
                on_stdout=lambda text: pieces.put_nowait(StreamChunk(text, "stdout")),
                on_stderr=lambda text: pieces.put_nowait(StreamChunk(text, "stderr")),
            )
        )
        running.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            result = await running
        except CommandTimeoutError as error:
            raise SandboxTimeoutError(timeout, error.stdout, error.stderr) from error
        except (PolicyDeniedError, ApprovalRequiredError) as error:
            yield ExecutionResult(126, "", f"{error}\n")
            return
        finally:
            # A caller that stops listening ends the command.
            if not running.done():
                running.cancel()
                await asyncio.wait({running})
        yield ExecutionResult(result.exit_code, result.stdout, result.stderr)

    async def read_file(self, path: str, **kwargs: Any) -> bytes:
        return await self.workspace.later(self.workspace.read, path)

    async def write_file(self, path: str, content: bytes, **kwargs: Any) -> None:
        await self.workspace.later(self.workspace.write, path, content)

    async def remove_file(self, path: str, **kwargs: Any) -> None:
        await self.workspace.later(self.workspace.remove, path)

    async def list_files(self, path: str, **kwargs: Any) -> list[FileInfo]:
        try:
            found = await self.workspace.later(self.workspace.list, path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SandboxPathNotFoundError(path) from error
        return [FileInfo(one.name, one.is_dir, one.size if one.is_file else None) for one in found]
