//! Objects that this process has put and the index does not know yet: bytes in its packs, and future rows.
//!
//! Records gather in a buffer and are written to the pack in large writes. Nothing is dropped from here
//! before the index has it, so that a failed commit can be retried:
//!
//! - If the disk is full, the buffer is kept; the next write starts at the same offset.
//! - Any other failure of a write or sync makes the pack *suspect*: the kernel may have dropped pages that it
//!   could not write, and would report the next sync as a success. The pack is never written to or synced
//!   again. Its uncommitted records are read back, verified and appended to another pack.
//! - A record that cannot be read back is *lost*: every sync and commit fails and names it until it is put
//!   again, because a commit guarantees everything that was put before it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use avfs_core::ObjectId;

use crate::door::{NewObject, StoreError};
use crate::embedded::database::StoreDatabase;
use crate::embedded::disk::DiskFile;
use crate::embedded::failure::io_failure;
use crate::embedded::index::{self, PackRow};
use crate::embedded::layout::pack_name;
use crate::embedded::pack_buffer::{PackBuffer, PendingObject};
use crate::embedded::pack_directory::{PACK_LIMIT, PackDirectory, read_record};
use crate::embedded::record::{RecordHeader, RecordPlace, open_record};

#[derive(Default)]
pub(crate) struct PackAppender {
    active: Option<PackBuffer>,
    /// Packs that are full and written, but not yet synced and committed.
    full: Vec<PackBuffer>,
    suspect: Vec<PackBuffer>,
    /// Packs that failed once: this process does not append to them again.
    avoid: HashSet<u32>,
    pending: HashMap<ObjectId, RecordPlace>,
    lost: HashMap<ObjectId, u32>,
}

/// Everything that one commit makes durable.
pub(crate) struct CommitBatch {
    /// Sorted by id, so that the index is filled from left to right.
    pub rows: Vec<(ObjectId, RecordPlace)>,
    pub packs: Vec<(PackRow, Arc<dyn DiskFile>)>,
}

impl PackAppender {
    pub(crate) fn is_pending(&self, id: &ObjectId) -> bool {
        self.pending.contains_key(id)
    }

    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn find(&self, id: &ObjectId) -> Option<PendingObject> {
        let place = *self.pending.get(id)?;
        let buffered = self.buffers().find(|buffered| buffered.pack.number == place.pack);
        Some(buffered.expect("a pending record lies in a buffer").find(place))
    }

    /// Accepts an object, unless it is pending already. On an error, nothing was accepted.
    pub(crate) fn append(
        &mut self,
        pack_directory: &PackDirectory,
        database: &StoreDatabase,
        object: &NewObject<'_>,
    ) -> Result<(), StoreError> {
        if self.is_pending(&object.id) {
            return Ok(());
        }
        let length = u32::try_from(object.bytes.len()).map_err(|_| too_large(object))?;
        self.make_room(pack_directory, database)?;
        let buffered = self.active.as_mut().expect("room was made in an active pack");
        let place = buffered.push(
            RecordHeader {
                kind: object.kind,
                length,
                id: object.id,
            },
            object.bytes,
        );
        self.pending.insert(object.id, place);
        self.lost.remove(&object.id);
        Ok(())
    }

    /// Ensures that an active pack has room for a record.
    fn make_room(
        &mut self,
        pack_directory: &PackDirectory,
        database: &StoreDatabase,
    ) -> Result<(), StoreError> {
        if self
            .active
            .as_ref()
            .is_some_and(|buffered| buffered.is_worth_writing())
        {
            self.flush()?;
        }
        if self
            .active
            .as_ref()
            .is_some_and(|buffered| buffered.end() >= PACK_LIMIT)
        {
            self.flush()?;
            self.full.extend(self.active.take());
        }
        if self.active.is_none() {
            let pack = pack_directory.take(database, &self.avoid)?;
            self.active = Some(PackBuffer::new(pack));
        }
        Ok(())
    }

    /// Writes the buffer to the pack.
    fn flush(&mut self) -> Result<(), StoreError> {
        let Some(buffered) = &mut self.active else {
            return Ok(());
        };
        let Err(source) = buffered.flush() else {
            return Ok(());
        };
        let number = buffered.pack.number;
        let error = io_failure("writing", pack_name(number), source);
        // A full disk does not discredit the pack; after any other error its contents are unknown.
        if !matches!(error, StoreError::Full { .. }) {
            self.suspect(number);
        }
        Err(error)
    }

    /// Writes out all buffers and returns the packs and rows that must be synced and committed.
    pub(crate) fn batch(
        &mut self,
        pack_directory: &PackDirectory,
        database: &StoreDatabase,
    ) -> Result<CommitBatch, StoreError> {
        self.rescue(pack_directory, database)?;
        if let Some((id, pack)) = self.lost.iter().next() {
            let detail = "it was lost when its pack could not be written; put it again";
            return Err(StoreError::Corrupt {
                id: *id,
                place: pack_name(*pack),
                detail,
            });
        }
        self.flush()?;
        let mut rows: Vec<_> = self.pending.iter().map(|(id, place)| (*id, *place)).collect();
        rows.sort_unstable();
        let used: HashSet<u32> = rows.iter().map(|(_, place)| place.pack).collect();
        let packs = self
            .buffers()
            .filter(|buffered| used.contains(&buffered.pack.number));
        Ok(CommitBatch {
            packs: packs.map(PackBuffer::row).collect(),
            rows,
        })
    }

