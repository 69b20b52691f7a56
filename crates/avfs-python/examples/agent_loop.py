"""An agent loop: a model asks for commands, a sandbox runs them, and the tests decide about what is applied.

    python agent_loop.py

The model is played by a script, so that no network is needed. To use a real one, replace `ScriptedModel` by something
that sends `messages` to it and returns its next call.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from agentvfs import Sandbox

PROJECT = {
    "shop.py": "def total(prices):\n    return sum(prices[1:])\n",
    "test_shop.py": "from shop import total\n\nassert total([1, 2, 3]) == 6, total([1, 2, 3])\nprint('all tests passed')\n",
}


@dataclass
class ScriptedModel:
    """Says what a model could say: a command, or nothing more."""

    script: list[str] = field(
        default_factory=lambda: [
            "python3 test_shop.py",
            "cat shop.py",
            "sed -i 's/prices\\[1:\\]/prices/' shop.py",
            "python3 test_shop.py",
        ]
    )

    def next_command(self, messages: list[str]) -> str | None:
        turn = len(messages) - 1
        return self.script[turn] if turn < len(self.script) else None


def work(sandbox: Sandbox, model: ScriptedModel, task: str, turns: int = 20) -> bool:
    """Lets the model work until it has no more to do. Returns whether the tests pass then."""
    messages = [task]
    with sandbox.session() as shell:
        for _ in range(turns):
            command = model.next_command(messages)
            if command is None:
                break
            result = shell.exec(command, timeout=60)
            said = (result.stdout + result.stderr).strip().splitlines()
            print(f"$ {command}\n  {said[-1] if said else '(nothing)'}  [{result.exit_code}]")
            messages.append(f"{result.stdout}{result.stderr}\nexit code {result.exit_code}")
    return sandbox.run("python3 test_shop.py", timeout=60).success


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        project = Path(place)
        for name, text in PROJECT.items():
            (project / name).write_text(text)
        with Sandbox.from_local(project, "development", env={"PYTHONDONTWRITEBYTECODE": "1"}) as sandbox:
            passed = work(sandbox, ScriptedModel(), "Make the tests pass.")
            print(sandbox.diff().patch)
            if passed:
                print("applied:", *(path for path, _ in sandbox.apply().files))
        print((project / "shop.py").read_text(), end="")


if __name__ == "__main__":
    main()
