"""A directory, rules, and commands."""

from __future__ import annotations

import builtins
import os
import secrets
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any

from . import _checks, _lifecycle, _native
from ._output import Listener, listener
from .approvals import ApprovalRequest, Approve, decide
from .commands import Commands, Pty
from .errors import (
    AgentVFSError,
    ApprovalRequiredError,
    CommandExecutionError,
    CommandTimeoutError,
    InvalidInputError,
    ResourceLimitExceededError,
)
from .files import FileInfo, Files
from .files import PathLike as TreePath
from .limits import ResourceLimits, RuntimeType
from .result import ChangedFile, Decision, RunResult, changed_file, result_of
from .rules import Explanation, Preset, Rule, RuleLike, texts
from .session import Session

#: A line for a shell, or a program with its arguments.
Command = str | Sequence[str | os.PathLike[str]]
#: A path of this machine.
PathLike = str | os.PathLike[str]

#: Where commands find the files of a sandbox, whatever it was made from.
WORKSPACE = "/workspace"
#: How many forks one call makes. Each has a mount and processes of its own.
MOST_FORKS = 1000
#: How many forks are opened at a time. Each waits for its mount and its first process most of the time.
OPENING = 4

#: What becomes of a conflict, and what the library calls that.
_ON_CONFLICT = {"refuse": "refuse", "markers": "mark", "ours": "ours", "theirs": "theirs"}


@dataclass(frozen=True)
class Checkpoint:
    """A state with a name."""

    name: str
    #: Seconds since 1970.
    created: float
    message: str | None = None
    #: It was saved before a command, and is removed by and by.
    automatic: bool = False


@dataclass(frozen=True)
class Diff:
    """What differs between two states."""

    changes: tuple[ChangedFile, ...]
    #: The same as text, for `git apply`.
    patch: str

    def __bool__(self) -> bool:
        return bool(self.changes)


@dataclass(frozen=True)
class Applied:
    """What was written into a directory, or merged into a vault."""

    #: Each path that was changed, with what was done: `added`, `replaced`, `merged`, `removed`, `renamed` …
    files: tuple[tuple[str, str], ...]
    #: Paths that were left out because programs of the host would run them. `apply(allow=[…])` brings them.
    guarded: tuple[str, ...] = ()
    #: The number of the apply, for `avfs undo --apply`.
    number: int | None = None


@dataclass(frozen=True)
class Conflict:
    """Where two sides changed the same."""

    path: str
    kind: str


@dataclass(frozen=True)
class SandboxInfo:
    """What is known of a sandbox."""

    name: str
    files: int
    bytes: int
    #: Seconds since 1970.
    created: float


@dataclass(frozen=True)
class _Settings:
    """What a sandbox and its forks have in common."""

    #: Through which rules its files are seen; `None`: those that are stored with it.
    rules: builtins.list[tuple[str, str]] | None
    env: Mapping[str, str]
    network: str | Sequence[str]
    resources: ResourceLimits
    approve: Approve | None
    principal: str | None
    keep: bool
    store: str
    #: The vault to which changes go; for others, they go to the directory.
    parent: str | None = None
    #: The image whose system commands run in; `None`: that of this machine.
    image: str | None = None
    runtime: RuntimeType = RuntimeType.LOCAL

    def options(self) -> _native.SandboxOptions:
        options = sandbox_options(self.env, self.network, self.resources, self.principal)
        isolation = "container" if self.runtime is RuntimeType.DOCKER else None
        return {**options, "image": self.image, "isolation": isolation}


def sandbox_options(
    env: Mapping[str, str],
    network: str | Sequence[str],
    resources: ResourceLimits,
    principal: str | None,
) -> _native.SandboxOptions:
    """What all commands of a sandbox have in common."""
    return {
        "env": _checks.variables(env),
        "caller_env": list(os.environ.items()),
        "home": os.path.expanduser("~"),
        "network": [network] if isinstance(network, str) else _checks.many("network", network),
        "read_only": False,
        "principal": principal,
        "timeout": resources.timeout,
        "memory": resources.memory_bytes,
        "processes": resources.processes,
        "cpu_seconds": resources.cpu_seconds,
        "output_bytes": resources.output_bytes,
        "image": None,
        "isolation": None,
    }


