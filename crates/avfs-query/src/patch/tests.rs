#![allow(
    clippy::disallowed_methods,
    reason = "git and patch are asked to apply the patches"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use avfs_core::diff::diff_trees;
use avfs_tree::Objects;
use proptest::prelude::*;

use super::*;
use crate::fixture::{FixtureItem, FixtureTree, Items, memory, path};

fn changes(objects: &Objects, old: &FixtureTree, new: &FixtureTree) -> Vec<FileChange> {
    let mut changes = Vec::new();
    diff_trees(objects, old.reader.root(), new.reader.root(), &mut |change| {
        changes.push(change);
        Ok(())
    })
    .unwrap();
    file_changes(changes)
}

fn patch_of(old: Items, new: Items, options: &PatchOptions) -> (Vec<u8>, PatchReport) {
    let objects = memory();
    let old = FixtureTree::build(&objects, &old, &BTreeMap::new());
    let new = FixtureTree::build(&objects, &new, &BTreeMap::new());
    let mut patch = Vec::new();
    let report = write_patch(&objects, &changes(&objects, &old, &new), options, &mut patch).unwrap();
    (patch, report)
}

fn items(list: &[(&str, FixtureItem)]) -> Items {
    list.iter()
        .map(|(name, item)| (path(name), item.clone()))
        .collect()
}

fn export(items: &Items, directory: &Path) {
    for (path, item) in items {
        let place = directory.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        match item {
            FixtureItem::File { bytes, executable } => {
                fs::write(&place, bytes).unwrap();
                let mode = if *executable { 0o755 } else { 0o644 };
                fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
            }
            FixtureItem::Symlink(target) => {
                std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(target), &place).unwrap();
            }
            FixtureItem::EmptyDirectory => fs::create_dir_all(&place).unwrap(),
            FixtureItem::Fifo | FixtureItem::Lost | FixtureItem::Linked(_) => {
                unreachable!("not in these tests")
            }
        }
    }
}

/// The files and links below a directory of the host.
fn import(root: &Path, directory: &Path, found: &mut Items) {
    for entry in fs::read_dir(directory).unwrap() {
        let place = entry.unwrap().path();
        let kind = fs::symlink_metadata(&place).unwrap();
        let relative = place.strip_prefix(root).unwrap();
        let path = TreePath::parse(relative.as_os_str().as_bytes()).unwrap();
        if kind.is_dir() {
            import(root, &place, found);
        } else if kind.is_symlink() {
            let target = fs::read_link(&place).unwrap().into_os_string().into_vec();
            found.insert(path, FixtureItem::Symlink(target));
        } else {
            let executable = kind.permissions().mode() & 0o100 != 0;
            found.insert(
                path,
                FixtureItem::File {
                    bytes: fs::read(&place).unwrap(),
                    executable,
                },
            );
        }
    }
}

/// Runs a program that reads the patch, in a directory with the old tree; returns the resulting files.
fn applied(old: &Items, patch: &[u8], program: &[&str]) -> Result<Items, String> {
    let directory = tempfile::tempdir().unwrap();
    export(old, directory.path());
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .current_dir(&directory)
        .env("GIT_CEILING_DIRECTORIES", directory.path().parent().unwrap())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses early may not read it all.
    let _ = child.stdin.take().unwrap().write_all(patch);
    let output = child.wait_with_output().unwrap();
    if !output.status.success() {
        let (said, cried) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        return Err(format!("{said}{cried}"));
    }
    let mut found = Items::new();
    import(directory.path(), directory.path(), &mut found);
    Ok(found)
}

const GIT: &[&str] = &["git", "apply", "--whitespace=nowarn", "-"];
const GIT_BACK: &[&str] = &["git", "apply", "--whitespace=nowarn", "-R", "-"];
const PATCH: &[&str] = &["patch", "-p1", "--no-backup-if-mismatch", "--fuzz=0"];

