"""A shell that stays."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from . import _checks, _lifecycle, _native
from ._output import Listener, listener
from .errors import AgentVFSError, ApprovalRequiredError, from_native
from .result import RunResult, envelope_of

if TYPE_CHECKING:
    from .sandbox import Command


class Session:
    """A shell that keeps its directory, its variables and `/tmp` between commands.

    >>> with sandbox.session() as session:
    ...     _ = session.exec("mkdir -p src && cd src && export WHO=me")
    ...     session.exec("echo $WHO in $(basename $PWD)").stdout
    'me in src\\n'
    """

    def __init__(
        self,
        native: _native.Session,
        vault_key: tuple[str, str],
        finish: Callable[[RunResult, bool, float | None, bool], RunResult],
        decide: Callable[[ApprovalRequiredError], None],
    ) -> None:
        self._native = native
        self.vault_key = vault_key
        self._finish = finish
        self._decide = decide
        _lifecycle.opened(self)

    def __repr__(self) -> str:
        return f"<Session {self.id} {'open' if self.is_open else 'closed'}>"

    @property
    def id(self) -> str:
        """Its id in the audit log."""
        return self._native.id

    @property
    def is_open(self) -> bool:
        """Whether it takes commands."""
        return self._native.is_open

    def exec(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        raise_on_error: bool = False,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """Runs a command in the shell. Commands of several threads wait for each other."""
        token = _native.CancelToken()
        return self.exec_with(token, command, timeout, stdin, raise_on_error, on_stdout, on_stderr)

    def exec_with(
        self,
        token: _native.CancelToken,
        command: Command,
        timeout: float | None,
        stdin: str | bytes | None,
        raise_on_error: bool,
        on_stdout: Listener | None,
        on_stderr: Listener | None,
    ) -> RunResult:
        """The same with a token that ends the command."""
        words, given = _checks.command(command), None if stdin is None else _checks.data(stdin)
        _checks.seconds("timeout", timeout)
        tell = listener(on_stdout, on_stderr)
        while True:
            envelope = envelope_of(self._native.exec(words, given, timeout, token, tell))
            if envelope.session_ended:
                self.close()
            if envelope.error_code is None and envelope.result is not None:
                return self._finish(envelope.result, envelope.timed_out, timeout, raise_on_error)
            error: AgentVFSError = from_native(
                envelope.error_code or "internal",
                envelope.error_message,
                {"approval_id": envelope.approval_id} if envelope.approval_id else {},
            )
            if not isinstance(error, ApprovalRequiredError):
                raise error
            self._decide(error)

    def close(self) -> None:
        """Ends the shell and everything in it."""
        self._native.close()
        _lifecycle.closed(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
