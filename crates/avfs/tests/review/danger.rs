//! States in which the terminal must never be left.

use std::process::Command;
use std::time::Instant;

use crate::pane::{PATIENCE, Pane};
use crate::project::{Project, path};

#[test]
fn neither_names_nor_contents_steer_the_terminal() {
    let title = "\u{1b}]2;owned\u{7}";
    let name = format!("a{title}");
    let project = Project::new(&[("b", b"before\n")], |task| {
        let evil = format!("{title}\u{1b}[2J\u{1b}[31m\u{9b}2J\u{1b}[?1049l\r\n");
        task.write_bytes(&path(&name), evil.as_bytes()).unwrap();
        task.write_bytes(&path("b"), evil.as_bytes()).unwrap();
    });
    let pane = Pane::start(&project, "review work", 120, 24);
    let screen = pane.wait_for("]2;owned\\u{7}\\u{1b}[2J");
    assert!(screen.contains("A a\\u{1b}]2;owned\\u{7}"), "{screen}");
    pane.press("j");
    pane.wait_for("before");
    pane.press("Tab A Enter");
    pane.wait_for("apply 2 files");
    assert!(!pane.fact("#{pane_title}").contains("owned"));
    assert_eq!(pane.fact("#{alternate_on}"), "1");
}

/// Asserts that the terminal is usable for a shell; `when` identifies this check.
#[track_caller]
fn check_usable(pane: &Pane, when: &str) {
    assert_eq!(pane.fact("#{alternate_on} #{cursor_flag}"), "0 1", "{when}");
    pane.write(&format!("echo {when}: $(stty -a | grep -ow icanon)\n"));
    let expected = format!("{when}: icanon");
    pane.wait_until(&expected, |screen| screen.lines().any(|line| line == expected));
}

fn shell(project: &Project) -> Pane {
    let pane = Pane::shell(project, "exec env PS1=ready: bash --norc --noprofile -i", 80, 24);
    pane.wait_for("ready:");
    let program = assert_cmd::cargo::cargo_bin!("avfs").display().to_string();
    pane.write(&format!("clear; {program} review work; echo ended with $?\n"));
    pane.wait_for("deleted file");
    pane
}

/// The process of the review.
fn review_in(pane: &Pane) -> String {
    let found = Command::new("pgrep")
        .args(["-P", &pane.fact("#{pane_pid}"), "avfs"])
        .output()
        .unwrap();
    String::from_utf8(found.stdout).unwrap().trim().to_owned()
}

/// One that waits for its parent to look at it is not.
fn is_running(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_review_ends_with_its_terminal() {
    let project = Project::usual();
    let pane = shell(&project);
    let process = review_in(&pane);
    assert!(is_running(&process));
    drop(pane);
    let start = Instant::now();
    while is_running(&process) {
        assert!(start.elapsed() < PATIENCE, "process {process} is still there");
        std::thread::yield_now();
    }
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let project = Project::usual();
    let pane = shell(&project);
    let reviews = std::process::Command::new("pgrep")
        .args(["-P", &pane.fact("#{pane_pid}"), "avfs"])
        .output()
        .unwrap();
    let process = String::from_utf8(reviews.stdout).unwrap();
    assert!(
        std::process::Command::new("kill")
            .arg(process.trim())
            .status()
            .unwrap()
            .success()
    );
    pane.wait_for("ended with 143");
    check_usable(&pane, "killed");
}

#[test]
fn a_review_can_be_suspended_and_resumed() {
    let project = Project::usual();
    let pane = shell(&project);
    pane.press("C-z");
    pane.wait_for("Stopped");
    check_usable(&pane, "stopped");
    pane.write("fg; echo back with $?\n");
    pane.wait_for("deleted file");
    pane.press("q");
    pane.wait_for("back with 0");
    check_usable(&pane, "resumed");
}