    /// Drops the records that the index now has.
    pub(crate) fn committed(&mut self, batch: &CommitBatch) {
        for (id, place) in &batch.rows {
            // A record that was rescued to another pack in the meantime is still pending there.
            if self.pending.get(id) == Some(place) {
                self.pending.remove(id);
            }
        }
        // A pack of the batch may have become full in the meantime, with later records.
        let used: HashSet<u32> = if self.full.is_empty() {
            HashSet::new()
        } else {
            self.pending.values().map(|place| place.pack).collect()
        };
        self.full.retain(|buffered| used.contains(&buffered.pack.number));
    }

    /// Takes a pack out of use because a write or sync of it failed.
    pub(crate) fn suspect(&mut self, number: u32) {
        self.avoid.insert(number);
        if let Some(buffered) = self.active.take_if(|buffered| buffered.pack.number == number) {
            self.suspect.push(buffered);
        }
        if let Some(at) = self
            .full
            .iter()
            .position(|buffered| buffered.pack.number == number)
        {
            self.suspect.push(self.full.swap_remove(at));
        }
    }

    /// Moves the pending records of suspect packs to a working pack. Records that were moved stay moved if
    /// the rest fails.
    fn rescue(&mut self, pack_directory: &PackDirectory, database: &StoreDatabase) -> Result<(), StoreError> {
        while let Some(buffered) = self.suspect.last() {
            let number = buffered.pack.number;
            let stranded: Vec<_> = self
                .pending
                .iter()
                .filter(|(_, place)| place.pack == number)
                .collect();
            let stranded: Vec<_> = stranded.into_iter().map(|(id, place)| (*id, *place)).collect();
            for (id, place) in stranded {
                self.move_record(pack_directory, database, id, place)?;
            }
            self.suspect.retain(|buffered| buffered.pack.number != number);
        }
        Ok(())
    }

    fn move_record(
        &mut self,
        pack_directory: &PackDirectory,
        database: &StoreDatabase,
        id: ObjectId,
        place: RecordPlace,
    ) -> Result<(), StoreError> {
        let record = match self.find(&id) {
            Some(PendingObject::InMemory(record)) => Some(record),
            Some(PendingObject::Written(file, place)) => read_record(&*file, place).ok(),
            None => None,
        };
        let Some(object) = record.and_then(|record| open_record(id, record).ok()) else {
            self.pending.remove(&id);
            self.lost.insert(id, place.pack);
            return Ok(());
        };
        self.make_room(pack_directory, database)?;
        let buffered = self.active.as_mut().expect("room was made in an active pack");
        let moved = buffered.push(
            RecordHeader {
                kind: object.kind,
                length: place.length,
                id,
            },
            &object.bytes,
        );
        self.pending.insert(id, moved);
        Ok(())
    }

    /// Releases the space of records that will never be committed. If that fails, the next writer of the pack
    /// or a sweep does it.
    pub(crate) fn give_up(&mut self, pack_directory: &PackDirectory, database: &StoreDatabase) {
        if self.pending.is_empty() {
            return;
        }
        for buffered in self.active.iter().chain(&self.full) {
            let number = buffered.pack.number;
            match database.with(|connection| index::pack(connection, number)) {
                // What the committed row says is the truth: bytes behind it belong to no object.
                Ok(Some(row)) => _ = buffered.pack.file.truncate(row.length),
                Ok(None) => _ = pack_directory.remove(number),
                Err(_) => {}
            }
        }
        self.pending.clear();
    }

    fn buffers(&self) -> impl Iterator<Item = &PackBuffer> {
        self.active.iter().chain(&self.full).chain(&self.suspect)
    }
}

fn too_large(object: &NewObject<'_>) -> StoreError {
    let source = io::Error::new(io::ErrorKind::FileTooLarge, "an object is at most 4 GiB long");
    StoreError::Io {
        action: "storing",
        place: format!("object {}", object.id),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use avfs_core::ObjectKind;

    use super::*;
    use crate::embedded::disk::HostDisk;
    use crate::embedded::layout::StoreLayout;

    #[test]
    fn object_put_into_a_pack_during_the_commit_that_fills_it_is_found_and_committed() {
        let home = tempfile::tempdir().unwrap();
        let layout = StoreLayout::open(home.path(), true).unwrap();
        let database = StoreDatabase::open(&layout, Duration::from_secs(10), |_, _| None).unwrap();
        let pack_directory = PackDirectory::new(layout, Arc::new(HostDisk));
        let mut appender = PackAppender::default();
        let put = |appender: &mut PackAppender, bytes: &[u8]| {
            let id = ObjectKind::Blob.hash(bytes);
            appender
                .append(
                    &pack_directory,
                    &database,
                    &NewObject {
                        id,
                        kind: ObjectKind::Blob,
                        bytes,
                    },
                )
                .unwrap();
            id
        };
        put(&mut appender, b"before the commit");
        let batch = appender.batch(&pack_directory, &database).unwrap();
        let during = put(&mut appender, &vec![1; PACK_LIMIT as usize]);
        let later = put(&mut appender, b"in the next pack");
        appender.committed(&batch);
        assert!(appender.find(&during).is_some());
        let next = appender.batch(&pack_directory, &database).unwrap();
        let rows: HashSet<ObjectId> = next.rows.iter().map(|(id, _)| *id).collect();
        assert_eq!(rows, HashSet::from([during, later]));
        assert_eq!(next.packs.len(), 2);
        appender.committed(&next);
        assert!(appender.full.is_empty() && appender.pending.is_empty());
    }
}
