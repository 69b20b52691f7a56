"""The Python examples of the page about the filesystem in memory."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "vfs.md"


def test_the_examples_of_the_page_work() -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {})
