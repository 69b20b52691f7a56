//! Carrying a plan out: everything or nothing.
//!
//! 1. The plan is made durable (`plan.json`).
//! 2. New entries are made beside their places (`staged.json`).
//! 3. Step by step, each entry is moved to its place: to a name that must be free, or in exchange with the
//!    existing entry, which must be the one that was compared. If it is not, another program changed it
//!    meanwhile; everything is rolled back and compared again.
//! 4. Replaced entries are kept, and the apply is done (`done.json`). If the store cannot keep the record of
//!    it, everything is rolled back nevertheless: an apply without a record could not be undone.

use std::cell::RefCell;
use std::time::Duration;

use avfs_core::{SnapshotId, TreePath};
use avfs_tree::ReadError;
use rustix::fd::AsFd;

use super::host::HostFiles;
use super::ledger::{Folder, Ledger};
use super::moves::Moves;
use super::perform::{Hitch, Perform};
use super::plan::{Application, Plan};
use super::record::{AppliedFile, ApplyRecord, BroughtPaths};
use super::rollback::Rollback;
use super::stage::Stage;
use super::step::{ApplyJournal, ApplyStep, DirectoryTime, LeftTime, StepAction};
use crate::error::ApplyId;
use crate::error::Result;
use crate::error::{ApplyError, ApplyGoal, KeptCopy};
use crate::store::Store;
use crate::stored_bytes::StoredBytes;

/// How often a plan is recomputed because another program changed the directory meanwhile.
const ATTEMPTS: usize = 20;

/// Called at every moment at which a kill of the process would leave a different state behind.
pub trait ApplyWatch {
    /// Called when an apply has passed a moment.
    fn passed(&self, moment: Moment);
}

/// Ignores all events.
impl ApplyWatch for () {
    fn passed(&self, _: Moment) {}
}

/// A moment of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The steps are known, and nothing is written.
    Planned,
    /// The new entry of a step waits beside its place.
    Staged(usize),
    /// Everything that the steps need is on the disk.
    Prepared,
    /// An exchange that the file system cannot do atomically is half done.
    Between,
    /// A step has changed the entry of a name.
    Moved(usize),
    /// The replaced entry has been kept.
    Kept(usize),
    /// All steps are done.
    Done,
    /// The apply is in the record of the store.
    Recorded,
}

/// The result of an apply.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// `None`: there was nothing to do.
    pub id: Option<ApplyId>,
    /// What was done, by path.
    pub files: Vec<AppliedFile>,
    /// Versions that another program wrote in the moment of an exchange, and where they are.
    pub kept: Vec<KeptCopy>,
    /// The file system cannot exchange files atomically.
    pub in_two_steps: bool,
}

impl Plan {
    /// Executes the plan. If the directory has changed since the comparison, it is compared again.
    pub fn carry_out(self) -> Result<Applied> {
        self.carry_out_watched(&())
    }

