//! A storage in memory: for tests, and to share files between filesystems of one process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{StorageAdapter, StorageFault, StoredFile};
use crate::error::Result;

/// Keeps files in a map.
#[derive(Debug, Default)]
pub struct MemoryStorageAdapter {
    files: Mutex<BTreeMap<String, StoredFile>>,
}

impl MemoryStorageAdapter {
    /// With these files, each of version 1.
    pub fn new(initial: impl IntoIterator<Item = (String, Vec<u8>)>) -> MemoryStorageAdapter {
        let stored = |(path, data)| (path, StoredFile { data, version: 1 });
        MemoryStorageAdapter {
            files: Mutex::new(initial.into_iter().map(stored).collect()),
        }
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, StoredFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageAdapter for MemoryStorageAdapter {
    fn list(&self) -> Result<Vec<(String, u64)>, StorageFault> {
        let files = self.files();
        Ok(files
            .iter()
            .map(|(path, file)| (path.clone(), file.version))
            .collect())
    }

    fn read(&self, path: &str) -> Result<StoredFile, StorageFault> {
        let file = self.files().get(path).cloned();
        file.ok_or_else(|| StorageFault::Failed(format!("{path} is not stored").into()))
    }

    fn write(&self, path: &str, data: &[u8], version: u64) -> Result<(), StorageFault> {
        let mut files = self.files();
        if let Some(stored) = files.get(path).filter(|stored| stored.version >= version) {
            let text = format!("version {} of {path} is stored", stored.version);
            return Err(StorageFault::Conflict(text.into()));
        }
        let data = data.to_vec();
        files.insert(path.to_owned(), StoredFile { data, version });
        Ok(())
    }

    fn delete(&self, path: &str) -> Result<(), StorageFault> {
        self.files().remove(path);
        Ok(())
    }
}
