//! How a change happens: it is planned, asked about, stored outside, made, and told.
//!
//! A plan is made from what the caller can see, and checks everything. After that only a hook or a storage can stop
//! the change, and both are asked before anything changes. Making the change cannot fail.

pub(crate) mod hooks;
pub(crate) mod turn;

use std::sync::{Arc, PoisonError};

use avfs_core::{EntryName, Timestamp, TreePath};

use crate::change::hooks::{PathEffect, PathEvent, PathEventKind};
use crate::change::turn::TurnGuard;
use crate::error::{Result, VfsError};
use crate::look::{CallerLook, Looked};
use crate::node::{Content, DirectoryNode, FileNode, NodeAttributes, TreeNode, Usage};
use crate::vfs::{Limits, Vfs, VfsState};

/// One step of a change. Steps are made in order, and each is about a path without links.
pub(crate) enum ChangeStep {
    /// The directory above exists by now.
    Put {
        path: TreePath,
        node: TreeNode,
    },
    Remove {
        path: TreePath,
    },
    /// Bytes at the end of a file of the tree.
    Append {
        path: TreePath,
        data: Content,
        version: u64,
    },
    Attributes {
        path: TreePath,
        attributes: NodeAttributes,
    },
}

/// The steps of a change, and what hooks and storages are told of it.
pub(crate) struct ChangePlan {
    pub edits: Vec<ChangeStep>,
    pub effects: Vec<PathEffect>,
    /// Whether anybody wants to be told.
    pub is_watched: bool,
    pub now: Timestamp,
}

impl ChangePlan {
    pub(crate) fn put(&mut self, path: &TreePath, node: TreeNode) {
        let path = path.clone();
        self.edits.push(ChangeStep::Put { path, node });
    }

    pub(crate) fn tell(&mut self, event: PathEvent, append: bool) {
        if self.is_watched {
            self.effects.push(PathEffect { event, append });
        }
    }

    /// Tells of all files and links of a node, as it is or was at `path`.
    pub(crate) fn tell_all(
        &mut self,
        node: &TreeNode,
        path: &TreePath,
        kind: PathEventKind,
        from: Option<&TreePath>,
    ) {
        if !self.is_watched {
            return;
        }
        let (content, version) = match node {
            TreeNode::Directory(directory) => {
                for (name, node) in directory.entries.iter() {
                    let from = from.map(|from| from.join(name));
                    self.tell_all(node, &path.join(name), kind, from.as_ref());
                }
                return;
            }
            TreeNode::File(file) => (Some(&file.content), file.version),
            TreeNode::Symlink(_) => (None, 0),
            TreeNode::Provided(_) | TreeNode::Removed => return,
        };
        let event = PathEvent {
            path: path.clone(),
            event: kind,
            content: content.filter(|_| kind != PathEventKind::Delete).cloned(),
            version,
            from: from.cloned(),
        };
        self.tell(event, false);
    }
}

/// A state in the making: several steps that happen together or not at all.
pub(crate) struct StateDraft<'a> {
    vfs: &'a Vfs,
    pub state: VfsState,
    effects: Vec<PathEffect>,
    is_watched: bool,
}

impl StateDraft<'_> {
    /// Plans one step on what the steps before it have made, and makes it.
    pub(crate) fn step<T>(
        &mut self,
        plan: impl Fn(&CallerLook<'_>, &mut ChangePlan) -> Looked<T>,
    ) -> Result<T> {
        let now = self.vfs.now();
        let (answer, made) = self.vfs.look_at(&self.state, |look| {
            let mut made = ChangePlan {
                edits: Vec::new(),
                effects: Vec::new(),
                is_watched: self.is_watched,
                now,
            };
            Ok((plan(look, &mut made)?, made))
        })?;
        // On the draft: nothing is visible before all steps have succeeded.
        self.state.make(made.edits, now);
        self.effects.extend(made.effects);
        Ok(answer)
    }
}

/// Whether the storages are told of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreChange {
    Stored,
    /// The change comes from a storage.
    FromStorage,
}

