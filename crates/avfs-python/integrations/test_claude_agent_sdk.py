"""Claude Code, as the SDK brings it, with a scripted model: what it does happens in the sandbox."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agentvfs import Sandbox
from agentvfs.integrations.claude_agent_sdk import claude_options, sandbox_tools
from agentvfs.workspace import Workspace
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts" / "agents"))
from model import Model  # type: ignore[import-not-found]

pytestmark = pytest.mark.anyio


def settings(model: Model, home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def use(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": f"mcp__avfs__{name}", "input": arguments}


async def test_an_agent_runs_commands_in_one_shell_and_edits_a_file(project: Path, tmp_path: Path) -> None:
    model = Model(
        [
            use("bash", command="mkdir build && cd build"),
            use("bash", command="basename $PWD > ../where.txt; exit 3"),
            use("edit", path="greeting.txt", old="hello", new="bye"),
            {"text": "done"},
        ]
    )
    with Sandbox.from_local(project, "development") as sandbox:
        options = ClaudeAgentOptions(
            **claude_options(sandbox), env=settings(model, tmp_path), cwd=tmp_path, setting_sources=[]
        )
        messages = [message async for message in query(prompt="do it", options=options)]
        (result,) = (one for one in messages if isinstance(one, ResultMessage))
        assert not result.is_error and result.result == "done", messages
        assert "Exit code: 3" in str(model.results[1])
        assert sandbox.read_file("where.txt") == "build\n"
        assert sandbox.read_file("greeting.txt") == "bye\n"
    assert (project / "greeting.txt").read_text() == "hello\n"


async def test_tools_tell_what_went_wrong(project: Path) -> None:
    with Workspace(project) as workspace:
        tools = {one.name: one.handler for one in sandbox_tools(workspace)}

        async def told(name: str, **given: Any) -> tuple[str, bool]:
            answer = await tools[name](given)
            return answer["content"][0]["text"], answer["is_error"]

        assert await told("read", path="greeting.txt") == ("hello\n", False)
        assert await told("list") == ("greeting.txt\nnotes.md", False)
        assert await told("grep", text="ell") == (f"{project}/greeting.txt:1:hello", False)
        assert await told("write", path="a/b.txt", content="x") == ("wrote a/b.txt", False)
        assert (await told("read", path="missing"))[1]
        assert (await told("edit", path="greeting.txt", old="l", new="L"))[1]
        assert await told("edit", path="greeting.txt", old="l", new="L", replace_all=True) == (
            "replaced 2 in greeting.txt",
            False,
        )


def test_the_page_is_true(run_section: Callable[..., None], tmp_path: Path) -> None:
    model = Model([use("write", path="greeting.txt", content="HELLO\n"), {"text": "done"}])
    run_section("Claude Agent SDK", env=settings(model, tmp_path))
