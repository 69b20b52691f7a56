"""What arguments have to be.

A value of a wrong type is a `TypeError`, and a value that cannot be meant an `InvalidInputError`: both before anything
is changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .errors import InvalidInputError

#: The longest time limit: some 30 years, which every clock can count.
_LONGEST = 1e9
#: The largest number that the library takes for sizes and counts.
_LARGEST = 2**63 - 1


def text(name: str, value: object) -> str:
    """A text that programs and files can have: without NUL bytes."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a str, and not {_kind(value)}")
    if "\0" in value:
        raise InvalidInputError(f"{name}: {value!r} has a NUL byte")
    return value


def utf8(name: str, value: object) -> str:
    """A text that can be written as UTF-8."""
    checked = text(name, value)
    try:
        checked.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{name}: {value!r} is not valid Unicode") from error
    return checked


def optional(name: str, value: object) -> str | None:
    """A text that may be missing, and is not empty."""
    if value is None:
        return None
    if not text(name, value):
        raise InvalidInputError(f"{name} is empty: leave it out instead")
    return utf8(name, value)


def data(value: object) -> bytes:
    """The content of a file, or input of a program: bytes, or text as UTF-8."""
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise InvalidInputError("the text is not valid Unicode; give bytes instead") from error
    if isinstance(value, bytes):
        return value
    # Not `bytes(value)`, which makes so many NULs of a number.
    try:
        return memoryview(value).tobytes()  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    except TypeError:
        raise TypeError(f"content is str or bytes, and not {_kind(value)}") from None


def host_path(name: str, path: str | os.PathLike[str]) -> str:
    """A path of this machine, from its root."""
    given = os.fspath(path)
    if not text(name, given):
        raise InvalidInputError(f"{name} is empty; '.' is the working directory")
    return os.path.abspath(given)


def seconds(name: str, value: object, *, or_zero: bool = False) -> None:
    """A time limit, if there is one."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number of seconds, and not {_kind(value)}")
    if not (0 < value <= _LONGEST or (or_zero and value == 0)):
        above = "at least" if or_zero else "above"
        raise InvalidInputError(f"{name}: {value} is not {above} 0 and at most {_LONGEST:.0f} seconds")


def whole(name: str, value: object, least: int = 0, most: int = _LARGEST) -> None:
    """A whole number, if there is one."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, and not {_kind(value)}")
    if value < least:
        raise InvalidInputError(f"{name} is at least {least}, and not {value}")
    if value > most:
        raise InvalidInputError(f"{name} is at most {most}, and not {value}")


def function(name: str, value: object, *, or_none: bool = True) -> None:
    """Something to call."""
    if not (callable(value) or (or_none and value is None)):
        raise TypeError(f"{name} is called with one argument, and {_kind(value)} cannot be called")


def instance(name: str, value: object, kind: type, *, or_none: bool = False) -> None:
    """An object of a class of this package."""
    if not (isinstance(value, kind) or (or_none and value is None)):
        raise TypeError(f"{name} is a {kind.__name__}, and not {_kind(value)}")


def mapping(name: str, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """A mapping."""
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{name} is a mapping, and not {_kind(value)}")
    return value


def variables(env: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """Variables of programs."""
    if env is None:
        return []
    for name, value in mapping("env", env).items():
        if not text("a name in env", name) or "=" in name:
            raise InvalidInputError(f"env: {name!r} cannot be the name of a variable")
        text(f"env[{name!r}]", value)
    return list(env.items())


def command(command: str | Sequence[str | os.PathLike[str]]) -> str | list[str]:
    """A line for a shell, or a program with its arguments."""
    if isinstance(command, str):
        line = utf8("command", command)
        if not line:
            raise InvalidInputError("there is no command to run")
        return line
    if isinstance(command, (bytes, Mapping)):
        raise TypeError(f"a command is a str or a list of str, and not {_kind(command)}")
    words = [text("a word of the command", os.fsdecode(word)) for word in command]
    if not words or not words[0]:
        raise InvalidInputError("there is no command to run")
    return words


def many(name: str, values: Iterable[Any]) -> list[Any]:
    """Several of something, which one text is not."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} is a list, and not one {_kind(values)}")
    return list(values)


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
