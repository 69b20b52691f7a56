//! Files that are kept outside as well: a storage mount sends every change to an adapter before it happens.

mod directory;
mod memory;

use std::sync::{Arc, PoisonError};

use avfs_core::TreePath;

use crate::change::hooks::{PathEffect, PathEvent, PathEventKind};
use crate::change::{ChangePlan, StateDraft, StoreChange};
use crate::error::{CallbackError, Result, VfsError};
use crate::look::{CallerLook, Looked};
use crate::node::{Content, FileNode, NodeAttributes, TreeNode};
use crate::vfs::{Vfs, VfsState, check_depth, parse};

pub use directory::FileSystemAdapter;
pub use memory::MemoryStorageAdapter;

/// A file as a storage keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// The bytes.
    pub data: Vec<u8>,
    /// The version under which they were stored.
    pub version: u64,
}

/// Why a storage did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StorageFault {
    /// The storage holds something else than the filesystem believes.
    #[error("{0}")]
    Conflict(CallbackError),
    /// Anything else.
    #[error("{0}")]
    Failed(CallbackError),
}

/// A place outside that keeps files by path. Paths are relative to the mount, and joined by `/`.
pub trait StorageAdapter: Send + Sync {
    /// The paths of all files with their versions.
    fn list(&self) -> Result<Vec<(String, u64)>, StorageFault>;

    /// One file.
    fn read(&self, path: &str) -> Result<StoredFile, StorageFault>;

    /// Stores a file that has this version now. If what is stored has this or a later one already, another
    /// writer has stored it: that is a [`StorageFault::Conflict`], and nothing is stored.
    fn write(&self, path: &str, data: &[u8], version: u64) -> Result<(), StorageFault>;

    /// Removes a file. One that is gone is fine.
    fn delete(&self, path: &str) -> Result<(), StorageFault>;
}

#[derive(Clone)]
pub(crate) struct StorageMount {
    pub path: TreePath,
    adapter: Arc<dyn StorageAdapter>,
}

/// The storage mounts of one filesystem. None lies in another.
#[derive(Clone, Default)]
pub(crate) struct StorageMounts(Vec<StorageMount>);

