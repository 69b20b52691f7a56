//! Journals that nobody has replayed: how large they are, what they name, and dropping them unread.

use crate::error::FsError;
use crate::journal::{Journal, JournalError, remove_note};
use crate::op::Op;
use crate::reach::Needed;

use super::JournalPlace;

impl JournalPlace {
    /// How many bytes of operations the head does not contain.
    pub fn bytes(&self) -> Result<u64, FsError> {
        let left = self.listed()?.journals.into_iter().filter(|number| *number > self.included);
        let left = left.filter_map(|number| self.path(number).metadata().ok());
        Ok(left.map(|journal| journal.len()).sum())
    }

    /// The stored objects that the head does not contain and a replay will ask for. Only for the owner of the tree.
    pub fn named(&self) -> Result<Vec<Needed>, FsError> {
        let mut named = Vec::new();
        for number in self.left()? {
            Journal::rehearse(&self.path(number), |_, op, _| -> Result<(), FsError> {
                named.extend(objects_of(&op));
                Ok(())
            })?;
        }
        Ok(named)
    }

    /// Drops all journals. Only for the owner of a tree that is to go.
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
    JournalError::Io { action: "removing", place, source }.into()
}

/// The objects that an operation names.
fn objects_of(op: &Op) -> Vec<Needed> {
    match op {
        Op::Place { entry, links, .. } => {
            let linked = links.iter().filter_map(|(_, file)| Needed::of_entry(&file.entry));
            Needed::of_entry(entry).into_iter().chain(linked).collect()
        }
        Op::PlaceLink { links, .. } => {
            links.iter().filter_map(|(_, file)| Needed::of_entry(&file.entry)).collect()
        }
        Op::Settle { entry, .. } | Op::Arrive { entry, .. } => Needed::of_entry(entry).into_iter().collect(),
        Op::SetContent { content, .. } => Needed::of_content(*content).into_iter().collect(),
        Op::Unfold { kept, .. } => {
            let entries = kept.entries.map(Needed::Directory);
            entries.into_iter().chain(kept.numbers.map(Needed::Inodes)).collect()
        }
        Op::Found { .. }
        | Op::FoundLink { .. }
        | Op::Remove { .. }
        | Op::Rename { .. }
        | Op::Link { .. }
        | Op::SetMode { .. }
        | Op::SetOwner { .. }
        | Op::SetMtime { .. }
        | Op::Resize { .. }
        | Op::SetXattr { .. }
        | Op::RemoveXattr { .. }
        | Op::SetLabels { .. }
        | Op::Write { .. }
        | Op::Gone { .. }
        | Op::Punch { .. } => Vec::new(),
    }
}
