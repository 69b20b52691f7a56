//! File locks: which requests exclude each other, which wait, and in which order waiting ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex, mpsc};

use avfs_tree::Ino;
use avfs_tree::locks::{
    ByteRange, LockConflict, LockError, LockKind, LockOwner, LockRequest, LockScope, LockTable, WaitId,
};
use rustix::io::Errno;

const FILE: Ino = Ino(20);
const OTHER_FILE: Ino = Ino(21);
use LockKind::{Exclusive, Shared};

fn bytes(first: u64, last: u64) -> LockScope {
    LockScope::Record(ByteRange::new(first, last).unwrap())
}

fn whole() -> LockScope {
    LockScope::Record(ByteRange::WHOLE)
}

/// Owners below 100 come through door 1, those from 100 on through door 2.
fn owner(number: u64) -> LockOwner {
    LockOwner {
        door: 1 + number / 100,
        owner: number,
    }
}

fn request(ino: Ino, scope: LockScope, kind: LockKind, number: u64) -> LockRequest {
    LockRequest {
        ino,
        scope,
        kind,
        owner: owner(number),
        pid: number as u32 + 1_000,
    }
}

/// A table, and the answers that its waiters got.
struct Bench {
    table: Arc<LockTable>,
    answers: Arc<Mutex<Vec<(u64, Result<(), LockError>)>>>,
}

impl Bench {
    fn new() -> Bench {
        Bench::with_limit(LockTable::LIMIT)
    }

    fn with_limit(limit: usize) -> Bench {
        Bench {
            table: Arc::new(LockTable::with_limit(limit)),
            answers: Arc::default(),
        }
    }

    fn set(&self, ino: Ino, scope: LockScope, kind: LockKind, number: u64) -> Result<(), LockError> {
        self.table.set(&request(ino, scope, kind, number))
    }

    /// The answer is recorded under the number of the owner.
    fn wait(&self, ino: Ino, scope: LockScope, kind: LockKind, number: u64) -> Option<WaitId> {
        let answers = Arc::clone(&self.answers);
        let note = Box::new(move |answer| answers.lock().unwrap().push((number, answer)));
        self.table.set_waiting(&request(ino, scope, kind, number), note)
    }

    fn unlock(&self, ino: Ino, scope: LockScope, number: u64) {
        self.table.unlock(ino, scope, owner(number)).unwrap();
    }

    /// The answers since the last call.
    fn answers(&self) -> Vec<(u64, Result<(), LockError>)> {
        std::mem::take(&mut *self.answers.lock().unwrap())
    }

    /// The locks that conflict with an exclusive record lock of another owner, from the first byte on.
    fn locked(&self, ino: Ino) -> Vec<(u64, u64, LockKind)> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(LockConflict { range, kind, .. }) =
            self.table
                .test(&request(ino, bytes(from, ByteRange::MAX), Exclusive, 99))
        {
            found.push((range.first(), range.last(), kind));
            if range.last() == ByteRange::MAX {
                break;
            }
            from = range.last() + 1;
        }
        found
    }
}

#[test]
fn a_new_lock_replaces_what_its_owner_held_there_and_equal_neighbours_merge() {
    let bench = Bench::new();
    let steps: [(LockScope, LockKind, &[_]); 5] = [
        (bytes(0, 99), Exclusive, &[(0, 99, Exclusive)]),
        (
            bytes(40, 59),
            Shared,
            &[(0, 39, Exclusive), (40, 59, Shared), (60, 99, Exclusive)],
        ),
        (
            bytes(50, 69),
            Exclusive,
            &[(0, 39, Exclusive), (40, 49, Shared), (50, 99, Exclusive)],
        ),
        (bytes(40, 49), Exclusive, &[(0, 99, Exclusive)]),
        (
            bytes(100, ByteRange::MAX),
            Exclusive,
            &[(0, ByteRange::MAX, Exclusive)],
        ),
    ];
    for (scope, kind, expected) in steps {
        bench.set(FILE, scope, kind, 1).unwrap();
        assert_eq!(bench.locked(FILE), expected);
    }
    bench.unlock(FILE, bytes(10, 19), 1);
    assert_eq!(
        bench.locked(FILE),
        [(0, 9, Exclusive), (20, ByteRange::MAX, Exclusive)]
    );
    assert_eq!(bench.table.held(), 2);
}

