"""Code agents (smolagents) whose Python runs in a sandbox: `CodeAgent(…, executor=AvfsExecutor("web"))`."""

from __future__ import annotations

import ast
import json
import secrets
from collections.abc import Iterator
from typing import Any

from smolagents import AgentLogger, LogLevel
from smolagents.local_python_executor import CodeOutput
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.tools import get_tools_definition_code
from smolagents.utils import AgentError

from ..commands import CommandHandle, Output
from ..errors import CommandTimeoutError
from ..workspace import Place, Workspace

#: An interpreter lives as long as its agent.
_LIFE = 7 * 24 * 3600.0


class AvfsExecutor(RemotePythonExecutor):
    """One Python process in a sandbox, in which all code of the agent runs.

    Tools and variables are sent to it. It has the packages that the sandbox has; none are installed.
    """

    def __init__(
        self,
        place: Place,
        *,
        python: str = "python3",
        timeout: float = 600,
        logger: AgentLogger | None = None,
        **options: Any,
    ) -> None:
        super().__init__([], logger or AgentLogger(level=LogLevel.ERROR))
        #: The sandbox with its files: `workspace.sandbox.diff()` shows what the agent did.
        self.workspace = Workspace(place, **options)
        self._python = python
        self._timeout = timeout
        self._process: CommandHandle | None = None
        self._lines: Iterator[str] = iter(())

    def send_tools(self, tools: dict[str, Any]) -> None:
        """Defines the tools in the interpreter."""
        if "final_answer" in tools:
            self._patch_final_answer_with_exception(tools["final_answer"])
        self.run_code_raise_errors(_with_optional_imports(get_tools_definition_code(tools)))

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Nothing is installed: code imports what the sandbox has."""
        return additional_imports

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Runs code. An exception in it becomes an `AgentError`."""
        process = self._running()
        process.send_stdin(json.dumps(code) + "\n")
        answer = self._answer()
        logs = answer["logs"]
        if "final" in answer:
            value = self._deserialize_final_answer(answer["final"], self.allow_pickle)
            return CodeOutput(output=value, logs=logs, is_final_answer=True)
        if "error" in answer:
            raise AgentError(f"{logs}{answer['error']}", self.logger)
        return CodeOutput(output=answer["value"], logs=logs, is_final_answer=False)

    def _running(self) -> CommandHandle:
        if self._process is None or not self._process.is_running:
            mark = secrets.token_hex(8)
            command = [self._python, "-u", "-c", _INTERPRETER, mark]
            self._process = self.workspace.sandbox.commands.run(command, background=True, timeout=_LIFE)
            self._lines = _lines(self._process.pieces(self._timeout), mark)
        return self._process

    def _answer(self) -> dict[str, Any]:
        try:
            line = next(self._lines, None)
        except CommandTimeoutError as error:
            self.cleanup()
            raise AgentError(
                f"the code took longer than {self._timeout:g} seconds; its variables are lost", self.logger
            ) from error
        if line is None:
            self.cleanup()
            raise AgentError("the interpreter ended; its variables are lost", self.logger)
        return json.loads(line)

    def cleanup(self) -> None:
        """Ends the interpreter. The sandbox stays."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Ends the interpreter and the sandbox."""
        self.cleanup()
        self.workspace.close()


def _with_optional_imports(code: str) -> str:
    """The same code, whose imports may fail: tools name packages that only some of their calls need."""
    tree = ast.parse(code)
    for number, node in enumerate(tree.body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            (tried,) = ast.parse("try:\n    pass\nexcept ImportError:\n    pass").body
            assert isinstance(tried, ast.Try)
            tried.body = [node]
            tree.body[number] = tried
    return ast.unparse(tree)


def _lines(pieces: Iterator[Output], mark: str) -> Iterator[str]:
    """The answers in the output of an interpreter: each follows the mark."""
    rest = ""
    for piece in pieces:
        if not piece.text:
            raise CommandTimeoutError("no answer came")
        if piece.stream == "stdout":
            *whole, rest = (rest + piece.text).split("\n")
            for line in whole:
                if line.startswith(mark):
                    yield line[len(mark) :]


#: Runs code that comes as lines of JSON, and answers in the same way. What the code and its children print goes to a
#: file in between, so that it comes with the answer and never mixes with it.
_INTERPRETER = r"""
import ast, json, os, sys, tempfile, traceback

mark = sys.argv.pop()
answers = os.fdopen(os.dup(1), "w", buffering=1)
questions = os.fdopen(os.dup(0), "r")
os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
printed = tempfile.TemporaryFile()
os.dup2(printed.fileno(), 1)
os.dup2(printed.fileno(), 2)
names = {"__name__": "__main__"}

def run(code):
    tree = ast.parse(code)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, "<code>", "exec"), names)
    return None if last is None else eval(compile(last, "<code>", "eval"), names)

for question in questions:
    answer = {}
    try:
        value = run(json.loads(question))
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            value = repr(value)
        answer["value"] = value
    except SystemExit as error:
        answer["error"] = f"SystemExit: {error}"
    except BaseException as error:
        if type(error).__name__ == "FinalAnswerException":
            answer["final"] = error.value
        else:
            answer["error"] = traceback.format_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    end = os.lseek(1, 0, os.SEEK_CUR)
    printed.seek(0)
    answer["logs"] = printed.read(end).decode(errors="replace")
    printed.seek(0)
    printed.truncate()
    answers.write(mark + json.dumps(answer) + "\n")
"""
