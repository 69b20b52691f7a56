"""Sandboxes on images, by bubblewrap and in containers. Needs runc."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
from agentvfs import AVFS, AsyncSandbox, InvalidInputError, RuntimeType, Sandbox
from agentvfs._programs import inside

PROGRAMS = ("bash", "cat", "id", "sleep")


@pytest.fixture
def image(tmp_path: Path) -> str:
    """An image with a few programs of this machine."""
    root = tmp_path / "root"
    for name in ("bin", "etc", "srv"):
        (root / name).mkdir(parents=True)
    needed = {inside()}
    for program in PROGRAMS:
        found = shutil.which(program)
        assert found is not None
        needed.add(found)
        shutil.copy(found, root / "bin" / program)
    for program in sorted(needed):
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        for word in listed.split():
            if word.startswith("/") and ".so" in word:
                place = root / word[1:].rstrip(":")
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word.rstrip(":"), place)
    (root / "bin/sh").symlink_to("bash")
    (root / "etc/os-release").write_text("ID=small\n")
    return AVFS().import_image(root, "small")


@pytest.mark.parametrize("runtime", list(RuntimeType))
def test_commands_run_in_the_system_of_the_image(project: Path, image: str, runtime: RuntimeType) -> None:
    with Sandbox.from_local(project, preset="full-access", runtime=runtime, image=image) as sandbox:
        assert sandbox.path == "/workspace"
        result = sandbox.run(
            "cat /etc/os-release greeting.txt; pwd; id -u; echo 1.0 > /srv/tool; echo new > new.txt"
        )
        assert result.stdout == "ID=small\nhello\n/workspace\n0\n"
        assert [file.path for file in result.changed_files] == ["/new.txt"]
        # Container runtimes alone make this part of /proc a mount of its own.
        own = "while read line; do case $line in *' /proc/fs '*) echo runtime;; esac; done </proc/self/mountinfo"
        assert sandbox.run(own).stdout == ("runtime\n" if runtime is RuntimeType.DOCKER else "")
        assert sandbox.files.read("new.txt") == "new\n"
        with sandbox.session() as session:
            session.exec("x=kept; cd /srv")
            assert session.exec("echo $x $PWD; cat tool").stdout == "kept /srv\n1.0\n"
        fork = sandbox.fork()[0]
        assert fork.run("cat /srv/tool; echo 2.0 > /srv/tool").stdout == "1.0\n"
        fork.close()
        assert sandbox.run("cat /srv/tool").stdout == "1.0\n"
    assert not (project / "new.txt").exists()
    # The system of the sandbox is gone with it, and the image is not.
    assert sorted(info.name for info in Sandbox.list()) == [project.name, image]


def test_processes_of_a_container_run_side_by_side_and_end_with_it(project: Path, image: str) -> None:
    with Sandbox.from_local(
        project, preset="full-access", runtime=RuntimeType.DOCKER, image=image
    ) as sandbox:
        slow = sandbox.commands.run("sleep 1000", background=True)
        cat = sandbox.commands.run("cat", background=True)
        cat.send_stdin("text\n")
        cat.close_stdin()
        assert cat.wait(timeout=30).stdout == "text\n"
    assert slow.wait(timeout=30).exit_code in (137, 143)


async def _of_container(project: Path, image: str) -> str:
    runtime = RuntimeType.DOCKER
    async with AsyncSandbox.from_local(project, runtime=runtime, image=image) as sandbox:
        return (await sandbox.run("cat /etc/os-release")).stdout


def test_a_container_has_an_async_twin(project: Path, image: str) -> None:
    assert asyncio.run(_of_container(project, image)) == "ID=small\n"


def test_what_is_missing_is_named_and_nothing_is_left(project: Path, image: str) -> None:
    with pytest.raises(InvalidInputError, match="image="):
        Sandbox.from_local(project, runtime=RuntimeType.DOCKER)
    with pytest.raises(Exception, match="smal"):
        Sandbox.from_local(project, image="smal")
    assert sorted(info.name for info in Sandbox.list()) == [project.name, image]
