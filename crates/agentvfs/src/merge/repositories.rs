//! Repositories in a merge: git's own files are not put together line by line, and are never in conflict.
//!
//! If only one side worked in a repository, its version is used as a whole. If both did, ours stays unchanged
//! and receives the objects of theirs, and a ref for each branch that they moved, so that it can be merged
//! with git. Objects are named by their contents, so those of both can coexist.

use std::collections::{BTreeMap, HashMap, HashSet};

use avfs_core::diff::TreeChange;
use avfs_core::merge::MergeContents;
use avfs_core::{Entry, EntryKind, EntryName, TreePath};
use avfs_tree::{BaseTree, ReadError, TreeReader};

use super::sides::{SideChanges, Texts};
use crate::error::Result;
use crate::git::{MovedRef, ObjectName, RefName, Repositories, Touched, Work};
use crate::vault::Vault;

/// A repository in which they did something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedRepository {
    /// Its directory, such as `/.git`.
    pub place: TreePath,
    /// The name of the other side.
    pub from: String,
    /// What became of it.
    pub outcome: RepositoryOutcome,
}

/// What a merge did with a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepositoryOutcome {
    /// Nothing was done here: it is theirs now.
    Theirs,
    /// It is unchanged, with their objects added, and with these refs for the branches that they moved.
    Ours {
        /// The branches and tags of theirs that were added under other names.
        refs: Vec<RefName>,
    },
}

/// The three states, for repositories in which both sides worked.
pub(super) struct Settling<'a> {
    vault: &'a Vault,
    base: TreeReader,
    ours: TreeReader,
    theirs: TreeReader,
    /// The name of the other side, for the refs that are made.
    from: &'a str,
    /// Whether results are stored: otherwise this is a dry run.
    keeps: bool,
    repositories: Repositories,
}

/// The changes of both sides in one repository.
#[derive(Default)]
struct Both {
    ours: Vec<TreeChange>,
    theirs: Vec<TreeChange>,
}

