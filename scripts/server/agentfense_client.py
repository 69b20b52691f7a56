"""Drives `avfs serve` with AgentFense's Python client, unmodified, and holds each answer against what it promises.

    agentfense_client.py ENDPOINT OPEN-ENDPOINT GATEWAY

ENDPOINT is the Unix socket of the server; OPEN-ENDPOINT and GATEWAY are its ports for clients without a credential. Ends
with the first expectation that does not hold.
"""

import asyncio
import base64
import hashlib
import json
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path

import agentfense
import grpc
from agentfense import (
    AsyncSandbox,
    AsyncSandboxClient,
    CommandTimeoutError,
    Permission,
    PermissionRule,
    PatternType,
    ResourceLimits,
    Sandbox,
    SandboxClient,
    SandboxError,
    SandboxStatus,
    SessionStatus,
)
from agentfense._gen import codebase_pb2, sandbox_pb2, sandbox_pb2_grpc
from agentfense.exceptions import InvalidConfigurationError, ResourceLimitExceededError
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

PARTS = []
EVERYTHING = [{"pattern": "**/*", "permission": "write"}]


def part(function):
    PARTS.append(function)
    return function


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def fails(kind, work, code=None):
    """Returns the error of this kind with which the work ends."""
    try:
        done = work()
    except kind as error:
        expect(code is None or error.grpc_code == code.value, repr(error))
        return error
    raise AssertionError(f"it ends without {kind.__name__}: {done!r}")


def eventually(holds, what):
    until = time.monotonic() + 60
    while not holds():
        expect(time.monotonic() < until, what)
        time.sleep(0.05)


def made(client, files=None, permissions=EVERYTHING, **words):
    """A codebase with these files, and a sandbox on it that runs."""
    codebase = client.create_codebase(name="made", owner_id=words.pop("owner", "tests"))
    for path, contents in (files or {}).items():
        client.upload_file(codebase.id, path, contents)
    sandbox = client.create_sandbox(codebase.id, permissions=permissions, **words)
    return codebase, client.start_sandbox(sandbox.id)


@part
def codebases(client, _):
    codebase = client.create_codebase(name="first", owner_id="ann")
    expect(codebase.id.startswith("cb_") and len(codebase.id) == 19, codebase)
    contents = bytes(range(256)) * 1000
    result = client.upload_file(codebase.id, "src/data.bin", contents)
    expect(result.size == len(contents), result)
    expect(result.checksum == hashlib.md5(contents).hexdigest(), result)
    client.upload_file(codebase.id, "/README.md", b"# read me\n")
    client.upload_file(codebase.id, "empty", b"")
    expect(client.download_file(codebase.id, "src/data.bin") == contents, "it comes back as it was")
    expect(client.download_file(codebase.id, "empty") == b"", "also an empty file")

    listed = {file.path: file for file in client.list_files(codebase.id)}
    expect(set(listed) == {"src", "README.md", "empty"}, listed)
    expect(listed["src"].is_dir and listed["README.md"].size == 10, listed)
    below = [file.path for file in client.list_files(codebase.id, recursive=True)]
    expect("src/data.bin" in below and len(below) == 4, below)
    expect([file.name for file in client.list_files(codebase.id, "src")] == ["data.bin"], "of a directory")

    known = client.get_codebase(codebase.id)
    expect((known.name, known.owner_id, known.file_count) == ("first", "ann", 3), known)
    expect(known.size == len(contents) + 10 and known.updated_at >= known.created_at, known)
    other = client.create_codebase(name="first", owner_id="bob")
    of_ann = [one.id for one in client.list_codebases(owner_id="ann")]
    expect(codebase.id in of_ann and other.id not in of_ann, of_ann)
    expect({codebase.id, other.id} <= {one.id for one in client.list_codebases()}, "both are listed")

    missing = grpc.StatusCode.NOT_FOUND
    fails(SandboxError, lambda: client.download_file(codebase.id, "nothing"), missing)
    fails(SandboxError, lambda: client.get_codebase("cb_0000000000000000"), missing)
    fails(SandboxError, lambda: client.upload_file("cb_0000000000000000", "a", b""), missing)
    fails(InvalidConfigurationError, lambda: client.create_codebase(name="", owner_id="ann"))
    fails(InvalidConfigurationError, lambda: client.upload_file(codebase.id, "../out", b""))
    for one in (codebase, other):
        client.delete_codebase(one.id)
    fails(SandboxError, lambda: client.get_codebase(codebase.id), missing)


