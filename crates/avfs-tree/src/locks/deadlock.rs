//! Detects owners that wait for each other in a cycle.
//!
//! Only record locks: an `flock` belongs to an open file, and waiting for an open file is not waiting for a
//! process. A waiting request needs all conflicting owners to release their locks, so a cycle of waiting
//! owners never ends by itself. An owner is what the kernel calls one: threads of a process are one owner,
//! and a cycle through two of them is found although a third thread could open it, as on Linux. The kernel
//! does not mark requests for locks of open files (`F_OFD_SETLKW`), so these are included too.

use std::collections::BTreeSet;

use super::state::{LockFamily, LockState};
use super::{LockOwner, LockRequest};

impl LockState {
    /// Whether an owner that conflicts with `request` waits, directly or through others, for the owner of the
    /// request.
    pub(super) fn closes_cycle(&self, request: &LockRequest) -> bool {
        let mut reached = BTreeSet::new();
        let mut open: Vec<LockOwner> = self.blockers(request).collect();
        while let Some(owner) = open.pop() {
            if owner == request.owner {
                return true;
            }
            if reached.insert(owner) {
                open.extend(
                    self.record_waits(owner)
                        .flat_map(|request| self.blockers(request)),
                );
            }
        }
        false
    }

    fn blockers<'a>(&'a self, request: &'a LockRequest) -> impl Iterator<Item = LockOwner> + 'a {
        let file = match request.key() {
            key @ (_, LockFamily::Record) => self.files.get(&key),
            (_, LockFamily::Flock) => None,
        };
        file.into_iter()
            .flat_map(|file| file.holders.conflicts(request))
            .map(|(owner, _)| owner)
    }

    fn record_waits(&self, owner: LockOwner) -> impl Iterator<Item = &LockRequest> {
        let waits = self.waiting.get(&owner).into_iter().flatten();
        let queued = waits.filter_map(|(wait, key)| self.files.get(key)?.queue.get(wait));
        queued.map(|waiting| &waiting.request)
    }
}
