"""Where the programs of the package are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

#: The sandbox's first program, or the program `avfs`, which can be it as well.
_NAMES = ("avfs-inside", "avfs")


def inside() -> str:
    """The program that becomes the first one in a sandbox.

    That is the one that the variable AVFS_BIN names, or the one that was installed with this package, or one on the PATH.
    """
    given = os.environ.get("AVFS_BIN")
    if given:
        return given
    for directory in _directories():
        for name in _NAMES:
            program = os.path.join(directory, name)
            if os.path.isfile(program):
                return program
    # The launcher says what is missing.
    return _NAMES[0]


def _directories() -> Iterator[str]:
    yield os.path.dirname(sys.executable)
    # `pip install --user`, `--prefix` and `--target` put programs elsewhere.
    package = Path(__file__).resolve().parent
    for above in package.parents:
        if (above / "bin").is_dir():
            yield str(above / "bin")
            break
    yield from os.environ.get("PATH", os.defpath).split(os.pathsep)
