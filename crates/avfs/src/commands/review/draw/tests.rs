use agentvfs::patch::ChangeStatus;
use insta::assert_snapshot;
use ratatui_core::layout::Size;

use super::*;
use crate::commands::review::scene::Scene;

fn screen(scene: &Scene, width: u16, height: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(&scene.model, Palette::Basic, &mut buffer);
    let symbols: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    let rows = symbols
        .chunks(width.into())
        .map(|row| row.concat().trim_end().to_owned());
    rows.collect::<Vec<_>>().join("\n")
}

fn shown(mut scene: Scene, keys: &str, width: u16, height: u16) -> String {
    scene = scene.sized(width, height);
    scene.press(keys);
    screen(&scene, width, height)
}

#[test]
fn a_narrow_screen_shows_one_side_under_the_other() {
    assert_snapshot!(shown(Scene::small(), "a j Tab Space Space", 80, 16), @"
     web-1 → /home/me/web                                           ✓ 1 ◐ 1 ✗ 0 · 1
     ✓ docs/        │◐ /src/a
     ✓   A new      │ a note
     ◐ src/         │▌── hunk 1 of 2 ── line 1 ──────────────────────── ✗ rejected ─
     ◐   M a        │▌  1   1  same
     ·   M b        │▌  2     -old word
                    │▌      2 +new word
                    │▌  3   3  same
                    │ ── hunk 2 of 2 ── line 21 ────────────────────── · undecided ─
                    │  21  21  x
                    │      22 +more
                    │  22  23  y
                    │
                    │
                    │
    ? help  a accept hunk  r reject  Enter apply  n next hunk  Tab files  q leave
    ");
}

#[test]
fn a_wide_screen_shows_both_sides() {
    assert_snapshot!(shown(Scene::small(), "n n", 120, 14), @"
     web-1 → /home/me/web                                                                                   ✓ 0 ◐ 0 ✗ 0 · 3
     · docs/        │· /src/a
     ·   A new      │ a note
     · src/         │▌── hunk 1 of 2 ── line 1 ─────────────────────────────────────────────────────────────── · undecided ─
     ·   M a        │▌  1  same                                         │  1  same
     ·   M b        │▌  2 -old word                                     │  2 +new word
                    │▌  3  same                                         │  3  same
                    │ ── hunk 2 of 2 ── line 21 ────────────────────────────────────────────────────────────── · undecided ─
                    │  21  x                                            │ 21  x
                    │                                                   │ 22 +more
                    │  22  y                                            │ 23  y
                    │
                    │
    ? help  a accept hunk  r reject  Enter apply  n next hunk  Tab files  q leave  A accept all  s split  / filter
    ");
}

#[test]
fn questions_and_the_filter_stand_at_the_bottom() {
    let bottom = |keys| {
        shown(Scene::small(), keys, 80, 10)
            .lines()
            .last()
            .unwrap()
            .to_owned()
    };
    assert_eq!(bottom("A Enter"), "apply 3 files to /home/me/web?  y / n");
    assert_eq!(bottom("/ s r"), "/sr   Enter keeps it, Esc shows all files");
    assert!(bottom("Enter").starts_with("nothing is accepted yet"));
}

#[test]
fn a_directory_lists_its_files() {
    let screen = shown(Scene::small(), "j a g k", 80, 10);
    assert!(screen.contains("· A /docs/new"), "{screen}");
    let screen = shown(Scene::small(), "j r", 80, 10);
    assert!(
        screen.contains("✗ M /src/a") && screen.contains("✗ M /src/b"),
        "{screen}"
    );
}

#[test]
fn help_lists_the_keys() {
    let help = shown(Scene::small(), "?", 80, 24);
    assert!(
        help.contains("accept the hunk, file or directory, and go on"),
        "{help}"
    );
    assert!(!shown(Scene::small(), "? x", 80, 24).contains("go on"));
}

#[test]
fn nothing_of_a_file_steers_the_terminal() {
    let scene = Scene::new(&[(
        "a\u{1b}[31m\u{7}",
        ChangeStatus::Modified,
        &["-\u{1b}]0;x\u{7}\n+\u{9b}2J\u{202e}"],
    )]);
    let screen = shown(scene, "Tab", 120, 12);
    assert!(
        !screen.contains(|c: char| c.is_control() && c != '\n'),
        "{screen:?}"
    );
    assert!(screen.contains("\\u{1b}]0;x\\u{7}"), "{screen}");
    assert!(screen.contains("\\u{9b}2J\\u{202e}"), "{screen}");
}

#[test]
fn no_screen_is_too_small() {
    for (width, height) in [(0, 0), (1, 1), (2, 5), (17, 3), (40, 2), (300, 100)] {
        let mut scene = Scene::small().sized(width, height);
        for keys in ["a", "Tab", "?", "x", "/ s", "Enter", "n n", "Enter"] {
            scene.press(keys);
            // The screen can have a different size than the model knows, until the next event.
            for other in [Size::new(width, height), Size::new(5, 5), Size::new(100, 1)] {
                draw(
                    &scene.model,
                    Palette::Basic,
                    &mut Buffer::empty(Rect::from((Default::default(), other))),
                );
            }
        }
    }
}
