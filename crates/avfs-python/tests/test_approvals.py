"""What the policy does not grant by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from agentvfs import (
    ApprovalRequest,
    ApprovalRequiredError,
    PermissionDeniedError,
    PolicyDeniedError,
    Sandbox,
)

#: The policy cannot read what bash will be told.
ASKED = ["bash"]


def test_without_a_callback_the_request_has_an_id(sandbox: Sandbox) -> None:
    with pytest.raises(PermissionError) as asked:
        sandbox.run(ASKED, stdin="echo hi")
    assert isinstance(asked.value, ApprovalRequiredError)
    assert asked.value.code == "approval_required"
    assert asked.value.approval_id is not None


def test_a_callback_sees_the_command_and_what_it_would_do(project: Path) -> None:
    requests: list[ApprovalRequest] = []
    previews: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        previews.append(request.preview().patch)
        return True

    with Sandbox.from_local(project, "full-access", approve=approve) as sandbox:
        result = sandbox.run("echo bye > greeting.txt; curl -s http://192.0.2.1/; echo done")
    assert result.stdout.endswith("done\n")
    assert "curl" in requests[0].command
    assert "uses the network" in requests[0].reason
    assert "+bye" in previews[0]


def test_a_refusal_is_an_error_and_runs_nothing(project: Path) -> None:
    with Sandbox.from_local(project, "full-access", approve=lambda _: False) as sandbox:
        with pytest.raises(PolicyDeniedError, match="denied"):
            sandbox.run(ASKED, stdin="rm -f *")
        assert sandbox.files.exists("greeting.txt")


def test_an_answer_for_once_is_asked_for_again(project: Path) -> None:
    count = 0

    def approve(_: ApprovalRequest) -> bool:
        nonlocal count
        count += 1
        return True

    with Sandbox.from_local(project, "full-access", approve=approve) as sandbox:
        for _ in range(2):
            sandbox.run(ASKED, stdin="echo hi")
    assert count == 2


def test_a_network_is_asked_for_before_the_sandbox_opens(project: Path) -> None:
    with pytest.raises(ApprovalRequiredError):
        Sandbox.from_local(project, network="host")
    with Sandbox.from_local(project, network=["example.com"], approve=lambda _: "session") as sandbox:
        assert sandbox.run("true").success


def test_rules_do_not_ask(project: Path) -> None:
    with Sandbox.from_local(project, "read-only", approve=lambda _: True) as sandbox:
        with pytest.raises(PermissionDeniedError):
            sandbox.write_file("greeting.txt", "x")


def test_the_policy_can_be_asked_without_a_run(project: Path) -> None:
    with Sandbox.from_local(project) as sandbox:
        assert sandbox.decide("ls").command_class == "read_only"
        with pytest.raises(ApprovalRequiredError) as asked:
            sandbox.decide("curl http://192.0.2.1/")
        # Nobody is asked by that.
        assert asked.value.approval_id is None
        with pytest.raises(ApprovalRequiredError) as asked:
            sandbox.run("curl -sf http://192.0.2.1/ || echo no network")
        assert asked.value.approval_id is not None
        request = sandbox.approval(asked.value.approval_id)
        assert "curl" in request.command
        assert request.answer(True)
        assert sandbox.run("curl -sf http://192.0.2.1/ || echo no network").stdout.endswith("no network\n")


def test_a_sandbox_tells_whether_it_is_there(project: Path) -> None:
    with Sandbox.from_local(project, keep=True) as sandbox:
        assert sandbox.exists
    assert sandbox.exists and not sandbox.is_running
    Sandbox.connect(sandbox.name).discard()
    assert not sandbox.exists
