"""An agent of the OpenAI Agents SDK with a scripted model: shell, patches, approvals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agentvfs import Sandbox
from agentvfs.integrations.openai_agents import openai_tools
from openai.types.responses import (
    ResponseApplyPatchToolCall,
    ResponseFunctionShellToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

pytestmark = pytest.mark.anyio

QUIET = RunConfig(tracing_disabled=True)


class Scripted(Model):
    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.heard: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **_: Any) -> ModelResponse:
        self.heard = input
        return ModelResponse(output=[self.script.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **_: Any) -> AsyncIterator[Any]:
        raise NotImplementedError

    def told(self, kind: str) -> list[Any]:
        return [one for one in self.heard if isinstance(one, dict) and one.get("type") == kind]


def shell(number: int, *commands: str) -> Any:
    return ResponseFunctionShellToolCall.model_validate(
        {
            "id": f"sh_{number}",
            "call_id": f"call_{number}",
            "type": "shell_call",
            "status": "completed",
            "action": {"commands": list(commands)},
        }
    )


def patch(number: int, **operation: str) -> Any:
    return ResponseApplyPatchToolCall.model_validate(
        {
            "id": f"ap_{number}",
            "call_id": f"call_{number}",
            "type": "apply_patch_call",
            "status": "completed",
            "operation": operation,
        }
    )


def done(text: str = "done") -> Any:
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])


async def test_an_agent_runs_commands_in_one_shell_and_patches_files(project: Path) -> None:
    with Sandbox.from_local(project, "development") as sandbox:
        model = Scripted(
            shell(0, "mkdir build && cd build && export WHO=agent", "echo $WHO > made.txt; false"),
            patch(1, type="create_file", path="new.txt", diff="+one\n+two\n"),
            patch(2, type="update_file", path="greeting.txt", diff="@@\n-hello\n+bye\n"),
            patch(3, type="delete_file", path="notes.md"),
            patch(4, type="update_file", path="missing.txt", diff="@@\n-a\n+b\n"),
            done(),
        )
        agent = Agent("worker", model=model, tools=openai_tools(sandbox))
        result = await Runner.run(agent, "do it", run_config=QUIET)
        assert result.final_output == "done"
        (told,) = model.told("shell_call_output")
        assert [one["outcome"]["exit_code"] for one in told["output"]] == [0, 1], told
        changed = {one.path: one.kind for one in sandbox.diff().changes}
        assert changed == {
            "/build/made.txt": "added",
            "/greeting.txt": "modified",
            "/new.txt": "added",
            "/notes.md": "deleted",
        }
        assert sandbox.read_file("build/made.txt") == "agent\n"
        assert sandbox.read_file("new.txt") == "one\ntwo"
        assert sandbox.read_file("greeting.txt") == "bye\n"
        assert [one["status"] for one in model.told("apply_patch_call_output")][-1] == "failed"


@pytest.mark.parametrize("answer", ["approve", "reject"])
async def test_what_the_policy_asks_about_interrupts_the_run(project: Path, answer: str) -> None:
    command = "curl -sf http://192.0.2.1/ || echo nobody answers"
    with Sandbox.from_local(project, "development") as sandbox:
        model = Scripted(shell(0, "echo free"), shell(1, command), done())
        agent = Agent("worker", model=model, tools=openai_tools(sandbox))
        result = await Runner.run(agent, "do it", run_config=QUIET)
        (asked,) = result.interruptions
        state = result.to_state()
        if answer == "approve":
            state.approve(asked)
        else:
            state.reject(asked)
        result = await Runner.run(agent, state, run_config=QUIET)
        assert result.final_output == "done"
        told = str(model.told("shell_call_output")[-1])
        assert ("nobody answers" in told) == (answer == "approve"), told


def test_the_page_is_true(run_section: Callable[..., None]) -> None:
    model = Scripted(shell(0, "tr a-z A-Z < greeting.txt > loud.txt; mv loud.txt greeting.txt"), done())
    run_section("OpenAI Agents", model=model)
