"""Drives `avfs serve` with E2B's code interpreter for Python, unmodified, and holds each answer against what it promises.

    e2b_interpreter.py

It finds the server by E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL. Ends with the first expectation that does not hold.
"""

import time
from importlib.metadata import version

from e2b import NotFoundException, SandboxException, TimeoutException
from e2b_code_interpreter import Sandbox

PARTS = []


def part(function):
    PARTS.append(function)
    return function


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def fails(kind, work):
    try:
        done = work()
    except kind as error:
        return error
    raise AssertionError(f"it ends without {kind.__name__}: {done!r}")


@part
def values(sandbox):
    expect(sandbox.run_code("x = 20; x").text == "20", "the value of the last line")
    expect(sandbox.run_code("x += 1\nx * 2").text == "42", "what was made before is there")
    none = sandbox.run_code("y = 1")
    expect(none.results == [] and none.error is None, none)
    count = sandbox.run_code("1").execution_count
    expect(sandbox.run_code("1").execution_count == count + 1, "pieces of code are counted")
    expect(sandbox.run_code("import os; os.getcwd()").text == "/home/user", "where code runs")
    expect(sandbox.run_code("await __import__('asyncio').sleep(0, 'waited')").text == "waited", "code that waits")


@part
def output(sandbox):
    heard = []
    ran = sandbox.run_code(
        "import sys\nprint('out')\nprint('err', file=sys.stderr)",
        on_stdout=lambda message: heard.append((message.line, message.error)),
        on_stderr=lambda message: heard.append((message.line, message.error)),
    )
    expect((ran.logs.stdout, ran.logs.stderr) == (["out\n"], ["err\n"]), ran)
    expect(heard == [("out\n", False), ("err\n", True)], heard)
    ran = sandbox.run_code("!echo from a shell; echo and its errors >&2")
    expect("".join(ran.logs.stdout) == "from a shell\n" and "".join(ran.logs.stderr) == "and its errors\n", ran)
    # Far more than is kept of the output of a command, and slower taken in than written.
    size = 0

    def take(message):
        nonlocal size
        size += len(message.line)
        if size < 100_000:
            time.sleep(0.01)

    sandbox.run_code("for _ in range(5000): print('x' * 999)", on_stdout=take)
    expect(size == 5_000_000, f"{size} bytes")


@part
def results(sandbox):
    code = """
    class Shown:
        def _repr_html_(self): return "<b>bold</b>"
        def _repr_png_(self): return b"\\x89PNG"
        def _repr_json_(self): return {"a": [1, None]}
        def __repr__(self): return "plain"
    display(Shown())
    Shown()
    """
    heard = []
    ran = sandbox.run_code(code, on_result=heard.append)
    expect([one.is_main_result for one in ran.results] == [False, True] and len(heard) == 2, ran.results)
    for one in ran.results:
        expect((one.text, one.html, one.png, one.json) == ("plain", "<b>bold</b>", "iVBORw==", {"a": [1, None]}), one)
        expect(set(one.formats()) == {"text", "html", "png", "json"}, list(one.formats()))
    raw = sandbox.run_code("display({'text/latex': 'x^2', 'application/own': 1}, raw=True)").results[0]
    expect(raw.latex == "x^2" and raw.extra == {"application/own": 1}, raw)


@part
def errors(sandbox):
    heard = []
    ran = sandbox.run_code("def f():\n    return 1 / 0\nf()", on_error=heard.append)
    expect((ran.error.name, ran.error.value) == ("ZeroDivisionError", "division by zero"), ran.error)
    expect("return 1 / 0" in ran.error.traceback and "<string>" not in ran.error.traceback, ran.error.traceback)
    expect(len(heard) == 1, heard)
    expect(sandbox.run_code("x =").error.name == "SyntaxError", "code that is none")
    expect(sandbox.run_code("raise SystemExit(3)").error.name == "SystemExit", "an exit")
    expect(sandbox.run_code("1 + 1").text == "2", "the context is there all the same")
    ended = sandbox.run_code("import os; os._exit(1)")
    expect(ended.error.name == "ContextEnded", ended)
    expect(sandbox.run_code("x").error.name == "NameError", "a new process knows nothing")
    expect("Python" in str(fails(SandboxException, lambda: sandbox.run_code("1", language="r"))), "other languages")


