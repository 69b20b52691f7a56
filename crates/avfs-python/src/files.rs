//! The files of a vault, as its user or its owner meets them.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;

use agentvfs::error::FileError;
use agentvfs::query::glob::GlobList;
use agentvfs::query::grep::{CaseMode, Grep, GrepError, GrepEvent, GrepOptions, LineKind};
use agentvfs::query::walk::{EntryWalk, WalkSelection};
use agentvfs::{
    EntryKind, Error, FoundEntry, OpenVault, ReadError, TreePath, TreeReader, UserView, Version, WriteMode,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::own;
use crate::forked::OwnProcess;
use crate::paths::{detail, shown, tree_path};
use crate::vault::Vault;
use crate::versions::seconds;

/// A file to write: its path, its bytes, and the version that it must have.
type NewFile = (OsString, Vec<u8>, Option<String>);

/// A line that matches: path, number, text.
type Match = (OsString, u64, String);

/// What is at a path.
#[pyclass(frozen, get_all, module = "agentvfs._native")]
pub struct FileInfo {
    path: OsString,
    kind: &'static str,
    size: u64,
    mode: u32,
    /// Seconds since 1970.
    modified: f64,
    target: Option<Vec<u8>>,
    version: Option<String>,
}

impl FileInfo {
    fn new(path: &TreePath, found: &FoundEntry, version: Option<Version>) -> FileInfo {
        let (kind, target) = match &found.entry.kind {
            EntryKind::File { .. } => ("file", None),
            EntryKind::Directory { .. } => ("dir", None),
            EntryKind::Symlink { target } => ("symlink", Some(target.to_vec())),
            EntryKind::Fifo
            | EntryKind::Socket
            | EntryKind::CharDevice { .. }
            | EntryKind::BlockDevice { .. } => ("other", None),
        };
        FileInfo {
            path: shown(path),
            kind,
            size: found.entry.size(),
            mode: found.entry.meta.mode,
            modified: seconds(found.entry.meta.mtime),
            target,
            version: version.map(|version| version.to_string()),
        }
    }
}

/// The files of a vault, as its user or its owner meets them.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct Files(OwnProcess<SeenFiles>);

struct SeenFiles {
    vault: agentvfs::Vault,
    as_user: bool,
}

impl SeenFiles {
    /// The error for a path that cannot be read.
    fn unreadable(&self, source: ReadError) -> Error {
        let vault = self.vault.name().map(|name| name.to_string()).unwrap_or_default();
        FileError::Read { vault, source }.into()
    }

    /// Looks at a path, through the links on its way.
    fn look<T>(
        &self,
        path: &OsStr,
        look: impl FnOnce(&TreeReader, &UserView<'_>, TreePath) -> agentvfs::Result<T>,
    ) -> agentvfs::Result<T> {
        let reader = self.vault.reader()?;
        let view = UserView::new(&self.vault, &reader, self.as_user)?;
        // Links are resolved in the same state that is then read, so nothing can change in between.
        let path = view.resolve(&tree_path(path)?)?;
        look(&reader, &view, path)
    }

    /// Changes files in one step, or not at all.
    fn edit<T>(
        &self,
        (action, detail): (&str, &str),
        mut edit: impl FnMut(&OpenVault, &UserView<'_>) -> agentvfs::Result<T>,
    ) -> agentvfs::Result<T> {
        let (value, _) = self.vault.change(action, detail, |open| {
            // Read again in each attempt: another process may have changed the vault since the one before.
            let reader = self.vault.reader()?;
            edit(open, &UserView::new(&self.vault, &reader, self.as_user)?)
        })?;
        Ok(value)
    }
}

#[pymethods]
impl Files {
    #[new]
    fn new(py: Python<'_>, vault: &Vault, as_user: bool) -> PyResult<Files> {
        Ok(Files(OwnProcess::new(SeenFiles {
            vault: vault.library(py)?.clone(),
            as_user,
        })))
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        path: OsString,
        offset: u64,
        length: Option<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.0.detached(py, |files| {
            files.look(&path, |reader, view, path| {
                view.check_read(&path)?;
                if offset == 0 && length.is_none() {
                    let read = reader.read(&path).map_err(|error| files.unreadable(error))?;
                    return Ok(read.to_vec());
                }
                let (size, _) = reader.file(&path).map_err(|error| files.unreadable(error))?;
                // Memory is taken for what the file has, and not for the length that was asked for.
                let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
                let mut bytes = vec![0; length.unwrap_or(left).min(left)];
                let count = reader
                    .read_at(&path, offset, &mut bytes)
                    .map_err(|error| files.unreadable(error))?;
                bytes.truncate(count);
                Ok(bytes)
            })
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// What is at a path; nothing, if nothing is there.
    fn stat(
        &self,
        py: Python<'_>,
        path: OsString,
        follow: bool,
        with_version: bool,
    ) -> PyResult<Option<FileInfo>> {
        self.0.detached(py, |files| {
            let reader = files.vault.reader()?;
            let view = UserView::new(&files.vault, &reader, files.as_user)?;
            let asked = tree_path(&path)?;
            let resolved = if follow {
                view.resolve(&asked)
            } else {
                view.resolve_entry(&asked)
            };
            let found = resolved.and_then(|path| {
                let found = reader.find(&path).map_err(|error| files.unreadable(error))?;
                Ok((path, found))
            });
            let (path, found) = match found {
                Ok(found) => found,
                Err(error) if is_missing(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            let is_file = matches!(found.entry.kind, EntryKind::File { .. });
            let version = (with_version && is_file)
                .then(|| Version::of_file(&reader, &path))
                .transpose()
                .map_err(|error| files.unreadable(error))?;
            Ok(Some(FileInfo::new(&asked, &found, version)))
        })
    }

    /// What is below a directory, by name, down to a depth. Rules and a list of globs leave entries out.
    fn list(
        &self,
        py: Python<'_>,
        path: OsString,
        depth: Option<usize>,
        globs: Vec<String>,
    ) -> PyResult<Vec<FileInfo>> {
        let has_globs = !globs.is_empty();
        let globs = GlobList::parse(&globs).map_err(|error| own(py, "invalid", error.to_string()))?;
        let selection = WalkSelection { globs, hidden: true };
        self.0.detached(py, |files| {
            files.look(&path, |reader, view, start| {
                view.check_read(&start)?;
                let walk =
                    EntryWalk::new(reader, &start, &selection).map_err(|error| files.unreadable(error))?;
                files.walked(walk, depth, has_globs)
            })
        })
    }

    /// The lines of files that match a regular expression, or a plain text.
    #[allow(clippy::too_many_arguments, reason = "the Python part names each of them")]
    fn grep(
        &self,
        py: Python<'_>,
        pattern: String,
        path: OsString,
        globs: Vec<String>,
        fixed: bool,
        ignore_case: bool,
        limit: Option<usize>,
    ) -> PyResult<Vec<Match>> {
        let globs = GlobList::parse(&globs).map_err(|error| own(py, "invalid", error.to_string()))?;
        let options = GrepOptions {
            patterns: vec![pattern],
            fixed,
            case: if ignore_case {
                CaseMode::Insensitive
            } else {
                CaseMode::Sensitive
            },
            selection: WalkSelection { globs, hidden: true },
            ..GrepOptions::default()
        };
        let grep = Grep::new(options).map_err(|error| own(py, "invalid", error.to_string()))?;
        self.0.detached(py, |files| {
            files.look(&path, |reader, view, start| {
                view.check_read(&start)?;
                let mut matches = Vec::new();
                let searched = grep.run(reader, &[start], &mut |event| match event {
                    // Checked before each event: the search stops at the event after the last one that is
                    // wanted.
                    _ if limit.is_some_and(|limit| matches.len() >= limit) => ControlFlow::Break(()),
                    GrepEvent::Line(line) if line.kind == LineKind::Match => {
                        let text = String::from_utf8_lossy(&line.bytes).into_owned();
                        matches.push((shown(&line.path), line.number, text));
                        ControlFlow::Continue(())
                    }
                    _ => ControlFlow::Continue(()),
                });
                match searched {
                    Ok(_) => Ok(matches),
                    Err(GrepError::Read(error)) => Err(files.unreadable(error)),
                    // The pattern was read before.
                    Err(GrepError::NoPattern | GrepError::BadPattern { .. }) => Ok(Vec::new()),
                }
            })
        })
    }

    /// Writes files in one step, with the directories above them, or none of them. Returns their versions.
    fn write(&self, py: Python<'_>, new: Vec<NewFile>, append: bool) -> PyResult<Vec<String>> {
        let first = new.first().map(|(path, _, _)| detail(path)).unwrap_or_default();
        let mode = if append {
            WriteMode::Append
        } else {
            WriteMode::Replace
        };
        self.0.detached(py, |files| {
            files.edit(("write", &first), |open, view| {
                let mut versions = Vec::new();
                for (path, bytes, expect) in &new {
                    let path = place(open, view, path)?;
                    view.check_write(&path)?;
                    let expect = expect.as_deref().map(Version::parse).transpose()?;
                    open.write(&path, &mut &bytes[..], mode, expect.as_ref())?;
                    let whole = if append {
                        open.read(&path)?.to_vec()
                    } else {
                        Vec::new()
                    };
                    let written = if append { &whole } else { bytes };
                    versions.push(Version::of_bytes(written).to_string());
                }
                Ok(versions)
            })
        })
    }

    /// Makes a directory and those above it. Returns whether it is new.
    fn make_dir(&self, py: Python<'_>, path: OsString) -> PyResult<bool> {
        self.0.detached(py, |files| {
            files.edit(("mkdir", &detail(&path)), |open, view| {
                let path = place(open, view, &path)?;
                if open.exists(&path)? {
                    // It answers what is wrong, if it is no directory.
                    open.make_directory(&path, true)?;
                    return Ok(false);
                }
                view.check_entry(&path)?;
                open.make_directory(&path, true)?;
                Ok(true)
            })
        })
    }

    /// Gives a file or directory another path, at which a file is replaced.
    fn rename(&self, py: Python<'_>, from: OsString, to: OsString) -> PyResult<()> {
        self.0.detached(py, |files| {
            files.edit(
                ("mv", &format!("{} {}", detail(&from), detail(&to))),
                |open, view| {
                    let from = view.resolve_entry(&tree_path(&from)?)?;
                    let to = place(open, view, &to)?;
                    view.check_entry(&from)?;
                    view.check_entry(&to)?;
                    open.rename(&from, &to).map(drop)
                },
            )
        })
    }

    fn copy(&self, py: Python<'_>, from: OsString, to: OsString) -> PyResult<()> {
        self.0.detached(py, |files| {
            files.edit(
                ("cp", &format!("{} {}", detail(&from), detail(&to))),
                |open, view| {
                    let from = view.resolve(&tree_path(&from)?)?;
                    let to = place(open, view, &to)?;
                    view.check_read(&from)?;
                    view.check_write(&to)?;
                    open.copy(&from, &to, true).map(drop)
                },
            )
        })
    }

    /// Removes a file, or a directory with everything in it.
    fn remove(&self, py: Python<'_>, path: OsString) -> PyResult<()> {
        self.0.detached(py, |files| {
            files.edit(("rm", &detail(&path)), |open, view| {
                let path = view.resolve_entry(&tree_path(&path)?)?;
                view.check_entry(&path)?;
                open.remove(&path, true)
            })
        })
    }

    fn set_mode(&self, py: Python<'_>, path: OsString, mode: u32) -> PyResult<()> {
        self.0.detached(py, |files| {
            files.edit(("chmod", &detail(&path)), |open, view| {
                open.set_mode(&view.resolve(&tree_path(&path)?)?, mode)
            })
        })
    }
}

impl SeenFiles {
    fn walked(
        &self,
        mut walk: EntryWalk<'_>,
        depth: Option<usize>,
        files_only: bool,
    ) -> agentvfs::Result<Vec<FileInfo>> {
        let mut found = Vec::new();
        while let Some(visit) = walk.next() {
            let visit = visit.map_err(|error| self.unreadable(error))?;
            if depth.is_some_and(|depth| visit.depth >= depth) {
                walk.prune();
            }
            let is_start = visit.depth == 0 && visit.found.entry.is_directory();
            let is_skipped = is_start || (files_only && visit.found.entry.is_directory());
            if !is_skipped {
                found.push(FileInfo::new(&visit.path, &visit.found, None));
            }
        }
        Ok(found)
    }
}

/// What is to be at a path, after the directories above it were made that are missing.
fn place(open: &OpenVault, view: &UserView<'_>, path: &OsStr) -> agentvfs::Result<TreePath> {
    let target = view.resolve_new(&tree_path(path)?)?;
    if let Some((above, _)) = target.split_last()
        && !above.is_root()
        && !open.exists(&above)?
    {
        view.check_entry(&above)?;
        open.make_directory(&above, true)?;
    }
    Ok(target)
}

fn is_missing(error: &Error) -> bool {
    use agentvfs::ErrorCode;
    matches!(error.code(), ErrorCode::NotFound | ErrorCode::NotADirectory)
}
