//! The files of a sandbox or vault, without a process inside.

use std::collections::BTreeMap;
use std::io;

use agentvfs::error::FileError;
use agentvfs::query::walk::{EntryWalk, WalkSelection};
use agentvfs::rules::Rules;
use agentvfs::{
    EntryKind, Error, FoundEntry, OpenVault, ReadError, TreePath, TreeReader, UserView, Vault, Version,
    WriteMode,
};
use avfs_core::Xattrs;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::task::JoinHandle;

use super::error::{ServiceError, ServiceResult};
use super::spool::Spool;
use super::threads::{Share, on_a_thread_of};

/// How much of a file is in memory at a time.
const PIECE: usize = 64 << 10;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// From the root, with its slash in front. Bytes that are no text are replaced.
    pub path: String,
    /// The kind of the entry.
    pub kind: FileKind,
    /// Bytes of a file.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Milliseconds since 1970.
    pub modified: i64,
    /// Where a link leads.
    pub target: Option<String>,
    /// Its extended attributes, as far as they are text.
    pub attributes: BTreeMap<String, String>,
    /// The version of a file, if it was asked for.
    pub version: Option<String>,
}

/// What a write expects, and does besides.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The version that the file must have; `absent`, if there must be none.
    pub expect: Option<String>,
    /// Permission bits of the file.
    pub mode: Option<u32>,
    /// Extended attributes under a prefix, in the place of those that are there under it.
    pub attributes: Option<FileAttributes>,
}

/// Extended attributes of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileAttributes {
    /// With what their names begin.
    pub prefix: &'static str,
    /// The rest of their names, and their values.
    pub values: BTreeMap<String, String>,
}

impl FileAttributes {
    fn named(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let name = |rest: &String| format!("{}{rest}", self.prefix).into_bytes();
        let values = self.values.iter();
        values
            .map(|(rest, value)| (name(rest), value.clone().into_bytes()))
            .collect()
    }
}

/// The files of a vault. Every call waits for a disk, so it belongs on a thread that may.
#[derive(Clone)]
pub struct Files {
    vault: Vault,
}

/// A file to read, in a state that does not change while it is read.
pub struct FileRead {
    reader: TreeReader,
    path: TreePath,
    files: Files,
    /// What it is.
    pub info: FileInfo,
}

/// A piece of a file that is read further from an offset on.
type ReadPiece = (FileRead, u64, Bytes);

impl FileRead {
    /// The bytes from an offset on. One piece is read ahead, and no thread waits for a client that takes none.
    pub fn stream(self, offset: u64, length: u64) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
        let end = offset.saturating_add(length).min(self.info.size);
        let share = Share::current();
        let next = self.read_ahead(share.clone(), offset, end);
        unfold(Some(next), move |next| {
            let share = share.clone();
            async move {
                // Only a server that ends stops the task; the client sees that something is missing.
                match next?.await.unwrap_or_else(|_| Err(ServiceError::ending())) {
                    Ok((_, _, piece)) if piece.is_empty() => None,
                    Ok((file, at, piece)) => Some((Ok(piece), Some(file.read_ahead(share, at, end)))),
                    Err(error) => Some((Err(io::Error::other(error.message)), None)),
                }
            }
        })
    }

    fn read_ahead(self, share: Option<Share>, at: u64, end: u64) -> JoinHandle<ServiceResult<ReadPiece>> {
        tokio::spawn(on_a_thread_of(share, move || {
            let piece = self.piece(at, end)?;
            let at = at + piece.len() as u64;
            Ok((self, at, piece))
        }))
    }

    fn piece(&self, at: u64, end: u64) -> ServiceResult<Bytes> {
        let left = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut piece = vec![0; left.min(PIECE)];
        if !piece.is_empty() {
            let count = self.reader.read_at(&self.path, at, &mut piece);
            piece.truncate(count.map_err(|error| self.files.unreadable(error))?);
        }
        Ok(piece.into())
    }
}

impl Files {
    /// The files of a vault as its programs see them: through the rules that hold for them.
    pub fn for_programs(vault: &Vault) -> ServiceResult<Files> {
        let rules = vault.rules_for_programs()?;
        let rules = rules.map(Rules::shared).transpose().map_err(Error::from)?;
        let alone = vault.alone();
        Ok(Files {
            vault: rules.map_or_else(|| alone.clone(), |rules| alone.through(rules)),
        })
    }

