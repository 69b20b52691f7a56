"""What a command may use, and where it runs."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from . import _checks
from .errors import InvalidInputError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class RuntimeType(enum.Enum):
    """What stands around the commands of a sandbox."""

    #: Namespaces of this machine, by bubblewrap. Nothing has to be built or started.
    LOCAL = "local"
    #: A container on an image, by runc or crun, or by the daemon of Docker or Podman where neither is installed.
    DOCKER = "docker"


@dataclass(frozen=True)
class ResourceLimits:
    """What the commands of a sandbox may use. What is not given keeps its usual limit.

    >>> ResourceLimits(memory="512M", processes=64).memory_bytes
    536870912
    """

    #: Of all processes together: bytes, or a text such as `512M` or `2G`.
    memory: int | str | None = None
    #: Processes and threads at one time.
    processes: int | None = None
    #: Seconds of CPU time, of all processes together.
    cpu_seconds: float | None = None
    #: Seconds that a command may take if it has no limit of its own (600, if nothing is said).
    timeout: float | None = None
    #: Bytes of each output stream that are kept (1 MiB, if nothing is said).
    output_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("cpu_seconds", "timeout"):
            _checks.seconds(name, getattr(self, name))
        for name in ("memory_bytes", "processes", "output_bytes"):
            _checks.whole(name.replace("memory_bytes", "memory"), getattr(self, name), 1)

    @property
    def memory_bytes(self) -> int | None:
        """The limit on memory as a number."""
        if not isinstance(self.memory, str):
            return self.memory
        match = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", self.memory.strip(), re.IGNORECASE)
        if match is None:
            raise InvalidInputError(f"memory: {self.memory!r} is no size, such as 512M")
        return int(match[1]) * _UNITS[match[2].upper()]
