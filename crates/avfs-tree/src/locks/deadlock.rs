//! Owners that wait for each other in a circle.
//!
//! Only record locks: an `flock` belongs to an open file, which nobody can be said to wait for. Whoever
//! waits needs everyone in the way to give up, so every circle of waiting owners is one that never ends by
//! itself. Owners are what the kernel calls so: threads of a process are one, and a circle through two of
//! them is found although a third could open it, as on Linux. The kernel does not say which requests are for
//! locks of open files (`F_OFD_SETLKW`), so these are looked at too.

use std::collections::BTreeSet;

use super::state::{Family, State};
use super::{LockOwner, LockRequest};

impl State {
    /// Whether someone in the way of `request` waits, over however many others, for its owner.
    pub fn closes_cycle(&self, request: &LockRequest) -> bool {
        let mut reached = BTreeSet::new();
        let mut open: Vec<LockOwner> = self.blockers(request).collect();
        while let Some(owner) = open.pop() {
            if owner == request.owner {
                return true;
            }
            if reached.insert(owner) {
                open.extend(self.record_waits(owner).flat_map(|request| self.blockers(request)));
            }
        }
        false
    }

    fn blockers<'a>(&'a self, request: &'a LockRequest) -> impl Iterator<Item = LockOwner> + 'a {
        let file = match request.key() {
            key @ (_, Family::Record) => self.files.get(&key),
            (_, Family::Flock) => None,
        };
        file.into_iter().flat_map(|file| file.holders.conflicts(request)).map(|(owner, _)| owner)
    }

    fn record_waits(&self, owner: LockOwner) -> impl Iterator<Item = &LockRequest> {
        let waits = self.waiting.get(&owner).into_iter().flatten();
        let queued = waits.filter_map(|(wait, key)| self.files.get(key)?.queue.get(wait));
        queued.map(|waiting| &waiting.request)
    }
}
