"""Vaults: named, durable workspaces, and what one does with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from . import _checks, _lifecycle, _native
from ._output import Listener, listener
from .approvals import Approve, decide
from .errors import ApprovalRequiredError, CommandTimeoutError, InvalidInputError
from .files import FileInfo, Files, Match
from .files import PathLike as TreePath
from .limits import ResourceLimits
from .result import RunResult, changed_file, result_of
from .rules import Explanation, Rule
from .sandbox import (
    Checkpoint,
    Command,
    Diff,
    PathLike,
    checkpoint_of,
    command_options,
    failure,
    sandbox_options,
)


@dataclass(frozen=True)
class VaultInfo:
    """What is known of a vault."""

    name: str
    files: int
    bytes: int
    #: Seconds since 1970.
    created: float
    #: The vault that it was forked from.
    parent: str | None
    #: How many conflicts of merges are open in it.
    conflicts: int
    max_bytes: int | None
    max_files: int | None


@dataclass(frozen=True)
class HistoryEntry:
    """One state in the history of a vault."""

    number: int
    #: Seconds since 1970.
    time: float
    actor: str
    #: What made it, in one line.
    action: str
    #: Names the state, for `diff` and `checkout`.
    snapshot: str


@dataclass(frozen=True)
class AuditEntry:
    """One entry of the audit log of a vault."""

    number: int
    #: Seconds since 1970.
    time: float
    actor: str
    action: str
    detail: str


@dataclass(frozen=True)
class Merged:
    """What a merge did."""

    #: How many paths it changed.
    changed: int
    #: The paths of conflicts that it left open.
    conflicts: tuple[str, ...]


class Mount:
    """A vault as a directory of this machine. It ends with `unmount()`, its `with`, or the interpreter."""

    def __init__(self, native: _native.Mount, directory: str, vault_key: tuple[str, str]) -> None:
        self._native = native
        #: Where it is.
        self.directory = directory
        self.vault_key = vault_key
        _lifecycle.opened(self)

    def __repr__(self) -> str:
        return f"<Mount of {self.vault_key[1]!r} at {self.directory!r}>"

    def unmount(self, *, force: bool = False) -> None:
        """Ends it. One that programs use stays, unless `force`."""
        self._native.unmount(force)
        _lifecycle.closed(self)

    def close(self) -> None:
        """Ends it, also while programs use it."""
        self.unmount(force=True)

    def __enter__(self) -> str:
        return self.directory

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.unmount(force=kind is not None)


class AVFS:
    """The vaults of a store, and one of them to work on.

    >>> avfs = AVFS("notes")
    >>> avfs.create_vault("notes")
    >>> avfs.write_file("todo.txt", "one\\n").size
    4
    >>> _ = avfs.checkpoint_save("pre-change")
    >>> avfs.proxy_exec("sh", "-c", "echo two >> todo.txt").success
    True
    >>> avfs.read_file("todo.txt")
    'one\\ntwo\\n'
    >>> avfs.checkpoint_restore("pre-change")
    >>> avfs.read_file("todo.txt")
    'one\\n'
    """

    def __init__(
        self,
        vault: str | None = None,
        *,
        store: PathLike | None = None,
        approve: Approve | None = None,
        principal: str | None = None,
    ) -> None:
        self._name = vault
        self._home = _lifecycle.home_of(store)
        self._approve = approve
        self._principal = principal

    def __repr__(self) -> str:
        return f"AVFS({self._name!r}, store={self._home!r})"

    @property
    def _store(self) -> _native.Store:
        return _lifecycle.store(self._home)

    @property
    def _vault(self) -> _native.Vault:
        return self._store.vault(self.name)

    @property
    def name(self) -> str:
        """The vault that it works on."""
        if self._name is None:
            raise InvalidInputError("no vault is chosen: AVFS(name) or use(name) chooses one")
        return self._name

    # Vaults

    def create_vault(
        self,
        name: str,
        *,
        from_directory: PathLike | None = None,
        from_git: PathLike | None = None,
        revision: str = "HEAD",
    ) -> None:
        """Makes a vault: empty, with a copy of a directory, or with the files of a commit."""
        if from_directory is not None and from_git is not None:
            raise InvalidInputError("a vault is made from a directory or from a commit")
        if from_directory is not None:
            self._store.create_vault_from(name, _checks.host_path("from_directory", from_directory))
        elif from_git is not None:
            self._store.create_vault_from_git(name, _checks.host_path("from_git", from_git), revision)
        else:
            self._store.create_vault(name)

    def fork_vault(self, name: str, *forks: str) -> None:
        """Makes forks of a vault: instant, whatever its size."""
        if not forks:
            raise InvalidInputError("a fork has a name")
        self._store.vault(name).fork(list(forks))

    def list_vaults(self) -> list[VaultInfo]:
        """All vaults, by name."""
        return [_info(one) for one in self._store.vaults()]

    def use(self, name: str) -> None:
        """Works on another vault from now on."""
        self._name = self._store.vault(name).name

    def rename_vault(self, name: str, to: str) -> None:
        """Gives a vault another name."""
        self._store.vault(name).rename(to)
        if self._name == name:
            self._name = to

    def delete_vault(self, name: str, *, force: bool = False) -> None:
        """Deletes a vault. One whose forks need it stays, unless `force`."""
        self._store.vault(name).delete(force)

    def export_vault(self, name: str, file: PathLike) -> None:
        """Writes a vault with its history to one file."""
        self._store.vault(name).export_bundle(_checks.host_path("file", file))

    def import_vault(self, file: PathLike, name: str | None = None) -> str:
        """Makes a vault of such a file, under its old name or another one. Returns the name."""
        return self._store.import_bundle(_checks.host_path("file", file), _checks.optional("name", name)).name

    def import_image(self, place: PathLike, name: str | None = None) -> str:
        """Makes an image of an archive or a directory, for sandboxes with `image=`. Returns its name.

        The archive has the root directory of a system, or is one by `docker save`, or an OCI image layout.
        """
        return self._store.import_image(
            _checks.host_path("place", place), _checks.optional("name", name)
        ).name

    def info(self) -> VaultInfo:
        """What is known of the vault."""
        return _info(self._vault.info())

    # Files

    @property
    def files(self) -> Files:
        """The files of the vault, through the rules that are stored with it."""
        return Files(self._vault.through_stored(), as_user=False)

    def read_file(self, path: TreePath) -> str:
        """The text of a file."""
        return self.files.read(path)

    def write_file(
        self, path: TreePath, data: str | bytes, *, expected_version: str | None = None
    ) -> FileInfo:
        """Writes a file."""
        return self.files.write(path, data, expected_version=expected_version)

    def list_files(self, path: TreePath = "/", depth: int | None = 1) -> list[FileInfo]:
        """What is in a directory."""
        return self.files.list(path, depth)

    def find(self, pattern: str, path: TreePath = "/") -> list[str]:
        """The files whose paths match, as in `.gitignore`."""
        return self.files.glob(pattern, path)

    def grep(self, pattern: str, path: TreePath = "/", *, ignore_case: bool = False) -> list[Match]:
        """The lines that match a regular expression."""
        return self.files.grep(pattern, path, ignore_case=ignore_case)

    def search(self, words: str, limit: int = 20) -> list[tuple[str, float]]:
        """The files that are about these words, the best first, each with its score."""
        _checks.whole("limit", limit)
        return _native.search(self._vault.through_stored(), _checks.utf8("words", words), limit)

    # States

    def checkpoint_save(self, name: str, message: str | None = None) -> Checkpoint:
        """Gives the present state a name."""
        return checkpoint_of(self._vault.save_checkpoint(name, _checks.optional("message", message)))

    def checkpoint_list(self) -> list[Checkpoint]:
        """All checkpoints."""
        return [checkpoint_of(one) for one in self._vault.checkpoints()]

    def checkpoint_restore(self, name: str) -> None:
        """Goes back to a checkpoint."""
        self._vault.restore(name)

    def checkpoint_delete(self, name: str) -> None:
        """Removes a checkpoint; the state stays in the history."""
        self._vault.delete_checkpoint(name)

    def log(self, limit: int = 100) -> list[HistoryEntry]:
        """The states of the vault, the newest first."""
        _checks.whole("limit", limit)
        return [
            HistoryEntry(one.seq, one.time, one.actor, one.action, one.snapshot)
            for one in self._vault.history(limit)
        ]

    def diff(self, since: str | None = None, until: str = "@") -> Diff:
        """What differs between two states: checkpoints, ids, or `@~N`. Without any, everything since the vault was made."""
        changes = tuple(map(changed_file, self._vault.changes(since, until)))
        return Diff(changes, self._vault.patch(since, until).decode(errors="replace"))

    def checkout(self, revision: str, *paths: TreePath) -> int:
        """Brings paths back from a state. Returns how many changed."""
        if not paths:
            raise InvalidInputError("name the paths to bring back; checkpoint_restore() goes back as a whole")
        names = [self.files.path_in_tree(path) for path in paths]
        return self._vault.restore_paths(revision, names, "checkout")

    def revert(self, *paths: TreePath) -> int:
        """Brings paths back from the last checkpoint. Returns how many changed."""
        saved = max(self._vault.checkpoints(), key=lambda one: one.time, default=None)
        if saved is None:
            raise InvalidInputError("the vault has no checkpoint", code="no-checkpoint")
        names = [self.files.path_in_tree(path) for path in paths]
        return self._vault.restore_paths(saved.name, names, "revert")

    def undo(self) -> str:
        """Undoes the last change. Returns what it was."""
        return self._vault.undo().action

    def redo(self) -> str:
        """Does again what the last undo took back."""
        return self._vault.redo().action

    def merge(self, *names: str, on_conflict: str = "mark", dry_run: bool = False) -> Merged:
        """Merges what forks changed into the vault, line by line. `on_conflict` is `mark`, `ours` or `theirs`."""
        others = [self._store.vault(name) for name in names]
        return Merged(*_merged(self._vault.merge(others, on_conflict, dry_run)))

    # Commands

    def exec(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: PathLike | None = None,
        stdin: str | bytes | None = None,
        network: str | Sequence[str] = "none",
        resources: ResourceLimits | None = None,
        raise_on_error: bool = False,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """Runs one command in a sandbox of its own, on the vault itself. For many commands, `Sandbox.connect(name)` is
        faster."""
        _checks.instance("resources", resources, ResourceLimits, or_none=True)
        limits = resources or ResourceLimits()
        options = sandbox_options({}, network, limits, self._principal)
        given = command_options(command, timeout, env, cwd, stdin)
        vault, token = self._vault.through_for_programs(), _native.CancelToken()
        tell = listener(on_stdout, on_stderr)
        while True:
            try:
                report = vault.run(options, given, token, tell)
                break
            except ApprovalRequiredError as error:
                decide(self._store, self._approve, error)
        result = result_of(report)
        if report.timed_out:
            raise CommandTimeoutError("the command took too long", stdout=result.stdout, stderr=result.stderr)
        if raise_on_error and not result.success:
            raise failure(result)
        return result

    def proxy_exec(self, *command: str, timeout: float | None = None) -> RunResult:
        """Runs a program with its arguments, as `exec`."""
        return self.exec(command, timeout=timeout)

    # The rest

    def explain(self, path: TreePath) -> Explanation:
        """Which of the rules that are stored with the vault decides about a path."""
        place = self.files.path_in_tree(path)
        level, rule = self._vault.through_stored().explain(place)
        return Explanation(place, level, None if rule is None else Rule(*rule))

    def set_quota(self, *, max_bytes: int | None = None, max_files: int | None = None) -> None:
        """Limits what the vault may hold; what is not given is without a limit."""
        _checks.whole("max_bytes", max_bytes)
        _checks.whole("max_files", max_files)
        self._vault.set_quota(max_bytes, max_files)

    def audit(self, after: int = 0, limit: int = 1000) -> list[AuditEntry]:
        """The audit log behind an entry, the oldest first."""
        _checks.whole("after", after)
        _checks.whole("limit", limit)
        return [AuditEntry(*entry) for entry in self._vault.audit(after, limit)]

    def gc(self) -> int:
        """Removes from the store what nothing needs any more. Returns how many bytes that were."""
        return self._store.collect_garbage()

    def mount(self, directory: PathLike, *, read_only: bool = False) -> Mount:
        """Mounts the vault at a directory, for programs of this machine.

        >>> import tempfile
        >>> from pathlib import Path
        >>> avfs = AVFS("mounted")
        >>> avfs.create_vault("mounted")
        >>> with tempfile.TemporaryDirectory() as place, avfs.mount(place) as directory:
        ...     _ = Path(directory, "a.txt").write_text("by a program")
        >>> avfs.read_file("a.txt")
        'by a program'
        """
        place = _checks.host_path("directory", directory)
        native = _native.Mount(self._vault.through_stored(), place, read_only)
        return Mount(native, place, (self._home, self.name))


def _info(info: _native.VaultInfo) -> VaultInfo:
    return VaultInfo(
        info.name,
        info.files,
        info.bytes,
        info.created,
        info.parent,
        info.conflicts,
        info.max_bytes,
        info.max_files,
    )


def _merged(done: tuple[int, list[str]]) -> tuple[int, tuple[str, ...]]:
    return done[0], tuple(done[1])
