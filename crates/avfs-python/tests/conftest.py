"""What tests and examples start from: a small project, a store of its own, and a sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from agentvfs import Sandbox

# A shell that starts the tests in the background ignores it for them, and Python leaves that as it is.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store for one test."""
    home = tmp_path_factory.mktemp("store")
    monkeypatch.setenv("AVFS_HOME", str(home))
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with two files."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "greeting.txt").write_text("hello\n")
    (root / "notes.md").write_text("# Notes\n")
    return root


@pytest.fixture
def sandbox(project: Path) -> Iterator[Sandbox]:
    """A sandbox in which everything can be written."""
    with Sandbox.from_local(project, preset="full-access") as sandbox:
        yield sandbox


@dataclass
class Served:
    """A server that runs."""

    socket: str
    url: str
    program: str
    process: subprocess.Popen[str]

    def token(self, *words: str) -> str:
        """Makes a token."""
        made = [self.program, "token", "create", *words]
        return subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()


def avfs_program() -> str:
    """The program that was installed with the package."""
    found = shutil.which("avfs", path=os.path.dirname(sys.executable))
    assert found is not None
    return found


@contextlib.contextmanager
def serve(*words: str) -> Generator[Served, None, None]:
    """Starts a server on the store of the test, and ends it."""
    program = avfs_program()
    command = [program, "serve", "--json", "--listen", "127.0.0.1:0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        try:
            yield Served(told["socket"], told["url"], program, process)
        finally:
            process.terminate()
            process.wait()


@pytest.fixture
def start_server(store: Path) -> Callable[..., AbstractContextManager[Served]]:
    """Starts servers on the store of the test."""
    return serve


@pytest.fixture
def server(store: Path) -> Iterator[Served]:
    """A server on the store of the test."""
    with serve() as served:
        yield served
