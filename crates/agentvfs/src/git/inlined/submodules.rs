//! The submodules of a project whose git directory was put into it. A submodule has two parts that refer to
//! each other by their paths on the host: its files, and its git directory below `modules`. Both get the
//! paths in the task.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use avfs_core::{EntryName, TreePath};
use avfs_tree::{Attr, FsError, Ino, InodeKind, SetAttr, WorkTree};

use super::super::settings::files_of;
use super::{entries, found, keeping_time, name, say_project};

pub(super) struct Submodules<'a> {
    pub(super) tree: &'a WorkTree,
    /// The directory of the host that the tree is made from.
    pub(super) project: &'a Path,
}

/// A directory in the tree, and the one of the host that it was.
struct InlinedDirectory {
    ino: Ino,
    path: TreePath,
    host: PathBuf,
}

impl Submodules<'_> {
    /// Ties the submodules that have their git directories below one that was at `host`.
    pub(super) fn tie(&self, git: Ino, host: &Path) -> Result<(), FsError> {
        let path = TreePath::root().join(&name(b".git"));
        self.of(&InlinedDirectory {
            ino: git,
            path,
            host: host.to_owned(),
        })
    }

    /// The submodules of a repository.
    fn of(&self, repository: &InlinedDirectory) -> Result<(), FsError> {
        let modules = found(self.tree, repository.ino, &name(b"modules"))?;
        match modules.filter(|modules| modules.kind == InodeKind::Directory) {
            Some(modules) => self.below(&repository.child(&name(b"modules"), &modules)),
            None => Ok(()),
        }
    }

    /// The names of submodules may have several parts.
    fn below(&self, directory: &InlinedDirectory) -> Result<(), FsError> {
        for (part, attr) in entries(self.tree, directory.ino)? {
            if attr.kind != InodeKind::Directory {
                continue;
            }
            let place = directory.child(&part, &attr);
            match found(self.tree, place.ino, &name(b"HEAD"))? {
                Some(_) => {
                    self.tie_one(&place)?;
                    self.of(&place)?;
                }
                None => self.below(&place)?,
            }
        }
        Ok(())
    }

    fn tie_one(&self, git: &InlinedDirectory) -> Result<(), FsError> {
        let config = found(self.tree, git.ino, &name(b"config"))?.filter(|file| file.kind == InodeKind::File);
        let Some(config) = config else { return Ok(()) };
        let text = self.tree.read_all(config.ino)?;
        let Some(files) = files_of(&text).and_then(|way| self.in_project(&git.host.join(way))) else {
            return Ok(());
        };
        let Some(pointer) = self.file_at(&files.join(&name(b".git")))? else {
            return Ok(());
        };
        say_project(self.tree, git.ino, &way(&git.path, &files))?;
        let text = [b"gitdir: ", &way(&files, &git.path)[..], b"\n"].concat();
        keeping_time(self.tree, pointer.ino, || {
            self.tree.set_attr(
                pointer.ino,
                SetAttr {
                    size: Some(0),
                    ..SetAttr::default()
                },
            )?;
            self.tree.write(pointer.ino, 0, &text)
        })
    }

    /// Where a directory of the host is in the tree.
    fn in_project(&self, host: &Path) -> Option<TreePath> {
        let mut plain = PathBuf::new();
        for part in host.components() {
            match part {
                Component::ParentDir => drop(plain.pop()),
                Component::CurDir => {}
                Component::RootDir | Component::Normal(_) | Component::Prefix(_) => plain.push(part),
            }
        }
        TreePath::parse(plain.strip_prefix(self.project).ok()?.as_os_str().as_bytes()).ok()
    }

    fn file_at(&self, path: &TreePath) -> Result<Option<Attr>, FsError> {
        match self.tree.resolve(path) {
            Ok(attr) => Ok(Some(attr).filter(|attr| attr.kind == InodeKind::File)),
            Err(FsError::NotFound | FsError::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl InlinedDirectory {
    fn child(&self, name: &EntryName, attr: &Attr) -> InlinedDirectory {
        let host = self.host.join(OsStr::from_bytes(name.as_bytes()));
        InlinedDirectory {
            ino: attr.ino,
            path: self.path.join(name),
            host,
        }
    }
}

/// The way from one directory of the tree to another.
fn way(from: &TreePath, to: &TreePath) -> Vec<u8> {
    let up = b"../".repeat(from.components().count());
    [&up[..], to.as_bytes()].concat()
}
