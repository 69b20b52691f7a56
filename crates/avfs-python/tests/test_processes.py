"""Commands beside their caller, terminals and sessions."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from agentvfs import (
    CommandNotStartedError,
    CommandTimeoutError,
    InvalidInputError,
    PtySize,
    Sandbox,
    SessionClosedError,
)


def test_a_command_goes_on_beside_its_caller(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("read line; echo got $line; read line; exit 4", background=True)
    assert handle.is_running
    assert [one.pid for one in sandbox.commands.list()] == [handle.pid]
    assert sandbox.commands.connect(handle.pid) is handle
    handle.send_stdin("it\n")
    assert next(iter(handle)) == ("stdout", "got it\n")
    with pytest.raises(CommandTimeoutError) as waited:
        handle.wait(timeout=0.05)
    assert waited.value.stdout == "got it\n"
    handle.close_stdin()
    result = handle.wait(timeout=30)
    assert (result.exit_code, result.stdout) == (4, "got it\n")
    assert not handle.is_running and sandbox.commands.list() == []


def test_its_output_can_be_heard_from_its_beginning(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("echo one; echo two >&2", background=True)
    handle.wait()
    assert sorted(handle) == [("stderr", "two\n"), ("stdout", "one\n")]
    heard: list[str] = []
    handle.wait(on_stdout=heard.append)
    assert heard == ["one\n"]


def test_its_changes_are_known_at_its_end(sandbox: Sandbox) -> None:
    result = sandbox.commands.run("echo x > made", background=True).wait()
    assert [change.path for change in result.changed_files] == ["/made"]


def test_commands_can_be_signalled_and_killed(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run(
        "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done", background=True
    )
    assert next(iter(handle)).text == "ready\n"
    assert handle.send_signal(signal.SIGTERM)
    assert handle.wait(timeout=30).exit_code == 7
    endless = sandbox.commands.run("sleep 600", background=True)
    assert sandbox.commands.kill(endless.pid)
    assert endless.wait(timeout=30).exit_code == 137
    assert not sandbox.commands.kill(endless.pid)
    with pytest.raises(InvalidInputError):
        sandbox.commands.connect(10_000)


def test_a_program_that_cannot_start_says_so(sandbox: Sandbox) -> None:
    with pytest.raises(CommandNotStartedError, match="no such program"):
        sandbox.commands.run(["no-such-program"], background=True)


def test_closing_the_sandbox_ends_them(project: Path) -> None:
    sandbox = Sandbox.from_local(project)
    handle = sandbox.commands.run("sleep 600", background=True)
    sandbox.close()
    assert handle.wait(timeout=30).exit_code in (137, 143)


def test_a_terminal_has_a_size_that_can_change(sandbox: Sandbox) -> None:
    shell = sandbox.pty.create(PtySize(rows=30, columns=100))
    shell.send_stdin("stty size\n")
    seen = ""
    for piece in shell:
        seen += piece.text
        if "30 100" in seen:
            break
    sandbox.pty.resize(shell.pid, PtySize(40, 120))
    sandbox.pty.send_stdin(shell.pid, "stty size; tty; exit\n")
    output = shell.wait(timeout=30).stdout
    assert "40 120" in output and "/dev/pts/" in output


def test_terminal_output_is_told_in_pieces(sandbox: Sandbox) -> None:
    pieces: list[bytes] = []
    told = threading.Event()

    def tell(piece: bytes) -> None:
        pieces.append(piece)
        if b"done" in b"".join(pieces):
            told.set()

    handle = sandbox.pty.create(command=["sh", "-c", "echo done"], on_data=tell)
    handle.wait(timeout=30)
    assert told.wait(30)


def test_a_session_keeps_its_directory_its_variables_and_tmp(sandbox: Sandbox) -> None:
    with sandbox.session() as session:
        session.exec("mkdir -p a/b && cd a/b && export X=1 && echo kept > /tmp/file")
        result = session.exec("echo $X $(basename $PWD) $(cat /tmp/file); touch here")
        assert result.stdout == "1 b kept\n"
        assert [change.path for change in result.changed_files] == ["/a/b/here"]
        assert session.exec("cat", stdin="text").stdout == "text"
        assert session.exec(["printf", "%s|", "a b", "$X"]).stdout == "a b|$X|"
        assert session.exec("(exit 9)").exit_code == 9
        heard: list[str] = []
        session.exec("echo out; echo err >&2", on_stdout=heard.append, on_stderr=heard.append)
        assert sorted(heard) == ["err\n", "out\n"]
    assert not session.is_open
    with pytest.raises(SessionClosedError):
        session.exec("true")
    assert sandbox.files.exists("a/b/here")


def test_a_timeout_in_a_session_ends_the_command_and_not_the_session(sandbox: Sandbox) -> None:
    with sandbox.session() as session:
        session.exec("X=1")
        with pytest.raises(CommandTimeoutError):
            session.exec("sleep 600", timeout=0.3)
        assert session.exec("echo $X").stdout == "1\n"


def test_a_shell_that_exits_ends_its_session(sandbox: Sandbox) -> None:
    session = sandbox.session()
    assert session.exec("exit 3").exit_code == 3
    with pytest.raises(SessionClosedError):
        session.exec("true")
