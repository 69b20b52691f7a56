//! The upkeep of a store in memory.

use std::time::Duration;

use avfs_core::ObjectId;

use super::MemoryStore;
use super::pins::SweepTurn;
use crate::door::StoreError;
use crate::upkeep::{LiveSet, ScrubReport, StoreUsage, SweepReport, Sweeper, Upkeep, UpkeepFinding};

/// How many objects go between two questions whether to go on.
const AT_ONCE: usize = 10_000;

struct ExclusiveMemory<'a> {
    store: &'a MemoryStore,
    _turn: SweepTurn,
}

impl Upkeep for MemoryStore {
    fn for_each_object(&self, visit: &mut dyn FnMut(ObjectId, u64)) -> Result<(), StoreError> {
        let mut objects: Vec<(ObjectId, u64)> = {
            let contents = self.read();
            let sizes = contents.objects.iter();
            sizes
                .map(|(id, object)| (*id, object.bytes.len() as u64))
                .collect()
        };
        objects.sort_unstable_by_key(|(id, _)| *id);
        objects.into_iter().for_each(|(id, size)| visit(id, size));
        Ok(())
    }

    fn usage(&self) -> Result<StoreUsage, StoreError> {
        let mut usage = StoreUsage::default();
        self.for_each_object(&mut |_, size| {
            usage.objects += 1;
            usage.object_bytes += size;
        })?;
        Ok(usage)
    }

    fn scrub(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport, StoreError> {
        let objects: Vec<_> = self
            .read()
            .objects
            .iter()
            .map(|(id, object)| (*id, object.clone()))
            .collect();
        let all = objects.iter().map(|(_, object)| object.bytes.len() as u64).sum();
        let mut report = ScrubReport::default();
        for (id, object) in objects {
            report.bytes += object.bytes.len() as u64;
            if object.kind.hash(&object.bytes) == id {
                report.objects += 1;
            } else {
                let place = "memory".to_owned();
                report.findings.push(UpkeepFinding::Object { id, place });
            }
            progress(report.bytes, all);
        }
        Ok(report)
    }

    fn exclusive(&self, timeout: Duration) -> Result<Box<dyn Sweeper + '_>, StoreError> {
        let turn = self.pins.exclusive(timeout)?;
        Ok(Box::new(ExclusiveMemory {
            store: self,
            _turn: turn,
        }))
    }
}

impl Sweeper for ExclusiveMemory<'_> {
    fn sweep(&self, live: &dyn LiveSet, go_on: &mut dyn FnMut() -> bool) -> Result<SweepReport, StoreError> {
        let mut report = SweepReport::default();
        let mut dead: Vec<ObjectId> = self.store.read().objects.keys().copied().collect();
        dead.retain(|id| !live.contains(id));
        for some in dead.chunks(AT_ONCE) {
            if !go_on() {
                return Ok(report);
            }
            let mut contents = self.store.write();
            for object in some.iter().filter_map(|id| contents.objects.remove(id)) {
                report.removed_objects += 1;
                report.freed_bytes += object.bytes.len() as u64;
            }
        }
        report.finished = true;
        Ok(report)
    }
}
