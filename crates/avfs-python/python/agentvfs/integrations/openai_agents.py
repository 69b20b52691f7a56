"""Agents of the OpenAI Agents SDK that work in a sandbox: `Agent(tools=openai_tools("web"))`."""

from __future__ import annotations

from typing import Any

from agents import ApplyPatchTool, RunContextWrapper, ShellTool, apply_diff
from agents.editor import ApplyPatchOperation, ApplyPatchResult
from agents.tool import (
    ShellActionRequest,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    Tool,
)

from ..errors import AgentVFSError, ApprovalRequiredError, PolicyDeniedError
from ..workspace import Answer, Place, Workspace


class AvfsShell:
    """Runs the calls of the model's shell in a sandbox, one shell for all of them.

    A command for which the sandbox's policy wants an approval interrupts the run as the SDK has it (`RunState.approve`);
    approved there, it is approved here, once.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        #: Calls that a person was asked about. They run only if the answer was yes.
        self._asked: set[str] = set()

    async def needs_approval(
        self, context: RunContextWrapper[Any], action: ShellActionRequest, call_id: str
    ) -> bool:
        """Whether the policy asks about one of the commands."""
        for command in action.commands:
            try:
                await self.workspace.later(self.workspace.sandbox.decide, command)
            except ApprovalRequiredError:
                self._asked.add(call_id)
                return True
            except PolicyDeniedError:
                # Nobody has to be asked: the model is told when it runs.
                continue
        return False

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        action = request.data.action
        timeout = action.timeout_ms / 1000 if action.timeout_ms else None
        is_approved = request.data.call_id in self._asked
        self._asked.discard(request.data.call_id)
        output: list[ShellCommandOutput] = []
        for command in action.commands:
            answer = await self.workspace.later(
                self.workspace.tell, command, timeout, is_approved=is_approved
            )
            output.append(_output(command, answer))
            if answer.is_timeout:
                break
        return ShellResult(output=output, max_output_length=action.max_output_length)


class AvfsEditor:
    """Applies the model's patches to the files of a sandbox."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    async def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self.workspace.later(self._create, operation)

    async def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self.workspace.later(self._update, operation)

    async def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self.workspace.later(self._delete, operation)

    def _create(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        if self.workspace.exists(operation.path):
            return ApplyPatchResult("failed", f"{operation.path} exists")
        return self._write(operation, apply_diff("", operation.diff or "", mode="create"), "created")

    def _update(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        try:
            text = self.workspace.read(operation.path).decode()
            changed = apply_diff(text, operation.diff or "")
        except (AgentVFSError, OSError, ValueError) as error:
            return ApplyPatchResult("failed", str(error))
        done = self._write(operation, changed, "changed")
        if operation.move_to and operation.move_to != operation.path and done.status == "completed":
            return self._delete(operation)
        return done

    def _write(self, operation: ApplyPatchOperation, text: str, done: str) -> ApplyPatchResult:
        place = operation.move_to or operation.path
        try:
            self.workspace.write(place, text.encode())
        except (AgentVFSError, OSError) as error:
            return ApplyPatchResult("failed", str(error))
        return ApplyPatchResult("completed", f"{done} {place}")

    def _delete(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        try:
            self.workspace.remove(operation.path)
        except (AgentVFSError, OSError) as error:
            return ApplyPatchResult("failed", str(error))
        return ApplyPatchResult("completed", f"removed {operation.path}")


def openai_tools(place: Place | Workspace, *, session: bool = True, **options: Any) -> list[Tool]:
    """A shell and an editor on one sandbox. Commands share one shell, unless `session=False`."""
    workspace = place if isinstance(place, Workspace) else Workspace(place, session=session, **options)
    shell = AvfsShell(workspace)
    return [
        ShellTool(executor=shell, needs_approval=shell.needs_approval),
        ApplyPatchTool(editor=AvfsEditor(workspace)),
    ]


def _output(command: str, answer: Answer) -> ShellCommandOutput:
    outcome = (
        ShellCallOutcome(type="timeout")
        if answer.is_timeout
        else ShellCallOutcome(type="exit", exit_code=answer.exit_code)
    )
    return ShellCommandOutput(stdout=answer.stdout, stderr=answer.stderr, outcome=outcome, command=command)
