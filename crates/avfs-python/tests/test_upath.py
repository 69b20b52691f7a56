"""universal_pathlib's own suite over a vault."""

from __future__ import annotations

# mypy: disable-error-code="misc, import-not-found, import-untyped, no-untyped-call, no-untyped-def, unused-ignore"
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agentvfs import AVFS
from agentvfs.integrations.upath import AvfsPath
from fsspec import get_filesystem_class
from upath import UPath
from upath.tests.cases import BaseTests


@pytest.fixture
def clear_fsspec_memory_cache() -> Iterator[None]:
    """What the suite leaves in fsspec's filesystem in memory is removed."""
    memory: Any = get_filesystem_class("memory")
    kept = memory.store.copy(), memory.pseudo_dirs.copy()
    yield
    memory.store, memory.pseudo_dirs = kept


@pytest.fixture
def local_testdir(tmp_path: Path) -> str:
    """The files of the suite in a directory of this machine."""
    (tmp_path / "folder1").mkdir()
    for name in ("file1.txt", "file2.txt"):
        (tmp_path / "folder1" / name).write_text(name)
        (tmp_path / name).write_text("hello world")
    return str(tmp_path)


@pytest.fixture
def pathlib_base(local_testdir: str) -> Path:
    return Path(local_testdir)


class TestSuite(BaseTests):
    @pytest.fixture(autouse=True, name="path")
    def at_vault(self, store: Path) -> None:
        AVFS().create_vault("data")
        self.path = UPath("avfs://data/test")
        self.prepare_file_system()

    def test_is_correct_class(self) -> None:
        assert isinstance(self.path, AvfsPath)


def test_a_url_is_enough(store: Path) -> None:
    # In a new interpreter, in which nothing has told universal_pathlib about vaults yet.
    script = "from upath import UPath; path = UPath('avfs://data/a/b'); print(path.parts, path.is_absolute())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "('data/', 'a', 'b') True\n"
