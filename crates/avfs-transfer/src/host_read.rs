//! Importing a host directory, on all cores.
//!
//! Every directory is a task, and so is every few hundred entries of a large one. No task waits for another:
//! the task that finishes the last part of a directory builds its map and passes it to the parent directory,
//! so the depth of a tree needs no stack. If files with several links are involved, that must wait for the
//! end of the walk, when all names are known.

use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use avfs_core::{BadName, LinkId, PATH_MAX, Slot, TreePath};
use avfs_tree::{ObjectError, ObjectWriter, Objects};
use rayon::Scope;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::beneath::HostRoot;
use super::error::{SkipReason, TransferError};
use super::host_file::{self, ObjectSink, ReadTrouble, key_of, stat_of};
use super::host_tree::{DirectoryItem, PendingDirectory, TreeGrowth, UnbuiltDirectory};
use super::links::{HostFileKey, IsTaken, NumberedLinks, SharedFiles};
use super::{ImportedTree, TransferProgress, TransferTally, join};

/// How a host directory is imported.
#[derive(Clone)]
pub struct DirectoryImport<'a> {
    /// Host paths that are omitted, with everything below them: recognised by identity, not by spelling.
    pub exclude: Vec<PathBuf>,
    /// Directories on other file systems are imported empty.
    pub one_file_system: bool,
    /// Import the rest if something cannot be read; otherwise that fails the import.
    pub skip_refused: bool,
    /// Whether the vault uses a link id already.
    pub is_taken: &'a (dyn Fn(LinkId) -> bool + Sync),
}

impl Default for DirectoryImport<'_> {
    fn default() -> Self {
        DirectoryImport {
            exclude: Vec::new(),
            one_file_system: false,
            skip_refused: false,
            is_taken: &|_| false,
        }
    }
}

/// Imports the host directory `from` as the future directory `into` of a vault.
///
/// Symbolic links are imported as such and never followed, except in `from` itself. A file that changes
/// while it is read is read again.
pub fn import_directory(
    objects: &Objects,
    writer: &ObjectWriter,
    from: &Path,
    into: &TreePath,
    options: &DirectoryImport<'_>,
    progress: &dyn TransferProgress,
) -> Result<ImportedTree, TransferError> {
    // The top may be reached through a link: its user has named it. Nothing below may.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = rustix::fs::open(from, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOTDIR => TransferError::NotADirectory {
            path: from.to_owned(),
        },
        errno => TransferError::host("opening", from, errno),
    })?;
    let stat = rustix::fs::fstat(&top).map_err(|errno| TransferError::host("reading", from, errno))?;
    let import = HostReading {
        intake: ObjectSink {
            objects,
            writer,
            progress,
        },
        top: HostRoot::new(top, from),
        device: stat.st_dev,
        into,
        excluded: identities(&options.exclude),
        one_file_system: options.one_file_system,
        shared: SharedFiles::default(),
        growth: TreeGrowth::new(objects, writer),
        tally: TransferTally::default(),
        failure: Mutex::default(),
        stop: AtomicBool::new(false),
    };
    // Returns when all tasks have ended.
    rayon::scope(|scope| import.visit(scope, PendingDirectory::top()));
    import.finish(options.skip_refused, options.is_taken)
}

/// The identities of the paths; missing ones exclude nothing.
fn identities(paths: &[PathBuf]) -> HashSet<HostFileKey> {
    paths
        .iter()
        .filter_map(|path| rustix::fs::stat(path).ok())
        .map(|stat| key_of(&stat))
        .collect()
}

struct HostReading<'a> {
    intake: ObjectSink<'a>,
    top: HostRoot,
    device: u64,
    into: &'a TreePath,
    excluded: HashSet<HostFileKey>,
    one_file_system: bool,
    shared: SharedFiles,
    growth: TreeGrowth<'a>,
    tally: TransferTally,
    failure: Mutex<Option<TransferError>>,
    stop: AtomicBool,
}

/// The contents of a directory as listed.
#[derive(Default)]
struct HostListing {
    directories: Vec<Box<[u8]>>,
    others: Vec<(Box<[u8]>, FileType)>,
}

/// Entries of a large directory that one task reads.
const PART: usize = 256;
/// How often an entry that changed is read again.
const ATTEMPTS: usize = 8;

