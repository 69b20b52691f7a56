"""Programs of the host for the shell in memory, in a sandbox."""

from __future__ import annotations

from agentvfs import SandboxShell, VirtualFileSystem


def test_programs_run_in_the_sandbox_and_their_changes_come_back_as_one() -> None:
    vfs = VirtualFileSystem()
    vfs.write_file("/w/a.txt", "TODO one\n")
    vfs.symlink("a.txt", "/w/link")
    vfs.write_file("/outside", "x")
    shell = SandboxShell(vfs, host_fallback=True, timeout=120)
    result = shell.exec(
        "cd /w; host -p /w sh -c 'grep -n TODO link; chmod 755 a.txt; mkdir d; echo new > d/b; rm link'"
    )
    assert (result.stdout, result.stderr, result.exit_code) == ("1:TODO one\n", "", 0)
    assert vfs.read_text("/w/d/b") == "new\n"
    assert vfs.stat("/w/a.txt").mode == 0o755
    assert not vfs.exists("/w/link")
    result = shell.exec('python3 -c \'open("made", "w").write(open("a.txt").read()); print(7 * 6)\'')
    assert (result.stdout, result.exit_code) == ("42\n", 0)
    assert vfs.read_text("/w/made") == "TODO one\n"
