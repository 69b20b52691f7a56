//! Exporting a tree to the host, on all cores.
//!
//! In three steps: directories and files; then files with several names, when all names are known; then the
//! attributes of directories, the deepest first, when nothing below them changes any longer.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use avfs_core::map::MapRecord;
use avfs_core::rules::Level;
use avfs_core::{Entry, EntryKind, EntryName, LinkId, Meta, TreePath};
use avfs_tree::{ReadError, TreeReader};
use rayon::Scope;
use rayon::prelude::*;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::beneath::HostRoot;
use super::error::{SkipReason, TransferError};
use super::host_place::{DescribeAction, EntryPlacer, PlaceFault, PlaceOutcome};
use super::{TransferProgress, TransferReport, TransferTally, join};

/// How a tree is exported to the host.
#[derive(Clone, Debug)]
pub struct DirectoryExport {
    /// Export into an existing directory: directories are used, other entries of the same name are replaced.
    pub merge: bool,
    /// Set owners, which requires root; otherwise everything belongs to the current user.
    pub owners: bool,
}

impl Default for DirectoryExport {
    fn default() -> Self {
        DirectoryExport {
            merge: false,
            owners: true,
        }
    }
}

/// Exports the entry at `path` as the host path `to`, which must be new or, for a directory, empty.
pub fn export_directory(
    reader: &TreeReader,
    path: &TreePath,
    to: &Path,
    options: &DirectoryExport,
    progress: &dyn TransferProgress,
) -> Result<TransferReport, TransferError> {
    let entry = reader.find_readable(path)?.entry;
    let tally = TransferTally::default();
    let user = (rustix::process::geteuid(), rustix::process::getegid());
    let placer = EntryPlacer {
        objects: reader.objects(),
        tally: &tally,
        progress,
        replace: options.merge,
        sets_owners: options.owners && user.0.is_root(),
        user: (user.0.as_raw(), user.1.as_raw()),
        lost_owners: AtomicBool::new(false),
        temporary: AtomicU64::new(0),
    };
    if entry.is_directory() {
        export_tree(reader, path, entry, to, options.merge, &placer)?
    } else {
        export_one(path, &entry, to, &placer)?
    }
    if options.owners && placer.lost_owners.load(Ordering::Relaxed) {
        tally.skip([], SkipReason::OwnersNeedRoot);
    }
    Ok(tally.report())
}

fn export_one(
    path: &TreePath,
    entry: &Entry,
    to: &Path,
    placer: &EntryPlacer<'_>,
) -> Result<(), TransferError> {
    let name = to
        .file_name()
        .ok_or_else(|| TransferError::Exists { path: to.to_owned() })?;
    let parent = match to.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = open(parent, OFlags::empty()).map_err(|errno| match errno {
        Errno::NOTDIR => TransferError::NotADirectory {
            path: parent.to_owned(),
        },
        errno => TransferError::host("opening", parent, errno),
    })?;
    match placer.place(directory.as_fd(), name.as_bytes(), entry, b"") {
        Ok(PlaceOutcome::Exists) => Err(TransferError::Exists { path: to.to_owned() }),
        Ok(PlaceOutcome::Yes) => {
            placer.tally.add(1, entry.totals().bytes);
            placer.progress.advance(1, 0);
            Ok(())
        }
        Ok(PlaceOutcome::Skipped) => Ok(()),
        Err(fault) => Err(named(fault, to.to_owned(), path.clone())),
    }
}

fn named(fault: PlaceFault, host: PathBuf, path: TreePath) -> TransferError {
    match fault {
        PlaceFault::Host(action, errno) => TransferError::host(action, host, errno),
        PlaceFault::Object(source) => TransferError::Read(ReadError::Object { path, source }),
    }
}

fn open(path: &Path, more: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | more,
        Mode::empty(),
    )
}

/// Makes the topmost directory, or opens the one that is there.
fn open_target(to: &Path, merge: bool) -> Result<OwnedFd, TransferError> {
    let failed = |errno| match errno {
        // Through a link, the files would land in a place that was not named.
        Errno::NOTDIR | Errno::LOOP => TransferError::NotADirectory { path: to.to_owned() },
        errno => TransferError::host("opening", to, errno),
    };
    match rustix::fs::mkdir(to, Mode::RWXU) {
        // Just made: if it is a link now, someone else replaced it.
        Ok(()) => return open(to, OFlags::NOFOLLOW).map_err(failed),
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(TransferError::host("creating", to, errno)),
    }
    let target = open(to, OFlags::empty()).map_err(failed)?;
    let mut entries = rustix::fs::Dir::read_from(&target).map_err(failed)?;
    let is_entry = |entry: rustix::io::Result<rustix::fs::DirEntry>| match entry {
        Ok(entry) => !matches!(entry.file_name().to_bytes(), b"." | b".."),
        Err(_) => true,
    };
    if !merge && entries.any(is_entry) {
        return Err(TransferError::NotEmpty { path: to.to_owned() });
    }
    Ok(target)
}

