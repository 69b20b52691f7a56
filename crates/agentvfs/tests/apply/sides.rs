//! Each way in which three sides of a path can differ.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use agentvfs::ErrorCode;
use agentvfs::apply::{ApplyOptions, ChosenPlaces, EditedText, OnConflict, Selection, SideText};
use avfs_core::rules::{Rule, Rules};

use crate::scene::{Scene, conflicts_of, options, path, survey};

fn deeds(scene: &Scene) -> Vec<String> {
    scene
        .plan()
        .files
        .iter()
        .map(|file| format!("{} {}", file.path, file.action.as_str()))
        .collect()
}

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

#[test]
fn files_untouched_by_the_user_get_the_contents_of_the_task() {
    let scene = Scene::new(&[("a", "old"), ("gone", "x"), ("dir/deep/only", "x"), ("same", "s")]);
    scene.task_writes("a", "new");
    scene.task_writes("made/of/it", "fresh");
    scene.task_removes("gone");
    scene.task_removes("dir");
    let expected = [
        "/a replaced",
        "/dir directory-removed",
        "/dir/deep directory-removed",
        "/dir/deep/only removed",
        "/gone removed",
        "/made directory-added",
        "/made/of directory-added",
        "/made/of/it added",
    ];
    assert_eq!(deeds(&scene), expected);
    let applied = scene.apply().unwrap();
    assert_eq!(applied.files.len(), expected.len());
    assert!(applied.kept.is_empty());
    assert_eq!(
        (scene.read("a"), scene.read("made/of/it")),
        ("new".into(), "fresh".into())
    );
    assert!(!scene.has("gone") && !scene.has("dir") && scene.has("same"));
    assert!(
        scene.apply().unwrap().id.is_none(),
        "a second time there is nothing to do"
    );
}

#[test]
fn same_change_on_both_sides_needs_nothing() {
    let scene = Scene::new(&[("a", "old"), ("gone", "x")]);
    scene.task_writes("a", "new");
    scene.task_writes("b", "both");
    scene.task_removes("gone");
    scene.user_writes("a", "new");
    scene.user_writes("b", "both");
    std::fs::remove_file(scene.project.join("gone")).unwrap();
    assert!(scene.plan().is_empty());
}

#[test]
fn lines_that_do_not_touch_are_merged() {
    let scene = Scene::new(&[("a", LINES)]);
    scene.task_writes("a", &LINES.replace("2\n", "two\n"));
    scene.user_writes("a", &LINES.replace("9\n", "nine\n"));
    assert_eq!(deeds(&scene), ["/a merged"]);
    scene.apply().unwrap();
    assert_eq!(
        scene.read("a"),
        LINES.replace("2\n", "two\n").replace("9\n", "nine\n")
    );
}

/// A scene with a conflict of each kind that a user can decide.
fn conflicts() -> Scene {
    let scene = Scene::new(&[
        ("lines", LINES),
        ("binary", "\0a"),
        ("here", "x"),
        ("there", "x"),
        ("fine", "x"),
    ]);
    scene.task_writes("lines", &LINES.replace("5\n", "task\n"));
    scene.user_writes("lines", &LINES.replace("5\n", "user\n"));
    scene.task_writes("binary", "\0task");
    scene.user_writes("binary", "\0user");
    scene.task_writes("here", "task");
    std::fs::remove_file(scene.project.join("here")).unwrap();
    scene.task_removes("there");
    scene.user_writes("there", "user");
    scene.task_writes("both", "task\n");
    scene.user_writes("both", "user\n");
    scene.task_writes("fine", "task");
    scene
}

#[test]
fn a_conflict_stops_everything() {
    let scene = conflicts();
    let before = survey(&scene.project);
    let error = scene.apply().unwrap_err();
    let mut found = conflicts_of(&error);
    found.sort();
    let expected = [
        "/binary contents",
        "/both both-added",
        "/here removed-here",
        "/lines lines",
        "/there removed-there",
    ];
    assert_eq!(found, expected);
    assert_eq!(error.code(), ErrorCode::ApplyConflicts);
    assert_eq!(survey(&scene.project), before);
}