#[test]
fn locks_of_two_mounts_exclude_each_other_and_report_the_holder() {
    let bench = Bench::new();
    bench.set(FILE, bytes(10, 19), Shared, 1).unwrap();
    bench.set(FILE, bytes(15, 29), Shared, 101).unwrap();
    assert_eq!(
        bench.set(FILE, bytes(12, 13), Exclusive, 101),
        Err(LockError::WouldBlock)
    );
    let conflict = bench.table.test(&request(FILE, whole(), Exclusive, 101)).unwrap();
    let range = ByteRange::new(10, 19).unwrap();
    assert_eq!(
        conflict,
        LockConflict {
            range,
            kind: Shared,
            pid: 1_001
        }
    );
    bench.set(FILE, bytes(20, 29), Exclusive, 101).unwrap();
    bench.set(OTHER_FILE, whole(), Exclusive, 101).unwrap();
}

#[test]
fn owners_of_the_same_number_behind_two_doors_are_two() {
    let table = LockTable::default();
    let through = |door| LockRequest {
        ino: FILE,
        scope: whole(),
        kind: Exclusive,
        owner: LockOwner { door, owner: 7 },
        pid: 1,
    };
    table.set(&through(1)).unwrap();
    assert_eq!(table.set(&through(2)), Err(LockError::WouldBlock));
}

#[test]
fn flock_and_record_locks_do_not_meet() {
    let bench = Bench::new();
    bench.set(FILE, LockScope::Flock, Exclusive, 1).unwrap();
    bench.set(FILE, whole(), Exclusive, 2).unwrap();
    bench.table.release_records(FILE, owner(1));
    assert_eq!(
        bench.set(FILE, LockScope::Flock, Shared, 2),
        Err(LockError::WouldBlock)
    );
    bench.table.release_flock(FILE, owner(2));
    assert_eq!(bench.set(FILE, whole(), Shared, 1), Err(LockError::WouldBlock));
}

#[test]
fn a_conversion_of_an_flock_lets_waiters_in_and_may_lose_the_lock() {
    let bench = Bench::new();
    bench.set(FILE, LockScope::Flock, Shared, 1).unwrap();
    bench.set(FILE, LockScope::Flock, Shared, 2).unwrap();
    assert_eq!(
        bench.set(FILE, LockScope::Flock, Exclusive, 1),
        Err(LockError::WouldBlock)
    );
    // Its shared lock was released.
    bench.set(FILE, LockScope::Flock, Exclusive, 2).unwrap();
    bench.wait(FILE, LockScope::Flock, Exclusive, 3).unwrap();
    // The waiting request is granted before the new lock of the converter.
    assert_eq!(
        bench.set(FILE, LockScope::Flock, Shared, 2),
        Err(LockError::WouldBlock)
    );
    assert_eq!(bench.answers(), [(3, Ok(()))]);
    bench.set(FILE, LockScope::Flock, Exclusive, 3).unwrap();
}

#[test]
fn a_request_that_cannot_be_had_leaves_the_record_locks_of_its_owner_alone() {
    let bench = Bench::new();
    bench.set(FILE, bytes(0, 9), Shared, 1).unwrap();
    bench.set(FILE, bytes(5, 9), Shared, 2).unwrap();
    assert_eq!(
        bench.set(FILE, bytes(0, 9), Exclusive, 1),
        Err(LockError::WouldBlock)
    );
    bench.table.release_records(FILE, owner(2));
    assert_eq!(bench.locked(FILE), [(0, 9, Shared)]);
}

