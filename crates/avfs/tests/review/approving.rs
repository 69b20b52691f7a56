//! A command that needs an approval asks on the terminal that it was started on.

use crate::pane::Pane;
use crate::project::Project;

const QUESTION: &str = "allow it [o]nce, for the [s]ession";

/// Reaches nothing, and is asked for: it says itself where programs are.
const ASKED: &str = "--vault work exec -c 'PATH=/usr/bin:/bin echo it ran'";

#[test]
fn an_approval_is_answered_in_place() {
    let project = Project::usual();
    let pane = Pane::start(&project, ASKED, 120, 50);
    let screen = pane.wait_for(QUESTION);
    assert!(screen.contains("command: PATH=/usr/bin:/bin echo it ran"), "{screen}");
    pane.press("y Enter");
    pane.wait_until("the question again", |screen| screen.matches(QUESTION).count() == 2);
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
    let id = screen.lines().find_map(|line| line.strip_prefix("approval: ")).unwrap();
    let id = id.split(',').next().unwrap();
    project.avfs(&format!("approvals deny {id}")).assert().success();
    let screen = pane.wait_for("ended with 122");
    assert!(screen.contains("denied by"), "{screen}");
}

#[test]
fn nobody_is_asked_where_there_is_no_terminal() {
    let project = Project::usual();
    let pane = Pane::start(&project, &format!("{ASKED} < /dev/null"), 120, 50);
    let screen = pane.wait_for("ended with 121");
    assert!(!screen.contains(QUESTION), "{screen}");
    let pane = Pane::start(&project, &format!("--json {ASKED}"), 120, 50);
    assert!(!pane.wait_for("ended with 121").contains(QUESTION));
}
