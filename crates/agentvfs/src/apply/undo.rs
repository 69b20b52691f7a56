//! Undoing an apply: its steps are reversed and carried out like any others. Undoing the undo applies them again.

use std::collections::{BTreeMap, HashMap, HashSet};

use avfs_core::TreePath;

use super::carry::{Applied, ApplyAttempt, ApplyWatch, Outcome};
use super::host::{HostFiles, Look};
use super::ledger::{ApplyTurn, Folder, Ledger};
use super::print::Print;
use super::record::{AppliedAction, AppliedFile, ApplyRecord, BroughtPaths};
use super::step::{ApplyJournal, ApplyStep, DirectoryTime, LeftTime, New, Staged, StepAction};
use crate::apply::record::Applies;
use crate::error::ApplyId;
use crate::error::Result;
use crate::error::{ApplyError, ApplyGoal};
use crate::error::{Conflict, ConflictKind};
use crate::store::Store;

/// A planned undo.
pub struct UndoPlan {
    store: Store,
    ledger: Ledger,
    turn: ApplyTurn,
    host: HostFiles,
    steps: Vec<ApplyStep>,
    directories: Vec<DirectoryTime>,
    /// Paths that will be gone when something comes back.
    gone: HashSet<TreePath>,
    /// Where files are that will have these paths when something has been renamed.
    renamed: HashMap<TreePath, TreePath>,
    /// The apply that is redone, if the undone one is an undo.
    redoes: Option<ApplyId>,
    /// Not everything was applied, or undone.
    is_part: bool,
    /// The part of the task that the directory has again, if this redoes an apply.
    brought: Option<BroughtPaths>,
    /// The apply to undo.
    pub record: ApplyRecord,
    /// What will be done, by path.
    pub files: Vec<AppliedFile>,
    /// Paths that have changed since they were applied, and are left unchanged.
    pub conflicts: Vec<Conflict>,
    /// Paths that are already as the undo would make them.
    pub already: Vec<TreePath>,
}

impl Applies<'_> {
    /// Undoes an apply. Files that were changed since are conflicts: then nothing is undone or, with `force`,
    /// everything else.
    pub fn undo(&self, id: ApplyId, force: bool) -> Result<Applied> {
        self.plan_undo(id)?.carry_out(force)
    }

    /// Plans an undo of an apply. No other process applies anything until it is done or dropped.
    pub fn plan_undo(&self, id: ApplyId) -> Result<UndoPlan> {
        let ledger = Ledger::of(self.store)?;
        // Before anything is read: another apply could change the record or the directory.
        let turn = ledger.turn(self.store.patience())?;
        // An apply that was killed halfway is completed first, as it may be the one to undo.
        self.recover_under_turn(&ledger)?;
        let record = self.get(id)?;
        // A redone apply has a different number than the one that the user knows.
        let known = self.first(&record)?;
        if record.undone.is_some() {
            return Err(ApplyError::Undone { id: known }.into());
        }
        let folder = ledger.open_done(id);
        let journal = folder.read::<ApplyJournal>(Folder::PLAN)?;
        let staged = folder.read::<Vec<Option<Staged>>>(Folder::STAGED)?;
        let left = folder.read::<Vec<LeftTime>>(Folder::DONE)?;
        let (Some(journal), Some(staged), Some(left)) = (journal, staged, left) else {
            return Err(ApplyError::Forgotten { id: known }.into());
        };
        let directory = record.directory();
        if let Some(project) = self.store.projects().missing_around(&directory)? {
            return Err(project.missing());
        }
        let host = HostFiles::open(&directory)?;
        let redoes = record.is_undo().then_some(known);
        let is_part = match redoes {
            Some(first) => record.partial || self.get(first)?.partial,
            None => false,
        };
        let mut plan = UndoPlan {
            store: self.store.clone(),
            ledger,
            turn,
            host,
            steps: Vec::new(),
            directories: Vec::new(),
            gone: HashSet::new(),
            renamed: HashMap::new(),
            redoes,
            is_part,
            brought: match redoes {
                Some(first) => self.get(first)?.brought,
                None => None,
            },
            record,
            files: Vec::new(),
            conflicts: Vec::new(),
            already: Vec::new(),
        };
        plan.turn_around(&journal, &staged)?;
        plan.directory_times(&journal, &left)?;
        Ok(plan)
    }
}

