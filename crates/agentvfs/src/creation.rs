//! How vaults are created: empty, from a host directory or a commit, or as forks. Each in a single commit.

use std::path::Path;

use avfs_core::map;
use avfs_core::{Entry, Meta, Root, SnapshotId, Totals, TreePath};
use avfs_store::RefEdit;
use avfs_tree::{ObjectError, ObjectWriter, VaultLimits};

use crate::audit::{self, AuditEvent};
use crate::error::{Error, Result, StorageError, VaultError};
use crate::logged_action::LoggedAction;
use crate::name::VaultName;
use crate::record::{
    self, AuditHead, Head, HistoryRecord, ImageRecord, ParentRecord, TaskRecord, VaultId, VaultRecord, key,
};
use crate::rule_record::RuleRecord;
use crate::store::Store;
use crate::vault::Vault;
use crate::vault_limits::check_limits;
use avfs_transfer::{DirectoryImport, ImportedTree, TransferProgress, TransferReport};

/// The initial state of a new vault.
#[derive(Clone, Debug)]
pub(crate) struct Seed {
    pub head: Head,
    pub parent: Option<ParentRecord>,
    pub action: String,
    pub limits: VaultLimits,
    pub rules: Option<Vec<RuleRecord>>,
    pub program_rules: Option<Vec<RuleRecord>>,
    pub task: Option<TaskRecord>,
    pub image: Option<ImageRecord>,
}

impl Store {
    /// Makes an empty vault.
    pub fn create_vault(&self, name: &VaultName) -> Result<Vault> {
        self.create_limited_vault(name, VaultLimits::default())
    }

    /// Makes an empty vault that may hold no more than `limits`.
    pub fn create_limited_vault(&self, name: &VaultName, limits: VaultLimits) -> Result<Vault> {
        let actor = self.actor();
        let meta = Meta {
            mode: 0o755,
            uid: actor.uid,
            gid: actor.gid,
            mtime: self.now(),
            ..Meta::default()
        };
        let root = Root {
            directory: Entry::empty_directory(meta),
            links: None,
            totals: Totals::default(),
        };
        let _pin = self.objects().store().pin()?;
        self.create_with_root(name, root, "create", limits)
    }

    /// Makes a vault that is the same as a host directory. It appears with all its files or not at all.
    pub fn create_vault_from(
        &self,
        name: &VaultName,
        from: &Path,
        limits: VaultLimits,
        progress: &dyn TransferProgress,
    ) -> Result<(Vault, TransferReport)> {
        let shown = avfs_core::printable(from.as_os_str().as_encoded_bytes());
        self.create_imported(name, &format!("create from {shown}"), limits, |writer| {
            // A store below the directory would otherwise swallow itself.
            let exclude = self.home().map(Path::to_owned).into_iter().collect();
            let (options, root) = (
                DirectoryImport {
                    exclude,
                    ..DirectoryImport::default()
                },
                TreePath::root(),
            );
            Ok(avfs_transfer::import_directory(
                self.objects(),
                writer,
                from,
                &root,
                &options,
                progress,
            )?)
        })
    }

    /// Makes a vault of what is imported, all of it or none.
    pub(crate) fn create_imported(
        &self,
        name: &VaultName,
        action: &str,
        limits: VaultLimits,
        import: impl FnOnce(&ObjectWriter) -> Result<ImportedTree>,
    ) -> Result<(Vault, TransferReport)> {
        if self.has_vault(name.as_str())? {
            return Err(Error::Vault(VaultError::Exists {
                name: name.to_string(),
            }));
        }
        let _pin = self.objects().store().pin()?;
        let writer = ObjectWriter::new(self.objects());
        // The pin is held from before the first object to the commit that names them.
        let (root, report) = self.root_of(import(&writer)?, &writer)?;
        // After the import, when its size is known, and before anything refers to it.
        check_limits(&root.totals, limits)?;
        Ok((self.create_with_root(name, root, action, limits)?, report))
    }

    /// The root of a tree that was imported as a whole.
    pub(crate) fn root_of(
        &self,
        imported: ImportedTree,
        writer: &ObjectWriter,
    ) -> Result<(Root, TransferReport), ObjectError> {
        let records = imported
            .links
            .into_iter()
            .map(|(id, file)| (Box::from(id.key()), file));
        let mut sink = writer;
        let links = map::from_sorted(self.objects(), &mut sink, records)?;
        writer.flush()?;
        let linked = links.as_ref().map(|links| links.totals).unwrap_or_default();
        let totals = map::MapRecord::totals(&imported.directory).plus(linked);
        // The root itself does not count as one of the files in it.
        let totals = totals.minus(Totals {
            inodes: 1,
            ..Totals::default()
        });
        let root = Root {
            directory: imported.directory,
            links: links.map(|links| links.id),
            totals,
        };
        Ok((root, imported.report))
    }

