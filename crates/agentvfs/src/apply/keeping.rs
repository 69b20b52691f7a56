//! What is kept for undoing, how much of it, and for how long: per directory, so that what is applied elsewhere takes
//! nothing away from it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use avfs_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::ApplyError;
use super::ledger::{Folder, Ledger};
use super::record::{ApplyId, ApplyRecord};
use super::step::Journal;
use crate::approvals::raw::Raw;
use crate::error::Result;
use crate::store::Store;

/// So many of the newest applies to a directory can be taken back.
const KEPT_APPLIES: usize = 50;
/// What they may keep together; the newest one is kept whatever it takes.
const KEPT_BYTES: u64 = 10 << 30;
/// The part of the disk that they may take, if that is less: one in so many bytes.
const SHARE_OF_DISK: u64 = 10;

/// What is found of an apply without reading its notes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct About {
    into: Raw,
    /// What the files take that it keeps.
    bytes: u64,
}

/// An apply, or the taking back of one, that can still be taken back.
#[derive(Clone, Debug)]
pub struct KeptApply {
    pub id: ApplyId,
    pub directory: PathBuf,
    pub bytes: u64,
    pub time: Timestamp,
    /// `None`: it was not finished; only versions are kept that somebody wrote meanwhile.
    pub record: Option<ApplyRecord>,
}

impl Folder {
    const ABOUT: &str = "about.json";

    /// Notes what it keeps, now that nothing more comes. A note that is lost is made anew.
    pub fn note_what_is_kept(&self, into: &Raw) {
        let about = About { into: into.clone(), bytes: self.kept_bytes() };
        let _ = std::fs::write(self.path.join(Self::ABOUT), crate::record::encode(&about));
    }

    /// `None`: nothing can be found out about it.
    fn about(&self) -> Option<About> {
        match self.read::<About>(Self::ABOUT) {
            Ok(Some(about)) => Some(about),
            Ok(None) | Err(_) => {
                let journal = self.read::<Journal>(Folder::PLAN).ok()??;
                self.note_what_is_kept(&journal.into);
                Some(About { into: journal.into, bytes: self.kept_bytes() })
            }
        }
    }

    /// A file that has another name besides takes nothing here.
    fn kept_bytes(&self) -> u64 {
        let entries = ["kept", "aside"].into_iter().flat_map(|name| std::fs::read_dir(self.path.join(name)));
        let stats = entries.flatten().filter_map(|entry| entry.ok()?.path().symlink_metadata().ok());
        stats.filter(|stat| stat.nlink() == 1).map(|stat| stat.blocks() * 512).sum()
    }
}

impl Ledger {
    /// Forgets what the oldest applies to a directory have kept.
    pub fn forget_old(&self, directory: &Raw) -> Result<(), ApplyError> {
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
        let share = disk.map_or(u64::MAX, |disk| disk.f_blocks.saturating_mul(disk.f_frsize) / SHARE_OF_DISK);
        KEPT_BYTES.min(share)
    }
}

impl Store {
    /// The applies to a directory that `is_here` that can be taken back, newest first.
    pub(super) fn undoable_applies(
        &self,
        is_here: impl Fn(&Path) -> bool,
    ) -> Result<impl Iterator<Item = Result<ApplyRecord>>> {
        // A store without a place has applied nothing.
        let ledger = Ledger::of(self).ok();
        let done = ledger.as_ref().map_or_else(|| Ok(Vec::new()), Ledger::done)?;
        Ok(done.into_iter().rev().filter_map(move |id| {
            let about = ledger.as_ref()?.open_done(id).about()?;
            let directory = PathBuf::from(about.into.to_os());
            is_here(&directory).then(|| self.find_apply_record(id)).and_then(Result::transpose)
        }))
    }

    /// Everything that is kept for undoing, oldest first.
    pub fn kept_applies(&self) -> Result<Vec<KeptApply>> {
        let Ok(ledger) = Ledger::of(self) else { return Ok(Vec::new()) };
        let mut kept = Vec::new();
        for id in ledger.done()? {
            let folder = ledger.open_done(id);
            let Some(about) = folder.about() else { continue };
            let record = self.find_apply_record(id)?;
            let time = match &record {
                Some(record) => record.time,
                None => {
                    folder.read::<Journal>(Folder::PLAN)?.map_or_else(|| self.now(), |plan| plan.record.time)
                }
            };
            let directory = about.into.to_os().into();
            kept.push(KeptApply { id, directory, bytes: about.bytes, time, record });
        }
        Ok(kept)
    }

    /// Forgets what applies have kept: they cannot be taken back any more.
    pub fn forget_applies(&self, ids: &[ApplyId]) -> Result<()> {
        let ledger = Ledger::of(self)?;
        let _turn = ledger.turn(self.patience())?;
        for id in ids {
            ledger.open_done(*id).remove()?;
        }
        Ok(())
    }
}

/// Of applies that keep so many bytes, newest first.
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
