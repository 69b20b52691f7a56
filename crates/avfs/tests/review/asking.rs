//! The questions of `apply` and `discard` before they act.

use crate::pane::Pane;
use crate::project::{Project, Whose, path};

const FILES: [&str; 4] = ["a", "b", "c", "d"];

/// A project in which the task and the user changed the same lines of four files, and the task added one.
fn in_conflict(whose: Whose) -> Project {
    let files: Vec<(&str, &[u8])> = FILES.iter().map(|name| (*name, &b"old\n"[..])).collect();
    let project = Project::of(whose, &files, |task| {
        for name in FILES {
            assert_eq!(&task.read(&path(name)).unwrap()[..], b"old\n");
            task.write_bytes(&path(name), b"task\n").unwrap();
        }
        task.write_bytes(&path("new"), b"new\n").unwrap();
    });
    FILES
        .iter()
        .for_each(|name| std::fs::write(project.root().join(name), "user\n").unwrap());
    project
}

fn contents(project: &Project) -> Vec<Option<String>> {
    FILES
        .iter()
        .chain(&["new"])
        .map(|name| project.read(name))
        .collect()
}

/// Waits for the question about a file, and answers it.
fn answer(pane: &Pane, file: &str, keys: &str) {
    pane.wait_for(&format!("{file} (both changed the same lines)"));
    pane.press(keys);
}

fn answers_are_carried_out(project: &Project) {
    let pane = Pane::start(project, "apply work --conflicts ask", 200, 80);
    let screen = pane.wait_for("a (both changed the same lines)");
    for side in ["< user", "| old", "> task"] {
        assert!(screen.contains(side), "{screen}");
    }
    pane.press("? Enter");
    pane.wait_for("t  theirs (or task): the lines in conflict become what the task has");
    answer(&pane, "a", "m Enter");
    answer(&pane, "b", "x Enter");
    pane.wait_until("the same question", |screen| {
        screen.matches("b (both changed").count() == 2
    });
    pane.press("o Enter");
    answer(&pane, "c", "t Enter");
    answer(&pane, "d", "s Enter");
    pane.wait_for("Apply task 'work' to ");
    pane.press("y Enter");
    pane.wait_for("ended with 1");
    let marked = "<<<<<<< here\nuser\n=======\ntask\n>>>>>>> work\n";
    let expected = [marked, "user\n", "task\n", "user\n", "new\n"];
    assert_eq!(contents(project), expected.map(|text| Some(text.to_owned())));
}

#[test]
fn each_file_in_conflict_becomes_what_is_answered() {
    answers_are_carried_out(&in_conflict(Whose::Ours));
}

#[test]
fn an_ordinary_user_is_asked_and_answers() {
    answers_are_carried_out(&in_conflict(Whose::AnOrdinaryUsers));
}

/// Presses keys in the middle of the questions: nothing changes.
fn nothing_happens(keys: &str, ended: &str) {
    let project = in_conflict(Whose::Ours);
    let before = contents(&project);
    let pane = Pane::start(&project, "apply work --conflicts ask", 200, 40);
    answer(&pane, "a", "t Enter");
    answer(&pane, "b", keys);
    let screen = pane.wait_for(ended);
    assert!(
        !screen.contains("c (both changed"),
        "no further question is asked: {screen}"
    );
    assert_eq!(contents(&project), before);
    assert_eq!(
        project.avfs("undo --apply").output().unwrap().status.code(),
        Some(4),
        "nothing was applied"
    );
}

#[test]
fn quitting_changes_nothing() {
    nothing_happens("q Enter", "ended with 1");
}

#[test]
fn end_of_input_changes_nothing() {
    nothing_happens("C-d", "ended with 1");
}

#[test]
fn interrupt_during_the_questions_changes_nothing() {
    nothing_happens("C-c", "ended with 130");
}

#[test]
fn an_apply_is_shown_and_done_if_the_user_agrees() {
    for (keys, ended, is_applied) in [
        ("n Enter", "ended with 1", false),
        ("Enter", "ended with 1", false),
        ("C-c", "ended with 130", false),
        ("y Enter", "ended with 0", true),
    ] {
        for project in [Whose::Ours, Whose::AnOrdinaryUsers].map(Project::usual_of) {
            let pane = Pane::start(&project, "apply work", 200, 40);
            let screen = pane.wait_for("Apply task 'work' to ");
            assert!(screen.contains("removed   gone.txt"), "{screen}");
            assert_eq!(project.read("gone.txt").as_deref(), Some("bye\n"));
            pane.press(keys);
            let screen = pane.wait_for(ended);
            assert_eq!(
                screen.matches("gone.txt").count(),
                1,
                "it is not listed twice: {screen}"
            );
            assert_eq!(project.read("gone.txt").is_none(), is_applied, "{keys}");
            assert_eq!(project.read("src/new.txt").is_some(), is_applied, "{keys}");
        }
    }
}

#[test]
fn unmerged_work_is_thrown_away_if_the_user_agrees() {
    for (keys, ended, is_gone) in [
        ("n Enter", "ended with 1", false),
        ("Enter", "ended with 1", false),
        ("C-c", "ended with 130", false),
        ("y Enter", "ended with 0", true),
    ] {
        for project in [Whose::Ours, Whose::AnOrdinaryUsers].map(Project::usual_of) {
            let pane = Pane::start(&project, "discard work", 200, 40);
            pane.wait_for("Throw away 'work' (its work was not applied)? [y/N]");
            pane.press(keys);
            pane.wait_for(ended);
            let status = project.avfs("diff work").output().unwrap().status.code();
            assert_eq!(status != Some(0), is_gone, "{keys}: {status:?}");
        }
    }
}
