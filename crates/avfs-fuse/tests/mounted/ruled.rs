//! A mount through rules, and the effect of changed rules on open files, mappings and caches.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, symlink};

use avfs_fuse::Errno;
use avfs_fuse::abi::Opcode;
use avfs_tree::{Ino, NewEntry};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use crate::fixture::{Mounted, errno, name, put};

#[test]
fn hidden_entry_does_not_exist() {
    let mounted = Mounted::through(&["/**=write", "/secret=none"]);
    put(&mounted, "secret", b"s");
    put(&mounted, "plain", b"p");
    assert_eq!(errno(fs::metadata(mounted.at("secret"))), Some(Errno::NOENT));
    assert_eq!(errno(File::create(mounted.at("secret"))), Some(Errno::ACCESS));
    assert_eq!(errno(fs::create_dir(mounted.at("secret"))), Some(Errno::ACCESS));
    assert_eq!(errno(fs::remove_file(mounted.at("secret"))), Some(Errno::NOENT));
    assert_eq!(
        errno(fs::rename(mounted.at("plain"), mounted.at("secret"))),
        Some(Errno::ACCESS)
    );
    assert_eq!(
        errno(fs::rename(mounted.at("secret"), mounted.at("other"))),
        Some(Errno::NOENT)
    );
    let listed: Vec<_> = fs::read_dir(mounted.path())
        .unwrap()
        .map(|one| one.unwrap().file_name())
        .collect();
    assert_eq!(listed, ["plain"]);
    assert_eq!(
        mounted
            .tree
            .read_all(mounted.tree.lookup(Ino::ROOT, &name("secret")).unwrap().ino)
            .unwrap(),
        "s"
    );
}

#[test]
fn a_hidden_name_costs_the_same_whether_it_exists_or_not() {
    let mounted = Mounted::through(&["/**=write", "/s*=none"]);
    put(&mounted, "secret", b"s");
    let ask = |name: &str| {
        let path = mounted.at(name);
        assert!(!path.exists());
        mounted.requests_of(|| assert!(!path.exists()))
    };
    assert_eq!(ask("secret"), ask("sacred"));
    assert_eq!(ask("secret"), [(Opcode::Lookup, 1)]);
}

#[test]
fn modes_and_access_tell_the_truth() {
    let mounted = Mounted::through(&["/**=write", "/read=read", "/view=view", "/append=append"]);
    for text in ["read", "view", "append", "write"] {
        put(&mounted, text, b"x");
    }
    let mode = |text: &str| fs::metadata(mounted.at(text)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        [mode("view"), mode("read"), mode("append"), mode("write")],
        [0, 0o444, 0o644, 0o644]
    );
    assert_eq!(errno(File::open(mounted.at("view"))), Some(Errno::ACCESS));
    assert_eq!(
        errno(OpenOptions::new().write(true).open(mounted.at("read"))),
        Some(Errno::ACCESS)
    );
    let appended = OpenOptions::new()
        .append(true)
        .open(mounted.at("append"))
        .unwrap();
    (&appended).write_all(b"y").unwrap();
    let opened = OpenOptions::new().write(true).open(mounted.at("append")).unwrap();
    assert_eq!(errno(opened.write_at(b"z", 0)), Some(Errno::ACCESS));
    assert_eq!(errno(opened.set_len(0)), Some(Errno::ACCESS));
    assert_eq!(fs::read(mounted.at("append")).unwrap(), b"xy");
}

#[test]
fn an_open_file_obeys_when_the_rules_change() {
    let mounted = Mounted::through(&["/**=write"]);
    put(&mounted, "a", b"first");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(mounted.at("a"))
        .unwrap();
    file.read_exact_at(&mut [0; 5], 0).unwrap();
    mounted.set_rules(&["/**=read"]);
    file.read_exact_at(&mut [0; 5], 0).unwrap();
    assert_eq!(errno(file.write_at(b"x", 0)), Some(Errno::ACCESS));
    mounted.set_rules(&["/**=view"]);
    assert_eq!(errno(file.read_exact_at(&mut [0; 5], 0)), Some(Errno::ACCESS));
    mounted.set_rules(&["/a=none", "/**=write"]);
    assert_eq!(errno(file.read_exact_at(&mut [0; 5], 0)), Some(Errno::ACCESS));
    assert!(!mounted.at("a").exists());
    mounted.set_rules(&["/**=write"]);
    assert!(mounted.at("a").exists());
    file.write_at(b"again", 0).unwrap();
    assert_eq!(fs::read(mounted.at("a")).unwrap(), b"again");
}

