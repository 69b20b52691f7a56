"""Sandboxes on an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio
from agentvfs import ApprovalRequest, AsyncSandbox, CommandTimeoutError, Sandbox, VaultNotFoundError

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 120))


def test_it_is_the_same_with_await(project: Path) -> None:
    async def main() -> None:
        async with AsyncSandbox.from_local(project, "full-access") as sandbox:
            result = await sandbox.run("cat greeting.txt; echo x > new.txt")
            assert (result.stdout, result.changed_files[0].path) == ("hello\n", "/new.txt")
            assert await sandbox.read_file("new.txt") == "x\n"
            await sandbox.files.write_files({"a": "1"})
            assert [one.name for one in await sandbox.list_files()] == [
                "a",
                "greeting.txt",
                "new.txt",
                "notes.md",
            ]
            await sandbox.checkpoint("here")
            await sandbox.files.remove("a")
            await sandbox.restore("here")
            assert await sandbox.files.exists("a")
            async with await sandbox.session() as session:
                await session.exec("cd /tmp")
                assert (await session.exec("pwd")).stdout == "/tmp\n"
            handle = await sandbox.commands.run("read x; echo $x; echo more", background=True)
            await handle.send_stdin("typed\n")
            assert "".join([piece.text async for piece in handle]) == "typed\nmore\n"
            assert (await handle.wait()).success
            with pytest.raises(CommandTimeoutError):
                await (await sandbox.commands.run("sleep 600", True)).wait(timeout=0.2)
            (fork,) = await sandbox.fork()
            async with fork:
                assert (await fork.run("cat a")).stdout == "1"
            assert (await sandbox.apply()).files == (("/a", "added"), ("/new.txt", "added"))
            assert await sandbox.undo() == "apply"

    run(main())


def test_a_cancelled_coroutine_ends_its_command(project: Path) -> None:
    async def main() -> None:
        async with AsyncSandbox.from_local(project) as sandbox:
            started = asyncio.Event()
            work = asyncio.create_task(sandbox.run("echo go; sleep 600", on_stdout=lambda _: started.set()))
            await started.wait()
            begin = time.monotonic()
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert time.monotonic() - begin < 20
            assert (await sandbox.run("pgrep -c sleep")).stdout == "0\n"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(sandbox.run("sleep 600"), 0.2)
            assert (await sandbox.run("pgrep -c sleep")).stdout == "0\n"

    run(main())


def test_a_cancelled_command_of_a_session_ends_too(project: Path) -> None:
    async def main() -> None:
        async with AsyncSandbox.from_local(project) as sandbox, await sandbox.session() as session:
            await session.exec("X=1")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.exec("sleep 600"), 0.3)
            assert (await session.exec("pgrep -c sleep; true")).stdout == "0\n"

    run(main())


def test_a_sandbox_whose_opening_is_cancelled_is_not_left_behind(project: Path) -> None:
    async def main() -> None:
        opening = asyncio.ensure_future(opened(project))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    run(main())
    assert [one.name for one in Sandbox.list() if "/" in one.name] == []


async def opened(project: Path) -> AsyncSandbox:
    return await AsyncSandbox.from_local(project)


def test_one_process_runs_fifty_sandboxes_at_once(project: Path) -> None:
    async def work(number: int) -> str:
        async with AsyncSandbox.from_local(project, "full-access") as sandbox:
            await sandbox.run(f"echo {number} > mine.txt")
            return await sandbox.read_file("mine.txt")

    async def main() -> list[str]:
        return await asyncio.gather(*(work(number) for number in range(50)))

    assert run(main()) == [f"{number}\n" for number in range(50)]


def test_120_sandboxes_live_at_the_same_time(project: Path) -> None:
    with Sandbox.from_local(project, "full-access") as sandbox:
        forks = sandbox.fork(119)
        try:
            assert sum(fork.run("true").success for fork in forks) == 119
        finally:
            for fork in forks:
                fork.close()


def test_an_approval_may_be_a_coroutine(project: Path) -> None:
    asked: list[str] = []

    async def approve(request: ApprovalRequest) -> bool:
        await asyncio.sleep(0)
        asked.append(request.command)
        return True

    async def main() -> None:
        async with AsyncSandbox.from_local(project, approve=approve) as sandbox:
            assert (await sandbox.run(["bash"], stdin="echo typed")).stdout == "typed\n"

    run(main())
    assert asked == ["bash"]


def test_connect_is_awaited_too(project: Path) -> None:
    async def main() -> None:
        with pytest.raises(VaultNotFoundError):
            await AsyncSandbox.connect("no-such-sandbox")

    run(main())


def test_trio_runs_it_as_well(project: Path) -> None:
    told: list[str] = []
    asked: list[str] = []

    async def approve(request: ApprovalRequest) -> bool:
        await trio.sleep(0)
        asked.append(request.command)
        return True

    async def main() -> None:
        async with AsyncSandbox.from_local(project, "full-access", approve=approve) as sandbox:
            result = await sandbox.run("cat greeting.txt", on_stdout=told.append)
            assert result.stdout == "hello\n"
            assert (await sandbox.run(["bash"], stdin="echo typed")).stdout == "typed\n"
            handle = await sandbox.commands.run("read x; echo $x", background=True)
            await handle.send_stdin("typed\n")
            assert "".join([piece.text async for piece in handle]) == "typed\n"
            started = trio.Event()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def work() -> None:
                        await sandbox.run("echo go; sleep 600", on_stdout=lambda _: started.set())

                    nursery.start_soon(work)
                    await started.wait()
                    scope.cancel()
            assert scope.cancelled_caught
            assert (await sandbox.run("pgrep -c sleep; true")).stdout == "0\n"
        with trio.CancelScope() as early:
            early.cancel()
            await AsyncSandbox.from_local(project)
        assert early.cancelled_caught

    async def in_time() -> None:
        with trio.fail_after(120):
            await main()

    trio.run(in_time)
    assert (told, asked) == (["hello\n"], ["bash"])
    assert [one.name for one in Sandbox.list() if "/" in one.name] == []


def test_a_file_is_read_in_pieces(project: Path) -> None:
    async def main() -> None:
        async with AsyncSandbox.from_local(project, "full-access") as sandbox:
            await sandbox.files.write("large", b"x" * 3_000_000)
            pieces = [len(piece) async for piece in await sandbox.files.read("large", "stream")]
            assert len(pieces) > 1 and sum(pieces) == 3_000_000

    run(main())