@part
def pages(client, _):
    made_ones = [client.create_codebase(name=f"page {n}", owner_id="paged").id for n in range(5)]
    found, token = [], ""
    for _ in range(3):
        asked = codebase_pb2.ListCodebasesRequest(owner_id="paged", page_size=2, page_token=token)
        page = client._codebase_stub.ListCodebases(asked)
        found += [one.id for one in page.codebases]
        token = page.next_page_token
    expect(sorted(found) == sorted(made_ones) and token == "", (found, token))
    sandboxes = [client.create_sandbox(made_ones[0]).id for _ in range(3)]
    first = client._sandbox_stub.ListSandboxes(
        sandbox_pb2.ListSandboxesRequest(codebase_id=made_ones[0], page_size=2)
    )
    rest = client._sandbox_stub.ListSandboxes(
        sandbox_pb2.ListSandboxesRequest(
            codebase_id=made_ones[0], page_size=2, page_token=first.next_page_token
        )
    )
    listed = [one.id for one in [*first.sandboxes, *rest.sandboxes]]
    expect(sorted(listed) == sorted(sandboxes) and rest.next_page_token == "", listed)
    for one in sandboxes:
        client.destroy_sandbox(one)
    for one in made_ones:
        client.delete_codebase(one)


@part
def lifecycle(client, _):
    codebase = client.create_codebase(name="life", owner_id="tests")
    limits = ResourceLimits(memory_bytes=1 << 30, pids_limit=64)
    sandbox = client.create_sandbox(
        codebase.id,
        permissions=[PermissionRule("/docs", Permission.WRITE, PatternType.DIRECTORY, 3)],
        labels={"of": "tests"},
        expires_in=timedelta(hours=1),
        resources=limits,
    )
    expect(sandbox.id.startswith("sb_") and len(sandbox.id) == 19, sandbox)
    expect(sandbox.status == SandboxStatus.PENDING and sandbox.codebase_id == codebase.id, sandbox)
    expect(sandbox.labels == {"of": "tests"} and sandbox.resources == limits, sandbox)
    [rule] = sandbox.permissions
    expect((rule.pattern, rule.type, rule.priority) == ("/docs", PatternType.DIRECTORY, 3), rule)
    expect(3500 < (sandbox.expires_at - sandbox.created_at).total_seconds() < 3700, sandbox)
    refused = grpc.StatusCode.FAILED_PRECONDITION
    fails(SandboxError, lambda: client.exec(sandbox.id, "true"), refused)
    fails(SandboxError, lambda: client.stop_sandbox(sandbox.id), refused)

    started = client.start_sandbox(sandbox.id)
    expect(started.status == SandboxStatus.RUNNING and started.started_at, started)
    fails(SandboxError, lambda: client.start_sandbox(sandbox.id), refused)
    fails(SandboxError, lambda: client.delete_codebase(codebase.id), refused)
    expect(client.exec(sandbox.id, "true").exit_code == 0, "it runs commands")
    stopped = client.stop_sandbox(sandbox.id)
    expect(stopped.status == SandboxStatus.STOPPED and stopped.stopped_at, stopped)
    fails(SandboxError, lambda: client.exec(sandbox.id, "true"), refused)
    client.start_sandbox(sandbox.id)
    expect(client.exec(sandbox.id, "true").exit_code == 0, "it starts again")
    expect([one.id for one in client.list_sandboxes(codebase.id)] == [sandbox.id], "it is listed")

    missing = grpc.StatusCode.NOT_FOUND
    client.destroy_sandbox(sandbox.id)
    fails(SandboxError, lambda: client.get_sandbox(sandbox.id), missing)
    fails(SandboxError, lambda: client.destroy_sandbox(sandbox.id), missing)
    fails(SandboxError, lambda: client.create_sandbox("cb_0000000000000000"), missing)
    fails(InvalidConfigurationError, lambda: client.create_sandbox(""))
    client.delete_codebase(codebase.id)