    /// The same, for a caller that is told each moment.
    pub fn carry_out_watched(mut self, watch: &dyn ApplyWatch) -> Result<Applied> {
        let store = self.application.store.clone();
        self.application.check_settled()?;
        let ledger = Ledger::of(&store)?;
        let _turn = ledger.turn(store.patience())?;
        store.applies().recover_under_turn(&ledger)?;
        let mut kept = Vec::new();
        let mut pause = Duration::from_micros(100);
        for _ in 0..ATTEMPTS {
            if !self.conflicts.is_empty() {
                return Err(ApplyError::Conflicts {
                    conflicts: self.conflicts,
                    wanted: ApplyGoal::Apply,
                }
                .into());
            }
            if self.is_empty() {
                self.note_nothing_to_do()?;
                return Ok(Applied {
                    kept,
                    ..Applied::default()
                });
            }
            let mut application = self.application.clone();
            if !self.keep_versions()? {
                // The user's changes meanwhile are in the base, and in the task.
                application.base = store.projects().with_moved(application.base)?;
                application.theirs = store.projects().with_moved(application.theirs)?;
                self = application.look()?;
                continue;
            }
            let work = ApplyAttempt {
                store: &store,
                ledger: &ledger,
                snapshot: application.theirs,
                task: application.options.task.as_ref().map(ToString::to_string),
                partial: self.is_partial(),
                brought: self.application.brought(std::mem::take(&mut self.brought)),
                undoes: None,
                redoes: None,
                watch,
            };
            match work.run(self.host, self.steps, self.directories, self.files)? {
                Outcome::Done(mut applied) => {
                    applied.kept.extend(kept);
                    return Ok(applied);
                }
                Outcome::Overtaken { path, kept: more } => {
                    kept.extend(more);
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(50));
                    self = application.look().map_err(|error| match error {
                        // An error while reading is probably caused by the change that overtook us.
                        ApplyError::Host { .. } => ApplyError::Overtaken {
                            path,
                            kept: kept.clone(),
                        },
                        error => error,
                    })?;
                }
            }
        }
        let path = self
            .files
            .first()
            .map(|file| file.path.clone())
            .unwrap_or_default();
        Err(ApplyError::Overtaken { path, kept }.into())
    }
}

impl Plan {
    /// A task counts as applied when the directory has all of its work, however it got there.
    fn note_nothing_to_do(&self) -> Result<()> {
        let Application {
            store,
            base,
            theirs,
            options,
            ..
        } = &self.application;
        let Some(Ok(task)) = options.task.as_ref().map(|name| store.task(name.as_str())) else {
            return Ok(());
        };
        let is_all = !self.is_partial() && base != theirs;
        let is_here = task.root() == self.host.path();
        if is_all && is_here && task.applied() != Some(*theirs) {
            task.note_applied(Some(*theirs), "there already")
        } else {
            Ok(())
        }
    }

    /// Keeps the versions that this removes from their paths: the task and others began with them, and may
    /// not have read them yet. `false`: the user has changed one of them first.
    fn keep_versions(&self) -> Result<bool> {
        let objects = self.application.store.objects();
        let before = self.application.reader(self.application.base)?;
        let mut is_all = true;
        for step in &self.steps {
            let path = match &step.action {
                StepAction::Put { over: Some(_), .. } => &step.path,
                _ => match step.leaves() {
                    Some(path) => path,
                    None => continue,
                },
            };
            match before.find(path) {
                Ok(found) => is_all &= objects.keep_contents_of(&found.entry).map_err(ApplyError::from)?,
                Err(error @ ReadError::Object { .. }) => return Err(ApplyError::from(error).into()),
                // It was not there when the task began.
                Err(_) => {}
            }
        }
        objects.commit_kept().map_err(ApplyError::from)?;
        Ok(is_all)
    }
}

/// The outcome of an attempt.
pub(super) enum Outcome {
    Done(Applied),
    /// Another program changed this path meanwhile; everything is unchanged.
    Overtaken {
        path: TreePath,
        kept: Vec<KeptCopy>,
    },
}

/// One attempt, for whatever reason.
pub(super) struct ApplyAttempt<'a> {
    pub store: &'a Store,
    pub ledger: &'a Ledger,
    pub snapshot: SnapshotId,
    pub task: Option<String>,
    pub partial: bool,
    pub brought: Option<BroughtPaths>,
    pub undoes: Option<ApplyId>,
    pub redoes: Option<ApplyId>,
    pub watch: &'a dyn ApplyWatch,
}

