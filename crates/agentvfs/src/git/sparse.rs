//! git in a task in which some tracked files are hidden: it leaves them out, by its own sparse checkout.
//!
//! The files are in no diff, no `add -A` and no reset, and every commit has them unchanged. The patterns are
//! those of the rules, so that another branch can be checked out as well, followed by the paths that are
//! tracked now.

use std::fs;
use std::path::{Path, PathBuf};

use avfs_core::rules::{Level, Rules};
use avfs_core::{EntryName, TreePath};
use avfs_tree::{FsError, Ino, NewEntry, SetAttr, WorkTree};

use super::host::HostRepository;
use super::inlined::{add_settings, found, keeping_time, name};
use super::place::RepositoryPlace;
use super::program::GIVING;
use super::tracked::{AffectedRepository, SortedFiles};
use crate::error::GitError;

/// With more paths than this, only the patterns of the rules are used.
const EXACT_MAX: usize = 1000;

const SETTINGS: &[u8] = b"\n[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = false\n";

/// Files for a repository of a new task.
pub(crate) struct Preparation {
    /// Its git directory in the tree.
    place: TreePath,
    index: Vec<u8>,
    patterns: Vec<u8>,
}

impl SortedFiles {
    /// The files for the repositories of a new task. Starts no program if no tracked file is hidden.
    pub(crate) fn preparations(&self, project: &Path, rules: &Rules) -> Result<Vec<Preparation>, GitError> {
        let affected = self
            .repositories
            .iter()
            .filter(|repository| !repository.hidden.is_empty());
        let made = affected.map(|repository| Preparation::of(repository, project, rules));
        made.filter_map(Result::transpose).collect()
    }
}

impl Preparation {
    /// `None` if the repository is not in the tree.
    fn of(
        repository: &AffectedRepository,
        project: &Path,
        rules: &Rules,
    ) -> Result<Option<Preparation>, GitError> {
        use std::os::unix::ffi::OsStrExt;
        let Some(place) = place_in_task(project, &repository.own) else {
            return Ok(None);
        };
        let files = project.join(std::ffi::OsStr::from_bytes(repository.files.as_bytes()));
        let host = HostRepository::open(&files)?;
        let index = index_without(&host, repository)?;
        let patterns = patterns(&own_patterns(&host)?, repository, rules);
        Ok(Some(Preparation {
            place,
            index,
            patterns,
        }))
    }

    pub(crate) fn carry_out(&self, tree: &WorkTree) -> Result<(), FsError> {
        let git = tree.resolve(&self.place)?.ino;
        add_settings(tree, git, SETTINGS)?;
        if let Some(index) = found(tree, git, &name(b"index"))? {
            // git compares the time of the index to find files that may have changed since.
            keeping_time(tree, index.ino, || write(tree, index.ino, &self.index))?;
        }
        let info = directory(tree, git, &name(b"info"))?;
        keeping_time(tree, info, || {
            let file = name(b"sparse-checkout");
            let there = found(tree, info, &file)?;
            let ino = there.map_or_else(
                || made(tree, info, &file, NewEntry::file(0o644)),
                |there| Ok(there.ino),
            )?;
            write(tree, ino, &self.patterns)?;
            // The same each time that a task is made.
            let mtime = Some(tree.attr(git)?.meta.mtime);
            tree.set_attr(
                ino,
                SetAttr {
                    mtime,
                    ..SetAttr::default()
                },
            )
            .map(drop)
        })
    }
}

fn directory(tree: &WorkTree, above: Ino, name: &EntryName) -> Result<Ino, FsError> {
    if let Some(there) = found(tree, above, name)? {
        return Ok(there.ino);
    }
    let mut ino = above;
    keeping_time(tree, above, || {
        ino = made(tree, above, name, NewEntry::directory(0o755))?;
        let mtime = Some(tree.attr(above)?.meta.mtime);
        tree.set_attr(
            ino,
            SetAttr {
                mtime,
                ..SetAttr::default()
            },
        )
        .map(drop)
    })?;
    Ok(ino)
}

/// Creates an entry with the owner of its directory.
fn made(tree: &WorkTree, above: Ino, name: &EntryName, new: NewEntry) -> Result<Ino, FsError> {
    let owner = tree.attr(above)?.meta;
    Ok(tree.create(above, name, new.owned_by(owner.uid, owner.gid))?.ino)
}

fn write(tree: &WorkTree, ino: Ino, bytes: &[u8]) -> Result<(), FsError> {
    tree.set_attr(
        ino,
        SetAttr {
            size: Some(0),
            ..SetAttr::default()
        },
    )?;
    tree.write(ino, 0, bytes)
}