class Sandbox:
    """A private copy of a directory in which commands run, isolated from the rest of the machine.

    Making one copies nothing, and the directory stays as it is until `apply()`. When it is closed, or its `with` ends, its
    changes are discarded, unless it was made with `keep=True`.

    >>> with Sandbox.from_local(project, preset="development") as sandbox:
    ...     result = sandbox.run("echo bye > greeting.txt")
    ...     result.changed_files
    (ChangedFile(path='/greeting.txt', kind='modified', moved_from=None),)
    """

    def __init__(self, vault: _native.Vault, settings: _Settings) -> None:
        self._held: _native.Vault | None = vault
        self._settings = settings
        #: Its name, for `connect` and the command line.
        self.name = vault.name
        own = vault.own_path()
        #: Where commands find its files: at the path of the directory that it was made from, if there is one.
        self.path = own if own is not None and settings.image is None else WORKSPACE
        #: Commands that run beside the program that started them.
        self.commands = Commands(self)
        #: Terminals.
        self.pty = Pty(self)
        self._applied: tuple[str, Applied] | None = None
        self._is_gone = False
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._open = self._opened()
        _lifecycle.opened(self)

    @property
    def vault_key(self) -> tuple[str, str]:
        """The vault that it is open on."""
        return self._settings.store, self.name

    @property
    def _store(self) -> _native.Store:
        return _lifecycle.store(self._settings.store)

    @property
    def _vault(self) -> _native.Vault:
        # One that was closed keeps no store open.
        return self._held if self._held is not None else self._store.vault(self.name)

    @property
    def _seen(self) -> _native.Vault:
        """The vault as commands see it."""
        vault, rules = self._vault, self._settings.rules
        return vault.through_for_programs() if rules is None else vault.through(rules)

    @property
    def files(self) -> Files:
        """Its files, for the program that uses it."""
        places = (WORKSPACE,) if self.path == WORKSPACE else (WORKSPACE, self.path)
        return Files(self._seen, places)

    def _opened(self) -> _native.OpenSandbox:
        while True:
            try:
                return self._seen.open_sandbox(self._settings.options())
            except ApprovalRequiredError as error:
                self._decide(error)

    # Making one

    @classmethod
    def from_local(
        cls,
        path: PathLike,
        preset: str | Preset = "agent-safe",
        *,
        permissions: Iterable[RuleLike] | None = None,
        runtime: RuntimeType = RuntimeType.LOCAL,
        image: str | None = None,
        resources: ResourceLimits | None = None,
        env: Mapping[str, str] | None = None,
        network: str | Sequence[str] = "none",
        name: str | None = None,
        keep: bool = False,
        approve: Approve | None = None,
        principal: str | None = None,
        store: PathLike | None = None,
    ) -> Sandbox:
        """A sandbox on a directory of this machine: instant, whatever its size.

        `preset` names the rules for its files, and `permissions` come on top of them. `network` is `none`, `host`, or a
        list of hosts. `approve` decides about what the policy does not grant by itself. `image` names an image of the
        store: commands run in its system, and what they install there is discarded with the sandbox. With
        `RuntimeType.DOCKER`, a container runtime makes it.
        """
        settings = _settings(
            preset, permissions, runtime, image, resources, env, network, keep, approve, principal, store
        )
        place = _checks.host_path("path", path)
        made = _checks.optional("name", name)
        vault = _lifecycle.store(settings.store).new_task(place, made, settings.rules)
        # The task's own rules are more: files with secrets in them are hidden, whatever their names are.
        return _made(cls, vault, replace(settings, rules=None))

    @classmethod
    def from_vault(
        cls,
        vault: str,
        preset: str | Preset = "agent-safe",
        *,
        permissions: Iterable[RuleLike] | None = None,
        runtime: RuntimeType = RuntimeType.LOCAL,
        image: str | None = None,
        resources: ResourceLimits | None = None,
        env: Mapping[str, str] | None = None,
        network: str | Sequence[str] = "none",
        name: str | None = None,
        keep: bool = False,
        approve: Approve | None = None,
        principal: str | None = None,
        store: PathLike | None = None,
    ) -> Sandbox:
        """A sandbox on a fork of a vault. `apply()` merges its changes into the vault."""
        settings = _settings(
            preset, permissions, runtime, image, resources, env, network, keep, approve, principal, store
        )
        made = _checks.optional("name", name)
        parent = _lifecycle.store(settings.store).vault(_checks.utf8("vault", vault))
        fork = parent.fork([made or _free_name(vault)])[0]
        return _made(cls, fork, replace(settings, parent=vault))

    @classmethod
    def from_git(
        cls,
        repository: PathLike,
        revision: str = "HEAD",
        preset: str | Preset = "agent-safe",
        *,
        permissions: Iterable[RuleLike] | None = None,
        runtime: RuntimeType = RuntimeType.LOCAL,
        image: str | None = None,
        resources: ResourceLimits | None = None,
        env: Mapping[str, str] | None = None,
        network: str | Sequence[str] = "none",
        name: str | None = None,
        keep: bool = False,
        approve: Approve | None = None,
        principal: str | None = None,
        store: PathLike | None = None,
    ) -> Sandbox:
        """A sandbox on the files of a commit. Its changes leave it by `export()` or `diff()`."""
        settings = _settings(
            preset, permissions, runtime, image, resources, env, network, keep, approve, principal, store
        )
        place = _checks.host_path("repository", repository)
        made = _checks.optional("name", name) or _free_name(os.path.basename(place) or "repository")
        commit = _checks.optional("revision", revision) or "HEAD"
        vault = _lifecycle.store(settings.store).create_vault_from_git(made, place, commit)
        return _made(cls, vault, settings)

    @classmethod
    def connect(
        cls,
        name: str,
        preset: str | Preset | None = None,
        *,
        permissions: Iterable[RuleLike] | None = None,
        resources: ResourceLimits | None = None,
        env: Mapping[str, str] | None = None,
        network: str | Sequence[str] = "none",
        keep: bool = True,
        approve: Approve | None = None,
        principal: str | None = None,
        store: PathLike | None = None,
    ) -> Sandbox:
        """A sandbox that was kept, or a vault itself. It sees what it saw before, unless a preset is given."""
        settings = _settings(
            preset,
            permissions,
            RuntimeType.LOCAL,
            None,
            resources,
            env,
            network,
            keep,
            approve,
            principal,
            store,
        )
        vault = _lifecycle.store(settings.store).vault(_checks.utf8("name", name))
        return cls(vault, settings)

    @staticmethod
    def list(store: PathLike | None = None) -> builtins.list[SandboxInfo]:
        """The sandboxes and vaults of a store."""
        return [_info(vault) for vault in _lifecycle.store(store).vaults()]

    def __repr__(self) -> str:
        return f"<Sandbox {self.name!r} {'open' if self.is_running else 'closed'}>"

    # Commands

    def run(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: PathLike | None = None,
        stdin: str | bytes | None = None,
        raise_on_error: bool = False,
        on_stdout: Listener | None = None,
        on_stderr: Listener | None = None,
    ) -> RunResult:
        """Runs a command: a line for a shell, or a program with its arguments.

        A status other than 0 is a result, unless `raise_on_error`. After `timeout` seconds, the command is ended and
        `CommandTimeoutError` raised. `cwd` is a directory of the sandbox's files, or an absolute path inside. `on_stdout`
        and `on_stderr` are called with the output as it comes.

        >>> sandbox.run(["echo", "a  b"]).stdout
        'a  b\\n'
        >>> sandbox.run("tr a-z A-Z", stdin="hello").stdout
        'HELLO'
        """
        token = _native.CancelToken()
        return self.run_with(token, command, timeout, env, cwd, stdin, raise_on_error, on_stdout, on_stderr)

    def run_with(
        self,
        token: _native.CancelToken,
        command: Command,
        timeout: float | None,
        env: Mapping[str, str] | None,
        cwd: PathLike | None,
        stdin: str | bytes | None,
        raise_on_error: bool,
        on_stdout: Listener | None,
        on_stderr: Listener | None,
    ) -> RunResult:
        """The same with a token that ends the command."""
        options = command_options(command, timeout, env, cwd, stdin)
        tell = listener(on_stdout, on_stderr)
        while True:
            try:
                report = self._open.exec(options, token, tell)
            except ApprovalRequiredError as error:
                self._decide(error)
            else:
                return self._finish(result_of(report), report.timed_out, timeout, raise_on_error)

    def decide(self, command: Command, *, cwd: PathLike | None = None) -> Decision:
        """What the policy says about a command, which does not run.

        If it would need an approval, this raises `ApprovalRequiredError`, without asking for one.

        >>> sandbox.decide("rm *.md").action
        'allow_with_checkpoint'
        """
        options = command_options(command, None, None, cwd, None)
        return Decision(*self._seen.decide(self._settings.options(), options, _native.CancelToken()))

    def start_native(
        self,
        command: Command,
        timeout: float | None,
        env: Mapping[str, str] | None,
        cwd: PathLike | None,
        terminal: tuple[int, int] | None,
        is_allowed: bool = False,
    ) -> _native.Process:
        """Starts a command for `commands` and `pty`. One that `is_allowed` is approved by this program itself."""
        options = command_options(command, timeout, env, cwd, None)
        approve: Approve | None = (lambda _: True) if is_allowed else self._settings.approve
        while True:
            try:
                return self._open.start(options, terminal)
            except ApprovalRequiredError as error:
                decide(self._store, approve, error)

    def session(self) -> Session:
        """Starts a shell that keeps its directory, its variables and `/tmp` between commands."""
        while True:
            try:
                native = self._seen.open_session(self._settings.options())
            except ApprovalRequiredError as error:
                self._decide(error)
            else:
                session = Session(native, self.vault_key, self._finish, self._decide)
                self._sessions.add(session)
                return session

    def approval(self, approval_id: str) -> ApprovalRequest:
        """A request for an approval, by the id that `ApprovalRequiredError` has."""
        return ApprovalRequest(_native.Approvals(self._store), approval_id)

    def _decide(self, error: ApprovalRequiredError) -> None:
        decide(self._store, self._settings.approve, error)

    def _finish(
        self, result: RunResult, timed_out: bool, timeout: float | None, raise_on_error: bool
    ) -> RunResult:
        if timed_out:
            limit = timeout if timeout is not None else self._settings.resources.timeout
            raise CommandTimeoutError(
                f"the command took longer than {limit if limit is not None else 600} seconds",
                stdout=result.stdout,
                stderr=result.stderr,
            )
        if raise_on_error and not result.success:
            raise failure(result)
        return result

    # Files, in short

    def read_file(self, path: TreePath) -> str:
        """The text of a file. `files.read` has more."""
        return self.files.read(path)

    def write_file(self, path: TreePath, data: str | bytes) -> FileInfo:
        """Writes a file. `files.write` has more."""
        return self.files.write(path, data)

    def list_files(self, path: TreePath = "/", depth: int | None = 1) -> builtins.list[FileInfo]:
        """What is in a directory. `files.list` is the same."""
        return self.files.list(path, depth)

    # States

    def checkpoint(self, name: str | None = None, message: str | None = None) -> Checkpoint:
        """Gives the present state a name.

        >>> _ = sandbox.checkpoint("before")
        >>> _ = sandbox.run("rm greeting.txt")
        >>> sandbox.restore("before")
        >>> sandbox.read_file("greeting.txt")
        'hello\\n'
        """
        label = _checks.optional("name", name) or f"c-{secrets.token_hex(4)}"
        return checkpoint_of(self._vault.save_checkpoint(label, _checks.optional("message", message)))

    def checkpoints(self) -> builtins.list[Checkpoint]:
        """All checkpoints."""
        return [checkpoint_of(one) for one in self._vault.checkpoints()]

    def restore(self, name: str) -> None:
        """Goes back to a checkpoint. `undo()` undoes that."""
        self._vault.restore(_checks.utf8("name", name))

    def diff(self, since: str | None = None) -> Diff:
        """What was changed in the sandbox, or since a checkpoint.

        >>> _ = sandbox.write_file("greeting.txt", "hi\\n")
        >>> print(sandbox.diff().patch)
        diff --git a/greeting.txt b/greeting.txt
        index ce013625030ba8dba906f756967f9e9ca394464a..45b983be36b73c0788dc9cbcb76cbb80fc7bb057 100644
        --- a/greeting.txt
        +++ b/greeting.txt
        @@ -1 +1 @@
        -hello
        +hi
        <BLANKLINE>
        """
        since = _checks.optional("since", since)
        changes = tuple(map(changed_file, self._vault.changes(since, "@")))
        patch = self._vault.patch(since, "@").decode(errors="replace") if changes else ""
        return Diff(changes, patch)

    def fork(self, count: int = 1) -> builtins.list[Sandbox]:
        """Copies of the sandbox as it is now, each with its own commands. They cost nothing until they change something."""
        _checks.whole("count", count, 1, MOST_FORKS)
        last = self.name.rsplit("/", 1)[-1]
        forks = self._vault.fork([_free_name(last) for _ in range(count)])
        opening = [partial(self._opened_fork, fork) for fork in forks]
        made, failed = _lifecycle.side_by_side(opening, 1 if self._settings.approve else OPENING)
        if failed is not None:
            for fork, one in zip(forks, made, strict=True):
                if one is not None:
                    one.discard()
                else:
                    fork.delete(True)
            raise failed
        return [one for one in made if one is not None]

    def _opened_fork(self, fork: _native.Vault) -> Sandbox:
        if self._settings.image is not None:
            # What is installed in the system of this one is in that of the fork too.
            self._vault.fork_root(self._settings.image, fork)
        return type(self)(fork, self._settings)

    def undo(self) -> str:
        """Undoes the last action: the last `apply()`, if nothing was changed since, or else the last change in the
        sandbox. Returns what that was.

        >>> _ = sandbox.run("rm greeting.txt")
        >>> _ = sandbox.undo()
        >>> sandbox.files.exists("greeting.txt")
        True
        """
        if self._applied is not None and self._applied[0] == self._vault.head():
            applied = self._applied[1]
            self._applied = None
            if self._settings.parent is not None:
                self._store.vault(self._settings.parent).undo()
            elif applied.number is not None:
                self._store.undo_apply(applied.number, False)
            return "apply"
        return self._vault.undo().action

    # Back to where it came from

    def apply(
        self,
        paths: Iterable[TreePath] = (),
        *,
        on_conflict: str = "refuse",
        allow: Iterable[TreePath] = (),
    ) -> Applied:
        """Writes what was changed into the directory that the sandbox was made from, merged with what changed there
        meanwhile: all of it, or nothing.

        `paths` selects files. A conflict raises `ConflictError`, unless `on_conflict` is `ours` (the directory's lines),
        `theirs` (the sandbox's) or `markers`. Files that programs of the host would run are left out unless `allow` names
        them.
        """
        choice = _ON_CONFLICT.get(_checks.text("on_conflict", on_conflict))
        if choice is None:
            raise InvalidInputError(f"on_conflict: {on_conflict!r} is none of {', '.join(_ON_CONFLICT)}")
        selected = [self.files.path_in_tree(path) for path in _checks.many("paths", paths)]
        named = [self.files.path_in_tree(path) for path in _checks.many("allow", allow)]
        if self._settings.parent is not None:
            applied = self._merge_into(self._settings.parent, choice, selected)
        else:
            done = self._task().apply(selected, choice, named, None)
            applied = Applied(tuple(done.files), tuple(done.guarded), done.id)
        if applied.files:
            self._applied = (self._vault.head(), applied)
        return applied

    def _merge_into(self, name: str, choice: str, selected: builtins.list[str]) -> Applied:
        if selected:
            raise InvalidInputError("a vault gets all changes; leave out the paths")
        parent = self._store.vault(name)
        if choice == "refuse":
            _, conflicts = parent.merge([self._vault], "mark", True)
            if conflicts:
                raise_conflicts([(path, "both-changed") for path in conflicts])
            choice = "mark"
        before = parent.head()
        parent.merge([self._vault], choice, False)
        changes = parent.changes(before, "@")
        return Applied(tuple((change.path, change.kind) for change in changes))

    def conflicts(self) -> builtins.list[Conflict]:
        """Where an `apply()` would meet a conflict now."""
        if self._settings.parent is not None:
            _, paths = self._store.vault(self._settings.parent).merge([self._vault], "mark", True)
            return [Conflict(path, "both-changed") for path in paths]
        return [Conflict(*one) for one in self._task().conflicts()]

    def _task(self) -> _native.Task:
        try:
            return _native.Task(self._vault)
        except AgentVFSError as error:
            if error.code == "not-a-task":
                reason = "there is nothing to apply to: use export() or diff()"
                raise InvalidInputError(f"'{self.name}' was not made from a directory; {reason}") from error
            raise

    def export(self, destination: PathLike, *, force: bool = False) -> int:
        """Writes all of its files into a directory that is new or empty, or over what is there (`force`). Returns how many
        files that were."""
        place = _checks.host_path("destination", destination)
        return self._vault.export("@", "/", place, force)

    def explain(self, path: TreePath) -> Explanation:
        """Which rule decides about a path.

        >>> sandbox.explain("greeting.txt").level
        'write'
        """
        place = self.files.path_in_tree(path)
        level, deciding = self._seen.explain(place)
        return Explanation(place, level, None if deciding is None else Rule(*deciding))

    def info(self) -> SandboxInfo:
        """What it holds."""
        return _info(self._vault.info())

    # Its end

    @property
    def exists(self) -> bool:
        """Whether its files are there. Those of a sandbox that was discarded, here or elsewhere, are not."""
        return not self._is_gone and self._store.has_vault(self.name)

    @property
    def is_running(self) -> bool:
        """Whether it takes commands."""
        return self._open.is_open

    def close(self) -> None:
        """Ends everything in it, and discards its changes, unless it was made with `keep=True`."""
        self._end(discard=not self._settings.keep)

    def discard(self) -> None:
        """Ends everything in it, and discards its changes in any case."""
        self._end(discard=True)

    def _end(self, *, discard: bool) -> None:
        deletes = discard and not self._is_gone
        # Before its commands end: those who wait for them learn then that the files go, too.
        self._is_gone = self._is_gone or discard
        try:
            for session in builtins.list(self._sessions):
                session.close()
            _lifecycle.closed(self)
            # Others of this process keep it serving the vault, and nobody waits for them here.
            self._open.close(self.vault_key, not _lifecycle.is_shared(self))
            if deletes:
                self._vault.delete(True)
        except BaseException:
            self._is_gone = self._is_gone and not deletes
            raise
        self._held = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _made(kind: type[Sandbox], vault: _native.Vault, settings: _Settings) -> Sandbox:
    """A sandbox on something that was made for it, and that is not left behind."""
    try:
        return kind(vault, settings)
    except BaseException:
        vault.delete(True)
        raise


