//! Policies and views.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::{BTreeMap, BTreeSet};

use avfs_vfs::{NodePolicy, Vfs, VfsError, VisibilityView};

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn classified(word: &str) -> NodePolicy {
    NodePolicy {
        classification: word.to_owned(),
        ..NodePolicy::default()
    }
}

fn names(vfs: &Vfs, path: &str) -> Vec<String> {
    let entries = vfs.ls(path).unwrap();
    entries.iter().map(|entry| entry.name.to_string()).collect()
}

#[track_caller]
fn fails(code: &str, outcome: Result<impl Sized, VfsError>) {
    assert_eq!(outcome.map(drop).unwrap_err().code(), code);
}

#[test]
fn the_nearest_policy_decides_what_may_be_done() {
    let vfs = Vfs::new();
    for path in ["/ro/a", "/ro/open/b", "/log/x", "/dark/c"] {
        vfs.write_file(path, "x", None).unwrap();
    }
    let read_only = NodePolicy {
        writable: false,
        ..NodePolicy::default()
    };
    vfs.set_policy("/ro", Some(read_only)).unwrap();
    vfs.set_policy("/ro/open", Some(NodePolicy::default())).unwrap();
    vfs.set_policy(
        "/log",
        Some(NodePolicy {
            append_only: true,
            ..NodePolicy::default()
        }),
    )
    .unwrap();
    vfs.set_policy(
        "/dark",
        Some(NodePolicy {
            readable: false,
            ..NodePolicy::default()
        }),
    )
    .unwrap();
    let before = vfs.snapshot().unwrap();
    let denied = "denied";
    fails(denied, vfs.write_file("/ro/a", "y", None));
    fails(denied, vfs.append_file("/ro/a", "y", None));
    fails(denied, vfs.write_file("/ro/new", "y", None));
    fails(denied, vfs.mkdir("/ro/d", false, false));
    fails(denied, vfs.symlink("a", "/ro/l"));
    fails(denied, vfs.touch("/ro/a"));
    fails(denied, vfs.set_mode("/ro/a", 0o600));
    fails(denied, vfs.remove("/ro/a", false));
    fails(denied, vfs.remove("/ro", true));
    fails(denied, vfs.rename("/ro/a", "/a"));
    fails(denied, vfs.rename("/dark/c", "/ro/a"));
    fails(denied, vfs.write_file("/log/x", "y", None));
    fails(denied, vfs.remove("/log/x", false));
    fails(denied, vfs.rename("/log/x", "/log/y"));
    fails(denied, vfs.read_file("/dark/c"));
    fails(denied, vfs.ls("/dark"));
    fails(denied, vfs.copy("/dark", "/light", false));
    fails(denied, vfs.copy("/log/x", "/ro/a", true));
    assert!(vfs.changes(&before).unwrap().is_empty());
    vfs.append_file("/log/x", "y", None).unwrap();
    vfs.write_file("/log/new", "y", None).unwrap();
    vfs.write_file("/ro/open/b", "y", None).unwrap();
    vfs.write_file("/dark/c", "y", None).unwrap();
    vfs.copy("/ro/a", "/a", false).unwrap();
    vfs.set_policy("/ro", None).unwrap();
    vfs.write_file("/ro/a", "y", None).unwrap();
}

#[test]
fn a_view_shows_classifications_and_principals() {
    let vfs = Vfs::new();
    for path in [
        "/blue/public",
        "/blue/bob",
        "/blue/alice",
        "/secret/public",
        "/team",
    ] {
        vfs.write_file(path, "x", None).unwrap();
    }
    let of = |who: &str| NodePolicy {
        principals: set(&[who]),
        ..classified("private")
    };
    vfs.set_policy("/blue/bob", Some(of("bob"))).unwrap();
    vfs.set_policy("/blue/alice", Some(of("alice"))).unwrap();
    vfs.set_policy("/secret", Some(classified("secret"))).unwrap();
    vfs.set_policy("/secret/public", Some(classified("public")))
        .unwrap();
    let view = VisibilityView {
        classifications: Some(set(&["public"])),
        principals: Some(set(&["bob"])),
        ..VisibilityView::default()
    };
    let bob = vfs.with_view(view).unwrap();
    assert_eq!(names(&bob, "/"), ["blue", "team"]);
    assert_eq!(names(&bob, "/blue"), ["bob", "public"]);
    assert_eq!(bob.walk("/").unwrap().len(), 4);
    for path in ["/blue/alice", "/secret", "/secret/public"] {
        fails("not-found", bob.read_file(path));
        fails("not-found", bob.stat(path));
        fails("not-found", bob.remove(path, true));
        fails("not-found", bob.copy(path, "/c", false));
        assert!(!bob.exists(path).unwrap());
    }
    bob.symlink("/secret/public", "/way").unwrap();
    fails("not-found", bob.read_file("/way"));
    assert_eq!(names(&vfs, "/blue"), ["alice", "bob", "public"]);
}

