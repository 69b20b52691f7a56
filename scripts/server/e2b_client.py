"""Drives `avfs serve` with E2B's Python SDK, unmodified, and holds each answer against what the SDK promises.

    e2b_client.py

The SDK finds the server by its own variables: E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL. Ends with the first
expectation that does not hold. Works with every version of the SDK since 2.13; what a version does not have is left out.
"""

import inspect
import io
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from importlib.metadata import version

import e2b
from e2b import CommandExitException, Sandbox

PARTS = {}
# With letters that have a meaning in addresses.
METADATA = {"of": "tests", "run": f"a b=c&{uuid.uuid4()}"}


def part(function):
    PARTS[function.__name__] = function
    return function


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def fails(kind, work):
    """Returns the error of this kind with which the work ends."""
    try:
        done = work()
    except kind as error:
        return error
    raise AssertionError(f"it ends without {kind.__name__}: {done!r}")


def eventually(holds, what):
    until = time.monotonic() + 60
    while not holds():
        expect(time.monotonic() < until, what)
        time.sleep(0.05)


@part
def control(sandbox):
    info = sandbox.get_info()
    expect(info.sandbox_id == sandbox.sandbox_id and info.template_id == "base", info)
    expect(info.metadata == METADATA, info)
    expect(250 < (info.end_at - info.started_at).total_seconds() < 350, info)
    expect(info.state.value == "running" and info.cpu_count >= 1 and info.memory_mb > 0, info)
    expect(sandbox.is_running(), "it runs")

    sandbox.set_timeout(1000)
    later = sandbox.get_info()
    expect(900 < (later.end_at - later.started_at).total_seconds() < 1100, later)

    listed = {}
    pages = Sandbox.list(query=e2b.SandboxQuery(metadata={"run": METADATA["run"]}))
    while pages.has_next:
        listed.update((one.sandbox_id, one) for one in pages.next_items())
    expect(set(listed) == {sandbox.sandbox_id}, listed)
    none = Sandbox.list(query=e2b.SandboxQuery(metadata={"of": "others"})).next_items()
    expect(none == [], none)

    two = [Sandbox.create(timeout=60), Sandbox.create(timeout=60)]
    pages, seen = Sandbox.list(limit=1), []
    while pages.has_next:
        page = pages.next_items()
        expect(len(page) <= 1, page)
        seen += [one.sandbox_id for one in page]
    expect({one.sandbox_id for one in two} <= set(seen) and len(set(seen)) == len(seen), seen)
    expect(two[0].kill() and not two[0].kill(), "a sandbox is killed once")
    expect(not two[0].is_running(), "it is gone")
    fails(Exception, lambda: two[0].commands.run("true"))
    fails(Exception, lambda: Sandbox.connect(two[0].sandbox_id))
    two[1].set_timeout(0)
    eventually(lambda: not two[1].is_running(), "its time is over")

    again = Sandbox.connect(sandbox.sandbox_id)
    expect(again.commands.run("echo same").stdout == "same\n", "another client of it")


