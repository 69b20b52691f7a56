//! The filesystem: its state, and handles of it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::SystemTime;

use avfs_core::{Timestamp, TreePath};

use crate::change::hooks::{HookId, HookTime, Hooks, PathHook, Undelivered, WriteHook};
use crate::change::turn::ChangeTurn;
use crate::error::{Result, Right, VfsError};
use crate::look::{CallerLook, LookStop, Looked};
use crate::map::PersistentMap;
use crate::node::{DirectoryNode, NodeAttributes, TreeNode, Usage};
use crate::policy::VisibilityView;
use crate::storage::StorageMounts;

/// How many directories may lie inside each other. Everything that walks a tree recurses so deep at most.
pub const DEPTH_MAX: usize = 256;

const ROOT_MODE: u32 = 0o755;

/// Where a filesystem has its time from.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Timestamp::from_nanos(since.map_or(0, |since| since.as_nanos() as i128))
    }
}

/// The most that a filesystem holds. The default is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The sum of the file sizes.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes: u64::MAX,
            entries: u64::MAX,
        }
    }
}

/// One moment of a filesystem. A copy is a few pointers.
#[derive(Clone, Debug)]
pub(crate) struct VfsState {
    /// Always a directory.
    pub root: TreeNode,
    /// The last version of files that are gone, by path: no version is used twice.
    pub retired: PersistentMap<TreePath, u64>,
    pub usage: Usage,
}

impl VfsState {
    fn empty(now: Timestamp) -> VfsState {
        let root = DirectoryNode {
            attributes: NodeAttributes::new(ROOT_MODE, now),
            ..DirectoryNode::default()
        };
        VfsState {
            root: TreeNode::Directory(Arc::new(root)),
            retired: PersistentMap::default(),
            usage: Usage::default(),
        }
    }
}

/// A filesystem in memory. Clones are handles of the same filesystem; [`Vfs::fork`] makes another one.
#[derive(Clone)]
pub struct Vfs {
    pub(crate) shared: Arc<VfsShared>,
    pub(crate) view: Option<Arc<VisibilityView>>,
}

/// What all handles of a filesystem share. Locks are taken in the order of the fields.
pub(crate) struct VfsShared {
    pub turn: ChangeTurn,
    pub state: RwLock<VfsState>,
    hooks: RwLock<Arc<Hooks>>,
    pub storage: RwLock<Arc<StorageMounts>>,
    undelivered: Undelivered,
    pub limits: Limits,
    clock: Arc<dyn Clock>,
}

impl Default for Vfs {
    fn default() -> Vfs {
        Vfs::new()
    }
}

impl fmt::Debug for Vfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = self.usage();
        write!(f, "Vfs({} entries, {} bytes)", usage.entries, usage.bytes)
    }
}

impl Vfs {
    /// An empty filesystem.
    pub fn new() -> Vfs {
        Vfs::with_options(Limits::default(), Arc::new(SystemClock))
    }

    /// An empty filesystem that holds no more than this, with a clock of the caller.
    pub fn with_options(limits: Limits, clock: Arc<dyn Clock>) -> Vfs {
        Vfs::of_state(VfsState::empty(clock.now()), limits, clock)
    }

    fn of_state(state: VfsState, limits: Limits, clock: Arc<dyn Clock>) -> Vfs {
        let shared = VfsShared {
            turn: ChangeTurn::default(),
            state: RwLock::new(state),
            hooks: RwLock::default(),
            storage: RwLock::default(),
            undelivered: Mutex::default(),
            limits,
            clock,
        };
        Vfs {
            shared: Arc::new(shared),
            view: None,
        }
    }

    /// Another filesystem with the same entries, policies and providers. It costs a few pointers; the two share what
    /// neither changes. Hooks and storage mounts stay with the original: what is written to a fork reaches no storage.
    pub fn fork(&self) -> Result<Vfs> {
        self.check_owner()?;
        let state = self.state().clone();
        Ok(Vfs::of_state(
            state,
            self.shared.limits,
            Arc::clone(&self.shared.clock),
        ))
    }