@part
def commands(client, _):
    codebase, sandbox = made(client, {"src/hello.py": b"print('hello')\n"})
    run = lambda command, **words: client.exec(sandbox.id, command, **words)
    result = run("python3 src/hello.py; echo trouble >&2; exit 3")
    expect((result.stdout, result.stderr, result.exit_code) == ("hello\n", "trouble\n", 3), result)
    expect(timedelta(0) < result.duration < timedelta(seconds=60), result)
    expect(run("cat", stdin="given").stdout == "given", "it reads its input")
    expect(run("cat").stdout == "", "which is empty otherwise")
    expect(run("pwd", workdir="/workspace/src").stdout == "/workspace/src\n", "it has its directory")
    expect(run("pwd").stdout == "/workspace\n", "which is the workspace otherwise")
    expect(run('echo "$A $B"', env={"A": "one", "B": "two words"}).stdout == "one two words\n", "and variables")
    begun = time.monotonic()
    fails(CommandTimeoutError, lambda: run("sleep 100", timeout=timedelta(seconds=1)))
    expect(time.monotonic() - begun < 50, "it does not wait longer")
    expect(run("kill -9 $$").exit_code == 137, "a signal is a status")
    fails(InvalidConfigurationError, lambda: run(""))
    # Background processes live on, as in one machine.
    run("sleep 1000 >/dev/null 2>&1 & echo $! > pid")
    expect(run("kill -0 $(cat pid)").exit_code == 0, "what was left in the background runs")
    client.destroy_sandbox(sandbox.id)
    client.delete_codebase(codebase.id)


@part
def streams(client, _):
    codebase, sandbox = made(client)
    chunks = list(client.exec_stream(sandbox.id, "echo one; sleep 0.2; echo two"))
    expect(b"".join(chunks) == b"one\ntwo\n", chunks)
    call = client._sandbox_stub.ExecStream(
        sandbox_pb2.ExecRequest(sandbox_id=sandbox.id, command="echo out; echo err >&2; exit 7")
    )
    kinds = {sandbox_pb2.ExecOutput.OUTPUT_TYPE_STDOUT: b"", sandbox_pb2.ExecOutput.OUTPUT_TYPE_STDERR: b""}
    for output in call:
        kinds[output.type] += output.data
    expect(list(kinds.values()) == [b"out\n", b"err\n"], kinds)
    trailers = {one.key: one.value for one in call.trailing_metadata()}
    expect(trailers.get("exit-code") == "7" and call.code() == grpc.StatusCode.OK, trailers)

    def timed_out():
        return list(client.exec_stream(sandbox.id, "echo begun; sleep 100", timeout=timedelta(seconds=1)))

    try:
        timed_out()
    except grpc.RpcError as error:
        expect(error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error)
    else:
        raise AssertionError("the stream ends well")

    # A client that goes away takes its command with it.
    call = client._sandbox_stub.ExecStream(
        sandbox_pb2.ExecRequest(sandbox_id=sandbox.id, command="echo $$; exec sleep 1000")
    )
    pid = int(next(call).data)
    call.cancel()
    eventually(lambda: client.exec(sandbox.id, f"kill -0 {pid}").exit_code != 0, "the command ends")
    client.destroy_sandbox(sandbox.id)
    client.delete_codebase(codebase.id)


@part
def permissions(client, _):
    files = {
        "docs/guide.md": b"guide",
        "src/app.py": b"app",
        ".env": b"SECRET=1",
        "listed.txt": b"no reading",
        "secrets/key": b"key",
    }
    codebase, sandbox = made(
        client,
        files,
        permissions=[
            {"pattern": "**/*", "permission": "read"},
            {"pattern": "/docs/**", "permission": "write"},
            {"pattern": "**/.env", "permission": "none", "priority": 10},
            {"pattern": "/secrets/", "permission": "none", "type": "directory"},
            {"pattern": "/listed.txt", "permission": "view", "type": "file"},
        ],
    )
    run = lambda command: client.exec(sandbox.id, command)
    expect(run("ls -A").stdout.split() == ["docs", "listed.txt", "src"], run("ls -A"))
    expect("No such file" in run("cat .env").stderr, "what is hidden does not exist")
    expect("No such file" in run("cat secrets/key").stderr, "with what is below it")
    expect("Permission denied" in run("cat listed.txt").stderr, "what is listed is not read")
    expect(run("cat src/app.py").stdout == "app", "what may be read is read")
    denied = run("echo changed > src/app.py")
    expect(denied.exit_code != 0 and "denied" in denied.stderr, denied)
    expect(run("echo changed > docs/guide.md && cat docs/guide.md").stdout == "changed\n", "the rest is written")
    client.destroy_sandbox(sandbox.id)
    expect(client.download_file(codebase.id, "docs/guide.md") == b"changed\n", "and it goes back")
    expect(client.download_file(codebase.id, "src/app.py") == b"app", "and nothing else")
    expect(client.download_file(codebase.id, ".env") == b"SECRET=1", "what was hidden is still there")
    client.delete_codebase(codebase.id)

    codebase, sandbox = made(client, {"a": b"a"}, permissions=[])
    expect(client.exec(sandbox.id, "ls -A").stdout == "", "without permissions, nothing exists")
    client.destroy_sandbox(sandbox.id)
    client.delete_codebase(codebase.id)


