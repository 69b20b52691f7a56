//! Data that is kept for undo, its limits, and its lifetime: per directory, so that applies elsewhere do not
//! displace it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use avfs_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::ledger::{Folder, Ledger};
use super::record::ApplyRecord;
use super::step::ApplyJournal;
use crate::apply::record::Applies;
use crate::error::ApplyError;
use crate::error::ApplyId;
use crate::error::Result;
use crate::project::Relocation;
use crate::stored_bytes::StoredBytes;

/// This many of the newest applies to a directory can be undone.
const KEPT_APPLIES: usize = 50;
/// The limit for all of them together; the newest one is kept whatever its size.
const KEPT_BYTES: u64 = 10 << 30;
/// The share of the disk that they may use, if that is less: one byte in this many.
const SHARE_OF_DISK: u64 = 10;

/// Information about an apply that needs no reading of its notes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ApplySummary {
    into: StoredBytes,
    /// What the files take that it keeps.
    bytes: u64,
}

/// An apply, or an undo of one, that can still be undone.
#[derive(Clone, Debug)]
pub struct KeptApply {
    /// Its number.
    pub id: ApplyId,
    /// The directory that it changed.
    pub directory: PathBuf,
    /// What the store keeps for it takes.
    pub bytes: u64,
    /// When it was done.
    pub time: Timestamp,
    /// `None`: it was not finished; only versions are kept that another program wrote meanwhile.
    pub record: Option<ApplyRecord>,
}

impl KeptApply {
    /// Whether it was undone and cannot be redone, because its task was discarded.
    pub(super) fn is_lost(&self) -> bool {
        let lost = |record: &ApplyRecord| record.discarded && record.is_undo() && record.undone.is_none();
        self.record.as_ref().is_some_and(lost)
    }
}

impl Folder {
    const ABOUT: &str = "about.json";

    /// Notes what it keeps, now that nothing more comes. A lost note is written again.
    pub(super) fn note_what_is_kept(&self, into: &StoredBytes) {
        let about = ApplySummary {
            into: into.clone(),
            bytes: self.kept_bytes(),
        };
        let _ = std::fs::write(self.path.join(Self::ABOUT), crate::record::encode(&about));
    }

    /// `None`: nothing is known about it.
    fn about(&self) -> Option<ApplySummary> {
        match self.read::<ApplySummary>(Self::ABOUT) {
            Ok(Some(about)) => Some(about),
            Ok(None) | Err(_) => {
                let journal = self.read::<ApplyJournal>(Folder::PLAN).ok()??;
                self.note_what_is_kept(&journal.into);
                Some(ApplySummary {
                    into: journal.into,
                    bytes: self.kept_bytes(),
                })
            }
        }
    }

    /// A file that has another name as well needs no space here.
    fn kept_bytes(&self) -> u64 {
        let entries = ["kept", "aside"]
            .into_iter()
            .flat_map(|name| std::fs::read_dir(self.path.join(name)));
        let stats = entries
            .flatten()
            .filter_map(|entry| entry.ok()?.path().symlink_metadata().ok());
        stats
            .filter(|stat| stat.nlink() == 1)
            .map(|stat| stat.blocks() * 512)
            .sum()
    }
}

impl Ledger {
    /// Forgets what the oldest applies to a directory have kept.
    pub(super) fn forget_old(&self, directory: &StoredBytes) -> Result<(), ApplyError> {
        let done = self.done()?.into_iter().rev().map(|id| self.open_done(id));
        let about = done.filter_map(|folder| folder.about().map(|about| (folder, about)));
        let (folders, sizes): (Vec<Folder>, Vec<u64>) = about
            .filter(|(_, about)| about.into == *directory)
            .map(|(folder, about)| (folder, about.bytes))
            .unzip();
        let stay = how_many_stay(&sizes, self.allowed_bytes());
        folders[stay..].iter().try_for_each(Folder::remove)
    }

    fn allowed_bytes(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.place());
        let share = disk.map_or(u64::MAX, |disk| {
            disk.f_blocks.saturating_mul(disk.f_frsize) / SHARE_OF_DISK
        });
        KEPT_BYTES.min(share)
    }
}

