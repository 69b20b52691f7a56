"""fsspec's own suite over vaults, universal_pathlib, and what programs do with both."""

from __future__ import annotations

# mypy: disable-error-code="misc, import-untyped, no-any-return, no-untyped-call, no-untyped-def, unused-ignore"
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import fsspec.tests.abstract as abstract
import pytest
from agentvfs import AVFS, PermissionDeniedError
from agentvfs.integrations.fsspec import AvfsFileSystem
from agentvfs.integrations.upath import AvfsPath
from fsspec.implementations.local import LocalFileSystem
from upath import UPath


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    @classmethod
    def fs(cls, tmp_path_factory: pytest.TempPathFactory) -> AvfsFileSystem:
        store = tmp_path_factory.mktemp("store")
        AVFS(store=store).create_vault("data")
        return AvfsFileSystem(store=str(store))

    @pytest.fixture(scope="class")
    @classmethod
    def local_fs(cls) -> LocalFileSystem:
        return LocalFileSystem(auto_mkdir=True)

    @pytest.fixture
    def fs_path(self, fs: AvfsFileSystem) -> Iterator[str]:
        fs.mkdir("data/test")
        yield "data/test"
        fs.rm("data/test", recursive=True)


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


@pytest.fixture
def fs() -> AvfsFileSystem:
    AVFS().create_vault("web")
    AVFS("web").files.write_files({"README.md": "hello\n", "src/a.py": "a\n", "src/deep/b.py": "b\n"})
    return fsspec.filesystem("avfs", skip_instance_cache=True)


def test_the_protocol_is_known_after_the_installation(fs: AvfsFileSystem) -> None:
    with fsspec.open("avfs://web/README.md", "rt") as file:
        assert file.read() == "hello\n"
    with fsspec.open("avfs://web/new/file.txt", "wt") as file:
        file.write("x" * 100_000)
    assert AVFS("web").read_file("new/file.txt") == "x" * 100_000
    assert isinstance(UPath("avfs://web/src"), AvfsPath)


def test_the_root_has_the_vaults(fs: AvfsFileSystem) -> None:
    fs.mkdir("other")
    assert fs.ls("", detail=False) == ["other", "web"]
    assert fs.find("web") == ["web/README.md", "web/src/a.py", "web/src/deep/b.py"]
    assert fs.find("web/src", maxdepth=1, withdirs=True) == ["web/src", "web/src/a.py", "web/src/deep"]
    assert fs.glob("avfs://web/**/*.py") == ["web/src/a.py", "web/src/deep/b.py"]
    assert fs.du("web") == 10
    with pytest.raises(FileNotFoundError):
        fs.ls("missing/x")
    with pytest.raises(ValueError, match="vault"):
        fs.rm("web", recursive=True)
    assert fs.exists("web/README.md")


def test_a_file_is_written_in_one_step_when_it_is_closed(fs: AvfsFileSystem) -> None:
    with fs.open("web/README.md", "wb", block_size=5) as file:
        file.write(b"0123456789" * 4)
        assert fs.cat("web/README.md") == b"hello\n"
    assert fs.cat("web/README.md") == b"0123456789" * 4
    with fs.open("web/README.md", "ab") as file:
        file.write(b"end")
    assert fs.cat_file("web/README.md", start=-5) == b"89end"
    with fs.open("web/README.md", "rb", block_size=7) as file:
        file.seek(38)
        assert file.read(3) == b"89e"
    with fs.transaction:
        with fs.open("web/README.md", "wb") as file:
            file.write(b"new")
        assert fs.cat("web/README.md").endswith(b"end")
    assert fs.cat("web/README.md") == b"new"


def test_links_are_what_they_lead_to(fs: AvfsFileSystem) -> None:
    assert AVFS("web").exec("ln -s src/a.py link && ln -s nowhere broken").success
    assert fs.cat("web/link") == b"a\n"
    kinds = {one["name"]: one["type"] for one in fs.ls("web")}
    assert kinds["web/link"] == "file" and kinds["web/broken"] == "link"


def test_versions_tell_whether_a_file_changed(fs: AvfsFileSystem) -> None:
    before = fs.ukey("web/README.md")
    assert fs.ukey("web/README.md") == before
    fs.pipe("web/README.md", b"other")
    assert fs.ukey("web/README.md") != before


def test_files_move_between_and_within_vaults(fs: AvfsFileSystem) -> None:
    fs.mkdir("other")
    fs.mv("web/src", "web/lib", recursive=True)
    assert fs.find("web") == ["web/README.md", "web/lib/a.py", "web/lib/deep/b.py"]
    fs.mv("web/README.md", "other/READ.md")
    assert fs.cat("other/READ.md") == b"hello\n" and not fs.exists("web/README.md")


def test_rules_that_are_stored_with_a_vault_hold(fs: AvfsFileSystem) -> None:
    program = Path(sys.executable).parent / "avfs"
    rules = ["rules", "set", "--vault", "web", "--rule", "/src/**=read"]
    subprocess.run([program, *rules], check=True, capture_output=True)
    with pytest.raises(PermissionError):
        fs.pipe("web/src/a.py", b"changed")
    with pytest.raises(PermissionDeniedError):
        fs.rm("web/src/a.py")
    assert fs.cat("web/src/a.py") == b"a\n"


def test_paths_are_pathlib_s(fs: AvfsFileSystem, tmp_path: Path) -> None:
    root = UPath("avfs://web")
    assert sorted(one.name for one in root.iterdir()) == ["README.md", "src"]
    made = root / "out" / "report.txt"
    made.parent.mkdir()
    with pytest.raises(FileExistsError):
        made.parent.mkdir()
    made.write_text("done")
    assert made.exists() and made.stat().st_size == 4 and made.suffix == ".txt"
    assert str(made) == "avfs://web/out/report.txt" and made.parent.name == "out"
    assert [one.path for one in sorted(root.rglob("*.py"))] == ["web/src/a.py", "web/src/deep/b.py"]
    made.rename(root / "out" / "final.txt")
    assert (root / "out" / "final.txt").read_text() == "done" and not made.exists()
    local: Any = (root / "src").copy(UPath(tmp_path / "copy"))
    assert (Path(str(local)) / "deep" / "b.py").read_text() == "b\n"
    (root / "out" / "final.txt").unlink()
    (root / "out").rmdir()
    assert not (root / "out").exists()
