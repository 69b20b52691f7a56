//! Taking an apply back: the steps turned around, carried out like any others. Taking that back does it again.

use std::collections::{BTreeMap, HashSet};

use avfs_core::TreePath;

use super::carry::{Applied, Outcome, Watch, Work};
use super::conflict::{Conflict, ConflictKind};
use super::error::{ApplyError, Wanted};
use super::host::{Host, Look};
use super::ledger::{Folder, Ledger, Turn};
use super::print::Print;
use super::record::{AppliedFile, ApplyId, ApplyRecord, Deed};
use super::step::{Action, DirectoryTime, Journal, LeftTime, New, Staged, Step};
use crate::error::Result;
use crate::store::Store;

/// What would be taken back.
pub struct UndoPlan {
    store: Store,
    ledger: Ledger,
    turn: Turn,
    host: Host,
    steps: Vec<Step>,
    directories: Vec<DirectoryTime>,
    /// What will not be there any more when something comes back.
    gone: HashSet<TreePath>,
    /// The apply that is done again, if what is taken back is an undo.
    redoes: Option<ApplyId>,
    /// Not everything was applied, or taken back.
    is_part: bool,
    pub record: ApplyRecord,
    pub files: Vec<AppliedFile>,
    /// What is not as it was applied, and is left alone.
    pub conflicts: Vec<Conflict>,
}

impl Store {
    /// Takes an apply back. What was changed since is a conflict: then nothing is taken back or, with `force`,
    /// everything else.
    pub fn undo_apply(&self, id: ApplyId, force: bool) -> Result<Applied> {
        self.plan_undo_apply(id)?.carry_out(force)
    }

    /// Looks at what taking an apply back would do. Nobody else applies anything until it is done or dropped.
    pub fn plan_undo_apply(&self, id: ApplyId) -> Result<UndoPlan> {
        let ledger = Ledger::of(self)?;
        let turn = ledger.turn(self.patience())?;
        self.recover_under_turn(&ledger)?;
        let record = self.apply_record(id)?;
        // What was redone has another number than the one that the user was told.
        let known = self.first_apply(&record)?;
        if record.undone.is_some() {
            return Err(ApplyError::Undone { id: known }.into());
        }
        let folder = ledger.open_done(id);
        let journal = folder.read::<Journal>(Folder::PLAN)?;
        let staged = folder.read::<Vec<Option<Staged>>>(Folder::STAGED)?;
        let left = folder.read::<Vec<LeftTime>>(Folder::DONE)?;
        let (Some(journal), Some(staged), Some(left)) = (journal, staged, left) else {
            return Err(ApplyError::Forgotten { id: known }.into());
        };
        let host = Host::open(&record.directory())?;
        let redoes = record.is_undo().then_some(known);
        let is_part = match redoes {
            Some(first) => record.partial || self.apply_record(first)?.partial,
            None => false,
        };
        let mut plan = UndoPlan {
            store: self.clone(),
            ledger,
            turn,
            host,
            steps: Vec::new(),
            directories: Vec::new(),
            gone: HashSet::new(),
            redoes,
            is_part,
            record,
            files: Vec::new(),
            conflicts: Vec::new(),
        };
        plan.turn_around(&journal, &staged)?;
        plan.directory_times(&journal, &left)?;
        Ok(plan)
    }
}

impl UndoPlan {
    pub fn carry_out(self, force: bool) -> Result<Applied> {
        self.carry_out_watched(force, &())
    }

    pub fn carry_out_watched(self, force: bool, watch: &dyn Watch) -> Result<Applied> {
        if !self.conflicts.is_empty() && !force {
            let wanted = if self.redoes.is_some() { Wanted::Redo } else { Wanted::Undo };
            return Err(ApplyError::Conflicts { conflicts: self.conflicts, wanted }.into());
        }
        let work = Work {
            store: &self.store,
            ledger: &self.ledger,
            snapshot: self.record.snapshot,
            task: self.record.task.clone(),
            partial: !self.conflicts.is_empty() || self.is_part,
            undoes: Some(self.record.id),
            redoes: self.redoes,
            watch,
        };
        let outcome = work.run(self.host, self.steps, self.directories, self.files)?;
        drop(self.turn);
        match outcome {
            Outcome::Done(applied) => Ok(applied),
            Outcome::Overtaken { path, kept } => Err(ApplyError::Overtaken { path, kept }.into()),
        }
    }

