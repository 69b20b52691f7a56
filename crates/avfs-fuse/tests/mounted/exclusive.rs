//! A mount that shares its tree with no other: the kernel opens, closes and locks without requests.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::time::{Duration, Instant};

use avfs_fuse::abi::Opcode;
use avfs_tree::Ino;
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;

use crate::fixture::{Mounted, errno, unless_pages_are_reclaimed};

/// Nothing here takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A mount whose kernel has learnt which requests it need not send.
fn mounted() -> Mounted {
    let mounted = Mounted::new();
    std::fs::write(mounted.at("first"), "a").unwrap();
    std::fs::read(mounted.at("first")).unwrap();
    assert_eq!(std::fs::read_dir(mounted.path()).unwrap().count(), 1);
    mounted
}

fn opens_and_closes(mounted: &Mounted) -> u64 {
    let asked = [
        Opcode::Open,
        Opcode::Release,
        Opcode::Flush,
        Opcode::Opendir,
        Opcode::Releasedir,
    ];
    asked
        .iter()
        .map(|opcode| mounted.session().counters().requests(*opcode))
        .sum()
}

#[test]
fn a_file_is_read_again_without_a_request() {
    unless_pages_are_reclaimed(|| {
        let mounted = mounted();
        let read = || assert_eq!(std::fs::read(mounted.at("first")).unwrap(), b"a");
        read();
        assert_eq!(mounted.requests_of(read), []);
        let list = || assert_eq!(std::fs::read_dir(mounted.path()).unwrap().count(), 1);
        list();
        assert_eq!(mounted.requests_of(list), []);
    });
}

#[test]
fn no_request_is_sent_when_files_are_opened_and_closed() {
    let mounted = mounted();
    let before = opens_and_closes(&mounted);
    let made = mounted.requests_of(|| std::fs::write(mounted.at("second"), "b").unwrap());
    let one = |opcode| (opcode, 1);
    // GETATTR is of the directory, for its permissions.
    let needed = [
        Opcode::Lookup,
        Opcode::Getattr,
        Opcode::Write,
        Opcode::Getxattr,
        Opcode::Create,
    ]
    .map(one);
    assert!(made.iter().all(|request| needed.contains(request)), "{made:?}");
    assert!(
        made.contains(&one(Opcode::Create)) && made.contains(&one(Opcode::Write)),
        "{made:?}"
    );
    let append = || {
        let mut file = OpenOptions::new()
            .append(true)
            .open(mounted.at("second"))
            .unwrap();
        file.write_all(b"c").unwrap();
    };
    append();
    assert_eq!(mounted.requests_of(append), [one(Opcode::Write)]);
    assert_eq!(std::fs::read(mounted.at("second")).unwrap(), b"bcc");
    let emptied = mounted.requests_of(|| drop(File::create(mounted.at("second")).unwrap()));
    assert!(
        emptied.contains(&one(Opcode::Setattr)),
        "O_TRUNC is a change of its size: {emptied:?}"
    );
    assert_eq!(opens_and_closes(&mounted), before);
    assert_eq!(mounted.end(), Vec::<String>::new());
}

#[test]
fn a_file_that_is_open_lives_without_a_name_until_it_is_closed() {
    let mounted = mounted();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(mounted.at("gone"))
        .unwrap();
    let ino = Ino(file.metadata().unwrap().ino());
    std::fs::remove_file(mounted.at("gone")).unwrap();
    file.write_all(b"still there").unwrap();
    let mut bytes = [0; 11];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"still there");
    assert!(mounted.tree.attr(ino).is_ok());
    drop(file);
    let started = Instant::now();
    while mounted.tree.attr(ino).is_ok() {
        assert!(started.elapsed() < PATIENCE, "it is no longer held");
        std::thread::yield_now();
    }
}

#[test]
fn locks_are_kept_by_the_kernel() {
    let mounted = mounted();
    let open = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(mounted.at("first"))
            .unwrap()
    };
    let one = open();
    let two = open();
    let requests = mounted.requests_of(|| {
        flock(&one, FlockOperation::LockExclusive).unwrap();
        assert_eq!(
            flock(&two, FlockOperation::NonBlockingLockShared),
            Err(Errno::AGAIN)
        );
        drop(one);
        flock(&two, FlockOperation::NonBlockingLockExclusive).unwrap();
        fcntl_lock(&two, FlockOperation::NonBlockingLockExclusive).unwrap();
    });
    assert_eq!(requests, []);
}

#[test]
fn remaining_names_are_listed_once_during_concurrent_listings_and_removals() {
    let mounted = mounted();
    let directory = mounted.at("directory");
    std::fs::create_dir(&directory).unwrap();
    let name = |number: usize| format!("a name of some length, and a number: {number:05}");
    (0..3000).for_each(|number| drop(File::create(directory.join(name(number))).unwrap()));
    let all = |from: usize| (from..3000).map(name).collect::<BTreeSet<String>>();
    let listed = || -> Vec<String> {
        let entries = std::fs::read_dir(&directory).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    let mut slow = std::fs::read_dir(&directory).unwrap();
    let mut seen: Vec<String> = Vec::new();
    let mut next = |count: usize| {
        let entries = slow.by_ref().take(count);
        seen.extend(entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()));
    };
    next(100);
    (0..100).for_each(|number| std::fs::remove_file(directory.join(name(number))).unwrap());
    // Other threads reach the end of the directory, and start again.
    assert_eq!(listed().into_iter().collect::<BTreeSet<_>>(), all(100));
    next(1000);
    (100..1000).for_each(|number| std::fs::remove_file(directory.join(name(number))).unwrap());
    assert_eq!(listed().len(), 2000);
    next(3000);
    let staying: Vec<&String> = seen.iter().filter(|name| all(1000).contains(*name)).collect();
    assert_eq!(staying.len(), 2000, "none twice, none missing");
    assert_eq!(listed().into_iter().collect::<BTreeSet<_>>(), all(1000));
}

#[test]
fn a_program_that_is_written_to_cannot_be_run_nor_the_other_way_round() {
    let mounted = mounted();
    let program = mounted.at("program");
    std::fs::copy("/bin/sleep", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let writer = OpenOptions::new().write(true).open(&program).unwrap();
    let run = || std::process::Command::new(&program).arg("1000").spawn();
    assert_eq!(errno(run()), Some(Errno::TXTBSY));
    drop(writer);
    let mut running = run().unwrap();
    assert_eq!(
        errno(OpenOptions::new().write(true).open(&program)),
        Some(Errno::TXTBSY)
    );
    running.kill().unwrap();
    running.wait().unwrap();
    let mut bytes = Vec::new();
    File::open(&program).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, std::fs::read("/bin/sleep").unwrap());
}
