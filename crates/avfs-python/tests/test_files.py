"""The files of a sandbox, for the program that uses it."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest
from agentvfs import (
    FilesystemEvent,
    InvalidInputError,
    Match,
    PathIsADirectoryError,
    PathNotADirectoryError,
    PathNotFoundError,
    PermissionDeniedError,
    Sandbox,
    VersionMismatchError,
)


def test_what_is_written_is_there_for_commands_and_the_other_way_round(sandbox: Sandbox) -> None:
    sandbox.write_file("deep/er/file.txt", "text\n")
    assert sandbox.run("cat deep/er/file.txt").stdout == "text\n"
    sandbox.run("printf 'by a command' > deep/other.txt")
    assert sandbox.read_file("deep/other.txt") == "by a command"
    assert sandbox.files.read("deep/other.txt", "bytes") == b"by a command"
    assert b"".join(sandbox.files.read("deep/other.txt", "stream", offset=3)) == b"a command"


def test_a_path_means_the_same_as_inside(sandbox: Sandbox, project: Path) -> None:
    for path in ("greeting.txt", "/greeting.txt", b"greeting.txt", PurePosixPath("greeting.txt")):
        assert sandbox.read_file(path) == "hello\n"
    assert sandbox.read_file(project / "greeting.txt") == "hello\n"
    assert sandbox.read_file("/workspace/greeting.txt") == "hello\n"


def test_names_that_are_no_text_are_kept(sandbox: Sandbox) -> None:
    sandbox.files.write(b"caf\xe9", b"x")
    assert [os.fsencode(one.path) for one in sandbox.files.list()] == [
        b"/caf\xe9",
        b"/greeting.txt",
        b"/notes.md",
    ]
    result = sandbox.run("printf y > $'caf\\xe9'")
    assert os.fsencode(result.changed_files[0].path) == b"/caf\xe9"


def test_errors_are_those_that_python_programs_catch(sandbox: Sandbox) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        sandbox.read_file("missing")
    assert isinstance(missing.value, PathNotFoundError)
    assert (missing.value.code, missing.value.path) == ("not-found", "/missing")
    sandbox.files.make_dir("directory")
    with pytest.raises(PathIsADirectoryError):
        sandbox.read_file("directory")
    with pytest.raises((PathNotADirectoryError, PathNotFoundError)):
        sandbox.read_file("greeting.txt/below")
    with pytest.raises(InvalidInputError):
        sandbox.read_file("a\0b")


def test_rules_hold_for_file_calls(project: Path) -> None:
    with Sandbox.from_local(project, "read-only", permissions=["/notes.md=none"]) as sandbox:
        assert not sandbox.files.exists("notes.md")
        with pytest.raises(FileNotFoundError):
            sandbox.read_file("notes.md")
        for files in (sandbox.files, sandbox.files.as_owner()):
            with pytest.raises(PermissionError) as denied:
                files.write("greeting.txt", "x")
            assert isinstance(denied.value, PermissionDeniedError)
            assert denied.value.path == "/greeting.txt"
        assert sandbox.files.grep("Notes") == []
        assert sandbox.files.glob("*.md") == []


def test_modes_hold_for_the_user_and_not_for_the_owner(sandbox: Sandbox) -> None:
    sandbox.run("echo secret > closed.txt; chmod 000 closed.txt; mkdir locked; chmod 500 locked")
    with pytest.raises(PermissionDeniedError, match="mode 0000"):
        sandbox.read_file("closed.txt")
    with pytest.raises(PermissionDeniedError):
        sandbox.write_file("locked/new.txt", "x")
    owner = sandbox.files.as_owner()
    assert owner.read("closed.txt") == "secret\n"
    owner.write("locked/new.txt", "x")
    assert sandbox.read_file("locked/new.txt") == "x"


def test_links_lead_on_inside_and_never_out(sandbox: Sandbox, project: Path) -> None:
    sandbox.run(f"ln -s greeting.txt link; ln -s {project}/notes.md absolute; ln -s /etc/passwd out")
    assert sandbox.read_file("link") == "hello\n"
    assert sandbox.read_file("absolute") == "# Notes\n"
    with pytest.raises(FileNotFoundError):
        sandbox.read_file("out")
    info = sandbox.files.get_info("link", follow=False)
    assert (info.kind, info.target) == ("symlink", "greeting.txt")
    assert sandbox.files.get_info("link").kind == "file"
    sandbox.files.remove("link")
    assert sandbox.files.exists("greeting.txt")


def test_a_write_with_a_version_overwrites_no_other(sandbox: Sandbox) -> None:
    version = sandbox.files.get_info("greeting.txt").version
    sandbox.run("echo changed > greeting.txt")
    with pytest.raises(VersionMismatchError) as stale:
        sandbox.files.write("greeting.txt", "mine", expected_version=version)
    assert stale.value.expected == version
    assert stale.value.actual == sandbox.files.get_info("greeting.txt").version
    assert sandbox.read_file("greeting.txt") == "changed\n"
    sandbox.files.write("new.txt", "x", expected_version="absent")
    with pytest.raises(VersionMismatchError):
        sandbox.files.write("new.txt", "y", expected_version="absent")


def test_several_files_are_written_together_or_not_at_all(sandbox: Sandbox) -> None:
    sandbox.files.write_files({"a": "1", "deep/b": b"2"})
    assert (sandbox.read_file("a"), sandbox.read_file("deep/b")) == ("1", "2")
    with pytest.raises(PathNotADirectoryError):
        sandbox.files.write_files({"c": "3", "a/below": "4"})
    assert not sandbox.files.exists("c")


def test_append_copy_rename_remove(sandbox: Sandbox) -> None:
    sandbox.files.write("log", "one\n")
    sandbox.files.write("log", "two\n", append=True)
    sandbox.files.copy("log", "copies/log")
    assert sandbox.files.rename("log", "moved/log").path == "/moved/log"
    assert sandbox.read_file("copies/log") == sandbox.read_file("moved/log") == "one\ntwo\n"
    sandbox.files.remove("moved")
    assert not sandbox.files.exists("moved")
    with pytest.raises(FileNotFoundError):
        sandbox.files.remove("moved")


def test_directories_are_listed_down_to_a_depth(sandbox: Sandbox) -> None:
    sandbox.files.write_files({"src/main.py": "", "src/deep/lib.py": ""})
    assert [one.path for one in sandbox.list_files()] == ["/greeting.txt", "/notes.md", "/src"]
    assert [one.path for one in sandbox.list_files("src", depth=2)] == [
        "/src/deep",
        "/src/deep/lib.py",
        "/src/main.py",
    ]
    assert sandbox.files.make_dir("src/deep") is False
    assert sandbox.files.make_dir("src/new") is True
    with pytest.raises(InvalidInputError):
        sandbox.list_files(depth=0)


def test_globs_and_patterns_find_files(sandbox: Sandbox) -> None:
    sandbox.files.write_files({"src/main.py": "import os\nprint(1)\n", "docs/x.md": "import\n"})
    assert sandbox.files.glob("*.py") == ["/src/main.py"]
    assert sandbox.files.glob("/*.md") == ["/notes.md"]
    assert sandbox.files.grep("^import", glob="*.py") == [Match("/src/main.py", 1, "import os")]
    assert len(sandbox.files.grep("IMPORT", ignore_case=True)) == 2
    assert sandbox.files.grep("print(", "src", literal=True, limit=1)[0].line == 2
    with pytest.raises(InvalidInputError):
        sandbox.files.grep("(")


def test_an_edit_changes_what_is_there_once(sandbox: Sandbox) -> None:
    sandbox.write_file("a.py", "x = 1\nx = 1\n")
    with pytest.raises(InvalidInputError, match="2 times"):
        sandbox.files.edit("a.py", "x = 1", "x = 2")
    with pytest.raises(InvalidInputError, match="is not in it"):
        sandbox.files.edit("a.py", "y", "z")
    assert sandbox.files.edit("a.py", "x = 1", "x = 2", replace_all=True) == 2
    assert sandbox.read_file("a.py") == "x = 2\nx = 2\n"


def test_a_watch_tells_what_changed(sandbox: Sandbox) -> None:
    watch = sandbox.files.watch_dir("/", recursive=True)
    assert watch.get_new_events() == []
    sandbox.run("mkdir d && echo x > d/new && mv notes.md d/notes.md && chmod 700 greeting.txt")
    events = watch.get_new_events()
    assert FilesystemEvent("/d/new", "create") in events
    assert FilesystemEvent("/d/notes.md", "rename", "/notes.md") in events
    assert FilesystemEvent("/greeting.txt", "chmod") in events
    assert watch.get_new_events() == []
    watch.stop()
    with pytest.raises(InvalidInputError):
        watch.get_new_events()
