//! Random requests to a lock table and to a model that tracks each byte separately, compared after every
//! step.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use avfs_tree::Ino;
use avfs_tree::locks::{
    ByteRange, LockError, LockKind, LockOwner, LockRequest, LockScope, LockTable, WaitId,
};
use proptest::prelude::*;

/// The number of bytes of a file in the model.
const BYTES: u64 = 10;
const DOORS: u64 = 2;
const OWNERS_OF_A_DOOR: u64 = 3;
const FILES: u64 = 2;

type Answer = (usize, Result<(), LockError>);

#[derive(Clone, Debug)]
enum Op {
    Set(LockRequest),
    SetWaiting(LockRequest),
    Unlock(Ino, LockScope, LockOwner),
    ReleaseRecords(Ino, LockOwner),
    ReleaseFlock(Ino, LockOwner),
    ReleaseDoor(u64),
    Cancel(prop::sample::Index),
}

fn owner() -> impl Strategy<Value = LockOwner> {
    (0..DOORS, 0..OWNERS_OF_A_DOOR).prop_map(|(door, owner)| LockOwner { door, owner })
}

fn ino() -> impl Strategy<Value = Ino> {
    (0..FILES).prop_map(Ino)
}

fn scope() -> impl Strategy<Value = LockScope> {
    let range = (0..BYTES, 0..BYTES).prop_map(|(a, b)| ByteRange::new(a.min(b), a.max(b)).unwrap());
    prop_oneof![4 => range.prop_map(LockScope::Record), 1 => Just(LockScope::Flock)]
}

fn request() -> impl Strategy<Value = LockRequest> {
    let kind = prop_oneof![Just(LockKind::Shared), Just(LockKind::Exclusive)];
    (ino(), scope(), kind, owner()).prop_map(|(ino, scope, kind, owner)| {
        let pid = (owner.door * OWNERS_OF_A_DOOR + owner.owner) as u32;
        LockRequest {
            ino,
            scope,
            kind,
            owner,
            pid,
        }
    })
}

fn operation() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => request().prop_map(Op::Set),
        8 => request().prop_map(Op::SetWaiting),
        5 => (ino(), scope(), owner()).prop_map(|(ino, scope, owner)| Op::Unlock(ino, scope, owner)),
        2 => (ino(), owner()).prop_map(|(ino, owner)| Op::ReleaseRecords(ino, owner)),
        1 => (ino(), owner()).prop_map(|(ino, owner)| Op::ReleaseFlock(ino, owner)),
        1 => (0..DOORS).prop_map(Op::ReleaseDoor),
        1 => any::<prop::sample::Index>().prop_map(Op::Cancel),
    ]
}

/// One byte of one file in one family; an `flock` is on the byte 0 of its family.
type Cell = (Ino, bool, u64);

fn covers(request: &LockRequest, (ino, flock, byte): &Cell) -> bool {
    let inside = match request.scope {
        LockScope::Record(range) => !flock && range.first() <= *byte && *byte <= range.last(),
        LockScope::Flock => *flock,
    };
    inside && request.ino == *ino
}

fn cells(ino: Ino, scope: LockScope) -> Vec<Cell> {
    match scope {
        LockScope::Record(range) => (range.first()..=range.last())
            .map(|byte| (ino, false, byte))
            .collect(),
        LockScope::Flock => vec![(ino, true, 0)],
    }
}

#[derive(Default)]
struct Model {
    held: BTreeMap<(Cell, LockOwner), LockKind>,
    /// In the order of arrival.
    waiting: BTreeMap<usize, LockRequest>,
    answers: Vec<Answer>,
}

impl Model {
    fn blockers(&self, request: &LockRequest) -> BTreeSet<LockOwner> {
        let others = self.held.iter().filter(|((cell, owner), kind)| {
            let exclusive = request.kind == LockKind::Exclusive || **kind == LockKind::Exclusive;
            exclusive && *owner != request.owner && covers(request, cell)
        });
        others.map(|((_, owner), _)| *owner).collect()
    }

