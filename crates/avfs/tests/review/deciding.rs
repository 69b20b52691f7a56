//! The results of a review.

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
    assert_eq!(
        project.read("src/main.txt").unwrap(),
        numbered().replace("line 5\n", "line five\n")
    );
    assert_eq!(project.read("src/new.txt").unwrap(), "hello\n");
    assert_eq!(project.read("gone.txt").unwrap(), "bye\n");
}

/// The user changed a line that the task changed, too.
fn in_conflict() -> Project {
    let project = Project::usual();
    std::fs::write(
        project.root().join("src/main.txt"),
        numbered().replace("line 5\n", "line V\n"),
    )
    .unwrap();
    project
}

/// The task's text outside of the conflicting places.
fn merged_with(line_5: &str) -> String {
    let text = numbered().replace("line 5\n", line_5).replace("line 30\n", "");
    text.replace("line 55\n", "line 55 and more\n")
}

#[test]
fn a_conflict_stands_first_with_both_sides_and_its_hunk_can_be_left_out() {
    let project = in_conflict();
    let pane = Pane::start(&project, "review work", 120, 30);
    let screen = pane.wait_for("conflict 1 of 1, line 5: both changed the same lines");
    for side in ["< line V", "| line 5", "> line five"] {
        assert!(screen.contains(side), "{screen}");
    }
    pane.press("A");
    let screen = pane.wait_for("1 conflict not accepted");
    assert!(screen.contains("! 1  ✓ 2"), "{screen}");
    pane.press("n r a a Enter y");
    pane.wait_for("ended with 0");
    assert_eq!(project.read("src/main.txt").unwrap(), merged_with("line V\n"));
    assert_eq!(project.read("src/new.txt").unwrap(), "hello\n");
}

/// Takes the markers and the task's line away.
const EDITOR: &str = r#"sed -i -e '/^[<>=]/d' -e '/^|||/,/^line 5$/d' -e '/^line five$/d' \
    -e 's/^line V$/line V and five/' "$1"
"#;

#[test]
fn a_conflict_becomes_what_is_chosen() {
    for (key, line_5) in [
        ("t", "line five\n"),
        ("b", "<<<<<<< here\nline V\n=======\nline five\n>>>>>>> work\n"),
        ("e", "line V and five\n"),
    ] {
        let project = in_conflict();
        let editor = project.home().join("editor");
        std::fs::write(&editor, EDITOR).unwrap();
        let (editor, program) = (editor.display(), project.program().display().to_string());
        let line =
            format!("export EDITOR='sh {editor}'; {program} review work; echo ended with $?; exec cat");
        let pane = Pane::shell(&project, &line, 120, 30);
        pane.wait_for("conflict 1 of 1, line 5");
        pane.press(key);
        pane.wait_for("✓ 1 ◐ 0 ✗ 0");
        pane.press("Enter y");
        pane.wait_for("ended with ");
        assert_eq!(
            project.read("src/main.txt").unwrap(),
            merged_with(line_5),
            "{key}"
        );
    }
}

#[test]
fn each_conflict_of_a_file_is_decided_by_itself() {
    let project = Project::usual();
    let mine = [
        ("line 5\n", "line V\n"),
        ("line 20\n", "MY EDIT\n"),
        ("line 55\n", "line LV\n"),
    ];
    let here = mine
        .iter()
        .fold(numbered(), |text, (old, new)| text.replace(old, new));
    std::fs::write(project.root().join("src/main.txt"), &here).unwrap();
    let pane = Pane::start(&project, "review work", 120, 40);
    let screen = pane.wait_for("conflict 2 of 2, line 55: both changed the same lines");
    assert!(screen.contains("take the task's in all 2"), "{screen}");
    pane.press("Tab t");
    let screen = pane.wait_for("1 of 2 conflicts of this file are open");
    assert!(
        screen.contains("✓ the task's") && screen.contains("! open"),
        "{screen}"
    );
    pane.press("q");
    pane.wait_for("ended with 0");

    let pane = Pane::start(&project, "review work", 120, 40);
    pane.wait_for("✓ the task's");
    pane.press("Tab n m");
    pane.wait_for("all 2 conflicts of /src/main.txt are decided");
    pane.press("Enter y");
    pane.wait_for("ended with ");
    let merged = here.replace("line V\n", "line five\n").replace("line 30\n", "");
    assert_eq!(project.read("src/main.txt").unwrap(), merged);
}

#[test]
fn the_side_of_the_task_leaves_what_was_changed_elsewhere_in_the_file() {
    for (key, line_5) in [("t", "line five\n"), ("m", "line V\n")] {
        let project = in_conflict();
        let here = project.read("src/main.txt").unwrap();
        let here = here.replace("line 20\n", "MY EDIT\n");
        std::fs::write(project.root().join("src/main.txt"), here).unwrap();
        let pane = Pane::start(&project, "review work", 120, 30);
        pane.wait_for("conflict 1 of 1, line 5");
        pane.press(key);
        pane.wait_for("✓ 1 ◐ 0 ✗ 0");
        pane.press("Enter y");
        pane.wait_for("ended with ");
        let merged = merged_with(line_5).replace("line 20\n", "MY EDIT\n");
        assert_eq!(project.read("src/main.txt").unwrap(), merged, "{key}");
    }
}

