//! Random requests to a lock table and to the kernel, which must agree.
//!
//! Locks of open files (`F_OFD_SETLK`) stand in for record locks: they obey the same rules, with an open file
//! as the owner, so that one process can be several owners.

#![allow(
    unsafe_code,
    reason = "only fcntl(2) itself takes a lock on a range of an open file"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{File, TryLockError};
use std::os::fd::AsRawFd;
use std::path::Path;

use avfs_tree::Ino;
use avfs_tree::locks::{ByteRange, LockKind, LockOwner, LockRequest, LockScope, LockTable};
use proptest::prelude::*;

const BYTES: u64 = 12;
const OWNERS: usize = 3;
const FILE: Ino = Ino(20);

#[derive(Clone, Debug)]
enum Op {
    Set(usize, ByteRange, LockKind),
    Unlock(usize, ByteRange),
    Flock(usize, LockKind),
    FlockUnlock(usize),
    /// Closes the file, and opens it again.
    Close(usize),
}

fn range() -> impl Strategy<Value = ByteRange> {
    let end = prop_oneof![8 => 0..BYTES, 1 => Just(ByteRange::MAX)];
    (0..BYTES, end).prop_map(|(a, b)| ByteRange::new(a.min(b), a.max(b)).unwrap())
}

fn kind() -> impl Strategy<Value = LockKind> {
    prop_oneof![Just(LockKind::Shared), Just(LockKind::Exclusive)]
}

fn operation() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..OWNERS, range(), kind()).prop_map(|(owner, range, kind)| Op::Set(owner, range, kind)),
        4 => (0..OWNERS, range()).prop_map(|(owner, range)| Op::Unlock(owner, range)),
        4 => (0..OWNERS, kind()).prop_map(|(owner, kind)| Op::Flock(owner, kind)),
        1 => (0..OWNERS).prop_map(Op::FlockUnlock),
        1 => (0..OWNERS).prop_map(Op::Close),
    ]
}

fn request(owner: usize, scope: LockScope, kind: LockKind) -> LockRequest {
    LockRequest {
        ino: FILE,
        scope,
        kind,
        owner: owner_of(owner),
        pid: 1,
    }
}

fn owner_of(number: usize) -> LockOwner {
    LockOwner {
        door: 0,
        owner: number as u64,
    }
}

/// `command` on a range of an open file; the kernel's answer, or `None` if it refuses because of another lock.
fn fcntl(file: &File, command: libc::c_int, range: ByteRange, kind: libc::c_int) -> Option<libc::flock> {
    // Length 0: to the end, wherever that moves.
    let length = if range.last() == ByteRange::MAX {
        0
    } else {
        range.last() - range.first() + 1
    };
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: range.first() as i64,
        l_len: length as i64,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and `lock` is the structure that lock commands read and write.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    let error = std::io::Error::last_os_error();
    assert!(
        result == 0 || error.raw_os_error() == Some(libc::EAGAIN),
        "{error}"
    );
    (result == 0).then_some(lock)
}

fn kernel_kind(kind: LockKind) -> libc::c_int {
    match kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    }
}

fn kernel_flock(file: &File, kind: LockKind) -> bool {
    let answer = match kind {
        LockKind::Shared => file.try_lock_shared(),
        LockKind::Exclusive => file.try_lock(),
    };
    match answer {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => panic!("{error}"),
    }
}

struct Pair {
    table: LockTable,
    files: Vec<File>,
}

impl Pair {
    fn apply(&mut self, path: &Path, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Set(owner, range, kind) => {
                let answer = self.table.set(&request(owner, LockScope::Record(range), kind));
                let kernel = fcntl(&self.files[owner], libc::F_OFD_SETLK, range, kernel_kind(kind));
                prop_assert_eq!(answer.is_ok(), kernel.is_some());
            }
            Op::Unlock(owner, range) => {
                self.table
                    .unlock(FILE, LockScope::Record(range), owner_of(owner))
                    .unwrap();
                fcntl(&self.files[owner], libc::F_OFD_SETLK, range, libc::F_UNLCK).unwrap();
            }
            Op::Flock(owner, kind) => {
                let answer = self.table.set(&request(owner, LockScope::Flock, kind));
                prop_assert_eq!(answer.is_ok(), kernel_flock(&self.files[owner], kind));
            }
            Op::FlockUnlock(owner) => {
                self.table
                    .unlock(FILE, LockScope::Flock, owner_of(owner))
                    .unwrap();
                self.files[owner].unlock().unwrap();
            }
            Op::Close(owner) => {
                self.table.release_records(FILE, owner_of(owner));
                self.table.release_flock(FILE, owner_of(owner));
                self.files[owner] = open(path);
            }
        }
        Ok(())
    }

    /// The locks that conflict with each owner, at each byte. Whole locks are compared if only one is
    /// possible.
    fn compare(&self) -> Result<(), TestCaseError> {
        for (owner, byte) in (0..OWNERS).flat_map(|owner| (0..=BYTES).map(move |byte| (owner, byte))) {
            let range = ByteRange::new(byte, byte).unwrap();
            for kind in [LockKind::Shared, LockKind::Exclusive] {
                let found = self.table.test(&request(owner, LockScope::Record(range), kind));
                let kernel = fcntl(&self.files[owner], libc::F_OFD_GETLK, range, kernel_kind(kind)).unwrap();
                let is_blocked = i32::from(kernel.l_type) != libc::F_UNLCK;
                prop_assert_eq!(
                    found.is_some(),
                    is_blocked,
                    "owner {} byte {} {:?}",
                    owner,
                    byte,
                    kind
                );
                let Some(found) = found.filter(|found| found.kind == LockKind::Exclusive) else {
                    continue;
                };
                let last = match kernel.l_len {
                    0 => ByteRange::MAX,
                    length => (kernel.l_start + length - 1) as u64,
                };
                prop_assert_eq!(found.range, ByteRange::new(kernel.l_start as u64, last).unwrap());
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

proptest! {
    #[test]
    fn a_lock_table_agrees_with_the_kernel(steps in prop::collection::vec(operation(), 1..50)) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let files = (0..OWNERS).map(|_| open(file.path())).collect();
        let mut pair = Pair { table: LockTable::default(), files };
        for step in &steps {
            pair.apply(file.path(), step)?;
            pair.compare()?;
        }
    }
}
