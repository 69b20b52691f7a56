//! A piece of work: a tree when it began and now, and the repository in it.

use avfs_core::TreePath;
use avfs_core::rules::Rules;
use avfs_tree::TreeReader;

use super::bounds::Bounds;
use super::error::GitError;
use super::names::ObjectName;
use super::refs::{MovedRef, StoredRefs};

/// What was done between two states of a tree. Whatever hides from the readers is no part of it.
#[derive(Clone)]
pub struct Work {
    base: TreeReader,
    head: TreeReader,
    /// The directory of the repository.
    place: TreePath,
    /// Where its files are.
    files: TreePath,
    /// What hides from the readers.
    rules: Option<Rules>,
    bounds: Bounds,
}

impl Work {
    /// Work in a project whose repository is its `.git`.
    pub fn new(base: TreeReader, head: TreeReader) -> Work {
        Work::in_repository(base, head, TreePath::parse(b".git").expect("this is a path"))
    }

    /// Work whose repository has its directory at `place`: the root, for a tree of nothing else.
    pub fn in_repository(base: TreeReader, head: TreeReader, place: TreePath) -> Work {
        Work { base, head, place, files: TreePath::root(), rules: None, bounds: Bounds::default() }
    }

    /// The same, seen through rules: what they hide is no part of it, and no commit of it may change that.
    pub fn through(self, rules: Rules) -> Work {
        let (base, head) = (self.base.through(rules.clone()), self.head.through(rules.clone()));
        Work { base, head, rules: Some(rules), ..self }
    }

    /// The work in another repository of the same tree: its directory, and where its files are.
    pub(super) fn in_submodule(&self, place: TreePath, files: TreePath) -> Work {
        Work { place, files, ..self.clone() }
    }

    /// The same, with other bounds on what git may need for what was made there.
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

    /// The refs that were made, moved or deleted, by name. Costs what changed; starts no program.
    pub fn moved_refs(&self) -> Result<Vec<MovedRef>, GitError> {
        self.base_refs().moved(&self.head_refs())
    }

    /// Where work ends that may be new: what moved branches and tags, and a HEAD without a branch, name.
    pub(super) fn new_tips(&self) -> Result<Vec<(MovedRef, ObjectName)>, GitError> {
        let holds_work = |moved: &MovedRef| moved.name.as_ref().is_none_or(|name| name.holds_work());
        let moved = self.moved_refs()?.into_iter().filter(holds_work);
        Ok(moved.filter_map(|moved| moved.after.clone().map(|tip| (moved, tip))).collect())
    }
}
