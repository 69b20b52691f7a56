"""Drives real agents, offline, with a scripted model: tools, hooks and worktrees.

    drive.py AVFS        with `claude`, `codex`, `gemini` and `opencode` on the PATH; in a home and a project of its own
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from model import Model

LAST = {"text": "done"}


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


class Scene:
    """A user with a home and a project, set up by `avfs setup`."""

    def __init__(self, avfs, root):
        self.avfs = avfs
        self.home, self.project = Path(root, "home"), Path(root, "web")
        self.home.mkdir()
        self.project.mkdir()
        self.write("notes.txt", "one\n")
        self.write("node_modules/x/index.js", "1\n")
        self.write(".gitignore", "node_modules\n")
        self.env = {
            "HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "none", "OPENAI_API_KEY": "none", "GEMINI_API_KEY": "none",
            "DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        self.run("git", "init", "--quiet")

    def write(self, name, text):
        file = self.project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, *words, **env):
        done = subprocess.run(
            words, cwd=self.project, env={**self.env, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=180,
        )
        expect(done.returncode == 0, (words, done.stdout, done.stderr))
        return done.stdout

    def do(self, *words):
        return self.run(self.avfs, *words)

    def end(self):
        """Leaves nothing mounted, whatever has failed."""
        for mount in json.loads(self.do("mounts", "--json"))["mounts"]:
            self.do("unmount", "--force", mount["dir"])
        # An agent may end before its server has, which then ends its sandbox.
        for _ in range(600):
            left = [line for line in Path("/proc/self/mounts").read_text().splitlines() if f" {self.home}/" in line]
            if not left:
                return
            time.sleep(0.1)
        raise AssertionError(left)

    def tasks(self):
        return {task["name"]: task for task in json.loads(self.do("tasks", "--all", "--json"))["tasks"]}

    def claude(self, steps, *words):
        model = Model([*steps, LAST])
        self.run("claude", "-p", "go", *words, ANTHROPIC_BASE_URL=model.url)
        return [str(result) for result in model.results]

    def codex(self, steps, *words):
        model = Model([*steps, LAST])
        provider = f'model_providers.script={{name="script",base_url="{model.url}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}}'
        self.run(
            "codex", "exec", "--skip-git-repo-check", "-c", provider, "-c", "model_provider=script", "-m", "script",
            *words, "go",
        )
        return [json.dumps(result) for result in model.results]

    def gemini(self, steps, *words):
        settings = self.home / ".gemini" / "settings.json"
        settings.parent.mkdir(exist_ok=True)
        known = json.loads(settings.read_text()) if settings.exists() else {}
        # What a user chooses at the first start.
        known["security"] = {"auth": {"selectedType": "gemini-api-key"}}
        settings.write_text(json.dumps(known))
        model = Model([*steps, LAST])
        self.run("gemini", "-p", "go", "-m", "script", "--skip-trust", *words, GOOGLE_GEMINI_BASE_URL=model.url)
        return [json.dumps(result) for result in model.results]

    def opencode(self, steps, *words):
        settings = self.home / ".config" / "opencode" / "opencode.json"
        known = json.loads(settings.read_text())
        model = Model([*steps, LAST])
        options = {"baseURL": f"{model.url}/v1", "apiKey": "none"}
        known["provider"] = {"anthropic": {"options": options, "models": {"script": {"name": "script"}}}}
        settings.write_text(json.dumps(known))
        quiet = ("AUTOUPDATE", "LSP_DOWNLOAD", "MODELS_FETCH")
        self.run(
            "opencode", "run", "-m", "anthropic/script", "--title", "x", *words, "go",
            **{f"OPENCODE_DISABLE_{what}": "1" for what in quiet},
        )
        return [json.dumps(result) for result in model.results]

    def untouched(self):
        expect((self.project / "notes.txt").read_text() == "one\n", "the project is as it was")
        expect(not (self.project / "made.txt").exists(), "what commands make is in the task alone")


def claude_tools(scene):
    """The tools of the server: the command lands in the sandbox, the change in the task, and can be undone."""
    scene.do("setup", "claude", "--yes")
    results = scene.claude(
        [
            {"tool": "mcp__agentvfs__checkpoint", "input": {"name": "before"}},
            {"tool": "mcp__agentvfs__exec", "input": {"command": "id -un; echo made >made.txt; echo two >notes.txt"}},
            {"tool": "mcp__agentvfs__restore", "input": {"to": "before", "paths": ["notes.txt"]}},
            {"tool": "mcp__agentvfs__read", "input": {"path": "notes.txt"}},
        ],
        "--allowedTools", "mcp__agentvfs",
    )
    expect("agent\\n" in results[1] and '"success":true' in results[1], results)
    expect('"content":"one\\n"' in results[3], results)
    (task,) = scene.tasks().values()
    expect(task["command"] == "mcp claude-code", task)
    expect([file["path"] for file in task.get("files", [])] in ([], ["/made.txt"]), task)
    scene.untouched()
    scene.do("apply", task["name"])
    expect((scene.project / "made.txt").read_text() == "made\n", "apply brings the work over")
    scene.do("undo")
    scene.untouched()


def claude_hooks(scene):
    """Hooks: shell commands run in the session's task, and the agent's own tools do not change the project."""
    scene.do("setup", "claude", "--hooks", "--yes")
    results = scene.claude(
        [
            {"tool": "Bash", "input": {"command": "id -un; pwd; echo made >made.txt", "description": "x"}},
            {"tool": "Write", "input": {"file_path": str(scene.project / "made.txt"), "content": "x"}},
        ],
        "--allowedTools", "Bash,Write",
    )
    expect(results[0].startswith(f"agent\n{scene.project}\n"), results)
    expect("private copy" in results[1], results)
    (name,) = scene.tasks()
    expect(name.startswith("session-") or "/session-" in name, name)
    scene.untouched()


def claude_worktree(scene):
    """A worktree is a fork with ignored files; the agent's own tools and its commands work on the same files."""
    scene.do("setup", "claude", "--hooks", "--worktrees", "--yes")
    results = scene.claude(
        [
            {"tool": "Write", "input": {"file_path": "made.txt", "content": "by a tool\n"}},
            {"tool": "Bash", "input": {"command": "id -un; cat made.txt node_modules/x/index.js", "description": "x"}},
        ],
        "--worktree", "fix", "--allowedTools", "Bash,Write",
    )
    expect(results[1].startswith("agent\nby a tool\n1"), results)
    scene.untouched()
    scene.do("workspace", "stop", "fix")
    expect(any(name.split("/")[-1] == "fix" for name in scene.tasks()), "the work stays as a task")


