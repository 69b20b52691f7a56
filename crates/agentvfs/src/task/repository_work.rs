//! Work in the repositories of a task that is neither in its files nor in commits on a branch.

use std::collections::HashSet;

use avfs_core::diff::TreeChange;
use avfs_core::{EntryKind, EntryName, TreePath};
use avfs_query::patch::{FileChange, blob_sha1};
use avfs_tree::TreeReader;

use super::TaskWork;
use super::changes::is_rewritten;
use crate::error::{Error, Result};
use crate::git::{GitIndex, GitTrace, MovedRef, RefName, Repositories, Work, is_in_repository};

impl TaskWork<'_> {
    /// Work in its repositories that no commit on a branch shows: a stash, a commit that no branch names,
    /// staged files, settings. Git's own records of examined files do not count, nor do files that git does
    /// not know. `files` are the changed files: what was staged from them, and what came with a repository
    /// that was cloned beside them, is not reported again.
    pub fn other_git_work(&self, files: &[FileChange]) -> Result<Vec<GitTrace>> {
        let is_brought = !self.task.brought().is_empty();
        let (base, head) = (self.task.base()?, self.task.head()?);
        let (from, to) = (
            self.task.vault().reader_at(base)?,
            self.task.vault().reader_at(head)?,
        );
        let mut changes = Vec::new();
        let looked = from.diff_folded(&to, &mut |seen| {
            if is_in_repository(&seen.change.path) && !is_rewritten(to.objects(), &seen.change)? {
                changes.push(seen.change);
            }
            Ok(())
        });
        looked.map_err(Error::from)?;
        let mut repositories = Repositories::in_states(vec![from.clone(), to.clone()]);
        let mut traces = Vec::new();
        for (place, touched) in repositories.touched(changes.iter()) {
            let work = Work::in_repository(from.clone(), to.clone(), place.clone());
            let moved = work.moved_refs()?;
            let is_told = |moved: &MovedRef| moved.name.as_ref().is_none_or(RefName::holds_work);
            let is_own =
                |moved: &&MovedRef| !is_told(moved) && !moved.name.as_ref().is_some_and(RefName::is_remote);
            let own_refs = moved.iter().filter(is_own).filter_map(|moved| moved.name.clone());
            traces.extend(own_refs.map(GitTrace::Ref));
            // What a user took as commits has its settings with them.
            if is_brought {
                continue;
            }
            if files.is_empty() || from.find(&place).is_ok() {
                traces.extend(touched.other.into_iter().map(GitTrace::File));
            }
            // The objects of a branch that moved are its commits, those of a stash are reported with it.
            if touched.objects && traces.is_empty() && !moved.iter().any(is_told) {
                let new = NewObjects::of(&place, &changes);
                if files.is_empty() || new.are_elsewhere(&from, &to) {
                    traces.push(GitTrace::Objects(place));
                }
            }
        }
        Ok(traces)
    }
}

/// The objects that a repository did not have when the task began.
struct NewObjects<'a> {
    /// The directory of the repository.
    place: &'a TreePath,
    names: HashSet<String>,
}

impl NewObjects<'_> {
    fn of<'a>(place: &'a TreePath, changes: &[TreeChange]) -> NewObjects<'a> {
        let objects = place.join(&name(b"objects"));
        let above = objects.components().count();
        let is_new = |change: &&TreeChange| change.before.is_none() && change.path.starts_with(&objects);
        let names = changes.iter().filter(is_new).map(|change| {
            let parts: Vec<EntryName> = change.path.components().skip(above).collect();
            let parts: Vec<u8> = parts.iter().flat_map(|part| part.as_bytes().to_vec()).collect();
            String::from_utf8_lossy(&parts).into_owned()
        });
        NewObjects {
            place,
            names: names.collect(),
        }
    }

    /// Whether one of them has what no file of the task has: a version that is staged, or a commit that was
    /// checked out and that no branch names.
    fn are_elsewhere(&self, from: &TreeReader, to: &TreeReader) -> bool {
        self.has_staged(to) || self.has_lost_commit(from, to)
    }

    fn has_staged(&self, to: &TreeReader) -> bool {
        let Some(index) = bytes_at(to, &self.place.join(&name(b"index"))) else {
            return false;
        };
        // One that cannot be understood may name anything.
        let Some(index) = GitIndex::of_bytes(index) else {
            return true;
        };
        let mut is_lost = false;
        index.each(&mut |entry| {
            let object: String = entry.object.iter().map(|byte| format!("{byte:02x}")).collect();
            if !is_lost && self.names.contains(&object) {
                is_lost = !self.is_in_file(to, entry.path, entry.object);
            }
        });
        is_lost
    }

    /// Whether the file at a tracked path is this version.
    fn is_in_file(&self, to: &TreeReader, path: &[u8], object: &[u8]) -> bool {
        let Ok(path) = TreePath::parse(path) else {
            return false;
        };
        let Some(contents) = bytes_at(to, &self.files().join_path(&path)) else {
            return false;
        };
        // Git may be told to store lines without their carriage returns.
        blob_sha1(&contents) == object || blob_sha1(&without_carriage_returns(&contents)) == object
    }

    /// Where the files of the repository are. The repository of a submodule has the name of its place.
    fn files(&self) -> TreePath {
        let names: Vec<EntryName> = self.place.components().collect();
        let is_kept = |name: &&EntryName| !matches!(name.as_bytes(), b".git" | b"modules");
        names
            .iter()
            .filter(is_kept)
            .fold(TreePath::root(), |path, name| path.join(name))
    }

    fn has_lost_commit(&self, from: &TreeReader, to: &TreeReader) -> bool {
        let log = self.place.join(&name(b"logs")).join(&name(b"HEAD"));
        let [before, after] = [from, to].map(|reader| bytes_at(reader, &log).unwrap_or_default());
        let new = after.strip_prefix(&before[..]).unwrap_or(&after);
        new.split(|byte| *byte == b'\n')
            .filter_map(|line| line.split(|byte| *byte == b' ').nth(1))
            .any(|object| self.names.contains(&*String::from_utf8_lossy(object)))
    }
}

/// The contents of a file, or the target of a link.
fn bytes_at(reader: &TreeReader, path: &TreePath) -> Option<Vec<u8>> {
    match reader.find(path).ok()?.entry.kind {
        EntryKind::File { .. } => Some(reader.read(path).ok()?.to_vec()),
        EntryKind::Symlink { target } => Some(target.to_vec()),
        _ => None,
    }
}

fn without_carriage_returns(contents: &[u8]) -> Vec<u8> {
    let mut without = Vec::with_capacity(contents.len());
    for (at, byte) in contents.iter().enumerate() {
        if !(*byte == b'\r' && contents.get(at + 1) == Some(&b'\n')) {
            without.push(*byte);
        }
    }
    without
}

fn name(name: &[u8]) -> EntryName {
    EntryName::new(name).expect("this is a name")
}
