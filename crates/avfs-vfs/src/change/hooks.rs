//! What callers are told about changes, before and after they happen.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use avfs_core::TreePath;

use crate::error::{CallbackError, Result, VfsError};
use crate::node::Content;

/// How many changes the hooks of one change may make in a row.
pub const CHAIN_MAX: usize = 10_000;

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathEventKind {
    /// A file or link is there that was not.
    Create,
    /// A file has other content, or a link another target.
    Update,
    /// A file or link is gone.
    Delete,
    /// A file or link has another path.
    Move,
}

impl PathEventKind {
    /// The name that programs see.
    pub fn as_str(self) -> &'static str {
        match self {
            PathEventKind::Create => "create",
            PathEventKind::Update => "update",
            PathEventKind::Delete => "delete",
            PathEventKind::Move => "move",
        }
    }
}

/// A change of one file or link. Directories have no events of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEvent {
    /// The path that changed; the new one after a move.
    pub path: TreePath,
    /// What happened.
    pub event: PathEventKind,
    /// The content of a file after the change.
    pub content: Option<Content>,
    /// The version of a file after the change, and the last one of a file that is gone.
    pub version: u64,
    /// The old path after a move.
    pub from: Option<TreePath>,
}

/// New content of a file, by whichever way it gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteEvent {
    /// The file.
    pub path: TreePath,
    /// All of its new content.
    pub content: Content,
    /// The version that the file has with it.
    pub version: u64,
    /// Whether the change adds at the end.
    pub append: bool,
}

/// When a write hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookTime {
    /// Before the change: an error stops it, and nothing changes.
    Before,
    /// After the change: an error is reported, and the change stays.
    After,
}

/// Is called with each write at or below its prefix.
pub type WriteHook = dyn Fn(&WriteEvent) -> Result<(), CallbackError> + Send + Sync;
/// Is called with each change at or below its prefix, in the order of the changes.
pub type PathHook = dyn Fn(&PathEvent) -> Result<(), CallbackError> + Send + Sync;

/// Names a hook, to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HookId(pub(crate) u64);

struct RegisteredHook<H: ?Sized> {
    id: HookId,
    prefix: TreePath,
    hook: Arc<H>,
}

impl<H: ?Sized> Clone for RegisteredHook<H> {
    fn clone(&self) -> Self {
        RegisteredHook {
            id: self.id,
            prefix: self.prefix.clone(),
            hook: Arc::clone(&self.hook),
        }
    }
}

/// The hooks of one filesystem, in the order of their registration.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    next: u64,
    before: Vec<RegisteredHook<WriteHook>>,
    after: Vec<RegisteredHook<WriteHook>>,
    paths: Vec<RegisteredHook<PathHook>>,
}

impl Hooks {
    pub(crate) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty() && self.paths.is_empty()
    }

    fn next_id(&mut self) -> HookId {
        self.next += 1;
        HookId(self.next)
    }

    pub(crate) fn add_write(&mut self, prefix: TreePath, time: HookTime, hook: Arc<WriteHook>) -> HookId {
        let id = self.next_id();
        let hooks = match time {
            HookTime::Before => &mut self.before,
            HookTime::After => &mut self.after,
        };
        hooks.push(RegisteredHook { id, prefix, hook });
        id
    }

    pub(crate) fn add_path(&mut self, prefix: TreePath, hook: Arc<PathHook>) -> HookId {
        let id = self.next_id();
        self.paths.push(RegisteredHook { id, prefix, hook });
        id
    }

    /// Returns whether there was one.
    pub(crate) fn remove(&mut self, id: HookId) -> bool {
        let count = |hooks: &Hooks| hooks.before.len() + hooks.after.len() + hooks.paths.len();
        let before = count(self);
        self.before.retain(|hook| hook.id != id);
        self.after.retain(|hook| hook.id != id);
        self.paths.retain(|hook| hook.id != id);
        count(self) != before
    }

    /// Asks the hooks that may stop a change.
    pub(crate) fn ask(&self, effects: &[PathEffect]) -> Result<()> {
        for event in effects.iter().filter_map(PathEffect::write_event) {
            for hook in self
                .before
                .iter()
                .filter(|hook| event.path.starts_with(&hook.prefix))
            {
                (hook.hook)(&event).map_err(|source| VfsError::Hook {
                    path: event.path.clone(),
                    source,
                })?;
            }
        }
        Ok(())
    }

    /// Tells the hooks that run after a change. All of them are told, and the first error is returned.
    pub(crate) fn tell(&self, effect: &PathEffect) -> Result<()> {
        let mut told = Ok(());
        let mut keep_first = |outcome: Result<(), CallbackError>| {
            let failed = outcome.map_err(|source| VfsError::AfterHook {
                path: effect.event.path.clone(),
                source,
            });
            if told.is_ok() {
                told = failed;
            }
        };
        if let Some(event) = effect.write_event() {
            for hook in self
                .after
                .iter()
                .filter(|hook| event.path.starts_with(&hook.prefix))
            {
                keep_first((hook.hook)(&event));
            }
        }
        let event = &effect.event;
        for hook in &self.paths {
            let from = event.from.as_ref();
            if event.path.starts_with(&hook.prefix) || from.is_some_and(|from| from.starts_with(&hook.prefix))
            {
                keep_first((hook.hook)(event));
            }
        }
        told
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.before.len() + self.after.len() + self.paths.len();
        write!(f, "Hooks({count})")
    }
}

/// A change of one path, as those who watch it are told.
#[derive(Clone, Debug)]
pub(crate) struct PathEffect {
    pub event: PathEvent,
    pub append: bool,
}

impl PathEffect {
    fn write_event(&self) -> Option<WriteEvent> {
        if self.event.event == PathEventKind::Delete {
            return None;
        }
        Some(WriteEvent {
            path: self.event.path.clone(),
            content: self.event.content.clone()?,
            version: self.event.version,
            append: self.append,
        })
    }
}

/// Effects that hooks have yet to be told, in order.
pub(crate) type Undelivered = Mutex<VecDeque<PathEffect>>;
