//! Shared by the tests of agentvfs: suites that every implementation of an interface passes, and faults to
//! inject behind the interfaces. Only tests depend on this crate, so product code cannot use it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is test code")]

mod child;
mod conformance;
mod counting;
mod dying_disk;
mod environment;
mod flaky;
mod fuzz;
mod gated;
mod load;
mod plain_renames;
mod power_cut;
mod small_disk;

pub use child::{Killed, TestChild, WatchedChild, acknowledge, child_task, crash};
pub use conformance::store_conformance;
pub use counting::{CountingStore, Counts};
pub use dying_disk::DyingDisk;
pub use environment::TestEnv;
pub use flaky::{Fault, FlakyDisk};
pub use fuzz::{Dice, budget, fuzz};
pub use gated::GatedStore;
pub use load::LoadWriter;
pub use plain_renames::only_plain_renames;
pub use power_cut::{Image, PowerCut};
pub use small_disk::SmallDisk;

use avfs_core::{ObjectId, ObjectKind};
use avfs_store::{NewObject, ObjectStore, StoreError};

/// Puts one blob.
pub fn put(store: &dyn ObjectStore, bytes: &[u8]) -> Result<ObjectId, StoreError> {
    let id = ObjectKind::Blob.hash(bytes);
    store.put_many(&[NewObject {
        id,
        kind: ObjectKind::Blob,
        bytes,
    }])?;
    Ok(id)
}

/// Bytes that look random and are the same for every call with this seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}
