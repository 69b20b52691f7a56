//! Conflicts: the tree meanwhile, their persistence, and their resolution.

use agentvfs::MergeConflictKind::{Attributes, Binary, Kinds, Moved, RemovedByThem, RemovedByUs, Text};
use agentvfs::error::{MergeError, RulesError};
use agentvfs::rules::{Rule, Rules};
use agentvfs::{ConflictPolicy, Error, MergeConflictKind, MergeOptions, OpenVault, Resolution, Store, Vault};

use crate::support::{change, name, path, read, write};
use crate::{clean, exists, kinds, make, merge, mode_of, pair};

const MARKED: &str = "<<<<<<< main\nours\n=======\ntheirs\n>>>>>>> fork\n";

/// A vault that has merged a fork which changed the same line.
fn torn() -> (Vault, Vault) {
    let (main, fork) = pair(|open| make(open, "/f", "base\n"));
    write(&main, "/f", "ours\n");
    write(&fork, "/f", "theirs\n");
    merge(&main, &fork);
    (main, fork)
}

#[test]
fn lines_that_both_changed_are_marked() {
    let (main, _) = torn();
    assert_eq!(read(&main, "/f").unwrap(), MARKED);
    let open = main.conflicts().unwrap();
    assert_eq!(
        (open.len(), open[0].conflict.kind, open[0].from.as_str()),
        (1, Text, "fork")
    );
    assert_eq!(main.info().unwrap().conflicts, 1);
}

#[track_caller]
fn check(
    base: impl FnOnce(&OpenVault),
    ours: impl FnOnce(&OpenVault),
    theirs: impl FnOnce(&OpenVault),
    expected: &[(&str, MergeConflictKind)],
) -> Vault {
    let (main, fork) = pair(base);
    change(&main, ours);
    change(&fork, theirs);
    let expected: Vec<_> = expected
        .iter()
        .map(|(at, kind)| ((*at).to_owned(), *kind))
        .collect();
    assert_eq!(kinds(&merge(&main, &fork)), expected);
    main
}

fn remove(open: &OpenVault, at: &str) {
    open.remove(&path(at), true).unwrap();
}

fn rename(open: &OpenVault, from: &str, to: &str) {
    open.rename(&path(from), &path(to)).unwrap();
}

#[test]
fn different_changes_of_both_sides_conflict_and_lose_nothing() {
    let base = |open: &OpenVault| make(open, "/f", "base\n");
    let main = check(
        base,
        |o| remove(o, "/f"),
        |o| make(o, "/f", "x\n"),
        &[("/f", RemovedByUs)],
    );
    assert_eq!(read(&main, "/f").unwrap(), "x\n");
    let main = check(
        base,
        |o| make(o, "/f", "x\n"),
        |o| remove(o, "/f"),
        &[("/f", RemovedByThem)],
    );
    assert_eq!(read(&main, "/f").unwrap(), "x\n");
    let main = check(
        base,
        |o| remove(o, "/f"),
        |o| rename(o, "/f", "/g"),
        &[("/g", RemovedByUs)],
    );
    assert!(exists(&main, "/g"));
    let main = check(
        base,
        |o| rename(o, "/f", "/g"),
        |o| remove(o, "/f"),
        &[("/g", RemovedByThem)],
    );
    assert!(exists(&main, "/g"));
    let main = check(
        base,
        |o| make(o, "/f", "\0a"),
        |o| make(o, "/f", "\0b"),
        &[("/f", Binary)],
    );
    assert_eq!(read(&main, "/f").unwrap(), "\0a");
    let mode = |mode| move |open: &OpenVault| open.set_mode(&path("/f"), mode).unwrap();
    let main = check(base, mode(0o600), mode(0o755), &[("/f", Attributes)]);
    assert_eq!(mode_of(&main, "/f"), 0o600);
    check(
        base,
        |o| make(o, "/n", "1\n"),
        |o| make(o, "/n", "2\n"),
        &[("/n", Text)],
    );
}