impl ApplyAttempt<'_> {
    pub(super) fn run(
        &self,
        host: HostFiles,
        steps: Vec<ApplyStep>,
        directories: Vec<DirectoryTime>,
        files: Vec<AppliedFile>,
    ) -> Result<Outcome> {
        let id = self.store.applies().next_apply_id()?;
        let record = ApplyRecord {
            discarded: false,
            id,
            task: self.task.clone(),
            snapshot: self.snapshot,
            partial: self.partial,
            into: StoredBytes::from(host.path().as_os_str()),
            time: self.store.now(),
            actor: self.store.actor().name.clone(),
            files,
            undoes: self.undoes,
            redoes: self.redoes,
            undone: None,
            brought: self.brought.clone(),
        };
        let journal = ApplyJournal {
            into: record.into.clone(),
            top: host.key,
            steps,
            directories,
            record,
        };
        let folder = self.ledger.begin(id)?;
        folder.write(Folder::PLAN, &journal)?;
        self.watch.passed(Moment::Planned);
        let between = || self.watch.passed(Moment::Between);
        let moves = Moves::new(&between);
        let attempted = self
            .attempt(&host, &folder, &journal, &moves)
            .and_then(|left| self.record(&host, &folder, &journal, left));
        match attempted {
            Ok(recorded) => self
                .finish(&host, &folder, &journal, &moves, recorded)
                .map(Outcome::Done),
            Err(hitch) => self.withdraw(&host, &folder, &journal, hitch),
        }
    }

    /// Makes the new entries and gives them their places.
    fn attempt(
        &self,
        host: &HostFiles,
        folder: &Folder,
        journal: &ApplyJournal,
        moves: &Moves<'_>,
    ) -> std::result::Result<Vec<LeftTime>, Hitch> {
        let earlier = self.undoes.map(|id| self.ledger.open_done(id));
        let stage = Stage {
            host,
            objects: self.store.objects(),
            id: folder.id,
            earlier: earlier.as_ref(),
            renamed: journal.steps.iter().filter_map(renamed).collect(),
        };
        let mut staged = Vec::new();
        for (number, step) in journal.steps.iter().enumerate() {
            staged.push(stage.make(number, step)?);
            self.watch.passed(Moment::Staged(number));
        }
        stage.sync(&journal.steps, &staged)?;
        folder.write(Folder::STAGED, &staged)?;
        folder.take_room(journal)?;
        self.watch.passed(Moment::Prepared);
        let perform = Perform {
            host,
            folder,
            moves,
            watch: self.watch,
            left: RefCell::default(),
        };
        for (number, step) in journal.steps.iter().enumerate() {
            perform.step(number, step)?;
        }
        folder.release_room();
        let left = perform.left.take();
        if !left.is_empty() {
            folder.write(Folder::LEFT, &left)?;
        }
        Ok(perform.finish_directories(journal)?)
    }

    /// Takes everything back.
    fn withdraw(
        &self,
        host: &HostFiles,
        folder: &Folder,
        journal: &ApplyJournal,
        hitch: Hitch,
    ) -> Result<Outcome> {
        if let Hitch::Unknown { first, reason } = hitch {
            let stuck = ApplyError::Stuck {
                path: host.path().to_owned(),
                reason: reason.to_string(),
                first: first.to_string(),
            };
            return Err(stuck.into());
        }
        folder.release_room();
        let back = Rollback::new(host, folder, journal)?.run();
        let kept = match back {
            Ok(kept) => kept,
            Err(error) => {
                let first = match &hitch {
                    Hitch::Overtaken(path) => format!("{path} was changed meanwhile"),
                    Hitch::Failed(error) => error.to_string(),
                    Hitch::Unknown { first, .. } => first.to_string(),
                };
                let stuck = ApplyError::Stuck {
                    path: host.path().to_owned(),
                    reason: error.to_string(),
                    first,
                };
                return Err(stuck.into());
            }
        };
        let kept = put_away_or_forget(self.ledger, folder, &journal.into, kept)?;
        let error = match hitch {
            Hitch::Overtaken(path) => return Ok(Outcome::Overtaken { path, kept }),
            Hitch::Failed(error) => error,
            Hitch::Unknown { first, .. } => *first,
        };
        if kept.is_empty() {
            return Err(error);
        }
        let first = Box::new(error);
        Err(ApplyError::Versions { first, kept }.into())
    }

    /// Everything was done: stores the record of it.
    fn record(
        &self,
        host: &HostFiles,
        folder: &Folder,
        journal: &ApplyJournal,
        left: Vec<LeftTime>,
    ) -> std::result::Result<Recorded, Hitch> {
        sync_directories(host, journal)?;
        folder.write(Folder::DONE, &left)?;
        self.watch.passed(Moment::Done);
        let Err(error) = self.store.applies().keep_apply_record(&journal.record) else {
            self.watch.passed(Moment::Recorded);
            return Ok(Recorded::All);
        };
        match self.store.applies().find(folder.id) {
            Ok(None) => {
                folder.withdraw(Folder::DONE)?;
                Err(Hitch::Failed(error))
            }
            Ok(Some(_)) => Ok(Recorded::Partly),
            Err(unknown) => Err(Hitch::Unknown {
                first: error.into(),
                reason: unknown.into(),
            }),
        }
    }

    fn finish(
        &self,
        host: &HostFiles,
        folder: &Folder,
        journal: &ApplyJournal,
        moves: &Moves<'_>,
        recorded: Recorded,
    ) -> Result<Applied> {
        let mut applied = Applied {
            id: Some(folder.id),
            files: journal.record.files.clone(),
            kept: Vec::new(),
            in_two_steps: moves.was_in_two_steps(),
        };
        if recorded == Recorded::Partly {
            return Ok(applied);
        }
        let late = late_versions(host, folder, journal)?;
        if let Some(undone) = self.undoes {
            self.ledger.open_done(undone).remove()?;
        }
        let done = self.ledger.put_away(folder, &journal.into)?;
        let kept = late.into_iter().map(|(path, number)| KeptCopy {
            path,
            kept: done.kept_path(number),
        });
        applied.kept = kept.collect();
        Ok(applied)
    }
}

