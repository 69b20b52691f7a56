"""Checkpoints, forks, and the way back to the directory."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from agentvfs import (
    ChangedFile,
    Conflict,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    Rule,
    Sandbox,
    SandboxNotRunningError,
    VaultNotFoundError,
    extend_preset,
)
from agentvfs.rules import RuleLike


def test_a_checkpoint_can_be_restored(sandbox: Sandbox) -> None:
    sandbox.checkpoint("clean", "before the mess")
    sandbox.run("rm *; echo x > new.txt")
    sandbox.restore("clean")
    assert sandbox.run("ls").stdout == "greeting.txt\nnotes.md\n"
    saved = next(one for one in sandbox.checkpoints() if one.name == "clean")
    assert (saved.message, saved.automatic) == ("before the mess", False)
    with pytest.raises(NotFoundError):
        sandbox.restore("no-such-checkpoint")


def test_a_diff_tells_changes_and_is_a_patch(sandbox: Sandbox, project: Path) -> None:
    assert not sandbox.diff()
    sandbox.run("echo bye > greeting.txt; git mv x y 2>/dev/null; rm notes.md")
    diff = sandbox.diff()
    assert diff.changes == (ChangedFile("/greeting.txt", "modified"), ChangedFile("/notes.md", "deleted"))
    subprocess.run(["git", "apply", "-"], cwd=project, input=diff.patch, text=True, check=True)
    assert (project / "greeting.txt").read_text() == "bye\n"
    assert not (project / "notes.md").exists()


def test_a_diff_since_a_checkpoint_has_only_what_came_later(sandbox: Sandbox) -> None:
    sandbox.write_file("one", "1")
    sandbox.checkpoint("middle")
    sandbox.write_file("two", "2")
    assert [change.path for change in sandbox.diff("middle").changes] == ["/two"]


def test_apply_writes_to_the_directory_and_undo_takes_it_back(sandbox: Sandbox, project: Path) -> None:
    sandbox.run("echo bye > greeting.txt; echo new > new.txt; rm notes.md")
    assert (project / "greeting.txt").read_text() == "hello\n"
    applied = sandbox.apply()
    assert sorted(applied.files) == [
        ("/greeting.txt", "replaced"),
        ("/new.txt", "added"),
        ("/notes.md", "removed"),
    ]
    assert (project / "new.txt").read_text() == "new\n"
    assert sandbox.undo() == "apply"
    assert sorted(one.name for one in project.iterdir()) == ["greeting.txt", "notes.md"]
    assert sandbox.read_file("greeting.txt") == "bye\n"
    sandbox.undo()
    assert sandbox.read_file("greeting.txt") == "hello\n"


def test_apply_merges_with_what_changed_meanwhile(sandbox: Sandbox, project: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(20))
    (project / "greeting.txt").write_text(lines)
    with Sandbox.from_local(project, "full-access") as other:
        other.run("sed -i 's/line 2$/mine/' greeting.txt")
        (project / "greeting.txt").write_text(lines.replace("line 18", "yours"))
        assert other.conflicts() == []
        assert other.apply().files == (("/greeting.txt", "merged"),)
    text = (project / "greeting.txt").read_text()
    assert "mine" in text and "yours" in text


def test_a_conflict_changes_nothing_until_it_is_decided(sandbox: Sandbox, project: Path) -> None:
    sandbox.run("echo mine > greeting.txt; echo new > new.txt")
    (project / "greeting.txt").write_text("yours\n")
    assert sandbox.conflicts() == [Conflict("/greeting.txt", "lines")]
    with pytest.raises(ConflictError) as conflict:
        sandbox.apply()
    assert list(conflict.value.conflicts) == [("/greeting.txt", "lines")]
    assert not (project / "new.txt").exists()
    sandbox.apply(["new.txt"])
    assert (project / "new.txt").exists()
    sandbox.apply(on_conflict="theirs")
    assert (project / "greeting.txt").read_text() == "mine\n"
    with pytest.raises(InvalidInputError, match="on_conflict"):
        sandbox.apply(on_conflict="whatever")


def test_forks_are_independent(sandbox: Sandbox) -> None:
    sandbox.run("echo base > base.txt")
    forks = sandbox.fork(3)
    try:
        for number, fork in enumerate(forks):
            fork.run(f"echo {number} > mine.txt")
        assert [fork.read_file("mine.txt") for fork in forks] == ["0\n", "1\n", "2\n"]
        assert [fork.read_file("base.txt") for fork in forks] == ["base\n"] * 3
        assert not sandbox.files.exists("mine.txt")
    finally:
        for fork in forks:
            fork.close()
    with pytest.raises(InvalidInputError):
        sandbox.fork(0)


def test_the_best_fork_is_applied(sandbox: Sandbox, project: Path) -> None:
    for number, fork in enumerate(sandbox.fork(2)):
        with fork:
            fork.run(f"echo {number} > greeting.txt")
            if number == 1:
                fork.apply()
    assert (project / "greeting.txt").read_text() == "1\n"


def test_a_sandbox_that_ends_leaves_nothing_unless_it_is_kept(project: Path) -> None:
    with Sandbox.from_local(project, "full-access") as gone:
        gone.write_file("x", "1")
    with pytest.raises(VaultNotFoundError):
        Sandbox.connect(gone.name)
    with Sandbox.from_local(project, "full-access", name="attempt", keep=True) as kept:
        kept.write_file("x", "1")
    assert kept.name.endswith("/attempt")
    assert kept.name in [one.name for one in Sandbox.list()]
    with Sandbox.connect(kept.name) as again:
        assert again.run("cat x").stdout == "1"
        assert again.explain("x").level == "write"
        again.discard()
    with pytest.raises(VaultNotFoundError):
        Sandbox.connect(kept.name)


def test_two_sandboxes_on_one_vault_close_in_any_order(project: Path) -> None:
    first = Sandbox.from_local(project, "full-access", keep=True)
    second = Sandbox.connect(first.name)
    session = first.session()
    second.write_file("x", "1")
    assert session.exec("cat x").stdout == "1"
    first.close()
    assert second.run("cat x; echo 2 > x").stdout == "1"
    second.close()
    with Sandbox.connect(first.name) as third:
        assert third.read_file("x") == "2\n"
        third.discard()


def test_a_kept_sandbox_sees_what_it_saw_before(project: Path) -> None:
    rules = ["/notes.md=none"]
    with Sandbox.from_local(project, "read-only", permissions=rules, name="narrow", keep=True) as kept:
        name = kept.name
    with Sandbox.connect(name) as again:
        assert not again.files.exists("notes.md")
        assert not again.run("cat notes.md").success
        again.discard()


def test_files_are_exported(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.write_file("deep/new.txt", "x")
    assert sandbox.export(tmp_path / "out") == 3
    assert (tmp_path / "out" / "deep" / "new.txt").read_text() == "x"


def test_a_commit_is_a_sandbox_without_a_directory(project: Path, tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        subprocess.run(["git", *identity, *words], cwd=project, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    (project / "greeting.txt").write_text("later\n")
    with Sandbox.from_git(project, preset="full-access") as sandbox:
        assert sandbox.run("pwd; cat greeting.txt").stdout == "/workspace\nhello\n"
        sandbox.write_file("greeting.txt", "mine\n")
        assert [change.path for change in sandbox.diff().changes] == ["/greeting.txt"]
        with pytest.raises(InvalidInputError, match="export"):
            sandbox.apply()
    with pytest.raises(InvalidInputError):
        Sandbox.from_git(project, "no-such-revision")


def test_rules_come_in_three_forms_and_say_why(project: Path) -> None:
    preset = extend_preset("read-only", ["/docs/**=write"], [Rule("/docs/secret.md", "none")])
    permissions: list[RuleLike] = [
        {"pattern": "/out/**", "permission": "write", "priority": 0},
        "/tmp/**=write",
    ]
    with Sandbox.from_local(project, preset, permissions=permissions) as sandbox:
        levels = {
            path: sandbox.explain(path).level for path in ("x", "docs/a", "docs/secret.md", "out/x", "tmp/x")
        }
        assert levels == {
            "x": "read",
            "docs/a": "write",
            "docs/secret.md": "none",
            "out/x": "write",
            "tmp/x": "write",
        }
        assert sandbox.explain("docs/secret.md").rule == Rule("/docs/secret.md", "none", 1)
        assert sandbox.run("mkdir -p docs out && touch docs/a out/b").success
        assert not sandbox.run("touch docs/secret.md").success


def test_forks_are_opened_side_by_side_and_none_is_left_if_one_fails(project: Path) -> None:
    threads: set[int] = set()

    class Refusing(Sandbox):
        """Its eighth fork does not open."""

        def _opened(self) -> Any:
            threads.add(threading.get_ident())
            if sum("/" in one.name for one in Sandbox.list()) > 1:
                names.append(self.name)
            if self.name in names and names.index(self.name) == 7:
                raise RuntimeError("no more")
            return super()._opened()

    names: list[str] = []
    with Refusing.from_local(project, "full-access") as sandbox:
        before = [one.name for one in Sandbox.list()]
        with pytest.raises(RuntimeError, match="no more"):
            sandbox.fork(12)
        assert [one.name for one in Sandbox.list()] == before
        assert len(threads) > 1
        forks = sandbox.fork(3)
        assert len({fork.name for fork in forks}) == 3
        for fork in forks:
            fork.close()


def test_who_waits_for_a_command_of_a_discarded_sandbox_finds_it_gone(project: Path) -> None:
    sandbox = Sandbox.from_local(project, "full-access")
    started, seen = threading.Event(), list[bool]()

    def wait() -> None:
        with contextlib.suppress(SandboxNotRunningError):
            sandbox.run("echo go; sleep 600", on_stdout=lambda _: started.set())
        seen.append(sandbox.exists)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert started.wait(60)
    sandbox.discard()
    waiting.join(60)
    assert seen == [False]
