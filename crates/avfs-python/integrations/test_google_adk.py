"""An ADK agent with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from agentvfs import Sandbox
from agentvfs.integrations.google_adk import AvfsEnvironment
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.environment import EnvironmentToolset
from google.genai import types

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]


class Scripted(BaseLlm):
    """Says its script, one turn after the other: a text, or a tool with its arguments."""

    model: str = "scripted"
    script: list[Any]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        turn = self.script.pop(0)
        part = (
            types.Part(text=turn)
            if isinstance(turn, str)
            else types.Part(function_call=types.FunctionCall(name=turn[0], args=turn[1]))
        )
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def test_an_agent_runs_commands_in_one_shell_and_edits_a_file(project: Path) -> None:
    with Sandbox.from_local(project, "development") as sandbox:
        environment = AvfsEnvironment(sandbox)
        model = Scripted(
            script=[
                ("Execute", {"command": "mkdir build && cd build"}),
                ("Execute", {"command": "basename $PWD > ../where.txt"}),
                (
                    "EditFile",
                    {"path": "greeting.txt", "old_string": "hello", "new_string": "bye"},
                ),
                "done",
            ]
        )
        agent = LlmAgent(name="worker", model=model, tools=[EnvironmentToolset(environment=environment)])
        events = await InMemoryRunner(agent, app_name="test").run_debug("do it", quiet=True)
        answers = [
            part.function_response.response
            for one in events
            for part in one.content.parts
            if part.function_response
        ]
        assert len(answers) == 3, events
        assert sandbox.read_file("where.txt") == "build\n", answers
        assert sandbox.read_file("greeting.txt") == "bye\n", answers
    assert (project / "greeting.txt").read_text() == "hello\n"


async def test_a_command_that_takes_too_long_is_ended(project: Path) -> None:
    environment = AvfsEnvironment(project)
    await environment.initialize()
    assert environment.working_dir == project
    late = await environment.execute("echo early; sleep 60", timeout=1)
    assert late.timed_out and late.exit_code == 124 and late.stdout == "early\n"
    await environment.write_file("deep/a.txt", "text")
    assert await environment.read_file(Path("deep/a.txt")) == b"text"
    with pytest.raises(FileNotFoundError):
        await environment.read_file(Path("missing"))
    await environment.close()


def test_the_page_is_true(run_section: Callable[..., None]) -> None:
    louder = {"command": "tr a-z A-Z < greeting.txt > loud.txt; mv loud.txt greeting.txt"}
    run_section("ADK (Google)", model=Scripted(script=[("Execute", louder), "done"]))