@part
def giving_back(client, _):
    codebase, first = made(client, {"a": b"1\n", "b": b"1\n"})
    second = client.start_sandbox(client.create_sandbox(codebase.id, permissions=EVERYTHING).id)
    client.exec(first.id, "echo first > a; mkdir new; echo x > new/file; rm b")
    expect(client.download_file(codebase.id, "new/file") == b"x\n", "a command's changes are in the codebase")
    fails(SandboxError, lambda: client.download_file(codebase.id, "b"), grpc.StatusCode.NOT_FOUND)
    client.upload_file(codebase.id, "uploaded", b"later")
    expect(client.exec(first.id, "cat uploaded").stdout == "later", "and uploads are in the sandbox")
    expect(client.exec(second.id, "cat a").stdout == "first\n", "and what the other one has done")

    # Both change one line; the second one keeps its own until it ends, and is told then.
    both = threading.Barrier(2)

    def change(sandbox, word):
        both.wait()
        client.exec(sandbox.id, f"sleep 2; echo {word} > a")

    threads = [threading.Thread(target=change, args=one) for one in [(first, "one"), (second, "two")]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = []
    for sandbox in (first, second):
        try:
            client.destroy_sandbox(sandbox.id)
        except SandboxError as error:
            expect(error.grpc_code == grpc.StatusCode.ABORTED.value, error)
            told.append(error.details)
    expect(len(told) == 1 and codebase.id in told[0] and told[0].endswith("a"), told)
    kept = client.download_file(codebase.id, "a")
    expect(b"one" in kept and b"two" in kept, kept)
    client.delete_codebase(codebase.id)


@part
def expiry(client, _):
    codebase = client.create_codebase(name="short", owner_id="tests")
    sandbox = client.create_sandbox(
        codebase.id, permissions=EVERYTHING, expires_in=timedelta(seconds=4)
    )
    client.start_sandbox(sandbox.id)
    client.exec(sandbox.id, "echo kept > result")

    def is_gone():
        try:
            client.get_sandbox(sandbox.id)
        except SandboxError as error:
            return error.grpc_code == grpc.StatusCode.NOT_FOUND.value
        return False

    eventually(is_gone, "it expires")
    expect(client.download_file(codebase.id, "result") == b"kept\n", "and its changes are kept")
    eventually(lambda: deleted(client, codebase.id), "the codebase can go then")


def deleted(client, codebase):
    try:
        client.delete_codebase(codebase)
    except SandboxError:
        return False
    return True


@part
def limits(client, _):
    codebase, sandbox = made(
        client,
        resources=ResourceLimits(memory_bytes=200 << 20, pids_limit=20, cpu_quota=20_000, cpu_shares=512),
    )
    eaten = client.exec(sandbox.id, "python3 -c 'x = bytearray(1 << 30); x[::4096] = b\"1\" * (1 << 18)'")
    expect(eaten.exit_code != 0, "memory is limited")
    forked = client.exec(sandbox.id, "for i in $(seq 60); do sleep 5 & done; wait", timeout=timedelta(seconds=60))
    expect("fork" in forked.stderr or "Resource" in forked.stderr, forked)
    # A fifth of one CPU: what needs a second of it takes five.
    spin = "import time\nwhile time.process_time() < 0.6: pass"
    slow = client.exec(sandbox.id, f"python3 -c '{spin}'")
    expect(slow.duration > timedelta(seconds=2), slow)
    client.destroy_sandbox(sandbox.id)
    client.delete_codebase(codebase.id)


@part
def sessions(client, _):
    codebase, sandbox = made(client, {"src/a": b"a"})
    with client.session(sandbox.id, env={"GIVEN": "yes"}) as session:
        expect(session.id.startswith("sess_") and len(session.id) == 21, session.id)
        expect((session.status, session.shell) == (SessionStatus.ACTIVE, "/bin/sh"), session._session)
        session.exec("cd src; export KEPT=1; twice() { echo $1 $1; }")
        result = session.exec('pwd; echo "$KEPT $GIVEN"; twice x; echo oops >&2; (exit 5)')
        expect(result.stdout == "/workspace/src\n1 yes\nx x\n" and result.stderr == "oops\n", result)
        expect(result.exit_code == 5, result)
        session.exec("sleep 1000 & echo $! > ../pid")
        expect(session.exec("kill -0 $(cat ../pid)").exit_code == 0, "jobs live on")
        fails(CommandTimeoutError, lambda: session.exec("sleep 100", timedelta(seconds=1)))
        expect(session.exec("echo $KEPT").stdout == "1\n", "the session survives that")
        call = client._sandbox_stub.SessionExecStream(
            sandbox_pb2.SessionExecRequest(session_id=session.id, command="echo streamed; exit_in() { (exit 4); }; exit_in")
        )
        expect(b"".join(output.data for output in call) == b"streamed\n", "its output is streamed")
        expect(dict(call.trailing_metadata()).get("exit-code") == "4", call.trailing_metadata())
        session.exec("echo written > by-session")
        expect(client.download_file(codebase.id, "src/by-session") == b"written\n", "its changes go back")
        [listed] = client.list_sessions(sandbox.id)
        expect((listed.id, listed.status) == (session.id, SessionStatus.ACTIVE), listed)
    closed = client.get_session(session.id)
    expect(closed.status == SessionStatus.CLOSED and closed.closed_at, closed)
    fails(SandboxError, lambda: session.exec("true"), grpc.StatusCode.FAILED_PRECONDITION)
    missing = grpc.StatusCode.NOT_FOUND
    fails(SandboxError, lambda: client.get_session("sess_0000000000000000"), missing)

    # `exit` ends a session, and a stop ends all of them.
    ended, other = client.create_session(sandbox.id), client.create_session(sandbox.id, shell="/bin/bash")
    expect(ended.exec("exit 6").exit_code == 6, "the last command has a status")
    expect(client.get_session(ended.id).status == SessionStatus.CLOSED, "it is closed then")
    client.stop_sandbox(sandbox.id)
    expect(client.get_session(other.id).status == SessionStatus.CLOSED, "so is the other one")
    fails(SandboxError, lambda: client.create_session(sandbox.id), grpc.StatusCode.FAILED_PRECONDITION)
    client.destroy_sandbox(sandbox.id)
    fails(SandboxError, lambda: client.get_session(other.id), missing)
    client.delete_codebase(codebase.id)


@part
def high_level(client, endpoint):
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "main.py").write_text("print(open('data/in.txt').read().upper())\n")
        (place / "data").mkdir()
        (place / "data/in.txt").write_text("words")
        (place / ".env").write_text("SECRET=1")
        with Sandbox.from_local(directory, preset="development", endpoint=endpoint) as sandbox:
            expect(sandbox.status == SandboxStatus.RUNNING, sandbox.info)
            expect(sandbox.run("python3 main.py").stdout == "WORDS\n", "it runs what was uploaded")
            sandbox.run("echo done > output.txt", raise_on_error=True)
            expect(sandbox.read_file("/workspace/output.txt") == "done\n", "results are read")
            sandbox.write_file("/workspace/more.txt", "more")
            expect(sandbox.run("cat more.txt").stdout == "more", "and files are given")
            expect("main.py" in sandbox.list_files(), sandbox.list_files())
            with sandbox.session() as session:
                expect(session.exec("ls data").stdout == "in.txt\n", "it has sessions")
            again = Sandbox.connect(sandbox.id, endpoint=endpoint)
            expect(again.run("cat output.txt").stdout == "done\n", "others connect to it")
            codebase = sandbox.codebase_id
        fails(SandboxError, lambda: client.get_codebase(codebase), grpc.StatusCode.NOT_FOUND)
        with Sandbox.from_local(directory, preset="agent-safe", endpoint=endpoint) as sandbox:
            result = sandbox.run("echo x > main.py")
            expect(not result.success, result)
            expect(sandbox.run("mkdir output && echo x > output/a && cat output/a").stdout == "x\n", "one place is left")
        with Sandbox.from_local(directory, endpoint=endpoint) as sandbox:
            expect(sandbox.run("cat main.py").exit_code != 0, "the default shows names alone")
            expect(sandbox.run("ls").stdout.split() == ["data", "main.py"], "which are there")


