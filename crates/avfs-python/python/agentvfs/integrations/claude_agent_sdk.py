"""Claude agents that work in a sandbox: `ClaudeAgentOptions(**claude_options("web"))`.

The agent gets tools of the sandbox in place of those that would touch this machine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from claude_agent_sdk import McpSdkServerConfig, SdkMcpTool, create_sdk_mcp_server, tool

from ..errors import AgentVFSError
from ..workspace import Place, Workspace

#: The tools of Claude Code that work on this machine.
HOST_TOOLS = (
    "Bash",
    "BashOutput",
    "KillShell",
    "Read",
    "Write",
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "Glob",
    "Grep",
    "LS",
)

_Given = dict[str, Any]
_Call = Callable[[_Given], str]


def claude_options(
    place: Place | Workspace, *, name: str = "avfs", session: bool = True, **options: Any
) -> dict[str, Any]:
    """What `ClaudeAgentOptions` needs: a server with the sandbox's tools, which are allowed, and none of this machine's.

    Commands share one shell, unless `session=False`.
    """
    workspace = place if isinstance(place, Workspace) else Workspace(place, session=session, **options)
    tools = sandbox_tools(workspace)
    return {
        "mcp_servers": {name: sandbox_server(tools, name)},
        "allowed_tools": [f"mcp__{name}__{one.name}" for one in tools],
        "disallowed_tools": list(HOST_TOOLS),
    }


def sandbox_server(tools: list[SdkMcpTool[Any]], name: str = "avfs") -> McpSdkServerConfig:
    """A server of these tools, in this process."""
    return create_sdk_mcp_server(name, "1.0.0", tools)


def sandbox_tools(workspace: Workspace) -> list[SdkMcpTool[Any]]:
    """The tools of a sandbox."""

    def bash(given: _Given) -> str:
        answer = workspace.tell(given["command"], given.get("timeout"))
        return answer.report or "(no output)"

    def read(given: _Given) -> str:
        return workspace.read(given["path"]).decode(errors="replace")

    def write(given: _Given) -> str:
        workspace.write(given["path"], given["content"].encode())
        return f"wrote {given['path']}"

    def edit(given: _Given) -> str:
        every = bool(given.get("replace_all"))
        count = workspace.edit(given["path"], given["old"], given["new"], replace_all=every)
        if count == 0 or (count > 1 and not every):
            raise ValueError(f"{given['path']} was not changed: the text is in it {count} times")
        return f"replaced {count} in {given['path']}"

    def files(given: _Given) -> str:
        found = workspace.list(given.get("path", "."))
        return "\n".join(f"{one.name}/" if one.is_dir else one.name for one in found)

    def grep(given: _Given) -> str:
        found = workspace.grep(given["text"], given.get("path", "."), limit=200)
        return "\n".join(f"{one.path}:{one.line}:{one.text}" for one in found)

    path = {"type": "string", "description": "from the root, or from the workspace"}
    text = {"type": "string"}
    return [
        _tool("bash", "Runs a command line in the sandbox.", bash, {"command": text}, timeout=_NUMBER),
        _tool("read", "Reads a file of the sandbox.", read, {"path": path}),
        _tool("write", "Writes a file of the sandbox.", write, {"path": path, "content": text}),
        _tool(
            "edit",
            "Replaces a text in a file of the sandbox.",
            edit,
            {"path": path, "old": text, "new": text},
            replace_all={"type": "boolean"},
        ),
        _tool("list", "Lists a directory of the sandbox.", files, {}, path=path),
        _tool("grep", "Finds the lines of files that contain a text.", grep, {"text": text}, path=path),
    ]


_NUMBER = {"type": "number", "description": "seconds"}


def _tool(
    name: str, description: str, call: _Call, required: dict[str, Any], **optional: Any
) -> SdkMcpTool[Any]:
    schema = {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }
    return tool(name, description, schema)(_answering(call))


def _answering(call: _Call) -> Callable[[_Given], Awaitable[dict[str, Any]]]:
    from .._waiting import in_thread

    async def answer(given: _Given) -> dict[str, Any]:
        try:
            text, is_error = await in_thread(lambda: call(given)), False
        except (AgentVFSError, OSError, ValueError) as error:
            text, is_error = str(error), True
        return {"content": [{"type": "text", "text": text}], "is_error": is_error}

    return answer
