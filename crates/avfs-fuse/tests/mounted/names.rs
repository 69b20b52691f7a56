//! Names of files, and the inodes to which they refer.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::fixture::{Mounted, empty_tree, errno};

fn listed(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn directories_are_made_listed_and_removed() {
    let mounted = Mounted::new();
    std::fs::create_dir_all(mounted.at("a/b/c")).unwrap();
    std::fs::write(mounted.at("a/file"), "").unwrap();
    assert_eq!(
        listed(&mounted.at("a")),
        BTreeSet::from(["b".into(), "file".into()])
    );
    assert_eq!(errno(std::fs::remove_dir(mounted.at("a"))), Some(Errno::NOTEMPTY));
    assert_eq!(
        errno(std::fs::remove_dir(mounted.at("a/file"))),
        Some(Errno::NOTDIR)
    );
    assert_eq!(errno(std::fs::remove_file(mounted.at("a/b"))), Some(Errno::ISDIR));
    std::fs::remove_dir_all(mounted.at("a")).unwrap();
    assert!(listed(mounted.path()).is_empty());
    assert_eq!(
        errno(File::create(mounted.at(&"x".repeat(256)))),
        Some(Errno::NAMETOOLONG)
    );
    File::create(mounted.at(&"x".repeat(255))).unwrap();
}

#[test]
fn renaming_replaces_refuses_or_exchanges() {
    let mounted = Mounted::new();
    let a = mounted.at("a");
    let b = mounted.at("b");
    std::fs::write(&a, "a").unwrap();
    std::fs::write(&b, "b").unwrap();
    let mut replaced = File::open(&b).unwrap();
    std::fs::rename(&a, &b).unwrap();
    assert_eq!((std::fs::read(&b).unwrap(), a.exists()), (b"a".to_vec(), false));
    let mut old = String::new();
    replaced.read_to_string(&mut old).unwrap();
    assert_eq!(old, "b", "a replaced file lives while it is open");
    std::fs::write(&a, "new").unwrap();
    let with = |flags| renameat_with(CWD, &a, CWD, &b, flags);
    assert_eq!(with(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    with(RenameFlags::EXCHANGE).unwrap();
    assert_eq!(
        (std::fs::read(&a).unwrap(), std::fs::read(&b).unwrap()),
        (b"a".to_vec(), b"new".to_vec())
    );
    assert_eq!(with(RenameFlags::WHITEOUT), Err(Errno::INVAL));
    std::fs::create_dir_all(mounted.at("d/e")).unwrap();
    assert_eq!(
        errno(std::fs::rename(mounted.at("d"), mounted.at("d/e/f"))),
        Some(Errno::INVAL)
    );
}

#[test]
fn links_share_one_inode() {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("a"), "one").unwrap();
    std::fs::hard_link(mounted.at("a"), mounted.at("b")).unwrap();
    let a = mounted.at("a").metadata().unwrap();
    let b = mounted.at("b").metadata().unwrap();
    assert_eq!((a.ino(), a.nlink(), b.nlink()), (b.ino(), 2, 2));
    std::fs::write(mounted.at("b"), "two").unwrap();
    std::fs::remove_file(mounted.at("b")).unwrap();
    assert_eq!(std::fs::read(mounted.at("a")).unwrap(), b"two");
    assert_eq!(mounted.at("a").metadata().unwrap().nlink(), 1);
}

#[test]
fn symbolic_links_and_special_files() {
    use rustix::fs::{FileType, Mode, makedev, mknodat};
    let mounted = Mounted::new();
    symlink("some/where", mounted.at("link")).unwrap();
    assert_eq!(
        std::fs::read_link(mounted.at("link")).unwrap(),
        Path::new("some/where")
    );
    let mode = Mode::from_raw_mode(0o644);
    mknodat(CWD, mounted.at("fifo"), FileType::Fifo, mode, 0).unwrap();
    mknodat(
        CWD,
        mounted.at("null"),
        FileType::CharacterDevice,
        mode,
        makedev(1, 3),
    )
    .unwrap();
    let kind = |name: &str| mounted.at(name).symlink_metadata().unwrap();
    assert!(kind("fifo").file_type().is_fifo());
    assert!(kind("null").file_type().is_char_device());
    assert_eq!(kind("null").rdev(), makedev(1, 3));
    assert!(kind("link").file_type().is_symlink());
}

#[test]
fn a_directory_with_setgid_passes_its_group_on() {
    let mounted = Mounted::new();
    std::fs::create_dir(mounted.at("shared")).unwrap();
    std::os::unix::fs::chown(mounted.at("shared"), None, Some(1234)).unwrap();
    std::fs::set_permissions(mounted.at("shared"), Permissions::from_mode(0o2775)).unwrap();
    File::create(mounted.at("shared/file")).unwrap();
    std::fs::create_dir(mounted.at("shared/below")).unwrap();
    let (file, below) = (
        mounted.at("shared/file").metadata().unwrap(),
        mounted.at("shared/below").metadata().unwrap(),
    );
    assert_eq!(
        (file.gid(), below.gid(), below.mode() & 0o7000),
        (1234, 1234, 0o2000)
    );
}

#[test]
fn a_large_directory_is_listed_whole_while_names_vanish() {
    let mounted = Mounted::new();
    let name = |number: usize| format!("entry number {number:05}");
    for number in 0..2000 {
        File::create(mounted.at(&name(number))).unwrap();
    }
    assert_eq!(listed(mounted.path()).len(), 2000);
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(mounted.path()).unwrap() {
        let entry = entry.unwrap().file_name().into_string().unwrap();
        let number: usize = entry.rsplit(' ').next().unwrap().parse().unwrap();
        // Every odd one removes itself and, if that still lies ahead, its successor's successor.
        if number % 2 == 1 {
            std::fs::remove_file(mounted.at(&entry)).unwrap();
        }
        seen.push(number);
    }
    let even: Vec<usize> = seen.iter().copied().filter(|number| number % 2 == 0).collect();
    assert_eq!(
        even,
        (0..2000).step_by(2).collect::<Vec<_>>(),
        "what stays is listed exactly once"
    );
    assert_eq!(listed(mounted.path()).len(), 1000);
    assert_eq!(mounted.end(), Vec::<String>::new());
}

#[test]
fn two_mounts_of_two_trees_have_nothing_in_common() {
    let one = Mounted::new();
    let two = Mounted::new();
    std::fs::write(one.at("a"), "one").unwrap();
    std::fs::write(two.at("a"), "two").unwrap();
    assert_eq!(std::fs::read(one.at("a")).unwrap(), b"one");
    assert_eq!(one.end(), Vec::<String>::new());
    assert_eq!(std::fs::read(two.at("a")).unwrap(), b"two");
}

#[test]
fn a_mount_that_is_only_read() {
    let writable = Mounted::new();
    for number in 0..1500 {
        std::fs::write(writable.at(&format!("file {number:04}")), number.to_string()).unwrap();
    }
    let tree = writable.tree.clone();
    assert_eq!(writable.end(), Vec::<String>::new());
    let mounted = Mounted::read_only(tree);
    assert_eq!(listed(mounted.path()).len(), 1500);
    assert_eq!(std::fs::read(mounted.at("file 0042")).unwrap(), b"42");
    assert_eq!(errno(File::create(mounted.at("new"))), Some(Errno::ROFS));
    assert_eq!(listed(mounted.path()).len(), 1500);
    let counters = mounted.session().counters();
    let opened = [avfs_fuse::abi::Opcode::Open, avfs_fuse::abi::Opcode::Opendir];
    assert_eq!(
        opened.map(|opcode| counters.requests(opcode)),
        [1, 1],
        "each was refused once"
    );
    let _ = empty_tree();
}
