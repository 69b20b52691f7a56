"""The filesystem in memory."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import agentvfs
import pytest
from agentvfs import (
    FileSystemAdapter,
    InboxRecorder,
    MemoryStorageAdapter,
    NodePolicy,
    PathEvent,
    ProvidedNode,
    VirtualFileSystem,
    VisibilityView,
    WriteEvent,
)


@pytest.fixture
def vfs() -> VirtualFileSystem:
    return VirtualFileSystem()


def test_versions_count_up_and_a_stale_write_changes_nothing(vfs: VirtualFileSystem) -> None:
    assert vfs.write_file("/a", "1") == 1
    assert vfs.append_file("/a", b"2", expected_version=1) == 2
    with pytest.raises(agentvfs.VersionMismatchError) as raised:
        vfs.write_file("/a", "x", expected_version=1)
    assert (raised.value.path, raised.value.expected, raised.value.actual) == ("/a", 1, 2)
    assert vfs.read_file("/a") == b"12"
    vfs.remove("/a")
    assert vfs.write_file("/a", "") == 3


def test_paths_are_text_bytes_or_path_objects(vfs: VirtualFileSystem) -> None:
    vfs.write_file(PurePosixPath("/d/a.txt"), "x")
    vfs.write_file(b"/d/\xff", b"bytes")
    assert vfs.read_text("d/a.txt") == vfs.read_text(Path("/d/a.txt")) == "x"
    assert vfs.read_file(os.fsdecode(b"/d/\xff")) == b"bytes"
    assert vfs.listdir("/d") == ["a.txt", "\\xff"]
    assert vfs.read_bytes("/d/a.txt", 0, 10) == b"x"
    assert vfs.write_file("/buffer", bytearray(b"12")) == 1
    assert vfs.tree("/d") == "/d\n├── a.txt\n└── \\xff\n"


def test_listings_and_attributes(vfs: VirtualFileSystem) -> None:
    vfs.write_file("/d/a", "123")
    vfs.symlink("a", "/d/link")
    vfs.chmod("/d/a", 0o755)
    vfs.set_mtime("/d/a", 5_000_000_001)
    vfs.set_metadata("/d/a", {"team": "blue"})
    entries = vfs.ls("/d")
    assert [(entry.name, entry.path, entry.kind, entry.size) for entry in entries] == [
        ("a", "/d/a", "file", 3),
        ("link", "/d/link", "symlink", 1),
    ]
    stat = vfs.stat("/d/link")
    assert (stat.path, stat.mode, stat.mtime_ns, stat.metadata) == (
        "/d/a",
        0o755,
        5_000_000_001,
        {"team": "blue"},
    )
    assert vfs.stat("/d/link", follow_symlinks=False).kind == "symlink"
    assert vfs.readlink("/d/link") == "a"
    assert [entry.path for entry in vfs.walk("/d")] == ["/d", "/d/a", "/d/link"]
    assert (vfs.is_file("/d/a"), vfs.is_dir("/d"), vfs.exists("/no")) == (True, True, False)
    assert repr(vfs) == "VirtualFileSystem(3 entries, 3 bytes)"


#: An argument that no type checker lets through.
NUMBER: Any = 5

BAD_CALLS: list[tuple[Callable[[VirtualFileSystem], object], type[Exception], type[Exception]]] = [
    (lambda v: v.read_file("/no"), agentvfs.PathNotFoundError, FileNotFoundError),
    (lambda v: v.read_file("/d"), agentvfs.PathIsADirectoryError, IsADirectoryError),
    (lambda v: v.ls("/f"), agentvfs.PathNotADirectoryError, NotADirectoryError),
    (lambda v: v.mkdir("/d"), agentvfs.PathExistsError, FileExistsError),
    (lambda v: v.remove("/d"), agentvfs.DirectoryNotEmptyError, OSError),
    (lambda v: v.remove("/"), agentvfs.BusyPathError, OSError),
    (lambda v: v.write_file("/../x", ""), agentvfs.InvalidInputError, ValueError),
    (lambda v: v.write_file("/a\0b", ""), agentvfs.InvalidInputError, ValueError),
    (lambda v: v.write_file("/" + "n" * 256, ""), agentvfs.InvalidInputError, ValueError),
    (lambda v: v.mkdir("/x/" * 300, parents=True), agentvfs.InvalidInputError, ValueError),
    (lambda v: v.read_file("/loop"), agentvfs.LinkLoopError, OSError),
    (lambda v: v.move("/d", "/d/below"), agentvfs.InvalidInputError, ValueError),
    (lambda v: v.write_file("/f", NUMBER), TypeError, TypeError),
    (lambda v: v.write_file(NUMBER, ""), TypeError, TypeError),
    (lambda v: v.chmod("/f", 0o10000), agentvfs.InvalidInputError, ValueError),
    (lambda v: v.export("/proc/no/such"), agentvfs.HostError, OSError),
]


@pytest.mark.parametrize(("call", "error", "builtin"), BAD_CALLS)
def test_bad_calls_raise_typed_errors_and_change_nothing(
    vfs: VirtualFileSystem,
    call: Callable[[VirtualFileSystem], object],
    error: type[Exception],
    builtin: type[Exception],
) -> None:
    vfs.write_file("/d/x", "x")
    vfs.write_file("/f", "f")
    vfs.symlink("loop", "/loop")
    before = vfs.snapshot()
    with pytest.raises(error) as raised:
        call(vfs)
    assert isinstance(raised.value, builtin)
    assert vfs.changes(before) == []


def test_a_limited_filesystem_is_full(vfs: VirtualFileSystem) -> None:
    small = VirtualFileSystem(max_bytes=3)
    with pytest.raises(agentvfs.StorageFullError):
        small.write_file("/a", "1234")
    assert small.usage == (0, 0)


def test_forks_snapshots_and_changes(vfs: VirtualFileSystem) -> None:
    vfs.write_file("/a", "1")
    before = vfs.snapshot()
    fork = vfs.fork()
    assert isinstance(fork, VirtualFileSystem)
    fork.write_file("/b", "2")
    fork.remove("/a")
    assert [(change.path, change.change) for change in fork.changes(before)] == [
        ("/a", "deleted"),
        ("/b", "created"),
    ]
    assert vfs.changes(before) == []
    fork.restore(before)
    assert fork.changes(before) == []
    assert fork.stat("/a").version == 2


def test_providers_are_told_what_is_read(vfs: VirtualFileSystem) -> None:
    vfs.write_file("/name", "world")

    def hello(context: agentvfs.NodeContext) -> str:
        return f"{context.path} {context.metadata} {context.vfs.read_text('/name')}"

    node = ProvidedNode.file(content_provider=hello, metadata={"k": "v"})
    vfs.mount_directory("/dyn", lambda _: {"hello": node, "plain": "text", "sub": {"deep": b"\xff"}})
    assert vfs.read_text("/dyn/hello") == "/dyn/hello {'k': 'v'} world"
    assert vfs.read_file("/dyn/sub/deep") == b"\xff"
    assert vfs.listdir("/dyn") == ["hello", "plain", "sub"]
    before = vfs.snapshot()
    vfs.write_file("/dyn/plain", "mine")
    assert [change.path for change in vfs.changes(before)] == ["/dyn/plain"]
    assert vfs.fork().read_text("/dyn/hello").endswith("world")


def test_providers_are_cached_and_their_errors_are_of_the_read(vfs: VirtualFileSystem) -> None:
    calls: list[str] = []

    def count(context: agentvfs.NodeContext) -> str:
        calls.append(context.path)
        return str(len(calls))

    vfs.mount_file("/cached", count, ttl=1000)
    assert (vfs.read_text("/cached"), vfs.read_text("/cached"), len(calls)) == ("1", "1", 1)

    def broken(context: agentvfs.NodeContext) -> str:
        raise KeyError("out of order")

    vfs.mount_file("/broken", broken)
    with pytest.raises(agentvfs.ProviderError) as raised:
        vfs.read_file("/broken")
    assert isinstance(raised.value.__cause__, KeyError)
    vfs.mount_file("/wrong", lambda _: NUMBER)
    with pytest.raises(agentvfs.ProviderError):
        vfs.read_file("/wrong")
    assert vfs.listdir() == ["broken", "cached", "wrong"]


def test_hooks_stop_writes_and_events_are_in_order(vfs: VirtualFileSystem) -> None:
    events: list[PathEvent] = []
    writes: list[WriteEvent] = []
    vfs.register_path_hook("/", events.append)
    vfs.register_write_hook("/", writes.append, after=True)

    def check(event: WriteEvent) -> None:
        if b"bad" in event.content:
            raise ValueError("refused")

    hook = vfs.register_write_hook("/in", check)
    vfs.write_file("/in/a", "1")
    vfs.append_file("/in/a", "2")
    with pytest.raises(ValueError, match="refused"):
        vfs.write_file("/in/b", "bad")
    vfs.write_file("/bad", "bad")
    with pytest.raises(ValueError, match="refused"):
        vfs.move("/bad", "/in")
    vfs.move("/in/a", "/c")
    vfs.remove("/c")
    assert [(event.event, event.path, event.version, event.source) for event in events] == [
        ("create", "/in/a", 1, None),
        ("update", "/in/a", 2, None),
        ("create", "/bad", 1, None),
        ("move", "/c", 3, "/in/a"),
        ("delete", "/c", 3, None),
    ]
    assert [(write.path, write.content, write.append) for write in writes] == [
        ("/in/a", b"1", False),
        ("/in/a", b"12", True),
        ("/bad", b"bad", False),
        ("/c", b"12", False),
    ]
    assert vfs.unregister_hook(hook)
    vfs.write_file("/in/b", "bad")


def test_a_hook_may_read_and_only_one_after_a_change_may_write(vfs: VirtualFileSystem) -> None:
    vfs.register_path_hook("/a", lambda event: vfs.append_file("/log", event.path))
    vfs.write_file("/a", "x")
    assert vfs.read_text("/log") == "/a"
    vfs.register_write_hook("/b", lambda event: vfs.write_file("/c", "x"))
    with pytest.raises(agentvfs.HookError):
        vfs.write_file("/b", "")
    assert vfs.listdir() == ["a", "log"]


def test_an_inbox_records_below_its_prefix(vfs: VirtualFileSystem) -> None:
    inbox = InboxRecorder().attach(vfs, "/inbox")
    vfs.write_file("/inbox/item", "hello")
    vfs.write_file("/elsewhere", "")
    assert [(event.event, event.path, event.content) for event in inbox.events] == [
        ("create", "/inbox/item", b"hello")
    ]


def test_a_storage_gets_every_change_and_a_conflict_changes_nothing(vfs: VirtualFileSystem) -> None:
    storage = MemoryStorageAdapter({"a": "1", "d/b": b"2"})
    vfs.mount_storage("/data", storage)
    assert vfs.read_text("/data/d/b") == "2"
    vfs.write_file("/data/a", "1b")
    vfs.move("/data/d/b", "/data/c")
    assert {path: (entry.data, entry.version) for path, entry in storage.files.items()} == {
        "a": (b"1b", 2),
        "c": (b"2", 2),
    }
    storage.write("a", b"theirs", 3)
    with pytest.raises(agentvfs.ConflictError):
        vfs.write_file("/data/a", "mine")
    assert (vfs.read_text("/data/a"), storage.files["a"].data) == ("1b", b"theirs")
    assert [event.path for event in vfs.sync_storage("/data")] == ["/data/a"]
    vfs.write_file("/data/a", "mine")
    with pytest.raises(agentvfs.BusyPathError):
        vfs.remove("/data", recursive=True)


def test_any_object_with_four_methods_is_a_storage(vfs: VirtualFileSystem) -> None:
    class Own:
        def __init__(self) -> None:
            self.files: dict[str, tuple[bytes, int]] = {"x": (b"x", 4)}

        def list(self) -> Any:
            return self.files.keys()

        def read(self, path: str) -> Any:
            return self.files[path]

        def write(self, path: str, data: bytes, version: int) -> None:
            if data == b"conflict":
                raise ValueError("version mismatch")
            if data == b"broken":
                raise OSError("disk")
            self.files[path] = (data, version)

        def delete(self, path: str) -> None:
            self.files.pop(path, None)

    own = Own()
    vfs.mount_storage("/s", own)
    assert vfs.stat("/s/x").version == 4
    vfs.write_file("/s/x", "y", expected_version=4)
    assert own.files == {"x": (b"y", 5)}
    with pytest.raises(agentvfs.StorageConflictError):
        vfs.write_file("/s/x", "conflict")
    with pytest.raises(agentvfs.StorageError) as raised:
        vfs.write_file("/s/x", "broken")
    assert isinstance(raised.value.__cause__, OSError)
    assert vfs.read_text("/s/x") == "y"


def test_directories_of_the_host_are_storages(vfs: VirtualFileSystem, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    vfs.mount_storage("/data", FileSystemAdapter(tmp_path))
    vfs.write_file("/data/d/b", "2")
    assert (tmp_path / "d/b").read_text() == "2"
    (tmp_path / "a").write_text("theirs!")
    with pytest.raises(agentvfs.StorageConflictError):
        vfs.write_file("/data/a", "mine")
    assert (tmp_path / "a").read_text() == "theirs!"


def test_filesystems_of_fsspec_are_storages(vfs: VirtualFileSystem, tmp_path: Path) -> None:
    fsspec: Any = importlib.import_module("fsspec")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("1")
    vfs.mount_storage("/data", agentvfs.FsspecAdapter(fsspec.filesystem("file"), str(tmp_path)))
    assert vfs.read_text("/data/d/a") == "1"
    vfs.write_file("/data/e/b", "2")
    vfs.remove("/data/d/a")
    assert (tmp_path / "e" / "b").read_text() == "2"
    assert not (tmp_path / "d" / "a").exists()
    (tmp_path / "e" / "b").write_text("theirs!")
    with pytest.raises(agentvfs.StorageConflictError):
        vfs.write_file("/data/e/b", "mine")
    vfs.sync_storage("/data")
    assert vfs.read_text("/data/e/b") == "theirs!"


def test_policies_and_views(vfs: VirtualFileSystem) -> None:
    for path in ("/d/public", "/d/secret", "/d/bobs", "/log"):
        vfs.write_file(path, "x")
    vfs.set_policy("/d/secret", NodePolicy(classification="secret"))
    vfs.set_policy("/d/bobs", NodePolicy(principals=frozenset({"bob"})))
    vfs.set_policy("/log", NodePolicy(append_only=True))
    agent = vfs.with_view(VisibilityView(classifications=frozenset({"public"})))
    bob = vfs.with_view(VisibilityView(frozenset({"public"}), frozenset({"bob"})))
    assert (agent.listdir("/d"), bob.listdir("/d")) == (["public"], ["bobs", "public"])
    with pytest.raises(FileNotFoundError):
        agent.read_file("/d/secret")
    with pytest.raises(PermissionError):
        agent.write_file("/d/secret", "")
    with pytest.raises(PermissionError):
        agent.set_policy("/d/secret", None)
    with pytest.raises(PermissionError) as raised:
        vfs.write_file("/log", "")
    assert isinstance(raised.value, agentvfs.PermissionDeniedError)
    vfs.append_file("/log", "y")
    assert vfs.get_policy("/log") == NodePolicy(append_only=True)
    prefixed = vfs.with_view(VisibilityView(path_prefixes=("/log",)))
    assert prefixed.listdir() == ["log"]
    vfs.set_metadata("/d/public", {"team": "blue"})
    team = vfs.with_view(VisibilityView(metadata_filters={"team": "blue"}))
    assert [entry.path for entry in team.walk("/")] == ["/d", "/d/public"]


def test_export_import_serialize_and_hydrate(vfs: VirtualFileSystem, tmp_path: Path) -> None:
    vfs.write_file("/d/run", "#!/bin/sh\n")
    vfs.write_file("/d/run", "#!/bin/bash\n")
    vfs.chmod("/d/run", 0o755)
    vfs.symlink("run", "/d/link")
    vfs.export(tmp_path / "out")
    assert os.access(tmp_path / "out/d/run", os.X_OK)
    back = VirtualFileSystem()
    back.import_(tmp_path / "out")
    again = VirtualFileSystem.hydrate(vfs.serialize())
    for other in (back, again):
        assert other.tree() == vfs.tree()
        assert other.read_file("/d/link") == b"#!/bin/bash\n"
    assert again.stat("/d/run").version == 2
    with pytest.raises(agentvfs.AgentVFSError):
        VirtualFileSystem.hydrate(b"nonsense")


def test_threads_share_a_filesystem_with_hooks_in_python(vfs: VirtualFileSystem) -> None:
    seen: list[str] = []
    vfs.register_path_hook("/", lambda event: seen.append(event.path))

    def work(thread: int) -> None:
        for number in range(50):
            vfs.append_file("/log", "x")
            vfs.write_file(f"/{thread}/{number}", "y")
            vfs.read_file("/log")

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(seen), vfs.stat("/log").version) == (400, 200)