#[test]
fn waiting_ends_in_the_order_of_arrival() {
    let bench = Bench::new();
    bench.set(FILE, whole(), Exclusive, 1).unwrap();
    for number in 2..6 {
        bench.wait(FILE, bytes(number, 50), Exclusive, number).unwrap();
    }
    bench.table.release_records(FILE, owner(1));
    for number in 2..6 {
        assert_eq!(bench.answers(), [(number, Ok(()))]);
        bench.table.release_records(FILE, owner(number));
    }
    assert_eq!(bench.answers(), []);
    assert_eq!(bench.table.held(), 0);
}

#[test]
fn unlock_wakes_all_waiters_that_can_share() {
    let bench = Bench::new();
    bench.set(FILE, bytes(0, 9), Exclusive, 1).unwrap();
    bench.wait(FILE, bytes(0, 4), Shared, 2).unwrap();
    bench.wait(FILE, bytes(3, 9), Exclusive, 3).unwrap();
    bench.wait(FILE, bytes(0, 9), Shared, 4).unwrap();
    bench.wait(FILE, bytes(20, 29), Exclusive, 5);
    assert_eq!(bench.answers(), [(5, Ok(()))], "nothing was in its way");
    bench.unlock(FILE, bytes(0, 9), 1);
    assert_eq!(bench.answers(), [(2, Ok(())), (4, Ok(()))]);
    bench.unlock(FILE, whole(), 2);
    assert_eq!(bench.answers(), []);
    bench.unlock(FILE, whole(), 4);
    assert_eq!(bench.answers(), [(3, Ok(()))]);
}

#[test]
fn a_downgrade_lets_readers_in() {
    let bench = Bench::new();
    bench.set(FILE, bytes(0, 9), Exclusive, 1).unwrap();
    bench.wait(FILE, bytes(3, 4), Shared, 2).unwrap();
    bench.wait(FILE, bytes(3, 4), Exclusive, 3).unwrap();
    bench.set(FILE, bytes(0, 9), Shared, 1).unwrap();
    assert_eq!(bench.answers(), [(2, Ok(()))]);
}

#[test]
fn a_mount_that_goes_away_takes_its_locks_and_its_waiters_along() {
    let bench = Bench::new();
    bench.set(FILE, whole(), Exclusive, 101).unwrap();
    bench.set(FILE, LockScope::Flock, Exclusive, 102).unwrap();
    bench.set(OTHER_FILE, whole(), Exclusive, 1).unwrap();
    bench.wait(FILE, whole(), Exclusive, 103).unwrap();
    bench.wait(OTHER_FILE, whole(), Exclusive, 104).unwrap();
    bench.wait(FILE, whole(), Shared, 1).unwrap();
    bench.wait(FILE, LockScope::Flock, Shared, 2).unwrap();
    bench.table.release_door(2);
    let mut answers = bench.answers();
    answers.sort_by_key(|(number, _)| *number);
    let interrupted = Err(LockError::Interrupted);
    assert_eq!(
        answers,
        [(1, Ok(())), (2, Ok(())), (103, interrupted), (104, interrupted)]
    );
    assert_eq!(bench.table.held(), 3);
    bench.table.release_door(1);
    assert_eq!(bench.table.held(), 0);
}

#[test]
fn an_interrupted_waiter_gets_nothing() {
    let bench = Bench::new();
    bench.set(FILE, whole(), Exclusive, 1).unwrap();
    let wait = bench.wait(FILE, whole(), Exclusive, 2).unwrap();
    assert!(bench.table.cancel(wait));
    assert!(!bench.table.cancel(wait), "it has ended");
    bench.table.release_records(FILE, owner(1));
    assert_eq!(bench.answers(), [(2, Err(LockError::Interrupted))]);
    assert_eq!(bench.table.held(), 0);
}

