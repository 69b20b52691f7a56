//! Locks hold across all doors to a tree.

use std::fs::File;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;

use crate::fixture::{Mounted, empty_tree};

/// Long enough for anything that does not wait for another process.
const LONG: Duration = Duration::from_secs(20);

fn open(mounted: &Mounted) -> File {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(mounted.at("lock"))
        .unwrap()
}

#[test]
fn flocks_exclude_across_mounts() {
    let tree = empty_tree();
    let one = Mounted::of(tree.clone(), false);
    let two = Mounted::of(std::sync::Arc::new(tree.another_door()), false);
    let first = open(&one);
    let second = open(&two);
    flock(&first, FlockOperation::LockExclusive).unwrap();
    assert_eq!(
        flock(&second, FlockOperation::NonBlockingLockShared),
        Err(Errno::AGAIN)
    );
    drop(first);
    flock(&second, FlockOperation::LockShared).unwrap();
    drop(second);
}

#[test]
fn lock_waiter_gets_its_lock_while_others_are_served() {
    let mounted = Mounted::new();
    let first = open(&mounted);
    let second = open(&mounted);
    flock(&first, FlockOperation::LockExclusive).unwrap();
    let (sender, receiver) = channel();
    let waiter = std::thread::spawn(move || {
        let result = flock(&second, FlockOperation::LockExclusive);
        sender.send(result).unwrap();
    });
    // More than there are threads that serve.
    for number in 0..10 {
        std::fs::write(mounted.at(&number.to_string()), "served").unwrap();
    }
    assert!(receiver.try_recv().is_err(), "it still waits");
    flock(&first, FlockOperation::Unlock).unwrap();
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), Ok(()));
    waiter.join().unwrap();
}

#[test]
fn record_locks_go_with_the_process() {
    let tree = empty_tree();
    let one = Mounted::of(tree.clone(), false);
    let two = Mounted::of(std::sync::Arc::new(tree.another_door()), false);
    let first = open(&one);
    let second = open(&two);
    fcntl_lock(&first, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(
        fcntl_lock(&second, FlockOperation::NonBlockingLockExclusive),
        Err(Errno::AGAIN)
    );
    drop(first);
    fcntl_lock(&second, FlockOperation::NonBlockingLockExclusive).unwrap();
    drop(second);
}

#[test]
fn a_killed_waiter_leaves_and_leaves_no_lock() {
    let mounted = Mounted::new();
    let held = open(&mounted);
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let path = mounted.at("lock");
    let mut waiter = std::process::Command::new("flock")
        .arg(&path)
        .arg("true")
        .spawn()
        .unwrap();
    let asked = || {
        mounted
            .session()
            .counters()
            .requests(avfs_fuse::abi::Opcode::Setlkw)
    };
    let start = std::time::Instant::now();
    while asked() < 2 {
        assert!(start.elapsed() < LONG, "the waiter never asked for the lock");
        std::thread::yield_now();
    }
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    flock(&held, FlockOperation::Unlock).unwrap();
    let another = open(&mounted);
    flock(&another, FlockOperation::NonBlockingLockExclusive).unwrap();
    drop((held, another));
    assert_eq!(mounted.end(), Vec::<String>::new());
}