    fn turn_around(&mut self, journal: &Journal, staged: &[Option<Staged>]) -> Result<(), ApplyError> {
        for (number, step) in journal.steps.iter().enumerate().rev() {
            let made = staged.get(number).and_then(Option::as_ref).map(|staged| staged.print.clone());
            let turned = match &step.action {
                Action::Put { over: None, .. } => self.take_away(step, made)?,
                Action::Put { over: Some(old), .. } => self.bring_back(number, step, made, old)?,
                Action::Remove { was } => self.bring_back(number, step, None, was)?,
                Action::Rename { from, was, .. } => {
                    let is_touched = journal.steps[number + 1..].iter().any(|later| later.path == step.path);
                    self.rename_back(step, from, was, is_touched)?;
                    continue;
                }
                Action::MakeDirectory { .. } => self.remove_directory(step)?,
                Action::RemoveDirectory { mode, owner, .. } => self.make_directory(step, *mode, *owner)?,
                Action::SetMode { from, to } => self.set_mode(step, *to, *from)?,
            };
            let Some((action, deed)) = turned else { continue };
            let anchor = self.host.anchor(&step.path)?;
            self.push(Step { path: step.path.clone(), anchor, action }, deed, None);
        }
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        self.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    fn push(&mut self, step: Step, deed: Deed, from: Option<TreePath>) {
        self.gone.extend(step.leaves().cloned());
        self.files.push(AppliedFile { path: step.path.clone(), deed, from });
        self.steps.push(step);
    }

    /// What is at a path when everything is gone that goes.
    fn now(&self, path: &TreePath) -> Result<Option<Print>, ApplyError> {
        if self.goes(path) {
            return Ok(None);
        }
        Ok(match self.host.look(path)? {
            Look::There(seen) => Some(seen.print),
            Look::Nothing | Look::NoWay => None,
        })
    }

    fn goes(&self, path: &TreePath) -> bool {
        self.gone.contains(path)
    }

    fn changed_since(&mut self, path: &TreePath) -> Option<(Action, Deed)> {
        self.conflicts.push(Conflict { path: path.clone(), kind: ConflictKind::ChangedSince });
        None
    }

    /// A file that was added.
    fn take_away(&mut self, step: &Step, made: Option<Print>) -> Result<Option<(Action, Deed)>, ApplyError> {
        let now = self.now(&step.path)?;
        Ok(match now {
            None => None,
            Some(was) if Some(&was) == made.as_ref() => Some((Action::Remove { was }, Deed::Removed)),
            Some(_) => self.changed_since(&step.path),
        })
    }

    /// A file that was replaced, or removed: then nothing may be there.
    fn bring_back(
        &mut self,
        number: usize,
        step: &Step,
        over: Option<Print>,
        old: &Print,
    ) -> Result<Option<(Action, Deed)>, ApplyError> {
        if self.now(&step.path)? != over {
            return Ok(self.changed_since(&step.path));
        }
        let deed = if over.is_some() { Deed::Replaced } else { Deed::Added };
        let new = New::Kept { number, print: old.clone() };
        Ok(Some((Action::Put { over, new }, deed)))
    }

    /// A file that was renamed. If something else was done to it under its new name, that is taken back before, or
    /// it is not as it was applied and stays.
    fn rename_back(
        &mut self,
        step: &Step,
        from: &TreePath,
        was: &Print,
        is_touched: bool,
    ) -> Result<(), ApplyError> {
        let is_as_applied = match &self.host.look(&step.path)? {
            _ if is_touched && !self.steps.iter().any(|turned| turned.path == step.path) => return Ok(()),
            Look::There(here) if is_touched || here.print == *was => Some(here.key),
            Look::There(_) | Look::Nothing | Look::NoWay => None,
        };
        let (Some(key), None) = (is_as_applied, self.now(from)?) else {
            self.changed_since(&step.path);
            return Ok(());
        };
        let anchor = step.path.split_last().map(|(parent, _)| parent).unwrap_or_default();
        let action = Action::Rename { from: step.path.clone(), was: was.clone(), key };
        let turned = Step { path: from.clone(), anchor, action };
        self.push(turned, Deed::Renamed, Some(step.path.clone()));
        Ok(())
    }

    /// A directory that was made goes if nothing else is in it.
    fn remove_directory(&mut self, step: &Step) -> Result<Option<(Action, Deed)>, ApplyError> {
        let Look::There(here) = self.host.look(&step.path)? else { return Ok(None) };
        if here.print != Print::Directory {
            return Ok(self.changed_since(&step.path));
        }
        if !self.host.names(&step.path)?.iter().all(|name| self.goes(&step.path.join(name))) {
            return Ok(self.changed_since(&step.path));
        }
        let action = Action::RemoveDirectory { mode: here.mode, owner: here.owner, mtime: here.mtime };
        Ok(Some((action, Deed::DirectoryRemoved)))
    }

    fn make_directory(
        &mut self,
        step: &Step,
        mode: u32,
        owner: (u32, u32),
    ) -> Result<Option<(Action, Deed)>, ApplyError> {
        let made = (Action::MakeDirectory { mode: mode & 0o3777, owner: Some(owner) }, Deed::DirectoryAdded);
        Ok(match self.now(&step.path)? {
            None => Some(made),
            Some(Print::Directory) => None,
            Some(_) => self.changed_since(&step.path),
        })
    }

    fn set_mode(&mut self, step: &Step, from: u32, to: u32) -> Result<Option<(Action, Deed)>, ApplyError> {
        Ok(match self.host.look(&step.path)? {
            Look::There(here) if here.mode & 0o777 == from => {
                Some((Action::SetMode { from, to }, Deed::Mode))
            }
            Look::There(_) | Look::Nothing | Look::NoWay => self.changed_since(&step.path),
        })
    }

    /// Directories that nobody changed since get the time back that they had, and those that come again.
    fn directory_times(&mut self, journal: &Journal, left: &[LeftTime]) -> Result<(), ApplyError> {
        let is_made = |step: &&Step| matches!(step.action, Action::MakeDirectory { .. });
        let made: HashSet<&TreePath> = self.steps.iter().filter(is_made).map(|step| &step.path).collect();
        for step in &journal.steps {
            if let (Action::RemoveDirectory { mtime, .. }, true) = (&step.action, made.contains(&step.path)) {
                let path = step.path.clone();
                self.directories.push(DirectoryTime { path, before: None, want: Some(*mtime) });
            }
        }
        let left: BTreeMap<&TreePath, _> = left.iter().map(|left| (&left.path, left.mtime)).collect();
        for directory in &journal.directories {
            let Look::There(here) = self.host.look(&directory.path)? else { continue };
            if here.print != Print::Directory || self.goes(&directory.path) {
                continue;
            }
            let untouched = left.get(&directory.path) == Some(&here.mtime);
            let want = directory.before.filter(|_| untouched);
            let (path, before) = (directory.path.clone(), Some(here.mtime));
            self.directories.push(DirectoryTime { path, before, want });
        }
        self.directories.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }
}