    fn create_with_root(
        &self,
        name: &VaultName,
        root: Root,
        action: &str,
        limits: VaultLimits,
    ) -> Result<Vault> {
        let logged = LoggedAction {
            actor: &self.actor().name,
            action,
            detail: "",
            undoes: None,
            since: None,
            task_base: None,
        };
        let snapshot = self.put_snapshot(root, Vec::new(), &logged)?;
        self.create_with_snapshot(name, snapshot, action, limits)
    }

    pub(crate) fn create_with_snapshot(
        &self,
        name: &VaultName,
        snapshot: SnapshotId,
        action: &str,
        limits: VaultLimits,
    ) -> Result<Vault> {
        let head = Head {
            snapshot,
            inodes: None,
            journal: 0,
            conflicts: None,
        };
        let seed = Seed {
            head,
            parent: None,
            action: action.to_owned(),
            limits,
            rules: None,
            program_rules: None,
            task: None,
            image: None,
        };
        let made = self.add_vaults(std::slice::from_ref(name), &seed)?;
        made.into_iter().next().ok_or_else(|| {
            Error::Storage(StorageError::Contended {
                key: key::name(name.as_str()),
            })
        })
    }

    /// Makes vaults that start alike, all or none of them.
    pub(crate) fn add_vaults(&self, names: &[VaultName], seed: &Seed) -> Result<Vec<Vault>> {
        if let Some((_, twice)) = names
            .iter()
            .enumerate()
            // Both would be free below, where only the store is asked.
            .find(|(at, name)| names[..*at].contains(name))
        {
            return Err(Error::Vault(VaultError::Exists {
                name: twice.to_string(),
            }));
        }
        let first = self.retry(|edits| {
            for name in names {
                if self.has_vault(name.as_str())? {
                    return Err(Error::Vault(VaultError::Exists {
                        name: name.to_string(),
                    }));
                }
            }
            // Inside of the attempt: another process may have taken the numbers since the last one.
            let first = self.take_ids(edits, names.len() as u64)?;
            for (id, name) in (first..).map(VaultId).zip(names) {
                self.new_vault(edits, id, name, seed);
            }
            Ok(first)
        })?;
        let ids = (first..).take(names.len()).map(VaultId);
        Ok(ids.map(|id| Vault::new(self.clone(), id)).collect())
    }

    /// Takes `count` vault ids that were never given out; returns the first.
    pub(crate) fn take_ids(&self, edits: &mut Vec<RefEdit>, count: u64) -> Result<u64> {
        let last: Option<(u64, Vec<u8>)> = record::read(self.refs(), key::VAULT_COUNTER)?;
        let first = last.as_ref().map_or(0, |(last, _)| *last) + 1;
        edits.push(RefEdit {
            key: key::VAULT_COUNTER.into(),
            expect: last.map(|(_, bytes)| bytes),
            value: Some(record::encode(&(first + count - 1))),
        });
        Ok(first)
    }

    pub(crate) fn new_vault(&self, edits: &mut Vec<RefEdit>, id: VaultId, name: &VaultName, seed: &Seed) {
        let (time, actor) = (self.now(), self.actor().name.clone());
        let mut audit = AuditHead::default();
        let event = AuditEvent {
            time,
            actor: actor.clone(),
            vault: name.to_string(),
            action: seed.action.clone(),
            detail: String::new(),
            snapshot: Some(seed.head.snapshot.to_string()),
        };
        edits.push(audit::append(id, &mut audit, event));
        let history = HistoryRecord {
            snapshot: seed.head.snapshot,
            inodes: seed.head.inodes,
            conflicts: seed.head.conflicts,
            time,
            actor,
            action: seed.action.clone(),
            undoes: None,
            since: None,
            task_base: seed.task.as_ref().map(|task| task.base),
        };
        let record = VaultRecord {
            id,
            name: name.clone(),
            head: Head {
                journal: 0,
                ..seed.head
            },
            seq: 1,
            created: time,
            parent: seed.parent,
            max_bytes: seed.limits.bytes,
            max_files: seed.limits.files,
            nameless: Vec::new(),
            rules: seed.rules.clone(),
            program_rules: seed.program_rules.clone(),
            task: seed.task.clone(),
            image: seed.image.clone(),
            last_checkpoint: None,
            audit,
        };
        edits.push(RefEdit::create(key::name(name.as_str()), record::encode(&id)));
        edits.push(RefEdit::create(key::vault(id), record::encode(&record)));
        edits.push(RefEdit::create(key::history(id, 1), record::encode(&history)));
    }
}
