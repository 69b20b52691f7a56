"""`SandboxClient` and its twin with `await`, with a real server."""

from __future__ import annotations

import asyncio
import io
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest
from agentvfs import (
    AgentVFSError,
    ApprovalRequiredError,
    AsyncSandboxClient,
    CommandExecutionError,
    CommandTimeoutError,
    InvalidInputError,
    PathNotFoundError,
    PermissionDeniedError,
    ResourceLimits,
    RunResult,
    SandboxClient,
    ServerUnreachableError,
    SessionClosedError,
    VaultNotFoundError,
    VersionMismatchError,
)


class Served(Protocol):
    """A server that runs."""

    url: str
    process: subprocess.Popen[str]

    def token(self, *words: str) -> str: ...


#: Starts a server with these words.
Starter = Callable[..., AbstractContextManager[Served]]


@pytest.fixture
def client(server: Served) -> SandboxClient:
    return SandboxClient()


def eventually(is_so: Callable[[], bool]) -> None:
    """Waits until something is so."""
    until = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_codebase_is_filled_used_and_deleted(client: SandboxClient) -> None:
    codebase = client.create_codebase("web")
    written = client.upload_file(codebase.id, "src/main.py", "print('hi')\n", mode=0o755)
    assert (written.file_path, written.size) == ("/src/main.py", 12)
    with pytest.raises(VersionMismatchError):
        client.upload_file(codebase.id, "src/main.py", b"", expected_version="absent")
    client.upload_file(codebase.id, "src/main.py", b"print('bye')\n", expected_version=written.version)
    assert client.download_file(codebase.id, "src/main.py") == b"print('bye')\n"
    listed = client.list_files(codebase.id, recursive=True)
    assert [(info.path, info.kind, info.mode) for info in listed] == [
        ("/src", "dir", 0o755),
        ("/src/main.py", "file", 0o755),
    ]
    assert client.get_codebase("web").file_count > 0
    assert [one.id for one in client.list_codebases()] == ["web"]
    fork = client.fork_codebase("web", "web2")
    assert (fork.parent, client.download_file("web2", "src/main.py")) == ("web", b"print('bye')\n")
    client.delete_file("web2", "src")
    assert client.list_files("web2") == []
    client.delete_codebase("web2")
    with pytest.raises(VaultNotFoundError):
        client.get_codebase("web2")
    with pytest.raises(AgentVFSError):
        client.create_codebase("web")


def test_large_files_go_both_ways_in_pieces(client: SandboxClient) -> None:
    codebase = client.create_codebase("web")
    size = 20 << 20
    written = client.upload_file(codebase.id, "big", io.BytesIO(b"x" * size))
    assert written.size == size
    back = io.BytesIO()
    assert client.download_file(codebase.id, "big", back) == size
    assert back.getvalue() == b"x" * size
    with pytest.raises(PathNotFoundError):
        client.download_file(codebase.id, "none")


def test_what_a_sandbox_changes_comes_home_when_it_is_applied(client: SandboxClient) -> None:
    codebase = client.create_codebase("web")
    client.upload_file(codebase.id, "f", "first\n")
    sandbox = client.create_sandbox(codebase.id, labels={"team": "a"}, expires_in=3600)
    assert (sandbox.status, sandbox.codebase_id, sandbox.labels) == ("stopped", "web", {"team": "a"})
    assert sandbox.expires_at is not None and sandbox.expires_at > sandbox.created_at
    assert client.start_sandbox(sandbox.id).status == "running"
    result = client.exec(sandbox.id, "echo second >f; echo new >g")
    assert isinstance(result, RunResult) and result.success
    assert {file.path: file.kind for file in result.changed_files} == {"/f": "modified", "/g": "added"}
    assert client.stop_sandbox(sandbox.id).status == "stopped"
    (fork,) = client.fork_sandbox(sandbox.id)
    assert client.download_file(fork.id, "g") == b"new\n"
    assert [one.id for one in client.list_sandboxes("web")] == [sandbox.id]
    assert client.apply(sandbox.id).changed == 2
    assert client.download_file("web", "f") == b"second\n"
    client.destroy_sandbox(sandbox.id)
    with pytest.raises(VaultNotFoundError):
        client.exec(sandbox.id, "true")