impl HostReading<'_> {
    fn visit<'s>(&'s self, scope: &Scope<'s>, directory: Arc<PendingDirectory>) {
        if !self.is_stopped() {
            match self.open(&directory) {
                Ok(Some((opened, listing))) => self.spread(scope, &directory, &opened, listing),
                Ok(None) => {}
                Err(trouble) => self.trouble(&directory.relative, trouble),
            }
        }
        // Released even after an error or a stop: the parent waits for all of its parts.
        self.release(directory);
    }

    /// Opens a directory and lists it; `None` if it is left out.
    fn open(&self, directory: &PendingDirectory) -> Result<Option<(OwnedFd, HostListing)>, ReadTrouble> {
        let opened = self.top.open_directory(&directory.relative)?;
        // Of the opened directory, and not of its name, which may be something else by now.
        let stat = rustix::fs::fstat(&opened)?;
        if self.excluded.contains(&key_of(&stat)) {
            return Err(ReadTrouble::Skip(SkipReason::Excluded));
        }
        let meta = host_file::meta(&stat, host_file::xattrs(&opened)?);
        let other_file_system = self.one_file_system && stat.st_dev != self.device;
        let listing = if other_file_system {
            HostListing::default()
        } else {
            list(opened.as_fd())?
        };
        if other_file_system {
            self.tally
                .skip(directory.relative.clone(), SkipReason::OtherFileSystem);
        }
        if directory.parent.is_some() {
            self.tally.add_directory();
        }
        directory.meta.set(meta).expect("a directory is visited once");
        Ok(Some((opened, listing)))
    }

    /// Starts tasks for the contents of a directory, and reads the first part of it.
    fn spread<'s>(
        &'s self,
        scope: &Scope<'s>,
        directory: &Arc<PendingDirectory>,
        opened: &OwnedFd,
        listing: HostListing,
    ) {
        let mut others = listing.others;
        // From the end, which leaves the first part for this task without moving it.
        while others.len() > PART {
            let part = others.split_off(others.len() - PART);
            let directory = directory.hold();
            scope.spawn(move |_| {
                self.read_part(&directory, part);
                self.release(directory);
            });
        }
        for name in listing.directories {
            let relative = join(&directory.relative, &name);
            if let Err(bad) = self.check_length(&relative) {
                self.trouble(&relative, ReadTrouble::Skip(bad.into()));
                continue;
            }
            let below = directory.below(name, relative);
            scope.spawn(move |scope| self.visit(scope, below));
        }
        self.read_entries(directory, opened.as_fd(), others);
    }

    fn read_part(&self, directory: &PendingDirectory, names: Vec<(Box<[u8]>, FileType)>) {
        if self.is_stopped() {
            return;
        }
        // Opened again rather than shared: descriptors that wait with their tasks could exhaust the limit
        // of the process.
        match self.top.open_directory(&directory.relative) {
            Ok(opened) => self.read_entries(directory, opened.as_fd(), names),
            Err(errno) => self.trouble(&directory.relative, errno.into()),
        }
    }

    fn read_entries(
        &self,
        directory: &PendingDirectory,
        opened: BorrowedFd<'_>,
        names: Vec<(Box<[u8]>, FileType)>,
    ) {
        let mut items = Vec::with_capacity(names.len());
        let mut told = ToldProgress::default();
        for (name, kind) in names {
            match self.read_entry(directory, opened, &name, kind, &mut told) {
                Ok(item) => items.push((name, item)),
                Err(trouble) => self.trouble(&join(&directory.relative, &name), trouble),
            }
            if self.is_stopped() {
                return;
            }
        }
        self.intake
            .progress
            .advance(told.files, told.bytes.saturating_sub(told.bytes_told_before));
        self.tally.add(told.files, told.bytes);
        directory.add(items);
    }

    /// Retries as long as the entry keeps changing.
    fn read_entry(
        &self,
        directory: &PendingDirectory,
        opened: BorrowedFd<'_>,
        name: &[u8],
        mut kind: FileType,
        told: &mut ToldProgress,
    ) -> Result<DirectoryItem, ReadTrouble> {
        let relative = join(&directory.relative, name);
        self.check_length(&relative)
            .map_err(|bad| ReadTrouble::Skip(bad.into()))?;
        for _ in 0..ATTEMPTS {
            let outcome = match kind {
                FileType::RegularFile => self.read_file(opened, name, &relative, told),
                _ => self.read_special(opened, name, &relative, told),
            };
            match outcome {
                Err(ReadTrouble::Changed) => {
                    // It may have become another kind of entry.
                    kind = FileType::from_raw_mode(stat_of(opened, name)?.st_mode);
                }
                outcome => return outcome,
            }
        }
        Err(ReadTrouble::Skip(SkipReason::Changing))
    }

    fn read_file(
        &self,
        opened: BorrowedFd<'_>,
        name: &[u8],
        relative: &[u8],
        told: &mut ToldProgress,
    ) -> Result<DirectoryItem, ReadTrouble> {
        let file = self.top.open_file(opened, name)?;
        let stat = rustix::fs::fstat(&file)?;
        // Replaced since the directory was listed.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ReadTrouble::Changed);
        }
        let key = key_of(&stat);
        if self.excluded.contains(&key) {
            return Err(ReadTrouble::Skip(SkipReason::Excluded));
        }
        let (is_linked, path) = (stat.st_nlink > 1, || join(self.into.as_bytes(), relative));
        // Another name of a file that was read already: its bytes are not read again.
        if is_linked && self.shared.add_name(key, &path()) {
            told.files += 1;
            return Ok(DirectoryItem::Shared(key));
        }
        let entry = self.intake.regular(file.as_fd(), &stat)?;
        told.files += 1;
        let size = entry.size();
        told.bytes_told_before += if host_file::is_told_piecewise(&stat) {
            size
        } else {
            0
        };
        if !is_linked || self.shared.add(key, &path(), entry.clone()) {
            told.bytes += size;
        }
        Ok(if is_linked {
            DirectoryItem::Shared(key)
        } else {
            DirectoryItem::Ready(Slot::Own(entry))
        })
    }

    fn read_special(
        &self,
        opened: BorrowedFd<'_>,
        name: &[u8],
        relative: &[u8],
        told: &mut ToldProgress,
    ) -> Result<DirectoryItem, ReadTrouble> {
        let stat = stat_of(opened, name)?;
        let key = key_of(&stat);
        if self.excluded.contains(&key) {
            return Err(ReadTrouble::Skip(SkipReason::Excluded));
        }
        let entry = host_file::special(opened, name, &stat)?;
        told.files += 1;
        if stat.st_nlink <= 1 {
            return Ok(DirectoryItem::Ready(Slot::Own(entry)));
        }
        self.shared.add(key, &join(self.into.as_bytes(), relative), entry);
        Ok(DirectoryItem::Shared(key))
    }

    fn check_length(&self, relative: &[u8]) -> Result<(), BadName> {
        let own = self.into.as_bytes().len();
        match own + usize::from(own > 0) + relative.len() {
            len if len > PATH_MAX => Err(BadName::PathTooLong(len)),
            _ => Ok(()),
        }
    }

    fn release(&self, directory: Arc<PendingDirectory>) {
        if self.is_stopped() {
            return;
        }
        if let Err(UnbuiltDirectory { relative, source }) = self.growth.release(directory) {
            self.fail(object_error(self.into, &relative, source));
        }
    }

    fn trouble(&self, relative: &[u8], trouble: ReadTrouble) {
        match trouble {
            ReadTrouble::Skip(reason) => self.tally.skip(relative, reason),
            ReadTrouble::Changed => self.tally.skip(relative, SkipReason::Changing),
            ReadTrouble::Store(source) => self.fail(object_error(self.into, relative, source)),
        }
    }

    fn fail(&self, error: TransferError) {
        self.stop.store(true, Ordering::Relaxed);
        self.failure
            .lock()
            .expect("no panic happens while the lock is held")
            .get_or_insert(error);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn finish(mut self, skip_refused: bool, is_taken: IsTaken<'_>) -> Result<ImportedTree, TransferError> {
        if let Some(error) = self
            .failure
            .get_mut()
            .expect("no panic happened under the lock")
            .take()
        {
            return Err(error);
        }
        let report = self.tally.report();
        // Without it there is nothing to import, whatever the options allow to skip.
        if !self.growth.has_top() {
            // The topmost directory itself was refused or left out.
            return Err(TransferError::Refused {
                refused: report.skipped,
            });
        }
        let report = report.unless_refused(skip_refused)?;
        let numbered = NumberedLinks::new(std::mem::take(&mut self.shared).into_files(), is_taken);
        let directory = self.growth.finish(&numbered);
        let directory = directory
            .map_err(|UnbuiltDirectory { relative, source }| object_error(self.into, &relative, source))?;
        Ok(ImportedTree {
            directory,
            links: numbered.links.into_iter().collect(),
            report,
        })
    }
}

fn object_error(into: &TreePath, relative: &[u8], source: ObjectError) -> TransferError {
    let below = TreePath::parse(relative).unwrap_or_default();
    TransferError::Object {
        path: into.join_path(&below),
        source,
    }
}

/// Totals since the last report to the progress.
#[derive(Default)]
struct ToldProgress {
    files: u64,
    bytes: u64,
    /// Bytes of large files, which are reported while they are read.
    bytes_told_before: u64,
}

fn list(directory: BorrowedFd<'_>) -> Result<HostListing, ReadTrouble> {
    // A large buffer: each call returns as many entries as fit.
    let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut listing = HostListing::default();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems do not say.
            FileType::Unknown => match stat_of(directory, name) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            },
            kind => kind,
        };
        match kind {
            FileType::Directory => listing.directories.push(name.into()),
            kind => listing.others.push((name.into(), kind)),
        }
    }
    Ok(listing)
}
