"""Runs code in one namespace, piece after piece, and says what comes of it.

Started in a sandbox by the server. It writes the number of its port to standard output; the server connects to that, sends
one JSON object a line (`code`, `envs`), and gets one JSON object a line: `stdout`, `stderr`, `result`, `error`,
`number_of_executions`, and `end_of_execution` at last. SIGINT interrupts the code that runs.
"""

import ast
import asyncio
import base64
import builtins
import codecs
import importlib.util
import io
import json
import linecache
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import types

# How an object shows itself, and the name of that in a result.
FORMATS = {
    "_repr_html_": ("html", "text/html"),
    "_repr_markdown_": ("markdown", "text/markdown"),
    "_repr_svg_": ("svg", "image/svg+xml"),
    "_repr_png_": ("png", "image/png"),
    "_repr_jpeg_": ("jpeg", "image/jpeg"),
    "_repr_pdf_": ("pdf", "application/pdf"),
    "_repr_latex_": ("latex", "text/latex"),
    "_repr_json_": ("json", "application/json"),
    "_repr_javascript_": ("javascript", "application/javascript"),
}
BY_TYPE = {"text/plain": "text"} | {kind: name for name, kind in FORMATS.values()}
# So much of a line is told before its end.
LONG = 1 << 16
SHELL = re.compile(r"^([ \t]*)!(.+)$", re.MULTILINE)