#[test]
fn a_file_that_both_moved_stays_where_we_have_it() {
    let base = |open: &OpenVault| make(open, "/f", "1\n2\n3\n4\n");
    let ours = |open: &OpenVault| {
        make(open, "/f", "one\n2\n3\n4\n");
        rename(open, "/f", "/ours");
    };
    let theirs = |open: &OpenVault| {
        make(open, "/f", "1\n2\n3\nfour\n");
        rename(open, "/f", "/theirs");
    };
    let main = check(base, ours, theirs, &[("/ours", Moved)]);
    assert_eq!(read(&main, "/ours").unwrap(), "one\n2\n3\nfour\n");
    assert!(!exists(&main, "/theirs"));
    main.resolve(&path("/ours"), &Resolution::Theirs).unwrap();
    assert_eq!(read(&main, "/theirs").unwrap(), "one\n2\n3\nfour\n");
    assert!(!exists(&main, "/ours") && main.conflicts().unwrap().is_empty());
}

#[test]
fn a_file_and_a_directory_are_one_conflict_whatever_is_below() {
    let file = |open: &OpenVault| {
        remove(open, "/d");
        make(open, "/d", "a file");
    };
    let inside = |open: &OpenVault| {
        make(open, "/d/new", "x");
        make(open, "/d/e/new", "y");
    };
    let base = |open: &OpenVault| make(open, "/d/e/f", "x");
    let main = check(base, inside, file, &[("/d", Kinds)]);
    assert!(exists(&main, "/d/new") && exists(&main, "/d/e/f"));
    main.resolve(&path("/d"), &Resolution::Theirs).unwrap();
    assert_eq!(read(&main, "/d").unwrap(), "a file");
    let main = check(base, file, inside, &[("/d", Kinds)]);
    assert_eq!(read(&main, "/d").unwrap(), "a file");
    main.resolve(&path("/d"), &Resolution::Theirs).unwrap();
    assert!(exists(&main, "/d/new") && exists(&main, "/d/e/new"));
}

#[test]
fn directory_in_conflict_keeps_its_linked_files_on_either_side() {
    let file = |open: &OpenVault| {
        remove(open, "/d");
        make(open, "/d", "a file");
    };
    let linked = |open: &OpenVault| {
        make(open, "/d/one", "both");
        open.make_directory(&path("/d/deep"), true).unwrap();
        open.hard_link(&path("/d/one"), &path("/d/deep/two")).unwrap();
        open.hard_link(&path("/f"), &path("/d/outside")).unwrap();
    };
    let base = |open: &OpenVault| {
        make(open, "/f", "of the tree");
        make(open, "/d/e", "x");
        open.hard_link(&path("/d/e"), &path("/d/f")).unwrap();
    };
    let is_linked = |vault: &Vault, one: &str, other: &str| {
        let open = vault.begin().unwrap();
        open.stat(&path(one)).unwrap().ino == open.stat(&path(other)).unwrap().ino
    };
    let check_linked = |main: &Vault, resolution: &Resolution| {
        main.resolve(&path("/d"), resolution).unwrap();
        assert_eq!(read(main, "/d/one").unwrap(), "both");
        assert_eq!(read(main, "/d/outside").unwrap(), "of the tree");
        assert!(is_linked(main, "/d/one", "/d/deep/two") && is_linked(main, "/d/e", "/d/f"));
        write(main, "/d/one", "changed");
        assert_eq!(read(main, "/d/deep/two").unwrap(), "changed");
    };
    check_linked(&check(base, file, linked, &[("/d", Kinds)]), &Resolution::Theirs);
    check_linked(&check(base, linked, file, &[("/d", Kinds)]), &Resolution::Ours);
    let main = check(base, linked, file, &[("/d", Kinds)]);
    let fork = main.fork(&[name("later")]).unwrap().remove(0);
    main.delete(true).unwrap();
    fork.resolve(&path("/d"), &Resolution::Base).unwrap();
    assert!(is_linked(&fork, "/d/e", "/d/f") && !exists(&fork, "/d/one"));
    assert_eq!(
        fork.store().integrity().check(&mut |_, _| ()).unwrap().problems,
        [] as [String; 0]
    );
}

