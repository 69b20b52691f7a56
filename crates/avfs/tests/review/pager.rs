//! `avfs diff` in a pager.

use crate::pane::Pane;
use crate::project::{Project, path};

fn long() -> Project {
    Project::new(&[], |task| {
        let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        task.write_bytes(&path("long"), text.as_bytes()).unwrap();
    })
}

#[test]
fn a_long_diff_waits_in_the_pager_and_ends_when_it_is_left() {
    let project = long();
    let pane = Pane::start(&project, "diff work --patch", 80, 24);
    let screen = pane.wait_for("+line 0");
    assert!(!screen.contains("ended"), "{screen}");
    pane.press("Space");
    pane.wait_for("+line 30");
    // Ctrl-C belongs to the pager. A key that arrives before it has handled that is lost, so it is pressed
    // again.
    pane.press("C-c");
    let screen = pane.wait_until("the end", |screen| {
        pane.press("q");
        screen.contains("ended with")
    });
    assert!(screen.contains("ended with 0"), "{screen}");
}

#[test]
fn a_short_diff_needs_no_key() {
    let project = Project::usual();
    let pane = Pane::start(&project, "diff work", 80, 24);
    let screen = pane.wait_for("ended with 0");
    assert!(screen.contains("modified  src/main.txt"), "{screen}");
}

#[test]
fn without_a_pager_everything_passes_by() {
    let project = long();
    let pane = Pane::start(&project, "diff work --patch --no-pager", 80, 24);
    let screen = pane.wait_for("ended with 0");
    assert!(screen.contains("+line 19999"), "{screen}");
}
