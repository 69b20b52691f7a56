"""Evaluations (Inspect) whose samples run in sandboxes: `Task(…, sandbox="avfs")`.

Each sample gets an empty workspace, with the sample's files. With `sandbox=("avfs", "project")` it gets a copy of that
directory, which is found beside the task; with `SandboxEnvironmentSpec("avfs", AvfsConfig(vault="web"))` a fork of the
vault `web`. None of them leaves anything behind.
"""

from __future__ import annotations

import secrets
from typing import Any, Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict

from .._waiting import in_thread
from ..errors import CommandTimeoutError
from ..limits import ResourceLimits
from ..sandbox import Sandbox
from ..vault import AVFS
from ..workspace import Workspace

#: The user that commands have in a sandbox.
_USER = "agent"


class AvfsConfig(BaseModel):
    """What the sandboxes of a task are made from, and what they may do."""

    model_config = ConfigDict(frozen=True)

    directory: str | None = None
    vault: str | None = None
    preset: str | None = None
    #: `none`, `host`, or names of hosts.
    network: tuple[str, ...] = ("none",)
    memory: int | str | None = None
    processes: int | None = None


@sandboxenv(name="avfs")
class AvfsSandboxEnvironment(SandboxEnvironment):
    """The sandbox of one sample."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        #: The sandbox with its files.
        self.workspace = workspace

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return AvfsConfig(**config)

    # One for each sample

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        sandbox = await in_thread(lambda: _made(config))
        return {"default": cls(Workspace(sandbox))}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            sandbox = environment.as_type(AvfsSandboxEnvironment).workspace.sandbox
            await in_thread(sandbox.discard)

    # Commands

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        if user not in (None, _USER):
            raise SandboxUserUnsupportedError(f"commands run as {_USER!r}, and not as {user!r}")
        place = self.workspace.absolute(cwd) if cwd is not None else None
        # What the policy denies is a `PermissionError`, which the framework tells the model.
        try:
            result = await self.workspace.arun(
                cmd, timeout=timeout, cwd=place, env=env, stdin=b"" if input is None else input
            )
        except CommandTimeoutError as error:
            raise TimeoutError(str(error)) from error
        if result.exit_code == 126 and "ermission denied" in result.stderr:
            # The framework wants this of a program that cannot be executed.
            raise PermissionError(result.stderr.strip())
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        if result.truncated or len(result.stdout_bytes) > limit or len(result.stderr_bytes) > limit:
            shown = result.stdout if len(result.stdout_bytes) > len(result.stderr_bytes) else result.stderr
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, shown[:limit])
        return ExecResult(result.success, result.exit_code, result.stdout, result.stderr)

    # Files

    async def write_file(self, file: str, contents: str | bytes) -> None:
        data = contents.encode() if isinstance(contents, str) else contents
        await self.workspace.later(self.workspace.write, file, data)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...
    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        size = (await self.workspace.later(self.workspace.stat, file)).size
        if size > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        content = await self.workspace.later(self.workspace.read, file)
        return content.decode() if text else content


def _made(config: Any) -> Sandbox:
    config = AvfsConfig(directory=config) if isinstance(config, str) else config or AvfsConfig()
    if not isinstance(config, AvfsConfig):
        raise ValueError(f"sandbox: {config!r} is neither a directory nor an AvfsConfig")
    options: dict[str, Any] = {
        "network": list(config.network),
        "resources": ResourceLimits(
            memory=config.memory,
            processes=config.processes,
            output_bytes=SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE,
        ),
    }
    if config.directory is not None:
        return Sandbox.from_local(config.directory, config.preset or "development", **options)
    if config.vault is not None:
        return Sandbox.from_vault(config.vault, config.preset or "full-access", **options)
    name = f"inspect-{secrets.token_hex(4)}"
    AVFS().create_vault(name)
    try:
        return Sandbox.connect(name, config.preset, keep=False, **options)
    except BaseException:
        AVFS().delete_vault(name, force=True)
        raise