    /// A handle through which only what the view shows exists. A handle that has a view keeps it.
    pub fn with_view(&self, view: VisibilityView) -> Result<Vfs> {
        self.check_owner()?;
        Ok(Vfs {
            shared: Arc::clone(&self.shared),
            view: Some(Arc::new(view)),
        })
    }

    /// The view of this handle.
    pub fn view(&self) -> Option<&VisibilityView> {
        self.view.as_deref()
    }

    /// Whether both are handles of the same filesystem.
    pub fn is_same(&self, other: &Vfs) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// How much the tree holds.
    pub fn usage(&self) -> Usage {
        self.state().usage
    }

    /// Runs `hook` with every write at or below `prefix`.
    pub fn register_write_hook(&self, prefix: &str, time: HookTime, hook: Arc<WriteHook>) -> Result<HookId> {
        let prefix = parse(prefix.as_bytes())?;
        self.edit_hooks(|hooks| hooks.add_write(prefix, time, hook))
    }

    /// Runs `hook` with every change at or below `prefix`, after it has happened.
    pub fn register_path_hook(&self, prefix: &str, hook: Arc<PathHook>) -> Result<HookId> {
        let prefix = parse(prefix.as_bytes())?;
        self.edit_hooks(|hooks| hooks.add_path(prefix, hook))
    }

    /// Returns whether there was such a hook.
    pub fn unregister_hook(&self, hook: HookId) -> Result<bool> {
        self.edit_hooks(|hooks| hooks.remove(hook))
    }

    fn edit_hooks<T>(&self, edit: impl FnOnce(&mut Hooks) -> T) -> Result<T> {
        self.check_owner()?;
        let mut hooks = self.shared.hooks.write().unwrap_or_else(PoisonError::into_inner);
        Ok(edit(Arc::make_mut(&mut hooks)))
    }

    pub(crate) fn hooks(&self) -> Arc<Hooks> {
        Arc::clone(&self.shared.hooks.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn storage(&self) -> Arc<StorageMounts> {
        Arc::clone(&self.shared.storage.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn undelivered(&self) -> MutexGuard<'_, VecDeque<crate::change::hooks::PathEffect>> {
        self.shared
            .undelivered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, VfsState> {
        self.shared.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// The same filesystem without a view.
    pub(crate) fn owner(&self) -> Vfs {
        Vfs {
            shared: Arc::clone(&self.shared),
            view: None,
        }
    }

    /// What concerns all readers of a filesystem takes a handle without a view.
    pub(crate) fn check_owner(&self) -> Result<()> {
        match self.view {
            None => Ok(()),
            Some(_) => Err(VfsError::Denied {
                path: TreePath::root(),
                right: Right::Own,
            }),
        }
    }

    /// Looks at the current state; with providers only if they are needed, and then on a copy and without a lock.
    pub(crate) fn look<T>(&self, look: impl Fn(&CallerLook<'_>) -> Looked<T>) -> Result<T> {
        let fast = |state: &VfsState| {
            look(&CallerLook {
                state,
                vfs: self,
                may_provide: false,
            })
        };
        match fast(&self.state()) {
            Ok(found) => return Ok(found),
            Err(LookStop::Failed(error)) => return Err(error),
            Err(LookStop::NeedsProvider) => {}
        }
        let state = self.state().clone();
        self.look_at(&state, look)
    }

    /// Looks at a state that does not change, with providers.
    pub(crate) fn look_at<T>(
        &self,
        state: &VfsState,
        look: impl Fn(&CallerLook<'_>) -> Looked<T>,
    ) -> Result<T> {
        let answer = look(&CallerLook {
            state,
            vfs: self,
            may_provide: true,
        });
        answer.map_err(|stop| match stop {
            LookStop::Failed(error) => error,
            LookStop::NeedsProvider => unreachable!("this look may call providers"),
        })
    }
}

/// Reads a path as users write it. `..` is refused, and so is what lies too deep.
pub fn parse(path: &[u8]) -> Result<TreePath> {
    let path = TreePath::parse(path)?;
    check_depth(&path)?;
    Ok(path)
}

pub(crate) fn check_depth(path: &TreePath) -> Result<()> {
    if path.names().count() > DEPTH_MAX {
        return Err(VfsError::TooDeep { path: path.clone() });
    }
    Ok(())
}
