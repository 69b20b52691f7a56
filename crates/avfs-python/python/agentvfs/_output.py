"""Output of commands as text, piece by piece."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from . import _checks

#: Is told of each piece of output.
Listener = Callable[[str], object]


class Decoder:
    """Turns pieces of bytes into pieces of text; a character may come in two of them."""

    def __init__(self) -> None:
        make = codecs.getincrementaldecoder("utf-8")
        self._stdout = make(errors="replace")
        self._stderr = make(errors="replace")

    def text(self, piece: bytes, is_stdout: bool) -> str:
        """The text of the next piece, as far as its characters are complete."""
        return (self._stdout if is_stdout else self._stderr).decode(piece)


def listener(on_stdout: Listener | None, on_stderr: Listener | None) -> Callable[[bytes, bool], None] | None:
    """What the native part calls for each piece of output."""
    _checks.function("on_stdout", on_stdout)
    _checks.function("on_stderr", on_stderr)
    if on_stdout is None and on_stderr is None:
        return None
    decoder = Decoder()

    def tell(piece: bytes, is_stdout: bool) -> None:
        text = decoder.text(piece, is_stdout)
        call = on_stdout if is_stdout else on_stderr
        if text and call is not None:
            call(text)

    return tell