/// How much of the record of the apply is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    All,
    /// The apply has its record, and the task does not know of it. The next command finishes that.
    Partly,
}

/// The new path of a file that a step moves, and its present path.
fn renamed(step: &ApplyStep) -> Option<(&TreePath, &TreePath)> {
    match &step.action {
        StepAction::Rename { from, .. } => Some((&step.path, from)),
        _ => None,
    }
}

/// Removes an apply that was rolled back, unless its new entries had reached their places: a program may have
/// one of them open and still write to it.
pub(super) fn put_away_or_forget(
    ledger: &Ledger,
    folder: &Folder,
    directory: &StoredBytes,
    kept: Vec<KeptCopy>,
) -> Result<Vec<KeptCopy>, ApplyError> {
    if kept.is_empty() && !folder.has_put_aside()? {
        folder.remove()?;
        return Ok(kept);
    }
    let done = ledger.put_away(folder, directory)?;
    let moved = |copy: KeptCopy| match copy.kept.strip_prefix(&folder.path) {
        Ok(below) => KeptCopy {
            kept: done.path.join(below),
            ..copy
        },
        Err(_) => copy,
    };
    Ok(kept.into_iter().map(moved).collect())
}

/// Kept files that a program still wrote to after they had come out.
fn late_versions(
    host: &HostFiles,
    folder: &Folder,
    journal: &ApplyJournal,
) -> Result<Vec<(TreePath, usize)>, ApplyError> {
    let kept = folder.kept()?;
    let mut late = Vec::new();
    for (number, step) in journal.steps.iter().enumerate() {
        let (StepAction::Put { over: Some(was), .. } | StepAction::Remove { was }) = &step.action else {
            continue;
        };
        let seen = host.look_at(kept.as_fd(), number.to_string().as_bytes());
        if !matches!(seen, Ok(Some(seen)) if seen.print == *was) {
            late.push((step.path.clone(), number));
        }
    }
    Ok(late)
}

fn sync_directories(host: &HostFiles, journal: &ApplyJournal) -> Result<(), ApplyError> {
    for DirectoryTime { path, .. } in &journal.directories {
        let directory = host.directory(path)?;
        // After the modes and times were set: the journal goes next, and nothing could set them again.
        rustix::fs::fsync(&directory).map_err(|errno| host.failed("writing", path, errno))?;
    }
    Ok(())
}