def _settings(
    preset: str | Preset | None,
    permissions: Iterable[RuleLike] | None,
    runtime: RuntimeType,
    image: str | None,
    resources: ResourceLimits | None,
    env: Mapping[str, str] | None,
    network: str | Sequence[str],
    keep: bool,
    approve: Approve | None,
    principal: str | None,
    store: PathLike | None,
) -> _Settings:
    _checks.instance("runtime", runtime, RuntimeType)
    _checks.instance("resources", resources, ResourceLimits, or_none=True)
    _checks.function("approve", approve)
    if runtime is RuntimeType.DOCKER and image is None:
        raise InvalidInputError("a container needs a system of its own: give it an image=")
    rules = None if preset is None else texts(preset)
    if permissions is not None:
        rules = (rules or []) + texts(permissions)
    settings = _Settings(
        rules=rules,
        env=dict(_checks.variables(env)),
        network=network,
        resources=resources or ResourceLimits(),
        approve=approve,
        principal=_checks.optional("principal", principal),
        keep=keep,
        store=_lifecycle.home_of(store),
        image=_checks.optional("image", image),
        runtime=runtime,
    )
    _native.check_options(settings.options())
    return settings


def command_options(
    command: Command,
    timeout: float | None,
    env: Mapping[str, str] | None,
    cwd: PathLike | None,
    stdin: str | bytes | None,
) -> _native.CommandOptions:
    """One command, checked."""
    _checks.seconds("timeout", timeout)
    return {
        "command": _checks.command(command),
        "cwd": None if cwd is None else _checks.optional("cwd", os.fspath(cwd)),
        "env": _checks.variables(env),
        "stdin": None if stdin is None else _checks.data(stdin),
        "timeout": timeout,
    }


