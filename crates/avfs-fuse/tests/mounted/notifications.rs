//! Changes through another door than the mount.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use avfs_core::EntryName;
use avfs_core::diff::{TreeChange, diff_trees};
use avfs_tree::{BaseTree, EntryPlace, Ino, NewEntry, ObjectError, SetAttr, WorkTree};
use rustix::io::Errno;

use crate::fixture::{Mounted, errno};

fn name(text: &str) -> EntryName {
    EntryName::new(text.as_bytes()).unwrap()
}

fn ino(mounted: &Mounted, text: &str) -> Ino {
    mounted.tree.lookup(Ino::ROOT, &name(text)).unwrap().ino
}

fn listed(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn names_made_and_removed_elsewhere() {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("old"), "").unwrap();
    assert!(!mounted.at("new").exists());
    assert_eq!(listed(mounted.path()), BTreeSet::from(["old".into()]));
    mounted
        .tree
        .create(Ino::ROOT, &name("new"), NewEntry::file(0o644))
        .unwrap();
    mounted
        .tree
        .create(Ino::ROOT, &name("never asked for"), NewEntry::file(0o644))
        .unwrap();
    mounted.tree.unlink(Ino::ROOT, &name("old")).unwrap();
    mounted.flush();
    assert!(mounted.at("new").exists());
    assert_eq!(errno(std::fs::metadata(mounted.at("old"))), Some(Errno::NOENT));
    assert_eq!(
        listed(mounted.path()),
        BTreeSet::from(["new".into(), "never asked for".into()])
    );
    assert_eq!(
        mounted.end(),
        Vec::<String>::new(),
        "what the kernel does not know is no error"
    );
}

#[test]
fn directory_renamed_through_another_door_stays_the_working_directory_of_a_process() {
    let mounted = Mounted::new();
    std::fs::create_dir(mounted.at("before")).unwrap();
    let inside = File::open(mounted.at("before")).unwrap();
    let number = inside.metadata().unwrap().ino();
    mounted
        .tree
        .rename(
            EntryPlace::new(Ino::ROOT, name("before")),
            EntryPlace::new(Ino::ROOT, name("after")),
        )
        .unwrap();
    mounted.flush();
    assert!(!mounted.at("before").exists());
    assert_eq!(mounted.at("after").metadata().unwrap().ino(), number);
    assert_eq!(inside.metadata().unwrap().ino(), number);
}

#[test]
fn contents_and_attributes_changed_elsewhere() {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("a"), "before").unwrap();
    let open = File::open(mounted.at("a")).unwrap();
    assert_eq!(std::fs::read(mounted.at("a")).unwrap(), b"before");
    let file = ino(&mounted, "a");
    mounted.tree.write(file, 0, b"BEHIND the kernel").unwrap();
    mounted
        .tree
        .set_attr(
            file,
            SetAttr {
                mode: Some(0o600),
                ..SetAttr::default()
            },
        )
        .unwrap();
    mounted.flush();
    assert_eq!(std::fs::read(mounted.at("a")).unwrap(), b"BEHIND the kernel");
    let mut bytes = [0; 6];
    open.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"BEHIND", "who has it open sees it too");
    assert_eq!(mounted.at("a").metadata().unwrap().mode() & 0o777, 0o600);
}

/// Stores the tree in its current state.
fn stored(tree: &WorkTree) -> BaseTree {
    let frozen = tree.freeze().unwrap();
    let base = frozen.base().clone();
    frozen.settle();
    base
}

#[test]
fn restored_file_is_new_on_open_and_stale_on_old_handles() {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("a"), "before").unwrap();
    let before = stored(&mounted.tree);
    std::fs::write(mounted.at("a"), "after it").unwrap();
    let after = stored(&mounted.tree);
    let old = File::options()
        .read(true)
        .write(true)
        .open(mounted.at("a"))
        .unwrap();
    let number = old.metadata().unwrap().ino();
    let mut changes: Vec<TreeChange> = Vec::new();
    diff_trees(
        &mounted.tree.objects(),
        &after.root,
        &before.root,
        &mut |change| {
            changes.push(change);
            Ok::<(), ObjectError>(())
        },
    )
    .unwrap();
    mounted.tree.exclusive().rebase(before, &changes, true).unwrap();
    mounted.flush();
    assert_eq!(errno(old.write_all_at(b"late", 0)), Some(Errno::STALE));
    assert_eq!(
        std::fs::read(mounted.at("a")).unwrap(),
        b"before",
        "the late write went nowhere"
    );
    assert_eq!(
        mounted.at("a").metadata().unwrap().ino(),
        number,
        "the inode number stays"
    );
    assert_eq!(errno(old.metadata()), Some(Errno::STALE));
    std::fs::write(mounted.at("a"), "and now").unwrap();
    assert_eq!(std::fs::read(mounted.at("a")).unwrap(), b"and now");
    drop(old);
    assert_eq!(mounted.end(), Vec::<String>::new());
}
