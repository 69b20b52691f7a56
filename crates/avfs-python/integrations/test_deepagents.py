"""The sandbox suite of LangChain, and a deep agent with a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from agentvfs import Sandbox
from agentvfs.integrations.deepagents import AvfsSandbox
from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from deepagents.backends.protocol import SandboxBackendProtocol
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_tests.integration_tests import SandboxIntegrationTests

pytestmark = pytest.mark.anyio

#: Tests of the suite that are older than the framework: they fail with its own backend as well, see `TestTheirOwn`.
OLD = {
    "test_write_existing_file_fails": "write() replaces a file that is there",
    "test_glob": "glob() returns absolute paths",
    "test_glob_basic_pattern": "glob() returns absolute paths",
    "test_glob_with_directories": "glob() returns no directories",
    "test_glob_hidden_files_explicitly": "glob() returns absolute paths",
    "test_glob_with_character_class": "glob() returns absolute paths",
    "test_glob_with_question_mark": "glob() returns absolute paths",
}


class TestOutside(SandboxIntegrationTests):
    """In `/tmp` of the sandbox, where the suite works."""

    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls, vault: str) -> Iterator[SandboxBackendProtocol]:
        backend = AvfsSandbox(vault)
        yield backend
        backend.close()


class TestInside(TestOutside):
    """In the files of a vault."""

    @property
    def sandbox_root_dir(self) -> str:
        return "/workspace/suite"


class TestTheirOwn(SandboxIntegrationTests):
    """What fails here fails with the framework's own backend."""

    root: ClassVar[str]

    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls, tmp_path_factory: pytest.TempPathFactory) -> SandboxBackendProtocol:
        root = tmp_path_factory.mktemp("own")
        cls.root = str(root / "suite")
        return LocalShellBackend(root, virtual_mode=False, inherit_env=True)

    @property
    def sandbox_root_dir(self) -> str:
        return self.root


class Scripted(BaseChatModel):
    """A model that says what it was told to say."""

    script: list[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Scripted:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        said = sum(isinstance(one, AIMessage) for one in messages)
        return ChatResult(generations=[ChatGeneration(message=self.script[said])])


def call(name: str, number: int, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{number}"}])


def test_an_agent_runs_commands_in_one_shell_and_edits_a_file(project: Path) -> None:
    with Sandbox.from_local(project, "development") as sandbox:
        script = [
            call("execute", 0, command="mkdir -p build && cd build && export WHO=agent"),
            call("execute", 1, command="echo made by $WHO > made.txt; basename $PWD"),
            call("edit_file", 2, file_path=f"{project}/greeting.txt", old_string="hello", new_string="bye"),
            AIMessage("done"),
        ]
        agent = create_deep_agent(model=Scripted(script=script), backend=AvfsSandbox(sandbox))
        answer = agent.invoke({"messages": [("user", "do it")]})
        told = [one.content for one in answer["messages"] if one.type == "tool"]
        assert told[1].startswith("build\n"), told
        assert {one.path for one in sandbox.diff().changes} == {"/build/made.txt", "/greeting.txt"}
        assert sandbox.read_file("build/made.txt") == "made by agent\n"
        assert sandbox.read_file("greeting.txt") == "bye\n"
    assert (project / "greeting.txt").read_text() == "hello\n"


def test_a_shell_that_ended_is_started_again(vault: str) -> None:
    backend = AvfsSandbox(vault)
    assert backend.execute("exit 3").exit_code == 3
    assert backend.execute("echo there").output == "there\n"
    assert backend.execute("sleep 60", timeout=1).exit_code == 124
    assert backend.execute("echo still there").output == "still there\n"
    backend.close()


def test_the_page_is_true(run_section: Callable[..., None], project: Path) -> None:
    script = [
        call("edit_file", 0, file_path=f"{project}/greeting.txt", old_string="hello", new_string="HELLO"),
        AIMessage("done"),
    ]
    run_section("Deep Agents (LangChain)", model=Scripted(script=script))
