//! A store: the vaults in it, and how they come and go.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use avfs_core::map::NodeSource;
use avfs_core::{EntryKind, Root, Slot, Snapshot, SnapshotId, Timestamp};
use avfs_store::{CommitError, EmbeddedStore, MemoryStore, OpenOptions, RefEdit, RefRange, RefStore, Upkeep};
use avfs_tree::{ObjectWriter, Objects, SystemClock, TreeClock};

use crate::audit::{self, AuditEntry, AuditEvent};
use crate::error::{Error, Result, StorageError, VaultError};
use crate::host_sources::HostSources;
use crate::local_work::LocalWork;
use crate::logged_action::LoggedAction;
use crate::name::{VaultName, closest};
use crate::ownership::Ownership;
use crate::record::{self, AuditHead, VaultId, VaultRecord, key};
use crate::retention_policy::RetentionPolicy;
use crate::rule_view::KnownRules;
use crate::taken_trees::TakenTrees;
use crate::vault::{Vault, VaultInfo};

/// How often a change of records is retried if other processes change them too.
const ATTEMPTS: usize = 100;

/// The acting principal: the author of snapshots and the owner of new files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The name in histories and logs.
    pub name: String,
    /// The user who owns new files.
    pub uid: u32,
    /// The group that owns new files.
    pub gid: u32,
}

impl Actor {
    /// The user that runs this process, by number.
    pub fn of_process() -> Actor {
        let uid = rustix::process::geteuid().as_raw();
        Actor {
            name: format!("uid {uid}"),
            uid,
            gid: rustix::process::getegid().as_raw(),
        }
    }

    /// The same user under a name that people know.
    pub fn named(self, name: impl Into<String>) -> Actor {
        Actor {
            name: name.into(),
            ..self
        }
    }
}

/// How a store is used.
#[derive(Clone)]
pub struct StoreOptions {
    /// How the store itself is opened.
    pub store: OpenOptions,
    /// Who acts.
    pub actor: Actor,
    /// The time of day.
    pub clock: Arc<dyn TreeClock>,
    /// The limits for automatic snapshots.
    pub retention: RetentionPolicy,
    /// How long to wait for another process that has a vault open.
    pub patience: Duration,
    /// The directory for the local work of a store whose objects and refs are elsewhere: journals, sockets,
    /// runs. `None`: a temporary directory, which is removed with the store. A store in a directory works
    /// there.
    pub work: Option<PathBuf>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            store: OpenOptions::default(),
            actor: Actor::of_process(),
            clock: Arc::new(SystemClock),
            retention: RetentionPolicy::default(),
            patience: Duration::from_secs(10),
            work: None,
        }
    }
}

/// The vaults of a store.
#[derive(Debug, Default)]
pub struct VaultList {
    /// The vaults, by name.
    pub vaults: Vec<VaultInfo>,
    /// The vaults whose present state cannot be read, and why.
    pub unreadable: Vec<(VaultName, Error)>,
}

/// Where everything lives. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
}

struct StoreInner {
    /// `None`: objects and refs are not in a directory of this machine.
    place: Option<Embedded>,
    work: LocalWork,
    objects: Objects,
    options: StoreOptions,
    /// Lists of rules that were read, made ready to decide: many tasks have the same.
    rules: KnownRules,
    /// Trees whose files are taken ahead, or were.
    walks: TakenTrees,
}

/// Results of promises are committed at the end, at the latest. If that fails, their sources are read again.
impl Drop for StoreInner {
    fn drop(&mut self) {
        let _ = self.objects.commit_kept();
    }
}

struct Embedded {
    home: PathBuf,
    store: Arc<EmbeddedStore>,
}

impl Store {
    /// Opens the store in `home`, and creates it if it does not exist.
    pub fn open(home: &Path) -> Result<Store> {
        Store::open_with(home, StoreOptions::default())
    }

