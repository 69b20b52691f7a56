//! A store: the vaults in it, and how they come and go.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use avfs_core::{Root, Snapshot, SnapshotId, Timestamp};
use avfs_store::{CommitError, EmbeddedStore, MemoryStore, OpenOptions, RefEdit, RefRange, RefStore};
use avfs_tree::{Clock, ObjectWriter, Objects, SystemClock};

use crate::audit::{self, AuditEntry, Event};
use crate::conflicts::OpenConflicts;
use crate::deed::Deed;
use crate::error::{Error, Result};
use crate::name::{VaultName, closest};
use crate::owner::{self, Ownership};
use crate::prune::RetentionPolicy;
use crate::record::{self, AuditHead, VaultId, VaultRecord, key};
use crate::source::HostSources;
use crate::through::KnownRules;
use crate::vault::{Vault, VaultInfo};

/// How often a change of records is tried against others who change them too.
const ATTEMPTS: usize = 100;

/// On whose behalf things are done: the author of snapshots and the owner of new files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

impl Actor {
    /// The user that runs this process.
    pub fn current() -> Actor {
        let uid = rustix::process::geteuid().as_raw();
        let name = ["AVFS_ACTOR", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
        Actor {
            name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("uid {uid}")),
            uid,
            gid: rustix::process::getegid().as_raw(),
        }
    }
}

/// How a store is used.
#[derive(Clone)]
pub struct StoreOptions {
    pub store: OpenOptions,
    pub actor: Actor,
    pub clock: Arc<dyn Clock>,
    /// What automatic snapshots may cost.
    pub retention: RetentionPolicy,
    /// How long to wait for another process that has a vault open.
    pub patience: Duration,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            store: OpenOptions::default(),
            actor: Actor::current(),
            clock: Arc::new(SystemClock),
            retention: RetentionPolicy::default(),
            patience: Duration::from_secs(10),
        }
    }
}

/// The vaults of a store.
#[derive(Debug, Default)]
pub struct VaultList {
    pub vaults: Vec<VaultInfo>,
    /// Those whose present state cannot be read, and why.
    pub unreadable: Vec<(VaultName, Error)>,
}

/// Where everything lives. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    /// `None`: in memory.
    place: Option<Embedded>,
    objects: Objects,
    options: StoreOptions,
    /// The vaults that have an owner, for a store in memory.
    taken: Arc<Mutex<HashSet<VaultId>>>,
    /// Lists of rules that were read, made ready to decide: many tasks have the same.
    rules: KnownRules,
}

/// What was kept of sources is written down at the end, at the latest. If that fails, they are asked again.
impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.objects.commit_kept();
    }
}

struct Embedded {
    home: PathBuf,
    store: Arc<EmbeddedStore>,
}

impl Store {
    /// Opens the store in `home`, and makes it if there is none.
    pub fn open(home: &Path) -> Result<Store> {
        Store::open_with(home, StoreOptions::default())
    }

    pub fn open_with(home: &Path, options: StoreOptions) -> Result<Store> {
        Store::open_behind(home, options, |store| store)
    }

    /// As [`Store::open_with`], with something before the doors of the store: the place where tests have others
    /// work between two steps.
    #[doc(hidden)]
    pub fn open_behind(
        home: &Path,
        options: StoreOptions,
        before: impl FnOnce(Arc<EmbeddedStore>) -> Arc<dyn avfs_store::Store>,
    ) -> Result<Store> {
        let door = OpenOptions { ref_age: record::age, ..options.store.clone() };
        let store = Arc::new(EmbeddedStore::open(home, door)?);
        let objects = Objects::new(before(Arc::clone(&store)));
        HostSources::install(&objects, Some(home));
        let place = Some(Embedded { home: home.to_owned(), store });
        Ok(Store {
            inner: Arc::new(Inner {
                place,
                objects,
                options,
                taken: Arc::default(),
                rules: KnownRules::default(),
            }),
        })
    }

    /// A store that lives and dies with this process.
    pub fn in_memory() -> Store {
        Store::in_memory_with(StoreOptions::default())
    }

    pub fn in_memory_with(options: StoreOptions) -> Store {
        Store::behind(Arc::new(MemoryStore::new()), options)
    }

    /// A store behind doors of one's own. Its vaults are owned within this process.
    pub fn behind(doors: Arc<dyn avfs_store::Store>, options: StoreOptions) -> Store {
        let objects = Objects::new(doors);
        HostSources::install(&objects, None);
        Store {
            inner: Arc::new(Inner {
                place: None,
                objects,
                options,
                taken: Arc::default(),
                rules: KnownRules::default(),
            }),
        }
    }

