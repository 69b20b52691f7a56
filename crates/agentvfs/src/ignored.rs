//! Which changed files of a task are not work: those that git ignores there, and those that build tools
//! create.
//!
//! [`Ignored`] is the one place where this is decided; every command that shows or applies the changes of a
//! task uses it ([0022](../../../docs/decisions/0022-ignored-files-are-not-work.md)). A path is ignored by
//! the current `.gitignore` files of the task, the repository's `info/exclude` and the user's own list. Files
//! that the repository tracks, when the task began or now, are never ignored: a pattern cannot hide a tracked
//! file. Without a repository, names of well-known build directories count too.
//!
//! No program is started, and the cost depends on the queries: the lists of the parent directories, and the
//! index once something matches.

mod index;
mod patterns;
mod repository;
mod summary;
mod user;
mod well_known;
mod wildcard;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use avfs_core::diff::TreeChange;
use avfs_core::{Entry, EntryKind, EntryName, TreePath};
use avfs_tree::{ReadError, TreeReader};

pub use self::summary::{IgnoredPlace, IgnoredSummary};

use self::patterns::Patterns;
use self::repository::{Repository, read_small};
use avfs_query::patch::FileChange;

/// Decides for one task which paths are ignored, and caches what it has read.
pub struct Ignored {
    states: States,
    directories: HashMap<TreePath, IgnoredDirectory>,
    /// The user's own list, if there is one.
    users: Vec<u8>,
}

/// The task when it began, and now.
#[derive(Clone)]
struct States {
    base: TreeReader,
    head: TreeReader,
}

/// The cached information about a directory.
#[derive(Clone)]
struct IgnoredDirectory {
    /// The highest directory on the way here that is ignored.
    ignored: Option<TreePath>,
    /// The lists that hold here, the strongest last.
    lists: Arc<Vec<Arc<Patterns>>>,
    repository: Option<Arc<Repository>>,
}

const IGNORE_FILE: &str = ".gitignore";

impl Ignored {
    /// For the differences between two states of a tree, which are read without rules.
    pub fn new(base: TreeReader, head: TreeReader) -> Ignored {
        let users = user::excludes(&|name| std::env::var_os(name));
        let states = States {
            base: base.unrestricted(),
            head: head.unrestricted(),
        };
        Ignored {
            states,
            directories: HashMap::new(),
            users,
        }
    }

    /// The highest entry on the way to a path that is ignored, if the path is: itself, or a directory above it.
    pub fn place_of(&mut self, path: &TreePath, is_directory: bool) -> Result<Option<TreePath>, ReadError> {
        // git's lists do not apply deeper than paths reach, and caching each directory on the way would take
        // the square of the depth.
        let folded = path.folded();
        let is_directory = is_directory || folded != *path;
        let path = &folded;
        let Some((parent, name)) = path.split_last() else {
            return Ok(None);
        };
        let parent = self.directory(&parent)?;
        let place = match &parent.ignored {
            Some(place) => Some(place.clone()),
            None => parent
                .ignores(&self.states, path, &name, is_directory)?
                .then(|| path.clone()),
        };
        match (place, &parent.repository) {
            (Some(_), Some(repository)) if repository.tracks(&self.states, path, is_directory)? => Ok(None),
            (place, _) => Ok(place),
        }
    }

    /// As [`Ignored::place_of`], but a path counts as wanted if it is at or below one of the ignored paths
    /// that a user has named.
    pub fn left_out(
        &mut self,
        path: &TreePath,
        is_directory: bool,
        named: &HashSet<TreePath>,
    ) -> Result<Option<TreePath>, ReadError> {
        let Some(place) = self.place_of(path, is_directory)? else {
            return Ok(None);
        };
        if named.is_empty() {
            return Ok(Some(place));
        }
        let mut at = Some(path.clone()).filter(|path| path.starts_with(&place));
        while let Some(path) = at {
            if named.contains(&path) {
                return Ok(None);
            }
            at = path
                .split_last()
                .map(|(parent, _)| parent)
                .filter(|parent| parent.starts_with(&place));
        }
        Ok(Some(place))
    }

    /// Tells the changes that are work from those of ignored files. Directories that came or went with nothing but ignored
    /// files in them are neither.
    pub(crate) fn sort_out(
        &mut self,
        changes: Vec<TreeChange>,
        named: &HashSet<TreePath>,
    ) -> Result<(Vec<TreeChange>, Vec<TreeChange>), ReadError> {
        let (mut work, mut left_out) = (Vec::new(), Vec::new());
        // Directories that are empty themselves, or above something that is work.
        let mut in_use: HashSet<TreePath> = HashSet::new();
        for change in changes {
            let is_directory = is_directory(&change);
            match self.left_out(&change.path, is_directory, named)? {
                Some(_) if is_directory => {}
                Some(_) => left_out.push(change),
                None => {
                    if !is_directory || is_empty_directory(&change) {
                        add_with_above(&change.path, &mut in_use);
                    }
                    work.push(change);
                }
            }
        }
        if !left_out.is_empty() {
            let came_or_went = |change: &TreeChange| change.before.is_none() || change.after.is_none();
            work.retain(|change| {
                !is_directory(change) || !came_or_went(change) || in_use.contains(&change.path)
            });
        }
        Ok((work, left_out))
    }

    /// The number of ignored files, and their directories. The only count, used by every command.
    pub(crate) fn count(&mut self, files: &[FileChange]) -> Result<IgnoredSummary, ReadError> {
        let mut places = IgnoredSummary::default();
        let is_directory = |file: &&FileChange| {
            let side = file.new.as_ref().or(file.old.as_ref());
            side.is_some_and(|side| side.entry.is_directory())
        };
        for file in files.iter().filter(|file| !is_directory(file)) {
            if let Some(place) = self.place_of(file.path(), false)? {
                let is_below = place != *file.path();
                places.add(place, is_below);
            }
        }
        Ok(places)
    }

