//! New entries are created beside their places, with all their attributes, before anything changes: failures
//! for lack of space or permission happen here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};

use avfs_core::{Content, Entry, EntryKind, Meta, TreePath};
use avfs_tree::Objects;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::host::HostFiles;
use super::ledger::Folder;
use super::moves::{Spot, duplicate};
use super::print::Print;
use super::step::{ApplyStep, New, Staged, StepAction};
use crate::error::ApplyError;
use crate::error::ApplyId;
use avfs_transfer::TransferTally;
use avfs_transfer::host_file::{CAPABILITY, xattrs};
use avfs_transfer::host_place::{EntryPlacer, PlaceFault, PlaceOutcome, write_at};

/// More files than these are synced all together.
const SYNCED_ONE_BY_ONE: usize = 16;

pub(super) struct Stage<'a> {
    pub host: &'a HostFiles,
    pub objects: &'a Objects,
    pub id: ApplyId,
    /// The folder of the apply that is undone, if any.
    pub earlier: Option<&'a Folder>,
    /// Where files are that will be renamed, by the path that they get.
    pub renamed: HashMap<&'a TreePath, &'a TreePath>,
}

/// The name under which the entry of a step waits, and later the one that it replaces.
pub(super) fn waiting_name(id: ApplyId, step: usize) -> Vec<u8> {
    format!(".avfs-apply-{id}-{step}").into_bytes()
}