    /// The directory of the store; `None` for one in memory.
    pub fn home(&self) -> Option<&Path> {
        self.inner.place.as_ref().map(|place| place.home.as_path())
    }

    /// How many bytes the disk of the store has left; for a store in memory, as many as one can count.
    pub(crate) fn free_bytes(&self) -> u64 {
        let disk = self.home().map(rustix::fs::statvfs);
        let Some(Ok(disk)) = disk else { return i64::MAX as u64 };
        disk.f_bavail.saturating_mul(disk.f_frsize)
    }

    /// Whether nothing can be written where the store is, so that nobody changes it either.
    pub fn is_read_only(&self) -> bool {
        let disk = self.home().map(rustix::fs::statvfs);
        disk.is_some_and(|disk| {
            disk.is_ok_and(|disk| disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
        })
    }

    pub(crate) fn embedded(&self) -> Option<&EmbeddedStore> {
        self.inner.place.as_ref().map(|place| &*place.store)
    }

    pub fn objects(&self) -> &Objects {
        &self.inner.objects
    }

    pub(crate) fn known_rules(&self) -> &KnownRules {
        &self.inner.rules
    }

    pub(crate) fn refs(&self) -> &dyn RefStore {
        &**self.inner.objects.store()
    }

    pub fn actor(&self) -> &Actor {
        &self.inner.options.actor
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.inner.options.clock)
    }

    pub fn now(&self) -> Timestamp {
        self.inner.options.clock.now()
    }

    pub fn retention(&self) -> &RetentionPolicy {
        &self.inner.options.retention
    }

    /// How long to wait for another process.
    pub(crate) fn patience(&self) -> Duration {
        self.inner.options.patience
    }

    /// Takes ownership of a vault, or says who has it.
    pub(crate) fn own_at_once(&self, id: VaultId, name: &str) -> Result<Ownership> {
        match self.home() {
            Some(home) => owner::take(&owner::work_directory(home, id), name),
            None => owner::take_in_process(&self.inner.taken, id, name),
        }
    }

    /// The vault with this name.
    pub fn vault(&self, name: &str) -> Result<Vault> {
        let id = record::read::<VaultId>(self.refs(), &key::name(name))?;
        match id {
            Some((id, _)) => Ok(Vault::new(self.clone(), id)),
            None => Err(self.unknown_vault(name)?),
        }
    }

    /// The vault with this number; whether there is one is found out when it is used.
    pub fn vault_by_id(&self, id: VaultId) -> Vault {
        Vault::new(self.clone(), id)
    }

    /// The names of all vaults, in order. Costs nothing of what they hold.
    pub fn vault_names(&self) -> Result<Vec<String>> {
        let names = self.refs().scan(&RefRange::prefix(key::NAMES))?;
        Ok(names.iter().filter_map(|(key, _)| key.strip_prefix(key::NAMES)).map(str::to_owned).collect())
    }

    fn unknown_vault(&self, name: &str) -> Result<Error> {
        let names = self.vault_names()?;
        let similar = closest(name, names.iter().map(String::as_str));
        Ok(Error::UnknownVault { name: avfs_core::printable(name.as_bytes()), similar })
    }

    pub fn has_vault(&self, name: &str) -> Result<bool> {
        Ok(self.refs().read(&key::name(name))?.is_some())
    }

    /// All vaults, by name. One that cannot be read does not hide the others.
    pub fn vaults(&self) -> Result<VaultList> {
        let mut records = self.vault_records()?;
        if self.settle_owners(&records) {
            records = self.vault_records()?;
        }
        let mut list = VaultList::default();
        for record in &records {
            match self.info_of(record, &records) {
                Ok(info) => list.vaults.push(info),
                // What is gone was deleted meanwhile, and may have been collected.
                Err(_) if self.refs().read(&key::vault(record.id))?.is_none() => {}
                Err(error) => list.unreadable.push((record.name.clone(), error)),
            }
        }
        list.vaults.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(list)
    }

    /// Has the owners that answer take a snapshot of what they have not stored yet; returns whether there are
    /// any. What one does not give that does not answer, cannot be had.
    pub(crate) fn settle_owners(&self, records: &[VaultRecord]) -> bool {
        let vaults = records.iter().map(|record| Vault::new(self.clone(), record.id));
        vaults.filter(|vault| vault.settle_owner().unwrap_or(false)).count() > 0
    }

    pub(crate) fn vault_records(&self) -> Result<Vec<VaultRecord>> {
        let found = self.refs().scan(&RefRange::prefix(key::VAULTS))?;
        found.iter().map(|(key, bytes)| record::decode(key, bytes)).collect()
    }

