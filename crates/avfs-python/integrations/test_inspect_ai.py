"""The sandbox checks of Inspect, and an evaluation with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from agentvfs import AVFS
from agentvfs.integrations.inspect_ai import AvfsConfig, AvfsSandboxEnvironment
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import SandboxEnvironment, SandboxEnvironmentSpec
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.local import LocalSandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

pytestmark = pytest.mark.anyio

#: Checks that the framework's own sandbox without containers fails as well.
OLD = {"test_exec_as_user": "commands run as one user, and no other can be added"}


@pytest.fixture
async def sandbox_env() -> AsyncIterator[SandboxEnvironment]:
    made = await AvfsSandboxEnvironment.sample_init("check", None, {})
    yield made["default"]
    await AvfsSandboxEnvironment.sample_cleanup("check", None, made, False)


class TestTheirOwn:
    @pytest.fixture
    async def sandbox_env(self) -> AsyncIterator[SandboxEnvironment]:
        made = await LocalSandboxEnvironment.sample_init("check", None, {})
        yield made["default"]
        await LocalSandboxEnvironment.sample_cleanup("check", None, made, False)

    async def test_exec_as_user(self, sandbox_env: SandboxEnvironment) -> None:
        await self_check.test_exec_as_user(sandbox_env)


def running(command: str) -> ModelOutput:
    return _counted(ModelOutput.for_tool_call("mockllm/model", "bash", {"command": command}))


def done() -> ModelOutput:
    return _counted(ModelOutput.from_content("mockllm/model", "done"))


def _counted(output: ModelOutput) -> ModelOutput:
    # Otherwise the framework counts tokens, with tables from the network.
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def scripted(*commands: str) -> Any:
    return get_model("mockllm/model", custom_outputs=[*map(running, commands), done()])


def told(log: Any) -> list[str]:
    tools = [one for one in log.samples[0].messages if one.role == "tool"]
    assert not any(one.error for one in tools), tools
    return [one.text for one in tools]


def evaluated(task: Task, model: Any, logs: Path) -> Any:
    (log,) = eval(task, model=model, log_dir=str(logs), display="none")
    assert log.status == "success", log.error and log.error.traceback
    return log


def test_a_sample_has_its_files_and_leaves_nothing(tmp_path: Path) -> None:
    sample = Sample("do it", target="done", files={"greeting.txt": "hello\n"})
    task = Task([sample], solver=[use_tools(bash()), generate()], scorer=includes(), sandbox="avfs")
    before = {one.name for one in AVFS().list_vaults()}
    log = evaluated(task, scripted("tr a-z A-Z < greeting.txt > loud.txt", "cat loud.txt"), tmp_path)
    assert told(log)[1].strip() == "HELLO"
    assert {one.name for one in AVFS().list_vaults()} == before


def test_samples_of_a_vault_get_forks_of_it(tmp_path: Path) -> None:
    AVFS().create_vault("samples")
    AVFS("samples").write_file("greeting.txt", "hello\n")
    task = Task(
        [Sample("a", target="done"), Sample("b", target="done")],
        solver=[use_tools(bash()), generate()],
        scorer=includes(),
        sandbox=SandboxEnvironmentSpec("avfs", AvfsConfig(vault="samples")),
    )

    def answer(messages: list[Any], *_: Any) -> ModelOutput:
        if any(one.role == "tool" for one in messages):
            return done()
        return running("echo more >> greeting.txt; wc -l < greeting.txt")

    log = evaluated(task, get_model("mockllm/model", custom_outputs=answer), tmp_path)
    assert [one.messages[-2].text.strip() for one in log.samples] == ["2", "2"]
    assert AVFS("samples").read_file("greeting.txt") == "hello\n"


def test_a_sample_can_have_a_copy_of_a_directory(tmp_path: Path, project: Path) -> None:
    sample = Sample("do it", target="done")
    task = Task(
        [sample], solver=[use_tools(bash()), generate()], scorer=includes(), sandbox=("avfs", str(project))
    )
    log = evaluated(task, scripted("cat greeting.txt && rm greeting.txt"), tmp_path)
    assert told(log) == ["hello\n"]
    assert (project / "greeting.txt").read_text() == "hello\n"


def test_the_page_is_true(
    run_section: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path))

    def answer(messages: list[Any], *_: Any) -> ModelOutput:
        found = [one.text for one in messages if one.role == "tool"]
        if not found:
            return running("cat greeting.txt")
        return _counted(ModelOutput.from_content("mockllm/model", found[0]))

    run_section("Inspect", model=get_model("mockllm/model", custom_outputs=answer))
