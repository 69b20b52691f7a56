"""The programs in `examples/` do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def output(name: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_agent_loop_applies_what_passes() -> None:
    lines = output("agent_loop.py")
    assert lines[1] == "  AssertionError: 5  [1]"
    assert "  all tests passed  [0]" in lines
    assert "applied: /shop.py" in lines
    assert lines[-1] == "    return sum(prices)"


def test_the_ticket_agent_stays_within_its_levels() -> None:
    lines = output("ticket_agent.py")
    told = {line[:8].strip() + line[8:41].rstrip(): line[45:] for line in lines if " -> " in line}
    assert told["read echo more >> tickets/1017.md"].endswith("Permission denied"), told
    assert told["view ls customers"] == "ada.md"
    assert told["view cat customers/ada.md"].endswith("Permission denied")
    assert told["none ls keys"].endswith("No such file or directory")
    assert [line for line in lines if line.startswith("refused: /tickets/1017.md")]
    assert "applied: /answers/1017.md" in lines
    assert lines[-2:] == ["Dear ada,", "please update to 2.1."]


def test_the_best_of_parallel_attempts_is_applied() -> None:
    lines = output("parallel_attempts.py")
    assert lines[:4] == [
        "short    passes 2 of 4",
        "careful  passes 4 of 4",
        "broken   passes 0 of 4",
        "applied: careful /slug.py",
    ]
    assert "re.sub" in lines[-1]


def test_every_example_is_run() -> None:
    run = Path(__file__).read_text()
    assert all(f'output("{one.name}")' in run for one in EXAMPLES.glob("*.py"))
