//! The mounts of a vault: a list beside the lock of its owner, so that the leftovers of a killed owner can be
//! found and removed.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use avfs_core::SnapshotId;

use crate::control::LiveOwner;
use crate::control::MountRecord;
use crate::error::{Error, OwnerError, Result};
use crate::mount::MountOptions;
use crate::name::VaultName;
use crate::ownership::Ownership;
use crate::run_leftovers::{RUNS, SESSIONS};
use crate::store::Store;
use crate::vault::Vault;

/// The file of the list in the work directory of a vault.
const LIST: &str = "mounts.json";

/// How long a killed process may take to disappear.
const DYING: Duration = Duration::from_secs(1);

/// Held by the thread of an owner that changes its list.
static CHANGING: Mutex<()> = Mutex::new(());

/// A mount of some vault of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMount {
    /// The name of the vault.
    pub vault: VaultName,
    /// Where it is, and how it was mounted.
    pub mount: MountRecord,
    /// Whether the process that serves it lives.
    pub alive: bool,
}

/// The mounts of a vault, whichever process serves them.
#[derive(Clone, Copy)]
pub struct VaultMounts<'a> {
    pub(crate) vault: &'a Vault,
}

impl VaultMounts<'_> {
    fn mount_list(&self) -> Option<PathBuf> {
        Some(
            self.vault
                .store()
                .work()
                .existing_of_vault(self.vault.id())?
                .join(LIST),
        )
    }

    /// The mounts of the vault, including those that a killed process left behind. If the list cannot be
    /// read, the owner knows the mounts, if there is one.
    pub fn list(&self) -> Result<Vec<MountRecord>> {
        Ok(self.listed_mounts()?.unwrap_or_else(|| self.mounts_of_owner()))
    }

    /// The contents of the list; `None` if it cannot be read.
    fn listed_mounts(&self) -> Result<Option<Vec<MountRecord>>> {
        let Some(list) = self.mount_list() else {
            return Ok(Some(Vec::new()));
        };
        match std::fs::read(&list) {
            // A list that cannot be read is `None`, so that the owner is asked instead.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(Vec::new())),
            Err(source) => Err(failed("reading", &list, source)),
        }
    }

    fn mounts_of_owner(&self) -> Vec<MountRecord> {
        let mounts = self.vault.look_at_owner(LiveOwner::mounts).ok().flatten();
        mounts
            .unwrap_or_default()
            .into_iter()
            .map(|state| state.record)
            .collect()
    }

    /// The list of mounts, if it is there and cannot be read.
    pub(crate) fn unreadable_mounts(&self) -> Option<PathBuf> {
        let is_unreadable = matches!(self.listed_mounts(), Ok(None));
        self.mount_list().filter(|_| is_unreadable)
    }

    /// Throws a list away that cannot be read, and returns its name. It is soft: the owner writes it again.
    pub(crate) fn drop_unreadable_mounts(&self) -> Result<Option<PathBuf>> {
        let Some(list) = self.unreadable_mounts() else {
            return Ok(None);
        };
        std::fs::remove_file(&list).map_err(|source| failed("removing", &list, source))?;
        Ok(Some(list))
    }

    /// The earlier states that are mounted. If a state is gone, it was not kept in time, and its mount is refused.
    pub(crate) fn mounted_states(&self) -> Result<Vec<SnapshotId>> {
        let mounts = self.list()?;
        let options = mounts
            .iter()
            .filter_map(|mount| MountOptions::parse(&mount.options).ok());
        Ok(options
            .filter_map(|options| options.at)
            .filter(|at| self.vault.snapshot(*at).is_ok())
            .collect())
    }

    /// Mounts of runs and sessions are found by directories of their own, whose locks show which are dead.
    /// They come and go too often to be listed.
    fn is_listed(&self, dir: &Path) -> bool {
        let of_runs = |home: &Path| {
            [RUNS, SESSIONS]
                .iter()
                .any(|kind| dir.starts_with(home.join(kind)))
        };
        !self.vault.store().work().existing().is_some_and(of_runs)
    }

    /// Writes a mount down. Only the owner of the vault does this.
    pub(crate) fn note_mount(&self, mount: &MountRecord) -> Result<()> {
        if !self.is_listed(&mount.dir) || self.vault.store().is_read_only() {
            return Ok(());
        }
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mounts = self.listed_mounts()?.unwrap_or_default();
        // A directory has one mount: what a killed owner noted about it is out of date.
        mounts.retain(|known| known.dir != mount.dir);
        mounts.push(mount.clone());
        self.write_mounts(&mounts)
    }

    /// Strikes a mount from the list. Only the owner of the vault does this.
    pub(crate) fn forget_mount(&self, dir: &Path) -> Result<()> {
        if self.vault.store().is_read_only() {
            return Ok(());
        }
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mounts = self.listed_mounts()?.unwrap_or_default();
        let before = mounts.len();
        mounts.retain(|known| known.dir != dir);
        if mounts.len() == before {
            Ok(())
        } else {
            self.write_mounts(&mounts)
        }
    }

    /// The list is replaced atomically: a reader, also after a power loss, sees the old one or the new one.
    fn write_mounts(&self, mounts: &[MountRecord]) -> Result<()> {
        let Some(list) = self.mount_list() else {
            return Ok(());
        };
        let draft = list.with_extension("new");
        File::create(&draft)
            .and_then(|mut file| {
                file.write_all(&crate::record::encode(&mounts))
                    // A list that is cut off would hide a mount that a killed owner leaves.
                    .and_then(|()| file.sync_all())
            })
            // Other processes read the list at any time, and find an old one or a new one.
            .and_then(|()| std::fs::rename(&draft, &list))
            .map_err(|source| failed("writing", &list, source))
    }
}

