"""The shell over a filesystem in memory."""

from __future__ import annotations

import os
import signal
import threading
import time

import agentvfs
import pytest
from agentvfs import (
    CommandCall,
    CommandResult,
    HostCall,
    NodePolicy,
    SandboxShell,
    VirtualFileSystem,
    VisibilityView,
)


@pytest.fixture
def vfs() -> VirtualFileSystem:
    vfs = VirtualFileSystem()
    vfs.write_file("/src/main.py", "# TODO: write\nprint('hi')\n")
    return vfs


def test_lines_share_directory_variables_and_files(vfs: VirtualFileSystem) -> None:
    shell = SandboxShell(vfs, env={"WHO": "agent"})
    result = shell.exec("cd /src && rg TODO . | head -3 > /out && cat /out; x=$WHO")
    assert (result.stdout, result.exit_code, result.success) == ("./main.py:# TODO: write\n", 0, True)
    assert shell.exec("pwd; echo $x").stdout == "/src\nagent\n"
    assert (shell.cwd, shell.get_variable("x")) == ("/src", "agent")
    assert vfs.read_text("/out") == "./main.py:# TODO: write\n"
    assert shell.exec("cat", stdin="given").stdout == "given"
    assert shell.exec("printf '\\xff'").stdout_bytes == b"\xff"


def test_a_failing_line_is_an_answer_unless_asked_to_raise(vfs: VirtualFileSystem) -> None:
    shell = SandboxShell(vfs)
    assert shell.exec("cat /no").exit_code == 1
    with pytest.raises(agentvfs.CommandExecutionError) as raised:
        shell.exec("echo out; exit 3", raise_on_error=True)
    assert (raised.value.exit_code, raised.value.stdout) == (3, "out\n")


def test_limits_are_typed_errors(vfs: VirtualFileSystem) -> None:
    shell = SandboxShell(vfs, max_output_bytes=100, timeout=0.5, max_loop_rounds=100)
    with pytest.raises(agentvfs.OutputTooLargeError):
        shell.exec("yes | head -1000")
    with pytest.raises(agentvfs.ShellLimitError):
        shell.exec("while true; do :; done")
    with pytest.raises(TimeoutError):
        shell.exec("sleep 100")
    assert shell.exec("echo alive").stdout == "alive\n"


def test_views_and_allowed_commands(vfs: VirtualFileSystem) -> None:
    vfs.write_file("/secret", "TODO")
    vfs.set_policy("/secret", NodePolicy(classification="secret"))
    view = VisibilityView(classifications=frozenset({"public"}))
    shell = SandboxShell(vfs, view=view, allowed_commands={"ls", "grep", "cat"})
    assert shell.exec("ls /; grep -rl TODO /").stdout == "src\n/src/main.py\n"
    assert shell.exec("cat /secret").exit_code == 1
    assert shell.exec("rm -rf /src").exit_code == 126
    assert vfs.exists("/src")


def test_own_commands(vfs: VirtualFileSystem) -> None:
    def fetch(call: CommandCall) -> CommandResult:
        call.vfs.write_file(f"{call.cwd}/page", call.stdin)
        return CommandResult(stdout=" ".join(call.args) + "\n", stderr="told\n", exit_code=4)

    def broken(call: CommandCall) -> str:
        raise RuntimeError("no luck")

    shell = SandboxShell(vfs, commands={"fetch": fetch, "broken": broken, "quiet": lambda call: None})
    result = shell.exec("cd /src; echo data | fetch a 'b c'; echo $?")
    assert (result.stdout, result.stderr) == ("a b c\n4\n", "told\n")
    assert vfs.read_text("/src/page") == "data\n"
    failed = shell.exec("broken; quiet && broken")
    assert failed.exit_code == 1
    assert "no luck" in failed.stderr


def test_programs_of_the_host_need_a_bridge(vfs: VirtualFileSystem) -> None:
    shell = SandboxShell(vfs)
    for line in ("host ls", "python -c 'print(1)'"):
        result = shell.exec(line)
        assert (result.exit_code, "bubblewrap" in result.stderr) == (126, True)
    calls: list[HostCall] = []

    def bridge(call: HostCall) -> str:
        calls.append(call)
        return "ran\n"

    shell = SandboxShell(vfs, bridge=bridge, host_fallback=True)
    assert shell.exec("host -p /src ls -l; cargo build").stdout == "ran\nran\n"
    assert [(call.tree, call.argv) for call in calls] == [("/src", ["ls", "-l"]), ("/", ["cargo", "build"])]


def test_a_line_is_cancelled_and_interrupted(vfs: VirtualFileSystem) -> None:
    shell = SandboxShell(vfs, timeout=100)
    timer = threading.Timer(0.2, shell.cancel)
    timer.start()
    with pytest.raises(agentvfs.CommandCancelledError):
        shell.exec("sleep 50")
    interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        shell.exec("sleep 50")
    assert time.monotonic() - started < 10
    assert shell.exec("echo alive").stdout == "alive\n"