fn export_tree(
    reader: &TreeReader,
    path: &TreePath,
    entry: Entry,
    to: &Path,
    merge: bool,
    placer: &EntryPlacer<'_>,
) -> Result<(), TransferError> {
    let export = HostExport {
        reader,
        path,
        top: HostRoot::new(open_target(to, merge)?, to),
        merge,
        placer,
        directories: Mutex::new(vec![(Vec::new(), entry.meta.clone())]),
        linked: Mutex::default(),
        failure: Mutex::default(),
        stop: AtomicBool::new(false),
    };
    rayon::scope(|scope| export.visit(scope, Vec::new(), entry));
    export.finish()
}

struct HostExport<'a> {
    reader: &'a TreeReader,
    path: &'a TreePath,
    top: HostRoot,
    merge: bool,
    placer: &'a EntryPlacer<'a>,
    /// All directories, by their path from the topmost one.
    directories: Mutex<Vec<(Vec<u8>, Meta)>>,
    linked: Mutex<HashMap<LinkId, LinkedNames>>,
    failure: Mutex<Option<TransferError>>,
    stop: AtomicBool,
}

/// A file with several names in the whole tree, and those that are exported.
struct LinkedNames {
    entry: Entry,
    names: Vec<Vec<u8>>,
}

/// Entries of a large directory that one task writes.
const PART: usize = 256;

