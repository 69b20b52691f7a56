//! Journals that have not been replayed: their size, the objects to which they refer, and dropping them
//! unread.

use crate::error::FsError;
use crate::journal::{Journal, JournalError, remove_note};
use crate::op::JournalOp;
use crate::reach::NeededObject;

use super::JournalPlace;

impl JournalPlace {
    /// How many bytes of operations are missing in the head.
    pub fn bytes(&self) -> Result<u64, FsError> {
        let left = self
            .listed()?
            .journals
            .into_iter()
            .filter(|number| *number > self.included);
        let left = left.filter_map(|number| self.path(number).metadata().ok());
        Ok(left.map(|journal| journal.len()).sum())
    }

    /// The stored objects that the head does not contain and a replay will need. Only for the owner of the
    /// tree.
    pub fn named(&self) -> Result<Vec<NeededObject>, FsError> {
        let mut named = Vec::new();
        for number in self.left()? {
            Journal::rehearse(&self.path(number), |_, op, _| -> Result<(), FsError> {
                named.extend(objects_of(&op));
                Ok(())
            })?;
        }
        Ok(named)
    }

    /// Drops all journals. Only for the owner of a tree that is being deleted.
    pub fn remove_all(&self) -> Result<(), FsError> {
        let listed = self.listed()?;
        for place in listed.notes.iter().map(|number| self.path(*number)) {
            remove_note(&place).map_err(|source| removing(place, source))?;
        }
        for place in listed.journals.iter().map(|number| self.path(*number)) {
            std::fs::remove_file(&place).map_err(|source| removing(place, source))?;
        }
        Ok(())
    }
}

fn removing(place: std::path::PathBuf, source: std::io::Error) -> FsError {
    JournalError::Io {
        action: "removing",
        place,
        source,
    }
    .into()
}

/// The objects to which an operation refers.
fn objects_of(op: &JournalOp) -> Vec<NeededObject> {
    match op {
        JournalOp::Place { entry, links, .. } => {
            let linked = links
                .iter()
                .filter_map(|(_, file)| NeededObject::of_entry(&file.entry));
            NeededObject::of_entry(entry).into_iter().chain(linked).collect()
        }
        JournalOp::PlaceLink { links, .. } => links
            .iter()
            .filter_map(|(_, file)| NeededObject::of_entry(&file.entry))
            .collect(),
        JournalOp::Fulfil { entry, .. } | JournalOp::Arrive { entry, .. } => {
            NeededObject::of_entry(entry).into_iter().collect()
        }
        JournalOp::SetContent { content, .. } => NeededObject::of_content(*content).into_iter().collect(),
        JournalOp::Unfold { kept, .. } => {
            let entries = kept.entries.map(NeededObject::Directory);
            entries
                .into_iter()
                .chain(kept.numbers.map(NeededObject::Inodes))
                .collect()
        }
        JournalOp::Found { .. }
        | JournalOp::FoundLink { .. }
        | JournalOp::Remove { .. }
        | JournalOp::Rename { .. }
        | JournalOp::Link { .. }
        | JournalOp::SetMode { .. }
        | JournalOp::SetOwner { .. }
        | JournalOp::SetMtime { .. }
        | JournalOp::Resize { .. }
        | JournalOp::SetXattr { .. }
        | JournalOp::RemoveXattr { .. }
        | JournalOp::SetLabels { .. }
        | JournalOp::Write { .. }
        | JournalOp::Gone { .. }
        | JournalOp::Punch { .. } => Vec::new(),
    }
}