def test_results_and_exceptions_are_those_of_this_process(client: SandboxClient) -> None:
    sandbox = client.create_sandbox()
    heard: list[str] = []
    result = client.exec(
        sandbox.id,
        "cat; echo $A; pwd; echo oops >&2; kill -9 $$",
        stdin="in\n",
        env={"A": "b"},
        workdir="/tmp",
        on_stdout=heard.append,
    )
    assert (result.stdout, result.stderr, result.exit_code) == ("in\nb\n/tmp\n", "oops\n", 137)
    assert "".join(heard) == result.stdout
    assert client.exec(sandbox.id, ["printf", r"\377"]).stdout_bytes == b"\xff"
    with pytest.raises(CommandExecutionError) as failed:
        client.exec(sandbox.id, "echo no >&2; exit 4", raise_on_error=True)
    assert (failed.value.exit_code, failed.value.stderr) == (4, "no\n")
    with pytest.raises(CommandTimeoutError) as slow:
        client.exec(sandbox.id, "echo begun; sleep 1000", timeout=1)
    assert slow.value.stdout == "begun\n"
    nothing: list[str] = []
    for wrong in (nothing, ""):
        with pytest.raises(InvalidInputError):
            client.exec(sandbox.id, wrong)
    with pytest.raises(InvalidInputError):
        client.exec(sandbox.id, "true", timeout=0)
    with pytest.raises(InvalidInputError):
        client.create_sandbox(resources=ResourceLimits(processes=3))
    with_network = client.create_sandbox(network=["example.com"])
    with pytest.raises(ApprovalRequiredError) as asked:
        client.exec(with_network.id, "true")
    assert asked.value.approval_id


def test_permissions_hide_and_protect(client: SandboxClient) -> None:
    codebase = client.create_codebase("web")
    for path in ("docs/a", "secret", "open"):
        client.upload_file(codebase.id, path, "x")
    rules = [{"pattern": "/docs/**", "permission": "write"}, {"pattern": "/secret", "permission": "none"}]
    sandbox = client.create_sandbox(codebase.id, rules, preset="read-only")
    assert client.exec(sandbox.id, "ls").stdout == "docs\nopen\n"
    assert client.exec(sandbox.id, "echo y >docs/b").success
    assert not client.exec(sandbox.id, "echo y >open").success


def test_output_comes_while_a_command_runs_and_closing_ends_it(client: SandboxClient) -> None:
    sandbox = client.create_sandbox()
    assert b"".join(client.exec_stream(sandbox.id, "echo a; echo b >&2")) in (b"a\nb\n", b"b\na\n")
    with pytest.raises(CommandExecutionError):
        list(client.exec_stream(sandbox.id, "exit 3"))
    stream = client.exec_stream(sandbox.id, "echo begun; sleep 1000")
    assert next(stream) == b"begun\n"
    stream.close()
    eventually(lambda: client.exec(sandbox.id, "pgrep -x sleep").exit_code == 1)


def test_a_session_keeps_its_state(client: SandboxClient) -> None:
    sandbox = client.create_sandbox()
    with client.session(sandbox.id, env={"WHO": "me"}) as session:
        session.exec("mkdir -p d && cd d && export MORE=x")
        assert session.exec("echo $WHO $MORE $(basename $PWD)").stdout == "me x d\n"
        # Another client knows only its id.
        other = SandboxClient()
        assert other.session_exec(session.id, "cat", stdin="in").stdout == "in"
        assert [one.status for one in other.list_sessions(sandbox.id)] == ["active"]
        with pytest.raises(CommandTimeoutError):
            session.exec("sleep 1000", timeout=1)
    assert client.get_session(session.id).status == "closed"
    for session_id in (session.id, "none"):
        with pytest.raises(SessionClosedError):
            client.session_exec(session_id, "true")


