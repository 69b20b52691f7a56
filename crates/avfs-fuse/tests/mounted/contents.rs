//! Contents of files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::fixture::Mounted;

#[test]
fn written_bytes_are_read_back() {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("a"), "hello").unwrap();
    assert_eq!(std::fs::read(mounted.at("a")).unwrap(), b"hello");
    let long: Vec<u8> = (0..5_000_000u32).map(|number| (number / 7) as u8).collect();
    std::fs::write(mounted.at("long"), &long).unwrap();
    assert!(std::fs::read(mounted.at("long")).unwrap() == long);
    std::fs::write(mounted.at("long"), "short").unwrap();
    assert_eq!(
        std::fs::read(mounted.at("long")).unwrap(),
        b"short",
        "opening truncates"
    );
    assert_eq!(mounted.end(), Vec::<String>::new());
}

#[test]
fn appends_go_to_the_present_end() {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("log"), "one\n").unwrap();
    let append = || File::options().append(true).open(mounted.at("log")).unwrap();
    let mut first = append();
    let mut second = append();
    first.write_all(b"two\n").unwrap();
    second.write_all(b"three\n").unwrap();
    first.write_all(b"four\n").unwrap();
    assert_eq!(
        std::fs::read_to_string(mounted.at("log")).unwrap(),
        "one\ntwo\nthree\nfour\n"
    );
}

#[test]
fn a_file_without_a_name_lives_while_it_is_open() {
    let mounted = Mounted::new();
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(mounted.at("a"))
        .unwrap();
    file.write_all(b"still").unwrap();
    std::fs::remove_file(mounted.at("a")).unwrap();
    file.write_all(b" here").unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    drop(file);
    let tree = mounted.tree.clone();
    assert_eq!(mounted.end(), Vec::<String>::new());
    assert_eq!(tree.totals().inodes, 0);
}

#[test]
fn holes_are_found_and_made() {
    let mounted = Mounted::new();
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(mounted.at("sparse"))
        .unwrap();
    file.write_all_at(b"end", 10 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), (10 << 20) + 3);
    let mut start = [1; 4096];
    file.read_exact_at(&mut start, 0).unwrap();
    assert_eq!(start, [0; 4096]);
    let seek = |from| rustix::fs::seek(&file, from);
    let data = seek(rustix::fs::SeekFrom::Data(0)).unwrap();
    assert!(data > 0 && data <= 10 << 20, "{data}");
    assert_eq!(
        seek(rustix::fs::SeekFrom::Hole(10 << 20)).unwrap(),
        (10 << 20) + 3
    );
    file.set_len(1 << 20).unwrap();
    assert_eq!(seek(rustix::fs::SeekFrom::Data(0)), Err(rustix::io::Errno::NXIO));
    let mut end = &file;
    assert_eq!(end.seek(SeekFrom::End(0)).unwrap(), 1 << 20);
    file.write_all_at(&[7; 1 << 20], 0).unwrap();
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 1000, 100_000).unwrap();
    let bytes = std::fs::read(mounted.at("sparse")).unwrap();
    assert_eq!(
        (bytes[999], bytes[1000], bytes[100_999], bytes[101_000]),
        (7, 0, 0, 7)
    );
}

#[test]
fn a_shared_mapping_reaches_the_file() {
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
    let mounted = Mounted::new();
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(mounted.at("a"))
        .unwrap();
    file.write_all_at(&[b'.'; 8192], 0).unwrap();
    #[allow(unsafe_code, reason = "there is no other way to map a file")]
    // SAFETY: the mapping is of two pages of an open file, and no other code uses the memory.
    unsafe {
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let memory = rustix::mm::mmap(std::ptr::null_mut(), 8192, both, MapFlags::SHARED, &file, 0).unwrap();
        let bytes = std::slice::from_raw_parts_mut(memory.cast::<u8>(), 8192);
        bytes[5000..5005].copy_from_slice(b"hello");
        rustix::mm::msync(memory, 8192, MsyncFlags::SYNC).unwrap();
        rustix::mm::munmap(memory, 8192).unwrap();
    }
    let ino = mounted
        .tree
        .lookup(avfs_tree::Ino::ROOT, &avfs_core::EntryName::new(b"a").unwrap())
        .unwrap()
        .ino;
    let bytes = mounted.tree.read_all(ino).unwrap();
    assert_eq!((&bytes[4999..5006], bytes.len()), (&b".hello."[..], 8192));
}

#[test]
fn a_range_is_copied_from_file_to_file() {
    let mounted = Mounted::new();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|number| (number / 11) as u8).collect();
    std::fs::write(mounted.at("from"), &bytes).unwrap();
    assert_eq!(
        std::fs::copy(mounted.at("from"), mounted.at("to")).unwrap(),
        3_000_000
    );
    assert!(std::fs::read(mounted.at("to")).unwrap() == bytes);
}

#[test]
fn syncing_answers() {
    let mounted = Mounted::new();
    let mut file = File::create(mounted.at("a")).unwrap();
    file.write_all(b"a").unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    File::open(mounted.path()).unwrap().sync_all().unwrap();
}