    /// All files of a vault, whatever its rules.
    pub fn whole(vault: &Vault) -> Files {
        Files { vault: vault.alone() }
    }

    /// The vault in this view.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// What is at a path. Links are followed, except a last one.
    pub fn stat(&self, path: &str) -> ServiceResult<FileInfo> {
        let reader = self.vault.reader()?;
        let view = self.view(&reader)?;
        let path = view.resolve_entry(&tree_path(path)?)?;
        let found = reader.find(&path).map_err(|error| self.unreadable(error))?;
        Ok(FileInfo {
            version: self.version(&reader, &path, &found)?,
            ..info_of(&path, &found)
        })
    }

    /// Opens a file, through links.
    pub fn open(&self, path: &str) -> ServiceResult<FileRead> {
        let reader = self.vault.reader()?;
        let path = self.view(&reader)?.resolve(&tree_path(path)?)?;
        // It refuses what is no file.
        reader.file(&path).map_err(|error| self.unreadable(error))?;
        let found = reader.find(&path).map_err(|error| self.unreadable(error))?;
        let info = FileInfo {
            version: self.version(&reader, &path, &found)?,
            ..info_of(&path, &found)
        };
        Ok(FileRead {
            reader,
            path,
            files: self.clone(),
            info,
        })
    }

    /// What is below a directory, by name, down to a depth; those after `after`, at most so many.
    pub fn list(
        &self,
        path: &str,
        depth: usize,
        after: Option<&str>,
        most: usize,
    ) -> ServiceResult<Vec<FileInfo>> {
        let reader = self.vault.reader()?;
        let start = self.view(&reader)?.resolve(&tree_path(path)?)?;
        let selection = WalkSelection::everything();
        let walk = EntryWalk::new(&reader, &start, &selection);
        let mut walk = walk.map_err(|error| self.unreadable(error))?;
        let mut found = Vec::new();
        let mut is_later = after.is_none();
        while let Some(visit) = walk.next() {
            let visit = visit.map_err(|error| self.unreadable(error))?;
            if visit.depth >= depth {
                walk.prune();
            }
            if visit.depth == 0 && visit.found.entry.is_directory() {
                continue;
            }
            let info = info_of(&visit.path, &visit.found);
            if is_later {
                found.push(info);
            } else {
                is_later = after == Some(info.path.as_str());
            }
            if found.len() == most {
                break;
            }
        }
        Ok(found)
    }

    /// Writes a file, with the directories above it. Returns what it is then.
    pub fn write(&self, path: &str, upload: &Spool, options: &WriteOptions) -> ServiceResult<FileInfo> {
        let expect = options.expect.as_deref().map(Version::parse).transpose()?;
        self.edit("write", path, |open, view| {
            let target = view.resolve_new(&tree_path(path)?)?;
            make_above(open, view, &target)?;
            view.check_write(&target)?;
            let mut bytes = upload.again();
            open.write(&target, &mut bytes, WriteMode::Replace, expect.as_ref())?;
            if let Some(mode) = options.mode {
                open.set_mode(&target, mode & 0o7777)?;
            }
            if let Some(attributes) = &options.attributes {
                open.replace_xattrs(&target, attributes.prefix.as_bytes(), &attributes.named())?;
            }
            Ok(())
        })?;
        self.open(path).map(|read| read.info)
    }

    /// Makes a directory and those above it. Returns whether it is new.
    pub fn make_directory(&self, path: &str) -> ServiceResult<bool> {
        self.edit("mkdir", path, |open, view| {
            let target = view.resolve_new(&tree_path(path)?)?;
            let is_new = !open.exists(&target)?;
            if is_new {
                view.check_entry(&target)?;
            }
            // It tells what is wrong, if something is there that is no directory.
            open.make_directory(&target, true)?;
            Ok(is_new)
        })
    }

    /// Gives a file or directory another path, at which a file is replaced.
    pub fn rename(&self, from: &str, to: &str) -> ServiceResult<()> {
        self.edit("mv", &format!("{from} {to}"), |open, view| {
            let from = view.resolve_entry(&tree_path(from)?)?;
            let to = view.resolve_new(&tree_path(to)?)?;
            make_above(open, view, &to)?;
            view.check_entry(&from)?;
            view.check_entry(&to)?;
            open.rename(&from, &to)?;
            Ok(())
        })
    }

