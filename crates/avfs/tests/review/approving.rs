//! A command that needs an approval asks on the terminal on which it was started.

use crate::pane::Pane;
use crate::project::Project;

const QUESTION: &str = "allow it [o]nce";

/// Has no network, and needs approval: it sets the path of programs itself.
const ASKED: &str = "--vault work exec -c 'PATH=/usr/bin:/bin echo it ran'";

#[test]
fn an_approval_is_answered_in_place() {
    let project = Project::usual();
    let pane = Pane::start(&project, ASKED, 120, 50);
    let screen = pane.wait_for(QUESTION);
    assert!(
        screen.contains("command: PATH=/usr/bin:/bin echo it ran"),
        "{screen}"
    );
    pane.press("y Enter");
    pane.wait_until("the question again", |screen| {
        screen.matches(QUESTION).count() == 2
    });
    pane.press("? Enter");
    pane.wait_for("o  once: exactly this command");
    pane.press("o Enter");
    let screen = pane.wait_for("ended with 0");
    assert!(screen.contains("\nit ran"), "{screen}");
}

#[test]
fn a_denied_command_does_not_run_and_an_open_question_can_be_answered_elsewhere() {
    let project = Project::usual();
    let pane = Pane::start(&project, ASKED, 120, 50);
    pane.wait_for(QUESTION);
    pane.press("q Enter");
    pane.wait_for("ended with 121");
    let pane = Pane::start(&project, ASKED, 120, 50);
    let screen = pane.wait_for(QUESTION);
    let id = screen
        .lines()
        .find_map(|line| line.strip_prefix("approval: "))
        .unwrap();
    let id = id.split(',').next().unwrap();
    project.avfs(&format!("approvals deny {id}")).assert().success();
    let screen = pane.wait_for("ended with 122");
    assert!(screen.contains("denied by"), "{screen}");
}

#[test]
fn no_question_is_asked_without_a_terminal() {
    let project = Project::usual();
    let pane = Pane::start(&project, &format!("{ASKED} < /dev/null"), 120, 50);
    let screen = pane.wait_for("ended with 121");
    assert!(!screen.contains(QUESTION), "{screen}");
    let pane = Pane::start(&project, &format!("--json {ASKED}"), 120, 50);
    assert!(!pane.wait_for("ended with 121").contains(QUESTION));
}

#[test]
fn network_of_a_run_is_asked_for_in_place_and_named_above_the_question() {
    let project = Project::usual();
    // A command that is longer than the screen.
    let words = "word ".repeat(2000);
    let line = format!("--vault work exec --net a.example -- touch {words}");
    let pane = Pane::start(&project, &line, 100, 40);
    let screen = pane.wait_for("allow it [o]nce, for the [s]ession, [a]lways");
    assert!(
        screen.contains("command of (10005 characters), network a.example"),
        "{screen}"
    );
    pane.press("d Enter");
    pane.wait_for("ended with 122");
}

#[test]
fn session_that_asks_for_a_network_is_answered_in_place() {
    let project = Project::usual();
    let start = "--vault work session start --net a.example";
    let pane = Pane::start(&project, start, 120, 50);
    let screen = pane.wait_for(QUESTION);
    assert!(
        screen.contains("command: (a session)") && screen.contains("network: a.example"),
        "{screen}"
    );
    pane.press("o Enter");
    pane.wait_for("ended with 0");
    project.avfs("session stop --all").assert().success();
    let pane = Pane::start(&project, start, 120, 50);
    pane.wait_for(QUESTION);
    pane.press("q Enter");
    pane.wait_for("ended with 121");
}
