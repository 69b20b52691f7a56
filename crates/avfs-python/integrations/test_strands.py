"""A Strands agent with a scripted model."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from agentvfs import Sandbox
from agentvfs.integrations.strands import AvfsSandbox
from strands import Agent, SandboxPathNotFoundError, SandboxTimeoutError
from strands.models import Model
from strands.sandbox import ExecutionResult, StreamChunk

pytestmark = pytest.mark.anyio


class Scripted(Model):
    """Says its script, one turn after the other: a text, or a tool with its input."""

    def __init__(self, *script: str | tuple[str, dict[str, Any]]) -> None:
        self.script = list(script)

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        raise NotImplementedError
        yield

    async def stream(self, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        turn = self.script.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(turn, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": turn}}}
        else:
            use = {"toolUseId": f"use-{len(self.script)}", "name": turn[0]}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(turn[1])}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(turn, str) else "tool_use"}}


def test_an_agent_runs_a_command_and_edits_a_file(project: Path) -> None:
    with Sandbox.from_local(project, "development") as sandbox:
        edit = {
            "command": "str_replace",
            "path": f"{project}/greeting.txt",
            "old_str": "hello",
            "new_str": "bye",
        }
        model = Scripted(
            ("sandbox_shell", {"command": "wc -c < greeting.txt > size.txt"}),
            ("sandbox_file_editor", edit),
            "done",
        )
        agent = Agent(model=model, sandbox=AvfsSandbox(sandbox), callback_handler=None)
        assert str(agent("do it")).strip() == "done"
        results = [
            part["toolResult"] for one in agent.messages for part in one["content"] if "toolResult" in part
        ]
        assert [one["status"] for one in results] == ["success", "success"], results
        assert sandbox.read_file("size.txt").strip() == "6"
        assert sandbox.read_file("greeting.txt") == "bye\n"
    assert (project / "greeting.txt").read_text() == "hello\n"


async def test_output_comes_as_it_is_printed_and_files_are_files(project: Path) -> None:
    box = AvfsSandbox(project)
    seen = [
        one async for one in box.execute_streaming("echo a; echo b >&2; exit 4", env={"A": "1"}, cwd="/tmp")
    ]
    assert {(one.stream_type, one.data) for one in seen if isinstance(one, StreamChunk)} == {
        ("stdout", "a\n"),
        ("stderr", "b\n"),
    }
    assert seen[-1] == ExecutionResult(4, "a\n", "b\n")
    answer = await box.execute_code("import os\nprint(os.getcwd(), 6 * 7)", "python3")
    assert answer.stdout == f"{project} 42\n"
    await box.write_file("deep/new.bin", b"\x00\xff")
    assert await box.read_file("deep/new.bin") == b"\x00\xff"
    assert [(one.name, one.is_dir, one.size) for one in await box.list_files("deep")] == [
        ("new.bin", False, 2)
    ]
    await box.remove_file("deep/new.bin")
    with pytest.raises(FileNotFoundError):
        await box.read_file("deep/new.bin")
    with pytest.raises(SandboxPathNotFoundError):
        await box.list_files("nowhere")
    with pytest.raises(SandboxTimeoutError) as late:
        await box.execute("echo early; sleep 60", timeout=1)
    assert late.value.stdout == "early\n"
    box.close()


def test_the_page_is_true(run_section: Callable[..., None]) -> None:
    louder = {"command": "tr a-z A-Z < greeting.txt > loud.txt; mv loud.txt greeting.txt"}
    run_section("Strands Agents", model=Scripted(("sandbox_shell", louder), "done"))
