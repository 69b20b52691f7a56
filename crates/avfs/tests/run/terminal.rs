//! An agent in a terminal.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::pane::Pane;
use crate::project::{AS_NOBODY, FuseForAll, Project};

#[test]
fn an_agent_is_resized_interrupted_stopped_and_goes_on() {
    let project = Project::new();
    check_terminal(&project, "exec bash --norc", &project.line("terminal"));
}

#[test]
fn an_ordinary_users_agent_is_so_too() {
    let project = Project::new();
    let _fuse = FuseForAll::new();
    let program = project.give_away();
    let shell = format!("exec setpriv {AS_NOBODY} bash --norc");
    check_terminal(&project, &shell, &project.line_of(&program, "terminal"));
}

/// Plays with an agent that a line of a shell starts.
#[track_caller]
fn check_terminal(project: &Project, shell: &str, line: &str) {
    let pane = Pane::shell(project, shell, 80, 24);
    pane.write("stty -a >../before\n");
    pane.write(&format!("{line}\n"));
    pane.wait_for("ready 24 80 /dev/pts/0");
    pane.write("hello\n");
    pane.wait_for("heard hello");
    pane.resize(100, 40);
    pane.wait_for("size 40 100");
    pane.press("C-c");
    pane.wait_for("interrupted");

    pane.press("C-z");
    pane.wait_for("Stopped");
    pane.write("stty -a >../stopped; echo outside-$((1 + 1))\n");
    pane.wait_for("outside-2");
    pane.write("clear; fg\n");
    pane.write("again\n");
    pane.wait_for("heard again");

    pane.write("quit\n");
    pane.wait_for("nothing changed");
    pane.resize(80, 24);
    pane.write("echo status-$?; stty -a >../after\n");
    pane.wait_for("status-4");
    let state = |name: &str| {
        pane.wait_until("the state of the terminal", |_| {
            project
                .home()
                .join(name)
                .metadata()
                .is_ok_and(|file| file.len() > 0)
        });
        let text = project.read(name);
        text.split_once('\n').unwrap().1.to_owned()
    };
    assert_eq!(state("after"), state("before"));
    assert_eq!(state("stopped"), state("before"));
}

#[test]
fn a_shell_inside_has_jobs_and_works_on_a_fork() {
    let project = Project::new();
    let pane = Pane::start(&project, "run -- bash --norc", 100, 30);
    pane.wait_for("bash-");
    pane.write("sh -c 'echo job-$((1 + 1)); exec sleep 100000'\n");
    pane.wait_for("job-2");
    pane.press("C-z");
    pane.wait_for("Stopped");
    pane.write("kill -9 %1; wait %1; pwd; echo inside >work.txt; exit 3; exit 3\n");
    pane.wait_for(&project.root().display().to_string());
    let screen = pane.wait_for("ended with 3");
    assert!(
        screen.contains("modified  work.txt") && screen.contains("avfs apply"),
        "{screen}"
    );
    assert_eq!(
        fs::read_to_string(project.root().join("work.txt")).unwrap(),
        "as it was\n"
    );
}

#[test]
fn terminal_is_restored_when_the_run_is_stopped() {
    let project = Project::new();
    let pane = Pane::shell(&project, "exec bash --norc", 100, 30);
    pane.write("stty -a >../before\n");
    pane.write(&format!(
        "bash -c 'echo pid-$$-; exec env {}'\n",
        project.line("terminal")
    ));
    let screen = pane.wait_for("ready 30 100");
    let number = |line: &str| line.strip_prefix("pid-")?.strip_suffix('-')?.parse().ok();
    let front = screen.lines().find_map(number).and_then(Pid::from_raw).unwrap();
    kill_process(front, Signal::TERM).unwrap();
    pane.wait_for("nothing changed");
    pane.write("echo status-$?; stty -a >../after; echo written-$((1 + 1))\n");
    pane.wait_for("written-2");
    pane.wait_for("status-143");
    assert_eq!(project.read("after"), project.read("before"));
}
