//! Host directories as sources: a vault that starts as a project is, without reading it.
//!
//! A source is a directory by its canonical path and its inode. Each look at it by a new vault is a generation of
//! its own: directories are listed anew, while files that did not change are kept once for all of them.

mod ahead;
mod host;
mod packs;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avfs_core::{Entry, NodeId, Root, Snapshot, SnapshotId, SourceId, TreePath};
use avfs_store::{RefEdit, RefRange};
use avfs_tree::{
    Base, FsError, Limits, ObjectWriter, Objects, SOURCES, Source, SourceError, Sources, WorkTree,
    promised_directory,
};
use serde::{Deserialize, Serialize};

use crate::apply::check_in_reach;
use crate::deed::Deed;
use crate::error::{Error, Result};
use crate::git::places_inlined;
use crate::name::VaultName;
use crate::project::canonical;
use crate::record;
use crate::store::Store;
use crate::vault::Vault;
pub use ahead::TakingAhead;
use host::HostSource;
pub(crate) use host::TICK;
pub(crate) use packs::FollowingPacks;

/// What is kept of a source, under `source/ID`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SourceRecord {
    /// Canonical.
    path: String,
    inode: u64,
    /// The last one that was started.
    generation: u64,
}

fn key(id: SourceId) -> String {
    format!("{SOURCES}{id}")
}

impl Store {
    /// The source that a host directory is, made if there is none yet.
    pub fn source_for(&self, directory: &Path) -> Result<SourceId> {
        let path = canonical(directory)?;
        self.check_project(&path)?;
        check_in_reach(&path)?;
        let inode = inode_of(&path)?;
        let unreadable = || Error::NotAProject { path: path.clone(), reason: "its path is not UTF-8" };
        let path = path.to_str().ok_or_else(unreadable)?.to_owned();
        self.retry(|edits| {
            for (key, bytes) in self.refs().scan(&RefRange::prefix(SOURCES))? {
                let record: SourceRecord = record::decode(&key, &bytes)?;
                let id = key.strip_prefix(SOURCES).and_then(SourceId::parse_hex);
                if let Some(id) = id.filter(|_| record.path == path && record.inode == inode) {
                    return Ok(id);
                }
            }
            let id = random_id()?;
            let record = SourceRecord { path: path.clone(), inode, generation: 0 };
            edits.push(RefEdit::create(key(id), record::encode(&record)));
            Ok(id)
        })
    }

    /// The host directory that a source is.
    pub fn source_directory(&self, source: SourceId) -> Result<PathBuf> {
        let found = record::read::<SourceRecord>(self.refs(), &key(source))?;
        let unknown = || Error::UnknownSource { id: source.to_string() };
        found.map(|(record, _)| PathBuf::from(record.path)).ok_or_else(unknown)
    }

    /// The directory of a source as it is from now on: a snapshot that takes the time of one `stat`, whatever is
    /// in it. Hold a pin until something needs it.
    pub fn base_of_directory(&self, source: SourceId) -> Result<SnapshotId> {
        let directory = self.source_directory(source)?;
        let generation = self.next_generation(source)?;
        let meta = HostSource::meta_of(&directory).map_err(|source| Error::Host {
            action: "reading",
            place: directory.display().to_string(),
            source,
        })?;
        let writer = ObjectWriter::new(self.objects());
        let kind = promised_directory(&writer, source, generation, TreePath::root())?;
        writer.flush()?;
        let root = Root { directory: Entry { meta, kind }, links: None, totals: avfs_core::Promise::BELOW };
        let shown = avfs_core::printable(directory.as_os_str().as_encoded_bytes());
        let action = format!("start from {shown}");
        let deed = Deed {
            actor: &self.actor().name,
            action: &action,
            detail: "",
            undoes: None,
            since: None,
            task_base: None,
        };
        self.put_snapshot(root, Vec::new(), &deed)
    }

