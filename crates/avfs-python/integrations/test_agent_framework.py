"""An agent of Microsoft's Agent Framework with a scripted client."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)
from agent_framework_tools.shell import ShellExecutor
from agentvfs import Sandbox
from agentvfs.integrations.agent_framework import AvfsFileStore, AvfsShell

pytestmark = pytest.mark.anyio


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """Says its script, one turn after the other: a text, or a tool with its arguments."""

    def __init__(self, *script: str | tuple[str, dict[str, Any]]) -> None:
        super().__init__()
        self.script = list(script)

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Awaitable[ChatResponse]:
        turn = self.script.pop(0)
        content = (
            Content.from_text(turn)
            if isinstance(turn, str)
            else Content.from_function_call(
                f"call-{len(self.script)}", turn[0], arguments=json.dumps(turn[1])
            )
        )

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", [content])])

        return answer()


async def test_an_agent_runs_commands_in_one_shell(project: Path) -> None:
    with Sandbox.from_local(project, "development") as sandbox:
        client = Scripted(
            ("run_shell", {"command": "mkdir build && cd build"}),
            ("run_shell", {"command": "basename $PWD > ../where.txt; sed -i s/hello/bye/ ../greeting.txt"}),
            "done",
        )
        agent = Agent(client=client, tools=[AvfsShell(sandbox).as_function()])
        answer = await agent.run("do it")
        assert answer.text == "done"
        assert sandbox.read_file("where.txt") == "build\n"
        assert sandbox.read_file("greeting.txt") == "bye\n"
    assert (project / "greeting.txt").read_text() == "hello\n"


async def test_the_shell_is_an_executor_and_the_files_a_store(project: Path) -> None:
    async with AvfsShell(project) as shell:
        assert isinstance(shell, ShellExecutor)
        late = await shell.run("echo early; sleep 60", timeout=1)
        assert late.timed_out and late.stdout == "early\n"
        assert (await shell.run("cd /tmp")).exit_code == 0
        assert (await shell.run("pwd")).stdout == "/tmp\n"
        store = AvfsFileStore(shell)
        await store.write("deep/a.txt", "one")
        with pytest.raises(FileExistsError):
            await store.write("deep/a.txt", "two", overwrite=False)
        assert await store.read("deep/a.txt") == "one"
        assert await store.read("missing") is None
        assert [(one.name, one.type) for one in await store.list_children()] == [
            ("deep", "directory"),
            ("greeting.txt", "file"),
            ("notes.md", "file"),
        ]
        found = await store.search("", "h.llo", recursive=True)
        assert [one.file_name for one in found] == ["greeting.txt"]
        assert await store.delete("deep/a.txt") and not await store.delete("deep/a.txt")
        assert not await store.file_exists("deep/a.txt")
        with pytest.raises(ValueError, match="leads out"):
            await store.read("../secret")


def test_the_page_is_true(run_section: Callable[..., None]) -> None:
    louder = {"command": "tr a-z A-Z < greeting.txt > loud.txt; mv loud.txt greeting.txt"}
    run_section("Agent Framework (Microsoft)", client=Scripted(("run_shell", louder), "done"))
