//! Journals that nobody has replayed: how large they are, what they name, and dropping them unread.

use crate::error::FsError;
use crate::journal::Journal;
use crate::op::Op;
use crate::reach::Needed;

use super::{JournalPlace, journal_io, journal_name, journals_in};

impl JournalPlace {
    /// How many bytes of operations the head does not contain.
    pub fn bytes(&self) -> Result<u64, FsError> {
        let left = self.left()?.into_iter();
        Ok(left.filter_map(|path| path.metadata().ok()).map(|journal| journal.len()).sum())
    }

    /// The stored objects that the head does not contain and a replay will ask for. Only for the owner of the tree.
    pub fn named(&self) -> Result<Vec<Needed>, FsError> {
        let mut named = Vec::new();
        for path in self.left()? {
            Journal::recover(&path, |_, op, _| -> Result<(), FsError> {
                named.extend(objects_of(&op));
                Ok(())
            })?;
        }
        Ok(named)
    }

    /// Drops all journals. Only for the owner of a tree that is to go.
    pub fn remove_all(&self) -> Result<(), FsError> {
        for number in journals_in(self)? {
            let path = self.directory.join(journal_name(number));
            std::fs::remove_file(path).map_err(|source| journal_io(self, source))?;
        }
        Ok(())
    }

    fn left(&self) -> Result<Vec<std::path::PathBuf>, FsError> {
        let numbers = journals_in(self)?.into_iter().filter(|number| *number > self.included);
        Ok(numbers.map(|number| self.directory.join(journal_name(number))).collect())
    }
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