@part
def concurrently(_, endpoint):
    async def drive():
        async with AsyncSandboxClient(endpoint=endpoint) as client:
            codebase = await client.create_codebase(name="async", owner_id="tests")
            await client.upload_file(codebase.id, "a", b"async")
            expect(await client.download_file(codebase.id, "a") == b"async", "files are there")
            sandbox = await client.create_sandbox(codebase.id, permissions=EVERYTHING)
            await client.start_sandbox(sandbox.id)
            results = await asyncio.gather(*(client.exec(sandbox.id, f"echo {n}; cat a") for n in range(10)))
            expect([one.stdout for one in results] == [f"{n}\nasync" for n in range(10)], results)
            chunks = [chunk async for chunk in client.exec_stream(sandbox.id, "echo streamed")]
            expect(b"".join(chunks) == b"streamed\n", chunks)
            session = await client.create_session(sandbox.id)
            await session.exec("cd /tmp")
            expect((await session.exec("pwd")).stdout == "/tmp\n", "sessions keep their state")
            await session.close()
            await client.destroy_sandbox(sandbox.id)
            await client.delete_codebase(codebase.id)
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "a").write_text("high")
            async with await AsyncSandbox.from_local(directory, preset="read-only", endpoint=endpoint) as sandbox:
                expect((await sandbox.run("cat a")).stdout == "high", "the high level works")

    asyncio.run(drive())


