"""The workspace suite of Pydantic AI, and an agent with a scripted model."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from agentvfs import AVFS, Sandbox
from agentvfs.integrations.pydantic_ai import AvfsSandbox, AvfsWorkspace
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite
from pydantic_ai_harness import FileSystem, Shell


class TestSuite(WorkspaceBackendSuite):
    @pytest.fixture
    async def backend(self, vault: str) -> AsyncIterator[WorkspaceBackend]:
        backend = AvfsWorkspace(vault)
        yield backend
        await backend.workspace.later(backend.workspace.close)

    @pytest.fixture
    def fresh_backend(self, project: Path) -> Callable[[], WorkspaceBackend]:
        return lambda: AvfsWorkspace(project)

    @pytest.fixture
    def attach_backend(self) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return lambda ref: AvfsWorkspace(ref=ref)

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        async def destroy(backend: WorkspaceBackend) -> None:
            assert isinstance(backend, AvfsWorkspace)
            await backend.workspace.later(backend.workspace.sandbox.discard)

        return destroy


def test_an_agent_runs_a_command_and_changes_a_file() -> None:
    vault = f"pydantic-{secrets.token_hex(4)}"
    AVFS().create_vault(vault)
    AVFS(vault).write_file("greeting.txt", "hello\n")

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        names = {tool.name for tool in info.function_tools}
        assert {"run_command", "edit_file"} <= names, names
        turns = sum(isinstance(one, ModelResponse) for one in messages)
        script = [
            ToolCallPart("run_command", {"command": "wc -c < greeting.txt > size.txt; cat size.txt"}),
            ToolCallPart("edit_file", {"path": "greeting.txt", "old_text": "hello", "new_text": "bye"}),
            TextPart("done"),
        ]
        return ModelResponse(parts=[script[turns]])

    agent = Agent(FunctionModel(answer), capabilities=[AvfsSandbox(vault), Shell(), FileSystem()])
    result = agent.run_sync("do it")
    assert result.output == "done"
    assert AVFS(vault).read_file("size.txt").strip() == "6"
    assert AVFS(vault).read_file("greeting.txt") == "bye\n"


def test_each_run_on_a_directory_gets_a_copy_that_its_ref_opens_again(project: Path) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turns = sum(isinstance(one, ModelResponse) for one in messages)
        script = [ToolCallPart("run_command", {"command": "echo more >> greeting.txt"}), TextPart("done")]
        return ModelResponse(parts=[script[turns]])

    agent = Agent(FunctionModel(answer), capabilities=[AvfsSandbox(project), Shell()])
    refs = [agent.run_sync("do it").workspace.ref for _ in range(2)]
    assert refs[0] is not None and refs[1] is not None and refs[0] != refs[1]
    for ref in refs:
        with Sandbox.connect(ref.id) as sandbox:
            assert sandbox.read_file("greeting.txt") == "hello\nmore\n"
            sandbox.discard()
    assert (project / "greeting.txt").read_text() == "hello\n"


def test_the_page_is_true(run_section: Callable[..., None]) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turns = sum(isinstance(one, ModelResponse) for one in messages)
        script = [ToolCallPart("run_command", {"command": "echo HELLO > greeting.txt"}), TextPart("done")]
        return ModelResponse(parts=[script[turns]])

    run_section("Pydantic AI", model=FunctionModel(answer))
