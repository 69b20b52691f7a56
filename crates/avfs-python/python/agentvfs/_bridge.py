"""Programs of the host for a shell in memory: in a sandbox, on a directory with the files of the filesystem."""

from __future__ import annotations

import os
import posixpath
import shutil
import tempfile
from typing import TYPE_CHECKING

from .errors import CommandNotStartedError, IsolationUnavailableError

if TYPE_CHECKING:
    from .vfs import CommandResult, HostCall


def run_in_sandbox(call: HostCall) -> CommandResult:
    """Runs one program. What it changes comes back as one change, or not at all."""
    from .sandbox import Sandbox
    from .vfs import CommandResult

    inside = posixpath.relpath(call.cwd, call.tree)
    directory = inside if not inside.startswith("..") else "."
    with tempfile.TemporaryDirectory(prefix="agentvfs-") as home:
        place = posixpath.join(home, "tree")
        os.mkdir(place, 0o700)

        def work() -> CommandResult:
            changed = posixpath.join(home, "changed")
            try:
                with Sandbox.from_local(place, preset="full-access") as sandbox:
                    result = sandbox.run(_argv(call.argv), cwd=directory, stdin=call.stdin)
                    sandbox.export(changed)
            except IsolationUnavailableError as error:
                return CommandResult(stderr=f"{call.argv[0]}: {error}\n", exit_code=126)
            except CommandNotStartedError as error:
                return CommandResult(stderr=f"{error}\n", exit_code=127)
            shutil.rmtree(place)
            os.rename(changed, place)
            return CommandResult(result.stdout, result.stderr, result.exit_code)

        answer = call.vfs._with_host_directory(call.tree, place, work)  # pyright: ignore[reportPrivateUsage]
        assert isinstance(answer, CommandResult)
        return answer


def _argv(argv: list[str]) -> list[str]:
    """`python` by the name that the host has for it."""
    if argv[0] == "python" and shutil.which("python") is None:
        return ["python3", *argv[1:]]
    return argv