#[test]
fn conflicts_are_decided_for_the_user_or_the_task_or_marked() {
    let scene = conflicts();
    scene.apply_with(OnConflict::Ours).unwrap();
    assert_eq!(
        (scene.read("fine"), scene.read("binary")),
        ("task".into(), "\0user".into())
    );
    assert_eq!(
        (scene.read("both"), scene.read("there")),
        ("user\n".into(), "user".into())
    );
    assert!(!scene.has("here"));

    let scene = conflicts();
    scene.apply_with(OnConflict::Theirs).unwrap();
    assert_eq!(scene.read("lines"), LINES.replace("5\n", "task\n"));
    assert_eq!(
        (scene.read("binary"), scene.read("here")),
        ("\0task".into(), "task".into())
    );
    assert!(!scene.has("there"));

    let scene = conflicts();
    scene.apply_with(OnConflict::Mark).unwrap();
    let marked = LINES.replace("5\n", "<<<<<<< here\nuser\n=======\ntask\n>>>>>>> task\n");
    assert_eq!(scene.read("lines"), marked);
    assert_eq!(
        (scene.read("binary"), scene.read("there")),
        ("\0user".into(), "user".into())
    );
    assert_eq!(scene.read("fine"), "task");
}

/// The numbers from 1 to 40, line by line, with some of them replaced.
fn forty(replaced: &[(u32, &str)]) -> String {
    let line = |n: u32| match replaced.iter().find(|(number, _)| *number == n) {
        Some((_, text)) => format!("{text}\n"),
        None => format!("{n}\n"),
    };
    (1..=40).map(line).collect()
}

/// Both sides changed line 7, and each another line far from it.
fn one_conflict_among_other_changes() -> Scene {
    let scene = Scene::new(&[("long", &forty(&[]))]);
    scene.task_writes("long", &forty(&[(7, "seven"), (20, "zwanzig")]));
    scene.user_writes("long", &forty(&[(7, "sieben"), (35, "MY EDIT")]));
    scene
}

#[test]
fn a_side_is_taken_only_in_the_lines_that_both_changed() {
    for (choice, line_7) in [(OnConflict::Theirs, "seven"), (OnConflict::Ours, "sieben")] {
        let scene = one_conflict_among_other_changes();
        let applied = scene.apply_with(choice).unwrap();
        assert_eq!(
            scene.read("long"),
            forty(&[(7, line_7), (20, "zwanzig"), (35, "MY EDIT")]),
            "{choice:?}"
        );
        assert!(applied.id.is_some());
    }
}

#[test]
fn each_conflict_of_a_text_can_be_decided_by_itself() {
    let scene = Scene::new(&[("long", &forty(&[]))]);
    scene.task_writes("long", &forty(&[(7, "seven"), (20, "zwanzig"), (30, "thirty")]));
    scene.user_writes(
        "long",
        &forty(&[(7, "sieben"), (30, "dreissig"), (35, "MY EDIT")]),
    );
    let sides = scene.plan().sides(&path("long")).unwrap();
    let places: Vec<_> = sides
        .places(0)
        .into_iter()
        .map(|place| place.base_range)
        .collect();
    assert_eq!(places, [6..7, 29..30]);
    let plan = |choices: &[OnConflict]| {
        let chosen = ChosenPlaces {
            places: places.iter().cloned().zip(choices.iter().copied()).collect(),
            here_digest: sides.here_digest.clone(),
        };
        let options = ApplyOptions {
            places: [(path("long"), chosen)].into(),
            ..options()
        };
        scene.plan_with(&Selection::default(), &options).unwrap()
    };
    let open = plan(&[OnConflict::Theirs]);
    assert_eq!(open.conflicts.len(), 1, "the second is not decided");
    let both = [OnConflict::Theirs, OnConflict::Ours];
    scene.user_writes("long", &forty(&[(7, "sieben"), (30, "dreissig"), (35, "OTHER")]));
    assert_eq!(
        plan(&both).conflicts.len(),
        1,
        "it was decided about another text"
    );
    scene.user_writes(
        "long",
        &forty(&[(7, "sieben"), (30, "dreissig"), (35, "MY EDIT")]),
    );
    let id = plan(&both).carry_out().unwrap().id.unwrap();
    let replaced = [(7, "seven"), (20, "zwanzig"), (30, "dreissig"), (35, "MY EDIT")];
    assert_eq!(scene.read("long"), forty(&replaced));
    assert!(
        scene.store.applies().get(id).unwrap().partial,
        "line 30 was left out"
    );
}