    fn set(&mut self, request: &LockRequest) -> bool {
        let flock = (request.ino, true, 0);
        let converts = self
            .held
            .get(&(flock, request.owner))
            .is_some_and(|held| *held != request.kind);
        if request.scope == LockScope::Flock && converts {
            self.unlock(request.ino, LockScope::Flock, request.owner);
        }
        let free = self.blockers(request).is_empty();
        if free {
            self.take(request);
            self.serve(request.ino, request.scope == LockScope::Flock);
        }
        free
    }

    fn take(&mut self, request: &LockRequest) {
        for cell in cells(request.ino, request.scope) {
            self.held.insert((cell, request.owner), request.kind);
        }
        self.break_cycles(request);
    }

    fn set_waiting(&mut self, tag: usize, request: LockRequest) {
        if self.set(&request) {
            self.answers.push((tag, Ok(())));
        } else if self.closes_cycle(&request) {
            self.answers.push((tag, Err(LockError::Deadlock)));
        } else {
            self.waiting.insert(tag, request);
        }
    }

    fn unlock(&mut self, ino: Ino, scope: LockScope, owner: LockOwner) {
        for cell in cells(ino, scope) {
            self.held.remove(&(cell, owner));
        }
        self.serve(ino, scope == LockScope::Flock);
    }

    fn serve(&mut self, ino: Ino, flock: bool) {
        let first = |model: &Model| {
            let mut of_file = model
                .waiting
                .iter()
                .filter(|(_, waiting)| waiting.ino == ino && (waiting.scope == LockScope::Flock) == flock);
            of_file
                .find(|(_, waiting)| model.blockers(waiting).is_empty())
                .map(|(tag, _)| *tag)
        };
        while let Some(tag) = first(self) {
            let request = self.end(tag, Ok(()));
            self.take(&request);
        }
    }

    fn end(&mut self, tag: usize, answer: Result<(), LockError>) -> LockRequest {
        self.answers.push((tag, answer));
        self.waiting.remove(&tag).unwrap()
    }

    fn interrupt(&mut self, is_meant: impl Fn(usize, &LockRequest) -> bool) {
        let meant = self
            .waiting
            .iter()
            .filter(|(tag, request)| is_meant(**tag, request));
        for tag in meant.map(|(tag, _)| *tag).collect::<Vec<_>>() {
            self.end(tag, Err(LockError::Interrupted));
        }
    }

    /// Follows waiting owners until no new one is found.
    fn closes_cycle(&self, request: &LockRequest) -> bool {
        if request.scope == LockScope::Flock {
            return false;
        }
        let mut reached = self.blockers(request);
        loop {
            let records = self
                .waiting
                .values()
                .filter(|waiting| waiting.scope != LockScope::Flock);
            let next = records.filter(|waiting| reached.contains(&waiting.owner));
            let more: BTreeSet<LockOwner> = next.flat_map(|waiting| self.blockers(waiting)).collect();
            if more.is_subset(&reached) {
                return reached.contains(&request.owner);
            }
            reached.extend(more);
        }
    }

    fn break_cycles(&mut self, granted: &LockRequest) {
        for tag in self.waiting.keys().copied().collect::<Vec<_>>() {
            let waiting = self.waiting[&tag];
            let shared = waiting.kind == LockKind::Shared && granted.kind == LockKind::Shared;
            let meets = cells(granted.ino, granted.scope)
                .iter()
                .any(|cell| covers(&waiting, cell));
            if !shared && meets && waiting.owner != granted.owner && self.closes_cycle(&waiting) {
                self.end(tag, Err(LockError::Deadlock));
            }
        }
    }
}

/// The table, with the answers to its waiters by their tags.
struct Subject {
    table: LockTable,
    answers: Arc<Mutex<Vec<Answer>>>,
    waits: BTreeMap<usize, WaitId>,
}

impl Subject {
    fn set_waiting(&mut self, tag: usize, request: &LockRequest) {
        let answers = Arc::clone(&self.answers);
        let note = Box::new(move |answer| answers.lock().unwrap().push((tag, answer)));
        if let Some(wait) = self.table.set_waiting(request, note) {
            self.waits.insert(tag, wait);
        }
    }

