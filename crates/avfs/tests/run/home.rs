//! Which parts of the home are shared, and how.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use crate::pane::PATIENCE;
use crate::project::{Project, good};

/// What the agent sees and may do, for any user.
const EXPECTED: &str = "{\"runs\":1}
stale
2
tee: refused
touch: refused
rm: refused
mv: refused
ln: refused
.agent
.agent.json
bin
web
ls: refused
cat: refused
private
ada@example.com
0
";

#[track_caller]
fn check(project: &Project, output: &str) {
    assert_eq!(output.replace("changed\n", ""), EXPECTED);
    assert_eq!(project.read(".agent.json"), "{\"runs\":2}\n");
    assert_eq!(project.read(".agent/token"), "fresh\n");
    assert_eq!(project.read(".agent/sessions/log"), "one\n");
    assert_eq!(project.read(".agent/settings.json"), "{}\n");
    assert_eq!(project.read("web/work.txt"), "as it was\n");
    for absent in [
        ".agent/hooks/start",
        ".agent/.token-from-server",
        ".cache",
        "elsewhere",
        ".local/share/agentvfs/runs/x",
    ] {
        assert!(!project.home().join(absent).exists(), "{absent}");
    }
    // The front does not wait for removals.
    let start = Instant::now();
    while fs::read_dir(project.store().join("runs")).unwrap().count() > 0 {
        assert!(start.elapsed() < PATIENCE, "something is left of a run");
        std::thread::yield_now();
    }
}

#[test]
fn an_agent_keeps_its_state_and_cannot_touch_its_settings() {
    let project = Project::new();
    let output = good(&mut project.avfs(&["run", "--name", "one", "--", "agent", "state"]));
    check(&project, &output);
    let diff = good(&mut project.avfs(&["diff", "one"]));
    assert!(diff.contains("work.txt"), "{diff}");
}

