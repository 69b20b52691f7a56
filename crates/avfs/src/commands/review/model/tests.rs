use agentvfs::patch::Status;

use super::*;
use crate::commands::review::scene::Scene;

#[track_caller]
fn check(keys: &str, decided: &str, place: &str) {
    let mut scene = Scene::small();
    scene.press(keys);
    assert_eq!((scene.decided().as_str(), scene.place().as_str()), (decided, place), "{keys}");
}

#[test]
fn files_are_decided_in_the_tree() {
    check("a", "accepted undecided undecided", "-");
    check("a j a r", "accepted accepted rejected", "/src/b:1");
    check("a j a k Space", "accepted rejected undecided", "/src/a:1");
    check("a j Space Space u", "accepted undecided undecided", "/src/a:1");
}

#[test]
fn a_directory_stands_for_its_files() {
    check("j a", "undecided accepted accepted", "-");
    check("g r", "rejected undecided undecided", "-");
    check("j Space Space", "undecided rejected rejected", "-");
}

#[test]
fn hunks_are_decided_in_the_differences() {
    check("Tab a", "accepted undecided undecided", "/src/a:1");
    check("Tab a a", "accepted partly undecided", "/src/a:2");
    check("Tab a a a", "accepted accepted undecided", "/src/b:1");
    check("n a a r r", "accepted partly rejected", "/src/b:1");
    check("Tab n n Space", "undecided partly undecided", "/src/a:2");
    check("Tab n n Space u", "undecided undecided undecided", "/src/a:2");
}

#[test]
fn hunks_follow_each_other_through_all_files() {
    check("n", "undecided undecided undecided", "/docs/new:1");
    check("n n", "undecided undecided undecided", "/src/a:1");
    check("n n n n n n", "undecided undecided undecided", "/src/b:1");
    check("n n n n N", "undecided undecided undecided", "/src/a:2");
    check("n n n N N N N N", "undecided undecided undecided", "/docs/new:1");
    check("j n", "undecided undecided undecided", "/src/a:1");
}

#[test]
fn everything_that_is_shown_is_decided_at_once() {
    check("A", "accepted accepted accepted", "/docs/new:1");
    check("A / s r c / Enter R", "accepted rejected rejected", "/src/a:1");
    check("A / s r c Enter R Esc", "accepted rejected rejected", "/src/a:1");
}

#[test]
fn the_filter_shows_files_with_the_text_in_their_path() {
    let mut scene = Scene::small();
    let shown = |scene: &Scene| scene.model.tree.iter().filter(|row| row.file().is_some()).count();
    scene.press("/ S R C");
    assert_eq!((shown(&scene), scene.place().as_str()), (2, "/src/a:1"));
    scene.press("Backspace Backspace Backspace d o c");
    assert_eq!((shown(&scene), scene.place().as_str()), (1, "/docs/new:1"));
    scene.press("x");
    assert_eq!((shown(&scene), scene.place().as_str()), (0, "-"));
    scene.press("Enter a n N j k Tab a PgDn");
    assert_eq!(scene.decided(), "undecided undecided undecided");
    scene.press("Esc");
    assert_eq!(shown(&scene), 3);
}

#[test]
fn leaving_asks_only_if_something_was_decided() {
    let effect = |keys| Scene::small().press(keys).effect;
    assert_eq!(effect("q"), Some(Effect::Leave));
    assert_eq!(effect("r q"), None);
    assert_eq!(effect("r q n"), None);
    assert_eq!(effect("r q y"), Some(Effect::Leave));
}

#[test]
fn only_what_is_accepted_is_applied() {
    let mut scene = Scene::small();
    scene.press("r Enter");
    assert_eq!((scene.effect, scene.model.mode), (None, Mode::Browse), "there is nothing to apply");
    assert!(scene.model.message.is_some());
    scene.press("g A Tab n n r Enter y");
    assert_eq!(scene.effect, Some(Effect::Apply));
    let accepted = scene.model.accepted();
    let paths: Vec<String> = accepted.paths.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["/docs/new", "/src/b"]);
    assert_eq!(accepted.hunks.len(), 1);
    assert_eq!((accepted.hunks[0].0.to_string().as_str(), &accepted.hunks[0].1[..]), ("/src/a", &[2][..]));
    assert_eq!(accepted.summary(), "2 files and 1 hunk");
}

#[test]
fn a_renamed_file_is_applied_with_both_its_paths() {
    let mut scene = Scene::new(&[("new/name", Status::Renamed, &[])]);
    let paths: Vec<String> =
        scene.press("a").model.accepted().paths.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["/new/name", "/old/name"]);
}

#[test]
fn another_size_keeps_the_hunk_in_sight() {
    let long = "+x\n".repeat(500);
    let mut scene = Scene::new(&[("a", Status::Modified, &[&long, "-1\n+2", &long])]).sized(200, 50);
    scene.press("Tab n");
    for (width, height) in [(80, 24), (30, 5), (3, 1), (0, 0), (200, 50)] {
        scene = scene.sized(width, height);
        assert_eq!(scene.place(), "/a:2");
        let height = usize::from(scene.model.geometry().diff.height);
        assert!((scene.model.top..scene.model.top + height.max(1)).contains(&scene.model.row));
    }
    scene.press("s");
    assert_eq!(scene.place(), "/a:2");
}

#[test]
fn the_same_size_moves_nothing() {
    let mut scene = Scene::small().sized(80, 24);
    scene.press("n j j");
    let row = scene.model.row;
    assert_eq!(scene.sized(80, 24).model.row, row);
}

#[test]
fn keys_in_an_empty_review_do_nothing() {
    let mut scene = Scene::new(&[]);
    scene.press("j k n N a r Space u A R Tab a r Space u n N PgDn g G s Right Left Enter");
    assert_eq!(scene.place(), "-");
}
