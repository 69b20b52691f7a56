//! Making a damaged store fit to be used again, without making less reachable than before.
//!
//! Everything that can be recovered is restored: index rows from packs, refs from damaged pages and from
//! their second copy. Losses are reported. Snapshots that no ref needs any longer become vaults of their own,
//! and until a person has examined them, garbage is not collected.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use avfs_core::{ObjectId, Snapshot, SnapshotId};
use avfs_store::{EmbeddedStore, REBUILT, RefEdit, RefRange, RepairReport};
use avfs_tree::{AllKept, NeededObject, SetAside, VaultLimits, walk_needed};

use crate::error::{Error, ErrorKind, Result, StorageError};
use crate::fsck::StoreIntegrity;
use crate::name::VaultName;
use crate::record::{self, Head, VaultId, key};
use crate::store::{Store, StoreOptions};
use crate::vault::Vault;

/// How long a repair waits for writers.
const PATIENCE: Duration = Duration::from_secs(30);

/// More vaults than these are not made of snapshots that nothing needs.
const MOST_RECOVERED: usize = 200;

/// The result of a repair.
#[derive(Debug, Default)]
pub struct Repaired {
    /// What was repaired in the store itself.
    pub store: RepairReport,
    /// What became of damaged journals.
    pub journals: Vec<JournalRepair>,
    /// Vaults that were made of snapshots that nothing referred to.
    pub recovered: Vec<VaultName>,
    /// Snapshots that nothing refers to, and that are not whole or too many.
    pub unreferenced: u64,
    /// Files of soft state that could not be read and were thrown away.
    pub dropped: Vec<PathBuf>,
    /// Refs that contradicted others, as sentences.
    pub mended_refs: Vec<String>,
}

/// The result of repairing a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRepair {
    /// The vault of the journal.
    pub vault: VaultName,
    /// The damage.
    pub problem: String,
    /// The original journal, if a part of it is no longer used.
    pub kept: Option<PathBuf>,
    /// Whether work is lost.
    pub lost: bool,
}

impl Repaired {
    /// Whether something is gone, or may be.
    pub fn has_losses(&self) -> bool {
        self.store.has_lost_refs()
            || !self.store.lost.is_empty()
            || self.journals.iter().any(|journal| journal.lost)
    }
}

impl StoreIntegrity<'_> {
    /// Repairs the store in `home`, whether it can be opened or not. If the database must be rebuilt, no
    /// other process may have it open.
    pub fn repair_at(home: &Path, options: &StoreOptions) -> Result<Repaired> {
        let in_place = Store::open_with(home, options.clone()).and_then(|store| store.integrity().repair());
        let report = match in_place {
            Ok(report) if StoreIntegrity::has_sound_database(home, options)? => report,
            Ok(_) => EmbeddedStore::rebuild(home, record::age)?,
            Err(error) if error.kind() == ErrorKind::Corrupt => EmbeddedStore::rebuild(home, record::age)?,
            Err(error) => return Err(error),
        };
        let store = Store::open_with(home, options.clone())?;
        let mut repaired = Repaired {
            store: report,
            ..Repaired::default()
        };
        store.integrity().mend_names(&mut repaired)?;
        store.integrity().drop_soft_state(&mut repaired)?;
        store.integrity().repair_journals(&mut repaired)?;
        if repaired.store.has_lost_refs() {
            store.integrity().recover_snapshots(&mut repaired)?;
        }
        Ok(repaired)
    }

    fn has_sound_database(home: &Path, options: &StoreOptions) -> Result<bool> {
        let store = Store::open_with(home, options.clone())?;
        Ok(store.embedded().is_none_or(EmbeddedStore::has_sound_database))
    }

    /// Repairs what another copy can repair: index rows from packs, objects from intact copies, refs from
    /// their second copy.
    fn repair(&self) -> Result<RepairReport> {
        // Living owners release their pins; whether there are any may be part of the damage.
        if let Ok(records) = self.store.vault_records() {
            self.store.settle_owners(&records);
        }
        match self.store.embedded() {
            Some(embedded) => Ok(embedded.exclusive(PATIENCE)?.repair()?),
            None => Ok(RepairReport::default()),
        }
    }

    /// Has every vault one name and every name a vault. Only refs that are lost or came back can make that untrue.
    fn mend_names(&self, repaired: &mut Repaired) -> Result<()> {
        let records = self.store.vault_records()?;
        let names = self.store.refs().scan(&RefRange::prefix(key::NAMES))?;
        let mut edits = Vec::new();
        for (key, bytes) in &names {
            let id: Option<VaultId> = record::decode(key, bytes).ok();
            if !records
                .iter()
                .any(|record| Some(record.id) == id && *key == key::name(record.name.as_str()))
            {
                repaired.mended_refs.push(format!("{key} stood for no vault"));
                edits.push(RefEdit::delete(key.clone(), bytes.clone()));
            }
        }
        for record in &records {
            let key = key::name(record.name.as_str());
            if !names.iter().any(|(name, _)| *name == key) {
                repaired.mended_refs.push(format!("{key} was missing"));
                edits.push(RefEdit::create(key, record::encode(&record.id)));
            }
        }
        if edits.is_empty() {
            Ok(())
        } else {
            Ok(self.store.refs().commit(&edits)?)
        }
    }

    fn drop_soft_state(&self, repaired: &mut Repaired) -> Result<()> {
        for record in self.store.vault_records()? {
            repaired.dropped.extend(
                Vault::new(self.store.clone(), record.id)
                    .mounts()
                    .drop_unreadable_mounts()?,
            );
        }
        Ok(())
    }

    fn repair_journals(&self, repaired: &mut Repaired) -> Result<()> {
        for record in self.store.vault_records()? {
            let vault = Vault::new(self.store.clone(), record.id);
            let Some(place) = vault
                .journal_place(&record.head)
                .filter(|place| place.directory.exists())
            else {
                continue;
            };
            // The tree of a vault with an owner is in the owner's memory.
            let Ok(_ownership) = self.store.own_at_once(record.id, record.name.as_str()) else {
                continue;
            };
            let Ok(base) = vault.base_of(&record.head) else {
                continue;
            };
            for SetAside {
                error, kept, mended, ..
            } in place.repair(self.store.objects(), &base)?
            {
                let problem = avfs_core::with_causes(&error);
                repaired.journals.push(JournalRepair {
                    vault: record.name.clone(),
                    problem,
                    kept,
                    lost: !mended,
                });
            }
        }
        Ok(())
    }

    /// Garbage may be collected again after a repair that may have lost refs.
    pub fn accept_repair(&self) -> Result<()> {
        self.store.retry(|edits| {
            if let Some(bytes) = self.store.refs().read(REBUILT)? {
                edits.push(RefEdit::delete(REBUILT, bytes));
            }
            Ok(())
        })
    }

    /// Fails if a collection would make a loss by repair or damage final.
    pub(crate) fn check_collectable(&self) -> Result<()> {
        if self.store.refs().read(REBUILT)?.is_some() {
            return Err(Error::Storage(StorageError::AfterRepair));
        }
        match self.store.embedded() {
            Some(embedded) => Ok(embedded.check_commits()?),
            None => Ok(()),
        }
    }

    /// Makes vaults of snapshots that nothing refers to, each with as much of its history as there is.
    fn recover_snapshots(&self, repaired: &mut Repaired) -> Result<()> {
        let _pin = self.store.objects().store().pin()?;
        let mut lost = Unreferenced::find(self.store, &repaired.store.snapshots)?;
        while let Some(chain) = lost.next_chain() {
            if repaired.recovered.len() == MOST_RECOVERED {
                repaired.unreferenced += chain.len() as u64;
                continue;
            }
            repaired.recovered.push(self.recover_chain(&chain)?);
        }
        repaired.unreferenced += lost.incomplete;
        Ok(())
    }

    /// Makes a vault of states, newest first.
    fn recover_chain(&self, chain: &[SnapshotId]) -> Result<VaultName> {
        let names = self.store.vault_names()?;
        let mut free = (1..).map(|number: u64| format!("recovered-{number}"));
        let name = free.find(|name| !names.contains(name)).unwrap_or_default();
        let name = VaultName::new(&name)?;
        let mut states = chain.iter().rev();
        let Some(oldest) = states.next() else {
            return Ok(name);
        };
        let vault = self
            .store
            .create_with_snapshot(&name, *oldest, "recover", VaultLimits::default())?;
        let mut record = vault.record()?.0;
        for snapshot in states {
            let head = Head {
                snapshot: *snapshot,
                inodes: None,
                ..record.head
            };
            vault.advance(&mut record, head, &vault.logged("recover", "", None))?;
        }
        Ok(name)
    }
}