#[test]
fn an_ordinary_users_agent_does_so_too() {
    let project = Project::new();
    let output = project.avfs_as_nobody(&project.root(), &["run", "--", "agent", "state"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let shown = String::from_utf8(output.stdout).unwrap();
    check(&project, &shown.replace("avfs\n", ""));
}

#[test]
fn changes_of_the_user_are_seen_immediately() {
    let project = Project::new();
    // The agent waits for a file of its state that the user makes while it runs.
    let script = "echo ready; until [ -e ~/.agent/sessions/news ]; do :; done; cat ~/.agent/sessions/news ~/.agent/token";
    fs::create_dir(project.home().join(".agent/sessions")).unwrap();
    let mut run = project.avfs(&["run", "--profile", "agent", "--", "bash", "-c", script]);
    let mut run = run
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut output = std::io::BufReader::new(run.stdout.take().unwrap());
    let mut first = String::new();
    std::io::BufRead::read_line(&mut output, &mut first).unwrap();
    assert_eq!(first, "ready\n");
    fs::write(project.home().join(".agent/token.new"), "rotated\n").unwrap();
    fs::rename(
        project.home().join(".agent/token.new"),
        project.home().join(".agent/token"),
    )
    .unwrap();
    fs::write(project.home().join(".agent/sessions/.news"), "news\n").unwrap();
    fs::rename(
        project.home().join(".agent/sessions/.news"),
        project.home().join(".agent/sessions/news"),
    )
    .unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut output, &mut rest).unwrap();
    assert_eq!(rest, "news\nrotated\n");
    assert!(run.wait().unwrap().success());
}

#[test]
fn settings_that_an_agent_insists_on_writing_are_a_copy() {
    let project = Project::new();
    let trust = project.home().join(".agent/trust");
    fs::write(project.home().join("elsewhere"), "nothing\n").unwrap();
    std::os::unix::fs::symlink("../elsewhere", &trust).unwrap();
    let script = "cd ~/.agent; cat trust; echo this >.t && mv .t trust; cat trust";
    let run = |script: &str| {
        let words = ["run", "--profile", "agent", "--", "bash", "-c", script];
        let output = project.avfs(&words).output().unwrap();
        assert!(output.status.success());
        (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (shown, said) = run(script);
    assert_eq!(shown, "nothing\nthis\n");
    assert!(
        said.contains("changed for this run only: ~/.agent/trust\n"),
        "{said}"
    );
    let (shown, said) = run("cat ~/.agent/trust");
    assert_eq!(shown, "nothing\n");
    assert!(!said.contains("for this run only"), "{said}");
    assert_eq!(fs::read_link(trust).unwrap().to_str(), Some("../elsewhere"));
}

#[test]
fn a_program_is_found_where_the_callers_path_says_and_a_missing_one_is_named() {
    let project = Project::new();
    let version = |name: &str| project.home().join(".nvm/versions/node").join(name).join("bin");
    for name in ["v20.1.0", "v22.1.0"] {
        fs::create_dir_all(version(name)).unwrap();
        let tool = version(name).join("tool");
        fs::write(&tool, format!("#!/bin/sh\necho {name}\n")).unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", version("v20.1.0").display());
    assert_eq!(
        good(project.avfs(&["run", "--", "tool"]).env("PATH", &path)),
        "v20.1.0\n"
    );
    let missing = project.avfs(&["run", "--", "no-such-tool"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
    let said = String::from_utf8(missing.stderr).unwrap();
    assert!(
        said.contains("avfs: no-such-tool: not found in the sandbox\n"),
        "{said}"
    );
}

#[test]
fn a_missing_program_that_the_project_has_itself_is_pointed_out_as_it_is_typed() {
    let project = Project::new();
    let programs = project.root().join(".venv/bin");
    fs::create_dir_all(&programs).unwrap();
    fs::write(programs.join("tool"), "#!/bin/sh\necho it runs\n").unwrap();
    fs::set_permissions(programs.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(programs.join("notes"), "no program").unwrap();
    let said = |name: &str| {
        let run = project.avfs(&["run", "--", name, "-q"]).output().unwrap();
        assert_eq!(run.status.code(), Some(127));
        String::from_utf8(run.stderr).unwrap()
    };
    let hint = "PATH does not name: avfs run -- .venv/bin/tool -q\n";
    assert!(said("tool").contains(hint), "{}", said("tool"));
    assert!(!said("notes").contains("avfs run -- "), "{}", said("notes"));
    assert_eq!(
        good(&mut project.avfs(&["run", "--", ".venv/bin/tool"])),
        "it runs\n"
    );
}

#[test]
fn profiles_are_listed_shown_and_checked() {
    let project = Project::new();
    let list = good(&mut project.avfs(&["profiles", "list"]));
    for name in ["agent ", "claude ", "codex ", "gemini ", "shell "] {
        assert!(list.contains(name), "{list}");
    }
    assert!(good(&mut project.avfs(&["profiles", "show", "agent"])).contains("127.0.0.2"));
    let file = good(&mut project.avfs(&["profiles", "edit-path", "mine"]));
    fs::write(file.trim_end(), "\nstat = []\n").unwrap();
    let output = project
        .avfs(&["run", "--profile", "mine", "--", "true"])
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("mine.toml:2:1: unknown key 'stat'"), "{error}");
    assert!(error.contains("did you mean 'state'?"), "{error}");
    assert_eq!(output.status.code(), Some(2));
    // Programs that have nothing to do with it run.
    let output = project.avfs(&["run", "--", "true"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && said.contains("profile 'mine' is not used: "),
        "{said}"
    );
}

#[test]
fn a_profile_is_changed_in_an_editor_and_a_mistake_is_never_taken() {
    let project = Project::new();
    let edit = |name: &str, script: &str| {
        project
            .avfs(&["profiles", "edit", name])
            .env("EDITOR", script)
            .env_remove("VISUAL")
            .output()
            .unwrap()
    };
    let claude = || good(&mut project.avfs(&["profiles", "show", "claude"]));
    let before = claude();
    let unchanged = edit("claude", "true");
    assert!(String::from_utf8_lossy(&unchanged.stderr).contains("nothing was changed"));
    assert!(good(&mut project.avfs(&["profiles", "list"])).contains("Claude Code (built in)"));

    let broken = edit("claude", "echo 'sate = []' >>");
    let error = String::from_utf8(broken.stderr).unwrap();
    assert_eq!(broken.status.code(), Some(2), "{error}");
    assert!(
        error.contains("claude.toml:") && error.contains("unknown key 'sate'"),
        "{error}"
    );
    assert_eq!(claude(), before, "it is not taken");
    // Editing continues with the text.
    let mended = edit("claude", "sed -i 's/^sate.*/# mine/'");
    assert!(
        mended.status.success(),
        "{}",
        String::from_utf8_lossy(&mended.stderr)
    );
    assert_eq!(claude(), format!("{before}# mine\n"));
    assert_eq!(
        good(&mut project.avfs(&["profiles", "show", "claude", "--built-in"])),
        before
    );

    let made = edit("new", "sed -i 's/hosts = .*/hosts = [\"a.example\"]/'");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(good(&mut project.avfs(&["profiles", "show", "new"])).contains("commands = [\"new\"]"));
    good(&mut project.avfs(&["profiles", "reset", "claude"]));
    assert_eq!(claude(), before);
    assert_eq!(
        project
            .avfs(&["profiles", "reset", "claude"])
            .output()
            .unwrap()
            .status
            .code(),
        Some(1)
    );

    // A shell empties the file before it is read.
    let script =
        "$AVFS profiles show codex > \"$($AVFS profiles edit-path codex)\"; $AVFS profiles show codex";
    let mut again = std::process::Command::new("sh");
    again
        .args(["-c", script])
        .env("AVFS", project.program())
        .env("HOME", project.home());
    let printed = good(&mut again);
    assert!(printed.contains("OpenAI Codex CLI"), "{printed}");
}
