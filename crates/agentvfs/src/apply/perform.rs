//! One step after the other: the new entry is moved to its place, and the replaced one is compared again and
//! kept.

use std::cell::RefCell;
use std::collections::HashMap;

use avfs_core::TreePath;
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::carry::{ApplyWatch, Moment};
use super::host::HostFiles;
use super::ledger::Folder;
use super::left::LeftFile;
use super::moves::{Moves, Spot, carry};
use super::print::Print;
use super::stage::waiting_name;
use super::step::{ApplyJournal, ApplyStep, DirectoryTime, LeftTime, StepAction};
use crate::error::ApplyError;
use crate::error::Error;
use avfs_transfer::host_file::meta;
use avfs_transfer::host_place::{chmod_unopened, times};

/// Why a step was not done.
pub(super) enum Hitch {
    Overtaken(TreePath),
    Failed(Error),
    /// Every step was done, and the store does not say whether it has the record of it.
    Unknown {
        first: Box<Error>,
        reason: Box<Error>,
    },
}

impl From<ApplyError> for Hitch {
    fn from(error: ApplyError) -> Hitch {
        Hitch::Failed(error.into())
    }
}

pub(super) struct Perform<'a> {
    pub host: &'a HostFiles,
    pub folder: &'a Folder,
    pub moves: &'a Moves<'a>,
    pub watch: &'a dyn ApplyWatch,
    /// The large files that got their places.
    pub left: RefCell<Vec<LeftFile>>,
}

