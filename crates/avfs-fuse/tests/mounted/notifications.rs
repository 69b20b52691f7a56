//! Changes through another door than the mount.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use avfs_core::EntryName;
use avfs_tree::{Ino, NewEntry};
use rustix::io::Errno;

use crate::fixture::{Mounted, errno};

fn name(text: &str) -> EntryName {
    EntryName::new(text.as_bytes()).unwrap()
}

fn flush(mounted: &Mounted) {
    mounted.notifier().flush(Duration::from_secs(20)).unwrap();
}

#[test]
fn a_name_made_elsewhere_appears_when_the_kernel_is_told() {
    let mounted = Mounted::new();
    assert!(!mounted.at("a").exists());
    mounted.tree.create(Ino::ROOT, &name("a"), NewEntry::file(0o644)).unwrap();
    assert!(!mounted.at("a").exists(), "the kernel remembers that there was none");
    mounted.notifier().inval_entry(Ino::ROOT.0, b"a", false);
    mounted.notifier().inval_entry(Ino::ROOT.0, b"never heard of", false);
    flush(&mounted);
    assert!(mounted.at("a").exists());
    assert_eq!(mounted.end(), Vec::<String>::new(), "what the kernel does not know is no error");
}

#[test]
fn contents_changed_elsewhere_are_read_when_the_kernel_is_told() {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("a"), "before").unwrap();
    assert_eq!(std::fs::read(mounted.at("a")).unwrap(), b"before");
    let ino = mounted.tree.lookup(Ino::ROOT, &name("a")).unwrap().ino;
    mounted.tree.write(ino, 0, b"BEHIND").unwrap();
    mounted.notifier().inval_inode(mounted.skin.known_node(ino).unwrap(), 0, 0);
    flush(&mounted);
    assert_eq!(std::fs::read(mounted.at("a")).unwrap(), b"BEHIND");
}

#[test]
fn a_file_removed_elsewhere_is_gone_when_the_kernel_is_told() {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("a"), "a").unwrap();
    let ino = mounted.tree.lookup(Ino::ROOT, &name("a")).unwrap().ino;
    mounted.tree.unlink(Ino::ROOT, &name("a")).unwrap();
    mounted.notifier().delete(Ino::ROOT.0, ino.0, b"a");
    flush(&mounted);
    assert_eq!(errno(std::fs::metadata(mounted.at("a"))), Some(Errno::NOENT));
}

#[test]
fn a_replaced_file_is_new_to_who_opens_it_and_stale_to_who_has_it_open() {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("a"), "before").unwrap();
    let old = File::options().read(true).write(true).open(mounted.at("a")).unwrap();
    let ino = mounted.tree.lookup(Ino::ROOT, &name("a")).unwrap().ino;
    mounted.tree.write(ino, 0, b"restored").unwrap();
    let node = mounted.skin.replace(ino).unwrap();
    mounted.notifier().inval_entry(Ino::ROOT.0, b"a", false);
    mounted.notifier().inval_inode(node, 0, 0);
    flush(&mounted);
    assert_eq!(std::fs::read(mounted.at("a")).unwrap(), b"restored");
    assert_eq!(errno(old.write_all_at(b"late", 0)), Some(Errno::STALE));
    assert_eq!(std::fs::read(mounted.at("a")).unwrap(), b"restored", "the late write went nowhere");
    drop(old);
    assert_eq!(mounted.end(), Vec::<String>::new());
}