@part
def interrupts(sandbox):
    sandbox.run_code("kept = 'kept'")
    begun = time.monotonic()
    fails(TimeoutException, lambda: sandbox.run_code("import time; time.sleep(300)", timeout=1))
    expect(sandbox.run_code("kept", timeout=60).text == "kept", "code is interrupted when its time is over")
    expect(time.monotonic() - begun < 60, "soon")


@part
def variables(sandbox):
    code = "import os; os.getenv('OF'), os.getenv('ONE')"
    expect(sandbox.run_code(code).text == "('sandbox', None)", "variables of the sandbox")
    expect(sandbox.run_code(code, envs={"ONE": "1", "OF": "x"}).text == "('x', '1')", "and of one piece of code")
    expect(sandbox.run_code(code).text == "('sandbox', None)", "which go with it")


@part
def contexts(sandbox):
    usual = sandbox.list_code_contexts()[0]
    expect((usual.language, usual.cwd) == ("python", "/home/user"), usual)
    sandbox.files.make_dir("deep")
    other = sandbox.create_code_context(cwd="/home/user/deep")
    expect([one.id for one in sandbox.list_code_contexts()] == [usual.id, other.id], "a list")
    sandbox.run_code("x = 'usual'")
    sandbox.run_code("x = 'other'", context=other)
    expect(sandbox.run_code("x").text == "usual" and sandbox.run_code("x", context=other).text == "other", "apart")
    expect(sandbox.run_code("import os; os.getcwd()", context=other).text == "/home/user/deep", "its directory")
    sandbox.restart_code_context(other)
    expect(sandbox.run_code("x", context=other).error.name == "NameError", "it is restarted")
    sandbox.remove_code_context(other)
    fails(NotFoundException, lambda: sandbox.run_code("x", context=other))
    fails(SandboxException, lambda: sandbox.restart_code_context("../" + usual.id))
    fails(SandboxException, lambda: sandbox.create_code_context(cwd="/nowhere"))
    expect([one.id for one in sandbox.list_code_contexts()] == [usual.id], "what is removed")


@part
def files_and_commands(sandbox):
    sandbox.files.write("data.csv", "a,b\n1,2\n")
    expect(sandbox.run_code("open('data.csv').read()").text == "a,b\n1,2\n", "files of the sandbox")
    sandbox.run_code("open('made.txt', 'w').write('by code')")
    expect(sandbox.commands.run("cat made.txt").stdout == "by code", "and the way back")


@part
def walls(sandbox):
    """The id of a sandbox is not enough, and neither is the token of another one."""
    import httpx

    other = Sandbox.create(timeout=60)
    url = sandbox._jupyter_url

    def status(headers):
        named = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49999", **headers}
        return httpx.get(f"{url}/contexts", headers=named).status_code

    expect(status({"E2B-Traffic-Access-Token": sandbox.traffic_access_token}) == 200, "its own token")
    expect(status({}) == 401, "no token")
    expect(status({"E2B-Traffic-Access-Token": other.traffic_access_token}) == 401, "the token of another one")
    expect(status({"X-Access-Token": sandbox.traffic_access_token}) == 401, "the token for something else")
    files = httpx.get(
        f"{url}/files", params={"path": "x"}, headers={"E2B-Traffic-Access-Token": sandbox.traffic_access_token}
    )
    expect(files.status_code == 401, "it is not one for files")
    other.kill()


def main():
    sandbox = Sandbox.create(timeout=300, envs={"OF": "sandbox"})
    try:
        for one in PARTS:
            one(sandbox)
        again = Sandbox.connect(sandbox.sandbox_id)
        expect(again.run_code("x").text == "usual", "another client finds the same context")
    finally:
        sandbox.kill()
    names = ", ".join(one.__name__ for one in PARTS)
    print(f"e2b-code-interpreter {version('e2b-code-interpreter')}: {names}")


main()
