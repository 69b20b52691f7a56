//! Rolls an unfinished apply back, by what is found on the disk: the entries under each name show how far
//! each step had come, so the notes of a process that died need not be trusted.
//!
//! | under the waiting name | under its own name | kept | the step |
//! |---|---|---|---|
//! | the new entry | the old one | | had not begun |
//! | the old one | the new one | | had exchanged them |
//! | nothing | the new one | the old one | was done |
//!
//! Data that another program wrote meanwhile is never removed: it stays under its name, or is kept and
//! reported.

use avfs_core::TreePath;
use rustix::fd::OwnedFd;
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::host::{FileKey, HostFiles};
use super::ledger::Folder;
use super::moves::{Moves, Spot, carry, rename_within};
use super::perform::aside_name;
use super::print::Print;
use super::stage::waiting_name;
use super::step::{ApplyJournal, ApplyStep, Staged, StepAction};
use crate::error::{ApplyError, KeptCopy};
use avfs_transfer::host_place::chmod_unopened;

pub(super) struct Rollback<'a> {
    host: &'a HostFiles,
    folder: &'a Folder,
    journal: &'a ApplyJournal,
    staged: Vec<Option<Staged>>,
    moves: Moves<'static>,
    kept_directory: OwnedFd,
    aside: OwnedFd,
}

/// The places of one step.
struct StepPlaces {
    /// Where its new entry waits, and the old one after an exchange.
    anchor: OwnedFd,
    directory: Option<OwnedFd>,
    name: Vec<u8>,
    waiting: Vec<u8>,
    aside: Vec<u8>,
}

impl StepPlaces {
    fn waiting(&self) -> Spot<'_> {
        Spot::new(&self.anchor, &self.waiting)
    }

    fn aside(&self) -> Spot<'_> {
        Spot::new(&self.anchor, &self.aside)
    }

    fn target(&self) -> Option<Spot<'_>> {
        Some(Spot::new(self.directory.as_ref()?, &self.name))
    }
}

