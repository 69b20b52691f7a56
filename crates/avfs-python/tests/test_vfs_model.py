"""A filesystem in memory behaves as a dictionary, whatever is done to it."""

from __future__ import annotations

from agentvfs import AgentVFSError, Snapshot, VirtualFileSystem
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

NAMES = st.sampled_from(["a", "b", "ä", "c c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
#: `None` is a directory.
Model = dict[str, bytes | None]


def _parents(path: str) -> list[str]:
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: end + 1]) for end in range(len(parts))]


def _below(model: Model, path: str) -> list[str]:
    return [other for other in model if other == path or other.startswith(path + "/")]


class Filesystem(RuleBasedStateMachine):
    snapshots = Bundle("snapshots")

    def __init__(self) -> None:
        super().__init__()
        self.vfs = VirtualFileSystem()
        self.model: Model = {}
        self.versions: dict[str, int] = {}

    def _attempt(self, works: bool, call: object) -> bool:
        assert callable(call)
        try:
            call()
        except AgentVFSError:
            assert not works
            return False
        assert works
        return True

    @rule(path=PATHS, data=st.binary(max_size=5), append=st.booleans())
    def write(self, path: str, data: bytes, append: bool) -> None:
        parents = _parents(path)
        works = self.model.get(path, b"") is not None and all(self.model.get(p) is None for p in parents)
        call = self.vfs.append_file if append else self.vfs.write_file
        if self._attempt(works, lambda: call(path, data)):
            self.model.update(dict.fromkeys(parents))
            self.model[path] = (self.model.get(path) or b"" if append else b"") + data

    @rule(path=PATHS)
    def make_directory(self, path: str) -> None:
        parents = _parents(path)
        works = self.model.get(path, ...) in (None, ...) and all(self.model.get(p) is None for p in parents)
        if self._attempt(works, lambda: self.vfs.mkdir(path, parents=True, exist_ok=True)):
            self.model.update(dict.fromkeys([*parents, path]))

    @rule(path=PATHS)
    def remove(self, path: str) -> None:
        if self._attempt(path in self.model, lambda: self.vfs.remove(path, recursive=True)):
            for gone in _below(self.model, path):
                del self.model[gone]

    @rule(source=PATHS, destination=PATHS)
    def rename(self, source: str, destination: str) -> None:
        if source == destination or source not in self.model or destination in self.model:
            return
        works = not destination.startswith(source + "/") and all(
            self.model.get(p) is None for p in _parents(destination)
        )
        if self._attempt(works, lambda: self.vfs.rename(source, destination)):
            moved = {
                destination + path[len(source) :]: self.model[path] for path in _below(self.model, source)
            }
            for path in _below(self.model, source):
                del self.model[path]
            self.model.update(dict.fromkeys(_parents(destination)))
            self.model.update(moved)

    @rule(target=snapshots)
    def snapshot(self) -> tuple[Snapshot, Model]:
        return self.vfs.snapshot(), dict(self.model)

    @rule(taken=snapshots)
    def restore(self, taken: tuple[Snapshot, Model]) -> None:
        self.vfs.restore(taken[0])
        self.model = dict(taken[1])

    @rule(taken=snapshots)
    def compare(self, taken: tuple[Snapshot, Model]) -> None:
        old, new = taken[1], self.model
        differing = {path for path in old.keys() | new.keys() if old.get(path, ...) != new.get(path, ...)}
        assert {change.path for change in self.vfs.changes(taken[0])} == differing

    @rule()
    def fork(self) -> None:
        self.vfs = self.vfs.fork()

    @invariant()
    def same(self) -> None:
        found: Model = {}
        for entry in self.vfs.walk():
            found[entry.path] = None if entry.is_dir else self.vfs.read_file(entry.path)
            if not entry.is_dir:
                assert entry.version >= self.versions.get(entry.path, 1)
                self.versions[entry.path] = entry.version
        assert found == self.model


TestFilesystem = Filesystem.TestCase
TestFilesystem.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