impl<'a> Settling<'a> {
    pub(super) fn new(
        vault: &'a Vault,
        from: &'a str,
        keeps: bool,
        (base, ours, theirs): (&BaseTree, &BaseTree, &BaseTree),
    ) -> Settling<'a> {
        let reader = |base: &BaseTree| TreeReader::new(vault.store().objects().clone(), base.root.clone());
        let (base, ours, theirs) = (reader(base), reader(ours), reader(theirs));
        let repositories = Repositories::in_states(vec![base.clone(), ours.clone(), theirs.clone()]);
        Settling {
            vault,
            base,
            ours,
            theirs,
            from,
            keeps,
            repositories,
        }
    }

    /// Keeps in each repository the version of one side alone, so that the rest of the merge finds nothing to
    /// decide there.
    pub(super) fn settle(
        mut self,
        ours: &mut SideChanges,
        theirs: &mut SideChanges,
    ) -> Result<Vec<MergedRepository>> {
        let mut all: BTreeMap<TreePath, Both> = BTreeMap::new();
        for change in self.taken_out(theirs, |_| true) {
            all.entry(change.0).or_default().theirs.push(change.1);
        }
        if all.is_empty() {
            return Ok(Vec::new());
        }
        for change in self.taken_out(ours, |place| all.contains_key(place)) {
            all.entry(change.0).or_default().ours.push(change.1);
        }
        let (mut merged, mut given) = (Vec::new(), AddedChanges::default());
        for (place, both) in all {
            let we = self.is_work(&place, &both.ours, &self.ours)?;
            let they = self.is_work(&place, &both.theirs, &self.theirs)?;
            let outcome = match (we, they) {
                (_, false) => None,
                (false, true) => {
                    self.take(&both, &mut given)?;
                    Some(RepositoryOutcome::Theirs)
                }
                (true, true) => self.keep(&place, &both, &mut given)?,
            };
            if !matches!(outcome, Some(RepositoryOutcome::Theirs)) {
                ours.changes.extend(both.ours);
            }
            let from = self.from.to_owned();
            merged.extend(outcome.map(|outcome| MergedRepository { place, from, outcome }));
        }
        ours.changes.retain(|change| !given.replaces(&change.path));
        theirs.changes.extend(given.changes.into_values());
        Ok(merged)
    }

    /// Removes the changes in the given repositories from a side, including moves there.
    fn taken_out(
        &mut self,
        side: &mut SideChanges,
        is_wanted: impl Fn(&TreePath) -> bool,
    ) -> Vec<(TreePath, TreeChange)> {
        let (mut taken, mut left) = (Vec::new(), Vec::with_capacity(side.changes.len()));
        for change in std::mem::take(&mut side.changes) {
            match self.repositories.of(&change.path).filter(&is_wanted) {
                Some(place) => taken.push((place, change)),
                None => left.push(change),
            }
        }
        side.changes = left;
        side.retain_moves(|path| self.repositories.of(path).is_none());
        taken
    }

    /// Whether there is work in it, and not only git's own records.
    fn is_work(&self, place: &TreePath, changes: &[TreeChange], state: &TreeReader) -> Result<bool> {
        let mut touched = Touched::default();
        changes.iter().for_each(|change| touched.note(change, place));
        let moves = |state| -> Result<bool> {
            let work = Work::in_repository(self.base.clone(), state, place.clone());
            Ok(!work.moved_refs()?.is_empty())
        };
        let has_files = !touched.other.is_empty() || touched.unknown;
        Ok(touched.head || touched.objects || has_files || (touched.refs && moves(state.clone())?))
    }

    /// The repository becomes theirs, including git's records: an index belongs to the checked-out commit.
    fn take(&self, both: &Both, given: &mut AddedChanges) -> Result<()> {
        let touched: HashSet<&TreePath> = both.theirs.iter().map(|change| &change.path).collect();
        for change in &both.theirs {
            // A lock of git at work there; here it would never be removed.
            let is_lock = change
                .path
                .name()
                .is_some_and(|name| name.as_bytes().ends_with(b".lock"));
            match &change.after {
                Some(entry) if !is_lock => self.put(&change.path, entry.clone(), given)?,
                Some(_) => {}
                None => self.remove(&change.path, given)?,
            }
        }
        for change in both.ours.iter().filter(|change| !touched.contains(&change.path)) {
            match &change.before {
                Some(entry) => self.put(&change.path, entry.clone(), given)?,
                None => self.remove(&change.path, given)?,
            }
        }
        Ok(())
    }

    /// The repository stays ours, and theirs can be merged there. `None` if they did the same work.
    fn keep(
        &self,
        place: &TreePath,
        both: &Both,
        given: &mut AddedChanges,
    ) -> Result<Option<RepositoryOutcome>> {
        let is_same = both.ours.len() == both.theirs.len()
            && both
                .ours
                .iter()
                .zip(&both.theirs)
                .all(|(ours, theirs)| is_alike(ours, theirs));
        let Some(head) = self
            .find(&self.ours, &place.join_path(&path(b"HEAD")))?
            .filter(|_| !is_same)
        else {
            return Ok((!is_same).then(|| RepositoryOutcome::Ours { refs: Vec::new() }));
        };
        // Objects that were repacked or dropped here may be needed by their new ones.
        let gone = both.ours.iter().filter(|change| change.after.is_none());
        for change in both
            .theirs
            .iter()
            .filter(|change| change.after.is_some())
            .chain(gone)
        {
            if is_object(&change.path, place)
                && self.find(&self.ours, &change.path)?.is_none()
                && let Some(entry) = self.find(&self.theirs, &change.path)?
                && matches!(entry.kind, EntryKind::File { .. })
            {
                self.put(&change.path, entry, given)?;
            }
        }
        let mut refs = Vec::new();
        for (name, object) in self.moved(place)? {
            if let Some(below) = name.path() {
                self.put(&place.join_path(&below), self.file(&head, &object)?, given)?;
                refs.push(name);
            }
        }
        Ok(Some(RepositoryOutcome::Ours { refs }))
    }

    /// The refs to be made for the branches that they moved, and that we do not have so.
    fn moved(&self, place: &TreePath) -> Result<Vec<(RefName, ObjectName)>> {
        let work =
            |from: &TreeReader, to: &TreeReader| Work::in_repository(from.clone(), to.clone(), place.clone());
        let differs: HashMap<Option<RefName>, Option<ObjectName>> = {
            let all = work(&self.ours, &self.theirs).moved_refs()?;
            all.into_iter()
                .map(|MovedRef { name, after, .. }| (name, after))
                .collect()
        };
        let remote = self.remote(place)?;
        let mut refs = Vec::new();
        for MovedRef { name, after, .. } in work(&self.base, &self.theirs).moved_refs()? {
            let Some(object) = after.filter(|_| differs.contains_key(&name)) else {
                continue;
            };
            let branch = match &name {
                None => Some(&b"HEAD"[..]),
                Some(name) => name.branch_name(),
            };
            let made = branch.map(|branch| [b"refs/remotes/", remote.as_bytes(), b"/", branch].concat());
            refs.extend(made.as_deref().and_then(RefName::new).map(|name| (name, object)));
        }
        Ok(refs)
    }

    /// Their name as a remote: different from those that the repository has already.
    fn remote(&self, place: &TreePath) -> Result<String> {
        let config = place.join_path(&path(b"config"));
        let settings = match self.find(&self.ours, &config)?.map(|entry| entry.kind) {
            Some(EntryKind::File { .. }) => self.ours.read(&config).map_err(|error| self.failed(error))?,
            _ => Default::default(),
        };
        let taken = format!("[remote \"{}\"]", self.from);
        // Searched as text: a comment that looks like a section only leads to a longer name.
        let is_taken = settings.windows(taken.len()).any(|part| part == taken.as_bytes());
        Ok(if is_taken {
            format!("avfs-{}", self.from)
        } else {
            self.from.to_owned()
        })
    }

    /// The file of a ref, with the owner of the repository.
    fn file(&self, head: &Entry, object: &ObjectName) -> Result<Entry> {
        let bytes = format!("{object}\n").into_bytes();
        let size = bytes.len() as u64;
        let mut texts = Texts::new(self.vault.store().objects(), self.keeps);
        let content = texts.store(bytes)?;
        texts.flush()?;
        let mut meta = head.meta.clone();
        meta.mtime = self.vault.store().now();
        Ok(Entry {
            meta,
            kind: EntryKind::File { size, content },
        })
    }

    /// Sets the entry of a path of our tree, and creates its parents.
    fn put(&self, at: &TreePath, entry: Entry, given: &mut AddedChanges) -> Result<()> {
        self.make_room(at, given)?;
        let before = self.find(&self.ours, at)?;
        given.changes.insert(
            at.clone(),
            TreeChange {
                path: at.clone(),
                before,
                after: Some(entry),
            },
        );
        Ok(())
    }

    fn make_room(&self, at: &TreePath, given: &mut AddedChanges) -> Result<()> {
        let (mut at, mut missing) = (at.clone(), Vec::new());
        while let Some((above, _)) = at.split_last().filter(|(above, _)| !above.is_root()) {
            let is_made = given
                .changes
                .get(&above)
                .is_some_and(|change| change.after.is_some());
            let before = self.find(&self.ours, &above)?;
            if is_made || before.as_ref().is_some_and(Entry::is_directory) {
                break;
            }
            missing.push((above.clone(), before));
            at = above;
        }
        // From the top down, because each directory needs the one above it.
        while let Some((above, before)) = missing.pop() {
            let theirs = self.find(&self.theirs, &above)?.filter(Entry::is_directory);
            let nearest = self.nearest(&above)?;
            let after = theirs.map_or(nearest, |entry| entry.meta);
            let after = Some(Entry::empty_directory(after));
            given.changes.insert(
                above.clone(),
                TreeChange {
                    path: above,
                    before,
                    after,
                },
            );
        }
        Ok(())
    }

    /// The attributes of the nearest directory above that there is.
    fn nearest(&self, at: &TreePath) -> Result<avfs_core::Meta> {
        let mut above = at.clone();
        while let Some((parent, _)) = above.split_last() {
            if let Some(entry) = self.find(&self.ours, &parent)?.filter(Entry::is_directory) {
                return Ok(entry.meta);
            }
            above = parent;
        }
        Ok(self.ours.root().directory.meta.clone())
    }

    fn remove(&self, at: &TreePath, given: &mut AddedChanges) -> Result<()> {
        if let Some(before) = self.find(&self.ours, at)? {
            given.changes.insert(
                at.clone(),
                TreeChange {
                    path: at.clone(),
                    before: Some(before),
                    after: None,
                },
            );
        }
        Ok(())
    }

    fn find(&self, state: &TreeReader, at: &TreePath) -> Result<Option<Entry>> {
        match state.find(at) {
            Ok(found) => Ok(Some(found.entry)),
            Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: ReadError) -> crate::Error {
        self.vault.history().read_error(error)
    }
}