#[test]
fn waiting_flock_ends_with_its_open_file() {
    let bench = Bench::new();
    bench.set(FILE, LockScope::Flock, Exclusive, 1).unwrap();
    bench.wait(FILE, LockScope::Flock, Exclusive, 2).unwrap();
    bench.table.release_flock(FILE, owner(2));
    assert_eq!(bench.answers(), [(2, Err(LockError::Interrupted))]);
}

#[test]
fn a_circle_of_two_is_found() {
    let bench = Bench::new();
    bench.set(FILE, bytes(0, 0), Exclusive, 1).unwrap();
    bench.set(FILE, bytes(1, 1), Exclusive, 101).unwrap();
    bench.wait(FILE, bytes(1, 1), Shared, 1).unwrap();
    assert_eq!(bench.wait(FILE, bytes(0, 1), Shared, 101), None);
    assert_eq!(bench.answers(), [(101, Err(LockError::Deadlock))]);
    bench.table.release_records(FILE, owner(101));
    assert_eq!(bench.answers(), [(1, Ok(()))]);
}

#[test]
fn a_circle_of_three_over_two_files_is_found_behind_several_holders() {
    let bench = Bench::new();
    bench.set(FILE, bytes(0, 0), Shared, 1).unwrap();
    // Readers that do not wait, beside the one that closes the cycle.
    bench.set(FILE, bytes(0, 0), Shared, 8).unwrap();
    bench.set(FILE, bytes(0, 0), Shared, 9).unwrap();
    bench.set(OTHER_FILE, bytes(0, 0), Exclusive, 2).unwrap();
    bench.set(FILE, bytes(7, 7), Exclusive, 3).unwrap();
    bench.wait(OTHER_FILE, whole(), Shared, 1).unwrap();
    bench.wait(FILE, bytes(7, 7), Shared, 2).unwrap();
    assert_eq!(bench.wait(FILE, bytes(0, 0), Exclusive, 3), None);
    assert_eq!(bench.answers(), [(3, Err(LockError::Deadlock))]);
    // Not a cycle: the holder of the last byte is not waiting.
    bench.wait(FILE, bytes(0, 0), Exclusive, 4).unwrap();
}

#[test]
fn two_readers_that_both_want_to_write_are_a_circle() {
    let bench = Bench::new();
    bench.set(FILE, whole(), Shared, 1).unwrap();
    bench.set(FILE, whole(), Shared, 2).unwrap();
    bench.wait(FILE, whole(), Exclusive, 1).unwrap();
    assert_eq!(bench.wait(FILE, whole(), Exclusive, 2), None);
    assert_eq!(bench.answers(), [(2, Err(LockError::Deadlock))]);
}

#[test]
fn a_circle_that_is_closed_by_another_thread_of_a_waiting_process_is_found() {
    let bench = Bench::new();
    bench.set(FILE, bytes(0, 0), Exclusive, 1).unwrap();
    bench.set(OTHER_FILE, bytes(0, 0), Exclusive, 2).unwrap();
    bench.wait(FILE, bytes(0, 0), Exclusive, 2).unwrap();
    bench.set(FILE, bytes(5, 5), Exclusive, 3).unwrap();
    bench.wait(FILE, bytes(5, 5), Exclusive, 2).unwrap();
    bench.wait(FILE, bytes(5, 5), Exclusive, 1).unwrap();
    // Owner 2 gets byte 5, for which owner 1 keeps waiting, while 2 still waits for byte 0 of owner 1.
    bench.table.release_records(FILE, owner(3));
    assert_eq!(bench.answers(), [(2, Ok(())), (1, Err(LockError::Deadlock))]);
}

