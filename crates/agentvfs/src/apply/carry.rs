//! Carrying a plan out: everything or nothing.
//!
//! 1. What will be done is made durable (`plan.json`).
//! 2. New entries are made beside their places (`staged.json`).
//! 3. Step by step, each gets its place: by a name that must be free, or in exchange with the one that is
//!    there, which must be the one that was looked at. If it is not, somebody changed it in that moment;
//!    everything is taken back and looked at again.
//! 4. What came out is kept, and the whole is done (`done.json`).

use std::cell::RefCell;
use std::time::Duration;

use avfs_core::{SnapshotId, TreePath};
use avfs_tree::ReadError;
use rustix::fd::AsFd;

use super::error::{ApplyError, KeptCopy, Wanted};
use super::host::Host;
use super::ledger::{Folder, Ledger};
use super::moves::Moves;
use super::perform::{Hitch, Perform};
use super::plan::{Application, Plan};
use super::record::{AppliedFile, ApplyId, ApplyRecord};
use super::stage::Stage;
use super::step::{Action, DirectoryTime, Journal, LeftTime, Step};
use super::taking_back::TakingBack;
use crate::approvals::raw::Raw;
use crate::error::Result;
use crate::store::Store;

/// How often a plan is made anew because somebody changed the directory meanwhile.
const ATTEMPTS: usize = 20;

/// Hears of every moment at which an end of the process would leave another state behind.
pub trait Watch {
    fn passed(&self, moment: Moment);
}

/// Nobody listens.
impl Watch for () {
    fn passed(&self, _: Moment) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Planned,
    /// The new entry of a step waits beside its place.
    Staged(usize),
    Prepared,
    /// What the file system cannot do at once is half done.
    Between,
    /// A step has changed what a name stands for.
    Moved(usize),
    /// What came out is kept.
    Kept(usize),
    Done,
    Recorded,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// `None`: there was nothing to do.
    pub id: Option<ApplyId>,
    pub files: Vec<AppliedFile>,
    /// Versions that somebody wrote in the moment of an exchange, and where they are.
    pub kept: Vec<KeptCopy>,
    /// The file system cannot exchange files at once.
    pub in_two_steps: bool,
}

impl Plan {
    /// Does it. If the directory is not as it was looked at, it is looked at again.
    pub fn carry_out(self) -> Result<Applied> {
        self.carry_out_watched(&())
    }

    pub fn carry_out_watched(mut self, watch: &dyn Watch) -> Result<Applied> {
        let store = self.application.store.clone();
        self.application.check_settled()?;
        let ledger = Ledger::of(&store)?;
        let _turn = ledger.turn(store.patience())?;
        store.recover_under_turn(&ledger)?;
        let mut kept = Vec::new();
        let mut pause = Duration::from_micros(100);
        for _ in 0..ATTEMPTS {
            if !self.conflicts.is_empty() {
                return Err(ApplyError::Conflicts { conflicts: self.conflicts, wanted: Wanted::Apply }.into());
            }
            if self.is_empty() {
                self.note_nothing_to_do()?;
                return Ok(Applied { kept, ..Applied::default() });
            }
            let mut application = self.application.clone();
            if !self.keep_versions()? {
                // What the user did meanwhile is in the base, and in the task.
                application.base = store.with_moved(application.base)?;
                application.theirs = store.with_moved(application.theirs)?;
                self = application.look()?;
                continue;
            }
            let work = Work {
                store: &store,
                ledger: &ledger,
                snapshot: application.theirs,
                task: application.options.task.as_ref().map(ToString::to_string),
                partial: self.is_partial(),
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
                        // What is in the way of looking is what overtook us.
                        ApplyError::Host { .. } => ApplyError::Overtaken { path, kept: kept.clone() },
                        error => error,
                    })?;
                }
            }
        }
        let path = self.files.first().map(|file| file.path.clone()).unwrap_or_default();
        Err(ApplyError::Overtaken { path, kept }.into())
    }
}

impl Plan {
    /// A task is applied when the directory has all of its work, whoever brought it there.
    fn note_nothing_to_do(&self) -> Result<()> {
        let Application { store, base, theirs, options, .. } = &self.application;
        let Some(Ok(task)) = options.task.as_ref().map(|name| store.task(name.as_str())) else {
            return Ok(());
        };
        let is_all = !self.is_partial() && base != theirs;
        let is_here = task.root() == self.host.path();
        match is_all && is_here && task.applied() != Some(*theirs) {
            true => task.note_applied(Some(*theirs), "there already"),
            false => Ok(()),
        }
    }