/// The additions to our tree, as changes of its current state. Our own changes are not weighed against them.
#[derive(Default)]
struct AddedChanges {
    changes: BTreeMap<TreePath, TreeChange>,
}

impl AddedChanges {
    /// Whether something is added at a path, or a file at a parent directory of it.
    fn replaces(&self, path: &TreePath) -> bool {
        if self.changes.contains_key(path) {
            return true;
        }
        let mut above = path.split_last();
        while let Some((parent, _)) = above {
            let is_file =
                |change: &TreeChange| change.after.as_ref().is_some_and(|entry| !entry.is_directory());
            if self.changes.get(&parent).is_some_and(is_file) {
                return true;
            }
            above = parent.split_last();
        }
        false
    }
}

fn is_alike(ours: &TreeChange, theirs: &TreeChange) -> bool {
    (&ours.path, &ours.after) == (&theirs.path, &theirs.after)
}

/// Whether a path is that of a file with objects, and not of a list of them.
fn is_object(at: &TreePath, place: &TreePath) -> bool {
    let below: Vec<EntryName> = at.components().skip(place.components().count()).collect();
    let [objects, directory, file] = &below[..] else {
        return false;
    };
    let (directory, file) = (directory.as_bytes(), file.as_bytes());
    let is_loose = directory.len() == 2 && directory.iter().all(u8::is_ascii_hexdigit);
    // A list of the other side would name packs that are not here, and temporary files belong to a running
    // git.
    let is_list = file.starts_with(b"multi-pack-index") || file.starts_with(b"tmp_");
    objects.as_bytes() == b"objects" && (is_loose || directory == b"pack") && !is_list
}

fn path(name: &[u8]) -> TreePath {
    TreePath::parse(name).expect("names of git are good names")
}