#[track_caller]
fn check(old: &Items, new: &Items, program: &[&str]) {
    let (patch, _) = patch_of(old.clone(), new.clone(), &PatchOptions::default());
    if patch.is_empty() {
        assert_eq!(old, new);
        return;
    }
    let shown = String::from_utf8_lossy(&patch).into_owned();
    let found = applied(old, &patch, program).unwrap_or_else(|said| panic!("{said}\n{shown}"));
    assert_eq!(&found, new, "{shown}");
}

#[test]
fn a_patch_reads_as_git_writes_it() {
    let old = items(&[
        ("changed", FixtureItem::file("one\ntwo\nthree\n")),
        ("gone", FixtureItem::file("bye")),
        ("moved", FixtureItem::file("the same\n")),
        ("mode", FixtureItem::file("#!/bin/sh\n")),
    ]);
    let new = items(&[
        ("changed", FixtureItem::file("one\n2\nthree\n")),
        ("dir/moved", FixtureItem::file("the same\n")),
        ("empty", FixtureItem::file("")),
        ("link", FixtureItem::Symlink(b"changed".to_vec())),
        ("mode", FixtureItem::program("#!/bin/sh\n")),
    ]);
    let (patch, report) = patch_of(old, new, &PatchOptions::default());
    assert_eq!(
        report,
        PatchReport {
            files: 6,
            omitted: Vec::new()
        }
    );
    let expected = "\
diff --git a/changed b/changed
index
--- a/changed
+++ b/changed
@@ -1,3 +1,3 @@
 one
-two
+2
 three
diff --git a/moved b/dir/moved
similarity index 100%
rename from moved
rename to dir/moved
diff --git a/empty b/empty
new file mode 100644
index
diff --git a/gone b/gone
deleted file mode 100644
index
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-bye
\\ No newline at end of file
diff --git a/link b/link
new file mode 120000
index
--- /dev/null
+++ b/link
@@ -0,0 +1 @@
+changed
\\ No newline at end of file
diff --git a/mode b/mode
old mode 100644
new mode 100755
";
    let patch = String::from_utf8(patch).unwrap();
    let lines = patch
        .lines()
        .map(|line| if line.starts_with("index ") { "index" } else { line });
    assert_eq!(lines.collect::<Vec<_>>(), expected.lines().collect::<Vec<_>>());
    assert!(
        patch.contains("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
        "the empty blob as git names it"
    );
}

#[test]
fn a_patch_with_numbered_hunks_applies_too() {
    let text: String = (0..40).map(|n| format!("{n}\n")).collect();
    let old = items(&[("f", FixtureItem::file(text.clone()))]);
    let new = items(&[(
        "f",
        FixtureItem::file(text.replace("\n5\n", "\nfive\n").replace("\n30\n", "\nthirty\n")),
    )]);
    let options = PatchOptions {
        number_hunks: true,
        ..PatchOptions::default()
    };
    let (patch, _) = patch_of(old.clone(), new.clone(), &options);
    let shown = String::from_utf8_lossy(&patch);
    let headers: Vec<&str> = shown.lines().filter(|line| line.starts_with("@@")).collect();
    assert_eq!(headers, ["@@ -3,7 +3,7 @@ hunk 1", "@@ -28,7 +28,7 @@ hunk 2"]);
    for program in [GIT, PATCH] {
        assert_eq!(applied(&old, &patch, program).unwrap(), new, "{program:?}");
    }
}

#[test]
fn names_of_contents_are_those_of_git() {
    let new = items(&[("f", FixtureItem::file("hello\n"))]);
    let (patch, _) = patch_of(Items::new(), new, &PatchOptions::default());
    assert!(String::from_utf8_lossy(&patch).contains("..ce013625030ba8dba906f756967f9e9ca394464a"));
}

#[test]
fn git_applies_every_kind_of_change() {
    let old = items(&[
        ("text", FixtureItem::file("a\nb\nc\n")),
        ("binary", FixtureItem::file(b"\0\x01\x02old".to_vec())),
        ("to-link", FixtureItem::file("was a file\n")),
        ("to-file", FixtureItem::Symlink(b"text".to_vec())),
        ("to-directory", FixtureItem::file("file\n")),
        ("from-directory/inner", FixtureItem::file("inner\n")),
        ("moved with blank", FixtureItem::program("move me\n")),
        ("gone binary", FixtureItem::file(vec![0; 1000])),
        ("emptied", FixtureItem::file("something\n")),
        ("empty gone", FixtureItem::file("")),
    ]);
    let new = items(&[
        ("text", FixtureItem::program("a\nB\nc")),
        (
            "binary",
            FixtureItem::file((0..=255).cycle().take(5000).collect::<Vec<u8>>()),
        ),
        ("to-link", FixtureItem::Symlink(b"text".to_vec())),
        ("to-file", FixtureItem::file("is a file\n")),
        ("to-directory/inner", FixtureItem::file("other\n")),
        ("from-directory", FixtureItem::file("file now\n")),
        ("sub dir/mövéd\t\"x\"\n", FixtureItem::file("move me\n")),
        ("new binary", FixtureItem::program(b"\0new".to_vec())),
        ("emptied", FixtureItem::file("")),
        ("empty new", FixtureItem::file("")),
        ("back\\slash", FixtureItem::file("x\r\ny\r\n")),
    ]);
    check(&old, &new, GIT);
    check(&new, &old, GIT);
    assert!(
        patch_of(old.clone(), new.clone(), &PatchOptions::default())
            .1
            .omitted
            .is_empty()
    );
    // `git apply -R` reverts the two steps of such a change in the wrong order, in git's own patches too.
    let same_kind = |mut items: Items| {
        items.retain(|path, _| !path.as_bytes().starts_with(b"to-"));
        items
    };
    let (old, new) = (same_kind(old), same_kind(new));
    let (patch, _) = patch_of(old.clone(), new.clone(), &PatchOptions::default());
    assert_eq!(
        applied(&new, &patch, GIT_BACK).unwrap(),
        old,
        "and it can be reverted"
    );
}

#[test]
fn changes_that_a_patch_cannot_express_are_named() {
    let old = items(&[("dir/keep", FixtureItem::file("x"))]);
    let new = items(&[
        ("dir/keep", FixtureItem::file("x")),
        ("void", FixtureItem::EmptyDirectory),
        ("pipe", FixtureItem::Fifo),
        (".git/hooks/pre-commit", FixtureItem::program("evil")),
        ("huge", FixtureItem::file(vec![0; 3000])),
    ]);
    let options = PatchOptions {
        text_bytes: 1000,
        binary_bytes: 2000,
        ..Default::default()
    };
    let (patch, report) = patch_of(old, new, &options);
    assert!(patch.is_empty());
    let omitted: Vec<String> = report.omitted.iter().map(ToString::to_string).collect();
    assert_eq!(omitted, ["/.git/hooks/pre-commit", "/huge", "/pipe", "/void"]);
}

#[test]
fn renames_prefer_the_same_name_and_leave_copies_alone() {
    let objects = memory();
    let same = || FixtureItem::file("same contents\n");
    let old = FixtureTree::of_items(&objects, &[("a/x", same()), ("b/y", same()), ("z", same())]);
    let new = FixtureTree::of_items(
        &objects,
        &[("c/y", same()), ("c/w", same()), ("z", same()), ("copy", same())],
    );
    let listed: Vec<String> = changes(&objects, &old, &new)
        .iter()
        .map(|change| {
            let old = change
                .old
                .as_ref()
                .map_or(String::new(), |side| side.path.to_string());
            format!("{} {old} {}", change.status.letter(), change.path())
        })
        .collect();
    assert_eq!(listed, ["R /a/x /c/w", "R /b/y /c/y", "A  /copy"]);
}

#[test]
fn numbers_count_lines_and_bytes() {
    let objects = memory();
    let old = FixtureTree::of_items(
        &objects,
        &[
            ("t", FixtureItem::file("a\nb\nc\n")),
            ("b", FixtureItem::file("\0")),
        ],
    );
    let new = FixtureTree::of_items(
        &objects,
        &[
            ("t", FixtureItem::file("a\nx\ny\nc\n")),
            ("b", FixtureItem::file("\0\0\0")),
        ],
    );
    let stats: Vec<PatchStat> = changes(&objects, &old, &new)
        .iter()
        .map(|change| PatchStat::of(&objects, change, &PatchOptions::default()).unwrap())
        .collect();
    assert_eq!(
        stats,
        [
            PatchStat::Binary { old: 1, new: 3 },
            PatchStat::Lines {
                insertions: 2,
                deletions: 1
            }
        ]
    );
}

#[test]
fn only_attributes_that_matter_are_changes() {
    let tree = FixtureTree::of(&[("f", "x")]);
    let mut entry = tree.reader.find(&path("f")).unwrap().entry;
    let change = |after: &avfs_core::Entry| {
        let before = Some(tree.reader.find(&path("f")).unwrap().entry);
        let change = avfs_core::diff::TreeChange {
            path: path("f"),
            before,
            after: Some(after.clone()),
        };
        file_changes([change]).first().map(|file| file.status)
    };
    entry.meta.mtime.seconds += 1;
    assert_eq!(change(&entry), None, "a time alone");
    entry.meta.mode = 0o600;
    assert_eq!(change(&entry), Some(ChangeStatus::Attributes));
}

/// A text of numbered lines, some of them changed in a way that depends on the seed.
fn edited_text(seed: u8, lines: u8) -> Vec<u8> {
    let line = |n: u8| match (u32::from(n) * 7 + u32::from(seed) * 13) % 11 {
        0 if seed > 0 => format!("changed {seed}\n"),
        1 if seed > 1 => String::new(),
        2 if seed > 2 => format!("line {n}\nmore {seed}\n"),
        _ => format!("line {}\n", n % 17),
    };
    (0..lines).map(line).collect::<String>().into_bytes()
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0u8..5, 0u8..80).prop_map(|(seed, lines)| edited_text(seed, lines)),
        proptest::collection::vec(
            prop_oneof![Just("a\n"), Just("b\n"), Just("\n"), Just("x\r\n"), Just("end")],
            0..12
        )
        .prop_map(|lines| lines.concat().into_bytes()),
    ]
}

