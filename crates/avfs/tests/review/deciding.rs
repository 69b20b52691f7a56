//! What comes of a review.

use crate::pane::Pane;
use crate::project::{Project, numbered, path};

#[test]
fn only_accepted_hunks_and_files_are_applied() {
    let project = Project::usual();
    let pane = Pane::start(&project, "review work", 80, 24);
    pane.wait_for("deleted file");
    pane.press("n n");
    pane.wait_for("hunk 1 of 3");
    pane.press("a");
    pane.wait_for("✓ accepted");
    pane.press("r");
    pane.wait_for("hunk 3 of 3");
    pane.press("n");
    pane.wait_for("new file");
    pane.press("a Enter");
    pane.wait_for("apply 1 file and 1 hunk to ");
    pane.press("y");
    pane.wait_for("ended with 0");
    assert_eq!(project.read("src/main.txt").unwrap(), numbered().replace("line 5\n", "line five\n"));
    assert_eq!(project.read("src/new.txt").unwrap(), "hello\n");
    assert_eq!(project.read("gone.txt").unwrap(), "bye\n");
}

#[test]
fn a_conflict_with_the_directory_is_told_and_the_decisions_stay() {
    let project = Project::usual();
    std::fs::write(project.root().join("src/main.txt"), numbered().replace("line 5\n", "line V\n")).unwrap();
    let pane = Pane::start(&project, "review work", 120, 24);
    pane.wait_for("deleted file");
    pane.press("A Enter y");
    let screen = pane.wait_for("/src/main.txt: both changed the same lines");
    assert!(screen.contains("✓ 3"), "{screen}");
    pane.press("n n r Enter y");
    pane.wait_for("ended with 0");
    let expected = numbered().replace("line 5\n", "line V\n").replace("line 30\n", "");
    assert_eq!(project.read("src/main.txt").unwrap(), expected.replace("line 55\n", "line 55 and more\n"));
}

#[test]
fn files_that_the_host_runs_are_pointed_out_first() {
    let project = Project::new(&[("a", b"a\n")], |task| {
        task.write_bytes(&path(".envrc"), b"rm -rf ~\n").unwrap();
    });
    let pane = Pane::start(&project, "review work", 120, 24);
    pane.wait_for("new file");
    pane.press("A Enter y");
    let screen = pane.wait_for("Apply task 'work' to ");
    assert!(screen.contains("warning: look at /.envrc: "), "{screen}");
    pane.press("n Enter");
    pane.wait_for("ended with 1");
    assert_eq!(project.read(".envrc"), None);
}

#[test]
fn leaving_changes_nothing_and_asks_if_something_was_decided() {
    let project = Project::usual();
    let pane = Pane::start(&project, "review work", 80, 24);
    pane.wait_for("deleted file");
    pane.press("A q");
    pane.wait_for("leave, and forget what was decided?");
    pane.press("n");
    pane.wait_for("? help");
    pane.press("q y");
    pane.wait_for("ended with 0");
    assert_eq!(project.read("src/main.txt").unwrap(), numbered());
    assert_eq!(project.read("src/new.txt"), None);
    assert_eq!(pane.fact("#{alternate_on} #{cursor_flag}"), "0 1");
}

#[test]
fn nothing_accepted_is_nothing_to_apply() {
    let project = Project::usual();
    let pane = Pane::start(&project, "review work", 80, 24);
    pane.wait_for("deleted file");
    pane.press("Enter");
    pane.wait_for("nothing is accepted yet");
    pane.press("q");
    pane.wait_for("ended with 0");
}

#[test]
fn decisions_can_be_brought_along() {
    let project = Project::usual();
    let pane = Pane::start(&project, "review work --accept / --reject src/main.txt:2", 80, 24);
    let screen = pane.wait_for("deleted file");
    assert!(screen.contains("✓ D gone.txt") && screen.contains("◐   M main.txt"), "{screen}");
    assert!(screen.contains("✓ 2 ◐ 1 ✗ 0 · 0"), "{screen}");
}

#[test]
fn a_task_without_changes_needs_no_review() {
    let project = Project::new(&[("a", b"a\n")], |_| {});
    let pane = Pane::start(&project, "review work", 80, 24);
    let screen = pane.wait_for("ended with 0");
    assert!(screen.contains("there is nothing to review in task 'work'"), "{screen}");
}