    /// The same with options.
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
        let door = OpenOptions {
            ref_age: record::age,
            ..options.store.clone()
        };
        let store = Arc::new(EmbeddedStore::open(home, door)?);
        let objects = Objects::new(before(Arc::clone(&store)));
        HostSources::install(&objects, Some(home));
        let place = Some(Embedded {
            home: home.to_owned(),
            store,
        });
        Ok(Store {
            inner: Arc::new(StoreInner {
                place,
                work: LocalWork::Lasting(home.to_owned()),
                objects,
                options,
                rules: KnownRules::default(),
                walks: TakenTrees::default(),
            }),
        })
    }

    /// A store that lives and dies with this process.
    pub fn in_memory() -> Store {
        Store::in_memory_with(StoreOptions::default())
    }

    /// The same with options.
    pub fn in_memory_with(options: StoreOptions) -> Store {
        Store::behind(Arc::new(MemoryStore::new()), options)
    }

    /// A store with a custom implementation of the interfaces. Its local work is done where the options say.
    pub fn behind(doors: Arc<dyn avfs_store::Store>, options: StoreOptions) -> Store {
        let objects = Objects::new(doors);
        HostSources::install(&objects, None);
        let work = match &options.work {
            Some(place) => LocalWork::Lasting(place.clone()),
            None => LocalWork::temporary(),
        };
        Store {
            inner: Arc::new(StoreInner {
                place: None,
                work,
                objects,
                options,
                rules: KnownRules::default(),
                walks: TakenTrees::default(),
            }),
        }
    }

    /// Where the work on the vaults of this store is done, on this machine.
    pub(crate) fn work(&self) -> &LocalWork {
        &self.inner.work
    }

    /// The trees whose files are taken ahead.
    pub(crate) fn walks(&self) -> &TakenTrees {
        &self.inner.walks
    }

    /// The directory of the store; `None` if its objects and refs are not in a directory of this machine.
    pub fn home(&self) -> Option<&Path> {
        self.inner.place.as_ref().map(|place| place.home.as_path())
    }

    /// The number of free bytes on the disk of the store; for a store in memory, the maximum number.
    pub(crate) fn free_bytes(&self) -> u64 {
        let disk = self.home().map(rustix::fs::statvfs);
        let Some(Ok(disk)) = disk else {
            return i64::MAX as u64;
        };
        disk.f_bavail.saturating_mul(disk.f_frsize)
    }

    /// Whether the store is on a read-only disk, so that no process can change it.
    pub fn is_read_only(&self) -> bool {
        // Asked each time: a disk can be remounted under a process that lives long.
        let disk = self.home().map(rustix::fs::statvfs);
        disk.is_some_and(|disk| {
            disk.is_ok_and(|disk| disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
        })
    }

    /// The maintenance of the store. `None`: its operator maintains it.
    pub(crate) fn upkeep(&self) -> Option<&dyn Upkeep> {
        match self.embedded() {
            Some(embedded) => Some(embedded),
            None => self.inner.objects.store().upkeep(),
        }
    }

    /// The engine itself, for what only a store in a directory has: its reserve, and its repair.
    pub(crate) fn embedded(&self) -> Option<&EmbeddedStore> {
        self.inner.place.as_ref().map(|place| &*place.store)
    }

    /// The objects of the store.
    pub fn objects(&self) -> &Objects {
        &self.inner.objects
    }

    pub(crate) fn known_rules(&self) -> &KnownRules {
        &self.inner.rules
    }

    pub(crate) fn refs(&self) -> &dyn RefStore {
        &**self.inner.objects.store()
    }

    /// Who acts through this handle.
    pub fn actor(&self) -> &Actor {
        &self.inner.options.actor
    }

    pub(crate) fn clock(&self) -> Arc<dyn TreeClock> {
        Arc::clone(&self.inner.options.clock)
    }

    /// The time of day, by the clock of this handle.
    pub fn now(&self) -> Timestamp {
        self.inner.options.clock.now()
    }

    /// How long automatic snapshots are kept.
    pub fn retention(&self) -> &RetentionPolicy {
        &self.inner.options.retention
    }

    /// How long to wait for another process.
    pub(crate) fn patience(&self) -> Duration {
        self.inner.options.patience
    }

    /// Takes ownership of a vault, or returns which process has it.
    pub(crate) fn own_at_once(&self, id: VaultId, name: &str) -> Result<Ownership> {
        self.work().own(id, name)
    }

    /// The vault with this name.
    pub fn vault(&self, name: &str) -> Result<Vault> {
        let id = record::read::<VaultId>(self.refs(), &key::name(name))?;
        match id {
            Some((id, _)) => Ok(Vault::new(self.clone(), id)),
            None => Err(self.unknown_vault(name)?),
        }
    }

    /// The vault with this number; whether it exists is checked when it is used.
    pub fn vault_by_id(&self, id: VaultId) -> Vault {
        Vault::new(self.clone(), id)
    }

    /// The names of all vaults, in order. The cost does not depend on their contents.
    pub fn vault_names(&self) -> Result<Vec<String>> {
        let names = self.refs().scan(&RefRange::prefix(key::NAMES))?;
        Ok(names
            .iter()
            .filter_map(|(key, _)| key.strip_prefix(key::NAMES))
            .map(str::to_owned)
            .collect())
    }

    fn unknown_vault(&self, name: &str) -> Result<Error> {
        let names = self.vault_names()?;
        let of_tasks = || {
            names
                .iter()
                .filter_map(|full| Some((full.rsplit_once('/')?.1, full)))
        };
        let similar = closest(name, names.iter().map(String::as_str)).or_else(|| {
            let task = closest(name, of_tasks().map(|(task, _)| task))?;
            let mut full = of_tasks().filter(|(short, _)| **short == *task);
            // A name that several projects have leads nowhere.
            full.next()
                .filter(|_| full.next().is_none())
                .map(|(_, full)| full.clone())
        });
        Ok(Error::Vault(VaultError::Unknown {
            name: avfs_core::printable(name.as_bytes()),
            similar,
        }))
    }

    /// Whether there is a vault of this name.
    pub fn has_vault(&self, name: &str) -> Result<bool> {
        Ok(self.refs().read(&key::name(name))?.is_some())
    }

    /// All vaults, by name. An unreadable vault does not hide the others.
    pub fn vaults(&self) -> Result<VaultList> {
        let mut records = self.vault_records()?;
        if self.settle_owners(&records) {
            records = self.vault_records()?;
        }
        let mut list = VaultList::default();
        for record in &records {
            match self.info_of(record, &records) {
                Ok(info) => list.vaults.push(info),
                // A missing vault was deleted meanwhile, and may have been collected.
                Err(_) if self.refs().read(&key::vault(record.id))?.is_none() => {}
                Err(error) => list.unreadable.push((record.name.clone(), error)),
            }
        }
        list.vaults.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(list)
    }

    /// Asks the owners that answer to take a snapshot of their unstored changes; returns whether there are
    /// any. The changes of an owner that does not answer are unavailable.
    pub(crate) fn settle_owners(&self, records: &[VaultRecord]) -> bool {
        let vaults = records.iter().map(|record| Vault::new(self.clone(), record.id));
        vaults
            .filter(|vault| vault.settle_owner().unwrap_or(false))
            .count()
            > 0
    }

    pub(crate) fn vault_records(&self) -> Result<Vec<VaultRecord>> {
        let found = self.refs().scan(&RefRange::prefix(key::VAULTS))?;
        found
            .iter()
            .map(|(key, bytes)| record::decode(key, bytes))
            .collect()
    }

    pub(crate) fn info_of(&self, record: &VaultRecord, all: &[VaultRecord]) -> Result<VaultInfo> {
        let root = self.objects().snapshot(record.head.snapshot)?.root;
        let parent = record.parent.map(|parent| {
            let name = all
                .iter()
                .find(|other| other.id == parent.vault)
                .map(|other| other.name.clone());
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
            conflicts: self.count_conflicts(record.head.conflicts)?,
            audit_head: record.audit.hash.clone(),
            // Damage to the journal is no reason to hide the vault.
            unstored_bytes: Vault::new(self.clone(), record.id)
                .unstored()
                .bytes(&record.head)
                .unwrap_or_default(),
        })
    }

    /// The number of open conflicts in a state, without reading them: the tree that holds them has a directory
    /// for each.
    pub(crate) fn count_conflicts(&self, stored: Option<SnapshotId>) -> Result<u64> {
        let Some(id) = stored else { return Ok(0) };
        let EntryKind::Directory { entries, .. } = self.objects().snapshot(id)?.root.directory.kind else {
            return Ok(0);
        };
        let node = entries
            .map(|entries| NodeSource::<Slot>::load(self.objects(), entries))
            .transpose()?;
        Ok(node.map_or(0, |node| node.records()))
    }

    pub(crate) fn put_snapshot(
        &self,
        root: Root,
        parents: Vec<SnapshotId>,
        logged: &LoggedAction<'_>,
    ) -> Result<SnapshotId> {
        let (time, author) = (self.now(), logged.actor.to_owned());
        let snapshot = Snapshot {
            root,
            parents,
            time,
            author,
            reason: logged.line(),
        };
        let writer = ObjectWriter::new(self.objects());
        let id = writer.put_snapshot(&snapshot)?;
        writer.flush()?;
        Ok(id)
    }

    /// Collects edits and commits them; if other processes were faster, collects them again.
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
        Err(Error::Storage(StorageError::Contended { key: contended }))
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
        let event = AuditEvent {
            time: self.now(),
            actor: self.actor().name.clone(),
            vault: vault.to_owned(),
            action: action.to_owned(),
            detail,
            snapshot: None,
        };
        edits.push(audit::append(VaultId::STORE, &mut head, event));
        edits.push(RefEdit {
            key: key::STORE_AUDIT.into(),
            expect,
            value: Some(record::encode(&head)),
        });
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

    /// Makes a vault the current one, which commands use if none is named.
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
                edits.push(RefEdit {
                    key: key::CURRENT_VAULT.into(),
                    expect,
                    value,
                });
            }
            Ok(())
        })
    }
}