#[test]
fn conflicts_can_be_decided_beforehand() {
    for (choice, expected) in [
        (ConflictPolicy::Ours, "A\n2\nX\n"),
        (ConflictPolicy::Theirs, "B\n2\nX\n"),
    ] {
        let (main, fork) = pair(|open| make(open, "/f", "1\n2\n3\n"));
        write(&main, "/f", "A\n2\n3\n");
        write(&fork, "/f", "B\n2\nX\n");
        let options = MergeOptions {
            conflicts: choice,
            ..MergeOptions::default()
        };
        assert_eq!(main.merge(&[&fork], &options).unwrap().conflicts, []);
        assert_eq!(read(&main, "/f").unwrap(), expected);
        assert_eq!(merge(&main, &fork).saved, None, "it is merged");
    }
}

#[test]
fn a_dry_run_tells_and_changes_nothing() {
    let (main, fork) = pair(|open| make(open, "/f", "base\n"));
    write(&main, "/f", "ours\n");
    write(&fork, "/f", "theirs\n");
    let before = (main.head().unwrap(), main.history().entries(None, 10).unwrap());
    let report = main
        .merge(
            &[&fork],
            &MergeOptions {
                dry_run: true,
                ..MergeOptions::default()
            },
        )
        .unwrap();
    assert_eq!(kinds(&report), [("/f".to_owned(), Text)]);
    assert_eq!(
        (main.head().unwrap(), main.history().entries(None, 10).unwrap()),
        before
    );
    assert!(main.conflicts().unwrap().is_empty());
}

#[test]
fn each_resolution_is_what_the_path_becomes() {
    let bytes = Resolution::Bytes(b"by hand\n".to_vec());
    let cases = [
        (Resolution::Ours, "ours\n"),
        (Resolution::Theirs, "theirs\n"),
        (Resolution::Base, "base\n"),
        (bytes, "by hand\n"),
        (Resolution::AsIs, MARKED),
    ];
    for (resolution, expected) in cases {
        let (main, _) = torn();
        main.resolve(&path("/f"), &resolution).unwrap();
        assert_eq!(read(&main, "/f").unwrap(), expected);
        assert!(main.conflicts().unwrap().is_empty());
        let again = main.resolve(&path("/f"), &resolution);
        assert!(
            matches!(again, Err(Error::Merge(MergeError::NoConflict { .. }))),
            "{again:?}"
        );
    }
}

/// The numbers from 1 to 40, line by line, with some of them replaced.
fn forty(replaced: &[(u32, &str)]) -> String {
    let line = |n: u32| match replaced.iter().find(|(number, _)| *number == n) {
        Some((_, text)) => format!("{text}\n"),
        None => format!("{n}\n"),
    };
    (1..=40).map(line).collect()
}

#[test]
fn a_side_is_taken_only_in_the_lines_that_both_changed() {
    for (resolution, line_7) in [(Resolution::Ours, "ours"), (Resolution::Theirs, "theirs")] {
        for is_edited_meanwhile in [false, true] {
            let (main, fork) = pair(|open| make(open, "/f", &forty(&[])));
            write(&main, "/f", forty(&[(7, "ours"), (20, "of ours")]));
            write(&fork, "/f", forty(&[(7, "theirs"), (35, "of theirs")]));
            merge(&main, &fork);
            let mut replaced = vec![(7, line_7), (20, "of ours"), (35, "of theirs")];
            if is_edited_meanwhile {
                let marked = read(&main, "/f").unwrap();
                write(&main, "/f", marked.replace("\n30\n", "\nsince the merge\n"));
                replaced.push((30, "since the merge"));
            }
            main.resolve(&path("/f"), &resolution).unwrap();
            assert_eq!(read(&main, "/f").unwrap(), forty(&replaced));
            assert!(main.conflicts().unwrap().is_empty());
        }
    }
}