/// Whole snapshots that no vault needs.
struct Unreferenced {
    /// Newest first.
    order: Vec<SnapshotId>,
    open: HashMap<SnapshotId, Snapshot>,
    incomplete: u64,
}

impl Unreferenced {
    fn find(store: &Store, snapshots: &[ObjectId]) -> Result<Unreferenced> {
        let roots = store.roots()?;
        let referenced: HashSet<SnapshotId> = roots
            .iter()
            .flat_map(|roots| roots.states().map(|(snapshot, _)| snapshot))
            .collect();
        let kept = store.objects().all_kept()?;
        let mut found = Unreferenced {
            order: Vec::new(),
            open: HashMap::new(),
            incomplete: 0,
        };
        let mut whole = HashSet::new();
        for id in snapshots.iter().map(|id| SnapshotId::from_object(*id)) {
            if referenced.contains(&id) || found.open.contains_key(&id) {
                continue;
            }
            match store.objects().snapshot(id) {
                Ok(snapshot) if is_whole(store, &kept, id, &mut whole) => {
                    found.order.push(id);
                    found.open.insert(id, Snapshot::clone(&snapshot));
                }
                _ => found.incomplete += 1,
            }
        }
        let open = &found.open;
        found
            .order
            .sort_by_key(|id| std::cmp::Reverse(open.get(id).map(|snapshot| snapshot.time)));
        Ok(found)
    }

    /// The newest remaining snapshot, and its predecessors, newest first.
    fn next_chain(&mut self) -> Option<Vec<SnapshotId>> {
        let newest = self.order.iter().find(|id| self.open.contains_key(id)).copied()?;
        let mut chain = Vec::new();
        let mut next = Some(newest);
        while let Some(id) = next {
            let Some(snapshot) = self.open.remove(&id) else {
                break;
            };
            chain.push(id);
            next = snapshot.parents.first().copied();
        }
        Some(chain)
    }
}

/// Whether everything that a snapshot needs exists. Objects in `whole` exist with all their parts.
fn is_whole(store: &Store, kept: &AllKept, id: SnapshotId, whole: &mut HashSet<ObjectId>) -> bool {
    let mut fresh = HashSet::new();
    let walked = walk_needed(
        store.objects(),
        kept,
        [NeededObject::Snapshot(id)],
        &mut |needed| Ok(!whole.contains(&needed.object()) && fresh.insert(needed.object())),
    );
    let ids: Vec<ObjectId> = fresh.into_iter().collect();
    let are_there = store.objects().store().contains_many(&ids);
    let is_whole = walked.is_ok() && are_there.is_ok_and(|there| there.iter().all(|there| *there));
    if is_whole {
        whole.extend(ids);
    }
    is_whole
}
