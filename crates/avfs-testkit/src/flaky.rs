//! A disk that fails on request.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use avfs_store::{Disk, DiskFile, FileAccess, HostDisk};

/// The failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The disk is full.
    Full,
    /// The disk reports an error.
    Broken,
    /// Only this many bytes of a write are stored; the caller gets a short count.
    Short(usize),
    /// As `Broken`, and the kernel drops the bytes that it could not write: they read back as zeros.
    Forgotten,
}

/// The host's disk with faults, counters and power cuts. Clones are the same disk.
#[derive(Clone, Default)]
pub struct FlakyDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    write_fault: Option<Fault>,
    sync_fault: Option<Fault>,
    syncs: usize,
    directory_syncs: usize,
    /// How much of each file survives a power cut.
    durable: HashMap<PathBuf, u64>,
}

struct FlakyFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    disk: FlakyDisk,
}

impl FlakyDisk {
    pub fn new() -> FlakyDisk {
        FlakyDisk::default()
    }

    /// From now on every write fails like this, or none does.
    pub fn fail_writes(&self, fault: Option<Fault>) {
        self.state().write_fault = fault;
    }

    /// From now on every sync of a file fails like this, or none does.
    pub fn fail_syncs(&self, fault: Option<Fault>) {
        self.state().sync_fault = fault;
    }

    /// Syncs of files, and of directories, so far.
    pub fn syncs(&self) -> (usize, usize) {
        let state = self.state();
        (state.syncs, state.directory_syncs)
    }

    /// Every file loses what was not synced.
    pub fn cut_power(&self) {
        for (path, length) in &self.state().durable {
            if let Ok(file) = HostDisk.open(path, FileAccess::Write) {
                file.truncate(*length).unwrap();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Disk for FlakyDisk {
    fn open(&self, path: &Path, access: FileAccess) -> io::Result<Arc<dyn DiskFile>> {
        let file = HostDisk.open(path, access)?;
        let length = file.length()?;
        self.state().durable.entry(path.to_owned()).or_insert(length);
        Ok(Arc::new(FlakyFile {
            path: path.to_owned(),
            file,
            disk: self.clone(),
        }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.state().durable.remove(path);
        HostDisk.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.state().directory_syncs += 1;
        HostDisk.sync_dir(path)
    }
}

impl FlakyFile {
    /// Replaces everything that was never synced with zeros.
    fn forget(&self) -> io::Result<()> {
        let durable = self.disk.state().durable[&self.path];
        let length = self.file.length()?;
        self.file.truncate(durable)?;
        self.file.truncate(length)
    }
}

impl DiskFile for FlakyFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let fault = self.disk.state().write_fault;
        match fault {
            None => self.file.write_at(bytes, offset),
            Some(Fault::Short(most)) => self.file.write_at(&bytes[..bytes.len().min(most)], offset),
            Some(Fault::Full) => {
                // As a real disk does, it accepts what still fits before it refuses.
                self.file.write_at(&bytes[..bytes.len() / 2], offset)?;
                Err(io::ErrorKind::StorageFull.into())
            }
            Some(Fault::Broken) => Err(io::Error::other("injected")),
            Some(Fault::Forgotten) => {
                self.forget()?;
                Err(io::Error::other("injected"))
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        let fault = {
            let mut state = self.disk.state();
            state.syncs += 1;
            state.sync_fault
        };
        match fault {
            None => {
                let length = self.file.length()?;
                self.file.sync()?;
                self.disk.state().durable.insert(self.path.clone(), length);
                Ok(())
            }
            Some(Fault::Full) => Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::Forgotten) => {
                self.forget()?;
                Err(io::Error::other("injected"))
            }
            Some(Fault::Broken | Fault::Short(_)) => Err(io::Error::other("injected")),
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn is_linked(&self) -> io::Result<bool> {
        self.file.is_linked()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
}