def codex_tools(scene):
    """Codex reads by the server's tools, and runs commands by them if its user lets it."""
    scene.do("setup", "codex", "--yes")
    results = scene.codex(
        [
            {"tool": "read", "namespace": "mcp__agentvfs", "input": {"path": "notes.txt"}},
            {"tool": "exec", "namespace": "mcp__agentvfs", "input": {"command": "id -un; echo made >made.txt"}},
        ],
        "--dangerously-bypass-approvals-and-sandbox",
    )
    expect("one" in results[0], results)
    expect("agent" in results[1] and "made.txt" in results[1], results)
    scene.untouched()


def codex_hooks(scene):
    scene.do("setup", "codex", "--hooks", "--yes")
    results = scene.codex(
        [{"tool": "exec_command", "input": {"cmd": "id -un; pwd; echo made >made.txt"}}],
        "-s", "danger-full-access", "--dangerously-bypass-hook-trust",
    )
    expect(f"agent\\n{scene.project}\\n" in results[0], results)
    scene.untouched()


def gemini_tools(scene):
    """Gemini finds the server in the settings that its own command has written, and works with its tools."""
    scene.do("setup", "gemini", "--yes")
    changed_and_restored(scene, scene.gemini(steps_of_server("mcp_agentvfs_"), "--approval-mode", "yolo"))


def opencode_tools(scene):
    """opencode has no command for its settings: it finds the server where `avfs setup` has put it."""
    scene.do("setup", "opencode", "--yes")
    changed_and_restored(scene, scene.opencode(steps_of_server("agentvfs_"), "--auto"))


def steps_of_server(prefix):
    """A command that changes two files, the way back, and a look at one of them."""
    return [
        {"tool": f"{prefix}exec", "input": {"command": "id -un; echo made >made.txt; echo two >notes.txt"}},
        {"tool": f"{prefix}restore", "input": {"to": "@~1"}},
        {"tool": f"{prefix}read", "input": {"path": "notes.txt"}},
    ]


def changed_and_restored(scene, results):
    expect("agent" in results[0] and "added made.txt, modified notes.txt" in results[0], results)
    expect("one" in results[2] and "two" not in results[2], results)
    scene.untouched()


def plugins(scene):
    """Plug-in and extension pass the agents' own validators."""
    plugins = Path(__file__).parents[2] / "plugins"
    for directory in (plugins, plugins / "agentvfs"):
        expect("Validation passed" in scene.run("claude", "plugin", "validate", str(directory)), directory)
    # It ends with 1 where it finds something, and says everything on standard error.
    scene.run("gemini", "extensions", "validate", str(plugins / "gemini"))


def main():
    avfs = sys.argv[1]
    acts = (
        claude_tools, claude_hooks, claude_worktree, codex_tools, codex_hooks, gemini_tools, opencode_tools, plugins,
    )
    for act in acts:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
            scene = Scene(avfs, Path(root).resolve())
            try:
                act(scene)
            finally:
                scene.end()
        print(f"real agents: {act.__name__} ok", flush=True)


if __name__ == "__main__":
    main()