def failure(result: RunResult) -> CommandExecutionError:
    """The exception for a command that failed."""
    details: dict[str, Any] = {
        "exit_code": result.exit_code,
        "stdout": result.stdout,
        "stderr": result.stderr,
    }
    if limits := result.usage.limits_hit:
        return ResourceLimitExceededError(
            f"the command reached a limit ({', '.join(limits)}) and ended with status {result.exit_code}",
            limits=limits,
            **details,
        )
    last = result.stderr.strip().rsplit("\n", 1)[-1]
    return CommandExecutionError(
        f"the command ended with status {result.exit_code}{f': {last}' if last else ''}", **details
    )


def raise_conflicts(conflicts: Sequence[tuple[str, str]]) -> None:
    """Refuses a merge."""
    from .errors import ConflictError

    paths = ", ".join(path for path, _ in conflicts)
    raise ConflictError(f"both sides changed {paths}", conflicts=tuple(conflicts))


def _info(vault: _native.VaultInfo) -> SandboxInfo:
    return SandboxInfo(vault.name, vault.files, vault.bytes, vault.created)


def checkpoint_of(one: _native.Checkpoint) -> Checkpoint:
    """A checkpoint as it is shown."""
    return Checkpoint(one.name, one.time, one.message, one.automatic)


def _free_name(base: str) -> str:
    return f"{base[:40]}-{secrets.token_hex(3)}"