    /// Removes a file, or a directory with everything in it.
    pub fn remove(&self, path: &str, expect: Option<&str>) -> ServiceResult<()> {
        let expect = expect.map(Version::parse).transpose()?;
        self.edit("rm", path, |open, view| {
            let target = view.resolve_entry(&tree_path(path)?)?;
            view.check_entry(&target)?;
            if let Some(expect) = &expect {
                self.check_version(&target, expect)?;
            }
            open.remove(&target, true)?;
            Ok(())
        })
    }

    /// Changes files in one step, or not at all.
    fn edit<T>(
        &self,
        action: &str,
        detail: &str,
        mut edit: impl FnMut(&OpenVault, &UserView<'_>) -> ServiceResult<T>,
    ) -> ServiceResult<T> {
        let detail = avfs_core::printable(detail.as_bytes());
        let (value, _) = self.vault.change(action, &detail, |open| {
            // Read again in each attempt: somebody may have changed the vault since the one before.
            let reader = self.vault.reader()?;
            edit(open, &self.view(&reader)?)
        })?;
        Ok(value)
    }

    /// Only rules hold for the tenant; mode bits are for programs.
    pub(super) fn view<'a>(&'a self, reader: &'a TreeReader) -> ServiceResult<UserView<'a>> {
        Ok(UserView::new(&self.vault, reader, false)?)
    }

    fn version(
        &self,
        reader: &TreeReader,
        path: &TreePath,
        found: &FoundEntry,
    ) -> ServiceResult<Option<String>> {
        if !matches!(found.entry.kind, EntryKind::File { .. }) {
            return Ok(None);
        }
        let version = Version::of_file(reader, path).map_err(|error| self.unreadable(error))?;
        Ok(Some(version.to_string()))
    }

    /// A change that comes between this and the commit is noticed by the commit.
    fn check_version(&self, path: &TreePath, expect: &Version) -> ServiceResult<()> {
        let found = Version::of_file(&self.vault.reader()?, path).map_err(|error| self.unreadable(error))?;
        if found.matches(expect) {
            return Ok(());
        }
        let stale = FileError::StaleVersion {
            path: path.clone(),
            expected: expect.to_string(),
            found: found.to_string(),
        };
        Err(Error::from(stale).into())
    }

    pub(super) fn unreadable(&self, source: ReadError) -> ServiceError {
        let vault = self.vault.name().map(|name| name.to_string()).unwrap_or_default();
        Error::from(FileError::Read { vault, source }).into()
    }
}

fn make_above(open: &OpenVault, view: &UserView<'_>, target: &TreePath) -> ServiceResult<()> {
    if let Some((above, _)) = target.split_last()
        && !above.is_root()
        && !open.exists(&above)?
    {
        view.check_entry(&above)?;
        open.make_directory(&above, true)?;
    }
    Ok(())
}

/// A path from the root, as clients write it.
pub(crate) fn tree_path(text: &str) -> ServiceResult<TreePath> {
    let path = TreePath::parse(text.as_bytes()).map_err(|source| {
        Error::from(FileError::BadPath {
            text: avfs_core::printable(text.as_bytes()),
            source,
        })
    })?;
    Ok(path)
}

/// A path as clients get it, with its slash in front. Bytes that are no text are replaced.
pub(crate) fn shown(path: &TreePath) -> String {
    format!("/{}", String::from_utf8_lossy(path.as_bytes()))
}

fn info_of(path: &TreePath, found: &FoundEntry) -> FileInfo {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let meta = &found.entry.meta;
    let (kind, size, target) = match &found.entry.kind {
        EntryKind::File { size, .. } => (FileKind::File, *size, None),
        EntryKind::Directory { .. } => (FileKind::Directory, 0, None),
        EntryKind::Symlink { target } => (FileKind::Link, 0, Some(lossy(target))),
        EntryKind::Fifo
        | EntryKind::Socket
        | EntryKind::CharDevice { .. }
        | EntryKind::BlockDevice { .. } => (FileKind::Other, 0, None),
    };
    FileInfo {
        path: shown(path),
        kind,
        size,
        mode: meta.mode,
        modified: meta.mtime.seconds * 1000 + i64::from(meta.mtime.nanos / 1_000_000),
        target,
        attributes: texts_of(&meta.xattrs),
        version: None,
    }
}

fn texts_of(xattrs: &Xattrs) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    let texts = xattrs
        .iter()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)));
    texts.collect()
}
