use agentvfs::patch::ChangeStatus;

use super::*;
use crate::commands::review::conflict::{ConflictView, How};
use crate::commands::review::kept::restore;
use crate::commands::review::scene::Scene;
use crate::conflict_view::{ConflictLine, LineRole};

#[track_caller]
fn check(keys: &str, decided: &str, place: &str) {
    let mut scene = Scene::small();
    scene.press(keys);
    assert_eq!(
        (scene.decided().as_str(), scene.place().as_str()),
        (decided, place),
        "{keys}"
    );
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
fn leaving_keeps_what_was_decided() {
    let mut scene = Scene::small();
    assert_eq!(scene.press("q").effect, Some(ReviewEffect::Leave));
    assert!(!scene.model.take_unkept() && scene.model.kept().decisions.is_empty());
    assert_eq!(scene.press("r q").effect, Some(ReviewEffect::Leave));
    assert!(scene.model.take_unkept() && !scene.model.take_unkept());
    assert_eq!(scene.model.kept().decisions.len(), 1);
    scene.press("U");
    assert!(scene.model.take_unkept() && scene.model.kept().decisions.is_empty());
}

#[test]
fn only_what_is_accepted_is_applied() {
    let mut scene = Scene::small();
    scene.press("r Enter");
    assert_eq!(
        (scene.effect, scene.model.mode),
        (None, Mode::Browse),
        "there is nothing to apply"
    );
    assert!(scene.model.message.is_some());
    scene.press("g A Tab n n r Enter y");
    assert_eq!(scene.effect, Some(ReviewEffect::Apply));
    let accepted = scene.model.accepted();
    let paths: Vec<String> = accepted.paths.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["/docs/new", "/src/b"]);
    assert_eq!(accepted.hunks.len(), 1);
    assert_eq!(
        (accepted.hunks[0].0.to_string().as_str(), &accepted.hunks[0].1[..]),
        ("/src/a", &[2.into()][..])
    );
    assert_eq!(accepted.summary(), "2 files and 1 hunk");
}

#[test]
fn a_renamed_file_is_applied_with_both_its_paths() {
    let mut scene = Scene::new(&[("new/name", ChangeStatus::Renamed, &[])]);
    let paths: Vec<String> = scene
        .press("a")
        .model
        .accepted()
        .paths
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(paths, ["/new/name", "/old/name"]);
}

#[test]
fn another_size_keeps_the_hunk_in_sight() {
    let long = "+x\n".repeat(500);
    let mut scene = Scene::new(&[("a", ChangeStatus::Modified, &[&long, "-1\n+2", &long])]).sized(200, 50);
    scene.press("Tab n");
    for (width, height) in [(80, 24), (30, 5), (3, 1), (0, 0), (200, 50)] {
        scene = scene.sized(width, height);
        assert_eq!(scene.place(), "/a:2");
        let height = usize::from(scene.model.geometry().diff.height);
        assert!((scene.model.top..scene.model.top + height.max(1)).contains(&scene.model.row));
    }
    scene.press("v");
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
    scene.press("j k n N a r Space u A R Tab a r Space u n N PgDn g G s v o m t b e U Right Left Enter");
    assert_eq!(scene.place(), "-");
}

/// A file with one hunk of three changes.
fn with_changes() -> Scene {
    Scene::new(&[("a", ChangeStatus::Modified, &["-1\n+one\n 2\n-3\n 4\n+5", "-x"])])
}

#[test]
fn a_hunk_is_split_into_its_changes_and_joined_again() {
    let mut scene = with_changes();
    scene.press("Tab s");
    assert_eq!(scene.model.open.as_ref().unwrap().hunks.len(), 4);
    scene.press("r a");
    let numbers: Vec<String> = scene.model.accepted().hunks[0]
        .1
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(numbers, ["1.2"]);
    assert_eq!(scene.place(), "/a:3", "the next change is looked at");
    scene.press("s");
    assert_eq!(
        (scene.place().as_str(), scene.decided().as_str()),
        ("/a:1", "partly")
    );
    scene.press("a");
    let numbers: Vec<String> = scene.model.accepted().hunks[0]
        .1
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(numbers, ["1"], "the whole hunk is decided when it is joined");
    scene.press("s");
    assert!(scene.model.message.as_ref().unwrap().contains("cannot be split"));
}