@part
def commands(sandbox):
    ran = sandbox.commands.run("echo out; echo err >&2")
    expect((ran.stdout, ran.stderr, ran.exit_code) == ("out\n", "err\n", 0), ran)
    expect(sandbox.commands.run("pwd").stdout == "/home/user\n", "where commands start")
    expect(sandbox.commands.run("echo $HOME ~").stdout == "/home/user /home/user\n", "the home")
    expect(sandbox.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n", "another directory")
    expect(sandbox.commands.run("echo $A-$OF", envs={"A": "é b"}).stdout == "é b-sandbox\n", "variables")

    failed = fails(CommandExitException, lambda: sandbox.commands.run("echo no; exit 7"))
    expect((failed.exit_code, failed.stdout) == (7, "no\n"), failed)

    heard = []
    sandbox.commands.run("printf a; sleep 0.2; printf b >&2", on_stdout=heard.append, on_stderr=heard.append)
    expect(heard == ["a", "b"], heard)

    large = sandbox.commands.run("head -c 300000 /dev/zero | tr '\\0' x").stdout
    expect(large == "x" * 300000, f"{len(large)} bytes")

    begun = time.monotonic()
    fails(e2b.TimeoutException, lambda: sandbox.commands.run("sleep 60", timeout=1))
    expect(time.monotonic() - begun < 30, "the limit of a command")


@part
def background(sandbox):
    handle = sandbox.commands.run("echo begun; sleep 300", background=True)
    running = {one.pid: one for one in sandbox.commands.list()}
    expect(handle.pid in running, running)
    expect("sleep 300" in " ".join(running[handle.pid].args), running)
    handle.disconnect()
    again = sandbox.commands.connect(handle.pid)
    expect(next(iter(again))[0] == "begun\n", "what it wrote is told to the next client")
    expect(sandbox.commands.kill(handle.pid), "it runs on without a client")
    killed = fails(CommandExitException, again.wait)
    expect(killed.exit_code != 0, killed)
    expect(not sandbox.commands.kill(handle.pid), "it is killed once")

    ended = sandbox.commands.run("echo quick; exit 3", background=True)
    eventually(lambda: ended.pid not in [one.pid for one in sandbox.commands.list()], "it ends")
    late = fails(CommandExitException, sandbox.commands.connect(ended.pid).wait)
    expect((late.exit_code, late.stdout) == (3, "quick\n"), late)

    echo = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(echo.pid, "Zeile ü\n")
    expect(next(iter(echo))[0] == "Zeile ü\n", "its input comes back")
    if hasattr(echo, "close_stdin"):
        echo.send_stdin("last")
        echo.close_stdin()
        done = echo.wait()
        expect(done.exit_code == 0 and done.stdout.endswith("last"), done)
    else:
        echo.kill()


@part
def files(sandbox):
    written = sandbox.files.write("a/b.txt", "one ü\n")
    expect((written.name, written.path) == ("b.txt", "/home/user/a/b.txt"), written)
    for path in ["a/b.txt", "/home/user/a/b.txt", "./a/../a/b.txt"]:
        expect(sandbox.files.read(path) == "one ü\n", path)
    expect(sandbox.commands.run("cat a/b.txt /home/user/a/b.txt").stdout == "one ü\n" * 2, "inside")
    expect(sandbox.files.read("a/b.txt", format="bytes") == "one ü\n".encode(), "as bytes")
    streamed = b"".join(sandbox.files.read("a/b.txt", format="stream"))
    expect(streamed == "one ü\n".encode(), streamed)

    every = bytes(range(256)) * 5000
    sandbox.files.write("bytes", every)
    expect(sandbox.files.read("bytes", format="bytes") == every, "every byte")
    sandbox.files.write("bytes", io.BytesIO(every[::-1]))
    expect(sandbox.files.read("bytes", format="bytes") == every[::-1], "a file that is replaced by a stream")
    sandbox.commands.run("echo made >made.txt; mkdir -p c/d; ln -s a/b.txt link")
    expect(sandbox.files.read("made.txt") == "made\n", "what a command has written")
    expect(sandbox.files.read("link") == "one ü\n", "through a link")
    names = ["x.txt", 'q "u" %.txt', "deep/er/ü.txt"]
    many = sandbox.files.write_files([{"path": name, "data": name} for name in names])
    expect([one.path for one in many] == [f"/home/user/{name}" for name in names], many)
    for name in names:
        expect(sandbox.files.read(name) == name, name)

    expect(sandbox.files.exists("a/b.txt") and not sandbox.files.exists("a/c.txt"), "what exists")
    fails(e2b.NotFoundException, lambda: sandbox.files.read("no.txt"))
    fails(e2b.NotFoundException, lambda: sandbox.files.list("no"))
    fails(e2b.InvalidArgumentException, lambda: sandbox.files.read("a"))
    fails(e2b.InvalidArgumentException, lambda: sandbox.files.read("/etc/passwd"))
    fails(e2b.InvalidArgumentException, lambda: sandbox.files.write("../../../tmp/x", "x"))
    fails(e2b.AuthenticationException, lambda: sandbox.files.read("a/b.txt", user="root"))
    fails(Exception, lambda: sandbox.commands.run("id", user="root"))

    info = sandbox.files.get_info("a/b.txt")
    expect((info.name, info.path, info.size) == ("b.txt", "/home/user/a/b.txt", 7), info)
    expect((info.type.value, info.permissions, info.owner) == ("file", "-rw-r--r--", "user"), info)
    expect(abs(info.modified_time.timestamp() - time.time()) < 600, info)
    link = sandbox.files.get_info("link")
    # Newer versions have a type for links, and older ones say what they lead to.
    expect(link.symlink_target == "/home/user/a/b.txt" and link.type.value in ("file", "symlink"), link)

    expect(sandbox.files.make_dir("new/dir") and not sandbox.files.make_dir("new/dir"), "a directory is made once")
    moved = sandbox.files.rename("made.txt", "new/dir/moved.txt")
    expect(moved.path == "/home/user/new/dir/moved.txt", moved)
    shallow = sorted(one.name for one in sandbox.files.list("new"))
    expect(shallow == ["dir"], shallow)
    deep = sorted(one.path for one in sandbox.files.list("new", depth=2))
    expect(deep == ["/home/user/new/dir", "/home/user/new/dir/moved.txt"], deep)
    kinds = {one.name: one.type.value for one in sandbox.files.list("/home/user")}
    expect(kinds["a"] == "dir" and kinds["x.txt"] == "file", kinds)
    sandbox.files.remove("new")
    sandbox.files.remove("never-was")
    expect(not sandbox.files.exists("new"), "a directory is removed with what is in it")


@part
def packed(sandbox):
    """Uploads that are packed, which newer versions of the SDK can do."""
    if "gzip" not in inspect.signature(sandbox.files.write).parameters:
        return
    text = "again and " * 20000
    sandbox.files.write("packed.txt", text, gzip=True)
    expect(sandbox.files.read("packed.txt") == text, "a packed upload")
    expect(sandbox.files.read("packed.txt", gzip=True) == text, "and the way back")


@part
def metadata(sandbox):
    """What is kept with a file, which newer versions of the SDK can do."""
    if "metadata" not in inspect.signature(sandbox.files.write).parameters:
        return
    kept = {"author": "ann", "purpose": "a b"}
    expect(sandbox.files.write("kept/one", "1", metadata=kept).metadata == kept, "metadata of an upload")
    expect(sandbox.files.get_info("kept/one").metadata == kept, "and later")
    expect([one.metadata for one in sandbox.files.list("kept")] == [kept], "in a list")
    seen = sandbox.commands.run("python3 -c \"import os; print(os.getxattr('kept/one', 'user.e2b.author'))\"").stdout
    expect(seen == "b'ann'\n", seen)
    expect(sandbox.files.write("kept/one", "2", metadata={"only": "this"}).metadata == {"only": "this"}, "replaced")
    expect(sandbox.files.write("kept/one", "3").metadata is None, "taken away")


@part
def signed(sandbox):
    sandbox.files.write("signed.txt", "signed")

    def get(url, data=None, headers={}):
        with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
            return answer.read()

    expect(get(sandbox.download_url("signed.txt")) == b"signed", "a signed address")
    expect(get(sandbox.download_url("signed.txt", use_signature_expiration=60)) == b"signed", "for a minute")
    url = sandbox.download_url("signed.txt", use_signature_expiration=60)
    for wrong in [
        url.replace("signed.txt", "other.txt"),
        url.replace("signature=v1_", "signature=v1_AA"),
        url.split("&signature_expiration")[0],
        sandbox.download_url("signed.txt", use_signature_expiration=-10),
    ]:
        expect(fails(urllib.error.HTTPError, lambda: get(wrong)).code == 401, wrong)
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="ignored"\r\n\r\nby form\r\n--x--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    get(sandbox.upload_url("uploaded.txt"), form, kind)
    expect(sandbox.files.read("uploaded.txt") == "by form", "an upload to a signed address")
    wrong = sandbox.download_url("uploaded.txt")
    expect(fails(urllib.error.HTTPError, lambda: get(wrong, form, kind)).code == 401, "an address is for one way")


@part
def watching(sandbox):
    sandbox.files.make_dir("watched/below")
    watch = sandbox.files.watch_dir("watched")
    all_below = sandbox.files.watch_dir("watched", recursive=True)
    sandbox.files.write("watched/new.txt", "1")
    sandbox.commands.run("echo 2 >watched/below/deep.txt")

    def told(handle):
        return [(one.name, one.type.value) for one in handle.get_new_events()]

    expect(told(watch) == [("new.txt", "create"), ("new.txt", "chmod"), ("new.txt", "write")], "what is new")
    deep = told(all_below)
    expect(("below/deep.txt", "write") in deep and ("new.txt", "create") in deep, deep)
    expect(told(watch) == [], "it is told once")
    sandbox.files.write("watched/new.txt", "longer")
    expect(told(watch) == [("new.txt", "write")], "what has changed")
    sandbox.commands.run("chmod 600 watched/new.txt")
    expect(told(watch) == [("new.txt", "chmod")], "a mode")
    sandbox.files.remove("watched/new.txt")
    expect(told(watch) == [("new.txt", "remove")], "what is gone")
    watch.stop()
    fails(Exception, watch.get_new_events)
    fails(e2b.NotFoundException, lambda: sandbox.files.watch_dir("nowhere"))


@part
def terminal(sandbox):
    from e2b.sandbox.commands.command_handle import PtySize

    pty = sandbox.pty.create(PtySize(rows=33, cols=99))
    shown = bytearray()

    def await_text(text):
        for _, _, bytes_of in pty:
            if bytes_of is not None:
                shown.extend(bytes_of)
            if text in shown:
                return
        raise AssertionError(f"{text!r} is not shown: {bytes(shown)!r}")

    sandbox.pty.send_stdin(pty.pid, b"stty size; echo en''d\n")
    await_text(b"\r\nend")
    expect(b"33 99" in shown, bytes(shown))
    sandbox.pty.resize(pty.pid, PtySize(rows=40, cols=120))
    sandbox.pty.send_stdin(pty.pid, b"stty size; echo do''ne\n")
    await_text(b"\r\ndone")
    expect(b"40 120" in shown, bytes(shown))
    sandbox.pty.send_stdin(pty.pid, b"exit\n")
    expect(pty.wait().exit_code == 0, "the shell ends")
    other = sandbox.pty.create(PtySize(rows=24, cols=80))
    expect(sandbox.pty.kill(other.pid), "a terminal is killed")


@part
def pausing(sandbox):
    pause = getattr(sandbox, "pause", None) or sandbox.beta_pause
    # In a session of its own, to which no signal for the command comes.
    loop = "i=0; while :; do i=$((i+1)); echo $i >count; sleep 0.05; done"
    counting = sandbox.commands.run(f"setsid bash -c '{loop}' & wait", background=True)
    eventually(lambda: sandbox.files.exists("count"), "it counts")
    pause()
    expect(not sandbox.is_running(), "it is paused")
    expect(Sandbox.get_info(sandbox.sandbox_id).state.value == "paused", "it says so")
    paused = Sandbox.list(query=e2b.SandboxQuery(state=[e2b.SandboxState.PAUSED])).next_items()
    expect([one.sandbox_id for one in paused] == [sandbox.sandbox_id], paused)
    fails(Exception, lambda: sandbox.commands.run("true"))
    sandbox.connect(timeout=300)
    expect(sandbox.is_running(), "it runs again")
    first = sandbox.files.read("count")
    eventually(lambda: sandbox.files.read("count") not in (first, ""), "its processes go on")
    counting.kill()


@part
def at_the_end(sandbox):
    """What happens at the end of the time of a sandbox, which newer versions of the SDK can choose."""
    if "lifecycle" not in inspect.signature(Sandbox.create).parameters:
        return
    stays = Sandbox.create(timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": False})
    wakes = Sandbox.create(timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True})
    for one in [stays, wakes]:
        one.files.write("kept.txt", "kept")
        one.set_timeout(0)
        eventually(lambda: not one.is_running(), "its time is over")
        expect(one.get_info().state == e2b.SandboxState.PAUSED, "it is paused and not gone")
    fails(Exception, lambda: stays.files.read("kept.txt"))
    expect(wakes.files.read("kept.txt") == "kept" and wakes.is_running(), "a request wakes it")
    stays.connect(timeout=60)
    expect(stays.files.read("kept.txt") == "kept", "a connection lets it go on")
    expect(stays.kill() and wakes.kill(), "both are killed")


@part
def ports(sandbox):
    serving = sandbox.commands.run("python3 -m http.server 8001 --directory /home/user", background=True)
    sandbox.files.write("served.txt", "by name")
    # The name is one of this machine, which not every program can look up.
    request = urllib.request.Request(os.environ["E2B_SANDBOX_URL"] + "/served.txt")
    request.add_header("Host", sandbox.get_host(8001))

    def answer():
        try:
            return urllib.request.urlopen(request).read()
        except urllib.error.HTTPError as error:
            expect(error.code == 502, error)

    eventually(lambda: answer() == b"by name", "a port has a name")
    serving.kill()


@part
def measured(sandbox):
    last = sandbox.get_metrics()[-1]
    expect(last.cpu_count >= 1 and last.mem_total > last.mem_used >= 0 and last.disk_used > 0, last)


@part
def network(sandbox):
    """Changes of the network, which newer versions of the SDK have."""
    if not hasattr(sandbox, "update_network"):
        return
    sandbox.commands.run("true")
    # No policy grants it, and nobody is asked in a test.
    refused = fails(e2b.SandboxException, lambda: sandbox.update_network({"allow_out": ["nowhere.invalid"]}))
    expect("approv" in str(refused), refused)
    sandbox.update_network({"deny_out": ["0.0.0.0/0"]})
    sandbox.update_network({})
    fails(e2b.SandboxException, lambda: sandbox.update_network({"allow_out": ["no host"]}))


@part
def copies(sandbox):
    """Forks and snapshots, which newer versions of the SDK have."""
    if not hasattr(sandbox, "create_snapshot"):
        return
    sandbox.files.write("kept.txt", "before")
    snapshot = sandbox.create_snapshot()
    sandbox.files.write("kept.txt", "after")
    copy = Sandbox.create(snapshot.snapshot_id, timeout=60)
    expect(copy.files.read("kept.txt") == "before", "a sandbox from a snapshot")
    pages = Sandbox.list_snapshots(sandbox_id=sandbox.sandbox_id)
    listed = [one.snapshot_id for one in pages.next_items()]
    expect(listed == [snapshot.snapshot_id], listed)
    delete = Sandbox.delete_snapshot
    expect(delete(snapshot.snapshot_id) and not delete(snapshot.snapshot_id), "a snapshot is deleted once")
    if "name" in inspect.signature(sandbox.create_snapshot).parameters:
        named = sandbox.create_snapshot(name="kept:v1")
        expect(named.names == ["kept:v1"], named)
        again = Sandbox.create("kept:v1", timeout=60)
        expect(again.files.read("kept.txt") == "after" and again.kill(), "a sandbox from a name")
        expect(delete("kept:v1") and not delete(named.snapshot_id), "it is deleted by its name")
    fails(Exception, lambda: Sandbox.create(snapshot.snapshot_id))
    copy.kill()
    if hasattr(sandbox, "fork"):
        forks = sandbox.fork(count=3)
        for number, fork in enumerate(forks):
            fork.files.write("kept.txt", str(number))
        expect([fork.files.read("kept.txt") for fork in forks] == ["0", "1", "2"], "forks are apart")
        expect(sandbox.files.read("kept.txt") == "after", "and so is what they come from")
        for fork in forks:
            fork.kill()


@part
def git(sandbox):
    """The SDK's own commands for git, which newer versions have."""
    if not hasattr(sandbox, "git"):
        return
    sandbox.git.init("repository", initial_branch="main")
    sandbox.files.write("repository/a.txt", "a\n")
    sandbox.git.configure_user("Ann", "ann@example.com", scope="local", path="repository")
    sandbox.git.add("repository")
    sandbox.git.commit("repository", "first")
    status = sandbox.git.status("repository")
    expect(status.current_branch == "main" and status.is_clean, status)


@part
def absent(sandbox):
    """What there is not answers with an error that says so."""
    error = fails(e2b.SandboxException, lambda: Sandbox.create(mcp={"exa": {"apiKey": "x"}}))
    expect("docs/e2b.md" in str(error), error)


def main():
    wanted = sys.argv[1:] or list(PARTS)
    sandbox = Sandbox.create(timeout=300, metadata=METADATA, envs={"OF": "sandbox"})
    try:
        for name in wanted:
            PARTS[name](sandbox)
    finally:
        killed = sandbox.kill()
    expect(killed, "the sandbox is killed")
    print(f"e2b {version('e2b')}: {', '.join(wanted)}")


main()
