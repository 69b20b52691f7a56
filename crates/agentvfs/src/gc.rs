//! Garbage collection: what nothing refers to any more goes.

use std::collections::HashSet;
use std::time::Duration;

use avfs_core::ObjectId;
use avfs_store::SweepReport;
use avfs_tree::walk_needed;

use crate::error::Result;
use crate::store::Store;

/// How long a collection waits for writers to finish.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a garbage collection did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Objects that are needed.
    pub live: u64,
    pub sweep: SweepReport,
}

impl Store {
    /// Removes objects that no vault needs. `go_on` is asked between steps with the number of objects seen
    /// so far; when it answers `false`, the collection ends early and the store is sound.
    ///
    /// Others may work meanwhile: what is needed is found first without holding anyone up; then writers are
    /// held back while what came since is added and the rest is removed.
    pub fn collect_garbage(&self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Collected> {
        let Some(embedded) = self.embedded() else { return Ok(Collected::default()) };
        self.recover_all()?;
        let mut live = HashSet::new();
        if !self.mark(&mut live, go_on)? {
            return Ok(Collected::default());
        }
        let exclusive = embedded.exclusive(PATIENCE)?;
        if !self.mark(&mut live, go_on)? {
            return Ok(Collected::default());
        }
        let sweep = exclusive.sweep(&live, &mut || go_on(live.len() as u64))?;
        Ok(Collected { live: live.len() as u64, sweep })
    }

    /// Adds everything that is needed; what is in the set already, is there with all its parts.
    fn mark(&self, live: &mut HashSet<ObjectId>, go_on: &mut dyn FnMut(u64) -> bool) -> Result<bool> {
        for roots in self.roots()? {
            // A root becomes live only with all its parts, so a walk that is cut off leaves no half of one.
            let mut fresh = HashSet::new();
            let mut cut_off = false;
            walk_needed(self.objects(), roots.all(), &mut |needed| {
                let id = needed.object();
                let new = !cut_off && !live.contains(&id) && fresh.insert(id);
                if new && fresh.len() % 10_000 == 0 {
                    cut_off = !go_on((live.len() + fresh.len()) as u64);
                }
                Ok(new)
            })?;
            if cut_off {
                return Ok(false);
            }
            live.extend(fresh);
        }
        Ok(true)
    }
}