fn conflict() -> ConflictView {
    ConflictView {
        lines: Vec::new(),
        places: Vec::new(),
        has_more: true,
        can_take_task: true,
        marked: Some(b"both".to_vec()),
        here_digest: "here".into(),
    }
}

/// The second file of three is in conflict.
fn in_conflict() -> Scene {
    let mut scene = Scene::small();
    scene
        .model
        .group(vec![Group::Usual, Group::Conflict, Group::Usual]);
    scene.press("");
    scene.model.open.as_mut().unwrap().conflict = Some(conflict());
    scene
}

#[test]
fn a_conflict_comes_first_and_is_accepted_by_a_choice() {
    let mut scene = in_conflict();
    assert_eq!(scene.model.path().unwrap().to_string(), "/src/a");
    scene.press("a");
    assert_eq!(scene.decided(), "undecided undecided undecided");
    assert!(scene.model.message.as_ref().unwrap().starts_with("it conflicts"));
    scene.press("A");
    assert_eq!(scene.decided(), "accepted undecided accepted");
    scene.press("t");
    assert_eq!(scene.decided(), "accepted accepted accepted");
    let accepted = scene.model.accepted();
    let choices: Vec<(String, &str)> = accepted
        .choices
        .iter()
        .map(|(path, choice)| (path.to_string(), choice.how.name()))
        .collect();
    assert_eq!(choices, [("/src/a".to_owned(), "task")]);
}

#[test]
fn conflicts_that_are_found_late_come_first_unless_the_user_has_begun() {
    let groups = || vec![Group::Usual, Group::Conflict, Group::Usual];
    let mut scene = Scene::small();
    scene.model.group(groups());
    assert_eq!(scene.model.path().unwrap().to_string(), "/src/a");
    let mut scene = Scene::small();
    scene.press("n");
    scene.model.group(groups());
    assert_eq!(scene.model.path().unwrap().to_string(), "/docs/new");
}

#[test]
fn keeping_mine_rejects_the_file_and_an_edit_is_its_text() {
    let mut scene = in_conflict();
    scene.press("m");
    assert_eq!(
        (scene.decided().as_str(), scene.model.choices.len()),
        ("undecided rejected undecided", 0)
    );
    let mut scene = in_conflict();
    assert_eq!(scene.press("e").effect, Some(ReviewEffect::Edit(1)));
    assert_eq!(scene.model.text_to_edit(1).as_deref(), Some(&b"both"[..]));
    scene.model.edited(1, b"mine".to_vec());
    assert_eq!(scene.model.choices[&1].how, How::Edited(b"mine".to_vec()));
    assert_eq!(scene.model.text_to_edit(1).as_deref(), Some(&b"mine"[..]));
    scene.model.reopen(&[1]);
    assert_eq!(
        (scene.decided().as_str(), scene.model.choices.len()),
        ("undecided undecided undecided", 0)
    );
}

/// The second file of three has two conflicts, one in each of its hunks.
fn in_two_conflicts(has_more: bool) -> Scene {
    let mut scene = in_conflict();
    let line = |role, text: &'static str| ConflictLine {
        role,
        text: text.into(),
    };
    let mut open = scene.model.open.take().unwrap();
    open.conflict = Some(ConflictView {
        lines: vec![
            line(LineRole::Title, "conflict 1 of 2"),
            line(LineRole::Here, "mine\n"),
            line(LineRole::Title, "conflict 2 of 2"),
            line(LineRole::Here, "mine\n"),
        ],
        places: vec![1..2, 21..21],
        has_more,
        ..conflict()
    });
    scene.model.show(open);
    scene
}

/// The decision on each conflict of the second file.
fn sides(scene: &Scene) -> Vec<&'static str> {
    let told = |place| {
        let choice = scene.model.choices.get(&1)?;
        choice.how.told(place)
    };
    [0, 1].map(|place| told(place).unwrap_or("open")).to_vec()
}

#[track_caller]
fn check_sides(keys: &str, expected: [&str; 2], decided: &str) {
    let mut scene = in_two_conflicts(true);
    scene.press(keys);
    let decided = format!("undecided {decided} undecided");
    assert_eq!(
        (sides(&scene), scene.decided()),
        (expected.to_vec(), decided),
        "{keys}"
    );
}

