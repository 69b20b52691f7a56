//! Keeps git fast in a run of a large task: its index is prepared while the run begins, and git queries
//! changes instead of examining every file (`crate::git::fsmonitor`).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use avfs_core::rules::Rules;
use avfs_core::{EntryName, SnapshotId, Timestamp, TreePath};
use avfs_exec::SandboxPlan;
use avfs_exec::plan::PROGRAMS;
use avfs_tree::{EntryPlace, FsError, NameInPreparation, NewEntry, NewerEntries, SetAttr, WorkTree};

use super::changes::sees;
use super::door::{DoorReply, DoorScope, InnerDoor};
use super::workspace::MountedVault;
use crate::error::Result;
use crate::git::fsmonitor::{self, PreparedIndex};
use crate::git::{GitStop, add_setting, is_in_repository};
use crate::task::Task;
use crate::vault::Vault;

const REPOSITORY: &[u8] = b".git";
const INDEX: &str = ".git/index";
/// The name of an index that is not in its place yet, and the one that keeps git from writing another.
const MADE: &str = "avfs-index.new";
const LOCK: &str = "index.lock";

/// How many entries of the history are searched for the state that git names.
const HISTORY: usize = 500;
/// With more changed paths, git may as well look at everything.
const CHANGED_MAX: usize = 50_000;
/// The kernel's clock for file times may lag by this.
const TICK: Duration = Duration::from_millis(20);

/// Answers git's questions in one run, and passes on all others.
pub(super) struct GitMonitor<'a> {
    vault: &'a Vault,
    project: &'a Path,
    workspace: &'a MountedVault,
    door: &'a dyn InnerDoor,
    rules: Option<Rules>,
    /// The state at the beginning of the run, and its base.
    began: SnapshotId,
    base: SnapshotId,
    /// Files that git must examine itself when it names the initial state of the run.
    doubtful: Mutex<Vec<TreePath>>,
    /// Changes that the user made on the host before the files were read in the task.
    newer: Arc<NewerEntries>,
    stop: GitStop,
}

impl<'a> GitMonitor<'a> {
    /// `None`: git examines the files itself, because there are few of them, or because another process
    /// serves them.
    pub(super) fn of(
        task: &'a Task,
        workspace: &'a MountedVault,
        door: Option<&'a dyn InnerDoor>,
        rules: Option<Rules>,
        began: SnapshotId,
    ) -> Option<GitMonitor<'a>> {
        let tree = workspace.tree()?;
        let index = tree.resolve(&index_path()).ok()?;
        let is_large = fsmonitor::is_large_by_size(index.size).unwrap_or_else(|| {
            let mut beginning = [0; 12];
            tree.read(index.ino, 0, &mut beginning).is_ok() && fsmonitor::is_large(&beginning)
        });
        if !is_large {
            return None;
        }
        // Including earlier runs: files that they did not read may have changed since.
        let since = system_time(task.vault().record().ok()?.0.created) - TICK;
        Some(GitMonitor {
            vault: task.vault(),
            project: task.root(),
            workspace,
            door: door?,
            rules,
            began,
            base: task.base().ok()?,
            doubtful: Mutex::default(),
            newer: task.vault().store().objects().note_newer(timestamp(since)),
            stop: GitStop::default(),
        })
    }

    /// Tells git inside how to ask.
    pub(super) fn set_up(&self, plan: &mut SandboxPlan) {
        let asking = format!("{PROGRAMS}/avfs {}", fsmonitor::QUESTION);
        add_setting(&mut plan.env, fsmonitor::SETTING, &asking);
    }

    /// Does something while the index is being made ready. Programs that look for the index meanwhile wait for it.
    pub(super) fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        std::thread::scope(|scope| {
            if let Some(held) = self.hold_index() {
                scope.spawn(move || {
                    // Without it git examines the files, as everywhere else.
                    let _ = self.prepare();
                    drop(held);
                });
            }
            let done = work();
            self.stop.stop();
            done
        })
    }

    fn hold_index(&self) -> Option<NameInPreparation> {
        let tree = self.workspace.tree()?;
        let (parent, name) = index_path().split_last()?;
        Some(tree.prepare_name(EntryPlace::new(tree.resolve(&parent).ok()?.ino, name)))
    }

    fn index(&self) -> Result<Vec<u8>> {
        let reader = self.vault.reader_at(self.began)?;
        reader
            .read(&index_path())
            .map(|bytes| bytes.to_vec())
            .map_err(|error| self.vault.history().read_error(error))
    }

    fn prepare(&self) -> Result<()> {
        let Some(tree) = self.workspace.tree() else {
            return Ok(());
        };
        let index = self.index()?;
        if fsmonitor::asks(&index) {
            // git has asked before, in another run of the task.
            return Ok(());
        }
        let found = tree.resolve(&index_path())?;
        let prepared = PreparedIndex::make(
            self.project,
            &index,
            system_time(found.meta.mtime),
            self.began,
            self.rules.as_ref(),
            &self.stop,
        )?;
        if let Some(prepared) = prepared {
            *self.doubtful.lock().unwrap_or_else(PoisonError::into_inner) = prepared.doubtful.clone();
            install(tree, &prepared)?;
        }
        Ok(())
    }

    /// The answer to a query with this token.
    fn changed_since(&self, token: &OsStr) -> Result<Vec<u8>> {
        // git's own files are not reported to git, and its index alone may be large.
        let now = self
            .workspace
            .settle_beside(&EntryName::new(REPOSITORY).expect("a good name"))?;
        let changed = match fsmonitor::state_of(token.as_bytes()) {
            Some(state) if self.is_comparable(state)? => self.changes(state, now)?,
            _ => None,
        };
        Ok(fsmonitor::answer(now, changed.as_deref()))
    }

    /// Only states of this task are compared. With a `sync` in between, unread directories have become
    /// different ones, without being a change of the task.
    fn is_comparable(&self, state: SnapshotId) -> Result<bool> {
        let present = self.vault.record()?.0.task.map(|task| task.base);
        if state == self.began {
            return Ok(present == Some(self.base));
        }
        let history = self.vault.history().entries(None, HISTORY)?;
        let known = history.iter().find(|entry| entry.snapshot == state);
        Ok(known.is_some_and(|entry| entry.task_base.is_some() && entry.task_base == present))
    }

    /// `None`: too many to report.
    fn changes(&self, state: SnapshotId, now: SnapshotId) -> Result<Option<Vec<Vec<u8>>>> {
        let (before, after) = (self.vault.snapshot(state)?.root, self.vault.snapshot(now)?.root);
        let changes = self.vault.history().changed_paths(&before, &after)?;
        let mut changed: Vec<TreePath> = changes.into_iter().map(|change| change.path).collect();
        if state == self.began {
            changed.extend(
                self.doubtful
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .iter()
                    .cloned(),
            );
        }
        changed.retain(|path| self.is_told(path));
        let mut told: Vec<Vec<u8>> = changed.iter().map(|path| path.as_bytes().to_vec()).collect();
        // A directory in which names were made or removed ends with a slash.
        let newer = self.newer.paths().into_iter().filter(|path| {
            let plain = path.strip_suffix(b"/").unwrap_or(path);
            TreePath::parse(plain).is_ok_and(|path| self.is_told(&path))
        });
        told.extend(newer);
        Ok((told.len() <= CHANGED_MAX).then_some(told))
    }

    /// git rejects an empty path; nothing of the root directory itself is tracked. Hidden files are not
    /// named.
    fn is_told(&self, path: &TreePath) -> bool {
        !path.is_root()
            && !is_in_repository(path)
            && self.rules.as_ref().is_none_or(|rules| sees(rules, path))
    }
}