class Wire:
    """The connection to the server. Any thread may write to it."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
            os.write(1, b"%d\n" % server.getsockname()[1])
            self.connection, _ = server.accept()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.requests = self.connection.makefile("rb")
        self.writing = threading.Lock()
        # A line that an interrupt would cut is written to its end first.
        self.is_in_line = self.is_interrupted = False

    def tell(self, kind, **what):
        line = json.dumps({"type": kind, **what}).encode() + b"\n"
        is_main = threading.current_thread() is threading.main_thread()
        with self.writing:
            self.is_in_line = is_main
            self.connection.sendall(line)
            self.is_in_line = False
        if is_main and self.is_interrupted:
            self.is_interrupted = False
            raise KeyboardInterrupt

    def say(self, stream, text):
        self.tell(stream, text=text, timestamp=time.time_ns())


class Said(io.TextIOBase):
    """Standard output or error of the code, told line by line."""

    encoding, errors = "utf-8", "strict"

    def __init__(self, wire, name, number):
        self.wire, self.name, self.number, self.line, self.length = wire, name, number, [], 0

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.line.append(text)
        self.length += len(text)
        if "\n" in text or self.length > LONG:
            self.flush()
        return len(text)

    def flush(self):
        text, self.line, self.length = "".join(self.line), [], 0
        if text:
            self.wire.say(self.name, text)

    def writable(self):
        return True

    def fileno(self):
        return self.number


class Pipe:
    """What programs write that the code starts: they have a pipe where the code has a stream."""

    def __init__(self, wire, name, number):
        self.wire, self.name, self.number = wire, name, number
        self.mark = b"\0" + secrets.token_hex(16).encode() + b"\0"
        self.reached = threading.Event()
        self.reading, writing = os.pipe()
        os.dup2(writing, number)
        os.close(writing)
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = b""
        while piece := os.read(self.reading, 1 << 16):
            rest += piece
            while self.mark in rest:
                before, _, rest = rest.partition(self.mark)
                self.say(decoder.decode(before))
                self.reached.set()
            # A mark may come in two pieces.
            sure = len(rest) - (len(self.mark) - 1 if b"\0" in rest[-len(self.mark) :] else 0)
            self.say(decoder.decode(rest[: max(sure, 0)]))
            rest = rest[max(sure, 0) :]

    def say(self, text):
        if text:
            self.wire.say(self.name, text)

    def drain(self):
        """Returns when everything is told that was written so far."""
        self.reached.clear()
        os.write(self.number, self.mark)
        self.reached.wait(10)


class Interpreter:
    def __init__(self):
        self.wire = Wire()
        self.count = 0
        self.is_running = False
        self.loop = asyncio.new_event_loop()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        self.pipes = [Pipe(self.wire, "stdout", 1), Pipe(self.wire, "stderr", 2)]
        self.streams = [Said(self.wire, "stdout", 1), Said(self.wire, "stderr", 2)]
        sys.stdout, sys.stderr = self.streams
        sys.stdin = io.StringIO()
        main = types.ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        # What is pickled names the module of its class.
        sys.modules["__main__"] = main
        self.names = main.__dict__
        self.names |= {"display": self.display, "__shell__": shell}
        if importlib.util.find_spec("IPython") is None:
            self.stand_in()
        signal.signal(signal.SIGINT, self.interrupt)
        os.register_at_fork(after_in_child=leave)

    def interrupt(self, *_):
        if self.is_running and self.wire.is_in_line:
            self.wire.is_interrupted = True
        elif self.is_running:
            raise KeyboardInterrupt

    def serve(self):
        for line in self.wire.requests:
            request = json.loads(line)
            self.run(request["code"], request.get("envs") or {})

    def run(self, code, envs):
        self.count += 1
        before = {name: os.environ.get(name) for name in envs}
        os.environ.update(envs)
        try:
            self.is_running = True
            try:
                self.evaluate(code)
            finally:
                self.is_running = self.wire.is_interrupted = False
            self.settle()
        except BaseException as error:
            self.settle()
            self.fail(error)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self.wire.tell("number_of_executions", execution_count=self.count)
        self.wire.tell("end_of_execution")

    def settle(self):
        """Returns when everything is told that was written so far."""
        for stream in self.streams:
            stream.flush()
        for pipe in self.pipes:
            pipe.drain()

    def evaluate(self, code):
        place = f"<cell {self.count}>"
        code = textwrap.dedent(code)
        try:
            tree = ast.parse(code, place)
        except SyntaxError:
            # Perhaps some lines of it are for a shell.
            shelled = SHELL.sub(lambda found: f"{found[1]}__shell__({found[2]!r})", code)
            if shelled == code:
                raise
            code, tree = shelled, ast.parse(shelled, place)
        linecache.cache[place] = (len(code), None, code.splitlines(True), place)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
            last = ast.Expression(tree.body.pop().value)
        self.execute(tree, place, "exec")
        if last is None:
            return
        value = self.execute(last, place, "eval")
        if value is not None:
            self.names["_"] = value
            for stream in self.streams:
                stream.flush()
            self.wire.tell("result", is_main_result=True, **shown(value))

    def execute(self, tree, place, mode):
        compiled = compile(tree, place, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        value = eval(compiled, self.names)
        if compiled.co_flags & 0x80:  # It awaits something, so it is a coroutine.
            value = self.loop.run_until_complete(value)
        return value

    def fail(self, error):
        told = traceback.TracebackException.from_exception(error)
        # Without the frames of this program, and of what it calls before the code.
        frames = [frame for frame in told.stack if frame.filename != __file__]
        while frames and not frames[0].filename.startswith("<cell "):
            del frames[0]
        told.stack[:] = frames
        text = "".join(told.format())
        self.wire.tell("error", name=type(error).__name__, value=str(error), traceback=text)

    def display(self, *objects, raw=False, **_):
        for stream in self.streams:
            stream.flush()
        for value in objects:
            self.wire.tell("result", is_main_result=False, **(of_types(value) if raw else shown(value)))

    def stand_in(self):
        """Lets code import what it shows things with, where that is not installed."""
        module = types.ModuleType("IPython.display")
        module.display = self.display
        for name in ("HTML", "Markdown", "SVG", "Latex", "JSON", "Javascript"):
            setattr(module, name, holder(name, f"_repr_{name.lower()}_"))
        package = types.ModuleType("IPython")
        package.display = module
        sys.modules |= {"IPython": package, "IPython.display": module}


def leave():
    """A copy of this process does not speak to the server: it writes where programs do."""
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)


def holder(name, method):
    def begin(self, data):
        self.data = data

    return type(name, (), {"__init__": begin, method: lambda self: self.data})


def shell(line):
    subprocess.run(line, shell=True, executable="/bin/bash", check=False)


def shown(value):
    """An object in all formats that it has."""
    result = {"text": value if isinstance(value, str) else repr(value)}
    if isinstance(value, type):
        return result
    for method, (name, _) in FORMATS.items():
        try:
            made = getattr(value, method, lambda: None)()
        except Exception:
            # One format that fails leaves the others.
            continue
        # Some give their metadata as well.
        made = made[0] if isinstance(made, tuple) else made
        if isinstance(made, bytes):
            made = base64.b64encode(made).decode()
        if made is not None and is_json(made):
            result[name] = made
    return result


def of_types(bundle):
    """A dictionary by types of content."""
    result = {BY_TYPE[kind]: value for kind, value in bundle.items() if kind in BY_TYPE}
    extra = {kind: value for kind, value in bundle.items() if kind not in BY_TYPE and is_json(value)}
    return result | ({"extra": extra} if extra else {})


def is_json(value):
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


__file__ = "<string>"
Interpreter().serve()