impl Stage<'_> {
    /// Makes the new entry of a step, if it has one.
    pub(super) fn make(&self, number: usize, step: &ApplyStep) -> Result<Option<Staged>, ApplyError> {
        let name = waiting_name(self.id, number);
        // Beside the deepest directory that exists, so that the later rename stays within one file system.
        let directory = self.host.directory(&step.anchor)?;
        let spot = Spot::new(&directory, &name);
        let print = match &step.action {
            StepAction::Put { over, new } => self.make_entry(spot, step, over.is_some(), new, &directory)?,
            StepAction::MakeDirectory { mode, owner } => {
                self.make_directory(spot, step, *mode, *owner, &directory)?
            }
            StepAction::Remove { .. }
            | StepAction::Rename { .. }
            | StepAction::RemoveDirectory { .. }
            | StepAction::SetMode { .. } => {
                return Ok(None);
            }
        };
        let failed = |errno| self.host.failed("reading", &step.path, errno);
        let key = spot.key().map_err(failed)?.ok_or_else(|| failed(Errno::NOENT))?;
        Ok(Some(Staged { key, print }))
    }

    fn make_entry(
        &self,
        spot: Spot<'_>,
        step: &ApplyStep,
        replaces: bool,
        new: &New,
        directory: &OwnedFd,
    ) -> Result<Print, ApplyError> {
        match new {
            // Only a directory is made without contents, and that is another kind of step.
            New::Made => Err(self.host.failed("creating", &step.path, Errno::EXIST)),
            New::Stored { entry, keeps_xattrs } => {
                let mut entry = entry.clone();
                self.give_owner(&mut entry.meta, step, replaces, directory)?;
                if replaces && *keeps_xattrs {
                    self.keep_xattrs(&mut entry, step);
                }
                self.place(spot, &entry, step)?;
                Ok(Print::of_entry(self.objects, &entry)?)
            }
            New::Text { bytes, mode } => {
                let kind = EntryKind::File {
                    size: 0,
                    content: Content::Empty,
                };
                let meta = Meta {
                    mode: *mode,
                    mtime: now(),
                    ..Meta::default()
                };
                let mut entry = Entry { meta, kind };
                self.give_owner(&mut entry.meta, step, replaces, directory)?;
                self.keep_xattrs(&mut entry, step);
                self.write_text(spot, bytes, &entry.meta, step)?;
                Ok(Print::of_file(bytes, *mode))
            }
            New::Kept { number, print } => {
                let earlier = self.earlier.ok_or(ApplyError::NothingKept)?;
                let (kept, name) = (earlier.kept()?, number.to_string());
                let from = Spot::new(&kept, name.as_bytes());
                duplicate(from, spot)
                    .map_err(|errno| self.host.failed("bringing back", &step.path, errno))?;
                Ok(print.clone())
            }
        }
    }

    /// Where the file is now that the step is about.
    fn present<'b>(&'b self, step: &'b ApplyStep) -> &'b TreePath {
        self.renamed.get(&step.path).copied().unwrap_or(&step.path)
    }

    /// A file keeps the owner of its predecessor, and a new one gets the owner of its directory.
    fn give_owner(
        &self,
        meta: &mut Meta,
        step: &ApplyStep,
        replaces: bool,
        directory: &OwnedFd,
    ) -> Result<(), ApplyError> {
        let failed = |errno| self.host.failed("reading", &step.path, errno);
        let replaced = match (self.present(step).split_last(), replaces) {
            (Some((parent, name)), true) => Spot::new(&self.host.directory(&parent)?, name.as_bytes())
                .stat()
                .map_err(failed)?,
            _ => None,
        };
        let stat = match replaced {
            Some(stat) => stat,
            None => rustix::fs::fstat(directory).map_err(failed)?,
        };
        (meta.uid, meta.gid) = (stat.st_uid, stat.st_gid);
        Ok(())
    }

    /// Takes over the extended attributes of the file that is replaced, but no rights.
    fn keep_xattrs(&self, entry: &mut Entry, step: &ApplyStep) {
        // Non-blocking, because opening a FIFO would otherwise wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Some((parent, name)) = self.present(step).split_last() else {
            return;
        };
        let Ok(directory) = self.host.directory(&parent) else {
            return;
        };
        let Ok(file) = rustix::fs::openat(directory, name.as_bytes(), flags, Mode::empty()) else {
            return;
        };
        if let Ok(mut kept) = xattrs(&file) {
            // File capabilities were granted to the old contents, not to the new ones.
            kept.remove(CAPABILITY);
            entry.meta.xattrs = kept;
        }
    }

    fn placer<'a>(&'a self, tally: &'a TransferTally) -> EntryPlacer<'a> {
        let user = (rustix::process::geteuid(), rustix::process::getegid());
        EntryPlacer {
            objects: self.objects,
            tally,
            progress: &(),
            replace: false,
            sets_owners: user.0.is_root(),
            user: (user.0.as_raw(), user.1.as_raw()),
            lost_owners: AtomicBool::new(false),
            temporary: AtomicU64::new(0),
        }
    }

    fn place(&self, spot: Spot<'_>, entry: &Entry, step: &ApplyStep) -> Result<(), ApplyError> {
        let tally = TransferTally::default();
        let made = self
            .placer(&tally)
            .place(spot.directory, spot.name, entry, step.path.as_bytes());
        match made.map_err(|fault| self.fault(fault, step))? {
            PlaceOutcome::Yes => Ok(()),
            PlaceOutcome::Exists | PlaceOutcome::Skipped => {
                Err(self.host.failed("creating", &step.path, Errno::EXIST))
            }
        }
    }

    fn write_text(
        &self,
        spot: Spot<'_>,
        bytes: &[u8],
        meta: &Meta,
        step: &ApplyStep,
    ) -> Result<(), ApplyError> {
        // A new file in any case: a name that waits there already is not ours.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(spot.directory, spot.name, flags, Mode::from_raw_mode(0o600));
        let file = file.map_err(|errno| self.host.failed("creating", &step.path, errno))?;
        let tally = TransferTally::default();
        let written = write_at(&file, bytes, 0).and_then(|()| {
            self.placer(&tally)
                .attributes(file.as_fd(), meta, step.path.as_bytes())
        });
        written.map_err(|fault| self.fault(fault, step))
    }

    fn fault(&self, fault: PlaceFault, step: &ApplyStep) -> ApplyError {
        match fault {
            PlaceFault::Host(action, errno) => self.host.failed(action, &step.path, errno),
            PlaceFault::Object(source) => source.into(),
        }
    }

    fn make_directory(
        &self,
        spot: Spot<'_>,
        step: &ApplyStep,
        mode: u32,
        owner: Option<(u32, u32)>,
        anchor: &OwnedFd,
    ) -> Result<Print, ApplyError> {
        let make = || {
            // Open to us alone until it is complete; then it gets its own mode.
            rustix::fs::mkdirat(spot.directory, spot.name, Mode::RWXU)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let directory = rustix::fs::openat(spot.directory, spot.name, flags, Mode::empty())?;
            if rustix::process::geteuid().is_root() {
                let above = rustix::fs::fstat(anchor)?;
                let (uid, gid) = owner.unwrap_or((above.st_uid, above.st_gid));
                rustix::fs::fchown(&directory, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
            }
            // The bit that a directory inherits from its parent is kept.
            let inherited = rustix::fs::fstat(&directory)?.st_mode & 0o2000;
            // Until everything is in it, we must be able to write.
            rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode | inherited | 0o700))
        };
        make().map_err(|errno| self.host.failed("creating", &step.path, errno))?;
        Ok(Print::Directory)
    }

    /// Makes everything durable that waits.
    pub(super) fn sync(&self, steps: &[ApplyStep], staged: &[Option<Staged>]) -> Result<(), ApplyError> {
        let waiting = || {
            steps
                .iter()
                .enumerate()
                .zip(staged)
                .filter(|(_, staged)| staged.is_some())
        };
        let are_many = waiting().count() > SYNCED_ONE_BY_ONE;
        let mut file_systems = HashMap::new();
        for ((number, step), staged) in waiting() {
            let failed = |errno| self.host.failed("writing", &step.path, errno);
            let directory = self.host.directory(&step.anchor)?;
            let is_file = matches!(
                staged,
                Some(Staged {
                    print: Print::File { .. },
                    ..
                })
            );
            if are_many {
                let device = rustix::fs::fstat(&directory).map_err(failed)?.st_dev;
                file_systems.entry(device).or_insert((directory, step));
            } else if is_file {
                // The mode may not allow us to read what we have written.
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let name = waiting_name(self.id, number);
                match rustix::fs::openat(&directory, &name[..], flags, Mode::empty()) {
                    Ok(file) => rustix::fs::fsync(&file).map_err(failed)?,
                    Err(_) => rustix::fs::syncfs(&directory).map_err(failed)?,
                }
            }
        }
        for (directory, step) in file_systems.values() {
            rustix::fs::syncfs(directory).map_err(|errno| self.host.failed("writing", &step.path, errno))?;
        }
        Ok(())
    }
}

fn now() -> avfs_core::Timestamp {
    use avfs_tree::TreeClock;
    avfs_tree::SystemClock.now()
}
