//! Programs that go on without the terminal that they were started from.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::pane::{PATIENCE, Pane};
use crate::project::{AS_NOBODY, FuseForAll, Project, good};

fn json(project: &Project, words: &[&str]) -> Value {
    let output = project.avfs(words).arg("--json").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Stops what a failed test would leave running.
struct Stopped<'a>(&'a Project, &'a str);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let _ = self
            .0
            .avfs(&["task", "stop", "--kill-after", "0s", self.1])
            .output();
    }
}

#[test]
fn a_detached_program_is_followed_stopped_and_kept() {
    let project = Project::new();
    let script = "echo \"at $(tty)\"; echo work >new; while :; do sleep 0.1; done";
    let run = project
        .avfs(&["run", "--detach", "--name", "one", "--", "sh", "-c", script])
        .output()
        .unwrap();
    let _stopped = Stopped(&project, "one");
    assert_eq!(
        (text(&run.stdout).as_str(), run.status.code()),
        ("one\n", Some(0)),
        "{}",
        text(&run.stderr)
    );
    assert!(
        text(&run.stderr).contains("avfs task attach one"),
        "{}",
        text(&run.stderr)
    );

    let waited = project
        .avfs(&["task", "wait", "--timeout", "0s"])
        .output()
        .unwrap();
    assert_eq!(waited.status.code(), Some(124));
    let tasks = json(&project, &["task", "list"]);
    let run = &tasks["tasks"][0]["run"];
    assert_eq!(
        (&run["state"], &run["detached"], &run["terminal"]),
        (&"running".into(), &true.into(), &true.into())
    );

    let stopped = json(&project, &["task", "stop", "one"]);
    assert_eq!(
        (&stopped["kind"], &stopped["runs"][0]["state"]),
        (&"task-stop".into(), &"stopped".into())
    );
    assert_eq!(
        good(&mut project.avfs(&["task", "output", "one"])),
        "at /dev/pts/0\n"
    );
    assert_eq!(
        good(&mut project.avfs(&["task", "output", "-f", "--tail", "1"])),
        "at /dev/pts/0\n"
    );
    assert_eq!(json(&project, &["task", "output"])["output"], "at /dev/pts/0\n");
    assert!(good(&mut project.avfs(&["tasks"])).contains("(stopped)"));
    assert_eq!(
        good(&mut project.avfs(&["cat", "--vault", "web/one", "/new"])),
        "work\n"
    );
    let again = json(&project, &["task", "stop", "one"]);
    assert_eq!(again["error"]["code"], "not-running");
}