/// Where a git directory of the host is in a task of the project.
fn place_in_task(project: &Path, own: &Path) -> Option<TreePath> {
    use std::os::unix::ffi::OsStrExt;
    let parse = |path: &Path| TreePath::parse(path.as_os_str().as_bytes()).ok();
    if let Ok(below) = own.strip_prefix(project) {
        return parse(below);
    }
    let outside = RepositoryPlace::outside(project)?;
    let below = own
        .strip_prefix(&outside.own)
        .or_else(|_| own.strip_prefix(outside.common()))
        .ok()?;
    Some(TreePath::root().join(&name(b".git")).join_path(&parse(below)?))
}

/// The index in which the hidden files are marked as left out. It is made in a copy, by git itself.
fn index_without(host: &HostRepository, repository: &AffectedRepository) -> Result<Vec<u8>, GitError> {
    const MARKING: &str = "marking files in the index";
    let place = tempfile::Builder::new()
        .prefix("avfs-git-")
        .tempdir()
        .map_err(GitError::host(MARKING))?;
    let copy: PathBuf = place.path().join("index");
    fs::copy(host.place().join("index"), &copy).map_err(GitError::host(MARKING))?;
    let git = host
        .git(MARKING)
        .on_index(&copy)
        .args(["update-index", "--skip-worktree", "-z", "--stdin"]);
    git.output_of(|input| {
        for hidden in &repository.hidden {
            let path = below(&hidden.path, &repository.files);
            input
                .write_all(&[path, b"\0"].concat())
                .map_err(GitError::host(GIVING))?;
        }
        Ok(())
    })?;
    fs::read(copy).map_err(GitError::host(MARKING))
}

/// The patterns of the user's own sparse checkout; without one, everything.
fn own_patterns(host: &HostRepository) -> Result<Vec<u8>, GitError> {
    const ASKING: &str = "asking for its sparse checkout";
    let is_sparse = host
        .git(ASKING)
        .args(["config", "--type=bool", "--get", "core.sparseCheckout"])
        .line_if_any()?;
    let own = fs::read(host.place().join("info/sparse-checkout"));
    Ok(own
        .ok()
        .filter(|_| is_sparse.as_deref() == Some("true"))
        .unwrap_or_else(|| b"/*\n".to_vec()))
}

fn patterns(own: &[u8], repository: &AffectedRepository, rules: &Rules) -> Vec<u8> {
    let mut text = own.to_vec();
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    let mut add = |sign: &str, pattern: &[u8]| {
        // No line can hold a line end.
        if !pattern.contains(&b'\n') {
            text.extend([sign.as_bytes(), pattern, b"\n"].concat());
        }
    };
    for (rule, patterns) in rules.hiding_order() {
        let sign = if rule.level == Level::None { "!" } else { "" };
        let patterns = patterns
            .into_iter()
            .filter_map(|pattern| of_rule(pattern, &repository.files));
        patterns.for_each(|pattern| add(sign, pattern.as_bytes()));
    }
    if repository.hidden.len() <= EXACT_MAX {
        let hidden = repository.hidden.iter().map(|hidden| ("!", &hidden.path));
        for (sign, path) in repository.opened.iter().map(|path| ("", path)).chain(hidden) {
            add(sign, &exactly(below(path, &repository.files)));
        }
    }
    text
}

/// The pattern of a rule in git's syntax, for a repository whose files are at a path of the project. git has
/// no notation for "itself, and not what is below".
fn of_rule(pattern: &str, files: &TreePath) -> Option<String> {
    let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
    let pattern = pattern
        .strip_suffix("/**")
        .or(pattern.strip_suffix('/'))
        .unwrap_or(pattern);
    if matches!(pattern, "" | "**") || pattern.starts_with("**/") {
        return pattern.strip_prefix("**/").map(|_| pattern.to_owned());
    }
    let below = match std::str::from_utf8(files.as_bytes()).ok()? {
        "" => pattern,
        files => pattern.strip_prefix(files)?.strip_prefix('/')?,
    };
    Some(format!("/{below}"))
}

/// The pattern of one path.
fn exactly(path: &[u8]) -> Vec<u8> {
    let mut pattern = vec![b'/'];
    for byte in path {
        if matches!(byte, b'*' | b'?' | b'[' | b'\\' | b' ') {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern
}

/// A path of the project as its repository has it.
fn below<'a>(path: &'a TreePath, files: &TreePath) -> &'a [u8] {
    let rest = path
        .as_bytes()
        .strip_prefix(files.as_bytes())
        .unwrap_or(path.as_bytes());
    rest.strip_prefix(b"/").unwrap_or(rest)
}
