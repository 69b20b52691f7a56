"""What the tests with other people's frameworks start from."""

from __future__ import annotations

import asyncio
import doctest
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agentvfs import AVFS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python-frameworks.md"


@pytest.fixture(scope="session", autouse=True)
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store for all tests, each of which has a vault of its own."""
    home = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AVFS_HOME", str(home))
        yield home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with two files."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "greeting.txt").write_text("hello\n")
    (root / "notes.md").write_text("# Notes\n")
    return root


@pytest.fixture(scope="class")
def vault(request: pytest.FixtureRequest) -> str:
    """An empty vault for the tests of a class."""
    name = request.node.name.replace("[", "-").strip("]").lower().replace("_", "-")
    AVFS().create_vault(name)
    return name


@pytest.fixture
def run_section(project: Path) -> Callable[..., None]:
    """Runs the examples of a section of the documentation."""

    def run(title: str, **names: Any) -> None:
        _, found, rest = PAGE.read_text().partition(f"\n## {title}\n")
        assert found, f"{PAGE.name} has no section {title}"
        (text,) = re.findall(r"^```python\n(.*?)^```$", rest.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
        example = doctest.DocTestParser().get_doctest(
            text, {"project": project, "asyncio": asyncio, **names}, title, None, 0
        )
        report: list[str] = []
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(
            example, out=report.append
        )
        assert result.failed == 0, "".join(report)

    return run


@pytest.fixture
def anyio_backend() -> str:
    """The event loop that `anyio` tests run on."""
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Tests of foreign suites that the suite's own reference fails as well are expected to fail, in both."""
    left: list[pytest.Item] = []
    for item in items:
        module = getattr(item, "module", None)
        reason = getattr(module, "OLD", {}).get(getattr(item, "originalname", item.name))
        is_theirs = item.parent is not None and item.parent.name == "TestTheirOwn"
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        if reason is not None or not is_theirs:
            left.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = left