#[test]
fn hidden_entry_can_be_neither_replaced_nor_removed_nor_moved() {
    let vfs = Vfs::new();
    vfs.write_file("/d/hidden", "x", None).unwrap();
    vfs.write_file("/d/shown", "x", None).unwrap();
    vfs.set_policy("/d/hidden", Some(classified("secret"))).unwrap();
    let view = VisibilityView {
        classifications: Some(set(&["public"])),
        ..VisibilityView::default()
    };
    let agent = vfs.with_view(view.clone()).unwrap();
    let before = vfs.snapshot().unwrap();
    fails("denied", agent.write_file("/d/hidden", "y", None));
    fails("denied", agent.mkdir("/d/hidden/x", true, true));
    fails("denied", agent.rename("/d/shown", "/d/hidden"));
    fails("denied", agent.remove("/d", true));
    fails("denied", agent.rename("/d", "/e"));
    fails("denied", agent.set_policy("/d/hidden", None));
    fails("denied", agent.snapshot());
    fails("denied", agent.fork());
    fails("denied", agent.with_view(VisibilityView::default()));
    fails("denied", agent.restore(&before));
    assert!(vfs.changes(&before).unwrap().is_empty());
    agent.remove("/d/shown", false).unwrap();
    fails("not-empty", agent.remove("/d", false));
    agent.copy("/d", "/copy", false).unwrap();
    assert_eq!(names(&vfs, "/copy"), Vec::<String>::new());
}

#[test]
fn a_view_of_prefixes_shows_the_way_to_them_and_nothing_else() {
    let vfs = Vfs::new();
    for path in ["/a/b/c/file", "/a/b/other", "/a/x", "/y"] {
        vfs.write_file(path, "x", None).unwrap();
    }
    let prefix = avfs_vfs::parse(b"/a/b/c").unwrap();
    let view = VisibilityView {
        path_prefixes: Some(vec![prefix]),
        ..VisibilityView::default()
    };
    let agent = vfs.with_view(view).unwrap();
    assert_eq!(
        agent.tree("/", None).unwrap(),
        "/\n└── a\n    └── b\n        └── c\n            └── file\n"
    );
    agent.write_file("/a/b/c/new", "", None).unwrap();
    fails("denied", agent.write_file("/a/new", "", None));
    fails("denied", agent.write_file("/y", "", None));
    fails("denied", agent.remove("/a/b/c", true));
    fails("denied", agent.set_mode("/a", 0o700));
    agent.remove("/a/b/c/file", false).unwrap();
}

#[test]
fn a_view_filters_by_metadata_of_files_and_of_directories_above() {
    let vfs = Vfs::new();
    for path in ["/mine/a", "/theirs/b", "/plain/c", "/plain/tagged"] {
        vfs.write_file(path, "x", None).unwrap();
    }
    let team = |name: &str| BTreeMap::from([("team".to_owned(), name.to_owned())]);
    vfs.set_metadata("/mine", team("blue")).unwrap();
    vfs.set_metadata("/theirs", team("red")).unwrap();
    vfs.set_metadata("/plain/tagged", team("blue")).unwrap();
    let metadata_filters = BTreeMap::from([("team".to_owned(), set(&["blue", "green"]))]);
    let agent = vfs
        .with_view(VisibilityView {
            metadata_filters,
            ..VisibilityView::default()
        })
        .unwrap();
    assert_eq!(names(&agent, "/"), ["mine", "plain"]);
    assert_eq!(
        (names(&agent, "/mine"), names(&agent, "/plain")),
        (vec!["a".into()], vec!["tagged".into()])
    );
    agent.write_file("/mine/new", "", None).unwrap();
    fails("denied", agent.write_file("/plain/new", "", None));
    fails("denied", agent.write_file("/plain/c", "", None));
}