#[allow(unsafe_code, reason = "a mapping of a file is what this is about")]
#[test]
fn store_to_a_mapping_does_not_land_after_the_rules_have_changed() {
    let mounted = Mounted::through(&["/**=write"]);
    let ino = put(&mounted, "a", &[b'a'; 4096]);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(mounted.at("a"))
        .unwrap();
    let length = 4096;
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the mapping is used below within its length, and unmapped at the end.
    let map =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, both, MapFlags::SHARED, &file, 0).unwrap() };
    let bytes = map.cast::<u8>();
    // SAFETY: within the mapping.
    unsafe { bytes.write_volatile(b'b') };
    // SAFETY: the whole mapping.
    unsafe { rustix::mm::msync(map, length, MsyncFlags::SYNC).unwrap() };
    assert_eq!(mounted.tree.read_all(ino).unwrap()[0], b'b');
    mounted.set_rules(&["/**=read"]);
    // SAFETY: within the mapping; a page of a read-only file can still be changed in memory.
    unsafe { bytes.write_volatile(b'c') };
    // SAFETY: the whole mapping.
    let synced = unsafe { rustix::mm::msync(map, length, MsyncFlags::SYNC) };
    assert!(synced.is_err(), "the write was not refused");
    assert_eq!(mounted.tree.read_all(ino).unwrap()[0], b'b');
    mounted.flush();
    assert_eq!(
        fs::read(mounted.at("a")).unwrap()[0],
        b'b',
        "the refused bytes are still shown"
    );
    // SAFETY: nothing uses the mapping any longer.
    unsafe { rustix::mm::munmap(map, length).unwrap() };
}

#[test]
fn a_directory_moves_as_a_whole_only_where_the_same_rules_hold() {
    let mounted = Mounted::through(&["/**=write", "/kept/**=write", "/other/x=read"]);
    fs::create_dir(mounted.at("one")).unwrap();
    fs::write(mounted.at("one/x"), "1").unwrap();
    assert_eq!(
        errno(fs::rename(mounted.at("one"), mounted.at("other"))),
        Some(Errno::XDEV)
    );
    fs::rename(mounted.at("one"), mounted.at("two")).unwrap();
    assert_eq!(fs::read(mounted.at("two/x")).unwrap(), b"1");
    assert_eq!(errno(symlink("two", mounted.at("other"))), Some(Errno::ACCESS));
    symlink("two", mounted.at("link")).unwrap();
    // A name that is hidden everywhere does not forbid a link.
    mounted.set_rules(&["/**=write", "/other/x=read", "**/.env=none"]);
    symlink("two", mounted.at("another")).unwrap();
    assert_eq!(errno(symlink("two", mounted.at("other"))), Some(Errno::ACCESS));
    assert_eq!(
        errno(fs::rename(mounted.at("link"), mounted.at("other"))),
        Some(Errno::ACCESS)
    );
}

#[test]
fn a_directory_that_is_only_passed_through_shows_what_may_be_seen() {
    let mounted = Mounted::through(&["/a/b/c=read"]);
    let make =
        |parent: Ino, text: &str, new: NewEntry| mounted.tree.create(parent, &name(text), new).unwrap().ino;
    let a = make(Ino::ROOT, "a", NewEntry::directory(0o700));
    let b = make(a, "b", NewEntry::directory(0o700));
    make(b, "c", NewEntry::file(0o644));
    make(b, "d", NewEntry::file(0o644));
    make(Ino::ROOT, "e", NewEntry::directory(0o700));
    mounted.flush();
    let list = |text: &str| -> Vec<_> {
        fs::read_dir(mounted.at(text))
            .unwrap()
            .map(|one| one.unwrap().file_name())
            .collect()
    };
    assert_eq!([list(""), list("a"), list("a/b")].concat(), ["a", "b", "c"]);
    let shown = fs::metadata(mounted.at("a")).unwrap();
    let told = (shown.permissions().mode() & 0o777, shown.modified().unwrap());
    assert_eq!(told, (0o555, std::time::UNIX_EPOCH));
    assert!(!mounted.at("a/b/d").exists() && !mounted.at("e").exists());
    assert_eq!(errno(fs::remove_dir(mounted.at("a"))), Some(Errno::ACCESS));
}

#[test]
fn a_file_without_a_name_keeps_the_level_that_it_had() {
    let mounted = Mounted::through(&["/**=write", "/kept=read"]);
    put(&mounted, "kept", b"k");
    let file = File::open(mounted.at("kept")).unwrap();
    let written = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .custom_flags(0)
        .truncate(false)
        .open(mounted.at("a"))
        .unwrap();
    fs::remove_file(mounted.at("a")).unwrap();
    written.write_at(b"more", 0).unwrap();
    mounted.tree.unlink(Ino::ROOT, &name("kept")).unwrap();
    mounted.flush();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(&byte, b"k");
}

#[test]
fn a_file_with_several_names_has_the_level_of_the_strictest_that_was_used() {
    let mounted = Mounted::through(&["/**=write", "/locked/**=read"]);
    let ino = put(&mounted, "free", b"x");
    let locked = mounted
        .tree
        .create(Ino::ROOT, &name("locked"), NewEntry::directory(0o755))
        .unwrap()
        .ino;
    fs::write(mounted.at("free"), "y").unwrap();
    mounted.tree.link(ino, locked, &name("same")).unwrap();
    mounted.flush();
    fs::write(mounted.at("free"), "z").unwrap();
    assert_eq!(fs::read(mounted.at("locked/same")).unwrap(), b"z");
    assert_eq!(errno(fs::write(mounted.at("free"), "w")), Some(Errno::ACCESS));
    assert_eq!(
        errno(fs::hard_link(mounted.at("locked/same"), mounted.at("new"))),
        Some(Errno::ACCESS)
    );
}
