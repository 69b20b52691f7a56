//! Which mounts a vault has: a list beside the lock of its owner, so that what a killed owner leaves behind
//! can be found and taken away.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use avfs_core::SnapshotId;
use serde::{Deserialize, Serialize};

use crate::control::{Bytes, LiveOwner};
use crate::error::{Error, Result};
use crate::exec::places::{RUNS, SESSIONS};
use crate::mount::MountOptions;
use crate::name::VaultName;
use crate::owner::{self, Ownership};
use crate::store::Store;
use crate::vault::Vault;

/// The file of the list in the work directory of a vault.
const LIST: &str = "mounts.json";

/// How long a killed process may take to be gone.
const DYING: Duration = Duration::from_secs(1);

/// Held by the thread of an owner that changes its list.
static CHANGING: Mutex<()> = Mutex::new(());

/// One mount of a vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRecord {
    #[serde(with = "host_path")]
    pub dir: PathBuf,
    pub options: Vec<String>,
    /// The process that serves it.
    pub pid: u32,
}

/// A mount of some vault of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMount {
    pub vault: VaultName,
    pub mount: MountRecord,
    /// Whether the process that serves it lives.
    pub alive: bool,
}

impl MountRecord {
    /// A mount that this process serves.
    pub fn ours(dir: &Path, options: &[String]) -> MountRecord {
        MountRecord { dir: dir.to_owned(), options: options.to_vec(), pid: std::process::id() }
    }
}

impl Vault {
    fn mount_list(&self) -> Option<PathBuf> {
        Some(owner::work_directory(self.store().home()?, self.id()).join(LIST))
    }

    /// The mounts of the vault, also those that a killed process left behind. Of a list that cannot be read the owner
    /// knows the mounts, if there is one.
    pub fn mount_records(&self) -> Result<Vec<MountRecord>> {
        Ok(self.listed_mounts()?.unwrap_or_else(|| self.mounts_of_owner()))
    }

    /// What the list says; `None` if it cannot be read.
    fn listed_mounts(&self) -> Result<Option<Vec<MountRecord>>> {
        let Some(list) = self.mount_list() else { return Ok(Some(Vec::new())) };
        match std::fs::read(&list) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(Vec::new())),
            Err(source) => Err(failed("reading", &list, source)),
        }
    }

    fn mounts_of_owner(&self) -> Vec<MountRecord> {
        let mounts = self.live_owner().ok().flatten().and_then(|owner| owner.mounts().ok());
        mounts.unwrap_or_default().into_iter().map(|state| state.record).collect()
    }

    /// The list of mounts, if it is there and cannot be read.
    pub(crate) fn unreadable_mounts(&self) -> Option<PathBuf> {
        let is_unreadable = matches!(self.listed_mounts(), Ok(None));
        self.mount_list().filter(|_| is_unreadable)
    }

    /// Throws a list away that cannot be read, and returns its name. It is soft: the owner writes it again.
    pub(crate) fn drop_unreadable_mounts(&self) -> Result<Option<PathBuf>> {
        let Some(list) = self.unreadable_mounts() else { return Ok(None) };
        std::fs::remove_file(&list).map_err(|source| failed("removing", &list, source))?;
        Ok(Some(list))
    }

    /// The earlier states that are mounted. One that is gone was not kept in time, and its mount is refused.
    pub(crate) fn mounted_states(&self) -> Result<Vec<SnapshotId>> {
        let mounts = self.mount_records()?;
        let options = mounts.iter().filter_map(|mount| MountOptions::parse(&mount.options).ok());
        Ok(options.filter_map(|options| options.at).filter(|at| self.snapshot(*at).is_ok()).collect())
    }

    /// Mounts of runs and sessions are found by directories of their own, with locks that tell who died. They come and
    /// go too often to be listed.
    fn is_listed(&self, dir: &Path) -> bool {
        let of_runs = |home: &Path| [RUNS, SESSIONS].iter().any(|kind| dir.starts_with(home.join(kind)));
        !self.store().home().is_some_and(of_runs)
    }

    /// Writes a mount down. Only the owner of the vault does this.
    pub(crate) fn note_mount(&self, mount: &MountRecord) -> Result<()> {
        if !self.is_listed(&mount.dir) || self.store().is_read_only() {
            return Ok(());
        }
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mounts = self.listed_mounts()?.unwrap_or_default();
        mounts.retain(|known| known.dir != mount.dir);
        mounts.push(mount.clone());
        self.write_mounts(&mounts)
    }

    /// Strikes a mount from the list. Only the owner of the vault does this.
    pub(crate) fn forget_mount(&self, dir: &Path) -> Result<()> {
        if self.store().is_read_only() {
            return Ok(());
        }
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mounts = self.listed_mounts()?.unwrap_or_default();
        let before = mounts.len();
        mounts.retain(|known| known.dir != dir);
        if mounts.len() == before { Ok(()) } else { self.write_mounts(&mounts) }
    }

    /// The list is replaced as a whole: whoever reads it, also after a power loss, sees the old one or the new
    /// one.
    fn write_mounts(&self, mounts: &[MountRecord]) -> Result<()> {
        let Some(list) = self.mount_list() else { return Ok(()) };
        let draft = list.with_extension("new");
        File::create(&draft)
            .and_then(|mut file| {
                file.write_all(&crate::record::encode(&mounts)).and_then(|()| file.sync_all())
            })
            .and_then(|()| std::fs::rename(&draft, &list))
            .map_err(|source| failed("writing", &list, source))
    }
}

