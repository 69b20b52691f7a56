//! The contents of a store and the space that it occupies.

use avfs_core::ObjectId;

use crate::door::StoreError;
use crate::embedded::EmbeddedStore;
use crate::embedded::failure::io_failure;
use crate::embedded::index;
use crate::upkeep::StoreUsage;

impl EmbeddedStore {
    /// Counts what is committed. Reads the index, but no pack.
    pub fn usage(&self) -> Result<StoreUsage, StoreError> {
        let mut usage = StoreUsage::default();
        self.for_each_object(&mut |_, length| {
            usage.objects += 1;
            usage.object_bytes += length;
        })?;
        let layout = self.pack_directory.layout();
        for number in layout.pack_numbers()? {
            usage.pack_bytes += file_len(&layout.pack(number))?;
        }
        usage.db_bytes = file_len(&layout.database())? + file_len(&layout.write_ahead_log())?;
        Ok(usage)
    }

    /// Calls `visit` with the id and length of every committed object, in the order of ids and all as of
    /// one moment.
    pub fn for_each_object(&self, visit: &mut dyn FnMut(ObjectId, u64)) -> Result<(), StoreError> {
        self.database.with(|connection| {
            index::for_each(connection, &mut |id, place| visit(id, u64::from(place.length)))
        })
    }
}

/// The length of a file; 0 if it is missing, as packs and logs may be at any time.
fn file_len(path: &std::path::Path) -> Result<u64, StoreError> {
    match std::fs::metadata(path) {
        Ok(info) => Ok(info.len()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(io_failure("looking at", path.display().to_string(), e)),
    }
}