@part
def after_a_client_that_is_gone(client, endpoint):
    """An upload that ends in the middle changes nothing."""
    codebase = client.create_codebase(name="gone", owner_id="tests")

    def chunks():
        yield codebase_pb2.UploadChunk(
            metadata=codebase_pb2.UploadChunk.Metadata(codebase_id=codebase.id, file_path="a", total_size=10)
        )
        yield codebase_pb2.UploadChunk(data=b"half")

    try:
        client._codebase_stub.UploadFiles(chunks())
    except grpc.RpcError as error:
        expect(error.code() == grpc.StatusCode.INVALID_ARGUMENT, error)
    else:
        raise AssertionError("half a file is taken for a whole one")
    expect(client.list_files(codebase.id) == [], "nothing is there")
    client.delete_codebase(codebase.id)


@part
def reflection(_, endpoint):
    """What grpcurl asks, and the same numbers as the client's own."""
    with grpc.insecure_channel(endpoint) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        ask = lambda **words: next(
            stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(**words)]))
        )
        services = {one.name for one in ask(list_services="").list_services_response.service}
        expect({"sandbox.v1.SandboxService", "sandbox.v1.CodebaseService"} <= services, services)
        pool, waiting = descriptor_pool.DescriptorPool(), ["sandbox.v1.SandboxService", "sandbox.v1.CodebaseService"]
        files = {}
        for symbol in waiting:
            answer = ask(file_containing_symbol=symbol).file_descriptor_response
            for encoded in answer.file_descriptor_proto:
                file = descriptor_pb2.FileDescriptorProto.FromString(encoded)
                files[file.name] = file

        added = set()

        def add(name):
            if name in added:
                return
            added.add(name)
            if name not in files:
                encoded = ask(file_by_filename=name).file_descriptor_response.file_descriptor_proto[0]
                files[name] = descriptor_pb2.FileDescriptorProto.FromString(encoded)
            for needed in files[name].dependency:
                add(needed)
            pool.Add(files[name])

        for name in list(files):
            add(name)
    for module in (sandbox_pb2, codebase_pb2):
        for name, known in module.DESCRIPTOR.message_types_by_name.items():
            same(known, pool.FindMessageTypeByName(known.full_name))
    expect(
        {one.name: one.number for one in sandbox_pb2.RuntimeType.DESCRIPTOR.values}
        == {one.name: one.number for one in pool.FindEnumTypeByName("sandbox.v1.RuntimeType").values},
        "runtimes",
    )


def same(known, served):
    def facts(message):
        return {one.name: (one.number, one.type, one.is_repeated) for one in message.fields}

    expect(facts(known) == facts(served), f"{known.full_name}: {facts(known)} {facts(served)}")
    for nested in known.nested_types:
        same(nested, served.nested_types_by_name[nested.name])


