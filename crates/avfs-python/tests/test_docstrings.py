"""The examples in the docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import agentvfs
import pytest
from agentvfs import Sandbox, SandboxClient

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples() -> list[doctest.DocTest]:
    """Every docstring with examples."""
    names = ["agentvfs", *(f"agentvfs.{one.name}" for one in pkgutil.iter_modules(agentvfs.__path__))]
    # The other frameworks are not installed here.
    names += ["agentvfs.integrations.fsspec", "agentvfs.integrations.upath"]
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [
        test
        for name in names
        if name != "agentvfs._native"
        for test in finder.find(importlib.import_module(name))
    ]
    return [test for test in found if test.examples]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_the_examples_are_true(
    example: doctest.DocTest, project: Path, sandbox: Sandbox, request: pytest.FixtureRequest
) -> None:
    example.globs.update(project=project, sandbox=sandbox)
    if "client" in example.name:
        request.getfixturevalue("server")
    if example.name.startswith("agentvfs.client.SandboxClient."):
        example.globs.update(of_a_server())
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(example, out=report.append)
    assert result.failed == 0, "".join(report)


def of_a_server() -> dict[str, object]:
    """A codebase with a file, and a sandbox on it."""
    client = SandboxClient()
    codebase = client.create_codebase("web")
    client.upload_file(codebase.id, "greeting.txt", "hello\n")
    return {"client": client, "codebase": codebase, "sandbox": client.create_sandbox(codebase.id)}


def test_there_are_examples() -> None:
    names = {example.name for example in examples()}
    assert {"agentvfs", "agentvfs.sandbox.Sandbox.run", "agentvfs.files.Files.edit"} <= names
