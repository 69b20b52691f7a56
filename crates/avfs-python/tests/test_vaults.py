"""The vault verbs."""

from __future__ import annotations

from pathlib import Path

import pytest
from agentvfs import (
    AVFS,
    AlreadyExistsError,
    ChangedFile,
    CommandExecutionError,
    CommandTimeoutError,
    InvalidInputError,
    NotFoundError,
    Sandbox,
    StorageFullError,
    VaultNotFoundError,
)


@pytest.fixture
def avfs() -> AVFS:
    avfs = AVFS("agent-workspace")
    avfs.create_vault("agent-workspace")
    avfs.write_file("a.txt", "one\n")
    return avfs


def test_the_first_lines_of_the_documentation_work() -> None:
    avfs = AVFS("agent-workspace")
    with pytest.raises(VaultNotFoundError):
        avfs.read_file("a.txt")
    avfs.create_vault("agent-workspace")
    avfs.fork_vault("agent-workspace", "task-001")
    avfs.checkpoint_save("pre-change")
    result = avfs.proxy_exec("sh", "-c", "echo made > made.txt; cat made.txt")
    assert (result.stdout, result.changed_files) == ("made\n", (ChangedFile("/made.txt", "added"),))
    assert [one.name for one in avfs.list_vaults()] == ["agent-workspace", "task-001"]
    assert next(one for one in avfs.list_vaults() if one.name == "task-001").parent == "agent-workspace"


def test_commands_fail_and_take_too_long_as_in_a_sandbox(avfs: AVFS) -> None:
    assert avfs.exec("exit 3").exit_code == 3
    with pytest.raises(CommandExecutionError):
        avfs.exec("exit 3", raise_on_error=True)
    with pytest.raises(CommandTimeoutError):
        avfs.exec("sleep 600", timeout=0.3)
    heard: list[str] = []
    avfs.exec("cat", stdin="typed", on_stdout=heard.append)
    assert heard == ["typed"]


def test_states_are_named_compared_and_restored(avfs: AVFS) -> None:
    avfs.checkpoint_save("first", "one line")
    avfs.write_file("a.txt", "two\n")
    avfs.write_file("b.txt", "b\n")
    assert [change.path for change in avfs.diff("first").changes] == ["/a.txt", "/b.txt"]
    assert avfs.checkout("first", "a.txt") == 1
    assert avfs.read_file("a.txt") == "one\n"
    assert avfs.undo().startswith("checkout")
    assert avfs.read_file("a.txt") == "two\n"
    assert avfs.revert("a.txt") == 1
    avfs.undo()
    avfs.redo()
    assert avfs.read_file("a.txt") == "one\n"
    assert avfs.log(1)[0].action.startswith("redo")
    avfs.checkpoint_restore("first")
    assert [one.name for one in avfs.list_files()] == ["a.txt"]
    avfs.checkpoint_delete("first")
    assert avfs.checkpoint_list() == []
    with pytest.raises(NotFoundError):
        avfs.checkpoint_restore("first")


def test_forks_are_merged_and_conflicts_told(avfs: AVFS) -> None:
    avfs.fork_vault("agent-workspace", "left", "right")
    AVFS("left").write_file("left.txt", "l")
    AVFS("right").write_file("a.txt", "right\n")
    assert avfs.merge("left", "right", dry_run=True).changed == 2
    assert not avfs.files.exists("left.txt")
    assert avfs.merge("left", "right").conflicts == ()
    assert (avfs.read_file("left.txt"), avfs.read_file("a.txt")) == ("l", "right\n")
    avfs.write_file("a.txt", "mine\n")
    AVFS("left").write_file("a.txt", "theirs\n")
    assert avfs.merge("left").conflicts == ("/a.txt",)
    with pytest.raises(InvalidInputError):
        avfs.merge("left", on_conflict="whatever")


