"""Three attempts at one task, side by side, each in a fork of one sandbox. The best one is applied.

    python parallel_attempts.py

A fork costs nothing until it changes something, so trying more is a matter of what the attempts themselves cost.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agentvfs import AsyncSandbox

PROJECT = {
    "slug.py": "def slug(title):\n    return title\n",
    "test_slug.py": (
        "from slug import slug\n"
        "cases = {'Hello': 'hello', 'Two words': 'two-words', '  edges ': 'edges', 'A--B': 'a-b'}\n"
        "print(sum(slug(title) == wanted for title, wanted in cases.items()))\n"
    ),
}

#: What three agents came up with.
ATTEMPTS = {
    "short": "def slug(title):\n    return title.lower().replace(' ', '-')\n",
    "careful": "import re\n\n\ndef slug(title):\n    return re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')\n",
    "broken": "def slug(title)\n    return title.lower()\n",
}


@dataclass
class Attempt:
    name: str
    sandbox: AsyncSandbox
    passed: int


async def attempt(sandbox: AsyncSandbox, name: str, code: str) -> Attempt:
    """One agent's work, and how many cases pass afterwards."""
    await sandbox.write_file("slug.py", code)
    result = await sandbox.run("python3 test_slug.py", timeout=60)
    return Attempt(name, sandbox, int(result.stdout) if result.success else 0)


async def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        project = Path(place)
        for name, text in PROJECT.items():
            (project / name).write_text(text)
        environment = {"PYTHONDONTWRITEBYTECODE": "1"}
        async with AsyncSandbox.from_local(project, "development", env=environment) as start:
            forks = await start.fork(len(ATTEMPTS))
            done = await asyncio.gather(
                *(
                    attempt(fork, name, code)
                    for fork, (name, code) in zip(forks, ATTEMPTS.items(), strict=True)
                )
            )
            for one in done:
                print(f"{one.name:8} passes {one.passed} of 4")
            best = max(done, key=lambda one: one.passed)
            applied = await best.sandbox.apply()
            print("applied:", best.name, *(path for path, _ in applied.files))
            await asyncio.gather(*(fork.discard() for fork in forks))
        print((project / "slug.py").read_text(), end="")


if __name__ == "__main__":
    asyncio.run(main())