#[test]
fn each_conflict_of_a_file_is_decided_by_itself() {
    check_sides("Tab t", ["the task's", "open"], "undecided");
    check_sides("Tab t m", ["the task's", "mine"], "accepted");
    check_sides("Tab n b", ["open", "both"], "undecided");
    check_sides("Tab n b r", ["mine", "both"], "accepted");
    check_sides("Tab t a", ["the task's", "open"], "undecided");
    check_sides("Tab t N u", ["open", "open"], "undecided");
    check_sides("Tab n n t", ["open", "open"], "undecided");
    let mut scene = in_two_conflicts(true);
    scene.press("Tab t");
    assert_eq!(scene.model.place(), Some(1), "the next conflict is looked at");
    let message = scene.model.message.clone().unwrap();
    assert_eq!(message, "1 of 2 conflicts of this file are open");
    assert!(scene.model.take_unkept());
    scene.press("m");
    assert_eq!(scene.place(), "/docs/new:1", "all is decided here");
    let message = scene.model.message.clone().unwrap();
    assert_eq!(message, "all 2 conflicts of /src/a are decided");
}

#[test]
fn in_the_files_all_conflicts_of_a_file_are_decided_at_once() {
    check_sides("t", ["the task's", "the task's"], "accepted");
    check_sides("m", ["mine", "mine"], "accepted");
    let mut scene = in_two_conflicts(false);
    scene.press("m");
    assert_eq!(
        scene.decided(),
        "undecided rejected undecided",
        "nothing of the task is left"
    );
}

#[test]
fn a_hunk_stays_rejected_when_a_conflict_elsewhere_in_the_file_is_decided() {
    let mut scene = in_two_conflicts(true);
    scene.press("Tab n n n Space Space N N N t");
    assert_eq!(sides(&scene), ["the task's", "open"]);
    scene.press("m");
    let accepted = scene.model.accepted();
    assert_eq!(accepted.hunks[0].1, [1.into()]);
    assert_eq!(sides(&scene), ["the task's", "mine"]);
    let mut scene = in_two_conflicts(true);
    scene.press("Tab n n n Space Space N N N t t");
    assert_eq!(
        scene.decided(),
        "undecided accepted undecided",
        "the later decision counts"
    );
}

#[test]
fn decisions_on_single_conflicts_are_kept() {
    let mut scene = in_two_conflicts(true);
    scene.press("Tab t");
    let restored = restore(&scene.model.files, &scene.model.kept());
    assert_eq!(
        (restored.choices, restored.outdated),
        (scene.model.choices.clone(), 0)
    );
}

/// Two hundred files in a directory that is therefore closed, with one file before it and one after.
fn many() -> Scene {
    let names: Vec<String> = (0..200).map(|n| format!("gen/{n:03}")).collect();
    let mut files: Vec<(&str, ChangeStatus, &[&str])> = vec![("a", ChangeStatus::Modified, &["-1"])];
    files.extend(
        names
            .iter()
            .map(|name| (name.as_str(), ChangeStatus::Modified, &["-1"][..])),
    );
    files.push(("z", ChangeStatus::Modified, &["-1"]));
    Scene::new(&files)
}

#[test]
fn a_closed_directory_is_decided_as_one_and_opened_by_keys() {
    let mut scene = many();
    assert_eq!(scene.model.tree.len(), 3);
    scene.press("j a");
    assert_eq!(
        (scene.model.counts().accepted, scene.place().as_str()),
        (200, "/z:1")
    );
    scene.press("k Right");
    assert_eq!(scene.model.tree.len(), 203);
    scene.press("Left");
    assert_eq!(scene.model.tree.len(), 3);
    scene.press("o j o");
    assert_eq!(
        (scene.model.tree.len(), scene.place().as_str()),
        (3, "-"),
        "the directory around is closed"
    );
}

#[test]
fn the_next_hunk_is_found_in_a_closed_directory() {
    let mut scene = many();
    scene.press("n n");
    assert_eq!(
        (scene.place().as_str(), scene.model.tree.len()),
        ("/gen/000:1", 203)
    );
    let mut scene = many();
    scene.press("G n N");
    assert_eq!(scene.place(), "/gen/199:1");
}

#[test]
fn ignored_files_are_decided_only_when_their_group_was_opened() {
    let mut scene = Scene::small();
    scene
        .model
        .group(vec![Group::Usual, Group::Ignored, Group::Ignored]);
    scene.press("A");
    assert_eq!(scene.decided(), "accepted undecided undecided");
    scene.press("G o A");
    assert_eq!(scene.decided(), "accepted accepted accepted");
}