    /// Has the versions kept that this takes away from their paths: the task and others began with them, and may not have
    /// read them yet. `false`: the user was faster with one of them.
    fn keep_versions(&self) -> Result<bool> {
        let objects = self.application.store.objects();
        let before = self.application.reader(self.application.base)?;
        let mut is_all = true;
        for step in &self.steps {
            let path = match &step.action {
                Action::Put { over: Some(_), .. } => &step.path,
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

/// What came of an attempt.
pub(super) enum Outcome {
    Done(Applied),
    /// Somebody changed this path meanwhile; everything is as it was.
    Overtaken {
        path: TreePath,
        kept: Vec<KeptCopy>,
    },
}

/// One attempt, for whatever reason.
pub(super) struct Work<'a> {
    pub store: &'a Store,
    pub ledger: &'a Ledger,
    pub snapshot: SnapshotId,
    pub task: Option<String>,
    pub partial: bool,
    pub undoes: Option<ApplyId>,
    pub redoes: Option<ApplyId>,
    pub watch: &'a dyn Watch,
}

impl Work<'_> {
    pub fn run(
        &self,
        host: Host,
        steps: Vec<Step>,
        directories: Vec<DirectoryTime>,
        files: Vec<AppliedFile>,
    ) -> Result<Outcome> {
        let id = self.store.next_apply_id()?;
        let record = ApplyRecord {
            discarded: false,
            id,
            task: self.task.clone(),
            snapshot: self.snapshot,
            partial: self.partial,
            into: Raw::from(host.path().as_os_str()),
            time: self.store.now(),
            actor: self.store.actor().name.clone(),
            files,
            undoes: self.undoes,
            redoes: self.redoes,
            undone: None,
        };
        let journal = Journal { into: record.into.clone(), top: host.key, steps, directories, record };
        let folder = self.ledger.begin(id)?;
        folder.write(Folder::PLAN, &journal)?;
        self.watch.passed(Moment::Planned);
        let between = || self.watch.passed(Moment::Between);
        let moves = Moves::new(&between);
        match self.attempt(&host, &folder, &journal, &moves) {
            Ok(left) => self.finish(&host, &folder, &journal, left, &moves).map(Outcome::Done),
            Err(hitch) => self.withdraw(&host, &folder, &journal, hitch),
        }
    }

    /// Makes the new entries and gives them their places.
    fn attempt(
        &self,
        host: &Host,
        folder: &Folder,
        journal: &Journal,
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
        self.watch.passed(Moment::Prepared);
        let perform = Perform { host, folder, moves, watch: self.watch, left: RefCell::default() };
        for (number, step) in journal.steps.iter().enumerate() {
            perform.step(number, step)?;
        }
        let left = perform.left.take();
        if !left.is_empty() {
            folder.write(Folder::LEFT, &left)?;
        }
        Ok(perform.finish_directories(journal)?)
    }

    /// Takes everything back.
    fn withdraw(&self, host: &Host, folder: &Folder, journal: &Journal, hitch: Hitch) -> Result<Outcome> {
        let back = TakingBack::new(host, folder, journal)?.run();
        let kept = match back {
            Ok(kept) => kept,
            Err(error) => {
                let first = match &hitch {
                    Hitch::Overtaken(path) => format!("{path} was changed meanwhile"),
                    Hitch::Failed(error) => error.to_string(),
                };
                let stuck =
                    ApplyError::Stuck { path: host.path().to_owned(), reason: error.to_string(), first };
                return Err(stuck.into());
            }
        };
        let kept = put_away_or_forget(self.ledger, folder, &journal.into, kept)?;
        match hitch {
            Hitch::Overtaken(path) => Ok(Outcome::Overtaken { path, kept }),
            Hitch::Failed(error) if kept.is_empty() => Err(error.into()),
            Hitch::Failed(error) => Err(ApplyError::Versions { first: Box::new(error), kept }.into()),
        }
    }

    fn finish(
        &self,
        host: &Host,
        folder: &Folder,
        journal: &Journal,
        left: Vec<LeftTime>,
        moves: &Moves<'_>,
    ) -> Result<Applied> {
        sync_directories(host, journal)?;
        folder.write(Folder::DONE, &left)?;
        self.watch.passed(Moment::Done);
        self.store.keep_apply_record(&journal.record)?;
        self.watch.passed(Moment::Recorded);
        let late = late_versions(host, folder, journal)?;
        if let Some(undone) = self.undoes {
            self.ledger.open_done(undone).remove()?;
        }
        let done = self.ledger.put_away(folder, &journal.into)?;
        let kept = late.into_iter().map(|(path, number)| KeptCopy { path, kept: done.kept_path(number) });
        Ok(Applied {
            id: Some(folder.id),
            files: journal.record.files.clone(),
            kept: kept.collect(),
            in_two_steps: moves.was_in_two_steps(),
        })
    }
}

/// The path that a step gives to a file, and the one that it has.
fn renamed(step: &Step) -> Option<(&TreePath, &TreePath)> {
    match &step.action {
        Action::Rename { from, .. } => Some((&step.path, from)),
        _ => None,
    }
}

/// Forgets an apply that was taken back, unless its new entries had got their places: a program may have one
/// of them open and still write to it.
pub(super) fn put_away_or_forget(
    ledger: &Ledger,
    folder: &Folder,
    directory: &Raw,
    kept: Vec<KeptCopy>,
) -> Result<Vec<KeptCopy>, ApplyError> {
    if kept.is_empty() && !folder.has_put_aside()? {
        folder.remove()?;
        return Ok(kept);
    }
    let done = ledger.put_away(folder, directory)?;
    let moved = |copy: KeptCopy| match copy.kept.strip_prefix(&folder.path) {
        Ok(below) => KeptCopy { kept: done.path.join(below), ..copy },
        Err(_) => copy,
    };
    Ok(kept.into_iter().map(moved).collect())
}

/// Kept files that a program still wrote to after they had come out.
fn late_versions(
    host: &Host,
    folder: &Folder,
    journal: &Journal,
) -> Result<Vec<(TreePath, usize)>, ApplyError> {
    let kept = folder.kept()?;
    let mut late = Vec::new();
    for (number, step) in journal.steps.iter().enumerate() {
        let (Action::Put { over: Some(was), .. } | Action::Remove { was }) = &step.action else { continue };
        let seen = host.look_at(kept.as_fd(), number.to_string().as_bytes());
        if !matches!(seen, Ok(Some(seen)) if seen.print == *was) {
            late.push((step.path.clone(), number));
        }
    }
    Ok(late)
}

fn sync_directories(host: &Host, journal: &Journal) -> Result<(), ApplyError> {
    for DirectoryTime { path, .. } in &journal.directories {
        let directory = host.directory(path)?;
        rustix::fs::fsync(&directory).map_err(|errno| host.failed("writing", path, errno))?;
    }
    Ok(())
}
