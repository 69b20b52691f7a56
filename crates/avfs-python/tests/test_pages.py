"""The Python examples of the documentation are true."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[3]


def blocks(page: str) -> list[str]:
    """The Python blocks of a page."""
    text = (PAGES / page).read_text()
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("server")
def test_the_tour_is_true(project: Path) -> None:
    text = "\n".join(blocks("docs/python.md"))
    example = doctest.DocTestParser().get_doctest(text, {"project": project}, "docs/python.md", None, 0)
    assert len(example.examples) > 40
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=report.append)
    assert result.failed == 0, "".join(report)


def test_the_page_on_frameworks_is_true() -> None:
    # Its other sections are run with their frameworks.
    text = "\n".join(blocks("docs/python-frameworks.md")[:2])
    assert "UPath" in text
    example = doctest.DocTestParser().get_doctest(text, {}, "docs/python-frameworks.md", None, 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=report.append)
    assert result.failed == 0, "".join(report)


def test_the_readme_is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "my-project"
    root.mkdir()
    (root / "main.py").write_text("open('made.txt', 'w').write('x')\nprint('hello')\n")
    monkeypatch.chdir(tmp_path)
    (example,) = blocks("README.md")
    exec(compile(example, "README.md", "exec"), {})
    assert "hello" in capsys.readouterr().out
    assert (root / "made.txt").read_text() == "x"