impl HostExport<'_> {
    fn visit<'s>(&'s self, scope: &Scope<'s>, relative: Vec<u8>, entry: Entry) {
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.spread(scope, &relative, &entry) {
            self.fail(error);
        }
    }

    /// Makes the directories below this one, and tasks for its files.
    fn spread<'s>(&'s self, scope: &Scope<'s>, relative: &[u8], entry: &Entry) -> Result<(), TransferError> {
        let opened = self.open_directory(relative)?;
        let mut part = Vec::new();
        for next in self.reader.list_entry(&self.vault_path(relative), entry)? {
            let (name, found) = next?;
            let path = join(relative, name.as_bytes());
            match (&found.entry.kind, found.link) {
                (EntryKind::Directory { .. }, _) => {
                    // Made here and not in its task, so that it exists before anything below it is written.
                    self.make_directory(&opened, &name, &path, &found.entry)?;
                    scope.spawn(move |scope| self.visit(scope, path, found.entry));
                }
                _ if found.level < Level::Read => self.placer.tally.skip(path, SkipReason::Denied),
                (_, Some((link, names))) if names > 1 => self.add_linked(link, found.entry, path),
                _ => part.push((name, found.entry)),
            }
            if part.len() == PART {
                // In parts, so that a directory with many files keeps all threads busy.
                let (part, relative) = (std::mem::take(&mut part), relative.to_vec());
                scope.spawn(move |_| self.write_part(&relative, &part));
            }
        }
        self.write_entries(&opened, relative, &part)
    }

    fn make_directory(
        &self,
        opened: &OwnedFd,
        name: &EntryName,
        relative: &[u8],
        entry: &Entry,
    ) -> Result<(), TransferError> {
        // Writable while it is filled; its own mode is set at the end.
        match rustix::fs::mkdirat(opened, name.as_bytes(), Mode::RWXU) {
            Ok(()) => {}
            Err(Errno::EXIST) if self.merge => {}
            Err(Errno::EXIST) => {
                return Err(TransferError::Exists {
                    path: self.top.host_path(relative),
                });
            }
            Err(errno) => return Err(self.host_error("creating", relative, errno)),
        }
        self.placer.tally.add_directory();
        let mut directories = self
            .directories
            .lock()
            .expect("no panic happens while the lock is held");
        directories.push((relative.to_vec(), entry.meta.clone()));
        Ok(())
    }

    fn add_linked(&self, link: LinkId, entry: Entry, relative: Vec<u8>) {
        let mut linked = self
            .linked
            .lock()
            .expect("no panic happens while the lock is held");
        linked
            .entry(link)
            .or_insert_with(|| LinkedNames {
                entry,
                names: Vec::new(),
            })
            .names
            .push(relative);
    }

    fn write_part(&self, relative: &[u8], part: &[(EntryName, Entry)]) {
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        let written = self.open_directory(relative);
        if let Err(error) = written.and_then(|opened| self.write_entries(&opened, relative, part)) {
            self.fail(error);
        }
    }

    fn write_entries(
        &self,
        opened: &OwnedFd,
        relative: &[u8],
        part: &[(EntryName, Entry)],
    ) -> Result<(), TransferError> {
        for (name, entry) in part {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.write(opened, name.as_bytes(), entry, &join(relative, name.as_bytes()))?;
        }
        Ok(())
    }

    /// Returns whether the entry is there now.
    fn write(
        &self,
        opened: &OwnedFd,
        name: &[u8],
        entry: &Entry,
        relative: &[u8],
    ) -> Result<bool, TransferError> {
        let made = self.placer.place(opened.as_fd(), name, entry, relative);
        let made = self.is_made(made, relative)?;
        if made {
            self.count(entry.totals().bytes);
        }
        Ok(made)
    }

    fn is_made(
        &self,
        made: Result<PlaceOutcome, PlaceFault>,
        relative: &[u8],
    ) -> Result<bool, TransferError> {
        match made {
            Ok(PlaceOutcome::Yes) => Ok(true),
            Ok(PlaceOutcome::Skipped) => Ok(false),
            Ok(PlaceOutcome::Exists) => Err(TransferError::Exists {
                path: self.top.host_path(relative),
            }),
            Err(fault) => Err(named(
                fault,
                self.top.host_path(relative),
                self.vault_path(relative),
            )),
        }
    }

    fn count(&self, bytes: u64) {
        self.placer.tally.add(1, bytes);
        self.placer.progress.advance(1, 0);
    }

    fn finish(mut self) -> Result<(), TransferError> {
        if let Some(error) = self
            .failure
            .get_mut()
            .expect("no panic happened under the lock")
            .take()
        {
            return Err(error);
        }
        let linked = std::mem::take(self.linked.get_mut().expect("no panic happened under the lock"));
        linked
            .into_par_iter()
            .try_for_each(|(_, linked)| self.write_linked(linked))?;
        let directories = self
            .directories
            .get_mut()
            .expect("no panic happened under the lock");
        let mut directories = std::mem::take(directories);
        // The deepest first: setting the times of a directory must come after every change in it, and a
        // read-only directory must not be in the way of those below.
        directories.sort_by_key(|(relative, _)| std::cmp::Reverse(depth(relative)));
        for level in directories.chunk_by(|(a, _), (b, _)| depth(a) == depth(b)) {
            level
                .par_iter()
                .try_for_each(|(relative, meta)| self.seal(relative, meta))?;
        }
        Ok(())
    }

    fn write_linked(&self, mut linked: LinkedNames) -> Result<(), TransferError> {
        // The same name becomes the first in every export.
        linked.names.sort();
        let mut names = linked.names.iter();
        let Some(first) = names.next() else { return Ok(()) };
        let (directory, first_name) = split(first);
        let opened = self.open_directory(directory)?;
        if !self.write(&opened, first_name, &linked.entry, first)? {
            return Ok(());
        }
        for relative in names {
            let (directory, name) = split(relative);
            let other = self.open_directory(directory)?;
            let made = self
                .placer
                .link((opened.as_fd(), first_name), other.as_fd(), name);
            self.is_made(made, relative)?;
            self.count(0);
        }
        Ok(())
    }

    fn seal(&self, relative: &[u8], meta: &Meta) -> Result<(), TransferError> {
        let opened = self.top.open_directory(relative).doing("opening");
        let sealed = opened.and_then(|opened| self.placer.attributes(opened.as_fd(), meta, relative));
        sealed.map_err(|fault| named(fault, self.top.host_path(relative), self.vault_path(relative)))
    }

    fn open_directory(&self, relative: &[u8]) -> Result<OwnedFd, TransferError> {
        self.top
            .open_directory(relative)
            .map_err(|errno| self.host_error("opening", relative, errno))
    }

    fn host_error(&self, action: &'static str, relative: &[u8], errno: Errno) -> TransferError {
        TransferError::host(action, self.top.host_path(relative), errno)
    }

    fn vault_path(&self, relative: &[u8]) -> TreePath {
        self.path
            .join_path(&TreePath::parse(relative).unwrap_or_default())
    }

    fn fail(&self, error: TransferError) {
        self.stop.store(true, Ordering::Relaxed);
        self.failure
            .lock()
            .expect("no panic happens while the lock is held")
            .get_or_insert(error);
    }
}

fn depth(relative: &[u8]) -> usize {
    match relative {
        b"" => 0,
        _ => 1 + relative.iter().filter(|byte| **byte == b'/').count(),
    }
}

/// The directory of a relative path, and the name in it.
fn split(relative: &[u8]) -> (&[u8], &[u8]) {
    match relative.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&relative[..slash], &relative[slash + 1..]),
        None => (b"", relative),
    }
}
