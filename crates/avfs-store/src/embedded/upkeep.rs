//! The upkeep of an embedded store, through its door.

use std::time::Duration;

use avfs_core::ObjectId;

use crate::door::StoreError;
use crate::embedded::{EmbeddedStore, ExclusiveStore};
use crate::upkeep::{LiveSet, ScrubReport, StoreUsage, SweepReport, Sweeper, Upkeep};

impl Upkeep for EmbeddedStore {
    fn for_each_object(&self, visit: &mut dyn FnMut(ObjectId, u64)) -> Result<(), StoreError> {
        EmbeddedStore::for_each_object(self, visit)
    }

    fn usage(&self) -> Result<StoreUsage, StoreError> {
        EmbeddedStore::usage(self)
    }

    fn scrub(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport, StoreError> {
        EmbeddedStore::scrub(self, progress)
    }

    fn exclusive(&self, timeout: Duration) -> Result<Box<dyn Sweeper + '_>, StoreError> {
        EmbeddedStore::exclusive(self, timeout).map(|exclusive| Box::new(exclusive) as _)
    }

    fn use_reserve(&self) {
        EmbeddedStore::use_reserve(self);
    }
}

impl Sweeper for ExclusiveStore<'_> {
    fn sweep(&self, live: &dyn LiveSet, go_on: &mut dyn FnMut() -> bool) -> Result<SweepReport, StoreError> {
        ExclusiveStore::sweep(self, live, go_on)
    }
}
