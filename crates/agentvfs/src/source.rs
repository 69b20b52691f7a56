//! Host directories as sources: a vault that starts as a project is, without reading it.
//!
//! A source is a directory by its canonical path and its inode. Each new vault of it has a generation of its
//! own: directories are listed again, while unchanged files are stored once for all of them.

mod packs;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use avfs_core::{Entry, NodeId, Root, Snapshot, SnapshotId, SourceId, TreePath};
use avfs_store::{RefEdit, RefRange};
use avfs_tree::{BaseTree, FsError, ObjectWriter, SOURCES, VaultLimits, WorkTree, promised_directory};

use crate::apply::check_in_reach;
use crate::error::{Error, ProjectError, Result, VaultError};
use crate::git::places_inlined;
use crate::host_source::HostSource;
use crate::host_sources::{SourceRecord, key};
use crate::logged_action::LoggedAction;
use crate::name::VaultName;
use crate::project::Projects;
use crate::project::{Relocation, canonical};
use crate::record;
use crate::vault::Vault;
pub(crate) use packs::FollowingPacks;

impl Projects<'_> {
    /// The source of a host directory, created if it does not exist.
    pub fn source_for(&self, directory: &Path) -> Result<SourceId> {
        let path = canonical(directory)?;
        self.check_project(&path)?;
        check_in_reach(&path)?;
        let inode = inode_of(&path)?;
        let path = path.to_str().ok_or_else(|| not_utf8(&path))?.to_owned();
        self.store.retry(|edits| {
            for (key, bytes) in self.store.refs().scan(&RefRange::prefix(SOURCES))? {
                let record: SourceRecord = record::decode(&key, &bytes)?;
                let id = key.strip_prefix(SOURCES).and_then(SourceId::parse_hex);
                if let Some(id) = id.filter(|_| record.path == path && record.inode == inode) {
                    return Ok(id);
                }
            }
            let id = random_id()?;
            let record = SourceRecord {
                path: path.clone(),
                inode,
                born: born(Path::new(&path)),
                generation: 0,
            };
            edits.push(RefEdit::create(key(id), record::encode(&record)));
            Ok(id)
        })
    }

    /// The host directory that a source is.
    pub fn source_directory(&self, source: SourceId) -> Result<PathBuf> {
        let found = record::read::<SourceRecord>(self.store.refs(), &key(source))?;
        let unknown = || {
            Error::Vault(VaultError::UnknownSource {
                id: source.to_string(),
            })
        };
        found
            .map(|(record, _)| PathBuf::from(record.path))
            .ok_or_else(unknown)
    }

    /// The state of a source's directory from now on: a snapshot that takes the time of one `stat`, whatever
    /// is in it. The caller holds a pin until a ref needs it.
    pub fn base_of_directory(&self, source: SourceId) -> Result<SnapshotId> {
        self.store.retry(|edits| self.base_with(source, edits))
    }

    /// The same, available as soon as these edits are committed: nothing of it can be read before.
    pub(crate) fn base_with(&self, source: SourceId, edits: &mut Vec<RefEdit>) -> Result<SnapshotId> {
        let directory = self.source_directory(source)?;
        let generation = self.next_generation(source, edits)?;
        let meta = HostSource::meta_of(&directory).map_err(|source| Error::Host {
            action: "reading",
            place: directory.display().to_string(),
            source,
        })?;
        let writer = ObjectWriter::new(self.store.objects());
        let kind = promised_directory(&writer, source, generation, TreePath::root())?;
        writer.flush()?;
        let root = Root {
            directory: Entry { meta, kind },
            links: None,
            totals: avfs_core::Promise::BELOW,
        };
        let shown = avfs_core::printable(directory.as_os_str().as_encoded_bytes());
        let action = format!("start from {shown}");
        let logged = LoggedAction {
            actor: &self.store.actor().name,
            action: &action,
            detail: "",
            undoes: None,
            since: None,
            task_base: None,
        };
        self.store.put_snapshot(root, Vec::new(), &logged)
    }

    /// Whether a directory is the one that a source has known at another path.
    pub(crate) fn was_source_at(&self, known: &Path, directory: &Path) -> Result<bool> {
        let (inode, born) = (inode_of(directory)?, born(directory));
        for (key, bytes) in self.store.refs().scan(&RefRange::prefix(SOURCES))? {
            let record: SourceRecord = record::decode(&key, &bytes)?;
            let is_another = record.born.is_some() && born.is_some() && record.born != born;
            if Path::new(&record.path) == known && record.inode == inode && !is_another {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes moved sources available at their new paths. Files that have not been read yet are read there; if
    /// the new directory is a copy, as other versions.
    pub(crate) fn move_sources(&self, edits: &mut Vec<RefEdit>, relocation: &Relocation) -> Result<()> {
        for (key, bytes) in self.store.refs().scan(&RefRange::prefix(SOURCES))? {
            let record: SourceRecord = record::decode(&key, &bytes)?;
            let Some(place) = relocation.new_place(Path::new(&record.path)) else {
                continue;
            };
            // A part that did not come along stays missing where it was.
            let Ok(inode) = inode_of(&place) else { continue };
            let path = place.to_str().ok_or_else(|| not_utf8(&place))?.to_owned();
            let moved = SourceRecord {
                born: born(&place),
                path,
                inode,
                ..record
            };
            edits.push(RefEdit::replace(key, bytes, record::encode(&moved)));
        }
        Ok(())
    }

    /// Makes a vault that starts as the directory of a source is.
    pub fn create_vault_on(&self, name: &VaultName, source: SourceId, limits: VaultLimits) -> Result<Vault> {
        let _pin = self.store.objects().store().pin()?;
        let snapshot = self.base_of_directory(source)?;
        self.store
            .create_with_snapshot(name, snapshot, "create on a directory", limits)
    }

    /// The same state, with the version of each file that was read after its source had changed it: the
    /// user's changes while a tree was being read are then on both sides of a comparison. The cost depends on
    /// the number of such files.
    pub fn with_moved(&self, state: SnapshotId) -> Result<SnapshotId> {
        let moved = self.store.objects().all_moved()?;
        if moved.is_empty() {
            return Ok(state);
        }
        let (state, _) = self.altered(state, |tree| {
            for (id, promise) in &moved {
                tree.take_moved(promise.path(), *id)?;
                places_inlined(promise.path()).try_for_each(|place| tree.take_moved(&place, *id))?;
            }
            Ok(())
        })?;
        Ok(state)
    }

    /// The paths of the files in a state whose source had another version, or none, at the first read.
    pub(crate) fn moved_paths(&self, state: SnapshotId) -> Result<HashSet<TreePath>, FsError> {
        let moved = self.store.objects().all_moved()?;
        let mut paths = HashSet::new();
        if moved.is_empty() {
            return Ok(paths);
        }
        let base = BaseTree {
            root: self.store.objects().snapshot(state)?.root.clone(),
            inodes: None,
        };
        let tree = WorkTree::in_memory(self.store.objects().clone(), base, self.store.clock())?;
        for (id, promise) in moved {
            if tree.owes(promise.path(), id)? {
                paths.insert(promise.path().clone());
            }
        }
        Ok(paths)
    }

    /// A state with an internal change, which is not logged, and its table of inodes. The caller holds a pin
    /// until a ref needs it.
    pub(crate) fn altered(
        &self,
        state: SnapshotId,
        change: impl FnOnce(&WorkTree) -> Result<(), FsError>,
    ) -> Result<(SnapshotId, Option<NodeId>)> {
        let snapshot = self.store.objects().snapshot(state)?;
        let base = BaseTree {
            root: snapshot.root.clone(),
            inodes: None,
        };
        let tree = WorkTree::in_memory(self.store.objects().clone(), base, self.store.clock())?;
        change(&tree)?;
        if !tree.is_dirty() {
            return Ok((state, None));
        }
        let BaseTree { root, inodes } = tree.freeze()?.base().clone();
        let writer = ObjectWriter::new(self.store.objects());
        let id = writer.put_snapshot(&Snapshot { root, ..snapshot })?;
        writer.flush()?;
        Ok((id, inodes))
    }

    fn next_generation(&self, source: SourceId, edits: &mut Vec<RefEdit>) -> Result<u64> {
        let found = record::read::<SourceRecord>(self.store.refs(), &key(source))?;
        let unknown = || {
            Error::Vault(VaultError::UnknownSource {
                id: source.to_string(),
            })
        };
        let (mut record, bytes) = found.ok_or_else(unknown)?;
        record.generation += 1;
        edits.push(RefEdit::replace(key(source), bytes, record::encode(&record)));
        Ok(record.generation)
    }
}

fn not_utf8(path: &Path) -> Error {
    Error::Project(ProjectError::Unsuitable {
        path: path.to_owned(),
        reason: "its path is not UTF-8",
    })
}

fn inode_of(path: &Path) -> Result<u64> {
    let stat = rustix::fs::stat(path);
    let host = |source| Error::Host {
        action: "reading",
        place: path.display().to_string(),
        source,
    };
    stat.map(|stat| stat.st_ino).map_err(|errno| host(errno.into()))
}

fn born(path: &Path) -> Option<u64> {
    let born = std::fs::metadata(path).and_then(|found| found.created()).ok()?;
    let since = born.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

fn random_id() -> Result<SourceId> {
    let mut id = [0u8; 16];
    let got = rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty());
    got.map_err(|errno| Error::Host {
        action: "asking for",
        place: "random bytes".into(),
        source: errno.into(),
    })?;
    Ok(SourceId(id))
}
