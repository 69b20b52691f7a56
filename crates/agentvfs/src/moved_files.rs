//! Which files moved between two states of a tree.

use std::collections::HashMap;

use avfs_core::diff::TreeChange;
use avfs_core::merge::{PathMove, moves_by_content};
use avfs_core::{Entry, TreePath};
use avfs_tree::{BaseTree, FsError, Ino, WorkTree};

use crate::store::Store;

/// The files that are at another path, by their numbers or by their contents.
pub(crate) fn moves_between(
    store: &Store,
    base: &BaseTree,
    now: &BaseTree,
    changes: &[TreeChange],
) -> Result<Vec<PathMove>, FsError> {
    let mut moves = moves_by_number(store, base, now, changes)?;
    moves.extend(moves_by_content(changes, &moves));
    Ok(moves)
}

/// The files that are at another path with the inode number that they had.
fn moves_by_number(
    store: &Store,
    base: &BaseTree,
    now: &BaseTree,
    changes: &[TreeChange],
) -> Result<Vec<PathMove>, FsError> {
    let only = |before: &Option<Entry>, after: &Option<Entry>| {
        before.as_ref().is_some_and(|entry| !entry.is_directory()) && after.is_none()
    };
    let gone: Vec<&TreePath> = changes
        .iter()
        .filter(|c| only(&c.before, &c.after))
        .map(|change| &change.path)
        .collect();
    let added: Vec<&TreePath> = changes
        .iter()
        .filter(|c| only(&c.after, &c.before))
        .map(|change| &change.path)
        .collect();
    if gone.is_empty() || added.is_empty() {
        return Ok(Vec::new());
    }
    let tree = |base: &BaseTree| WorkTree::in_memory(store.objects().clone(), base.clone(), store.clock());
    let (before, after) = (tree(base)?, tree(now)?);
    let mut places: HashMap<Ino, &TreePath> = HashMap::new();
    for path in gone {
        let attr = before.resolve(path)?;
        if !attr.has_other_names() {
            places.insert(attr.ino, path);
        }
    }
    let mut moves = Vec::new();
    for to in added {
        let attr = after.resolve(to)?;
        if let Some(from) = places.get(&attr.ino).filter(|_| !attr.has_other_names()) {
            moves.push(PathMove {
                from: (*from).clone(),
                to: to.clone(),
            });
        }
    }
    Ok(moves)
}