#[test]
fn a_removal_is_resolved_to_nothing_or_to_what_was_changed() {
    let scene = || {
        let (main, fork) = pair(|open| make(open, "/d/f", "base\n"));
        change(&main, |open| remove(open, "/d"));
        write(&fork, "/d/f", "theirs\n");
        assert_eq!(kinds(&merge(&main, &fork)), [("/d/f".to_owned(), RemovedByUs)]);
        main
    };
    let main = scene();
    main.resolve(&path("/d/f"), &Resolution::Ours).unwrap();
    assert!(!exists(&main, "/d/f"));
    let main = scene();
    main.resolve(&path("/d/f"), &Resolution::Theirs).unwrap();
    assert_eq!(read(&main, "/d/f").unwrap(), "theirs\n");
}

#[test]
fn undo_reverts_a_merge_and_a_resolution_with_their_conflicts() {
    let (main, fork) = torn();
    main.resolve(&path("/f"), &Resolution::Theirs).unwrap();
    main.undo().unwrap();
    assert_eq!(
        (
            read(&main, "/f").unwrap().as_str(),
            main.conflicts().unwrap().len()
        ),
        (MARKED, 1)
    );
    main.undo().unwrap();
    assert_eq!(
        (
            read(&main, "/f").unwrap().as_str(),
            main.conflicts().unwrap().len()
        ),
        ("ours\n", 0)
    );
    assert_eq!(
        kinds(&merge(&main, &fork)),
        [("/f".to_owned(), Text)],
        "an undone action can be redone"
    );
}

#[test]
fn conflicts_go_along_with_forks_and_survive_garbage_collection_and_other_changes() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(place.path()).unwrap();
    let main = store.create_vault(&name("main")).unwrap();
    write(&main, "/f", "base\n");
    let fork = main.fork(&[name("fork")]).unwrap().remove(0);
    write(&main, "/f", "ours\n");
    write(&fork, "/f", "theirs\n");
    merge(&main, &fork);
    fork.delete(true).unwrap();
    write(&main, "/other", "x");
    let copy = main.fork(&[name("copy")]).unwrap().remove(0);
    store.collect_garbage(&mut |_| true).unwrap();
    drop(store);
    for vault in [&main, &copy] {
        assert_eq!(vault.conflicts().unwrap().len(), 1);
        vault.resolve(&path("/f"), &Resolution::Base).unwrap();
        assert_eq!(read(vault, "/f").unwrap(), "base\n");
    }
}

#[test]
fn a_second_merge_brings_only_what_is_new_and_finds_no_old_conflict_again() {
    let (main, fork) = torn();
    main.resolve(&path("/f"), &Resolution::Ours).unwrap();
    assert_eq!(merge(&main, &fork).saved, None);
    write(&fork, "/new", "x");
    let report = clean(&main, &fork);
    assert_eq!(
        (report.sources[0].changed, read(&main, "/f").unwrap().as_str()),
        (2, "ours\n")
    );
}

#[test]
fn nothing_is_merged_into_what_is_seen_through_rules() {
    let (main, fork) = pair(|open| make(open, "/f", "base\n"));
    write(&fork, "/f", "x\n");
    let rules = Rules::new(vec![Rule::parse("/=read").unwrap()]).unwrap();
    let merged = main.through(rules).merge(&[&fork], &MergeOptions::default());
    assert!(matches!(merged, Err(Error::Rules(RulesError::WholeVault { .. }))));
    assert_eq!(read(&main, "/f").unwrap(), "base\n");
}