impl UndoPlan {
    /// Undoes it. `force` also overwrites what was changed since.
    pub fn carry_out(self, force: bool) -> Result<Applied> {
        self.carry_out_watched(force, &())
    }

    /// The same, for a caller that is told each moment.
    pub fn carry_out_watched(self, force: bool, watch: &dyn ApplyWatch) -> Result<Applied> {
        if !self.conflicts.is_empty() && !force {
            let wanted = if self.redoes.is_some() {
                ApplyGoal::Redo
            } else {
                ApplyGoal::Undo
            };
            return Err(ApplyError::Conflicts {
                conflicts: self.conflicts,
                wanted,
            }
            .into());
        }
        let work = ApplyAttempt {
            store: &self.store,
            ledger: &self.ledger,
            snapshot: self.record.snapshot,
            task: self.record.task.clone(),
            partial: !self.conflicts.is_empty() || self.is_part,
            brought: self.brought,
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

    fn turn_around(&mut self, journal: &ApplyJournal, staged: &[Option<Staged>]) -> Result<(), ApplyError> {
        // The last step first: a file comes out of a directory before the directory goes.
        for (number, step) in journal.steps.iter().enumerate().rev() {
            let made = staged
                .get(number)
                .and_then(Option::as_ref)
                .map(|staged| staged.print.clone());
            let turned = match &step.action {
                StepAction::Put { over: None, .. } => self.take_away(step, made)?,
                StepAction::Put { over: Some(old), .. } => self.bring_back(number, step, made, old)?,
                StepAction::Remove { was } => self.bring_back(number, step, None, was)?,
                StepAction::Rename { from, was, .. } => {
                    let is_touched = journal.steps[number + 1..]
                        .iter()
                        .any(|later| later.path == step.path);
                    self.rename_back(step, from, was, is_touched)?;
                    continue;
                }
                StepAction::MakeDirectory { .. } => self.remove_directory(step)?,
                StepAction::RemoveDirectory { mode, owner, .. } => {
                    self.make_directory(step, *mode, *owner)?
                }
                StepAction::SetMode { from, to } => self.set_mode(step, *to, *from)?,
            };
            let Some((action, applied)) = turned else { continue };
            let anchor = self.host.anchor(&step.path)?;
            self.push(
                ApplyStep {
                    path: step.path.clone(),
                    anchor,
                    action,
                },
                applied,
                None,
            );
        }
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        self.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    fn push(&mut self, step: ApplyStep, applied: AppliedAction, from: Option<TreePath>) {
        self.gone.extend(step.leaves().cloned());
        if let StepAction::Rename { from, .. } = &step.action {
            self.renamed.insert(step.path.clone(), from.clone());
        }
        self.files.push(AppliedFile {
            path: step.path.clone(),
            action: applied,
            from,
        });
        self.steps.push(step);
    }

    /// The entry at a path after all removals and renames.
    fn now(&self, path: &TreePath) -> Result<Option<Print>, ApplyError> {
        let place = self.renamed.get(path);
        if place.is_none() && self.goes(path) {
            return Ok(None);
        }
        Ok(match self.host.look(place.unwrap_or(path))? {
            Look::There(seen) => Some(seen.print),
            Look::Nothing | Look::NoWay => None,
        })
    }

    fn goes(&self, path: &TreePath) -> bool {
        self.gone.contains(path)
    }

    fn changed_since(&mut self, path: &TreePath) -> Option<(StepAction, AppliedAction)> {
        self.conflicts.push(Conflict {
            path: path.clone(),
            kind: ConflictKind::ChangedSince,
        });
        None
    }

    /// A file that was added.
    fn take_away(
        &mut self,
        step: &ApplyStep,
        made: Option<Print>,
    ) -> Result<Option<(StepAction, AppliedAction)>, ApplyError> {
        let now = self.now(&step.path)?;
        Ok(match now {
            None => {
                self.already.push(step.path.clone());
                None
            }
            Some(was) if Some(&was) == made.as_ref() => {
                Some((StepAction::Remove { was }, AppliedAction::Removed))
            }
            Some(_) => self.changed_since(&step.path),
        })
    }

    /// A file that was replaced, or removed: then nothing may be there.
    fn bring_back(
        &mut self,
        number: usize,
        step: &ApplyStep,
        over: Option<Print>,
        old: &Print,
    ) -> Result<Option<(StepAction, AppliedAction)>, ApplyError> {
        if self.now(&step.path)? != over {
            return Ok(self.changed_since(&step.path));
        }
        let applied = if over.is_some() {
            AppliedAction::Replaced
        } else {
            AppliedAction::Added
        };
        let new = New::Kept {
            number,
            print: old.clone(),
        };
        Ok(Some((StepAction::Put { over, new }, applied)))
    }

    /// A file that was renamed. A change under its new name is undone before, or the file counts as changed
    /// and stays.
    fn rename_back(
        &mut self,
        step: &ApplyStep,
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
        let anchor = step
            .path
            .split_last()
            .map(|(parent, _)| parent)
            .unwrap_or_default();
        let action = StepAction::Rename {
            from: step.path.clone(),
            was: was.clone(),
            key,
        };
        let turned = ApplyStep {
            path: from.clone(),
            anchor,
            action,
        };
        self.push(turned, AppliedAction::Renamed, Some(step.path.clone()));
        Ok(())
    }

    /// A directory that was created is removed if it is empty.
    fn remove_directory(
        &mut self,
        step: &ApplyStep,
    ) -> Result<Option<(StepAction, AppliedAction)>, ApplyError> {
        let Look::There(here) = self.host.look(&step.path)? else {
            return Ok(None);
        };
        if here.print != Print::Directory {
            return Ok(self.changed_since(&step.path));
        }
        // Entries that this undo removes do not count; anything else belongs to the user.
        if !self
            .host
            .names(&step.path)?
            .iter()
            .all(|name| self.goes(&step.path.join(name)))
        {
            return Ok(self.changed_since(&step.path));
        }
        let action = StepAction::RemoveDirectory {
            mode: here.mode,
            owner: here.owner,
            mtime: here.mtime,
        };
        Ok(Some((action, AppliedAction::DirectoryRemoved)))
    }

    fn make_directory(
        &mut self,
        step: &ApplyStep,
        mode: u32,
        owner: (u32, u32),
    ) -> Result<Option<(StepAction, AppliedAction)>, ApplyError> {
        let made = (
            StepAction::MakeDirectory {
                // Without the set-user-ID bit, which means nothing on a directory.
                mode: mode & 0o3777,
                owner: Some(owner),
            },
            AppliedAction::DirectoryAdded,
        );
        Ok(match self.now(&step.path)? {
            None => Some(made),
            Some(Print::Directory) => None,
            Some(_) => self.changed_since(&step.path),
        })
    }

    fn set_mode(
        &mut self,
        step: &ApplyStep,
        from: u32,
        to: u32,
    ) -> Result<Option<(StepAction, AppliedAction)>, ApplyError> {
        let place = self.renamed.get(&step.path).unwrap_or(&step.path);
        Ok(match self.host.look(place)? {
            Look::There(here) if here.mode & 0o777 == from => {
                Some((StepAction::SetMode { from, to }, AppliedAction::Mode))
            }
            Look::There(_) | Look::Nothing | Look::NoWay => self.changed_since(&step.path),
        })
    }

    /// Directories that are unchanged since get their earlier times back, and so do restored ones.
    fn directory_times(&mut self, journal: &ApplyJournal, left: &[LeftTime]) -> Result<(), ApplyError> {
        let is_made = |step: &&ApplyStep| matches!(step.action, StepAction::MakeDirectory { .. });
        let made: HashSet<&TreePath> = self.steps.iter().filter(is_made).map(|step| &step.path).collect();
        for step in &journal.steps {
            if let (StepAction::RemoveDirectory { mtime, .. }, true) =
                (&step.action, made.contains(&step.path))
            {
                let path = step.path.clone();
                self.directories.push(DirectoryTime {
                    path,
                    before: None,
                    want: Some(*mtime),
                });
            }
        }
        let left: BTreeMap<&TreePath, _> = left.iter().map(|left| (&left.path, left.mtime)).collect();
        for directory in &journal.directories {
            let Look::There(here) = self.host.look(&directory.path)? else {
                continue;
            };
            if here.print != Print::Directory || self.goes(&directory.path) {
                continue;
            }
            // If something happened in the directory since, its time shows that and stays.
            let untouched = left.get(&directory.path) == Some(&here.mtime);
            let want = directory.before.filter(|_| untouched);
            let (path, before) = (directory.path.clone(), Some(here.mtime));
            self.directories.push(DirectoryTime { path, before, want });
        }
        self.directories.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }
}