impl Store {
    /// The mounts of all vaults.
    pub fn mounts(&self) -> Result<Vec<KnownMount>> {
        let mut known = Vec::new();
        for record in self.vault_records()? {
            let vault = Vault::new(self.clone(), record.id);
            let mounts = vault.mount_records()?;
            if mounts.is_empty() {
                continue;
            }
            let alive = match self.own_at_once(record.id, record.name.as_str()) {
                Ok(_) => false,
                Err(Error::Busy { .. }) => true,
                Err(error) => return Err(error),
            };
            let name = record.name;
            known.extend(mounts.into_iter().map(|mount| KnownMount { vault: name.clone(), mount, alive }));
        }
        Ok(known)
    }

    /// Lists of mounts that cannot be read. What they said is known to the owners, if those live.
    pub fn unreadable_mount_lists(&self) -> Result<Vec<PathBuf>> {
        let vaults = self.vault_records()?.into_iter().map(|record| Vault::new(self.clone(), record.id));
        Ok(vaults.filter_map(|vault| vault.unreadable_mounts()).collect())
    }

    /// Calls `take_away` with every mount whose owner is dead, and forgets those that it could take away.
    /// Nobody can own such a vault meanwhile.
    pub fn clean_up_mounts(&self, take_away: &mut dyn FnMut(&MountRecord) -> Result<()>) -> Result<()> {
        for record in self.vault_records()? {
            let vault = Vault::new(self.clone(), record.id);
            if vault.mount_records()?.is_empty() {
                continue;
            }
            let Some(_ownership) = vault.own_if_left()? else { continue };
            for mount in vault.mount_records()? {
                take_away(&mount)?;
                vault.forget_mount(&mount.dir)?;
            }
        }
        Ok(())
    }
}

impl Vault {
    /// Becomes the owner if nobody is. One that was killed holds its lock for a moment longer, and answers nobody; one
    /// that is there and silent is left alone.
    fn own_if_left(&self) -> Result<Option<Ownership>> {
        let start = Instant::now();
        loop {
            match self.store().own_at_once(self.id(), self.name()?.as_str()) {
                Ok(ownership) => return Ok(Some(ownership)),
                Err(Error::Busy { .. }) if start.elapsed() > DYING || LiveOwner::is_there(self, DYING) => {
                    return Ok(None);
                }
                Err(Error::Busy { .. }) => std::thread::sleep(Duration::from_millis(2)),
                Err(error) => return Err(error),
            }
        }
    }
}

fn failed(action: &'static str, list: &Path, source: io::Error) -> Error {
    Error::Host { action, place: list.display().to_string(), source }
}

mod host_path {
    use serde::{Deserializer, Serializer};

    use super::*;

    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        Bytes::of_host(path).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        let path = Bytes::deserialize(deserializer)?.to_host();
        path.ok_or_else(|| serde::de::Error::custom("not the bytes of a path"))
    }
}

#[cfg(test)]
mod tests {
    use avfs_core::{Retention, TreePath};

    use super::*;
    use crate::RetentionPolicy;

    #[test]
    fn a_state_that_is_mounted_stays_until_it_is_unmounted() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let vault = store.create_vault(&VaultName::new("main").unwrap()).unwrap();
        let write = |bytes: &[u8]| {
            let open = vault.open().unwrap();
            open.write_bytes(&TreePath::parse(b"/a").unwrap(), bytes).unwrap();
            open.settle().unwrap()
        };
        let old = write(b"old");
        write(b"new");
        let place = Path::new("/mnt/past");
        let options = MountOptions { at: Some(old), ..MountOptions::default() };
        vault.note_mount(&MountRecord::ours(place, &options.words())).unwrap();
        let times = Retention { all: 0, hourly: 0, daily: 0 };
        store.prune(&RetentionPolicy { times, disk_share: 0.0 }, false).unwrap();
        store.collect_garbage(&mut |_| true).unwrap();
        // Through a store that remembers nothing.
        let is_there = || {
            let store = Store::open(home.path()).unwrap();
            store.objects().snapshot(old).is_ok()
        };
        assert!(is_there());
        vault.forget_mount(place).unwrap();
        store.collect_garbage(&mut |_| true).unwrap();
        assert!(!is_there());
    }
}