impl<'a> Rollback<'a> {
    pub(super) fn new(
        host: &'a HostFiles,
        folder: &'a Folder,
        journal: &'a ApplyJournal,
    ) -> Result<Rollback<'a>, ApplyError> {
        let staged = folder.read(Folder::STAGED)?.unwrap_or_default();
        let (kept_directory, aside) = (folder.kept()?, folder.aside()?);
        Ok(Rollback {
            host,
            folder,
            journal,
            staged,
            moves: Moves::new(&|| ()),
            kept_directory,
            aside,
        })
    }

    /// Rolls all steps back, the last first; returns data that another program wrote meanwhile and is in the
    /// folder now.
    pub(super) fn run(&self) -> Result<Vec<KeptCopy>, ApplyError> {
        // Nothing in the directory has another name before all new entries are made.
        let has_begun = !self.staged.is_empty();
        for (number, step) in self.journal.steps.iter().enumerate().rev() {
            if has_begun {
                self.step(number, step)
            } else {
                self.discard(number, step)
            }
            .map_err(|errno| self.host.failed("rolling back", &step.path, errno))?;
        }
        self.versions()
    }

    fn places(&self, number: usize, step: &ApplyStep) -> rustix::io::Result<Option<StepPlaces>> {
        let open = |path: &TreePath| match self.host.directory(path) {
            Ok(directory) => Ok(Some(directory)),
            Err(ApplyError::Host { source, .. }) => match Errno::from_io_error(&source) {
                // A directory that is gone has nothing left to be rolled back.
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) | None => Ok(None),
                Some(errno) => Err(errno),
            },
            Err(_) => Ok(None),
        };
        let Some(anchor) = open(&step.anchor)? else {
            return Ok(None);
        };
        let Some((parent, name)) = step.path.split_last() else {
            return Ok(None);
        };
        let waiting = waiting_name(self.folder.id, number);
        let (directory, aside) = (open(&parent)?, aside_name(&waiting));
        Ok(Some(StepPlaces {
            anchor,
            directory,
            name: name.as_bytes().to_vec(),
            waiting,
            aside,
        }))
    }

    /// Before the first change there are only new entries that wait.
    fn discard(&self, number: usize, step: &ApplyStep) -> rustix::io::Result<()> {
        let Some(places) = self.places(number, step)? else {
            return Ok(());
        };
        match &step.action {
            StepAction::Put { .. } => absent_is_fine(places.waiting().unlink()),
            StepAction::MakeDirectory { .. } => absent_is_fine(places.waiting().remove_directory()),
            StepAction::Remove { .. }
            | StepAction::Rename { .. }
            | StepAction::RemoveDirectory { .. }
            | StepAction::SetMode { .. } => Ok(()),
        }
    }

    fn step(&self, number: usize, step: &ApplyStep) -> rustix::io::Result<()> {
        let Some(places) = self.places(number, step)? else {
            return self.top(step);
        };
        match &step.action {
            StepAction::Put { over: Some(_), .. } => self.exchange_back(number, &places),
            StepAction::Put { over: None, .. } => self.withdraw(number, &places),
            StepAction::Remove { .. } => self.put_back(number, &places),
            StepAction::Rename { from, was, key } => self.rename_back(number, from, (was, *key), &places),
            StepAction::MakeDirectory { .. } => self.remove_directory(number, &places),
            StepAction::RemoveDirectory { mode, owner, .. } => make_directory(&places, *mode, *owner),
            StepAction::SetMode { from, to } => set_mode(&places, *to, *from),
        }
    }

    /// The topmost directory, which has no name here.
    fn top(&self, step: &ApplyStep) -> rustix::io::Result<()> {
        let (StepAction::SetMode { from, to }, true) = (&step.action, step.path.is_root()) else {
            return Ok(());
        };
        let Ok(directory) = self.host.directory(&step.path) else {
            return Ok(());
        };
        let mode = rustix::fs::fstat(&directory)?.st_mode;
        // Only if it still has the mode that the apply gave it.
        if mode & 0o777 == *to {
            rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode & 0o7000 | from))
        } else {
            Ok(())
        }
    }

    fn is_ours(&self, number: usize, spot: Spot<'_>) -> rustix::io::Result<bool> {
        let ours = self
            .staged
            .get(number)
            .and_then(Option::as_ref)
            .map(|staged| staged.key);
        Ok(ours.is_some() && spot.key()? == ours)
    }

    fn exchange_back(&self, number: usize, places: &StepPlaces) -> rustix::io::Result<()> {
        self.mend_two_steps(number, places)?;
        self.bring_kept(number, places)?;
        let waiting = places.waiting();
        if waiting.key()?.is_none() {
            return Ok(());
        }
        if self.is_ours(number, waiting)? {
            return self.put_aside(number, waiting);
        }
        let Some(target) = places.target() else {
            return self.keep(number, waiting);
        };
        if self.is_ours(number, target)? {
            self.moves.exchange(waiting, target, places.aside())?;
            return self.put_aside(number, waiting);
        }
        // Another program removed the new entry, or put its own in the place.
        match self.moves.to_free_name(waiting, target) {
            Err(Errno::EXIST) => self.keep(number, waiting),
            outcome => outcome,
        }
    }

    /// An exchange in two steps may have stopped between them.
    fn mend_two_steps(&self, number: usize, places: &StepPlaces) -> rustix::io::Result<()> {
        let (waiting, aside) = (places.waiting(), places.aside());
        if is_one_file(waiting, aside) {
            return aside.unlink();
        }
        match (aside.key()?, waiting.key()?) {
            (None, _) => Ok(()),
            (Some(_), None) => self.moves.to_free_name(aside, waiting),
            (Some(_), Some(_)) if self.is_ours(number, waiting)? => aside.unlink(),
            (Some(_), Some(_)) => Ok(()),
        }
    }

    /// Moves a kept entry back to its waiting place.
    fn bring_kept(&self, number: usize, places: &StepPlaces) -> rustix::io::Result<()> {
        let name = number.to_string();
        let kept = Spot::new(&self.kept_directory, name.as_bytes());
        match kept.key()? {
            // Copied to the folder, and not yet removed here: a copy that was not finished is worth nothing.
            Some(_) if places.waiting().key()?.is_some() => kept.unlink(),
            Some(_) => carry(kept, places.waiting()),
            None => Ok(()),
        }
    }

    fn withdraw(&self, number: usize, places: &StepPlaces) -> rustix::io::Result<()> {
        let waiting = places.waiting();
        if self.is_ours(number, waiting)? {
            if let Some(target) = places.target().filter(|target| is_one_file(waiting, *target)) {
                target.unlink()?;
            }
            return self.put_aside(number, waiting);
        }
        match places.target() {
            Some(target) if self.is_ours(number, target)? => self.put_aside(number, target),
            _ => Ok(()),
        }
    }

    fn put_back(&self, number: usize, places: &StepPlaces) -> rustix::io::Result<()> {
        self.bring_kept(number, places)?;
        let waiting = places.waiting();
        if waiting.key()?.is_none() {
            return Ok(());
        }
        let Some(target) = places.target() else {
            return self.keep(number, waiting);
        };
        if is_one_file(waiting, target) {
            return waiting.unlink();
        }
        match self.moves.to_free_name(waiting, target) {
            // Another program created one since.
            Err(Errno::EXIST) => self.keep(number, waiting),
            outcome => outcome,
        }
    }

    /// The file is recognised by its number or, if it is a copy that came back, by its contents.
    fn rename_back(
        &self,
        number: usize,
        from: &TreePath,
        (was, key): (&Print, FileKey),
        places: &StepPlaces,
    ) -> rustix::io::Result<()> {
        let (Some((_, name)), Some(target)) = (from.split_last(), places.target()) else {
            return Ok(());
        };
        let old = Spot::new(&places.anchor, name.as_bytes());
        match (old.key()?, target.key()?) {
            _ if is_one_file(old, target) => target.unlink(),
            // Another program created one since.
            (Some(_), Some(found)) if found == key => self.keep(number, target),
            (None, Some(found)) if found == key || self.is(was, target) => {
                self.moves.to_free_name(target, old)
            }
            _ => Ok(()),
        }
    }

    fn remove_directory(&self, number: usize, places: &StepPlaces) -> rustix::io::Result<()> {
        let outcome = match places.target() {
            _ if self.is_ours(number, places.waiting())? => places.waiting().remove_directory(),
            Some(target) if self.is_ours(number, target)? => target.remove_directory(),
            _ => Ok(()),
        };
        match outcome {
            // Another program has put something into it.
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            outcome => absent_is_fine(outcome),
        }
    }

    /// Takes a new entry away. A program may have it open: whether it was written to is seen at the end.
    fn put_aside(&self, number: usize, spot: Spot<'_>) -> rustix::io::Result<()> {
        let name = number.to_string();
        let aside = Spot::new(&self.aside, name.as_bytes());
        match rename_within(spot, aside) {
            // On a full disk there may be no room for a copy that is not needed.
            Err(Errno::XDEV) if self.is_as_made(number, spot) => spot.unlink(),
            Err(Errno::XDEV) => carry(spot, aside),
            outcome => outcome,
        }
    }

    fn is_as_made(&self, number: usize, spot: Spot<'_>) -> bool {
        matches!(self.staged.get(number), Some(Some(staged)) if self.is(&staged.print, spot))
    }

    fn is(&self, print: &Print, spot: Spot<'_>) -> bool {
        let seen = self.host.look_at(spot.directory, spot.name);
        matches!(seen, Ok(Some(seen)) if seen.print == *print)
    }

    fn keep(&self, number: usize, spot: Spot<'_>) -> rustix::io::Result<()> {
        let name = number.to_string();
        carry(spot, Spot::new(&self.kept_directory, name.as_bytes()))
    }

    /// Old entries that could not be moved back, and new ones that another program wrote to.
    fn versions(&self) -> Result<Vec<KeptCopy>, ApplyError> {
        let mut kept = Vec::new();
        for (number, step) in self.journal.steps.iter().enumerate() {
            let name = number.to_string();
            let copy = |kept| KeptCopy {
                path: step.path.clone(),
                kept,
            };
            let failed = |errno| self.host.failed("reading", &step.path, errno);
            if Spot::new(&self.kept_directory, name.as_bytes())
                .key()
                .map_err(failed)?
                .is_some()
            {
                kept.push(copy(self.folder.kept_path(number)));
            }
            let aside = Spot::new(&self.aside, name.as_bytes());
            if aside.key().map_err(failed)?.is_some() && !self.is_as_made(number, aside) {
                kept.push(copy(self.folder.path.join("aside").join(name)));
            }
        }
        Ok(kept)
    }
}