impl Applies<'_> {
    /// Makes the data that is kept for undo in a moved directory available at its new path, and then does the
    /// rest of the move while no process applies anything. A move that is killed between the two can be
    /// repeated.
    pub(crate) fn with_kept_applies_moved<T>(
        &self,
        relocation: &Relocation,
        rest: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Ok(ledger) = Ledger::of(self.store) else {
            return rest();
        };
        let _turn = ledger.turn(self.store.patience())?;
        let place_of = |into: &StoredBytes| relocation.new_place(Path::new(&into.to_os()));
        for folder in ledger.done()?.into_iter().map(|id| ledger.open_done(id)) {
            if let Some(place) = folder.about().and_then(|about| place_of(&about.into)) {
                folder.note_what_is_kept(&StoredBytes::from(place.as_os_str()));
            }
        }
        for folder in ledger.unfinished()?.into_iter().map(|id| ledger.open_pending(id)) {
            let Some(mut journal) = folder.read::<ApplyJournal>(Folder::PLAN)? else {
                continue;
            };
            if let Some(place) = place_of(&journal.into) {
                journal.into = StoredBytes::from(place.as_os_str());
                journal.record.into = journal.into.clone();
                folder.write(Folder::PLAN, &journal)?;
            }
        }
        rest()
    }

    /// The applies to a directory that `is_here` that can be undone, newest first.
    pub(super) fn undoable(
        self,
        is_here: impl Fn(&Path) -> bool,
    ) -> Result<impl Iterator<Item = Result<ApplyRecord>>> {
        // A store without a place has applied nothing.
        let ledger = Ledger::of(self.store).ok();
        let done = ledger.as_ref().map_or_else(|| Ok(Vec::new()), Ledger::done)?;
        Ok(done.into_iter().rev().filter_map(move |id| {
            let about = ledger.as_ref()?.open_done(id).about()?;
            let directory = PathBuf::from(about.into.to_os());
            is_here(&directory)
                .then(|| self.find(id))
                .and_then(Result::transpose)
        }))
    }

    /// Everything that is kept for undoing, oldest first.
    pub fn kept(&self) -> Result<Vec<KeptApply>> {
        let mut kept = self.all_kept()?;
        kept.retain(|apply| !apply.is_lost());
        Ok(kept)
    }

    /// The same, including those that cannot be redone because their task is gone.
    pub(super) fn all_kept(&self) -> Result<Vec<KeptApply>> {
        let Ok(ledger) = Ledger::of(self.store) else {
            return Ok(Vec::new());
        };
        let mut kept = Vec::new();
        for id in ledger.done()? {
            let folder = ledger.open_done(id);
            let Some(about) = folder.about() else { continue };
            let record = self.find(id)?;
            let time = match &record {
                Some(record) => record.time,
                None => folder
                    .read::<ApplyJournal>(Folder::PLAN)?
                    .map_or_else(|| self.store.now(), |plan| plan.record.time),
            };
            let directory = about.into.to_os().into();
            kept.push(KeptApply {
                id,
                directory,
                bytes: about.bytes,
                time,
                record,
            });
        }
        Ok(kept)
    }

    /// Removes the data of applies: they can no longer be undone.
    pub fn forget(&self, ids: &[ApplyId]) -> Result<()> {
        let ledger = Ledger::of(self.store)?;
        let _turn = ledger.turn(self.store.patience())?;
        for id in ids {
            ledger.open_done(*id).remove()?;
        }
        Ok(())
    }
}

/// For applies that keep these numbers of bytes, newest first.
fn how_many_stay(sizes: &[u64], allowed: u64) -> usize {
    let mut bytes = 0_u64;
    let fits = sizes.iter().take(KEPT_APPLIES).take_while(|size| {
        bytes = bytes.saturating_add(**size);
        bytes <= allowed
    });
    fits.count().max(sizes.len().min(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay_as_far_as_they_fit_and_one_in_any_case() {
        assert_eq!(how_many_stay(&[], 10), 0);
        assert_eq!(how_many_stay(&[100, 1], 10), 1);
        assert_eq!(how_many_stay(&[4, 4, 4, 1], 10), 2);
        assert_eq!(how_many_stay(&[0; 70], 10), KEPT_APPLIES);
    }
}