impl StorageMounts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &TreePath> {
        self.0.iter().map(|mount| &mount.path)
    }

    /// The mount at or above a path.
    pub(crate) fn covering(&self, path: &TreePath) -> Option<&StorageMount> {
        self.0.iter().find(|mount| path.starts_with(&mount.path))
    }

    /// What is a mount, or has one below, stays where it is.
    pub(crate) fn check_movable(&self, path: &TreePath) -> Result<()> {
        // Also a directory above a mount: it would take the mount with it, and the adapter would not know.
        if self.0.iter().any(|mount| mount.path.starts_with(path)) {
            return Err(VfsError::Mounted { path: path.clone() });
        }
        Ok(())
    }

    /// Sends a change to the storages. If one refuses, what the others have stored of it is undone.
    pub(crate) fn store(&self, effects: &[PathEffect], before: &VfsState) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let steps = effects.iter().flat_map(|effect| self.steps(&effect.event));
        let mut done: Vec<StorageStep<'_>> = Vec::new();
        for step in steps {
            let made = step.make();
            done.push(step);
            if let Err(error) = made {
                // The one that failed is undone as well: it may have stored a part.
                let is_conflict = matches!(error, VfsError::StorageConflict { .. });
                // An adapter that reports a conflict has stored nothing.
                let skipped = usize::from(is_conflict);
                for step in done.iter().rev().skip(skipped) {
                    step.undo(before);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn steps<'a>(&'a self, event: &'a PathEvent) -> Vec<StorageStep<'a>> {
        let step = |path: &'a TreePath, write: Option<&'a Content>| {
            let mount = self.covering(path)?;
            Some(StorageStep {
                mount,
                path,
                write: write.map(|content| (content, event.version)),
            })
        };
        let mut steps = Vec::new();
        if let Some(from) = &event.from {
            // The old name goes first. With both in one storage, the file is nowhere for a moment, and
            // undoing brings it back.
            steps.extend(step(from, None));
        }
        match event.event {
            PathEventKind::Delete => steps.extend(step(&event.path, None)),
            PathEventKind::Create | PathEventKind::Update | PathEventKind::Move => {
                if event.content.is_some() {
                    steps.extend(step(&event.path, event.content.as_ref()));
                }
            }
        }
        steps
    }
}

/// One call of an adapter.
struct StorageStep<'a> {
    mount: &'a StorageMount,
    path: &'a TreePath,
    /// `None` deletes.
    write: Option<(&'a Content, u64)>,
}

impl StorageStep<'_> {
    fn make(&self) -> Result<()> {
        let key = self.mount.key(self.path)?;
        let adapter = &self.mount.adapter;
        let made = match self.write {
            Some((content, version)) => adapter.write(&key, content, version),
            None => adapter.delete(&key),
        };
        made.map_err(|fault| fault.of(self.path))
    }

    /// Stores again what the filesystem still holds. A failure here has no better answer than the error that led to it.
    fn undo(&self, before: &VfsState) {
        let Ok(key) = self.mount.key(self.path) else {
            return;
        };
        // Without the newer file, an adapter accepts the older version.
        let _ = self.mount.adapter.delete(&key);
        if let Some(TreeNode::File(file)) = before.node(self.path) {
            let _ = self.mount.adapter.write(&key, &file.content, file.version);
        }
    }
}

impl StorageMount {
    fn key(&self, path: &TreePath) -> Result<String> {
        // The caller has checked that the path is below the mount.
        let below = path.as_bytes()[self.path.as_bytes().len()..].to_vec();
        let key =
            String::from_utf8(below).map_err(|_| VfsError::Invalid("the paths of a storage are UTF-8"))?;
        Ok(key.trim_start_matches('/').to_owned())
    }

    fn path_of(&self, key: &str) -> Result<TreePath> {
        let below = TreePath::parse(key.as_bytes())?;
        if below.is_root() {
            return Err(VfsError::Invalid("a storage listed a file without a name"));
        }
        let path = self.path.join_path(&below);
        check_depth(&path)?;
        Ok(path)
    }
}

impl StorageFault {
    fn of(self, path: &TreePath) -> VfsError {
        let path = path.clone();
        match self {
            StorageFault::Conflict(source) => VfsError::StorageConflict { path, source },
            StorageFault::Failed(source) => VfsError::Storage { path, source },
        }
    }
}

/// [`Vfs::mount_storage`].
pub(crate) fn mount_storage(
    vfs: &Vfs,
    path: impl AsRef<[u8]>,
    adapter: Arc<dyn StorageAdapter>,
) -> Result<()> {
    vfs.check_owner()?;
    let path = parse(path.as_ref())?;
    let mount = StorageMount { path, adapter };
    vfs.change_many(StoreChange::FromStorage, |draft| {
        let mounts = vfs.storage();
        if mounts.covering(&mount.path).is_some() {
            let path = mount.path.clone();
            return Err(VfsError::Mounted { path });
        }
        mounts.check_movable(&mount.path)?;
        draft.step(|look, plan| plan_mount_point(look, plan, &mount.path))?;
        pull(draft, &mount)?;
        let mut mounts = vfs.shared.storage.write().unwrap_or_else(PoisonError::into_inner);
        // Last, when nothing can fail any longer, and within the turn: no change comes between the files and
        // the mount.
        Arc::make_mut(&mut mounts).0.push(mount.clone());
        Ok(())
    })
}

/// [`Vfs::unmount_storage`].
pub(crate) fn unmount_storage(vfs: &Vfs, path: impl AsRef<[u8]>) -> Result<bool> {
    vfs.check_owner()?;
    let path = parse(path.as_ref())?;
    // A change that is under way has asked the mounts, and goes to them.
    let _turn = vfs.shared.turn.take()?;
    let mut mounts = vfs.shared.storage.write().unwrap_or_else(PoisonError::into_inner);
    let mounts = &mut Arc::make_mut(&mut mounts).0;
    let before = mounts.len();
    mounts.retain(|mount| mount.path != path);
    Ok(mounts.len() != before)
}

/// [`Vfs::sync_storage`].
pub(crate) fn sync_storage(vfs: &Vfs, path: impl AsRef<[u8]>) -> Result<Vec<PathEvent>> {
    vfs.check_owner()?;
    let path = parse(path.as_ref())?;
    vfs.change_many(StoreChange::FromStorage, |draft| {
        let mounts = vfs.storage();
        let mount = mounts.0.iter().find(|mount| mount.path == path);
        pull(
            draft,
            mount.ok_or(VfsError::Invalid("no storage is mounted there"))?,
        )
    })
}

/// Makes the files below a mount what the storage holds.
fn pull(draft: &mut StateDraft<'_>, mount: &StorageMount) -> Result<Vec<PathEvent>> {
    let mut events = Vec::new();
    let listed = mount.adapter.list().map_err(|fault| fault.of(&mount.path))?;
    let mut kept = std::collections::BTreeSet::new();
    for (key, version) in listed {
        let path = mount.path_of(&key)?;
        let known = match draft.state.node(&path) {
            Some(TreeNode::File(file)) => Some((file.version, Arc::clone(&file.content))),
            _ => None,
        };
        kept.insert(path.clone());
        // The version says that nothing changed, so that the content need not be read.
        if known.as_ref().is_some_and(|(known, _)| *known == version) {
            continue;
        }
        let stored = mount.adapter.read(&key).map_err(|fault| fault.of(&path))?;
        // Another version of the same bytes is no change that anyone could see.
        if known.is_some_and(|(_, content)| *content == stored.data) {
            continue;
        }
        let content: Content = Arc::new(stored.data);
        events.push(draft.step(|look, plan| plan_pulled(look, plan, &path, &content, stored.version))?);
    }
    let mut gone = Vec::new();
    if let Some(node) = draft.state.node(&mount.path) {
        files_below(node, &mount.path, &mut gone);
    }
    gone.retain(|path| !kept.contains(path));
    for path in gone {
        events.push(draft.step(|look, plan| plan_gone(look, plan, &path))?);
    }
    Ok(events)
}

fn files_below(node: &TreeNode, path: &TreePath, files: &mut Vec<TreePath>) {
    match node {
        TreeNode::Directory(directory) => {
            for (name, node) in directory.entries.iter() {
                files_below(node, &path.join(name), files);
            }
        }
        TreeNode::File(_) => files.push(path.clone()),
        TreeNode::Symlink(_) | TreeNode::Provided(_) | TreeNode::Removed => {}
    }
}

fn plan_mount_point(look: &CallerLook<'_>, plan: &mut ChangePlan, path: &TreePath) -> Looked<()> {
    let walked = look.walk(path, false)?;
    let Some(found) = &walked.found else {
        look.plan_place(plan, &walked)?;
        plan.put(&walked.path, crate::write::new_directory(plan.now));
        return Ok(());
    };
    if !found.is_directory() {
        return Err(VfsError::NotADirectory { path: walked.path }.into());
    }
    if !look.children(found, &walked.path)?.is_empty() {
        return Err(VfsError::NotEmpty { path: walked.path }.into());
    }
    Ok(())
}

fn plan_pulled(
    look: &CallerLook<'_>,
    plan: &mut ChangePlan,
    path: &TreePath,
    content: &Content,
    stored: u64,
) -> Looked<PathEvent> {
    let walked = look.walk(path, false)?;
    let (event, attributes) = match walked.found.as_ref().map(|found| found.own) {
        None => {
            look.plan_place(plan, &walked)?;
            (PathEventKind::Create, NodeAttributes::new(0o644, plan.now))
        }
        Some(Some(TreeNode::File(file))) => {
            let mtime = plan.now;
            let attributes = file.attributes.clone();
            (PathEventKind::Update, NodeAttributes { mtime, ..attributes })
        }
        Some(_) => return Err(VfsError::IsADirectory { path: walked.path }.into()),
    };
    // Versions of a path never go down, whatever the storage counts from.
    let version = stored.max(look.state.last_version(&walked.path) + 1);
    let file = FileNode {
        content: Arc::clone(content),
        version,
        attributes,
        shadows: false,
    };
    let event = PathEvent {
        path: walked.path.clone(),
        event,
        content: Some(Arc::clone(content)),
        version,
        from: None,
    };
    plan.tell(event.clone(), false);
    plan.put(&walked.path, TreeNode::File(Arc::new(file)));
    Ok(event)
}

fn plan_gone(look: &CallerLook<'_>, plan: &mut ChangePlan, path: &TreePath) -> Looked<PathEvent> {
    let event = PathEvent {
        path: path.clone(),
        event: PathEventKind::Delete,
        content: None,
        version: look.state.last_version(path),
        from: None,
    };
    plan.tell(event.clone(), false);
    let path = path.clone();
    plan.edits.push(crate::change::ChangeStep::Remove { path });
    Ok(event)
}
