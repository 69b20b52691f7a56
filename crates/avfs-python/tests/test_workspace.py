"""What every integration stands on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from agentvfs import AVFS, InvalidInputError, Sandbox, VaultNotFoundError
from agentvfs.workspace import SpecialFileError, Workspace


def test_it_is_opened_on_a_sandbox_a_vault_or_a_directory(project: Path) -> None:
    AVFS().create_vault("web")
    with Workspace("web") as vault:
        vault.write("a.txt", b"kept")
        assert vault.root == "/workspace"
    assert AVFS("web").read_file("a.txt") == "kept"
    with Workspace(project) as directory:
        directory.write("greeting.txt", b"changed")
        assert directory.root == str(project)
    assert (project / "greeting.txt").read_text() == "hello\n"
    with Sandbox.from_local(project) as sandbox:
        with Workspace(sandbox) as borrowed:
            assert borrowed.read("greeting.txt") == b"hello\n"
        assert sandbox.is_running
        with pytest.raises(InvalidInputError):
            Workspace(sandbox, network="host")
    with pytest.raises(VaultNotFoundError):
        Workspace("missing").read("a.txt")


@pytest.mark.parametrize("place", ["", "/tmp/outside"])
def test_files_inside_and_outside_behave_alike(project: Path, place: str) -> None:
    with Workspace(project) as workspace:
        root = place or workspace.root

        def at(name: str) -> str:
            return f"{root}/{name}"

        workspace.write(at("deep/er/a.txt"), b"one\ntwo one\n")
        assert workspace.read(at("deep/er/a.txt")) == b"one\ntwo one\n"
        assert workspace.run(["cat", at("deep/er/a.txt")]).stdout == "one\ntwo one\n"
        assert workspace.run(["ln", "-s", "er/a.txt", at("deep/link")]).success
        assert workspace.run(["mkfifo", at("deep/pipe")]).success
        listed = {one.name: one.kind for one in workspace.list(at("deep"))}
        assert listed == {"er": "dir", "link": "file", "pipe": "other"}
        assert [one.path for one in workspace.find(at("deep")) if one.is_file] == [at("deep/er/a.txt")]
        found = workspace.grep("two", at("deep"))
        assert [(one.path, one.line, one.text) for one in found] == [(at("deep/er/a.txt"), 2, "two one")]
        assert workspace.edit(at("deep/link"), "one", "1") == 2
        assert workspace.edit(at("deep/link"), "one", "1", replace_all=True) == 2
        assert workspace.read(at("deep/er/a.txt")) == b"1\ntwo 1\n"
        assert workspace.real_path(at("deep/link")) == at("deep/er/a.txt")
        stat = workspace.stat(at("deep/link"))
        assert (stat.path, stat.size, stat.is_file) == (at("deep/link"), 8, True)
        workspace.make_dir(at("deep/new/er"))
        workspace.make_dir(at("deep/new/er"))
        with pytest.raises(FileExistsError):
            workspace.make_dir(at("deep/er/a.txt"))
        with pytest.raises(FileNotFoundError):
            workspace.read(at("missing"))
        with pytest.raises(NotADirectoryError):
            workspace.write(at("deep/er/a.txt/b"), b"")
        with pytest.raises(NotADirectoryError):
            workspace.list(at("deep/er/a.txt"))
        with pytest.raises(IsADirectoryError):
            workspace.read(at("deep"))
        with pytest.raises(IsADirectoryError):
            workspace.write(at("deep"), b"")
        with pytest.raises((SpecialFileError, OSError)):
            workspace.read(at("deep/pipe"))
        assert workspace.run(["chmod", "000", at("deep/er/a.txt")]).success
        with pytest.raises(PermissionError):
            workspace.read(at("deep/er/a.txt"))
        workspace.remove(at("deep"))
        assert not workspace.exists(at("deep"))
        with pytest.raises(FileNotFoundError):
            workspace.remove(at("deep"))


def test_large_files_outside_are_read_in_pieces(project: Path) -> None:
    content = os.urandom(1 << 20) * 20
    with Workspace(project) as workspace:
        workspace.write("/tmp/large", content)
        assert workspace.read("/tmp/large") == content
        assert b"Linux" in workspace.read("/proc/version")


def test_the_directory_itself_is_not_removed(project: Path) -> None:
    with Workspace(project) as workspace:
        for path in (".", str(project), "/workspace", str(project.parent), "/"):
            with pytest.raises(InvalidInputError):
                workspace.remove(path)
        assert workspace.exists("greeting.txt")


def test_a_model_is_told_what_the_policy_says(project: Path) -> None:
    with Workspace(project, session=True) as workspace:
        answer = workspace.tell("curl -sf http://192.0.2.1/ || echo no network")
        assert answer.exit_code == 126 and "approval" in answer.text
        approved = workspace.tell("curl -sf http://192.0.2.1/ || echo no network", is_approved=True)
        assert approved.exit_code == 0 and approved.stdout.endswith("no network\n")
        assert workspace.tell("echo out; echo err >&2; exit 3").report == "out\nerr\n\nExit code: 3"


def test_commands_of_one_session_share_a_shell_for_coroutines_too(project: Path) -> None:
    async def main() -> list[str]:
        with Workspace(project, session=True) as workspace:
            await workspace.arun("cd /tmp; export N=0")
            await asyncio.gather(*(workspace.arun("N=$((N + 1))") for _ in range(5)))
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(workspace.arun("sleep 60"), 1)
            return (await workspace.arun("echo $N; pwd")).stdout.split()

    assert asyncio.run(main()) == ["5", "/tmp"]