#[test]
fn a_project_moves_with_its_tasks_when_nothing_runs_in_them() {
    let project = Project::new();
    good(&mut project.avfs(&[
        "run",
        "--detach",
        "--name",
        "one",
        "--",
        "sh",
        "-c",
        "echo x >new; sleep 600",
    ]));
    let _stopped = Stopped(&project, "web/one");
    let begun = Instant::now();
    while !project
        .avfs(&["cat", "--vault", "web/one", "/new"])
        .output()
        .unwrap()
        .status
        .success()
    {
        assert!(begun.elapsed() < PATIENCE);
    }
    let (old, new) = (project.root(), project.home().join("moved"));
    fs::rename(&old, &new).unwrap();
    let json_there = |words: &[&str]| -> Value {
        let words = [&["--json"], words].concat();
        let output = project.avfs(&words).current_dir(&new).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let words = ["project", "move", old.to_str().unwrap(), "."];
    let refused = json_there(&words);
    json_there(&["task", "stop", "--kill-after", "0s", "web/one"]);
    assert_eq!(refused["error"]["code"], "project-running", "{refused}");
    let missing = json_there(&["run", "--task", "web/one", "--", "true"]);
    assert_eq!(missing["error"]["code"], "project-missing", "{missing}");
    assert_eq!(json_there(&words)["tasks"], 1);
    // Files that no program has read yet are read at the new place, and the program is there.
    let script = "pwd; cat work.txt new";
    let seen = good(
        project
            .avfs(&["run", "--task", "one", "--", "sh", "-c", script])
            .current_dir(&new),
    );
    assert_eq!(seen, format!("{}\nas it was\nx\n", new.display()));
    good(project.avfs(&["apply", "one", "--yes"]).current_dir(&new));
    assert_eq!(fs::read_to_string(new.join("new")).unwrap(), "x\n");
}

#[test]
fn the_status_of_a_detached_program_is_waited_for_and_its_work_applied() {
    let project = Project::new();
    let start = |name: &str, script: &str| {
        good(&mut project.avfs(&[
            "run",
            "-d",
            "--apply-on-success",
            "--name",
            name,
            "--",
            "sh",
            "-c",
            script,
        ]))
    };
    start("good", "echo applied >work.txt");
    start("bad", "exit 7");
    let waited = project.avfs(&["task", "wait", "good", "bad"]).output().unwrap();
    assert_eq!(waited.status.code(), Some(7), "{}", text(&waited.stderr));
    assert_eq!(project.read("web/work.txt"), "applied\n");
}

#[test]
fn a_second_run_in_a_task_does_not_hide_the_detached_one() {
    let project = Project::new();
    let script = "echo started; until [ -e go ]; do sleep 0.1; done; exit 5";
    good(&mut project.avfs(&["run", "--detach", "--name", "one", "--", "sh", "-c", script]));
    let _stopped = Stopped(&project, "one");
    let side = ["run", "-q", "--task", "one", "--", "sh", "-c"];
    good(&mut project.avfs(&[&side[..], &["echo side; touch go"]].concat()));
    let waited = project.avfs(&["task", "wait", "one"]).output().unwrap();
    assert_eq!(waited.status.code(), Some(5), "{}", text(&waited.stderr));
    assert_eq!(good(&mut project.avfs(&["task", "output", "one"])), "started\n");
    // However many run in the terminal afterwards.
    for _ in 0..6 {
        good(&mut project.avfs(&[&side[..], &["echo side"]].concat()));
    }
    assert_eq!(good(&mut project.avfs(&["task", "output", "one"])), "started\n");
    let task = json(&project, &["tasks"])["tasks"][0].clone();
    assert_eq!(task["run"]["exit_code"], 5);
    let shown = json(&project, &["task", "output", "one"]);
    assert_eq!(
        (&shown["run"], &shown["exit_code"]),
        (&task["run"]["run"], &5.into())
    );
    let newest = task["runs"][0]["run"].as_str().unwrap();
    let named = |command: &'static str| ["task", command, "one", "--run", newest];
    assert_eq!(good(&mut project.avfs(&named("output"))), "side\n");
    let waited = project.avfs(&named("wait")).output().unwrap();
    assert_eq!(waited.status.code(), Some(0));
    assert!(text(&waited.stderr).contains(newest), "{}", text(&waited.stderr));
    assert_eq!(json(&project, &named("stop"))["error"]["code"], "not-running");
}

#[test]
fn failed_start_is_reported_by_the_starting_process() {
    let project = Project::new();
    let run = project
        .avfs(&["run", "--detach", "--", "nosuchprogram"])
        .output()
        .unwrap();
    assert_eq!((run.status.code(), text(&run.stdout)), (Some(127), String::new()));
    assert!(
        text(&run.stderr).contains("nosuchprogram: not found in the sandbox"),
        "{}",
        text(&run.stderr)
    );
}

#[test]
fn a_task_without_a_program_stays_and_takes_one_later() {
    let project = Project::new();
    assert_eq!(
        good(&mut project.avfs(&["task", "new", "--name", "later"])),
        "later\n"
    );
    let elsewhere = project.home();
    let from = project.root().display().to_string();
    let mut new = project.avfs(&["task", "new", "--name", "two", "--from", &from, "--json"]);
    let made: Value = serde_json::from_str(&good(new.current_dir(&elsewhere))).unwrap();
    assert_eq!(
        (&made["kind"], &made["state"]),
        (&"task".into(), &"unchanged".into())
    );
    let output = json(&project, &["task", "output", "later"]);
    assert_eq!(output["error"]["code"], "no-run");
    let run = project
        .avfs(&["run", "--task", "later", "--", "sh", "-c", "cat work.txt; exit 5"])
        .output();
    assert_eq!(run.unwrap().status.code(), Some(5));
    let later = json(&project, &["tasks"])["tasks"][0].clone();
    assert_eq!(
        (&later["name"], &later["run"]["exit_code"]),
        (&"later".into(), &5.into())
    );
}

#[test]
fn a_lost_terminal_ends_nothing_and_another_one_joins() {
    let project = Project::new();
    lose_and_join(&project, project.program().as_path(), "exec bash --norc");
}

#[test]
fn an_ordinary_users_lost_terminal_ends_nothing_either() {
    let project = Project::new();
    let _fuse = FuseForAll::new();
    let program = project.give_away();
    lose_and_join(
        &project,
        &program,
        &format!("exec setpriv {AS_NOBODY} bash --norc"),
    );
}

/// A terminal is killed under an agent, two others join, one leaves by its keys, and the agent ends in the other.
#[track_caller]
fn lose_and_join(project: &Project, program: &Path, shell: &str) {
    let avfs = program.display();
    let lost = Pane::shell(project, shell, 80, 24);
    let line = project.line_of(program, "terminal");
    lost.write(&format!("{}\n", line.replace(" run ", " run --name one ")));
    lost.wait_for("ready 24 80");
    lost.write("first\n");
    lost.wait_for("heard first");
    drop(lost);

    let here = Pane::shell(project, shell, 90, 30);
    here.write(&format!("stty -a >../before; {avfs} task attach\n"));
    here.wait_for("size 30 90");
    let screen = here.wait_for("heard first");
    assert!(screen.contains("ready 24 80"), "{screen}");
    here.write("second\n");
    here.wait_for("heard second");

    let there = Pane::shell(project, shell, 70, 20);
    there.write(&format!("{avfs} task attach one\n"));
    there.wait_for("heard second");
    there.write("third\n");
    there.wait_for("heard third");
    here.wait_for("heard third");

    here.press("C-\\ d");
    here.wait_for("one goes on in the background");
    here.write("stty -a >../after; echo left-$?-$((1 + 1))\n");
    here.wait_for("left-0-2");
    assert_eq!(project.read("after"), project.read("before"));

    there.write("quit\n");
    there.wait_for("ended with status 4");
    there.write("echo status-$?\n");
    there.wait_for("status-4");
}

#[test]
fn a_run_is_left_by_its_keys_and_joined_on_a_full_screen() {
    let project = Project::new();
    let pane = Pane::shell(&project, "exec bash --norc", 80, 24);
    let avfs = project.program().display().to_string();
    // Draws its size on a screen of its own whenever that changes, as editors do. It waits for a line without `read -t 1`:
    // when that time is over, bash leaves a trap that it is in the middle of.
    let script = "trap 'printf \"\\033[H\\033[2Jdrawn %s \" \"$(stty size)\"' WINCH; printf '\\033[?1049h\\033[?25ldrawn'; \
                  until read -r -t 0; do sleep 0.1 & wait $!; done; printf '\\033[?1049l\\033[?25h'; exit 6";
    fs::write(project.root().join("full"), script).unwrap();
    pane.write(&format!("{avfs} run --name one -- bash full\n"));
    pane.wait_for("drawn");
    assert_eq!(pane.fact("#{alternate_on} #{cursor_flag}"), "1 0");
    pane.press("C-\\ d");
    pane.wait_for("avfs task attach one");
    assert_eq!(pane.fact("#{alternate_on} #{cursor_flag}"), "0 1");
    pane.write(&format!("{avfs} task attach one\n"));
    pane.wait_for("drawn 24 80");
    assert_eq!(pane.fact("#{alternate_on} #{cursor_flag}"), "1 0");
    pane.write("\n");
    pane.wait_for("ended with status 6");
    assert_eq!(pane.fact("#{alternate_on} #{cursor_flag}"), "0 1");
}

#[test]
fn killed_supervisor_is_reported_and_leaves_nothing_running() {
    let project = Project::new();
    good(&mut project.avfs(&["run", "--detach", "--name", "one", "--", "agent", "hold"]));
    let _stopped = Stopped(&project, "one");
    let pid = json(&project, &["tasks"])["tasks"][0]["run"]["pid"]
        .as_i64()
        .unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let waited = project.avfs(&["task", "wait", "one"]).output().unwrap();
    assert_eq!(waited.status.code(), Some(8));
    assert!(
        text(&waited.stderr).contains("ended abnormally"),
        "{}",
        text(&waited.stderr)
    );
    assert!(good(&mut project.avfs(&["tasks"])).contains("(ended abnormally)"));
    good(&mut project.avfs(&["run", "--task", "one", "--", "true"]));
    let start = Instant::now();
    while fs::read_dir(project.store().join("runs")).unwrap().count() > 0 {
        assert!(
            start.elapsed() < PATIENCE,
            "what the killed run left is still there"
        );
        std::thread::yield_now();
    }
}

#[test]
fn limits_end_a_run_and_its_end_says_which() {
    let project = Project::new();
    let run = |words: &[&str]| -> Output { project.avfs(&[&["run"], words].concat()).output().unwrap() };
    let ended = run(&["--timeout", "1s", "--", "sh", "-c", "exec sleep 1000"]);
    assert_eq!(ended.status.code(), Some(124));
    assert!(
        text(&ended.stderr).contains("longer than --timeout allows"),
        "{}",
        text(&ended.stderr)
    );
    let eat = "exec /usr/bin/python3 -c 'x = bytearray(1 << 29); x[::4096] = b\"x\" * len(x[::4096])'";
    let ended = run(&["--memory", "64M", "--", "sh", "-c", eat]);
    assert_ne!(ended.status.code(), Some(0));
    assert!(text(&ended.stderr).contains("emory"), "{}", text(&ended.stderr));
    let mut limited = project.avfs(&["run", "--json", "--", "sleep", "1000"]);
    let ended = limited.env("AVFS_RUN_TIMEOUT", "1s").output().unwrap();
    let object: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(
        (ended.status.code(), &object["ended"]),
        (Some(124), &"time-limit".into())
    );
}

#[test]
fn a_shell_names_its_task_and_a_program_knows_it() {
    let project = Project::new();
    fs::write(project.home().join(".bashrc"), "PS1='mine> '\n").unwrap();
    let pane = Pane::start(&project, "run --name fix -- bash", 80, 24);
    pane.wait_for("(fix) ");
    pane.write("echo task-$AVFS_TASK-$((1 + 1)); exit\n");
    pane.wait_for("task-fix-2");
    pane.wait_for("ended with 0");
    assert_eq!(project.read(".bashrc"), "PS1='mine> '\n");
    let said = good(&mut project.avfs(&["run", "--", "sh", "-c", "echo $AVFS_TASK"]));
    assert!(said.starts_with("task-"), "{said}");
}
