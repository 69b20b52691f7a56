"""What becomes of a command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import _native


@dataclass(frozen=True)
class ChangedFile:
    """One file that differs from another state."""

    path: str
    #: `added`, `modified`, `deleted`, `renamed` or `metadata`.
    kind: str
    #: Where it was before it was renamed.
    moved_from: str | None = None


@dataclass(frozen=True)
class Decision:
    """What the policy decided about a command."""

    #: Such as `allow` or `allow_with_checkpoint`.
    action: str
    #: What the command can do by its words, such as `read_only` or `mutating`.
    command_class: str
    #: The rule of the policy that decided.
    rule: str


@dataclass(frozen=True)
class Usage:
    """What a command used, as far as the machine counts it."""

    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    #: The limits that it reached: `memory`, `processes`, `cpu`.
    limits_hit: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunResult:
    """What became of a command.

    >>> result = sandbox.run("echo hello; echo oops >&2; exit 3")
    >>> result.stdout, result.stderr, result.exit_code, result.success
    ('hello\\n', 'oops\\n', 3, False)
    """

    stdout: str
    stderr: str
    #: The status that a shell would show: 128 and the number of the signal, if one ended the command.
    exit_code: int
    #: In seconds.
    duration: float
    changed_files: tuple[ChangedFile, ...] = ()
    #: The state before the command, by the name of its checkpoint, if one was saved.
    checkpoint: str | None = None
    decision: Decision | None = None
    usage: Usage = field(default_factory=Usage)
    #: The id of the run in the audit log.
    run: str = ""
    #: Output was left out in the middle, because there was more than the limits keep.
    truncated: bool = False
    #: Hosts that the command tried to reach and may not.
    refused_hosts: tuple[str, ...] = ()
    stdout_bytes: bytes = field(default=b"", repr=False)
    stderr_bytes: bytes = field(default=b"", repr=False)

    @property
    def success(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0


def result_of(report: _native.RunReport) -> RunResult:
    """The result of a command in a sandbox."""
    return RunResult(
        stdout=report.stdout.decode(errors="replace"),
        stderr=report.stderr.decode(errors="replace"),
        exit_code=report.exit_code,
        duration=report.seconds,
        changed_files=tuple(map(changed_file, report.changed)),
        checkpoint=report.checkpoint,
        decision=None if report.decision is None else Decision(*report.decision),
        usage=Usage(report.cpu_seconds, report.memory, tuple(report.limits_hit)),
        run=report.run,
        truncated=report.truncated,
        refused_hosts=tuple(report.refused),
        stdout_bytes=report.stdout,
        stderr_bytes=report.stderr,
    )


def changed_file(change: _native.Change) -> ChangedFile:
    """A change as it is shown."""
    return ChangedFile(change.path, change.kind, change.moved_from)


@dataclass(frozen=True)
class Envelope:
    """The answer of a session: a result, whether the command was ended, or an error."""

    result: RunResult | None
    timed_out: bool
    error_code: str | None
    error_message: str
    approval_id: str | None
    session_ended: bool


def envelope_of(line: str) -> Envelope:
    """The answer of a session from its line of JSON (`docs/exec.schema.json`)."""
    envelope: dict[str, Any] = json.loads(line)
    body: dict[str, Any] = envelope.get("result") or {}
    error: dict[str, Any] = envelope.get("error") or {}
    has_end = body.get("exit_code") is not None or body.get("signal") is not None
    return Envelope(
        result=_result_of_body(body) if has_end else None,
        timed_out=bool(body.get("timed_out")),
        error_code=error.get("code"),
        error_message=error.get("message", ""),
        approval_id=body.get("approval"),
        session_ended=bool(body.get("session_ended")),
    )


def _result_of_body(body: Mapping[str, Any]) -> RunResult:
    stdout, stderr = _stream(body, "stdout"), _stream(body, "stderr")
    decision: dict[str, Any] | None = body.get("decision")
    usage: dict[str, Any] = body.get("usage") or {}
    signal: int | None = body.get("signal")
    limits_hit: list[str] = body.get("limits_hit") or []
    refusals: list[dict[str, Any]] = body.get("network_refusals") or []
    return RunResult(
        stdout=stdout.decode(errors="replace"),
        stderr=stderr.decode(errors="replace"),
        exit_code=body["exit_code"] if signal is None else 128 + signal,
        duration=body["duration_ms"] / 1000,
        changed_files=tuple(
            ChangedFile(one["path"], one["kind"], one.get("from")) for one in body["changed_files"]
        ),
        checkpoint=body["checkpoint"].get("name"),
        decision=None
        if decision is None
        else Decision(decision["action"], decision["class"], str(decision["rule"])),
        usage=Usage(
            cpu_seconds=None if usage.get("cpu_ms") is None else usage["cpu_ms"] / 1000,
            memory_bytes=usage.get("max_memory_bytes"),
            limits_hit=tuple(limits_hit),
        ),
        run=body["run"],
        truncated=body["stdout_truncated"] or body["stderr_truncated"],
        refused_hosts=tuple(one["target"] for one in refusals),
        stdout_bytes=stdout,
        stderr_bytes=stderr,
    )


def _stream(body: Mapping[str, Any], name: str) -> bytes:
    raw = body.get(f"{name}_bytes_hex")
    return bytes.fromhex(raw) if raw is not None else str(body[name]).encode()
