//! Contents of small files, which the kernel is given when they are opened: never older than the last write.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use avfs_fuse::Errno;
use avfs_fuse::abi::Opcode;
use avfs_fuse::mounting::{UnmountMode, unmount};
use avfs_tree::{Ino, SetAttr};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use crate::fixture::{Mounted, empty_tree, errno, name, put, unless_pages_are_reclaimed};

/// Nothing here takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The contents of a file, when no program has it open any longer.
fn read(mounted: &Mounted, text: &str) -> Vec<u8> {
    mounted.until_closed();
    fs::read(mounted.at(text)).unwrap()
}

fn reads(mounted: &Mounted) -> u64 {
    mounted.session().counters().requests(Opcode::Read)
}

#[test]
fn a_small_file_is_read_without_asking_for_contents_or_again_for_attributes() {
    unless_pages_are_reclaimed(|| {
        let mounted = Mounted::new();
        // The last one is the largest that is given; the others end within a page, at a page boundary, and in
        // the next page.
        for size in [1, 1500, 4096, 5000, 65_536] {
            let bytes: Vec<u8> = (0..size).map(|number| (number / 7) as u8).collect();
            fs::write(mounted.at("a"), &bytes).unwrap();
            mounted.until_closed();
            let first = mounted.requests_of(|| assert!(fs::read(mounted.at("a")).unwrap() == bytes));
            assert!(
                first.iter().all(|(opcode, _)| *opcode != Opcode::Read),
                "{size}: {first:?}"
            );
            let second = mounted.requests_of(|| assert!(fs::read(mounted.at("a")).unwrap() == bytes));
            assert_eq!(second, [(Opcode::Open, 1)], "{size}");
        }
        File::options()
            .append(true)
            .open(mounted.at("a"))
            .unwrap()
            .set_len(9)
            .unwrap();
        for appended in ["one", "two"] {
            File::options()
                .append(true)
                .open(mounted.at("a"))
                .unwrap()
                .write_all(&[7; 3000])
                .unwrap();
            mounted.until_closed();
            let read = mounted.requests_of(|| drop(fs::read(mounted.at("a")).unwrap()));
            assert!(
                read.iter().all(|(opcode, _)| *opcode != Opcode::Read),
                "{appended}: {read:?}"
            );
        }
        fs::write(mounted.at("large"), vec![7; 65_537]).unwrap();
        mounted.until_closed();
        let before = reads(&mounted);
        assert_eq!(read(&mounted, "large").len(), 65_537);
        assert!(reads(&mounted) > before, "a large file is not given");
        assert_eq!(mounted.end(), Vec::<String>::new());
    });
}

#[test]
fn write_after_a_read_is_read_back() {
    let mounted = Mounted::new();
    let path = mounted.at("a");
    fs::write(&path, vec![b'a'; 1500]).unwrap();
    assert_eq!(read(&mounted, "a"), vec![b'a'; 1500]);
    File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(&[b'b'; 4000])
        .unwrap();
    let appended = [vec![b'a'; 1500], vec![b'b'; 4000]].concat();
    assert_eq!(read(&mounted, "a"), appended);
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .write_all_at(b"over", 10)
        .unwrap();
    let written = [&appended[..10], b"over", &appended[14..]].concat();
    assert_eq!(read(&mounted, "a"), written);
    truncate(&mounted, "a", 20);
    assert_eq!(read(&mounted, "a"), &written[..20]);
    truncate(&mounted, "a", 5000);
    assert_eq!(read(&mounted, "a"), [&written[..20], &[0; 4980]].concat());
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(15)
        .unwrap();
    assert_eq!(read(&mounted, "a"), &written[..15]);
    drop(File::create(&path).unwrap());
    assert_eq!(read(&mounted, "a"), b"");
    fs::write(&path, "again").unwrap();
    assert_eq!(read(&mounted, "a"), b"again");
    assert_eq!(mounted.end(), Vec::<String>::new());
}

