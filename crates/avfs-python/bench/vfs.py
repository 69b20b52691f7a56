"""What a filesystem in memory costs from Python, beside the same calls in Rust and beside sandfs, in one run.

    python crates/avfs-python/bench/vfs.py

Needs the package (a release build), `pip install sandfs` for the comparison, and cargo. Prints nanoseconds for each
call, the medians of several rounds.
"""

from __future__ import annotations

# sandfs, which is measured beside it, has no types and is not always installed.
# pyright: basic, reportMissingImports=false
# mypy: disable-error-code="import-not-found"
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from agentvfs import VirtualFileSystem

FILES = 10_000
ROUNDS = 11
NAMES = [f"/work/file-{number:05}.txt" for number in range(FILES)]
CONTENT = b"x" * 100


def median(round_: Callable[[], float], parts: int) -> float:
    round_()
    return statistics.median(round_() for _ in range(ROUNDS)) / parts * 1e9


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ours() -> dict[str, float]:
    vfs = VirtualFileSystem()

    def write() -> None:
        for name in NAMES:
            vfs.write_file(name, CONTENT)

    def write_anew() -> float:
        nonlocal vfs
        vfs = VirtualFileSystem()
        return timed(write)

    def read() -> None:
        for name in NAMES:
            vfs.read_file(name)

    def first_write() -> float:
        fork = vfs.fork()
        return timed(lambda: fork.write_file(NAMES[FILES // 2], CONTENT))

    return {
        "write 10,000 files": median(write_anew, FILES),
        "read 10,000 files": median(lambda: timed(read), FILES),
        "list 10,000 files": median(lambda: timed(lambda: vfs.ls("/work")), FILES),
        "fork": median(lambda: timed(vfs.fork), 1),
        "snapshot": median(lambda: timed(vfs.snapshot), 1),
        "first write after a fork": median(first_write, 1),
    }


def sandfs() -> dict[str, float]:
    try:
        import sandfs as other
    except ImportError:
        return {}
    workspace = other.Workspace()

    def write() -> None:
        for name in NAMES:
            workspace.write(name, CONTENT)

    def write_anew() -> float:
        nonlocal workspace
        workspace = other.Workspace()
        return timed(write)

    def read() -> None:
        for name in NAMES:
            workspace.read(name)

    def first_write() -> float:
        fork = workspace.fork()
        return timed(lambda: fork.write(NAMES[FILES // 2], CONTENT))

    listing = getattr(workspace, "ls", None) or getattr(workspace, "listdir", None) or workspace.list
    return {
        "write 10,000 files": median(write_anew, FILES),
        "read 10,000 files": median(lambda: timed(read), FILES),
        "list 10,000 files": median(
            lambda: timed(lambda: getattr(workspace, listing.__name__)("/work")), FILES
        ),
        "fork": median(lambda: timed(workspace.fork), 1),
        "first write after a fork": median(first_write, 1),
    }


def rust() -> dict[str, float]:
    cargo = shutil.which("cargo")
    if cargo is None:
        return {}
    root = Path(__file__).resolve().parents[3]
    command = [cargo, "run", "--quiet", "--release", "-p", "avfs-vfs", "--example", "vfs_speed"]
    lines = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    pairs = (line.split("\t") for line in lines.splitlines())
    return {name: float(spent) for name, spent in pairs}


def main() -> None:
    columns = {"Rust": rust(), "Python": ours(), "sandfs": sandfs()}
    print(
        f"{'ns per call':28}"
        + "".join(f"{name:>12}" for name in columns)
        + f"{'Python/Rust':>14}{'Python/sandfs':>15}"
    )
    for name in columns["Python"]:
        row = [column.get(name) for column in columns.values()]
        cells = "".join(f"{cell:12,.0f}" if cell is not None else f"{'-':>12}" for cell in row)
        rust_, python, other = row
        ratios = [f"{python / base:.2f}" if base and python else "-" for base in (rust_, other)]
        print(f"{name:28}{cells}{ratios[0]:>14}{ratios[1]:>15}")


if __name__ == "__main__":
    main()