    /// Every byte is free or not for every owner and kind, as in the model.
    fn compare(&self, model: &Model) -> Result<(), TestCaseError> {
        for ino in (0..FILES).map(Ino) {
            let records = (0..BYTES).map(|byte| LockScope::Record(ByteRange::new(byte, byte).unwrap()));
            for scope in records.chain([LockScope::Flock]) {
                self.compare_byte(model, ino, scope)?;
            }
        }
        Ok(())
    }

    fn compare_byte(&self, model: &Model, ino: Ino, scope: LockScope) -> Result<(), TestCaseError> {
        let cell = cells(ino, scope)[0];
        let holders: Vec<_> = model.held.iter().filter(|((held, _), _)| *held == cell).collect();
        for number in 0..DOORS * OWNERS_OF_A_DOOR {
            let owner = LockOwner {
                door: number / OWNERS_OF_A_DOOR,
                owner: number % OWNERS_OF_A_DOOR,
            };
            let others = || holders.iter().filter(|((_, other), _)| *other != owner);
            let written = others().any(|(_, kind)| **kind == LockKind::Exclusive);
            let request = |kind| LockRequest {
                ino,
                scope,
                kind,
                owner,
                pid: 0,
            };
            let found = self.table.test(&request(LockKind::Exclusive)).is_some();
            prop_assert_eq!(
                found,
                others().next().is_some(),
                "{:?} {:?} {:?}",
                owner,
                ino,
                scope
            );
            let found = self.table.test(&request(LockKind::Shared)).is_some();
            prop_assert_eq!(found, written, "{:?} {:?} {:?}", owner, ino, scope);
        }
        Ok(())
    }
}

fn sorted(answers: &[Answer]) -> Vec<Answer> {
    let mut answers = answers.to_vec();
    answers.sort_by_key(|(tag, _)| *tag);
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn a_lock_table_does_what_a_model_of_bytes_does(steps in prop::collection::vec(operation(), 1..60)) {
        let mut model = Model::default();
        let mut subject =
            Subject { table: LockTable::default(), answers: Arc::default(), waits: BTreeMap::new() };
        for (tag, step) in steps.into_iter().enumerate() {
            match step {
                Op::Set(request) => {
                    prop_assert_eq!(subject.table.set(&request).is_ok(), model.set(&request));
                }
                Op::SetWaiting(request) => {
                    subject.set_waiting(tag, &request);
                    model.set_waiting(tag, request);
                }
                Op::Unlock(ino, scope, owner) => {
                    subject.table.unlock(ino, scope, owner).unwrap();
                    model.unlock(ino, scope, owner);
                }
                Op::ReleaseRecords(ino, owner) => {
                    subject.table.release_records(ino, owner);
                    model.unlock(ino, LockScope::Record(ByteRange::new(0, BYTES - 1).unwrap()), owner);
                }
                Op::ReleaseFlock(ino, owner) => {
                    subject.table.release_flock(ino, owner);
                    model.interrupt(|_, waiting| {
                        waiting.ino == ino && waiting.owner == owner && waiting.scope == LockScope::Flock
                    });
                    model.unlock(ino, LockScope::Flock, owner);
                }
                Op::ReleaseDoor(door) => {
                    subject.table.release_door(door);
                    model.interrupt(|_, waiting| waiting.owner.door == door);
                    model.held.retain(|(_, owner), _| owner.door != door);
                    for ino in (0..FILES).map(Ino) {
                        model.serve(ino, false);
                        model.serve(ino, true);
                    }
                }
                Op::Cancel(index) if !model.waiting.is_empty() => {
                    let tags: Vec<usize> = model.waiting.keys().copied().collect();
                    let tag = *index.get(&tags);
                    prop_assert!(subject.table.cancel(subject.waits[&tag]));
                    model.interrupt(|waiting, _| waiting == tag);
                }
                Op::Cancel(_) => {}
            }
            let answers = std::mem::take(&mut *subject.answers.lock().unwrap());
            prop_assert_eq!(sorted(&answers), sorted(&std::mem::take(&mut model.answers)));
            subject.compare(&model)?;
            prop_assert!(!model.waiting.values().any(|waiting| model.closes_cycle(waiting)));
        }
        (0..DOORS).for_each(|door| subject.table.release_door(door));
        prop_assert_eq!(subject.table.held(), 0);
    }
}
