"""What an import of the package loads."""

from __future__ import annotations

import subprocess
import sys

import agentvfs


def test_neither_an_event_loop_nor_a_client_is_loaded_before_it_is_used() -> None:
    slow = ("asyncio", "email", "http.client", "ssl", "trio")
    code = f"import sys; import agentvfs; print([name for name in {slow!r} if name in sys.modules])"
    # Without what a user's environment would load by itself.
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_name_of_the_package_is_there() -> None:
    assert [name for name in agentvfs.__all__ if getattr(agentvfs, name, None) is None] == []
    assert set(agentvfs.__all__) <= set(dir(agentvfs))
