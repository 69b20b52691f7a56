"""Commands in a sandbox."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from agentvfs import (
    ChangedFile,
    CommandExecutionError,
    CommandTimeoutError,
    InvalidInputError,
    PathNotFoundError,
    ResourceLimitExceededError,
    ResourceLimits,
    Sandbox,
    SandboxNotRunningError,
)
from agentvfs.rules import RuleLike


def test_a_command_sees_the_directory_and_changes_only_its_copy(project: Path) -> None:
    with Sandbox.from_local(project, preset="full-access") as sandbox:
        result = sandbox.run("cat greeting.txt && echo changed > greeting.txt && cat greeting.txt")
    assert result.stdout == "hello\nchanged\n"
    assert result.success
    assert result.changed_files == (ChangedFile("/greeting.txt", "modified"),)
    assert (project / "greeting.txt").read_text() == "hello\n"


def test_later_commands_see_what_earlier_ones_changed(sandbox: Sandbox) -> None:
    sandbox.run(["sh", "-c", "echo one > new.txt"])
    assert sandbox.run(["cat", "new.txt"]).stdout == "one\n"


def test_a_command_starts_at_the_path_of_the_directory(sandbox: Sandbox, project: Path) -> None:
    assert sandbox.path == str(project)
    assert sandbox.run("pwd").stdout == f"{project}\n"
    sandbox.files.make_dir("deep/er")
    assert sandbox.run("pwd", cwd="deep/er").stdout == f"{project}/deep/er\n"
    assert sandbox.run("pwd", cwd="/tmp").stdout == "/tmp\n"


def test_words_reach_the_program_as_they_are(sandbox: Sandbox) -> None:
    words = ["a b", "$HOME", "it's", "", "é\n"]
    assert sandbox.run(["printf", "%s\\0", *words]).stdout.split("\0")[:-1] == words


def test_variables_are_those_of_the_sandbox_and_of_the_command(project: Path) -> None:
    with Sandbox.from_local(project, env={"ONE": "1", "TWO": "2"}) as sandbox:
        assert sandbox.run("echo $ONE $TWO", env={"TWO": "two"}).stdout == "1 two\n"


def test_a_failing_command_is_a_result_with_its_status(sandbox: Sandbox) -> None:
    result = sandbox.run("echo oops >&2; exit 3")
    assert (result.exit_code, result.stderr, result.success) == (3, "oops\n", False)


def test_a_failing_command_raises_if_that_is_asked_for(sandbox: Sandbox) -> None:
    with pytest.raises(CommandExecutionError, match="status 3: oops") as raised:
        sandbox.run("echo out; echo oops >&2; exit 3", raise_on_error=True)
    assert (raised.value.exit_code, raised.value.stdout, raised.value.code) == (3, "out\n", "command-failed")


def test_a_signal_is_128_and_its_number(sandbox: Sandbox) -> None:
    assert sandbox.run("kill -TERM $$").exit_code == 143


def test_a_program_that_does_not_exist_is_status_127(sandbox: Sandbox) -> None:
    assert sandbox.run(["no-such-program"]).exit_code == 127


def test_a_timeout_ends_the_command_and_tells_what_it_printed(sandbox: Sandbox) -> None:
    begin = time.monotonic()
    with pytest.raises(TimeoutError) as raised:
        sandbox.run("echo started; sleep 60", timeout=0.3)
    assert time.monotonic() - begin < 20
    assert isinstance(raised.value, CommandTimeoutError)
    assert raised.value.stdout == "started\n"
    assert sandbox.run("pgrep -c sleep").stdout == "0\n"


def test_input_is_text_or_bytes(sandbox: Sandbox) -> None:
    assert sandbox.run("cat", stdin="text").stdout == "text"
    assert sandbox.run("cat", stdin=b"\xff\x00").stdout_bytes == b"\xff\x00"
    big = "x" * 500_000
    assert sandbox.run("wc -c", stdin=big).stdout.strip() == "500000"


def test_output_is_told_as_it_comes(sandbox: Sandbox) -> None:
    heard: list[tuple[str, str]] = []
    sandbox.run(
        "printf 'caf\\303'; sleep 0.1; printf '\\251'; echo oops >&2",
        on_stdout=lambda text: heard.append(("out", text)),
        on_stderr=lambda text: heard.append(("err", text)),
    )
    assert "".join(text for stream, text in heard if stream == "out") == "café"
    assert ("err", "oops\n") in heard


def test_an_exception_of_a_listener_ends_the_command(sandbox: Sandbox) -> None:
    def refuse(_: str) -> None:
        raise RuntimeError("enough")

    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="enough"):
        sandbox.run("echo one; sleep 60", on_stdout=refuse)
    assert time.monotonic() - begin < 20


def test_rules_hide_files_and_keep_them_from_being_written(project: Path) -> None:
    with Sandbox.from_local(project, "read-only", permissions=["/notes.md=none"]) as sandbox:
        assert sandbox.run("ls").stdout == "greeting.txt\n"
        assert not sandbox.run("echo x > greeting.txt").success


def test_the_usual_rules_let_output_be_written_and_nothing_else(project: Path) -> None:
    (project / ".env").write_text("SECRET=1\n")
    (project / "notes.txt").write_text(
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\n"
    )
    with Sandbox.from_local(project) as sandbox:
        assert not sandbox.run("cat .env").success
        # Hidden for what it holds, and not for its name.
        assert not sandbox.run("cat notes.txt").success
        assert not sandbox.run("echo x > greeting.txt").success
        assert sandbox.run("mkdir -p output && echo x > output/report.txt").success


def test_there_is_no_network_unless_it_is_granted(sandbox: Sandbox) -> None:
    sandbox.write_file("ask.py", "import socket\nprint(socket.create_connection(('192.0.2.1', 80), 5))\n")
    result = sandbox.run(["python3", "ask.py"])
    assert "Network is unreachable" in result.stderr


def test_limits_hold_and_are_told(project: Path) -> None:
    limits = ResourceLimits(memory="64M")
    with Sandbox.from_local(project, resources=limits) as sandbox:
        eat = ["python3", "-c", "x = bytearray(200 << 20); print(len(x))"]
        assert not sandbox.run(eat).success
        with pytest.raises(CommandExecutionError) as raised:
            sandbox.run(eat, raise_on_error=True)
        # Where nothing counts the memory of all processes, each is refused its own.
        assert isinstance(raised.value, ResourceLimitExceededError) or "MemoryError" in raised.value.stderr


def test_the_result_tells_what_the_policy_decided_and_what_was_used(sandbox: Sandbox) -> None:
    result = sandbox.run("rm greeting.txt")
    assert result.decision is not None
    assert result.decision.action == "allow_with_checkpoint"
    assert result.checkpoint is not None
    assert result.run.startswith("r")
    assert result.duration > 0


def test_commands_of_several_threads_run_side_by_side(sandbox: Sandbox) -> None:
    meeting = "mkfifo a b 2>/dev/null; echo x > {0} & read y < {1}"
    sandbox.run("mkfifo a b")
    statuses: list[int] = []

    def run(mine: str, other: str) -> None:
        statuses.append(sandbox.run(meeting.format(mine, other), timeout=30).exit_code)

    threads = [threading.Thread(target=run, args=pair) for pair in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [0, 0]


def test_a_closed_sandbox_says_so(project: Path) -> None:
    sandbox = Sandbox.from_local(project)
    assert sandbox.is_running
    sandbox.close()
    sandbox.close()
    assert not sandbox.is_running
    with pytest.raises(SandboxNotRunningError, match="closed"):
        sandbox.run("true")


def test_closing_ends_a_command_of_another_thread(project: Path) -> None:
    sandbox = Sandbox.from_local(project)
    started = threading.Event()
    ended: list[int | BaseException] = []

    def run() -> None:
        try:
            result = sandbox.run("echo go; sleep 60", on_stdout=lambda _: started.set())
            ended.append(result.exit_code)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(30)
    sandbox.close()
    thread.join(30)
    assert not thread.is_alive()
    assert ended[0] in (137, 143) or isinstance(ended[0], SandboxNotRunningError)


def test_bad_input_is_refused_and_leaves_nothing_behind(project: Path) -> None:
    with pytest.raises(PathNotFoundError):
        Sandbox.from_local(project / "missing")
    with pytest.raises(ValueError, match="no preset"):
        Sandbox.from_local(project, "no-such-preset")
    rules: list[RuleLike] = ["/**", "/**=wrong", {"pattern": "/**"}, {"pattern": "/**", "permission": "r"}]
    for rule in rules:
        with pytest.raises(InvalidInputError):
            Sandbox.from_local(project, permissions=[rule])
    with pytest.raises(InvalidInputError, match="network"):
        Sandbox.from_local(project, network="+none")
    with pytest.raises(InvalidInputError, match="memory"):
        ResourceLimits(memory="much")
    with pytest.raises(InvalidInputError, match="timeout"):
        ResourceLimits(timeout=0)
    with pytest.raises(InvalidInputError, match="processes"):
        ResourceLimits(processes=-1)
    assert [one.name for one in Sandbox.list() if "/" in one.name] == []


def test_bad_commands_are_refused(sandbox: Sandbox) -> None:
    commands: list[str | list[str]] = [[], ""]
    for command in commands:
        with pytest.raises(InvalidInputError):
            sandbox.run(command)
    for timeout in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InvalidInputError, match="timeout"):
            sandbox.run("true", timeout=timeout)
    with pytest.raises((InvalidInputError, PathNotFoundError)):
        sandbox.run("true", cwd="/no/such/directory")


def test_it_shows_what_it_is(sandbox: Sandbox) -> None:
    assert repr(sandbox).startswith("<Sandbox '") and repr(sandbox).endswith("open>")