def gateway(url):
    """The paths of the gateway, by plain HTTP."""

    def ask(method, path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, {"Content-Type": "application/json", **headers}, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    status, codebase = ask("POST", "/v1/codebases", {"name": "rest", "owner_id": "ann"})
    expect(status == 200 and codebase["ownerId"] == "ann" and codebase["size"] == "0", codebase)
    of_codebase = f"/v1/codebases/{codebase['id']}"
    expect(ask("GET", of_codebase)[1]["name"] == "rest", "it is there")
    status, page = ask("GET", "/v1/codebases?ownerId=ann&page_size=1")
    expect(status == 200 and len(page["codebases"]) == 1, page)
    status, sandbox = ask(
        "POST",
        "/v1/sandboxes",
        {
            "codebaseId": codebase["id"],
            "permissions": [{"pattern": "**/*", "permission": "PERMISSION_WRITE", "type": "PATTERN_TYPE_GLOB"}],
            "labels": {"a": "b"},
            "expiresIn": "3600s",
        },
    )
    expect(status == 200 and sandbox["status"] == "SANDBOX_STATUS_PENDING", sandbox)
    expect(sandbox["expiresAt"].endswith("Z") and sandbox["startedAt"] is None, sandbox)
    of_sandbox = f"/v1/sandboxes/{sandbox['id']}"
    status, refused = ask("POST", f"{of_sandbox}/exec", {"command": "true"})
    expect((status, refused["code"], refused["details"]) == (400, 9, []), refused)
    expect(ask("POST", f"{of_sandbox}/start", {})[1]["status"] == "SANDBOX_STATUS_RUNNING", "it starts")
    status, result = ask("POST", f"{of_sandbox}/exec", {"command": "echo $A > a; cat a", "env": {"A": "rest"}})
    expect(status == 200 and result["stdout"] == "rest\n" and result["exitCode"] == 0, result)
    expect(result["duration"].endswith("s"), result)
    status, files = ask("GET", f"{of_codebase}/files?recursive=true")
    expect(status == 200 and [one["path"] for one in files["files"]] == ["a"], files)
    expect(ask("POST", f"{of_sandbox}/exec", {"command": "sleep 60", "timeout": "1s"})[0] == 504, "it times out")
    status, session = ask("POST", f"{of_sandbox}/sessions", {"shell": "/bin/bash"})
    expect(status == 200 and session["status"] == "SESSION_STATUS_ACTIVE", session)
    of_session = f"/v1/sessions/{session['id']}"
    ask("POST", f"{of_session}/exec", {"command": "cd /tmp"})
    expect(ask("POST", f"{of_session}/exec", {"command": "pwd"})[1]["stdout"] == "/tmp\n", "it keeps its state")
    expect(ask("GET", of_session)[1]["sandboxId"] == sandbox["id"], "it is there")
    expect(len(ask("GET", f"{of_sandbox}/sessions")[1]["sessions"]) == 1, "it is listed")
    expect(ask("DELETE", of_session)[0] == 200, "it ends")
    expect(ask("POST", f"{of_sandbox}/stop")[1]["status"] == "SANDBOX_STATUS_STOPPED", "the sandbox stops")
    expect(len(ask("GET", f"/v1/sandboxes?codebase_id={codebase['id']}")[1]["sandboxes"]) == 1, "it is listed")
    expect(ask("DELETE", of_sandbox)[0] == 200 and ask("GET", of_sandbox)[0] == 404, "it goes")
    expect(ask("DELETE", of_codebase) == (200, {}), "so does the codebase")
    status, wrong = ask("POST", "/v1/codebases", {"name": 5})
    expect((status, wrong["code"]) == (400, 3), wrong)

    # What a page of another server can send is refused, and so is a name that it has made stand for this machine.
    expect(ask("GET", "/v1/codebases", Origin="http://evil.example")[0] == 403, "another origin")
    expect(ask("GET", "/v1/codebases", Host="evil.example")[0] == 403, "another host")
    # Nothing else of the server is at this port.
    expect(ask("GET", "/api/v1/vaults")[0] == 404 and ask("GET", "/sandboxes")[0] == 404, "other interfaces")


def main(endpoint, open_endpoint, url):
    for place in (endpoint, open_endpoint):
        for function in PARTS:
            # Once is enough for what takes long.
            if place == open_endpoint and function in (expiry, limits, giving_back, permissions):
                continue
            with SandboxClient(endpoint=place) as client:
                begun = time.monotonic()
                function(client, place)
                print(f"  {function.__name__} {time.monotonic() - begun:.1f}s", flush=True)
    gateway(url)
    print(f"agentfense {agentfense.__version__}: {len(PARTS) + 1} parts", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
