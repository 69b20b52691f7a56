//! What this process has put and the index does not know yet: bytes in its packs, and rows to come.
//!
//! Records gather in a buffer and go to the pack in large writes. Nothing is dropped from here before the
//! index has it, so that a failed commit can be tried again:
//!
//! - A disk that is full keeps the buffer; the next write starts at the same offset.
//! - Any other failure of a write or sync makes the pack *suspect*: the kernel may have dropped pages it
//!   could not write and would report the next sync as a success. The pack is never written to or synced
//!   again. Its uncommitted records are read back, verified and appended to another pack.
//! - A record that cannot be read back is *lost*: every sync and commit fails and names it until it is put
//!   again, because a commit promises everything put before it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use avfs_core::ObjectId;

use crate::door::{NewObject, StoreError};
use crate::embedded::database::Database;
use crate::embedded::disk::DiskFile;
use crate::embedded::draft::{Draft, Pending};
use crate::embedded::failure::io_failure;
use crate::embedded::index::{self, PackRow};
use crate::embedded::layout::pack_name;
use crate::embedded::record::{Header, Place, open_record};
use crate::embedded::shelf::{PACK_LIMIT, Shelf, read_record};

#[derive(Default)]
pub(crate) struct Appender {
    active: Option<Draft>,
    /// Packs that are full and written, but not yet synced and committed.
    full: Vec<Draft>,
    suspect: Vec<Draft>,
    /// Packs that failed once: this process does not take them again.
    avoid: HashSet<u32>,
    pending: HashMap<ObjectId, Place>,
    lost: HashMap<ObjectId, u32>,
}

/// All that one commit makes durable.
pub(crate) struct Batch {
    /// Sorted by id, so that the index is filled from left to right.
    pub rows: Vec<(ObjectId, Place)>,
    pub packs: Vec<(PackRow, Arc<dyn DiskFile>)>,
}

impl Appender {
    pub(crate) fn is_pending(&self, id: &ObjectId) -> bool {
        self.pending.contains_key(id)
    }

    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn find(&self, id: &ObjectId) -> Option<Pending> {
        let place = *self.pending.get(id)?;
        let draft = self.drafts().find(|draft| draft.pack.number == place.pack);
        Some(draft.expect("a pending record lies in a draft").find(place))
    }

    /// Accepts an object, unless it is pending already. On an error nothing was accepted.
    pub(crate) fn append(
        &mut self,
        shelf: &Shelf,
        database: &Database,
        object: &NewObject<'_>,
    ) -> Result<(), StoreError> {
        if self.is_pending(&object.id) {
            return Ok(());
        }
        let length = u32::try_from(object.bytes.len()).map_err(|_| too_large(object))?;
        self.make_room(shelf, database)?;
        let draft = self.active.as_mut().expect("room was made in an active pack");
        let place = draft.push(Header { kind: object.kind, length, id: object.id }, object.bytes);
        self.pending.insert(object.id, place);
        self.lost.remove(&object.id);
        Ok(())
    }

    /// Sees to it that there is an active pack with room for a record.
    fn make_room(&mut self, shelf: &Shelf, database: &Database) -> Result<(), StoreError> {
        if self.active.as_ref().is_some_and(|draft| draft.is_worth_writing()) {
            self.flush()?;
        }
        if self.active.as_ref().is_some_and(|draft| draft.end() >= PACK_LIMIT) {
            self.flush()?;
            self.full.extend(self.active.take());
        }
        if self.active.is_none() {
            let pack = shelf.take(database, &self.avoid)?;
            self.active = Some(Draft::new(pack));
        }
        Ok(())
    }

    /// Writes the buffer to the pack.
    fn flush(&mut self) -> Result<(), StoreError> {
        let Some(draft) = &mut self.active else { return Ok(()) };
        let Err(source) = draft.flush() else { return Ok(()) };
        let number = draft.pack.number;
        let error = io_failure("writing", pack_name(number), source);
        if !matches!(error, StoreError::Full { .. }) {
            self.suspect(number);
        }
        Err(error)
    }

    /// Writes everything out and says what has to be synced and committed for it to be durable.
    pub(crate) fn batch(&mut self, shelf: &Shelf, database: &Database) -> Result<Batch, StoreError> {
        self.rescue(shelf, database)?;
        if let Some((id, pack)) = self.lost.iter().next() {
            let detail = "it was lost when its pack could not be written; put it again";
            return Err(StoreError::Corrupt { id: *id, place: pack_name(*pack), detail });
        }
        self.flush()?;
        let mut rows: Vec<_> = self.pending.iter().map(|(id, place)| (*id, *place)).collect();
        rows.sort_unstable();
        let used: HashSet<u32> = rows.iter().map(|(_, place)| place.pack).collect();
        let packs = self.drafts().filter(|draft| used.contains(&draft.pack.number));
        Ok(Batch { packs: packs.map(Draft::row).collect(), rows })
    }