/// If a name cannot be moved atomically, a file has both for a moment.
fn is_one_file(one: Spot<'_>, other: Spot<'_>) -> bool {
    matches!((one.key(), other.key()), (Ok(Some(one)), Ok(Some(other))) if one == other)
}

fn make_directory(places: &StepPlaces, mode: u32, owner: (u32, u32)) -> rustix::io::Result<()> {
    let Some(target) = places.target() else {
        return Ok(());
    };
    match rustix::fs::mkdirat(target.directory, target.name, Mode::RWXU) {
        Err(Errno::EXIST) => return Ok(()),
        made => made?,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(target.directory, target.name, flags, Mode::empty())?;
    if rustix::process::geteuid().is_root() {
        rustix::fs::fchown(&made, Some(Uid::from_raw(owner.0)), Some(Gid::from_raw(owner.1)))?;
    }
    rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))
}

fn set_mode(places: &StepPlaces, from: u32, to: u32) -> rustix::io::Result<()> {
    let Some(target) = places.target() else {
        return Ok(());
    };
    match target.stat()?.map(|stat| stat.st_mode) {
        Some(now) if now & 0o777 == from => chmod_unopened(
            target.directory,
            target.name,
            Mode::from_raw_mode(now & 0o7000 | to),
        ),
        _ => Ok(()),
    }
}

fn absent_is_fine(outcome: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match outcome {
        Err(Errno::NOENT) => Ok(()),
        outcome => outcome,
    }
}
