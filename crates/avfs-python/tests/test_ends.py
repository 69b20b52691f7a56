"""How a program ends: nothing of its sandboxes is left, whatever the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from agentvfs import Sandbox

OPEN = """
import os, signal, sys, threading, time
from agentvfs import Sandbox
sandbox = Sandbox.from_local(sys.argv[1], "full-access")
"""


def program(text: str, project: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        # Later Pythons warn of forks beside threads.
        [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-c",
            OPEN + textwrap.dedent(text),
            str(project),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(text: str, project: Path) -> tuple[int, str, str]:
    process = program(text, project)
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


def mounts_below(store: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if str(store) in line]


def processes_with(word: str) -> list[str]:
    found: list[str] = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = place.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and "pytest" not in line and "import os, signal" not in line:
            found.append(line)
    return found


def assert_nothing_is_left(store: Path) -> None:
    assert mounts_below(store) == []
    assert processes_with(str(store)) == []
    assert [one.name for one in Sandbox.list() if "/" in one.name] == []


@pytest.mark.parametrize(
    "end",
    [
        "",
        "sys.exit(0)",
        "sandbox.commands.run('sleep 600', background=True)",
        "session = sandbox.session(); session.exec('sleep 600 &')",
        "threading.Thread(target=lambda: sandbox.run('sleep 600'), daemon=True).start(); time.sleep(0.2)",
        "copies = sandbox.fork(3)",
        "del sandbox",
    ],
)
def test_the_end_of_the_interpreter_is_the_end_of_everything(end: str, project: Path, store: Path) -> None:
    status, _, stderr = ended(end, project)
    assert (status, stderr) == (0, "")
    assert_nothing_is_left(store)


def test_the_end_of_a_sandbox_waits_for_none_on_another_vault(project: Path) -> None:
    status, stdout, stderr = ended(
        """
        sandbox.close()
        first = Sandbox.from_local(sys.argv[1], "full-access", keep=True)
        first.run("true")
        second = Sandbox.connect(first.name)
        second.run("true")
        # This process still serves the vault for the second one.
        first.close()
        with Sandbox.from_local(sys.argv[1], "full-access") as third:
            third.run("true")
        print(second.run("echo still here").stdout)
        second.discard()
        """,
        project,
    )
    assert (status, stdout.strip()) == (0, "still here"), stderr


def test_an_exception_ends_everything_as_well(project: Path, store: Path) -> None:
    status, _, stderr = ended("raise RuntimeError('oops')", project)
    assert status == 1 and "oops" in stderr
    assert_nothing_is_left(store)


def test_an_event_loop_that_is_torn_down_ends_everything(project: Path, store: Path) -> None:
    status, _, stderr = ended(
        """
        import asyncio
        from agentvfs import AsyncSandbox
        async def main():
            sandbox = await AsyncSandbox.from_local(sys.argv[1])
            asyncio.ensure_future(sandbox.run("sleep 600"))
            await asyncio.sleep(0.3)
        asyncio.run(main())
        """,
        project,
    )
    assert (status, stderr) == (0, "")
    assert_nothing_is_left(store)


@pytest.mark.parametrize(
    "call",
    [
        "sandbox.run('echo go; sleep 600', on_stdout=tell)",
        "session.exec('echo go; sleep 600', on_stdout=tell)",
    ],
)
def test_ctrl_c_raises_at_once_and_ends_the_command(call: str, project: Path, store: Path) -> None:
    process = program(
        f"""
        session = sandbox.session()
        def tell(text):
            print(text, end="", flush=True)
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", sandbox.run("pgrep -c sleep").stdout, flush=True)
        """,
        project,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (0, "interrupted 0\n\n", "")
    assert_nothing_is_left(store)


def test_ctrl_c_while_a_handle_is_waited_for(project: Path) -> None:
    process = program(
        """
        handle = sandbox.commands.run("sleep 600", background=True)
        try:
            print("go", flush=True)
            handle.wait()
        except KeyboardInterrupt:
            print(handle.is_running, flush=True)
        """,
        project,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("True\n", "")


def test_a_killed_program_leaves_nothing_that_the_next_one_does_not_clear(project: Path, store: Path) -> None:
    process = program(
        """
        sandbox.write_file("kept.txt", "x")
        sandbox.commands.run("sleep 600", background=True)
        print(sandbox.name, flush=True)
        time.sleep(600)
        """,
        project,
    )
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    process.kill()
    process.communicate()
    # The work is there, as after every crash.
    with Sandbox.connect(name) as again:
        assert again.read_file("kept.txt") == "x"
        again.discard()
    assert_nothing_is_left(store)


def test_a_forked_child_uses_nothing_of_its_parent(project: Path, store: Path) -> None:
    status, stdout, stderr = ended(
        """
        sandbox.write_file("a", "parent")
        child = os.fork()
        if child == 0:
            for call in (lambda: sandbox.run("true"), lambda: Sandbox.from_local(sys.argv[1])):
                try:
                    call()
                except Exception as error:
                    print(error.code, flush=True)
            with Sandbox.from_local(sys.argv[1], store=os.environ["AVFS_HOME"] + "-2") as own:
                print(own.run("echo child").stdout, end="", flush=True)
            del sandbox
            sys.exit(0)
        os.waitpid(child, 0)
        print(sandbox.run("cat a").stdout)
        """,
        project,
    )
    assert (status, stdout, stderr) == (0, "sandbox-not-running\nforked\nchild\nparent\n", "")
    assert_nothing_is_left(store)


def test_a_child_that_outlives_its_parent_keeps_no_mount_and_no_lock(project: Path, store: Path) -> None:
    ends = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN + OUTLIVED.format(end=ends[0]), str(project)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        pass_fds=[ends[0]],
    )
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    process.wait(timeout=60)
    try:
        with Sandbox.connect(name) as again:
            assert again.run("cat greeting.txt").stdout == "hello\n"
            again.discard()
        assert_nothing_is_left(store)
    finally:
        os.close(ends[1])
        process.communicate(timeout=60)
        os.close(ends[0])


#: The child lives until the test is over, the parent until its child lives.
OUTLIVED = """
print(sandbox.name, flush=True)
lives = os.pipe()
if os.fork() == 0:
    os.write(lives[1], b"x")
    os.read({end}, 1)
    os._exit(0)
os.read(lives[0], 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_that_were_forked_have_sandboxes_of_their_own(project: Path, store: Path) -> None:
    status, stdout, stderr = ended(
        """
        import multiprocessing
        def work(number):
            with Sandbox.from_local(sys.argv[1], "full-access") as own:
                return own.run(f"echo {number}").stdout
        sandbox.run("true")
        sandbox.close()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(work, range(3)))
        """,
        project,
    )
    assert (status, stdout) == (0, "['0\\n', '1\\n', '2\\n']\n"), stderr
    assert_nothing_is_left(store)