/// The mounts of all vaults.
#[derive(Clone, Copy)]
pub struct StoreMounts<'a> {
    pub(crate) store: &'a Store,
}

impl StoreMounts<'_> {
    /// The mounts of all vaults.
    pub fn list(&self) -> Result<Vec<KnownMount>> {
        let mut known = Vec::new();
        for record in self.store.vault_records()? {
            let vault = Vault::new(self.store.clone(), record.id);
            let mounts = vault.mounts().list()?;
            if mounts.is_empty() {
                continue;
            }
            let alive = match self.store.own_at_once(record.id, record.name.as_str()) {
                Ok(_) => false,
                Err(Error::Owner(OwnerError::Busy { .. })) => true,
                Err(error) => return Err(error),
            };
            let name = record.name;
            known.extend(mounts.into_iter().map(|mount| KnownMount {
                vault: name.clone(),
                mount,
                alive,
            }));
        }
        Ok(known)
    }

    /// Lists of mounts that cannot be read. The owners know their contents, if they are alive.
    pub fn unreadable_lists(&self) -> Result<Vec<PathBuf>> {
        let vaults = self
            .store
            .vault_records()?
            .into_iter()
            .map(|record| Vault::new(self.store.clone(), record.id));
        Ok(vaults
            .filter_map(|vault| vault.mounts().unreadable_mounts())
            .collect())
    }

    /// Calls `take_away` with every mount whose owner is dead, and removes the successful ones from the list.
    /// No process can own such a vault meanwhile.
    pub fn clean_up(&self, take_away: &mut dyn FnMut(&MountRecord) -> Result<()>) -> Result<()> {
        for record in self.store.vault_records()? {
            let vault = Vault::new(self.store.clone(), record.id);
            if vault.mounts().list()?.is_empty() {
                continue;
            }
            let Some(_ownership) = vault.mounts().own_if_left()? else {
                continue;
            };
            for mount in vault.mounts().list()? {
                // In this order: a mount that cannot be removed stays in the list, and the next attempt
                // finds it.
                take_away(&mount)?;
                vault.mounts().forget_mount(&mount.dir)?;
            }
        }
        Ok(())
    }
}

impl VaultMounts<'_> {
    /// Becomes the owner if the vault has none. A killed owner holds its lock for a moment longer, and does not
    /// answer; a silent owner that is alive is left alone.
    fn own_if_left(&self) -> Result<Option<Ownership>> {
        let start = Instant::now();
        loop {
            match self
                .vault
                .store()
                .own_at_once(self.vault.id(), self.vault.name()?.as_str())
            {
                Ok(ownership) => return Ok(Some(ownership)),
                Err(Error::Owner(OwnerError::Busy { .. }))
                    if start.elapsed() > DYING || LiveOwner::is_there(self.vault, DYING) =>
                {
                    return Ok(None);
                }
                Err(Error::Owner(OwnerError::Busy { .. })) => std::thread::sleep(Duration::from_millis(2)),
                Err(error) => return Err(error),
            }
        }
    }
}

fn failed(action: &'static str, list: &Path, source: io::Error) -> Error {
    Error::Host {
        action,
        place: list.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use avfs_core::{SnapshotRetention, TreePath};

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
        let options = MountOptions {
            at: Some(old),
            ..MountOptions::default()
        };
        vault
            .mounts()
            .note_mount(&MountRecord::ours(place, &options.words()))
            .unwrap();
        let times = SnapshotRetention {
            all: 0,
            hourly: 0,
            daily: 0,
        };
        store
            .prune(
                &RetentionPolicy {
                    times,
                    disk_share: 0.0,
                },
                false,
            )
            .unwrap();
        store.collect_garbage(&mut |_| true).unwrap();
        // Through a store that remembers nothing.
        let is_there = || {
            let store = Store::open(home.path()).unwrap();
            store.objects().snapshot(old).is_ok()
        };
        assert!(is_there());
        vault.mounts().forget_mount(place).unwrap();
        store.collect_garbage(&mut |_| true).unwrap();
        assert!(!is_there());
    }
}
