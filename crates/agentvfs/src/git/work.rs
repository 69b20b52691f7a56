//! A piece of work: a tree when it began and now, and the repository in it.

use avfs_core::TreePath;
use avfs_core::rules::Rules;
use avfs_tree::TreeReader;

use super::bounds::Bounds;
use super::host::HostRepository;
use super::quarantine::Quarantine;
use super::refs::{MovedRef, StoredRefs};
use super::submodules::Submodule;
use crate::error::GitError;
use crate::git_names::{ObjectFormat, ObjectName};

/// The work between two states of a tree. Files that are hidden from the readers are excluded.
#[derive(Clone)]
pub struct Work {
    base: TreeReader,
    head: TreeReader,
    /// The directory of the repository.
    place: TreePath,
    /// Where its files are.
    files: TreePath,
    /// The rules that hide files from the readers.
    rules: Option<Rules>,
    bounds: Bounds,
}

impl Work {
    /// Work in a project whose repository is its `.git`.
    pub fn new(base: TreeReader, head: TreeReader) -> Work {
        Work::in_repository(base, head, TreePath::parse(b".git").expect("this is a path"))
    }

    /// Work whose repository has its directory at `place`: the root, for a tree that consists of it.
    pub fn in_repository(base: TreeReader, head: TreeReader, place: TreePath) -> Work {
        Work {
            base,
            head,
            place,
            files: TreePath::root(),
            rules: None,
            bounds: Bounds::default(),
        }
    }

    /// The same, seen through rules: hidden files are excluded, and no commit may change them.
    pub fn through(self, rules: Rules) -> Work {
        let (base, head) = (self.base.through(rules.clone()), self.head.through(rules.clone()));
        Work {
            base,
            head,
            rules: Some(rules),
            ..self
        }
    }

    /// The work in another repository of the same tree: its directory, and where its files are.
    pub(super) fn in_submodule(&self, place: TreePath, files: TreePath) -> Work {
        Work {
            place,
            files,
            ..self.clone()
        }
    }

    /// The same, with other limits for git on objects that were made there.
    pub fn within(self, bounds: Bounds) -> Work {
        Work { bounds, ..self }
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub(super) fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }

    pub(super) fn files(&self) -> &TreePath {
        &self.files
    }

    pub(super) fn base(&self) -> &TreeReader {
        &self.base
    }

    pub(super) fn head(&self) -> &TreeReader {
        &self.head
    }

    pub(super) fn place(&self) -> &TreePath {
        &self.place
    }

    pub(super) fn base_refs(&self) -> StoredRefs<'_> {
        StoredRefs::new(&self.base, &self.place)
    }

    pub(super) fn head_refs(&self) -> StoredRefs<'_> {
        StoredRefs::new(&self.head, &self.place)
    }

    /// The refs that were made, moved or deleted, by name. The cost depends on the changes; starts no
    /// program.
    pub fn moved_refs(&self) -> Result<Vec<MovedRef>, GitError> {
        self.base_refs().moved(&self.head_refs())
    }

    /// The tips of possibly new work: the objects of moved branches and tags, and of a detached HEAD.
    pub(super) fn new_tips(&self) -> Result<Vec<(MovedRef, ObjectName)>, GitError> {
        let holds_work = |moved: &MovedRef| moved.name.as_ref().is_none_or(|name| name.holds_work());
        let moved = self.moved_refs()?.into_iter().filter(holds_work);
        Ok(moved
            .filter_map(|moved| moved.after.clone().map(|tip| (moved, tip)))
            .collect())
    }

    /// A repository with the added objects, which have not been checked.
    pub(super) fn suspects(
        &self,
        format: ObjectFormat,
        host: Option<&HostRepository>,
    ) -> Result<Quarantine, GitError> {
        super::added::suspects(self, format, host)
    }

    /// Refuses commits that change hidden files, or files that the host runs and that are not among the
    /// `allowed`.
    pub(super) fn check_changes(
        &self,
        suspects: &Quarantine,
        tip: &ObjectName,
        host: &HostRepository,
        allowed: &[TreePath],
    ) -> Result<(), GitError> {
        super::kept::check_changes(self, suspects, tip, host, allowed)
    }

    /// The nested repositories whose refs changed, by path. The cost depends on the changes in the tree.
    pub(super) fn nested(&self) -> Result<Vec<Submodule>, GitError> {
        super::nested::nested(self)
    }

    /// Whether there are commits in a repository that the user does not have: its branches are not only those
    /// with which it was cloned.
    pub(super) fn has_own_commits(&self) -> Result<bool, GitError> {
        super::nested::has_own_commits(self)
    }

    /// Whether its repository is new.
    pub(super) fn is_of_new_repository(&self) -> bool {
        super::nested::is_of_new_repository(self)
    }

    /// The submodules whose refs changed, in the order of their repositories, including nested ones; then
    /// repositories that are not submodules. The cost depends on the changes.
    pub fn submodules(&self) -> Result<Vec<Submodule>, GitError> {
        super::submodules::submodules(self)
    }
}
