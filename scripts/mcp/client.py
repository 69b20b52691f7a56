"""Drives `avfs mcp` with the official Python client, over standard input and output and over HTTP.

    client.py AVFS

Makes a project, a store and a home of its own. Ends with the first expectation that does not hold.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2
from mcp import Client, types
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

TOOLS = "read list glob grep write edit move delete exec changes checkpoint restore fork status".split()


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


async def answer_once(context, params):
    """The user allows what is asked for, once."""
    expect("command:" in params.message, params)
    return types.ElicitResult(action="accept", content={"decision": "once"})


async def work(client, transport):
    """What an agent does, and what it is refused."""
    listed = await client.list_tools()
    expect([tool.name for tool in listed.tools] == TOOLS, listed)

    async def call(name, arguments):
        # The client holds structured content against the output schema.
        return await client.call_tool(name, arguments)

    read = await call("read", {"path": "notes.txt"})
    expect(not read.is_error and read.structured_content["content"] == "one\ntwo\n", read)
    edited = await call("edit", {"path": "notes.txt", "edits": [{"old": "two", "new": "2"}]})
    expect(edited.structured_content["replaced"] == 1, edited)
    saved = await call("checkpoint", {"name": f"before-{transport}"})
    expect(not saved.is_error, saved)
    ran = await call("exec", {"command": "cat notes.txt; echo made >made.txt"})
    expect(ran.structured_content["stdout"] == "one\n2\n", ran)
    for name, arguments in [
        ("list", {"depth": 2}),
        ("glob", {"patterns": ["*.txt"]}),
        ("grep", {"pattern": "one"}),
        ("write", {"path": "a/b.txt", "content": "b\n"}),
        ("move", {"from": "a/b.txt", "to": "c.txt"}),
        ("delete", {"path": "c.txt"}),
        ("changes", {"patch": True}),
        ("fork", {}),
        ("status", {}),
        ("restore", {"to": f"before-{transport}"}),
    ]:
        done = await call(name, arguments)
        expect(not done.is_error and done.structured_content, (name, done))
    refused = await call("read", {"path": "../outside"})
    expect(refused.is_error and "bad-name" in refused.content[0].text, refused)
    asked = await call("exec", {"command": "curl -s http://192.0.2.1/ >/dev/null; echo allowed"})
    expect(not asked.is_error and asked.structured_content["stdout"] == "allowed\n", asked)
    status = await call("status", {})
    workspace = status.structured_content["workspace"].replace("/", "%2F")
    resource = await client.read_resource(f"avfs://{workspace}/notes.txt")
    expect(resource.contents[0].text == "one\n2\n", resource)


async def over_stdio(avfs, project, env):
    parameters = StdioServerParameters(command=avfs, args=["mcp"], env=env, cwd=str(project))
    async with Client(stdio_client(parameters), elicitation_callback=answer_once) as client:
        await work(client, "stdio")


async def over_http(avfs, project, env):
    server = subprocess.Popen(
        [avfs, "mcp", "--http", "127.0.0.1:0"], env=env, cwd=project, stdout=subprocess.PIPE, text=True
    )
    try:
        url = server.stdout.readline().strip().removeprefix("url=")
        token = server.stdout.readline().strip().removeprefix("token=")
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            async with Client(streamable_http_client(url, http_client=http), elicitation_callback=answer_once) as client:
                await work(client, "http")
    finally:
        server.terminate()
        expect(server.wait(timeout=60) == 0, "the server ends with status 0")


def main():
    avfs = sys.argv[1]
    for transport in (over_stdio, over_http):
        with tempfile.TemporaryDirectory() as root:
            project = Path(root, "project")
            project.mkdir()
            Path(root, "home").mkdir()
            (project / "notes.txt").write_text("one\ntwo\n")
            env = {"HOME": f"{root}/home", "PATH": os.environ["PATH"]}
            asyncio.run(transport(avfs, project, env))
            # The user's own directory is as it was; the work is in a task.
            expect((project / "notes.txt").read_text() == "one\ntwo\n", "the project is untouched")
            tasks = subprocess.run([avfs, "tasks", "--all"], env=env, cwd=project, capture_output=True, text=True)
            expect(re.search(r"^task-1 +unmerged", tasks.stdout, re.MULTILINE), tasks)
        print(f"official client: {transport.__name__} ok")


if __name__ == "__main__":
    main()