    pub(crate) fn info_of(&self, record: &VaultRecord, all: &[VaultRecord]) -> Result<VaultInfo> {
        let root = self.objects().snapshot(record.head.snapshot)?.root;
        let parent = record.parent.map(|parent| {
            let name = all.iter().find(|other| other.id == parent.vault).map(|other| other.name.clone());
            (name, parent.snapshot)
        });
        Ok(VaultInfo {
            id: record.id,
            name: record.name.clone(),
            head: record.head.snapshot,
            files: root.totals.inodes,
            bytes: root.totals.bytes,
            created: record.created,
            parent: parent.as_ref().and_then(|(name, _)| name.clone()),
            fork_base: parent.map(|(_, snapshot)| snapshot),
            snapshots: record.seq,
            max_bytes: record.max_bytes,
            max_files: record.max_files,
            conflicts: OpenConflicts::count(self, record.head.conflicts)?,
            audit_head: record.audit.hash.clone(),
        })
    }

    pub(crate) fn put_snapshot(
        &self,
        root: Root,
        parents: Vec<SnapshotId>,
        deed: &Deed<'_>,
    ) -> Result<SnapshotId> {
        let (time, author) = (self.now(), deed.actor.to_owned());
        let snapshot = Snapshot { root, parents, time, author, reason: deed.line() };
        let writer = ObjectWriter::new(self.objects());
        let id = writer.put_snapshot(&snapshot)?;
        writer.flush()?;
        Ok(id)
    }

    /// Collects edits and commits them; when others were faster, collects them anew.
    pub(crate) fn retry<T>(&self, mut collect: impl FnMut(&mut Vec<RefEdit>) -> Result<T>) -> Result<T> {
        let mut contended = String::new();
        for _ in 0..ATTEMPTS {
            let mut edits = Vec::new();
            let value = collect(&mut edits)?;
            match self.refs().commit(&edits) {
                Ok(()) => return Ok(value),
                Err(CommitError::Conflict { key }) => contended = key,
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
        Err(Error::Contended { key: contended })
    }

    /// The edits that append an event to the store's own audit log.
    pub(crate) fn log(
        &self,
        edits: &mut Vec<RefEdit>,
        action: &str,
        vault: &str,
        detail: String,
    ) -> Result<()> {
        let old: Option<(AuditHead, Vec<u8>)> = record::read(self.refs(), key::STORE_AUDIT)?;
        let (mut head, expect) = match old {
            Some((head, bytes)) => (head, Some(bytes)),
            None => (AuditHead::default(), None),
        };
        let event = Event {
            time: self.now(),
            actor: self.actor().name.clone(),
            vault: vault.to_owned(),
            action: action.to_owned(),
            detail,
            snapshot: None,
        };
        edits.push(audit::append(VaultId::STORE, &mut head, event));
        edits.push(RefEdit { key: key::STORE_AUDIT.into(), expect, value: Some(record::encode(&head)) });
        Ok(())
    }

    /// The store's own audit log: vaults renamed and deleted, garbage collected.
    pub fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>> {
        audit::entries(self.refs(), VaultId::STORE, after, limit)
    }

    /// Checks the store's own audit log; returns how many entries it has.
    pub fn verify_audit(&self, expect: Option<&str>) -> Result<u64> {
        let head = || {
            let head = record::read::<AuditHead>(self.refs(), key::STORE_AUDIT)?;
            Ok(head.map(|(head, _)| head).unwrap_or_default())
        };
        audit::verify(self.refs(), "the store", VaultId::STORE, &head, expect)
    }

    /// The vault that is used where none is named.
    pub fn current_vault(&self) -> Result<Option<String>> {
        Ok(record::read::<String>(self.refs(), key::CURRENT_VAULT)?.map(|(name, _)| name))
    }

    pub fn use_vault(&self, name: &str) -> Result<()> {
        self.vault(name)?;
        self.choose(Some(name))
    }

    /// From now on, no vault is chosen for all directories.
    pub fn use_no_vault(&self) -> Result<()> {
        self.choose(None)
    }

    fn choose(&self, name: Option<&str>) -> Result<()> {
        self.retry(|edits| {
            let expect = self.refs().read(key::CURRENT_VAULT)?;
            let value = name.map(|name| record::encode(&name));
            if expect.is_some() || value.is_some() {
                edits.push(RefEdit { key: key::CURRENT_VAULT.into(), expect, value });
            }
            Ok(())
        })
    }
}
