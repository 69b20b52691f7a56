//! To which repository of a tree a path belongs, and whether a change there is work.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use avfs_core::diff::TreeChange;
use avfs_core::spelling::is_git_directory;
use avfs_core::{Entry, EntryName, TreePath, printable};
use avfs_tree::TreeReader;

use crate::git_names::RefName;

/// Files of a repository that git writes and that contain no work.
const NOTES_OF_GIT: [&[u8]; 7] = [
    b"index",
    b"index.lock",
    b"FETCH_HEAD",
    b"ORIG_HEAD",
    b"COMMIT_EDITMSG",
    b"gc.log",
    b"gc.pid",
];

/// The work in one repository, judging by the files that differ. Git's own records of examined files, and
/// packing, do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Another commit or branch is checked out.
    pub head: bool,
    /// Files of refs differ: some may have moved, or they were packed.
    pub refs: bool,
    /// There are new objects: of commits, or of files that were staged.
    pub objects: bool,
    /// Settings, hooks, unfinished merges: the files that differ.
    pub other: Vec<TreePath>,
    /// Files that git does not know differ.
    pub unknown: bool,
}

/// Files in a repository that a user or a command of git creates, and that affect git: settings, and the
/// state of unfinished commands.
const STATE_OF_GIT: [&[u8]; 18] = [
    b"config",
    b"config.worktree",
    b"hooks",
    b"info",
    b"remotes",
    b"branches",
    b"modules",
    b"worktrees",
    b"commondir",
    b"gitdir",
    b"shallow",
    // Refs in tables are not read: they may contain work.
    b"reftable",
    b"MERGE_HEAD",
    b"CHERRY_PICK_HEAD",
    b"REVERT_HEAD",
    b"rebase-merge",
    b"rebase-apply",
    b"sequencer",
];

/// Work in a repository besides commits on branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitTrace {
    /// Settings, a hook or an unfinished merge differ.
    File(TreePath),
    /// A ref moved that is not a branch, such as a stash.
    Ref(RefName),
    /// The repository in this directory has new objects: of staged files, or of a commit that no branch names.
    Objects(TreePath),
}

impl fmt::Display for GitTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GitTrace::File(path) => write!(f, "{} changed", below_root(path)),
            GitTrace::Ref(name) if name.as_bytes() == b"refs/stash" => f.write_str("something is stashed"),
            GitTrace::Ref(name) => write!(f, "{name} moved"),
            GitTrace::Objects(place) => {
                write!(
                    f,
                    "{} holds staged files, or a commit on no branch",
                    below_root(place)
                )
            }
        }
    }
}

fn below_root(path: &TreePath) -> String {
    printable(path.as_bytes())
}

/// The repositories in several states of one tree.
pub(crate) struct Repositories {
    states: Vec<TreeReader>,
    /// Whether a directory below the `modules` of a repository is one.
    known: HashMap<TreePath, bool>,
}

impl Repositories {
    pub(crate) fn in_states(states: Vec<TreeReader>) -> Repositories {
        Repositories {
            states,
            known: HashMap::new(),
        }
    }

    /// The directory of the repository that a path belongs to: a `.git`, or that of a submodule inside of one. `None`
    /// if it is a file of a project.
    pub(crate) fn of(&mut self, path: &TreePath) -> Option<TreePath> {
        // Most paths belong to none, and are checked without a copy.
        path.names().find(|name| is_git_directory(name))?;
        let mut names = path.components();
        let mut place = TreePath::root();
        loop {
            let name = names.next()?;
            place.push(&name);
            if is_git(&name) {
                break;
            }
        }
        while names.next().is_some_and(|name| name.as_bytes() == b"modules") {
            let mut inner = place.join(&EntryName::new(b"modules").expect("this is a name"));
            // The name of a submodule can be several names deep.
            let found = names.by_ref().any(|name| {
                inner.push(&name);
                self.is_repository(&inner)
            });
            if !found {
                break;
            }
            place = inner;
        }
        Some(place)
    }

    fn is_repository(&mut self, place: &TreePath) -> bool {
        if let Some(known) = self.known.get(place) {
            return *known;
        }
        let file = |name: &[u8]| EntryName::new(name).map(|name| place.join(&name));
        let has = |reader: &TreeReader, name| file(name).is_ok_and(|path| reader.find(&path).is_ok());
        let is_one = self
            .states
            .iter()
            .any(|state| has(state, b"HEAD") && has(state, b"objects"));
        self.known.insert(place.clone(), is_one);
        is_one
    }

    /// The work in each repository, according to the changes.
    pub(crate) fn touched<'c>(
        &mut self,
        changes: impl Iterator<Item = &'c TreeChange>,
    ) -> BTreeMap<TreePath, Touched> {
        let mut all: BTreeMap<TreePath, Touched> = BTreeMap::new();
        for change in changes {
            if let Some(place) = self.of(&change.path) {
                all.entry(place.clone()).or_default().note(change, &place);
            }
        }
        all
    }
}

impl Touched {
    /// Takes a change in the repository at `place` into account.
    pub(crate) fn note(&mut self, change: &TreeChange, place: &TreePath) {
        if !is_other(change) {
            return;
        }
        let below: Vec<EntryName> = change
            .path
            .components()
            .skip(place.components().count())
            .collect();
        let below: Vec<&[u8]> = below.iter().map(EntryName::as_bytes).collect();
        match &below[..] {
            // Branches may have the same names.
            [name] | [b"worktrees", _, name] if NOTES_OF_GIT.contains(name) => {}
            [b"logs", ..] | [b"info", b"refs"] | [b"objects", b"pack" | b"info", ..] => {}
            [b"HEAD"] => self.head = true,
            [b"refs", ..] | [b"packed-refs"] => self.refs = true,
            [b"objects", ..] => self.objects |= change.before.is_none(),
            [] => self.other.push(change.path.clone()),
            [name, ..] if STATE_OF_GIT.contains(name) || name.starts_with(b"BISECT_") => {
                self.other.push(change.path.clone());
            }
            _ => self.unknown = true,
        }
    }
}

/// Whether a file differs. The time of an object differs if git would have created it again.
fn is_other(change: &TreeChange) -> bool {
    let is_directory = |entry: &Option<Entry>| entry.as_ref().is_none_or(Entry::is_directory);
    let mode = |entry: &Option<Entry>| entry.as_ref().map(|entry| entry.meta.mode);
    let is_same = !change.changes_content() && mode(&change.before) == mode(&change.after);
    let is_of_directories = is_directory(&change.before) && is_directory(&change.after);
    !is_same && !is_of_directories
}

/// Whether a name is that of a repository, in any spelling.
pub(super) fn is_git(name: &EntryName) -> bool {
    is_git_directory(name.as_bytes())
}