    /// Whether a path is ignored.
    pub fn is_ignored(&mut self, path: &TreePath, is_directory: bool) -> Result<bool, ReadError> {
        Ok(self.place_of(path, is_directory)?.is_some())
    }

    /// The patterns for a directory: computed from the nearest known parent.
    fn directory(&mut self, path: &TreePath) -> Result<IgnoredDirectory, ReadError> {
        let mut missing = Vec::new();
        let mut at = path.clone();
        let mut known = loop {
            if let Some(known) = self.directories.get(&at) {
                break known.clone();
            }
            match at.split_last() {
                Some((parent, name)) => {
                    missing.push(name);
                    at = parent;
                }
                None => {
                    let root = self.root()?;
                    self.directories.insert(TreePath::root(), root.clone());
                    break root;
                }
            }
        };
        while let Some(name) = missing.pop() {
            let path = at.join(&name);
            known = self.child(&known, &path, &name)?;
            self.directories.insert(path.clone(), known.clone());
            at = path;
        }
        Ok(known)
    }

    fn root(&self) -> Result<IgnoredDirectory, ReadError> {
        let top = TreePath::root();
        let lists = Arc::new(vec![Arc::new(Patterns::parse(b"", &self.users))]);
        self.entered(
            IgnoredDirectory {
                ignored: None,
                lists,
                repository: None,
            },
            &top,
        )
    }

    fn child(
        &self,
        above: &IgnoredDirectory,
        path: &TreePath,
        name: &EntryName,
    ) -> Result<IgnoredDirectory, ReadError> {
        if above.ignored.is_some() {
            return Ok(above.clone());
        }
        let is_tracked = |repository: &Arc<Repository>| repository.tracks(&self.states, path, true);
        let is_ignored = above.ignores(&self.states, path, name, true)?;
        let is_submodule = |above: &IgnoredDirectory| above.repository.as_ref().map_or(Ok(false), is_tracked);
        if is_ignored && !(self.states.has_repository(path)? && is_submodule(above)?) {
            return Ok(IgnoredDirectory {
                ignored: Some(path.clone()),
                ..above.clone()
            });
        }
        self.entered(above.clone(), path)
    }

    /// A directory that is not ignored, with its own list and its own repository.
    fn entered(
        &self,
        mut directory: IgnoredDirectory,
        path: &TreePath,
    ) -> Result<IgnoredDirectory, ReadError> {
        if self.states.has_repository(path)? {
            let repository = Repository::at(&self.states, path)?;
            let mut lists = vec![Arc::new(Patterns::parse(path.as_bytes(), &self.users))];
            let excludes = repository.excludes(&self.states)?;
            lists.extend(excludes.map(|text| Arc::new(Patterns::parse(path.as_bytes(), &text))));
            directory.lists = Arc::new(lists);
            directory.repository = Some(Arc::new(repository));
        }
        if let Some(text) = read_small(&self.states.head, &path.join(&name_of(IGNORE_FILE)))? {
            Arc::make_mut(&mut directory.lists).push(Arc::new(Patterns::parse(path.as_bytes(), &text)));
        }
        Ok(directory)
    }
}

impl IgnoredDirectory {
    /// Whether an entry of this directory is ignored, tracked or not.
    fn ignores(
        &self,
        states: &States,
        path: &TreePath,
        name: &EntryName,
        is_directory: bool,
    ) -> Result<bool, ReadError> {
        let said = self
            .lists
            .iter()
            .rev()
            .find_map(|list| list.decide(path.as_bytes(), is_directory));
        if let Some(is_ignored) = said {
            return Ok(is_ignored);
        }
        let name = name.as_bytes();
        match is_directory {
            _ if well_known::is_bytecode(name, is_directory) => Ok(true),
            _ if self.repository.is_some() => Ok(false),
            false => Ok(well_known::is_build_file(name)),
            true => {
                let parent = path.split_last().map(|(parent, _)| parent).unwrap_or_default();
                let beside = |name: &str| states.has(&parent.join(&name_of(name)));
                well_known::is_build_directory(name, beside, |name| states.has(&path.join(&name_of(name))))
            }
        }
    }
}

impl States {
    /// Whether an entry exists, or existed, at a path.
    fn has(&self, path: &TreePath) -> Result<bool, ReadError> {
        for reader in [&self.head, &self.base] {
            match reader.find(path) {
                Ok(_) => return Ok(true),
                Err(error @ ReadError::Object { .. }) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(false)
    }

    fn has_repository(&self, directory: &TreePath) -> Result<bool, ReadError> {
        self.has(&directory.join(&name_of(".git")))
    }
}

fn is_empty_directory(change: &TreeChange) -> bool {
    let mut sides = change.before.iter().chain(&change.after);
    sides.any(|entry| matches!(entry.kind, EntryKind::Directory { entries: None, .. }))
}

fn add_with_above(path: &TreePath, to: &mut HashSet<TreePath>) {
    let mut at = Some(path.clone());
    while let Some(path) = at {
        at = path.split_last().map(|(parent, _)| parent);
        if !to.insert(path) {
            break;
        }
    }
}

fn name_of(text: &str) -> EntryName {
    EntryName::new(text.as_bytes()).expect("names of this module are good names")
}

/// Whether a path is a directory now, or was when it went.
pub(crate) fn is_directory(change: &TreeChange) -> bool {
    change
        .after
        .as_ref()
        .or(change.before.as_ref())
        .is_some_and(Entry::is_directory)
}

#[cfg(test)]
mod tests;