/// Links lead nowhere: where one that leads to a directory or to itself becomes a directory, `git apply` refuses
/// its own patches too.
fn any_item() -> impl Strategy<Value = FixtureItem> {
    prop_oneof![
        6 => (text(), any::<bool>()).prop_map(|(bytes, executable)| FixtureItem::File { bytes, executable }),
        1 => proptest::collection::vec(any::<u8>(), 0..300).prop_map(FixtureItem::file),
        1 => prop_oneof![Just("target"), Just("../up"), Just("not/there")]
            .prop_map(|target| FixtureItem::Symlink(target.as_bytes().to_vec())),
    ]
}

fn any_tree(
    names: &'static [&'static str],
    item: impl Strategy<Value = FixtureItem>,
) -> impl Strategy<Value = Items> {
    let list = proptest::collection::vec((proptest::sample::select(names), item), 0..7);
    list.prop_map(|list| {
        let all: Items = list.into_iter().map(|(name, item)| (path(name), item)).collect();
        let stands_below = |path: &TreePath| all.keys().any(|other| other != path && path.starts_with(other));
        all.iter()
            .filter(|(path, _)| !stands_below(path))
            .map(|(path, item)| (path.clone(), item.clone()))
            .collect()
    })
}

const NAMES: &[&str] = &[
    "a",
    "a/b",
    "a/b/c",
    "d e",
    "d e/ü",
    "q\"uote",
    "tab\t",
    "x",
    "x/y",
    "-dash",
    "new\nline",
    "b",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn the_old_tree_with_the_patch_is_the_new_tree(
        old in any_tree(NAMES, any_item()),
        new in any_tree(NAMES, any_item()),
    ) {
        check(&old, &new, GIT);
    }

    #[test]
    fn the_patch_program_takes_text_changes_too(
        old in any_tree(&["a", "b/c", "b/d", "e", "f/g/h"], text().prop_map(FixtureItem::file)),
        new in any_tree(&["a", "b/c", "b/d", "e", "f/g/h"], text().prop_map(FixtureItem::file)),
    ) {
        check(&old, &new, PATCH);
    }
}
