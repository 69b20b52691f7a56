//! The screens of a review.

use crate::pane::Pane;
use crate::project::{Project, path};

#[test]
fn files_and_their_differences_are_shown() {
    let project = Project::usual();
    let pane = Pane::start(&project, "review work", 80, 24);
    let screen = pane.wait_for("deleted file");
    for text in [
        "work → ",
        "· D gone.txt",
        "· src/",
        "M main.txt",
        "A new.txt",
        "/gone.txt",
        "-bye",
        "? help",
    ] {
        assert!(screen.contains(text), "{text}\n{screen}");
    }
    pane.press("n n");
    let screen = pane.wait_for("hunk 1 of 3");
    assert!(
        screen.contains("  5     -line 5") && screen.contains("      5 +line five"),
        "{screen}"
    );
    pane.press("n");
    pane.wait_for("hunk 2 of 3");
}

#[test]
fn a_wide_screen_shows_both_sides_and_a_narrow_one_does_not() {
    let project = Project::usual();
    let pane = Pane::start(&project, "review work src/main.txt", 140, 40);
    let both = |screen: &str| {
        screen
            .lines()
            .any(|line| line.contains("-line 5 ") && line.contains("+line five"))
    };
    pane.wait_until("both sides", both);
    pane.resize(80, 24);
    pane.wait_until("one side", |screen| {
        screen.contains("+line five") && !both(screen)
    });
    pane.press("v");
    pane.wait_until("both sides again", both);
    pane.resize(200, 60);
    pane.wait_until("a large screen", |screen| {
        both(screen) && screen.lines().count() == 60
    });
}

#[test]
fn changed_words_stand_out() {
    let project = Project::usual();
    let pane = Pane::start(&project, "review work src/main.txt", 80, 24);
    pane.wait_for("line five");
    let screen = pane.styled_screen();
    assert!(screen.contains("\u{1b}[48;5;28mfive"), "{screen:?}");
}

#[test]
fn help_and_filter_come_and_go() {
    let project = Project::usual();
    let pane = Pane::start(&project, "review work", 80, 24);
    pane.wait_for("deleted file");
    pane.press("?");
    pane.wait_for("any key closes this");
    pane.press("x");
    pane.wait_until("no help", |screen| !screen.contains("any key closes this"));
    pane.press("/");
    pane.write("new");
    pane.wait_until("one file", |screen| {
        screen.contains("new.txt") && !screen.contains("main.txt")
    });
    pane.press("Enter a Escape");
    let screen = pane.wait_for("main.txt");
    assert!(
        screen.contains("✓   A new.txt") && screen.contains("·   M main.txt"),
        "{screen}"
    );
}

#[test]
fn every_kind_of_change_has_its_words() {
    let files: &[(&str, &[u8])] = &[
        ("binary", b"\0old"),
        ("moved", b"the same\n"),
        ("tool", b"#!/bin/sh\n"),
    ];
    let project = Project::new(files, |task| {
        task.write_bytes(&path("binary"), b"\0new bytes").unwrap();
        task.rename(&path("moved"), &path("moved-on")).unwrap();
        task.write_bytes(&path("empty"), b"").unwrap();
        task.symlink(b"/etc/passwd", &path("link")).unwrap();
        task.set_mode(&path("tool"), 0o755).unwrap();
    });
    let pane = Pane::start(&project, "review work", 100, 24);
    for text in [
        "not text: 4 B before, 10 B now",
        "empty",
        "/etc/passwd (no line feed)",
        "renamed from /moved",
        "mode 644, now 755",
    ] {
        pane.wait_for(text);
        pane.press("j");
    }
}

#[test]
fn fifty_thousand_lines_are_only_a_page() {
    let old: String = (0..50_000).map(|n| format!("line {n}\n")).collect();
    let new: String = (0..50_000)
        .map(|n| format!("line {n}{}\n", if n % 3 == 0 { " changed" } else { "" }))
        .collect();
    let project = Project::new(&[("big", old.as_bytes())], |task| {
        task.write_bytes(&path("big"), new.as_bytes()).unwrap();
    });
    let pane = Pane::start(&project, "review work", 80, 24);
    pane.wait_for("line 0 changed");
    pane.press("Tab G");
    pane.wait_for("line 49998 changed");
    pane.press("PageUp PageUp");
    pane.wait_for("line 49972");
    pane.press("g");
    pane.wait_for("line 0 changed");
}