#[test]
fn an_answer_may_use_the_table() {
    let bench = Bench::new();
    bench.set(FILE, whole(), Exclusive, 1).unwrap();
    let table = Arc::clone(&bench.table);
    let (told, hear) = mpsc::channel();
    let waiter = move |answer: Result<(), LockError>| {
        answer.unwrap();
        table.set(&request(OTHER_FILE, whole(), Exclusive, 2)).unwrap();
        table.release_records(FILE, owner(2));
        told.send(table.held()).unwrap();
    };
    bench
        .table
        .set_waiting(&request(FILE, whole(), Exclusive, 2), Box::new(waiter))
        .unwrap();
    bench.wait(FILE, whole(), Exclusive, 3).unwrap();
    bench.table.release_records(FILE, owner(1));
    assert_eq!(
        hear.try_recv(),
        Ok(2),
        "the answer was given before the call returned"
    );
    assert_eq!(bench.answers(), [(3, Ok(()))]);
}

#[test]
fn threads_that_take_turns_are_never_inside_together() {
    const TURNS: u64 = 200;
    let table = Arc::new(LockTable::default());
    let inside = Mutex::new(());
    std::thread::scope(|scope| {
        for number in 1..5 {
            let table = &table;
            let inside = &inside;
            scope.spawn(move || {
                let (told, hear) = mpsc::channel();
                for _ in 0..TURNS {
                    let told = told.clone();
                    let waiter = Box::new(move |answer| told.send(answer).unwrap());
                    table.set_waiting(&request(FILE, bytes(3, 5), Exclusive, number), waiter);
                    hear.recv().unwrap().unwrap();
                    drop(inside.try_lock().expect("another is inside"));
                    table.release_records(FILE, owner(number));
                }
            });
        }
    });
    assert_eq!(table.held(), 0);
}

#[test]
fn there_is_a_limit_and_room_comes_back() {
    let bench = Bench::with_limit(4);
    bench.set(FILE, bytes(0, 99), Exclusive, 1).unwrap();
    bench.unlock(FILE, bytes(10, 10), 1);
    bench.unlock(FILE, bytes(20, 20), 1);
    bench.unlock(FILE, bytes(30, 30), 1);
    let too_many = LockError::TooMany { limit: 4 };
    assert_eq!(bench.table.unlock(FILE, bytes(40, 40), owner(1)), Err(too_many));
    assert_eq!(bench.set(OTHER_FILE, whole(), Shared, 2), Err(too_many));
    assert_eq!(bench.wait(FILE, bytes(0, 0), Shared, 2), None);
    assert_eq!(bench.answers(), [(2, Err(too_many))]);
    bench.unlock(FILE, bytes(0, 50), 1);
    bench.wait(FILE, bytes(90, 90), Shared, 2).unwrap();
    assert_eq!(
        bench
            .set(OTHER_FILE, whole(), Shared, 3)
            .map(|()| bench.table.held()),
        Ok(2)
    );
}

#[test]
fn every_error_has_its_errno() {
    let table = [
        (LockError::WouldBlock, Errno::AGAIN),
        (LockError::Deadlock, Errno::DEADLK),
        (LockError::Interrupted, Errno::INTR),
        (ByteRange::new(2, 1).unwrap_err(), Errno::INVAL),
        (LockError::TooMany { limit: 1 }, Errno::NOLCK),
    ];
    for (error, errno) in table {
        assert_eq!(error.errno(), errno);
    }
}

#[test]
fn a_hundred_thousand_locks_on_one_file_are_no_burden() {
    let bench = Bench::new();
    // If every lock were examined for each new one, this test would not end.
    for index in 0..100_000 {
        bench
            .set(FILE, bytes(index * 2, index * 2), Exclusive, index % 2)
            .unwrap();
    }
    assert_eq!(bench.table.held(), 100_000);
    assert_eq!(
        bench.set(FILE, bytes(99_998, 99_998), Shared, 5),
        Err(LockError::WouldBlock)
    );
    bench.table.release_records(FILE, owner(0));
    bench.table.release_records(FILE, owner(1));
    bench.set(FILE, whole(), Exclusive, 5).unwrap();
    assert_eq!(bench.table.held(), 1);
}