def test_a_sandbox_on_a_vault_is_a_fork_that_can_be_merged(avfs: AVFS) -> None:
    with Sandbox.from_vault("agent-workspace", "full-access") as sandbox:
        sandbox.run("echo more >> a.txt")
        assert avfs.read_file("a.txt") == "one\n"
        assert sandbox.apply().files == (("/a.txt", "modified"),)
        assert avfs.read_file("a.txt") == "one\nmore\n"
        assert sandbox.undo() == "apply"
    assert avfs.read_file("a.txt") == "one\n"
    assert len(avfs.list_vaults()) == 1


def test_files_are_found_by_name_by_line_and_by_words(avfs: AVFS) -> None:
    avfs.write_file("docs/login.md", "how a login times out\n")
    assert avfs.find("*.md") == ["/docs/login.md"]
    assert avfs.grep("times out$")[0].path == "/docs/login.md"
    assert avfs.search("login times")[0][0] == "/docs/login.md"
    assert avfs.explain("a.txt").level == "write"


def test_a_vault_is_exported_and_imported_with_its_history(avfs: AVFS, tmp_path: Path) -> None:
    avfs.write_file("a.txt", "two\n")
    avfs.export_vault("agent-workspace", tmp_path / "file.avfs")
    assert avfs.import_vault(tmp_path / "file.avfs", "copy") == "copy"
    copy = AVFS("copy")
    assert copy.read_file("a.txt") == "two\n"
    copy.undo()
    assert copy.read_file("a.txt") == "one\n"
    (tmp_path / "bad.avfs").write_text("this is no vault")
    with pytest.raises(InvalidInputError):
        avfs.import_vault(tmp_path / "bad.avfs", "bad")
    assert "bad" not in [one.name for one in avfs.list_vaults()]


def test_a_vault_has_a_quota_and_an_audit_log(avfs: AVFS) -> None:
    avfs.set_quota(max_bytes=100)
    with pytest.raises(StorageFullError):
        avfs.write_file("big", "x" * 1000)
    assert avfs.info().max_bytes == 100
    avfs.set_quota()
    avfs.write_file("big", "x" * 1000)
    actions = [entry.action for entry in avfs.audit()]
    assert actions[0] == "create" and "quota" in actions


def test_vaults_are_made_from_directories_renamed_and_deleted(avfs: AVFS, project: Path) -> None:
    avfs.create_vault("copy", from_directory=project)
    avfs.use("copy")
    assert avfs.read_file("greeting.txt") == "hello\n"
    avfs.rename_vault("copy", "renamed")
    assert avfs.name == "renamed"
    avfs.delete_vault("renamed")
    with pytest.raises(VaultNotFoundError):
        avfs.use("renamed")
    assert avfs.gc() >= 0
    with pytest.raises(InvalidInputError, match="no vault is chosen"):
        AVFS().read_file("a.txt")


def test_a_name_that_is_taken_is_told(avfs: AVFS) -> None:
    avfs.checkpoint_save("once")
    with pytest.raises(AlreadyExistsError, match="agent-workspace"):
        avfs.create_vault("agent-workspace")
    with pytest.raises(AlreadyExistsError, match="once"):
        avfs.checkpoint_save("once")
    with pytest.raises(ValueError, match="agent-workspace"):
        avfs.fork_vault("agent-workspace", "agent-workspace")


def test_a_mount_ends_with_its_block(avfs: AVFS, tmp_path: Path) -> None:
    place = tmp_path / "mount"
    place.mkdir()
    with avfs.mount(place) as directory:
        assert Path(directory, "a.txt").read_text() == "one\n"
        Path(directory, "new.txt").write_text("new")
        assert avfs.read_file("new.txt") == "new"
        with Sandbox.connect("agent-workspace") as sandbox:
            assert sandbox.run("cat new.txt").stdout == "new"
    assert list(place.iterdir()) == []
    with avfs.mount(place, read_only=True), pytest.raises(OSError, match="Read-only"):
        (place / "x").write_text("x")
