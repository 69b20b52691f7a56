"""Requests that a person, or a program on their behalf, answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from . import _native
from .errors import ApprovalRequiredError, PolicyDeniedError

#: An answer: yes or no, or for how long yes.
Answer = bool | Literal["once", "session", "always"]


@dataclass(frozen=True)
class Preview:
    """What a command would do, as far as it gets without a network and without credentials."""

    exit_code: int | None
    stdout: str
    stderr: str
    #: What it would change, as a patch.
    patch: str


class ApprovalRequest:
    """A command that the policy does not grant by itself."""

    def __init__(self, approvals: _native.Approvals, approval_id: str) -> None:
        self._approvals = approvals
        self.id = approval_id
        #: The exact command, and why it is asked for.
        self.command, self.reason = approvals.describe(approval_id)

    def __repr__(self) -> str:
        return f"ApprovalRequest({self.id!r}, {self.command!r}, reason={self.reason!r})"

    def preview(self) -> Preview:
        """Runs the command in a copy that is thrown away."""
        status, stdout, stderr, patch = self._approvals.preview(self.id)
        text = [bytes(one).decode(errors="replace") for one in (stdout, stderr, patch)]
        return Preview(status, *text)

    def answer(self, answer: Answer) -> bool:
        """Answers it. Returns whether the command may run."""
        if answer is False:
            self._approvals.deny(self.id, None)
            return False
        self._approvals.allow(self.id, "once" if answer is True else answer)
        return True


#: Decides about a request.
Approve = Callable[[ApprovalRequest], Answer]


def decide(store: _native.Store, approve: Approve | None, error: ApprovalRequiredError) -> None:
    """Has a request decided. Returns if the command may run, and raises otherwise."""
    if approve is None or error.approval_id is None:
        raise error
    request = ApprovalRequest(_native.Approvals(store), error.approval_id)
    if not request.answer(approve(request)):
        raise PolicyDeniedError(f"denied: {request.command}", code="approval_denied") from error
