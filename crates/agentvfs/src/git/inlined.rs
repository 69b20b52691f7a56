//! The git directory of a worktree or a submodule, which lies outside of its project, as the `.git` of a task.
//!
//! There it is an ordinary repository: the shared part of all working directories, with the HEAD, the index
//! and the unfinished work of this one. git finds it wherever the task is mounted, and nothing in it leads to
//! the user's own ([0020](../../../../docs/decisions/0020-git-directories-outside-of-projects.md)).

mod submodules;

use std::path::Path;

use avfs_core::{Entry, EntryName, TreePath};
use avfs_tree::{Attr, FsError, Ino, InodeKind, SetAttr, StoredTree, WorkTree};

use super::place::RepositoryPlace;
use super::settings::saying_files_are_at;
use submodules::Submodules;

/// The part that working directories share. Everything else in a common directory belongs to one of them.
const SHARED: [&[u8]; 17] = [
    b"branches",
    b"common",
    b"config",
    b"description",
    b"hooks",
    b"info",
    b"lfs",
    b"logs",
    b"lost-found",
    b"objects",
    b"packed-refs",
    b"refs",
    b"remotes",
    b"rr-cache",
    b"shallow",
    b"svn",
    b"worktrees",
];

/// Files that tie a working directory to its path, and mean nothing elsewhere.
const TIES: [&[u8]; 3] = [b"commondir", b"gitdir", b"locked"];

/// The files with settings.
const SETTINGS: [&[u8]; 2] = [b"config", b"config.worktree"];

const WORKTREES: &[u8] = b"worktrees";

/// Puts a repository into the tree of its project, in place of the link to it. `common` is its common
/// directory, which need not have been read yet.
pub(crate) fn inline(
    tree: &WorkTree,
    project: &Path,
    place: &RepositoryPlace,
    common: Entry,
) -> Result<(), FsError> {
    keeping_time(tree, Ino::ROOT, || {
        let git = name(b".git");
        tree.unlink(Ino::ROOT, &git)?;
        let git = tree
            .graft(
                Ino::ROOT,
                &git,
                StoredTree {
                    entry: common,
                    links: Vec::new(),
                },
            )?
            .ino;
        keeping_time(tree, git, || {
            if let Some(own) = place.own_below_common() {
                become_main(tree, git, &own)?;
            }
            say_project(tree, git, b"..")?;
            Submodules { tree, project }.tie(git, &place.own)
        })
    })
}

/// Where a file of a git directory that lies outside of its project can be in a task.
pub(crate) fn places_inlined(path: &TreePath) -> impl Iterator<Item = TreePath> {
    let git = TreePath::root().join(&name(b".git"));
    let names: Vec<EntryName> = path.components().collect();
    let of_one = match &names[..] {
        [first, _, rest @ ..] if first.as_bytes() == WORKTREES && !rest.is_empty() => {
            Some(rest.iter().fold(git.clone(), |above, name| above.join(name)))
        }
        _ => None,
    };
    [git.join_path(path)].into_iter().chain(of_one)
}

/// Merges the files of one working directory into a common directory, as if there were only that one.
fn become_main(tree: &WorkTree, git: Ino, own: &TreePath) -> Result<(), FsError> {
    for (name, _) in entries(tree, git)? {
        if !SHARED.contains(&name.as_bytes()) {
            tree.remove_tree(git, &name)?;
        }
    }
    let mut from = tree.attr(git)?;
    for name in own.components() {
        from = tree.lookup(from.ino, &name)?;
    }
    lay_over(tree, from.ino, git, &TIES)?;
    // A branch is checked out in one place only: here.
    let above = tree.parent(from.ino)?;
    keeping_time(tree, above, || {
        own.name().map_or(Ok(()), |name| tree.remove_tree(above, &name))
    })
}

/// Copies the contents of a directory into another one, replacing entries with the same name.
fn lay_over(tree: &WorkTree, from: Ino, onto: Ino, but: &[&[u8]]) -> Result<(), FsError> {
    let mut both = Vec::new();
    lay_entries_over(tree, from, onto, but, &mut both)?;
    while let Some((from, onto)) = both.pop() {
        keeping_time(tree, onto, || lay_entries_over(tree, from, onto, &[], &mut both))?;
    }
    Ok(())
}

/// Adds the directories that are on both sides to `both`: their contents must still be copied.
fn lay_entries_over(
    tree: &WorkTree,
    from: Ino,
    onto: Ino,
    but: &[&[u8]],
    both: &mut Vec<(Ino, Ino)>,
) -> Result<(), FsError> {
    for (name, attr) in entries(tree, from)? {
        if but.contains(&name.as_bytes()) {
            continue;
        }
        match found(tree, onto, &name)? {
            Some(there) if there.kind == InodeKind::Directory && attr.kind == InodeKind::Directory => {
                both.push((attr.ino, there.ino));
                continue;
            }
            Some(_) => tree.remove_tree(onto, &name)?,
            None => {}
        }
        tree.copy(attr.ino, onto, &name)?;
    }
    Ok(())
}

/// Makes the settings of a repository name the path of its files, whatever they said before: the last value
/// counts.
fn say_project(tree: &WorkTree, git: Ino, way: &[u8]) -> Result<(), FsError> {
    add_settings(tree, git, &saying_files_are_at(way))
}

/// Appends to the settings of a repository; the last value counts.
pub(super) fn add_settings(tree: &WorkTree, git: Ino, text: &[u8]) -> Result<(), FsError> {
    for file in SETTINGS {
        let file = found(tree, git, &name(file))?.filter(|file| file.kind == InodeKind::File);
        if let Some(file) = file {
            keeping_time(tree, file.ino, || tree.append(file.ino, text).map(drop))?;
        }
    }
    Ok(())
}

/// A project that did not change is the same each time that a task is made of it.
pub(super) fn keeping_time(
    tree: &WorkTree,
    ino: Ino,
    change: impl FnOnce() -> Result<(), FsError>,
) -> Result<(), FsError> {
    let mtime = Some(tree.attr(ino)?.meta.mtime);
    change()?;
    tree.set_attr(
        ino,
        SetAttr {
            mtime,
            ..SetAttr::default()
        },
    )
    .map(drop)
}

fn entries(tree: &WorkTree, directory: Ino) -> Result<Vec<(EntryName, Attr)>, FsError> {
    tree.read_directory(directory, None, usize::MAX)
}

pub(super) fn found(tree: &WorkTree, directory: Ino, name: &EntryName) -> Result<Option<Attr>, FsError> {
    match tree.lookup(directory, name) {
        Ok(attr) => Ok(Some(attr)),
        Err(FsError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn name(bytes: &[u8]) -> EntryName {
    EntryName::new(bytes).expect("names of git are good names")
}