    /// Makes a vault that starts as the directory of a source is.
    pub fn create_vault_on(&self, name: &VaultName, source: SourceId, limits: Limits) -> Result<Vault> {
        let _pin = self.objects().store().pin()?;
        let snapshot = self.base_of_directory(source)?;
        self.create_with_snapshot(name, snapshot, "create on a directory", limits)
    }

    /// The same state, with the version of each file that was taken where its source had changed it first: what
    /// the user did while a tree was looked at is in both sides of a comparison. Costs what moved.
    pub fn with_moved(&self, state: SnapshotId) -> Result<SnapshotId> {
        let moved = self.objects().all_moved()?;
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

    /// The paths of the files in a state of which their source had another version, or none, when somebody first asked.
    pub(crate) fn moved_paths(&self, state: SnapshotId) -> Result<HashSet<TreePath>, FsError> {
        let moved = self.objects().all_moved()?;
        let mut paths = HashSet::new();
        if moved.is_empty() {
            return Ok(paths);
        }
        let base = Base { root: self.objects().snapshot(state)?.root.clone(), inodes: None };
        let tree = WorkTree::in_memory(self.objects().clone(), base, self.clock())?;
        for (id, promise) in moved {
            if tree.owes(promise.path(), id)? {
                paths.insert(promise.path().clone());
            }
        }
        Ok(paths)
    }

    /// A state with a change that is nobody's deed, and its table of inodes. Hold a pin until something needs it.
    pub(crate) fn altered(
        &self,
        state: SnapshotId,
        change: impl FnOnce(&WorkTree) -> Result<(), FsError>,
    ) -> Result<(SnapshotId, Option<NodeId>)> {
        let snapshot = self.objects().snapshot(state)?;
        let base = Base { root: snapshot.root.clone(), inodes: None };
        let tree = WorkTree::in_memory(self.objects().clone(), base, self.clock())?;
        change(&tree)?;
        if !tree.is_dirty() {
            return Ok((state, None));
        }
        let Base { root, inodes } = tree.freeze()?.base().clone();
        let writer = ObjectWriter::new(self.objects());
        let id = writer.put_snapshot(&Snapshot { root, ..snapshot })?;
        writer.flush()?;
        Ok((id, inodes))
    }

    fn next_generation(&self, source: SourceId) -> Result<u64> {
        self.retry(|edits| {
            let found = record::read::<SourceRecord>(self.refs(), &key(source))?;
            let unknown = || Error::UnknownSource { id: source.to_string() };
            let (mut record, bytes) = found.ok_or_else(unknown)?;
            record.generation += 1;
            edits.push(RefEdit::replace(key(source), bytes, record::encode(&record)));
            Ok(record.generation)
        })
    }
}

/// Opens the sources of a store when they are first needed.
pub(crate) struct HostSources {
    /// Not the store itself, which holds these.
    objects: std::sync::Weak<dyn avfs_store::Store>,
    /// Left out of every listing.
    store_home: Option<PathBuf>,
}

impl HostSources {
    pub(crate) fn install(objects: &Objects, store_home: Option<&Path>) {
        let store_home = store_home.map(Path::to_owned);
        objects.set_sources(Arc::new(HostSources { objects: Arc::downgrade(objects.store()), store_home }));
    }
}

impl Sources for HostSources {
    fn find(&self, id: SourceId) -> Result<Arc<dyn Source>, SourceError> {
        let store = self.objects.upgrade().ok_or(SourceError::Unknown)?;
        let refs: &dyn avfs_store::RefStore = &*store;
        let found = record::read::<SourceRecord>(refs, &key(id)).map_err(|_| SourceError::Unknown)?;
        let (record, _) = found.ok_or(SourceError::Unknown)?;
        let source = HostSource::open(Path::new(&record.path), record.inode, self.store_home.as_deref())?;
        Ok(Arc::new(source))
    }
}

fn inode_of(path: &Path) -> Result<u64> {
    let stat = rustix::fs::stat(path);
    let host = |source| Error::Host { action: "reading", place: path.display().to_string(), source };
    stat.map(|stat| stat.st_ino).map_err(|errno| host(errno.into()))
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