#[test]
fn an_edited_text_is_whole_if_it_has_all_that_the_task_did() {
    for (text, partial) in [
        (forty(&[(7, "sieben and seven"), (20, "zwanzig")]), true),
        (forty(&[(7, "seven"), (20, "zwanzig"), (35, "MY EDIT")]), false),
    ] {
        let scene = one_conflict_among_other_changes();
        let here_digest = scene.plan().sides(&path("long")).unwrap().here_digest;
        let edited = EditedText {
            bytes: text.into_bytes(),
            here_digest,
        };
        let options = ApplyOptions {
            edited: [(path("long"), edited)].into(),
            ..options()
        };
        let plan = scene.plan_with(&Selection::default(), &options).unwrap();
        let id = plan.carry_out().unwrap().id.unwrap();
        assert_eq!(scene.store.applies().get(id).unwrap().partial, partial);
    }
}

#[test]
fn the_side_of_the_directory_still_gets_the_mode_of_the_task() {
    let scene = Scene::new(&[("run", LINES)]);
    scene.task_writes("run", &LINES.replace("5\n", "task\n"));
    scene.task_does(|open| open.set_mode(&path("run"), 0o755).unwrap());
    scene.user_writes("run", &LINES.replace("5\n", "user\n"));
    scene.apply_with(OnConflict::Ours).unwrap();
    assert_eq!(scene.read("run"), LINES.replace("5\n", "user\n"));
    let mode = scene.project.join("run").metadata().unwrap().mode();
    assert_eq!(mode & 0o111, 0o111);
}

#[test]
fn an_apply_is_partial_only_if_something_of_the_task_was_left_out() {
    for (choice, partial) in [
        (OnConflict::Theirs, false),
        (OnConflict::Ours, true),
        (OnConflict::Mark, true),
    ] {
        for scene in [conflicts(), one_conflict_among_other_changes()] {
            let id = scene.apply_with(choice).unwrap().id.unwrap();
            let record = scene.store.applies().get(id).unwrap();
            assert_eq!(record.partial, partial, "{choice:?}");
        }
    }
}

#[test]
fn one_path_can_be_decided_by_itself() {
    let scene = conflicts();
    let choices = ["lines", "binary", "here", "there", "both"].map(|name| {
        (
            path(name),
            if name == "binary" {
                OnConflict::Theirs
            } else {
                OnConflict::Ours
            },
        )
    });
    let options = ApplyOptions {
        choices: choices.into(),
        ..ApplyOptions::default()
    };
    scene
        .plan_with(&Selection::default(), &options)
        .unwrap()
        .carry_out()
        .unwrap();
    assert_eq!(
        (scene.read("binary"), scene.read("both")),
        ("\0task".into(), "user\n".into())
    );
}