def test_a_token_opens_what_its_scope_says(server: Served) -> None:
    with pytest.raises(PermissionDeniedError):
        SandboxClient(server.url).list_sandboxes()
    reader = SandboxClient(server.url, token=server.token("--scope", "read"))
    assert reader.list_sandboxes() == []
    with pytest.raises(PermissionDeniedError) as refused:
        reader.create_sandbox()
    assert refused.value.code == "missing-scope"
    runner = SandboxClient(server.url, token=server.token("--scope", "run", "--tenant", "acme"))
    sandbox = runner.create_sandbox()
    with pytest.raises(VaultNotFoundError):
        reader.get_sandbox(sandbox.id)


def test_the_environment_names_server_and_token(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AVFS_SERVER", server.url)
    monkeypatch.setenv("AVFS_TOKEN", server.token("--scope", "run"))
    assert SandboxClient().endpoint == server.url
    assert SandboxClient().list_sandboxes() == []


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    for endpoint in (f"unix:{tmp_path}/none", "http://127.0.0.1:1"):
        with pytest.raises(ServerUnreachableError):
            SandboxClient(endpoint).list_sandboxes()
        with pytest.raises(ConnectionError):
            SandboxClient(endpoint).exec("sb", "true")
    for wrong in ("box", "ftp://box", "http://", "http://box:port", "https://box/path"):
        with pytest.raises(InvalidInputError):
            SandboxClient(wrong)


def test_a_server_that_was_restarted_is_used_again(server: Served, start_server: Starter) -> None:
    client = SandboxClient()
    sandbox = client.create_sandbox()
    session = client.create_session(sandbox.id)
    server.process.terminate()
    server.process.wait()
    with pytest.raises(ServerUnreachableError):
        client.get_sandbox(sandbox.id)
    with start_server():
        assert client.exec(sandbox.id, "echo back").stdout == "back\n"
        assert client.get_session(session.id).status == "closed"


def test_connections_are_encrypted_and_the_certificate_is_checked(
    tmp_path: Path, start_server: Starter
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with start_server("--tls-cert", str(certificate), "--tls-key", str(key)) as served:
        url = served.url.replace("127.0.0.1", "localhost")
        token = served.token("--scope", "run")
        trusting = SandboxClient(url, token=token, ca_file=certificate)
        sandbox = trusting.create_sandbox()
        assert trusting.exec(sandbox.id, "echo secret").stdout == "secret\n"
        with pytest.raises(ServerUnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
            SandboxClient(url, token=token).list_sandboxes()
        with pytest.raises(ServerUnreachableError):
            SandboxClient(served.url.replace("https", "http"), token=token).list_sandboxes()


def test_threads_share_a_client(client: SandboxClient) -> None:
    sandbox = client.create_sandbox()
    outputs: list[str] = []

    def run(number: int) -> None:
        outputs.append(client.exec(sandbox.id, f"echo {number}").stdout)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outputs) == [f"{number}\n" for number in range(8)]


@pytest.mark.usefixtures("server")
def test_the_twin_with_await_does_the_same() -> None:
    async def main() -> None:
        async with AsyncSandboxClient() as client:
            codebase = await client.create_codebase("web")
            await client.upload_file(codebase.id, "f", "text")
            assert await client.download_file(codebase.id, "f") == b"text"
            sandbox = await client.create_sandbox(codebase.id)
            results = await asyncio.gather(*(client.exec(sandbox.id, f"echo {n}") for n in range(4)))
            assert [result.stdout for result in results] == [f"{n}\n" for n in range(4)]
            assert [piece async for piece in client.exec_stream(sandbox.id, "echo piece")] == [b"piece\n"]
            async with await client.session(sandbox.id) as session:
                await session.exec("A=b")
                assert (await session.exec("echo $A")).stdout == "b\n"
            # A call that is cancelled ends its command.
            begun = asyncio.Event()
            running = asyncio.create_task(
                client.exec(sandbox.id, "echo begun; sleep 1000", on_stdout=lambda _: begun.set())
            )
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            while (await client.exec(sandbox.id, "pgrep -x sleep")).exit_code != 1:
                await asyncio.sleep(0.02)
            await client.destroy_sandbox(sandbox.id)
            await client.delete_codebase(codebase.id)

    asyncio.run(main())