impl Perform<'_> {
    pub(super) fn step(&self, number: usize, step: &ApplyStep) -> Result<(), Hitch> {
        let Some((parent, name)) = step.path.split_last() else {
            return self.top(step);
        };
        let directory = self.directory(&parent)?;
        let target = Spot::new(&directory, name.as_bytes());
        let waiting = waiting_name(self.folder.id, number);
        match &step.action {
            StepAction::MakeDirectory { .. } => {
                let anchor = self.directory(&step.anchor)?;
                self.moved(
                    self.moves.to_free_name(Spot::new(&anchor, &waiting), target),
                    number,
                    step,
                )
            }
            StepAction::Put { over: None, .. } => {
                let anchor = self.directory(&step.anchor)?;
                self.arrives_now(Spot::new(&anchor, &waiting), step)?;
                self.moved(
                    self.moves.to_free_name(Spot::new(&anchor, &waiting), target),
                    number,
                    step,
                )
            }
            StepAction::Put { over: Some(over), .. } => {
                let anchor = self.directory(&step.anchor)?;
                let (new, aside) = (Spot::new(&anchor, &waiting), aside_name(&waiting));
                self.arrives_now(new, step)?;
                let exchanged = self.moves.exchange(new, target, Spot::new(&anchor, &aside));
                self.moved(exchanged, number, step)?;
                self.keep(new, over, number, step)
            }
            StepAction::Remove { was } => {
                let old = Spot::new(&directory, &waiting);
                self.moved(self.moves.to_free_name(target, old), number, step)?;
                self.keep(old, was, number, step)
            }
            StepAction::Rename { from, was, .. } => self.rename(from, target, was, number, step),
            StepAction::RemoveDirectory { .. } => self.moved(target.remove_directory(), number, step),
            StepAction::SetMode { from, to } => self.set_mode(target, *from, *to, number, step),
        }
    }

    /// The topmost directory has a mode, and nothing else that could be changed.
    fn top(&self, step: &ApplyStep) -> Result<(), Hitch> {
        let StepAction::SetMode { to, .. } = step.action else {
            return Ok(());
        };
        let directory = self.host.directory(&step.path)?;
        let changed = rustix::fs::fchmod(&directory, Mode::from_raw_mode(to));
        changed.map_err(|errno| self.host.failed("setting the mode of", &step.path, errno))?;
        Ok(())
    }

    /// Build tools compare times: new contents must be newer than everything that was built from the old
    /// ones, whenever they were written. So the time is neither the task's, nor that of the moment in which
    /// the entry was created.
    fn arrives_now(&self, new: Spot<'_>, step: &ApplyStep) -> Result<(), Hitch> {
        let failed = |errno| Hitch::from(self.host.failed("setting the time of", &step.path, errno));
        new.touch().map_err(failed)?;
        // From here on only other programs can change it.
        let stat = new.stat().map_err(failed)?;
        self.left
            .borrow_mut()
            .extend(stat.and_then(|stat| LeftFile::of(&step.path, &stat)));
        Ok(())
    }

    /// If a directory has changed, another program did it.
    fn directory(&self, path: &TreePath) -> Result<OwnedFd, Hitch> {
        self.host.directory(path).map_err(|error| match error {
            ApplyError::Host { ref source, .. }
                if [Errno::NOENT, Errno::NOTDIR, Errno::LOOP]
                    .iter()
                    .any(|errno| source.raw_os_error() == Some(errno.raw_os_error())) =>
            {
                Hitch::Overtaken(path.clone())
            }
            error => error.into(),
        })
    }

    fn moved(&self, outcome: rustix::io::Result<()>, number: usize, step: &ApplyStep) -> Result<(), Hitch> {
        match outcome {
            Ok(()) => {
                self.watch.passed(Moment::Moved(number));
                Ok(())
            }
            // Each of these means that something came into the place, or left it, since the plan was made.
            Err(Errno::EXIST | Errno::NOENT | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {
                Err(Hitch::Overtaken(step.path.clone()))
            }
            Err(errno) => Err(Hitch::from(self.host.failed("replacing", &step.path, errno))),
        }
    }

    /// Keeps the replaced entry, if it is the expected one.
    fn keep(&self, old: Spot<'_>, expected: &Print, number: usize, step: &ApplyStep) -> Result<(), Hitch> {
        let failed = |errno| Hitch::from(self.host.failed("keeping", &step.path, errno));
        let came_out = match self.host.look_at(old.directory, old.name) {
            Ok(seen) => seen,
            Err(Errno::BUSY) => None,
            Err(errno) => return Err(failed(errno)),
        };
        if came_out.is_none_or(|seen| seen.print != *expected) {
            return Err(Hitch::Overtaken(step.path.clone()));
        }
        let (kept, name) = (self.folder.kept()?, number.to_string());
        carry(old, Spot::new(&kept, name.as_bytes())).map_err(|errno| match errno {
            // It is copied where the store is on another disk, and that one is full.
            Errno::NOSPC | Errno::DQUOT => {
                let place = self.folder.kept_path(number);
                ApplyError::host("keeping what is replaced in", place, errno).into()
            }
            errno => failed(errno),
        })?;
        self.watch.passed(Moment::Kept(number));
        Ok(())
    }

    /// The name is free, and the entry at the old one is the compared one; otherwise it is moved back.
    fn rename(
        &self,
        from: &TreePath,
        target: Spot<'_>,
        was: &Print,
        number: usize,
        step: &ApplyStep,
    ) -> Result<(), Hitch> {
        let Some((parent, name)) = from.split_last() else {
            return Ok(());
        };
        let directory = self.directory(&parent)?;
        let old = Spot::new(&directory, name.as_bytes());
        self.moved(self.moves.to_free_name(old, target), number, step)?;
        let failed = |errno| Hitch::from(self.host.failed("renaming", from, errno));
        let found = match self.host.look_at(target.directory, target.name) {
            Ok(seen) => seen,
            Err(Errno::BUSY) => None,
            Err(errno) => return Err(failed(errno)),
        };
        if found.is_some_and(|seen| seen.print == *was) {
            return Ok(());
        }
        // If another program put a different file there, it could not be recognised after a crash.
        match self.moves.to_free_name(target, old) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::EXIST) => {
                let (kept, name) = (self.folder.kept()?, number.to_string());
                carry(target, Spot::new(&kept, name.as_bytes())).map_err(failed)?;
            }
            Err(errno) => return Err(failed(errno)),
        }
        Err(Hitch::Overtaken(from.clone()))
    }

    fn set_mode(
        &self,
        target: Spot<'_>,
        from: u32,
        to: u32,
        number: usize,
        step: &ApplyStep,
    ) -> Result<(), Hitch> {
        let failed = |errno| Hitch::from(self.host.failed("setting the mode of", &step.path, errno));
        let now = target.stat().map_err(failed)?.map(|stat| stat.st_mode);
        match now {
            // A mode that changed meanwhile is the user's: it is not overwritten.
            Some(now) if now & 0o777 == from => {
                let mode = Mode::from_raw_mode(now & 0o7000 | to);
                chmod_unopened(target.directory, target.name, mode).map_err(failed)?;
                self.watch.passed(Moment::Moved(number));
                Ok(())
            }
            _ => Err(Hitch::Overtaken(step.path.clone())),
        }
    }

    /// Modes and times of directories, from below; returns the times that they were left with.
    pub(super) fn finish_directories(&self, journal: &ApplyJournal) -> Result<Vec<LeftTime>, ApplyError> {
        let made = |step: &ApplyStep| match step.action {
            StepAction::MakeDirectory { mode, .. } => Some((step.path.clone(), mode)),
            _ => None,
        };
        let made: HashMap<TreePath, u32> = journal.steps.iter().filter_map(made).collect();
        let mut left = Vec::new();
        for DirectoryTime { path, want, .. } in journal.directories.iter().rev() {
            let failed = |errno| self.host.failed("setting the time of", path, errno);
            let directory = self.host.directory(path)?;
            let made = made.get(path).copied();
            // While it was filled, we had to be able to write.
            if let Some(mode) = made.filter(|mode| mode & 0o700 != 0o700) {
                let bits = rustix::fs::fstat(&directory).map_err(failed)?.st_mode & 0o2000;
                rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode | bits)).map_err(failed)?;
            }
            if let Some(want) = want {
                rustix::fs::futimens(&directory, &times(*want)).map_err(failed)?;
            }
            let stat = rustix::fs::fstat(&directory).map_err(failed)?;
            left.push(LeftTime {
                path: path.clone(),
                mtime: meta(&stat, Default::default()).mtime,
            });
        }
        Ok(left)
    }
}

/// The temporary name of the old entry, if an atomic exchange is impossible.
pub(super) fn aside_name(waiting: &[u8]) -> Vec<u8> {
    [waiting, b"-old"].concat()
}