/// [`Vfs::change`].
pub(crate) fn change<T>(
    vfs: &Vfs,
    plan: impl Fn(&CallerLook<'_>, &mut ChangePlan) -> Looked<T>,
) -> Result<T> {
    // Changes wait for each other here, and the plan stays valid until it is made; readers do not wait.
    let turn = vfs.shared.turn.take()?;
    let now = vfs.now();
    let is_watched = is_watched(vfs);
    let (answer, made) = vfs.look(|look| {
        let mut made = ChangePlan {
            edits: Vec::new(),
            effects: Vec::new(),
            is_watched,
            now,
        };
        Ok((plan(look, &mut made)?, made))
    })?;
    check_limits(
        vfs,
        || usage_after(&vfs.state(), &made.edits),
        || first_path(&made.edits),
    )?;
    // Without the lock of the state, because hooks and storages may read the filesystem.
    ask_and_store(vfs, &made.effects, StoreChange::Stored)?;
    state_mut(vfs, |state| state.make(made.edits, now));
    deliver(vfs, turn, made.effects)?;
    Ok(answer)
}

/// [`Vfs::change_many`].
pub(crate) fn change_many<T>(
    vfs: &Vfs,
    storing: StoreChange,
    steps: impl FnOnce(&mut StateDraft<'_>) -> Result<T>,
) -> Result<T> {
    let turn = vfs.shared.turn.take()?;
    let state = vfs.state().clone();
    let mut draft = StateDraft {
        vfs,
        state,
        effects: Vec::new(),
        is_watched: is_watched(vfs),
    };
    let answer = steps(&mut draft)?;
    let StateDraft { state, effects, .. } = draft;
    check_limits(vfs, || state.usage, TreePath::root)?;
    ask_and_store(vfs, &effects, storing)?;
    // Replaced as a whole: the turn guarantees that the state has not changed since it was copied.
    state_mut(vfs, |old| *old = state);
    deliver(vfs, turn, effects)?;
    Ok(answer)
}

fn is_watched(vfs: &Vfs) -> bool {
    !vfs.hooks().is_empty() || !vfs.storage().is_empty()
}

fn check_limits(vfs: &Vfs, usage: impl FnOnce() -> Usage, path: impl FnOnce() -> TreePath) -> Result<()> {
    let limits = vfs.shared.limits;
    if limits == Limits::default() {
        return Ok(());
    }
    let (now, then) = (vfs.usage(), usage());
    // What makes it smaller is allowed even beyond the limits.
    let over = |then: u64, now: u64, limit: u64| then > limit && then > now;
    let (limit, unit) = if over(then.bytes, now.bytes, limits.bytes) {
        (limits.bytes, "bytes")
    } else if over(then.entries, now.entries, limits.entries) {
        (limits.entries, "entries")
    } else {
        return Ok(());
    };
    let path = path();
    Err(VfsError::OverLimit { path, limit, unit })
}

fn ask_and_store(vfs: &Vfs, effects: &[PathEffect], storing: StoreChange) -> Result<()> {
    if effects.is_empty() {
        return Ok(());
    }
    // Hooks first: a storage cannot undo a write.
    vfs.hooks().ask(effects)?;
    match storing {
        StoreChange::Stored => vfs.storage().store(effects, &vfs.state().clone()),
        StoreChange::FromStorage => Ok(()),
    }
}

fn state_mut(vfs: &Vfs, edit: impl FnOnce(&mut VfsState)) {
    edit(&mut vfs.shared.state.write().unwrap_or_else(PoisonError::into_inner));
}

/// Tells the hooks. Those of changes that hooks make come behind those of the change that caused them.
fn deliver(vfs: &Vfs, turn: TurnGuard<'_>, effects: Vec<PathEffect>) -> Result<()> {
    if effects.is_empty() || vfs.hooks().is_empty() {
        return Ok(());
    }
    vfs.undelivered().extend(effects);
    // A change that was made by a hook: the loop of the outermost change tells of it, in its turn.
    if !turn.is_outermost() {
        return Ok(());
    }
    let mut told = Ok(());
    loop {
        // The lock of the queue is not held while hooks run.
        let Some(effect) = vfs.undelivered().pop_front() else {
            return told;
        };
        turn.start_delivering();
        let outcome = vfs.hooks().tell(&effect);
        // All hooks are told, and the first error is reported.
        if told.is_ok() {
            told = outcome;
        }
    }
}

fn first_path(edits: &[ChangeStep]) -> TreePath {
    let path = |edit: &ChangeStep| match edit {
        ChangeStep::Put { path, .. }
        | ChangeStep::Remove { path }
        | ChangeStep::Append { path, .. }
        | ChangeStep::Attributes { path, .. } => path.clone(),
    };
    edits.last().map_or_else(TreePath::root, path)
}

/// The edits of one change do not overlap, so each is compared with the state before all of them.
fn usage_after(state: &VfsState, edits: &[ChangeStep]) -> Usage {
    let old = |path: &TreePath| state.node(path).map_or_else(Usage::default, Usage::of);
    edits.iter().fold(state.usage, |usage, edit| match edit {
        ChangeStep::Put { path, node } => usage.minus(old(path)).plus(Usage::of(node)),
        ChangeStep::Remove { path } => usage.minus(old(path)),
        ChangeStep::Append { data, .. } => usage.plus(Usage {
            entries: 0,
            bytes: data.len() as u64,
        }),
        ChangeStep::Attributes { .. } => usage,
    })
}

impl VfsState {
    /// What the tree itself holds at a path without links.
    pub(crate) fn node(&self, path: &TreePath) -> Option<&TreeNode> {
        path.names().try_fold(&self.root, |node, name| match node {
            TreeNode::Directory(directory) => directory.entries.get(name),
            TreeNode::File(_) | TreeNode::Symlink(_) | TreeNode::Provided(_) | TreeNode::Removed => None,
        })
    }

    /// The version that a file at this path had last, or has.
    pub(crate) fn last_version(&self, path: &TreePath) -> u64 {
        match self.node(path) {
            Some(TreeNode::File(file)) => file.version,
            _ => self.retired.get(path).copied().unwrap_or(0),
        }
    }

    fn node_mut(&mut self, path: &TreePath) -> Option<&mut TreeNode> {
        path.names().try_fold(&mut self.root, |node, name| match node {
            TreeNode::Directory(directory) => Arc::make_mut(directory).entries.get_mut(name),
            TreeNode::File(_) | TreeNode::Symlink(_) | TreeNode::Provided(_) | TreeNode::Removed => None,
        })
    }

    /// The directory that holds the entry at `path`, and the entry's name.
    fn parent_mut(&mut self, path: &TreePath) -> Option<(&mut DirectoryNode, EntryName)> {
        let (parent, name) = path.split_last()?;
        match self.node_mut(&parent)? {
            TreeNode::Directory(directory) => Some((Arc::make_mut(directory), name)),
            TreeNode::File(_) | TreeNode::Symlink(_) | TreeNode::Provided(_) | TreeNode::Removed => None,
        }
    }

    pub(crate) fn make(&mut self, edits: Vec<ChangeStep>, now: Timestamp) {
        for edit in edits {
            let made = self.make_one(edit, now);
            debug_assert!(made.is_some(), "a plan is made for this state");
        }
    }

    fn make_one(&mut self, edit: ChangeStep, now: Timestamp) -> Option<()> {
        match edit {
            ChangeStep::Put { path, node } => {
                let added = Usage::of(&node);
                let is_file = matches!(node, TreeNode::File(_));
                let (parent, name) = self.parent_mut(&path)?;
                let old = parent.entries.insert(name, node);
                // Replacing an entry leaves the list of names as it is, and so the directory's time.
                if old.is_none() {
                    parent.attributes.mtime = now;
                }
                self.usage = self.usage.plus(added);
                match old {
                    Some(TreeNode::File(old)) if is_file => {
                        self.usage = self.usage.minus(Usage::of(&TreeNode::File(old)));
                    }
                    Some(old) => self.retire(&old, &path),
                    None => {}
                }
                // The version lives in the file again.
                if is_file && !self.retired.is_empty() {
                    self.retired.remove(path.as_bytes());
                }
            }
            ChangeStep::Remove { path } => {
                let (parent, name) = self.parent_mut(&path)?;
                parent.attributes.mtime = now;
                let old = parent.entries.remove(name.as_bytes())?;
                self.retire(&old, &path);
            }
            ChangeStep::Append { path, data, version } => {
                let TreeNode::File(file) = self.node_mut(&path)? else {
                    return None;
                };
                let file = Arc::make_mut(file);
                // Copies the content only if a snapshot or a reader still has it.
                Arc::make_mut(&mut file.content).extend_from_slice(&data);
                file.version = version;
                file.attributes.mtime = now;
                self.usage.bytes += data.len() as u64;
            }
            ChangeStep::Attributes { path, attributes } => {
                *self.node_mut(&path)?.attributes_mut()? = attributes
            }
        }
        Some(())
    }

    /// Counts a node out, and keeps the versions of its files.
    fn retire(&mut self, node: &TreeNode, path: &TreePath) {
        self.usage = self.usage.minus(Usage::of(node));
        self.retire_versions(node, path);
    }

    fn retire_versions(&mut self, node: &TreeNode, path: &TreePath) {
        match node {
            TreeNode::File(file) => drop(self.retired.insert(path.clone(), file.version)),
            TreeNode::Directory(directory) => {
                for (name, node) in directory.entries.iter() {
                    self.retire_versions(node, &path.join(name));
                }
            }
            TreeNode::Symlink(_) | TreeNode::Provided(_) | TreeNode::Removed => {}
        }
    }
}

/// A node for another path: each file gets a version that was never used there.
pub(crate) fn renumbered(node: &TreeNode, path: &TreePath, state: &VfsState, keep_rising: bool) -> TreeNode {
    match node {
        TreeNode::File(file) => {
            let before = if keep_rising { file.version } else { 0 };
            TreeNode::File(Arc::new(FileNode {
                version: state.last_version(path).max(before) + 1,
                ..(**file).clone()
            }))
        }
        TreeNode::Directory(directory) => {
            let mut copy = DirectoryNode {
                base: directory.base.clone(),
                attributes: directory.attributes.clone(),
                ..DirectoryNode::default()
            };
            for (name, node) in directory.entries.iter() {
                let node = renumbered(node, &path.join(name), state, keep_rising);
                copy.entries.insert(name.clone(), node);
            }
            TreeNode::Directory(Arc::new(copy))
        }
        TreeNode::Symlink(_) | TreeNode::Provided(_) | TreeNode::Removed => node.clone(),
    }
}