/// By its name, so that the file is not opened.
fn truncate(mounted: &Mounted, text: &str, size: usize) {
    let path = CString::new(mounted.at(text).into_os_string().into_vec()).unwrap();
    #[allow(unsafe_code, reason = "only the C library has this call")]
    // SAFETY: the path is a NUL-terminated string and lives longer than the call.
    let result = unsafe { libc::truncate(path.as_ptr(), size as libc::off_t) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn file_changed_through_another_door_is_given_again() {
    let mounted = Mounted::new();
    let ino = put(&mounted, "a", &[b'a'; 1500]);
    assert_eq!(read(&mounted, "a"), [b'a'; 1500]);
    mounted.tree.write(ino, 1400, &[b'b'; 4000]).unwrap();
    mounted.flush();
    let before = reads(&mounted);
    assert_eq!(read(&mounted, "a"), [vec![b'a'; 1400], vec![b'b'; 4000]].concat());
    assert_eq!(reads(&mounted), before, "it is given again");
    for size in [3, 0, 9000, 1] {
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        mounted.tree.set_attr(ino, set).unwrap();
        assert_eq!(read(&mounted, "a"), *mounted.tree.read_all(ino).unwrap());
    }
    assert_eq!(mounted.end(), Vec::<String>::new());
}

#[test]
fn two_mounts_agree_on_what_each_has_written() {
    let tree = empty_tree();
    let one = Mounted::of(tree.clone(), false);
    let two = Mounted::of(tree, false);
    for round in 0..50usize {
        let (writer, reader) = if round % 2 == 0 {
            (&one, &two)
        } else {
            (&two, &one)
        };
        let bytes = vec![round as u8; 1 + round * 211 % 6000];
        fs::write(writer.at("a"), &bytes).unwrap();
        assert!(read(reader, "a") == bytes, "round {round}");
        assert!(read(writer, "a") == bytes, "round {round}");
    }
}

#[test]
fn given_contents_are_dropped_when_the_rules_change() {
    let mounted = Mounted::through(&["/**=write"]);
    put(&mounted, "a", b"given");
    assert_eq!(read(&mounted, "a"), b"given");
    let open = File::open(mounted.at("a")).unwrap();
    for forbidding in [&["/**=view"][..], &["/a=none", "/**=write"]] {
        mounted.set_rules(forbidding);
        assert_eq!(errno(open.read_exact_at(&mut [0; 5], 0)), Some(Errno::ACCESS));
        assert!(fs::read(mounted.at("a")).is_err());
        assert!(File::options().write(true).open(mounted.at("a")).is_err());
        assert_eq!(
            errno(open.read_exact_at(&mut [0; 5], 0)),
            Some(Errno::ACCESS),
            "nothing was given"
        );
    }
    drop(open);
    for allowing in [&["/**=append"][..], &["/**=read"], &["/**=write"]] {
        mounted.set_rules(allowing);
        assert_eq!(read(&mounted, "a"), b"given");
    }
}

#[test]
fn a_mapping_shows_what_was_given_and_what_is_written_then() {
    let mounted = Mounted::new();
    fs::write(mounted.at("a"), [b'.'; 6000]).unwrap();
    mounted.until_closed();
    let before = reads(&mounted);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(mounted.at("a"))
        .unwrap();
    with_mapping(&file, 6000, |bytes| {
        assert!(bytes.iter().all(|byte| *byte == b'.'));
        file.write_all_at(b"written", 4090).unwrap();
        assert_eq!(&bytes[4090..4097], b"written");
        bytes[..6].copy_from_slice(b"mapped");
        // An open at this point is given nothing: the tree does not know of the mapping's bytes yet.
        assert_eq!(&fs::read(mounted.at("a")).unwrap()[..6], b"mapped");
    });
    assert_eq!(reads(&mounted), before);
    drop(file);
    let bytes = read(&mounted, "a");
    assert_eq!(
        (&bytes[..7], &bytes[4089..4098]),
        (&b"mapped."[..], &b".written."[..])
    );
}

fn with_mapping(file: impl AsFd, len: usize, act: impl FnOnce(&mut [u8])) {
    #[allow(unsafe_code, reason = "there is no other way to map a file")]
    // SAFETY: the mapping is of an open file that is not shortened, and no other code uses the memory.
    unsafe {
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let memory = rustix::mm::mmap(std::ptr::null_mut(), len, both, MapFlags::SHARED, file, 0).unwrap();
        act(std::slice::from_raw_parts_mut(memory.cast::<u8>(), len));
        rustix::mm::msync(memory, len, MsyncFlags::SYNC).unwrap();
        rustix::mm::munmap(memory, len).unwrap();
    }
}

/// All threads open the same few files, so that these are given while other threads write them, shorten them,
/// or change them elsewhere. Each file has one writer, which must read back what it wrote.
#[test]
fn writer_reads_back_its_own_writes_while_others_open_the_file() {
    const FILES: usize = 3;
    const ROUNDS: usize = 600;
    let mounted = Arc::new(Mounted::new());
    let is_over = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    (0..FILES).for_each(|file| _ = put(&mounted, &file.to_string(), b"first"));
    let spawn = |act: Box<dyn Fn(&Mounted) + Send>| {
        let mounted = mounted.clone();
        let done = done.clone();
        std::thread::spawn(move || {
            act(&mounted);
            done.fetch_add(1, Ordering::Release);
        })
    };
    let readers = (0..3).map(|_| {
        let is_over = is_over.clone();
        let done = done.clone();
        spawn(Box::new(move |mounted| {
            while !is_over.load(Ordering::Acquire) {
                for file in 0..FILES {
                    assert!(fs::read(mounted.at(&file.to_string())).unwrap().len() <= 9000);
                    done.fetch_add(1, Ordering::Release);
                }
            }
        }))
    });
    let readers: Vec<_> = readers.collect();
    let writers: Vec<_> = (0..FILES)
        .map(|file| {
            let done = done.clone();
            spawn(Box::new(move |mounted| {
                for round in 0..ROUNDS {
                    rewrite(mounted, &file.to_string(), round);
                    done.fetch_add(1, Ordering::Release);
                }
            }))
        })
        .collect();
    await_progress(&mounted, &done, || {
        writers.iter().all(|writer| writer.is_finished())
    });
    is_over.store(true, Ordering::Release);
    await_progress(&mounted, &done, || {
        readers.iter().all(|reader| reader.is_finished())
    });
    writers
        .into_iter()
        .chain(readers)
        .for_each(|thread| thread.join().unwrap());
}

/// Changes a file in one of several ways, and reads it.
fn rewrite(mounted: &Mounted, text: &str, round: usize) {
    let path = mounted.at(text);
    let letter = b'a' + (round % 26) as u8;
    let size = 1 + round * 977 % 9000;
    let bytes = vec![letter; size];
    match round % 4 {
        0 => fs::write(&path, &bytes).unwrap(),
        1 => {
            truncate(mounted, text, 0);
            File::options()
                .append(true)
                .open(&path)
                .unwrap()
                .write_all(&bytes)
                .unwrap();
        }
        2 => {
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            drop(file);
            truncate(mounted, text, size);
        }
        _ => {
            let ino = mounted.tree.lookup(Ino::ROOT, &name(text)).unwrap().ino;
            mounted.tree.write(ino, 0, &bytes).unwrap();
            let set = SetAttr {
                size: Some(size as u64),
                ..SetAttr::default()
            };
            mounted.tree.set_attr(ino, set).unwrap();
            mounted.flush();
        }
    }
    assert!(fs::read(&path).unwrap() == bytes, "file {text}, round {round}");
}

/// Waits for a condition, as long as there is any progress. Threads that are stuck in the kernel are
/// released.
fn await_progress(mounted: &Mounted, done: &AtomicU64, condition: impl Fn() -> bool) {
    let mut last = (done.load(Ordering::Acquire), Instant::now());
    while !condition() {
        let now = done.load(Ordering::Acquire);
        if now != last.0 {
            last = (now, Instant::now());
        }
        if last.1.elapsed() > PATIENCE {
            unmount(mounted.path(), UnmountMode::Force).unwrap();
            panic!("no thread makes progress");
        }
        std::thread::yield_now();
    }
}