impl InnerDoor for GitMonitor<'_> {
    fn answer(&self, words: &[OsString], run: &DoorScope) -> DoorReply {
        match words {
            [question, version, token] if question == fsmonitor::QUESTION && version == "2" => {
                match self.changed_since(token) {
                    Ok(stdout) => DoorReply {
                        stdout,
                        ..DoorReply::default()
                    },
                    // git examines everything.
                    Err(error) => DoorReply {
                        status: 1,
                        stderr: format!("error: {}\n", avfs_core::with_causes(&error)).into_bytes(),
                        ..DoorReply::default()
                    },
                }
            }
            _ => self.door.answer(words, run),
        }
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp {
        seconds: since.as_secs() as i64,
        nanos: since.subsec_nanos(),
    }
}

fn system_time(time: Timestamp) -> SystemTime {
    let since = Duration::new(u64::try_from(time.seconds).unwrap_or_default(), time.nanos);
    SystemTime::UNIX_EPOCH + since
}

fn index_path() -> TreePath {
    TreePath::parse(INDEX.as_bytes()).expect("a good path")
}

/// Puts an index into its place atomically, as git would; an index that git wrote meanwhile is kept.
fn install(tree: &WorkTree, prepared: &PreparedIndex) -> Result<(), FsError> {
    let path = index_path();
    let (parent, name) = path.split_last().expect("it is in a directory");
    let name_of = |text: &str| EntryName::new(text.as_bytes()).expect("a good name");
    let (made, lock) = (name_of(MADE), name_of(LOCK));
    let before = tree.resolve(&path)?;
    let git = tree.resolve(&parent)?;
    let new = NewEntry::file(before.meta.mode).owned_by(before.meta.uid, before.meta.gid);
    let ino = tree.create(git.ino, &made, new.clone())?.ino;
    let written = || {
        for (number, piece) in prepared.bytes.chunks(1 << 20).enumerate() {
            tree.write(ino, (number as u64) << 20, piece)?;
        }
        let mtime = Some(timestamp(prepared.written));
        tree.set_attr(
            ino,
            SetAttr {
                mtime,
                ..SetAttr::default()
            },
        )?;
        tree.create(git.ino, &lock, new).map(drop)
    };
    let replaced = written().and_then(|()| {
        let now = tree.lookup(git.ino, &name)?;
        let is_same = (now.ino, now.meta.mtime) == (before.ino, before.meta.mtime);
        let moved = if is_same {
            tree.rename(
                EntryPlace::new(git.ino, made.clone()),
                EntryPlace::new(git.ino, name),
            )
        } else {
            Err(FsError::Exists)
        };
        tree.unlink(git.ino, &lock).and(moved)
    });
    if replaced.is_err() {
        // It may be gone with its repository.
        let _ = tree.unlink(git.ino, &made);
    }
    let mtime = Some(git.meta.mtime);
    tree.set_attr(
        git.ino,
        SetAttr {
            mtime,
            ..SetAttr::default()
        },
    )?;
    replaced
}