#[test]
fn modes_are_merged_by_themselves_and_give_no_rights() {
    let scene = Scene::new(&[("run", "x"), ("text", LINES), ("set", "x")]);
    ["run", "set"]
        .iter()
        .for_each(|name| scene.task_does(|open| open.set_mode(&path(name), 0o644).unwrap()));
    let chmod = |name: &str, mode| scene.task_does(|open| open.set_mode(&path(name), mode).unwrap());
    let host = |name: &str, mode| {
        std::fs::set_permissions(scene.project.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |name: &str| scene.project.join(name).metadata().unwrap().mode() & 0o7777;
    chmod("run", 0o755);
    chmod("set", 0o6755);
    scene.task_writes("text", &LINES.replace("2\n", "two\n"));
    host("run", 0o600);
    host("text", 0o640);
    let plan = scene.plan();
    assert_eq!(
        plan.notes
            .iter()
            .map(|note| note.reason.as_str())
            .collect::<Vec<_>>(),
        ["privilege-dropped"]
    );
    plan.carry_out().unwrap();
    assert_eq!((mode("run"), mode("text"), mode("set")), (0o711, 0o640, 0o755));
}

#[test]
fn contents_that_an_apply_brings_are_newer_than_what_was_built_before() {
    let scene = Scene::new(&[("a", "old"), ("moved", "as it is"), ("run", "x")]);
    for name in ["a", "moved", "run"] {
        set_time(&scene.project.join(name), LONG_AGO);
    }
    scene.task_writes("a", "new");
    scene.task_writes("dir/b", "new");
    scene.task_does(|open| {
        open.rename(&path("moved"), &path("dir/moved")).unwrap();
        open.set_mode(&path("run"), 0o755).unwrap();
    });
    let built = scene.project.join("built");
    std::fs::write(&built, "").unwrap();
    let modified = |name: &str| scene.project.join(name).metadata().unwrap().modified().unwrap();
    let id = scene.apply().unwrap().id.unwrap();
    assert!(modified("a") >= modified("built") && modified("dir/b") >= modified("built"));
    assert_eq!((modified("dir/moved"), modified("run")), (long_ago(), long_ago()));
    std::fs::write(&built, "").unwrap();
    let undone = scene.store.undo_apply(id, false).unwrap().id.unwrap();
    assert!(
        modified("a") >= modified("built"),
        "what comes back is to be built again"
    );
    assert_eq!((modified("moved"), modified("run")), (long_ago(), long_ago()));
    set_time(&scene.project.join("a"), LONG_AGO);
    std::fs::write(&built, "").unwrap();
    scene.store.undo_apply(undone, false).unwrap();
    assert!(modified("a") >= modified("built") && modified("dir/b") >= modified("built"));
}

const LONG_AGO: u64 = 1_000_000_000;

fn long_ago() -> std::time::SystemTime {
    std::time::UNIX_EPOCH + std::time::Duration::from_secs(LONG_AGO)
}

fn set_time(file: &std::path::Path, seconds: u64) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    std::fs::File::options()
        .write(true)
        .open(file)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

#[test]
fn kinds_change_where_nothing_of_the_users_is_lost() {
    let scene = Scene::new(&[("file", "x"), ("dir/a", "x"), ("used/a", "x"), ("link", "x")]);
    scene.task_does(|open| {
        open.remove(&path("file"), true).unwrap();
        open.make_directory(&path("file"), true).unwrap();
        open.write_bytes(&path("file/below"), b"new").unwrap();
        open.remove(&path("dir"), true).unwrap();
        open.write_bytes(&path("dir"), b"now a file").unwrap();
        open.remove(&path("link"), true).unwrap();
        open.symlink(b"file/below", &path("link")).unwrap();
    });
    scene.apply().unwrap();
    assert_eq!(
        (scene.read("file/below"), scene.read("dir"), scene.read("link")),
        ("new".into(), "now a file".into(), "new".into())
    );

    scene.task_does(|open| {
        open.remove(&path("used"), true).unwrap();
        open.write_bytes(&path("used"), b"now a file").unwrap();
    });
    scene.user_writes("used/mine", "precious");
    assert_eq!(
        conflicts_of(&scene.apply().unwrap_err()),
        ["/used directory-in-use"]
    );
    assert_eq!(scene.read("used/mine"), "precious");
}

#[test]
fn a_directory_in_the_place_of_a_file_has_the_mode_of_the_task() {
    let scene = Scene::new(&[("kind", "a file")]);
    scene.task_does(|open| {
        open.remove(&path("kind"), true).unwrap();
        open.make_directory(&path("kind"), true).unwrap();
        open.set_mode(&path("kind"), 0o600).unwrap();
    });
    let id = scene.apply().unwrap().id.unwrap();
    assert_eq!(
        scene.project.join("kind").metadata().unwrap().mode() & 0o7777,
        0o600
    );
    scene.store.undo_apply(id, false).unwrap();
    assert_eq!(scene.read("kind"), "a file");
}

#[test]
fn a_directory_with_other_files_stays() {
    let scene = Scene::new(&[("dir/a", "x")]);
    scene.task_removes("dir");
    scene.user_writes("dir/mine", "precious");
    let plan = scene.plan();
    assert_eq!(
        plan.notes
            .iter()
            .map(|note| note.reason.as_str())
            .collect::<Vec<_>>(),
        ["directory-kept"]
    );
    plan.carry_out().unwrap();
    assert!(!scene.has("dir/a") && scene.has("dir/mine"));
}

#[test]
fn a_directory_with_files_that_the_task_did_not_see_stays_and_says_why() {
    let scene = Scene::new(&[("conf/a", "x"), ("conf/deep/key", "secret"), ("conf/deep/b", "x")]);
    let rules = ["**=write", "/conf/deep/key=none"].map(|text| Rule::parse(text).unwrap());
    let rules = Some(Rules::new(rules.into()).unwrap());
    scene.task_does(|open| {
        ["conf/a", "conf/deep/b"]
            .iter()
            .for_each(|name| open.remove(&path(name), true).unwrap());
        open.remove(&path("conf"), true).unwrap();
    });
    let options = ApplyOptions { rules, ..options() };
    let plan = scene.plan_with(&Selection::default(), &options).unwrap();
    let notes: Vec<String> = plan.notes.iter().map(ToString::to_string).collect();
    let expected = "kept: files in it were hidden from the task";
    assert_eq!(
        notes,
        [format!("/conf: {expected}"), format!("/conf/deep: {expected}")]
    );
    plan.carry_out().unwrap();
    assert_eq!(
        (scene.read("conf/deep/key"), scene.has("conf/a")),
        ("secret".into(), false)
    );
}

#[test]
fn nothing_is_reached_through_a_link_and_links_outside_are_pointed_out() {
    let scene = Scene::new(&[("dir/a", "x")]);
    let outside = scene.place().join("outside");
    std::fs::create_dir(&outside).unwrap();
    scene.task_writes("dir/b", "new");
    scene.task_does(|open| open.symlink(b"../../etc", &path("out")).unwrap());
    std::fs::remove_dir_all(scene.project.join("dir")).unwrap();
    symlink(&outside, scene.project.join("dir")).unwrap();
    let error = scene.apply().unwrap_err();
    assert_eq!(conflicts_of(&error), ["/dir/b no-way"]);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    let notes = scene.plan().notes;
    assert_eq!(
        notes.iter().map(|note| note.reason.as_str()).collect::<Vec<_>>(),
        ["leads-outside"]
    );
}

#[test]
fn a_repository_is_never_applied() {
    let scene = Scene::new(&[(".git/config", "mine"), ("a", "x")]);
    scene.task_writes(".git/config", "[core]\nfsmonitor = evil\n");
    scene.task_writes(".git/hooks/pre-commit", "evil");
    scene.task_writes("sub/.Git", "gitdir: elsewhere");
    scene.task_writes("a", "new");
    let plan = scene.plan();
    let notes: Vec<String> = plan
        .notes
        .iter()
        .map(|note| format!("{} {}", note.path, note.reason.as_str()))
        .collect();
    assert_eq!(notes, ["/.git git", "/sub/.Git git"]);
    plan.carry_out().unwrap();
    assert_eq!(
        (scene.read(".git/config"), scene.read("a")),
        ("mine".into(), "new".into())
    );
    assert!(!scene.has(".git/hooks") && !scene.has("sub/.Git"));
}

#[test]
fn files_hidden_from_the_task_are_not_applied() {
    let scene = Scene::new(&[("secret/key", "mine"), ("a", "x")]);
    scene.task_removes("secret");
    scene.task_writes("a", "new");
    let rules = ["**=write", "/secret/**=none"].map(|text| Rule::parse(text).unwrap());
    let options = ApplyOptions {
        rules: Some(Rules::new(rules.into()).unwrap()),
        ..ApplyOptions::default()
    };
    scene
        .plan_with(&Selection::default(), &options)
        .unwrap()
        .carry_out()
        .unwrap();
    assert_eq!(
        (scene.read("secret/key"), scene.read("a")),
        ("mine".into(), "new".into())
    );
}

#[test]
fn files_that_the_host_runs_are_pointed_out() {
    let scene = Scene::new(&[("package.json", "{}"), ("tool", "x")]);
    scene.task_writes("package.json", "{\"scripts\": {}}");
    scene.task_writes(".pre-commit-config.yaml", "repos: []");
    scene.task_does(|open| open.set_mode(&path("tool"), 0o755).unwrap());
    scene.task_writes("harmless", "x");
    let pointed: Vec<String> = scene
        .plan()
        .pointed
        .iter()
        .map(|file| file.path.to_string())
        .collect();
    assert_eq!(pointed, ["/.pre-commit-config.yaml", "/package.json", "/tool"]);
}

#[test]
fn some_paths_or_some_hunks_are_applied_alone() {
    let text: String = (1..=40).map(|n| format!("{n}\n")).collect();
    let scene = Scene::new(&[("src/a", &text), ("b", "x")]);
    scene.task_writes(
        "src/a",
        &text.replace("\n3\n", "\nthree\n").replace("\n30\n", "\nthirty\n"),
    );
    scene.task_writes("src/new/c", "c");
    scene.task_writes("b", "y");
    let options = ApplyOptions::default();
    let hunks = Selection {
        hunks: [(path("src/a"), [2.into()].into())].into(),
        ..Selection::default()
    };
    scene.plan_with(&hunks, &options).unwrap().carry_out().unwrap();
    assert_eq!(scene.read("src/a"), text.replace("\n30\n", "\nthirty\n"));
    assert_eq!(scene.read("b"), "x");
    let paths = Selection {
        paths: vec![path("src")],
        ..Selection::default()
    };
    scene.plan_with(&paths, &options).unwrap().carry_out().unwrap();
    assert_eq!(
        scene.read("src/a"),
        text.replace("\n3\n", "\nthree\n").replace("\n30\n", "\nthirty\n")
    );
    assert_eq!(
        (scene.read("src/new/c"), scene.read("b")),
        ("c".into(), "x".into())
    );
    let missing = Selection {
        paths: vec![path("nowhere")],
        ..Selection::default()
    };
    assert_eq!(
        scene
            .plan_with(&missing, &options)
            .err()
            .map(|error| error.code()),
        Some(ErrorCode::NotChanged)
    );
    let bad = Selection {
        hunks: [(path("b"), [7.into()].into())].into(),
        ..Selection::default()
    };
    assert_eq!(
        scene.plan_with(&bad, &options).err().map(|error| error.code()),
        Some(ErrorCode::BadHunks)
    );
}

#[test]
fn hunks_that_are_applied_already_leave_nothing_to_do() {
    let text: String = (1..=40).map(|n| format!("{n}\n")).collect();
    let scene = Scene::new(&[("a", &text)]);
    scene.task_writes(
        "a",
        &text.replace("\n3\n", "\nthree\n").replace("\n30\n", "\nthirty\n"),
    );
    let options = ApplyOptions::default();
    scene
        .plan_with(&Selection::default(), &options)
        .unwrap()
        .carry_out()
        .unwrap();
    let before = survey(&scene.project);
    for number in [1, 2] {
        let hunk = Selection {
            hunks: [(path("a"), [number.into()].into())].into(),
            ..Selection::default()
        };
        let plan = scene.plan_with(&hunk, &options).unwrap();
        assert!(plan.is_empty() && plan.conflicts.is_empty(), "{:?}", plan.files);
        assert_eq!(plan.carry_out().unwrap().id, None);
    }
    assert_eq!(survey(&scene.project), before);
}

#[test]
fn looking_changes_nothing() {
    let scene = conflicts();
    let before = (survey(&scene.project), survey(&scene.place().join("store")).len());
    drop(scene.plan());
    assert_eq!(
        (survey(&scene.project), survey(&scene.place().join("store")).len()),
        before
    );
}

#[test]
fn changes_of_a_store_in_memory_are_applied_and_undone() {
    let scene = Scene::new(&[]);
    let store = agentvfs::Store::in_memory();
    let vault = store
        .create_vault(&agentvfs::VaultName::new("v").unwrap())
        .unwrap();
    let base = vault.head().unwrap();
    let open = vault.begin().unwrap();
    open.write_bytes(&path("a"), b"x").unwrap();
    open.commit("write", "").unwrap();
    let plan = agentvfs::apply::Application::plan(
        &store,
        base,
        vault.head().unwrap(),
        &scene.project,
        &Selection::default(),
        &ApplyOptions::default(),
    );
    let applied = plan.unwrap().carry_out().unwrap();
    assert_eq!(std::fs::read(scene.project.join("a")).unwrap(), b"x");
    store.undo_apply(applied.id.unwrap(), false).unwrap();
    assert!(!scene.project.join("a").exists());
}

#[test]
fn the_sides_of_a_conflict_can_be_looked_at() {
    let scene = Scene::new(&[("a", LINES), ("gone", "old\n")]);
    scene.task_writes("a", &LINES.replace("2\n", "task\n"));
    scene.user_writes("a", &LINES.replace("2\n", "user\n"));
    scene.task_removes("gone");
    scene.user_writes("gone", "new\n");
    let plan = scene.plan();
    let sides = plan.sides(&path("a")).unwrap();
    let places = sides.places(1);
    let text = |lines: &[bytes::Bytes]| String::from_utf8(lines.concat()).unwrap();
    let seen: Vec<[String; 5]> = places
        .iter()
        .map(|place| {
            [&place.before, &place.here, &place.base, &place.task, &place.after].map(|part| text(part))
        })
        .collect();
    assert_eq!(
        seen,
        [["1\n", "user\n", "2\n", "task\n", "3\n"].map(String::from)]
    );
    assert_eq!(places[0].line, 2);
    let marked = String::from_utf8(sides.marked.unwrap()).unwrap();
    assert!(
        marked.contains("user\n||||||| base\n2\n=======\ntask\n>>>>>>> "),
        "{marked}"
    );
    let gone = plan.sides(&path("gone")).unwrap();
    assert_eq!(
        (gone.task, gone.here),
        (SideText::Nothing, SideText::Text("new\n".into()))
    );
}

#[test]
fn an_edited_text_holds_for_what_was_here_when_it_was_edited() {
    let scene = Scene::new(&[("a", LINES)]);
    scene.task_writes("a", &LINES.replace("2\n", "task\n"));
    scene.user_writes("a", &LINES.replace("2\n", "user\n"));
    let here_digest = scene.plan().sides(&path("a")).unwrap().here_digest;
    let edited = EditedText {
        bytes: b"mine\n".to_vec(),
        here_digest,
    };
    let options = ApplyOptions {
        edited: [(path("a"), edited)].into(),
        ..options()
    };
    let plan = || scene.plan_with(&Selection::default(), &options).unwrap();
    scene.user_writes("a", &LINES.replace("2\n", "user again\n"));
    assert_eq!(plan().conflicts.len(), 1, "it was made of another text");
    scene.user_writes("a", &LINES.replace("2\n", "user\n"));
    plan().carry_out().unwrap();
    assert_eq!(scene.read("a"), "mine\n");
}