#[test]
fn a_split_hunk_is_applied_change_by_change() {
    let before = numbered();
    let project = Project::new(&[("a.txt", before.as_bytes())], |task| {
        let text = String::from_utf8(task.read(&path("a.txt")).unwrap().to_vec()).unwrap();
        let text = text
            .replace("line 5\n", "line five\n")
            .replace("line 8\n", "line eight\n");
        task.write_bytes(&path("a.txt"), text.as_bytes()).unwrap();
    });
    let pane = Pane::start(&project, "review work", 80, 24);
    pane.wait_for("hunk 1 of 1");
    pane.press("Tab s");
    pane.wait_for("hunk 1 of 1, change 2 of 2");
    pane.press("r a Enter");
    pane.wait_for("apply 1 hunk to ");
    pane.press("y");
    pane.wait_for("ended with 0");
    assert_eq!(
        project.read("a.txt").unwrap(),
        before.replace("line 8\n", "line eight\n")
    );
}

#[test]
fn files_that_the_host_runs_are_asked_for_by_their_names_and_once() {
    let project = Project::new(&[("a", b"a\n")], |task| {
        task.write_bytes(&path(".envrc"), b"rm -rf ~\n").unwrap();
    });
    let pane = Pane::start(&project, "review work", 120, 24);
    pane.wait_for("new file");
    pane.press("A Enter y");
    pane.wait_for("Apply .envrc too?");
    pane.press("n Enter");
    let screen = pane.wait_for("ended with 1");
    assert!(screen.contains("warning: left out .envrc: "), "{screen}");
    assert_eq!(project.read(".envrc"), None);

    let pane = Pane::start(&project, "review work", 120, 24);
    pane.wait_for("new file");
    pane.press("A Enter y");
    pane.wait_for("Apply .envrc too?");
    pane.press("y Enter");
    let screen = pane.wait_for("ended with 0");
    assert!(screen.contains("warning: look at .envrc: "), "{screen}");
    assert!(!screen.contains("Apply task 'work' to "), "{screen}");
    assert_eq!(project.read(".envrc").unwrap(), "rm -rf ~\n");
}

#[test]
fn leaving_changes_nothing_and_the_decisions_are_there_again() {
    let project = Project::usual();
    let pane = Pane::start(&project, "review work", 80, 24);
    pane.wait_for("deleted file");
    pane.press("a n r q");
    let screen = pane.wait_for("ended with 0");
    assert!(
        screen.contains("your decisions are kept: `avfs review work` continues"),
        "{screen}"
    );
    assert_eq!(project.read("src/main.txt").unwrap(), numbered());
    assert_eq!(project.read("gone.txt").unwrap(), "bye\n");
    assert_eq!(pane.fact("#{alternate_on} #{cursor_flag}"), "0 1");

    let pane = Pane::start(&project, "review work", 80, 24);
    let screen = pane.wait_for("deleted file");
    assert!(
        screen.contains("✓ D gone.txt") && screen.contains("◐   M main.txt"),
        "{screen}"
    );
    pane.press("q");
    pane.wait_for("ended with 0");
    project.edit(|task| task.write_bytes(&path("src/main.txt"), b"other\n").unwrap());
    let pane = Pane::start(&project, "review work", 80, 24);
    let screen = pane.wait_for("1 file changed since you decided");
    assert!(
        screen.contains("✓ D gone.txt") && screen.contains("·   M main.txt"),
        "{screen}"
    );
    let pane = Pane::start(&project, "review work --fresh", 80, 24);
    pane.wait_for("✓ 0 ◐ 0 ✗ 0 · 3");
}

#[test]
fn a_lost_terminal_takes_no_decision_along() {
    let project = Project::usual();
    let pane = Pane::start(&project, "review work", 80, 24);
    pane.wait_for("deleted file");
    pane.press("a");
    pane.wait_for("✓ 1 ◐ 0 ✗ 0 · 2");
    let kept = || {
        let said = project.avfs("review work --json").output().unwrap().stdout;
        String::from_utf8(said)
            .unwrap()
            .matches("\"decision\":\"accepted\"")
            .count()
            > 0
    };
    pane.wait_until("the decision is kept while the review is there", |_| kept());
    drop(pane);
    assert!(kept());
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
    assert!(
        screen.contains("✓ D gone.txt") && screen.contains("◐   M main.txt"),
        "{screen}"
    );
    assert!(screen.contains("✓ 2 ◐ 1 ✗ 0 · 0"), "{screen}");
}

#[test]
fn a_task_without_changes_needs_no_review() {
    let project = Project::new(&[("a", b"a\n")], |_| {});
    let pane = Pane::start(&project, "review work", 80, 24);
    let screen = pane.wait_for("ended with 0");
    assert!(
        screen.contains("there is nothing to review in task 'work'"),
        "{screen}"
    );
}
