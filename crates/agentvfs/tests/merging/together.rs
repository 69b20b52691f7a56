//! Independent changes of two sides are combined.

use crate::support::{change, path, read, write};
use crate::{clean, exists, make, mode_of, pair};

const LINES: &str = "1\n2\n3\n4\n5\n";

#[test]
fn lines_of_one_file_come_together() {
    let (main, fork) = pair(|open| make(open, "/f", LINES));
    write(&main, "/f", LINES.replace('1', "one"));
    write(&fork, "/f", LINES.replace('5', "five"));
    clean(&main, &fork);
    assert_eq!(read(&main, "/f").unwrap(), "one\n2\n3\n4\nfive\n");
}

#[test]
fn contents_and_modes_merge_each_by_itself() {
    let (main, fork) = pair(|open| make(open, "/f", LINES));
    write(&main, "/f", "new\n");
    change(&fork, |open| open.set_mode(&path("/f"), 0o700).unwrap());
    clean(&main, &fork);
    assert_eq!(
        (read(&main, "/f").unwrap().as_str(), mode_of(&main, "/f")),
        ("new\n", 0o700)
    );
}

#[test]
fn an_edit_follows_a_file_that_the_other_side_moved() {
    for edit_in_main in [true, false] {
        let (main, fork) = pair(|open| make(open, "/d/f", LINES));
        let (editor, mover) = if edit_in_main {
            (&main, &fork)
        } else {
            (&fork, &main)
        };
        write(editor, "/d/f", LINES.replace('1', "one"));
        change(mover, |open| {
            make(open, "/e/unrelated", "x");
            open.rename(&path("/d/f"), &path("/e/g")).unwrap();
        });
        clean(&main, &fork);
        assert_eq!(
            read(&main, "/e/g").unwrap(),
            "one\n2\n3\n4\n5\n",
            "{edit_in_main}"
        );
        assert!(!exists(&main, "/d/f"));
    }
}

#[test]
fn edits_follow_into_a_directory_that_was_moved() {
    let (main, fork) = pair(|open| {
        make(open, "/d/a", LINES);
        make(open, "/d/b", "same in both");
    });
    write(&main, "/d/a", LINES.replace('1', "one"));
    change(&fork, |open| drop(open.rename(&path("/d"), &path("/e")).unwrap()));
    clean(&main, &fork);
    assert_eq!(read(&main, "/e/a").unwrap(), "one\n2\n3\n4\n5\n");
    assert_eq!(read(&main, "/e/b").unwrap(), "same in both");
    assert!(!exists(&main, "/d"));
}

#[test]
fn a_file_keeps_its_number_when_it_is_moved_by_a_merge() {
    let (main, fork) = pair(|open| make(open, "/f", LINES));
    let ino = |at: &str| main.begin().unwrap().stat(&path(at)).unwrap().ino;
    let before = ino("/f");
    write(&main, "/other", "x");
    change(&fork, |open| drop(open.rename(&path("/f"), &path("/g")).unwrap()));
    clean(&main, &fork);
    assert_eq!(ino("/g"), before);
}

#[test]
fn file_removed_and_recreated_with_the_same_contents_counts_as_moved() {
    let (main, fork) = pair(|open| make(open, "/f", LINES));
    write(&main, "/f", LINES.replace('1', "one"));
    change(&fork, |open| {
        make(open, "/g", LINES);
        open.remove(&path("/f"), false).unwrap();
    });
    clean(&main, &fork);
    assert_eq!(read(&main, "/g").unwrap(), "one\n2\n3\n4\n5\n");
}

#[test]
fn a_directory_stays_as_long_as_something_in_it_does() {
    let (main, fork) = pair(|open| make(open, "/d/old", "x"));
    write(&main, "/d/new", "mine");
    change(&fork, |open| open.remove(&path("/d"), true).unwrap());
    clean(&main, &fork);
    assert!(exists(&main, "/d/new") && !exists(&main, "/d/old"));

    let (main, fork) = pair(|open| make(open, "/d/e/old", "x"));
    change(&main, |open| open.remove(&path("/d"), true).unwrap());
    write(&fork, "/d/e/new", "theirs");
    clean(&main, &fork);
    assert!(exists(&main, "/d/e/new") && !exists(&main, "/d/e/old"));
}

#[test]
fn a_directory_and_a_file_change_places() {
    let (main, fork) = pair(|open| {
        make(open, "/d/inside", "x");
        make(open, "/f", "file");
    });
    write(&main, "/other", "x");
    change(&fork, |open| {
        open.remove(&path("/d"), true).unwrap();
        open.rename(&path("/f"), &path("/d")).unwrap();
        make(open, "/f/inside", "y");
    });
    clean(&main, &fork);
    assert_eq!(
        (read(&main, "/d").unwrap(), read(&main, "/f/inside").unwrap()),
        ("file".into(), "y".into())
    );
}

#[test]
fn the_same_change_on_both_sides_is_no_conflict() {
    let (main, fork) = pair(|open| make(open, "/f", LINES));
    for vault in [&main, &fork] {
        change(vault, |open| {
            make(open, "/f", "changed\n");
            make(open, "/new", "new\n");
            open.symlink(b"f", &path("/link")).unwrap();
        });
    }
    clean(&main, &fork);
    assert_eq!(read(&main, "/f").unwrap(), "changed\n");
}

#[test]
fn a_file_with_several_names_merges_as_one() {
    let (main, fork) = pair(|open| {
        make(open, "/a", LINES);
        open.hard_link(&path("/a"), &path("/b")).unwrap();
    });
    write(&main, "/a", LINES.replace('1', "one"));
    write(&fork, "/b", LINES.replace('5', "five"));
    clean(&main, &fork);
    for at in ["/a", "/b"] {
        assert_eq!(read(&main, at).unwrap(), "one\n2\n3\n4\nfive\n");
        assert_eq!(main.begin().unwrap().stat(&path(at)).unwrap().names, 2);
    }
}

#[test]
fn an_edit_of_a_file_that_was_moved_does_not_reach_a_name_that_the_other_side_gave_it() {
    let (main, fork) = pair(|open| make(open, "/a", LINES));
    change(&main, |open| open.hard_link(&path("/a"), &path("/b")).unwrap());
    change(&fork, |open| {
        open.rename_no_replace(&path("/a"), &path("/moved")).unwrap();
        open.write_bytes(&path("/moved"), b"").unwrap();
    });
    clean(&main, &fork);
    let open = main.begin().unwrap();
    assert_eq!(open.read(&path("/moved")).unwrap(), b""[..]);
    assert_eq!(open.read(&path("/b")).unwrap(), LINES.as_bytes());
}

#[test]
fn a_new_name_of_a_file_comes_as_a_name_and_not_as_a_copy() {
    let (main, fork) = pair(|open| make(open, "/a", LINES));
    write(&main, "/other", "x");
    change(&fork, |open| open.hard_link(&path("/a"), &path("/b")).unwrap());
    clean(&main, &fork);
    let open = main.begin().unwrap();
    assert_eq!(
        open.stat(&path("/a")).unwrap().ino,
        open.stat(&path("/b")).unwrap().ino
    );
}
