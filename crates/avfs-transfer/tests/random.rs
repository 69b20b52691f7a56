//! Generated trees go in and out by every way without a difference.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use support::*;

/// One step of building a tree. Numbers select existing entries.
#[derive(Clone, Debug)]
enum Step {
    Directory {
        parent: usize,
        name: Vec<u8>,
        mode: u32,
    },
    File {
        parent: usize,
        name: Vec<u8>,
        len: usize,
        mode: u32,
        mtime: (i64, i64),
    },
    Sparse {
        parent: usize,
        name: Vec<u8>,
        size: u64,
        pages: Vec<u64>,
    },
    Symlink {
        parent: usize,
        name: Vec<u8>,
        target: Vec<u8>,
    },
    Link {
        parent: usize,
        name: Vec<u8>,
        file: usize,
    },
    Xattr {
        file: usize,
        name: String,
        value: Vec<u8>,
    },
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("a name", |byte| !matches!(byte, 0 | b'/' | b'.'));
    prop_oneof![
        "[a-d]{1,2}".prop_map(String::into_bytes),
        proptest::collection::vec(byte, 1..130)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let parent = 0usize..100;
    let file_mode = prop_oneof![Just(0o644u32), Just(0o400), Just(0o1777), 0o600u32..0o777];
    let mtime = (-2_000_000_000i64..4_000_000_000, 0i64..1_000_000_000);
    let len = prop_oneof![Just(0usize), 1usize..9000, Just(1 << 20), Just((1 << 20) + 1)];
    let pages =
        proptest::collection::btree_set(0u64..300, 0..12).prop_map(|pages| pages.into_iter().collect());
    prop_oneof![
        3 => (parent.clone(), name(), 0o700u32..0o777)
            .prop_map(|(parent, name, mode)| Step::Directory { parent, name, mode: mode | 0o700 }),
        6 => (parent.clone(), name(), len, file_mode, mtime)
            .prop_map(|(parent, name, len, mode, mtime)| Step::File { parent, name, len, mode: mode | 0o400, mtime }),
        1 => (parent.clone(), name(), 1u64..2_000_000, pages)
            .prop_map(|(parent, name, size, pages)| Step::Sparse { parent, name, size, pages }),
        2 => (parent.clone(), name(), name())
            .prop_map(|(parent, name, target)| Step::Symlink { parent, name, target }),
        3 => (parent, name(), 0usize..100).prop_map(|(parent, name, file)| Step::Link { parent, name, file }),
        2 => (0usize..100, "user\\.[a-z=%]{1,9}", proptest::collection::vec(any::<u8>(), 0..60))
            .prop_map(|(file, name, value)| Step::Xattr { file, name, value }),
    ]
}

/// Makes the tree; steps that find their name taken do nothing.
fn build(top: &Path, steps: &[Step]) {
    let mut directories = vec![(top.to_owned(), 0o755)];
    let mut files: Vec<PathBuf> = Vec::new();
    let place = |directories: &[(PathBuf, u32)], parent: usize, name: &[u8]| {
        let place = directories[parent % directories.len()]
            .0
            .join(OsStr::from_bytes(name));
        (place.symlink_metadata().is_err() && place.as_os_str().len() < 3000).then_some(place)
    };
    for step in steps {
        match step {
            Step::Directory { parent, name, mode } => {
                let Some(path) = place(&directories, *parent, name) else {
                    continue;
                };
                fs::create_dir(&path).unwrap();
                directories.push((path, *mode));
            }
            Step::File {
                parent,
                name,
                len,
                mode,
                mtime,
            } => {
                let Some(path) = place(&directories, *parent, name) else {
                    continue;
                };
                fs::write(&path, pattern(*len)).unwrap();
                set_mode(&path, *mode);
                set_mtime(&path, mtime.0, mtime.1);
                files.push(path);
            }
            Step::Sparse {
                parent,
                name,
                size,
                pages,
            } => {
                let Some(path) = place(&directories, *parent, name) else {
                    continue;
                };
                let pages: Vec<u64> = pages.iter().copied().filter(|page| page * 4096 < *size).collect();
                sparse_file(&path, *size, &pages);
                files.push(path);
            }
            Step::Symlink { parent, name, target } => {
                let Some(path) = place(&directories, *parent, name) else {
                    continue;
                };
                symlink(OsStr::from_bytes(target), path).unwrap();
            }
            Step::Link { parent, name, file } => {
                let Some(path) = place(&directories, *parent, name) else {
                    continue;
                };
                if let Some(file) = files.get(file % files.len().max(1)) {
                    fs::hard_link(file, path).unwrap();
                }
            }
            Step::Xattr { file, name, value } => {
                if let Some(file) = files.get(file % files.len().max(1)) {
                    // A read-only file refuses an ordinary user; a full one has no more room.
                    let flags = rustix::fs::XattrFlags::empty();
                    let _ = rustix::fs::setxattr(file, name, value, flags);
                }
            }
        }
    }
    directories.iter().for_each(|(path, mode)| set_mode(path, *mode));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_generated_tree_is_the_same_by_every_way(steps in proptest::collection::vec(step(), 0..60)) {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&from).unwrap();
        build(&from, &steps);
        let vault = Place::new();
        let imported = vault.import(&from).unwrap();
        let counts = (imported.report.files, imported.report.directories, imported.report.bytes);
        let tree = vault.tree(imported);
        let report = vault.export(&tree, &to).unwrap();
        prop_assert_eq!(&report.skipped, &[]);
        prop_assert_eq!((report.files, report.directories, report.bytes), counts);
        assert_same(&facts(&from), &facts(&to));
        let again = Place::new();
        prop_assert_eq!(&again.tree(again.import(&to).unwrap()), &tree);
        let archive = vault.export_tar(&tree);
        let from_tar = Place::new();
        prop_assert_eq!(&from_tar.import_tar_exactly(&archive), &tree);
        prop_assert_eq!(from_tar.export_tar(&tree), archive);
    }
}
