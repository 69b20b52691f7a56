"""Every argument of every public method, with values that it cannot mean.

A value of the wrong type is a `TypeError`, everything else an `AgentVFSError`, and neither changes anything. A method that
is new is missing in a table, and the tests say so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agentvfs
from agentvfs import (
    AVFS,
    AgentVFSError,
    AsyncSandbox,
    MemoryStorageAdapter,
    ProvidedNode,
    ResourceLimits,
    Rule,
    Sandbox,
    SandboxShell,
    VirtualFileSystem,
)

THING = object()

#: What an argument of each kind cannot be.
BAD: dict[str, list[Any]] = {
    "path": [None, 5, 1.5, THING, [], "a/../../b", "nul\0", "n" * 256, "d/" * 5000],
    "host path": [None, 5, THING, "", "nul\0", "/no/such/place/at/all"],
    "new host path": [None, 5, THING, "", "nul\0", "/proc/no/such"],
    "store": [5, THING, "", "nul\0", "/proc/no/such"],
    "data": [None, 5, 1.5, THING, ["x"], {"x": 1}],
    "text": [None, 5, b"x", THING, ["x"]],
    "name": [5, THING, "", "nul\0", "with space", "../up", "n" * 300],
    "known name": [None, 5, THING, "", "nul\0", "../up", "no-such-name"],
    "revision": [5, THING, "", "nul\0", "no-such-name", "@~99999"],
    "count": ["1", 1.5, THING, -1, 2**70],
    "depth": ["1", 1.5, THING, 0, -1, 2**70],
    "message": [5, THING, "", "nul\0"],
    "positive": [None, "1", 1.5, THING, 0, -1, 2**70],
    "version": [5, THING, "", "1", "nul\0"],
    "mode": [None, "7", 1.5, THING, -1, 0o10000, 2**70],
    "patience": ["1", THING, -1, float("nan"), 1e300],
    "seconds": ["1", THING, 0, -1, float("nan"), float("inf"), 1e300],
    "command": [None, 5, THING, "", [], "nul\0", ["nul\0"], [""], [5], [None], b"true", "lone \udcff"],
    "command or nothing": [5, THING, "", [], "nul\0", ["nul\0"], [""], [5], b"true"],
    "env": [5, "A=1", {"A": 1}, {1: "a"}, {"": "x"}, {"A=B": "x"}, {"A": "nul\0"}, {"A\0": "x"}],
    "stdin": [5, 1.5, THING, ["x"]],
    "function": [5, "x", THING],
    "size": [5, THING, (1,), (0, 80), (-1, 80), (2**70, 1), ("a", "b")],
    "signal": [None, "KILL", 1.5, THING, -1, 0, 1000, 2**70],
    "rules": [5, THING, ["x"], [5], ["/a=all"], [{"pattern": "/a"}], [{"pattern": "/a", "permission": 7}]],
    "preset": [5, THING, "no-such-preset"],
    "network": [None, 5, THING, [5], "no words", ["a b"]],
    "resources": [5, THING, "2G", {"memory": 1}],
    "runtime": [None, 5, "local"],
    "choice": [None, 5, THING, "", "no-such-choice"],
    "mapping": [None, 5, THING, ["x"], "x"],
    "regex": [None, 5, THING, "(", "["],
    "glob": [None, 5, THING, "["],
    "glob or nothing": [5, THING, "["],
    "words": [5, THING, [5]],
    "object": [None, 5, "x", THING],
}


@dataclass(frozen=True)
class Kind:
    """An argument: what it is in a call that works, and which values are bad for it."""

    good: Any
    bad: str


#: For each method its arguments by name; one whose name begins with a star is given by position.
Table = Mapping[str, Mapping[str, Kind]]


def arguments(
    kinds: Mapping[str, Kind], changed: str = "", value: Any = None
) -> tuple[list[Any], dict[str, Any]]:
    words: list[Any] = []
    named: dict[str, Any] = {}
    for name, kind in kinds.items():
        given = value if name == changed else kind.good
        if name.startswith("*"):
            words.append(given)
        elif given is not ...:
            named[name] = given
    return words, named


def methods(kind: type) -> set[str]:
    """The public methods that take anything."""
    found: set[str] = set()
    for name in dir(kind):
        member = getattr(kind, name)
        if name.startswith("_") or not callable(member) or inspect.isclass(member):
            continue
        try:
            takes = [one for one in inspect.signature(member).parameters if one not in ("self", "cls")]
        except ValueError:
            takes = ["unknown"]
        if takes:
            found.add(name)
    return found


def refuse_all(
    owner: Any, table: Table, state: Callable[[], object], undo: Callable[[object], object] | None = None
) -> list[str]:
    """The calls with one bad argument that were not refused, or refused by another exception, or that changed something."""
    wrong: list[str] = []
    for method, kinds in table.items():
        before = state()
        for name, kind in kinds.items():
            for value in BAD[kind.bad]:
                words, named = arguments(kinds, name, value)
                shown = f"{method}({name}={str(value)[:40]!r})"
                try:
                    answer = getattr(owner, method)(*words, **named)
                except (AgentVFSError, TypeError) as error:
                    if not str(error):
                        wrong.append(f"{shown}: an exception without words")
                except BaseException as error:
                    wrong.append(f"{shown}: {type(error).__mro__[0].__name__}: {error}")
                else:
                    wrong.append(f"{shown}: {str(answer)[:80]!r}")
                    if undo is not None:
                        undo(answer)
        after = state()
        if after != before:
            wrong.append(f"{method}: something was changed: {before} is {after} now")
            before = after
    return wrong


PATH, DATA, FUNCTION, COUNT = (
    Kind("/d/a", "path"),
    Kind("text", "data"),
    Kind(print, "function"),
    Kind(0, "count"),
)
#: A path is made by the calls that work here, and none of them comes to that.
VFS: Table = {
    "write_file": {"path": PATH, "data": DATA, "expected_version": Kind(..., "count")},
    "append_file": {"path": PATH, "data": DATA, "expected_version": Kind(..., "count")},
    "write_text": {"path": PATH, "data": Kind("x", "text"), "encoding": Kind(..., "choice")},
    "read_file": {"path": PATH},
    "read_text": {"path": PATH, "encoding": Kind(..., "choice"), "errors": Kind(..., "choice")},
    "read_bytes": {"path": PATH, "offset": COUNT, "length": COUNT},
    "ls": {"path": PATH},
    "listdir": {"path": PATH},
    "walk": {"path": PATH},
    "tree": {"path": PATH, "depth": COUNT},
    "stat": {"path": PATH},
    "exists": {"path": PATH},
    "is_file": {"path": PATH},
    "is_dir": {"path": PATH},
    "mkdir": {"path": PATH},
    "touch": {"path": PATH},
    "move": {"source": PATH, "target": Kind("/new", "path")},
    "rename": {"source": PATH, "target": Kind("/new", "path")},
    "copy": {"source": PATH, "target": Kind("/new", "path")},
    "remove": {"path": PATH},
    "symlink": {"target": Kind("a", "link"), "path": Kind("/new", "path")},
    "readlink": {"path": PATH},
    "chmod": {"path": PATH, "mode": Kind(0o600, "mode")},
    "set_mtime": {"path": PATH, "nanoseconds": Kind(1, "time")},
    "set_metadata": {"path": PATH, "metadata": Kind({"a": "b"}, "text mapping")},
    "restore": {"snapshot": Kind(..., "object")},
    "changes": {"since": Kind(..., "object")},
    "unmount_storage": {"path": PATH},
    "sync_storage": {"path": PATH},
    "unregister_hook": {"hook": Kind(..., "object")},
    "export": {"destination": Kind("/proc/no", "new host path"), "path": Kind(..., "path")},
    "import_": {"source": Kind(__file__, "host path"), "path": PATH},
    "hydrate": {"data": Kind(b"", "data")},
    "with_view": {"view": Kind(..., "object")},
    "set_policy": {"path": PATH, "policy": Kind(None, "policy")},
    "get_policy": {"path": PATH},
    "mount": {"path": Kind("/new", "path"), "node": Kind("x", "node")},
    "mount_file": {
        "path": Kind("/new", "path"),
        "provider": FUNCTION,
        "ttl": Kind(1.0, "patience"),
    },
    "mount_directory": {
        "path": Kind("/new", "path"),
        "provider": Kind({}, "node mapping"),
        "ttl": Kind(1.0, "patience"),
    },
    "mount_storage": {"path": Kind("/new", "path"), "adapter": Kind(MemoryStorageAdapter(), "object")},
    "register_write_hook": {"prefix": PATH, "hook": FUNCTION},
    "register_path_hook": {"prefix": PATH, "hook": FUNCTION},
}
BAD.update(
    {
        "link": [None, 5, THING, "", "nul\0"],
        "time": [None, "1", 1.5, THING, 2**200],
        "text mapping": [None, 5, THING, ["x"], {"a": 1}, {1: "a"}],
        "policy": [5, "x", THING],
        "node": [None, 5, THING, {"a": 5}, {"a/b": "x"}, {"": "x"}, {"..": "x"}],
        "node mapping": [None, 5, THING, "x", {"a": 5}, {"a/b": "x"}],
    }
)


def test_every_method_of_a_filesystem_refuses_bad_input() -> None:
    vfs = VirtualFileSystem()
    vfs.write_file("/d/a", "old")
    vfs.set_metadata("/d/a", {"k": "v"})

    def state() -> object:
        return [
            (
                one.path,
                one.kind,
                one.mode,
                one.mtime,
                one.version,
                vfs.is_file(one.path) and vfs.read_file(one.path),
            )
            for one in vfs.walk("/")
        ]

    assert methods(VirtualFileSystem) - VFS.keys() == set()
    assert "\n".join(refuse_all(vfs, VFS, state)) == ""


def test_a_filesystem_and_what_belongs_to_it_are_not_made_of_bad_input() -> None:
    made: list[tuple[Callable[..., object], dict[str, Kind]]] = [
        (VirtualFileSystem, {"max_bytes": Kind(1, "count"), "max_entries": Kind(1, "count")}),
        (ProvidedNode.file, {"content": Kind(None, "content"), "ttl": Kind(None, "patience")}),
        (ProvidedNode.directory, {"children": Kind({}, "mapping"), "ttl": Kind(None, "patience")}),
    ]
    BAD["content"] = [None, 5, THING]
    for make, kinds in made:

        class Owner:
            call = staticmethod(make)

        assert "\n".join(refuse_all(Owner, {"call": kinds}, lambda: None)) == ""


SHELL: Table = {
    "exec": {"script": Kind("true", "script"), "stdin": Kind(b"", "data")},
    "register_command": {"name": Kind("own", "command name"), "command": FUNCTION},
    "get_variable": {"name": Kind("x", "variable")},
    "set_variable": {"name": Kind("x", "variable"), "value": Kind("y", "value")},
}
BAD.update(
    {
        "script": [None, 5, b"x", THING, ["true"], "lone \udcff"],
        "command name": [None, 5, THING, "", "with space", "a/b", "nul\0"],
        "variable": [None, 5, THING, "", "1x", "a b", "a=b", "nul\0"],
        "value": [None, 5, THING, "nul\0"],
        "set of words": [5, THING, [5]],
        "above 0": ["1", 1.5, THING, -1, 2**70],
    }
)


def test_every_method_of_a_shell_refuses_bad_input() -> None:
    vfs = VirtualFileSystem()
    shell = SandboxShell(vfs, env={"x": "1"})

    def state() -> object:
        return shell.cwd, shell.get_variable("x"), vfs.usage, shell.exec("own").exit_code

    assert methods(SandboxShell) - SHELL.keys() == set()
    assert "\n".join(refuse_all(shell, SHELL, state)) == ""
    made = {
        "vfs": Kind(vfs, "object"),
        "view": Kind(None, "policy"),
        "allowed_commands": Kind(None, "set of words"),
        "max_output_bytes": Kind(None, "above 0"),
        "env": Kind(None, "env"),
        "cwd": Kind(None, "directory"),
        "timeout": Kind(1.0, "seconds"),
        "max_commands": Kind(1, "above 0"),
        "max_loop_rounds": Kind(1, "above 0"),
        "max_depth": Kind(1, "above 0"),
        "commands": Kind(None, "own commands"),
        "bridge": Kind(None, "function"),
    }
    BAD["directory"] = [5, THING, "", "nul\0", "/no/such/place"]
    BAD["own commands"] = [5, THING, ["x"], {"x": 5}, {"": print}, {5: print}]

    class Owner:
        call = SandboxShell

    assert "\n".join(refuse_all(Owner, {"call": made}, lambda: vfs.usage)) == ""


RUN = {
    "command": Kind("true", "command"),
    "timeout": Kind(None, "seconds"),
    "env": Kind(None, "env"),
    "cwd": Kind(None, "cwd"),
    "stdin": Kind(None, "stdin"),
    "on_stdout": Kind(None, "function"),
    "on_stderr": Kind(None, "function"),
}
BAD["cwd"] = [5, THING, [], "nul\0", "/no/such/place", "greeting.txt"]

MADE = {
    "preset": Kind("agent-safe", "preset"),
    "permissions": Kind(None, "rules"),
    "runtime": Kind(agentvfs.RuntimeType.LOCAL, "runtime"),
    "resources": Kind(None, "resources"),
    "env": Kind(None, "env"),
    "network": Kind("none", "network"),
    "name": Kind(None, "name"),
    "approve": Kind(None, "function"),
    "principal": Kind(None, "principal"),
    "store": Kind(None, "store"),
}
# What is at that place is not looked at: the command does not run.
BAD["place inside"] = [5, THING, [], "", "nul\0"]
BAD["principal"] = [5, THING, "", "nul\0"]

SANDBOX: Table = {
    "run": RUN,
    "decide": {"command": RUN["command"], "cwd": Kind(None, "place inside")},
    "approval": {"approval_id": Kind("a", "known name")},
    "read_file": {"path": Kind("greeting.txt", "path")},
    "write_file": {"path": Kind("new", "path"), "data": DATA},
    "list_files": {"path": Kind("/", "path"), "depth": Kind(1, "depth")},
    "checkpoint": {"name": Kind(None, "name"), "message": Kind(None, "message")},
    "restore": {"name": Kind("here", "known name")},
    "diff": {"since": Kind(None, "revision")},
    "fork": {"count": Kind(1, "positive")},
    "apply": {
        "paths": Kind((), "paths"),
        "on_conflict": Kind("refuse", "choice"),
        "allow": Kind((), "paths"),
    },
    "export": {"destination": Kind("/proc/no", "new host path")},
    "explain": {"path": Kind("x", "path")},
    "from_local": {"path": Kind(str(Path(__file__).parent), "host path"), **MADE},
    "from_vault": {"vault": Kind("here", "known name"), **MADE},
    "from_git": {
        "repository": Kind("/", "host path"),
        "revision": Kind("HEAD", "revision"),
        **MADE,
    },
    "connect": {
        "name": Kind("no-such", "known name"),
        **{name: MADE[name] for name in ("env", "network", "store")},
    },
    "list": {"store": Kind(None, "store")},
}
BAD["paths"] = [None, 5, THING, [5], ["nul\0"]]
#: They take a token of the package, or answer for a type checker.
INNER = {"run_with", "start_native", "exec_with", "pieces", "has_ended", "path_in_tree"}


def sandbox_state(sandbox: Sandbox, project: Path) -> object:
    return (
        [(one.path, one.size, one.mode) for one in sandbox.files.list("/", 100)],
        [one.name for one in sandbox.checkpoints() if not one.automatic],
        sorted(one.name for one in Sandbox.list()),
        sorted(str(one) for one in project.rglob("*")),
        sandbox.is_running,
    )


def test_every_method_of_a_sandbox_refuses_bad_input(sandbox: Sandbox, project: Path) -> None:
    sandbox.checkpoint("here")
    assert methods(Sandbox) - SANDBOX.keys() - INNER == set()
    wrong = refuse_all(sandbox, SANDBOX, lambda: sandbox_state(sandbox, project))
    assert "\n".join(wrong) == ""


FILES: Table = {
    "read": {
        "path": Kind("greeting.txt", "path"),
        "format": Kind("text", "choice"),
        "offset": COUNT,
        "length": COUNT,
    },
    "write": {"path": Kind("new", "path"), "data": DATA, "expected_version": Kind(None, "version")},
    "write_files": {"files": Kind({}, "files")},
    "edit": {
        "path": Kind("greeting.txt", "path"),
        "old": Kind("hello", "text"),
        "new": Kind("bye", "text"),
    },
    "list": {"path": Kind("/", "path"), "depth": Kind(1, "depth")},
    "glob": {"pattern": Kind("*", "glob"), "path": Kind("/", "path")},
    "grep": {
        "pattern": Kind("x", "regex"),
        "path": Kind("/", "path"),
        "glob": Kind(None, "glob or nothing"),
        "limit": COUNT,
    },
    "exists": {"path": Kind("x", "path")},
    "get_info": {"path": Kind("greeting.txt", "path")},
    "make_dir": {"path": Kind("dir", "path")},
    "rename": {"old": Kind("greeting.txt", "path"), "new": Kind("x", "path")},
    "copy": {"source": Kind("greeting.txt", "path"), "target": Kind("x", "path")},
    "remove": {"path": Kind("greeting.txt", "path")},
    "set_mode": {"path": Kind("greeting.txt", "path"), "mode": Kind(0o600, "mode")},
    "watch_dir": {"path": Kind("/", "path")},
}
BAD["files"] = [None, 5, THING, ["x"], {"a": 5}, {5: "a"}, {"ok": "x", "greeting.txt/below": "x"}]


def test_every_method_of_the_files_refuses_bad_input(sandbox: Sandbox, project: Path) -> None:
    assert methods(agentvfs.Files) - FILES.keys() - INNER == set()
    wrong = refuse_all(sandbox.files, FILES, lambda: sandbox_state(sandbox, project))
    assert "\n".join(wrong) == ""


def test_every_method_of_commands_and_terminals_refuses_bad_input(sandbox: Sandbox, project: Path) -> None:
    started = {name: RUN[name] for name in ("command", "timeout", "env", "cwd")}
    pid = {"pid": Kind(1, "pid")}
    BAD["pid"] = [None, "1", THING, -1, 2**70]
    tables: list[tuple[agentvfs.Commands | agentvfs.Pty, Table]] = [
        (sandbox.commands, {"run": {"background": Kind(True, "none"), **started}, "connect": pid}),
        (
            sandbox.pty,
            {
                "create": {
                    "size": Kind((24, 80), "size"),
                    **started,
                    "command": Kind(None, "command or nothing"),
                    "on_data": Kind(None, "function"),
                },
                "resize": {**pid, "size": Kind((24, 80), "size")},
                "send_stdin": {**pid, "data": DATA},
            },
        ),
    ]
    BAD["none"] = []
    for owner, table in tables:
        assert methods(type(owner)) - table.keys() == {"kill"}
        assert owner.kill(12345) is False
        assert "\n".join(refuse_all(owner, table, lambda: sandbox_state(sandbox, project))) == ""
    handle = sandbox.commands.run("cat", background=True)
    shell = sandbox.pty.create()
    talking: Table = {
        "wait": {
            "timeout": Kind(0.01, "patience"),
            "on_stdout": Kind(None, "function"),
            "on_stderr": Kind(None, "function"),
        },
        "send_stdin": {"data": DATA},
        "send_signal": {"number": Kind(15, "signal")},
        "resize": {"size": Kind((24, 80), "size")},
    }
    assert methods(type(shell)) - talking.keys() - INNER == set()
    for one in (handle, shell):
        known = {name: kinds for name, kinds in talking.items() if hasattr(one, name)}
        assert "\n".join(refuse_all(one, known, sandbox.commands.list)) == ""
        assert one.is_running
        one.kill()


def test_every_method_of_a_session_refuses_bad_input(sandbox: Sandbox, project: Path) -> None:
    with sandbox.session() as session:
        table: Table = {"exec": {name: RUN[name] for name in RUN if name not in ("env", "cwd")}}
        assert methods(agentvfs.Session) - table.keys() - INNER == set()
        wrong = refuse_all(session, table, lambda: (session.is_open, sandbox_state(sandbox, project)))
        assert "\n".join(wrong) == ""


VAULT = {"name": Kind("known", "known name")}
AVFS_TABLE: Table = {
    "create_vault": {
        "name": Kind("other", "name"),
        "from_directory": Kind(None, "place"),
        "from_git": Kind(None, "place"),
    },
    "fork_vault": {"*name": Kind("known", "known name"), "*fork": Kind("other", "name")},
    "use": VAULT,
    "rename_vault": {"name": Kind("known", "known name"), "to": Kind("other", "name")},
    "delete_vault": {"name": Kind("unknown", "known name")},
    "export_vault": {"name": Kind("known", "known name"), "file": Kind("/proc/no", "new host path")},
    "import_image": {"file": Kind(__file__, "host path"), "name": Kind(None, "name")},
    "import_vault": {"file": Kind(__file__, "host path"), "name": Kind(None, "name")},
    "read_file": {"path": Kind("a", "path")},
    "write_file": {"path": Kind("new", "path"), "data": DATA, "expected_version": Kind(None, "version")},
    "list_files": FILES["list"],
    "find": FILES["glob"],
    "grep": {name: FILES["grep"][name] for name in ("pattern", "path")},
    "search": {"words": Kind("x", "text"), "limit": COUNT},
    "checkpoint_save": {"name": Kind("here", "checkpoint name"), "message": Kind(None, "message")},
    "checkpoint_restore": {"name": Kind("here", "known name")},
    "checkpoint_delete": {"name": Kind("no-such", "known name")},
    "log": {"limit": COUNT},
    "diff": {"since": Kind(None, "revision"), "until": Kind("@", "revision")},
    "checkout": {"*revision": Kind("here", "known name"), "*path": Kind("a", "path")},
    "revert": {"*path": Kind("a", "path")},
    "merge": {"*name": Kind("known", "known name"), "on_conflict": Kind("mark", "choice")},
    "exec": {
        **RUN,
        "network": Kind("none", "network"),
        "resources": Kind(None, "resources"),
    },
    "proxy_exec": {"*command": Kind("true", "word"), "timeout": Kind(None, "seconds")},
    "explain": {"path": Kind("a", "path")},
    "set_quota": {"max_bytes": COUNT, "max_files": COUNT},
    "audit": {"after": COUNT, "limit": COUNT},
    "mount": {"directory": Kind("/no", "host path")},
}
BAD.update(
    {
        "place": [5, THING, "", "nul\0", "/no/such/place/at/all"],
        "checkpoint name": [None, *BAD["name"]],
        "word": [None, 5, THING, "", "nul\0"],
    }
)


def test_every_method_of_the_vaults_refuses_bad_input(project: Path) -> None:
    avfs = AVFS("known")
    avfs.create_vault("known", from_directory=project)
    avfs.write_file("a", "x")
    avfs.checkpoint_save("here")

    def state() -> object:
        return (
            [(one.name, one.files, one.bytes, one.max_bytes) for one in avfs.list_vaults()],
            [(one.number, one.snapshot) for one in avfs.log()],
            [one.name for one in avfs.checkpoint_list()],
            avfs.name,
        )

    assert methods(AVFS) - AVFS_TABLE.keys() == set()
    assert "\n".join(refuse_all(avfs, AVFS_TABLE, state)) == ""


def rule_alone(pattern: str, level: str) -> object:
    return agentvfs.explain("/a", [Rule(pattern, level)])


def test_rules_and_limits_refuse_bad_input() -> None:
    table: Table = {
        "rule": {"pattern": Kind("/a", "pattern"), "level": Kind("read", "choice")},
        "explain": {"path": Kind("/a", "path"), "rules": Kind("read-only", "rules")},
        "extend_preset": {
            "base": Kind("read-only", "preset"),
            "additions": Kind((), "rules"),
            "overrides": Kind((), "rules"),
        },
        "get_preset": {"name": Kind("read-only", "known name")},
        "register_preset": {"name": Kind("mine", "known preset"), "preset": Kind((), "rules")},
        "limits": {
            "memory": Kind(None, "memory"),
            "processes": Kind(None, "limit"),
            "cpu_seconds": Kind(None, "seconds"),
            "timeout": Kind(None, "seconds"),
            "output_bytes": Kind(None, "limit"),
        },
    }
    BAD["pattern"] = [None, 5, THING, "", "nul\0"]
    BAD["known preset"] = [None, 5, THING, "", "read-only"]
    BAD["memory"] = [1.5, THING, 0, -1, "", "much", "-1G", "99999999999T"]
    BAD["limit"] = ["1", 1.5, THING, 0, -1, 2**70]

    class Owner:
        rule = staticmethod(rule_alone)
        explain = staticmethod(agentvfs.explain)
        extend_preset = staticmethod(agentvfs.extend_preset)
        get_preset = staticmethod(agentvfs.get_preset)
        register_preset = staticmethod(agentvfs.register_preset)
        limits = ResourceLimits

    assert "\n".join(refuse_all(Owner, table, agentvfs.list_presets)) == ""


def test_what_is_awaited_has_the_same_methods(sandbox: Sandbox) -> None:
    pairs: list[tuple[object, object]] = [
        (Sandbox, AsyncSandbox),
        (agentvfs.Files, agentvfs.AsyncFiles),
        (agentvfs.Session, agentvfs.AsyncSession),
        (agentvfs.CommandHandle, agentvfs.AsyncCommandHandle),
    ]
    for one, other in pairs:
        names = {name for name in dir(one) if not name.startswith("_")} - INNER - {"vault_key"}
        assert names - set(dir(other)) == set(), other


def test_everything_shows_what_it_is(sandbox: Sandbox, tmp_path: Path) -> None:
    vfs = VirtualFileSystem()
    vfs.write_file("/a", "x")
    contexts: list[object] = []

    def provider(context: agentvfs.NodeContext) -> str:
        contexts.append(context)
        return "x"

    vfs.mount_file("/dynamic", provider)
    vfs.read_file("/dynamic")
    inbox, waiting = agentvfs.InboxRecorder().attach(vfs, "/"), AsyncSandbox(sandbox)
    avfs = AVFS("shown")
    avfs.create_vault("shown")
    vfs.write_file("/b", "y")
    shown: list[object] = [
        *contexts, *inbox.events, *vfs.ls("/"), vfs, vfs.stat("/a"), vfs.snapshot(), inbox, SandboxShell(vfs),
        vfs.register_path_hook("/", print), MemoryStorageAdapter(), agentvfs.FileSystemAdapter(tmp_path),
        agentvfs.NodePolicy(), agentvfs.VisibilityView(), ProvidedNode.file("x"), ResourceLimits(),
        sandbox, sandbox.files, sandbox.commands, sandbox.pty, sandbox.files.watch_dir("/"), sandbox.run("true"),
        sandbox.diff(), sandbox.info(), sandbox.checkpoint(), sandbox.explain("/"), sandbox.files.list("/")[0],
        waiting, waiting.files, waiting.commands, waiting.pty, avfs, avfs.log()[0], avfs.audit()[0], avfs.info(),
        agentvfs.get_preset("read-only"), avfs.files,
    ]  # fmt: skip
    handle = sandbox.commands.run("cat", background=True)
    with sandbox.session() as session:
        shown += [session, handle, agentvfs.AsyncSession(session)]
        handle.kill()
    place = tmp_path / "mounted"
    place.mkdir()
    mount = avfs.mount(place)
    shown.append(mount)
    mount.close()
    for one in shown:
        assert " object at 0x" not in repr(one) and type(one).__name__.lstrip("_") in repr(one), repr(one)