    /// Forgets what the index has now.
    pub(crate) fn settle(&mut self, batch: &Batch) {
        for (id, place) in &batch.rows {
            if self.pending.get(id) == Some(place) {
                self.pending.remove(id);
            }
        }
        // A pack of the batch may have become full since, with records that came later.
        let used: HashSet<u32> = match self.full.is_empty() {
            true => HashSet::new(),
            false => self.pending.values().map(|place| place.pack).collect(),
        };
        self.full.retain(|draft| used.contains(&draft.pack.number));
    }

    /// Takes a pack out of use because a write or sync of it failed.
    pub(crate) fn suspect(&mut self, number: u32) {
        self.avoid.insert(number);
        if let Some(draft) = self.active.take_if(|draft| draft.pack.number == number) {
            self.suspect.push(draft);
        }
        if let Some(at) = self.full.iter().position(|draft| draft.pack.number == number) {
            self.suspect.push(self.full.swap_remove(at));
        }
    }

    /// Moves the pending records of suspect packs to a pack that works. What is moved stays moved if the
    /// rest fails.
    fn rescue(&mut self, shelf: &Shelf, database: &Database) -> Result<(), StoreError> {
        while let Some(draft) = self.suspect.last() {
            let number = draft.pack.number;
            let stranded: Vec<_> = self.pending.iter().filter(|(_, place)| place.pack == number).collect();
            let stranded: Vec<_> = stranded.into_iter().map(|(id, place)| (*id, *place)).collect();
            for (id, place) in stranded {
                self.move_record(shelf, database, id, place)?;
            }
            self.suspect.retain(|draft| draft.pack.number != number);
        }
        Ok(())
    }

    fn move_record(
        &mut self,
        shelf: &Shelf,
        database: &Database,
        id: ObjectId,
        place: Place,
    ) -> Result<(), StoreError> {
        let record = match self.find(&id) {
            Some(Pending::InMemory(record)) => Some(record),
            Some(Pending::Written(file, place)) => read_record(&*file, place).ok(),
            None => None,
        };
        let Some(object) = record.and_then(|record| open_record(id, record).ok()) else {
            self.pending.remove(&id);
            self.lost.insert(id, place.pack);
            return Ok(());
        };
        self.make_room(shelf, database)?;
        let draft = self.active.as_mut().expect("room was made in an active pack");
        let moved = draft.push(Header { kind: object.kind, length: place.length, id }, &object.bytes);
        self.pending.insert(id, moved);
        Ok(())
    }

    /// Gives back the room of what will never be committed. Where that fails, the next one who takes the pack does it, or
    /// a sweep.
    pub(crate) fn give_up(&mut self, shelf: &Shelf, database: &Database) {
        if self.pending.is_empty() {
            return;
        }
        for draft in self.active.iter().chain(&self.full) {
            let number = draft.pack.number;
            match database.with(|connection| index::pack(connection, number)) {
                Ok(Some(row)) => _ = draft.pack.file.truncate(row.length),
                Ok(None) => _ = shelf.remove(number),
                Err(_) => {}
            }
        }
        self.pending.clear();
    }

    fn drafts(&self) -> impl Iterator<Item = &Draft> {
        self.active.iter().chain(&self.full).chain(&self.suspect)
    }
}

fn too_large(object: &NewObject<'_>) -> StoreError {
    let source = io::Error::new(io::ErrorKind::FileTooLarge, "an object is at most 4 GiB long");
    StoreError::Io { action: "storing", place: format!("object {}", object.id), source }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use avfs_core::ObjectKind;

    use super::*;
    use crate::embedded::disk::HostDisk;
    use crate::embedded::layout::Layout;

    #[test]
    fn what_is_put_into_a_pack_during_a_commit_that_it_fills_is_found_and_committed() {
        let home = tempfile::tempdir().unwrap();
        let layout = Layout::open(home.path(), true).unwrap();
        let database = Database::open(&layout, Duration::from_secs(10), |_, _| None).unwrap();
        let shelf = Shelf::new(layout, Arc::new(HostDisk));
        let mut appender = Appender::default();
        let put = |appender: &mut Appender, bytes: &[u8]| {
            let id = ObjectKind::Blob.hash(bytes);
            appender.append(&shelf, &database, &NewObject { id, kind: ObjectKind::Blob, bytes }).unwrap();
            id
        };
        put(&mut appender, b"before the commit");
        let batch = appender.batch(&shelf, &database).unwrap();
        let during = put(&mut appender, &vec![1; PACK_LIMIT as usize]);
        let later = put(&mut appender, b"in the next pack");
        appender.settle(&batch);
        assert!(appender.find(&during).is_some());
        let next = appender.batch(&shelf, &database).unwrap();
        let rows: HashSet<ObjectId> = next.rows.iter().map(|(id, _)| *id).collect();
        assert_eq!(rows, HashSet::from([during, later]));
        assert_eq!(next.packs.len(), 2);
        appender.settle(&next);
        assert!(appender.full.is_empty() && appender.pending.is_empty());
    }
}
