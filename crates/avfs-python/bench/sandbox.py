"""What a sandbox costs, beside bubblewrap alone: medians, measured in turns.

    python bench/sandbox.py [ROUNDS]

Run it with a wheel of the release profile (scripts/package wheel). Forks are measured as a whole: as many as that are
made, each runs a command, and all are discarded.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

FILES = 100_000
FORKS = 100
BUBBLEWRAP = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
IMPORT = "import time; begin = time.perf_counter(); import agentvfs; print(time.perf_counter() - begin)"


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def tell(what: str, seconds: list[float], limit: str) -> None:
    ordered = sorted(seconds)
    median, late = statistics.median(ordered), ordered[len(ordered) * 9 // 10]
    print(f"{what:<44} median {median * 1000:8.1f} ms   90th {late * 1000:8.1f} ms   {limit}", flush=True)


def measure_imports(rounds: int) -> None:
    words = [sys.executable, "-c", IMPORT]
    took = [float(subprocess.run(words, capture_output=True, check=True).stdout) for _ in range(rounds)]
    tell("import agentvfs", took, "(50 ms)")


def measure_commands(project: Path, rounds: int) -> None:
    from agentvfs import Sandbox

    def bubblewrap() -> None:
        subprocess.run(BUBBLEWRAP, check=True)

    with Sandbox.from_local(project) as sandbox:
        alone: list[float] = []
        inside: list[float] = []
        for _ in range(rounds):
            alone.append(timed(bubblewrap))
            inside.append(timed(lambda: sandbox.run(["true"])))
    tell("bubblewrap alone: true", alone, "")
    tell("sandbox.run(['true'])", inside, "(bubblewrap + 5 ms)")


def measure_opening(large: Path, rounds: int) -> None:
    from agentvfs import Sandbox

    opening: list[float] = []
    closing: list[float] = []
    for _ in range(rounds):
        begin = time.perf_counter()
        sandbox = Sandbox.from_local(large)
        opening.append(time.perf_counter() - begin)
        closing.append(timed(sandbox.close))
    tell(f"opening on {FILES:,} files", opening, "(60 ms)")
    tell("closing it", closing, "")


def measure_forks(large: Path, rounds: int) -> None:
    from agentvfs import Sandbox

    def attempts() -> None:
        for fork in sandbox.fork(FORKS):
            with fork:
                fork.run(["true"])

    with Sandbox.from_local(large) as sandbox:
        tell(f"{FORKS} forks, each running true", [timed(attempts) for _ in range(rounds)], "(2,500 ms)")


def make_files(root: Path) -> None:
    for number in range(FILES):
        if number % 1000 == 0:
            (root / str(number // 1000)).mkdir()
        (root / str(number // 1000) / f"{number}.txt").write_text(f"{number}\n")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        os.environ["AVFS_HOME"] = str(place / "store")
        small, large = place / "small", place / "large"
        small.mkdir()
        (small / "a.txt").write_text("a\n")
        large.mkdir()
        make_files(large)
        measure_imports(rounds)
        measure_commands(small, rounds)
        measure_opening(large, max(3, rounds // 3))
        measure_forks(large, max(1, rounds // 10))


if __name__ == "__main__":
    main()
