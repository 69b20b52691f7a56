"""A code agent of smolagents with a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agentvfs import Sandbox
from agentvfs.integrations.smolagents import AvfsExecutor
from smolagents import ChatMessage, CodeAgent, LogLevel, Model, tool
from smolagents.utils import AgentError


class Scripted(Model):
    def __init__(self, *script: str) -> None:
        super().__init__(model_id="scripted")
        self.script = list(script)

    def generate(self, messages: Any, *_: Any, **__: Any) -> ChatMessage:
        return ChatMessage(role="assistant", content=f"<code>\n{self.script.pop(0)}\n</code>")


@tool
def twice(number: int) -> int:
    """Doubles a number.

    Args:
        number: The number.
    """
    return number * 2


def test_an_agent_computes_and_changes_a_file(project: Path) -> None:
    with Sandbox.from_local(project, "development") as sandbox:
        executor = AvfsExecutor(sandbox)
        model = Scripted(
            "import subprocess\nsize = int(subprocess.check_output(['wc', '-c', 'greeting.txt']).split()[0])\nprint(size)",
            "open('greeting.txt', 'a').write(f'{given} {twice(size)}\\n')\nfinal_answer({'size': size, 'both': (1, 2)})",
        )
        agent = CodeAgent(
            tools=[twice],
            model=model,
            executor=executor,
            additional_authorized_imports=["subprocess"],
            verbosity_level=LogLevel.OFF,
        )
        assert agent.run("do it", additional_args={"given": "twice:"}) == {"size": 6, "both": (1, 2)}
        assert sandbox.read_file("greeting.txt") == "hello\ntwice: 12\n"
        executor.cleanup()
    assert (project / "greeting.txt").read_text() == "hello\n"


def test_variables_stay_and_errors_are_told(project: Path) -> None:
    executor = AvfsExecutor(project, timeout=20)
    assert executor("x = 20").output is None
    answer = executor("import os\nos.system('echo child')\nprint('mine')\nx + 1")
    assert answer.output == 21 and not answer.is_final_answer
    assert sorted(answer.logs.split()) == ["child", "mine"]
    with pytest.raises(AgentError, match="ZeroDivisionError"):
        executor("1 / 0")
    with pytest.raises(AgentError, match="SyntaxError"):
        executor("for")
    assert executor("x").output == 20
    with pytest.raises(AgentError, match="variables are lost"):
        executor("os._exit(3)")
    with pytest.raises(AgentError, match="NameError"):
        executor("x")
    executor.close()


def test_code_that_takes_too_long_is_ended(project: Path) -> None:
    executor = AvfsExecutor(project, timeout=1)
    with pytest.raises(AgentError, match="longer than 1 second"):
        executor("import time\ntime.sleep(60)")
    executor.close()


def test_the_page_is_true(run_section: Callable[..., None]) -> None:
    code = "text = open('greeting.txt').read()\nopen('greeting.txt', 'w').write(text.upper())\nfinal_answer('done')"
    run_section("smolagents", model=Scripted(code))
