//! Putting a stored directory into an existing one.

use avfs_core::map::{self, MapRecord};
use avfs_core::{EntryKind, EntryName, Slot, Totals, TreePath};
use avfs_tree::{FsError, InodeKind, StoredTree};

use crate::error::{Error, FileError, Result};
use crate::open::OpenVault;

/// See [`OpenVault::graft_into`]. Whole subtrees are placed wherever the name is free.
pub(crate) fn graft_into(open: &OpenVault, path: &TreePath, tree: StoredTree) -> Result<()> {
    let EntryKind::Directory { entries, .. } = tree.entry.kind else {
        return Err(open.fail(path, FsError::NotADirectory));
    };
    let mut pending = vec![(path.clone(), entries)];
    let mut placed: Vec<(TreePath, Slot)> = Vec::new();
    while let Some((directory, entries)) = pending.pop() {
        let mut walk = map::walk_after(open.vault().store().objects(), entries, None)?;
        while let Some((key, slot)) = walk.advance()? {
            let name = EntryName::new(&key).map_err(|source| bad_name(&key, source))?;
            let at = directory.join(&name);
            match (existing(open, &at)?, &slot) {
                (None, _) => placed.push((at, slot)),
                (Some(InodeKind::Directory), Slot::Own(entry)) if entry.is_directory() => {
                    if let EntryKind::Directory { entries, .. } = entry.kind {
                        pending.push((at, entries));
                    }
                }
                (Some(_), _) => return Err(open.fail(&at, FsError::Exists)),
            }
        }
    }
    check_room(open, path, &placed, &tree.links)?;
    place_all(open, placed, tree.links)
}

/// Everything fits, or nothing is placed.
fn check_room(
    open: &OpenVault,
    path: &TreePath,
    placed: &[(TreePath, Slot)],
    links: &[(avfs_core::LinkId, avfs_core::LinkedFile)],
) -> Result<()> {
    let slots = placed
        .iter()
        .fold(Totals::default(), |sum, (_, slot)| sum.plus(slot.totals()));
    let added = links.iter().fold(slots, |sum, (_, file)| sum.plus(file.totals()));
    open.tree()
        .check_fits(added)
        .map_err(|error| open.fail(path, error))
}

fn bad_name(key: &[u8], source: avfs_core::BadName) -> Error {
    Error::File(FileError::BadPath {
        text: avfs_core::printable(key),
        source,
    })
}

fn existing(open: &OpenVault, path: &TreePath) -> Result<Option<InodeKind>> {
    if open.exists(path)? {
        Ok(Some(open.stat(path)?.kind))
    } else {
        Ok(None)
    }
}

type Links = Vec<(avfs_core::LinkId, avfs_core::LinkedFile)>;

fn place_all(open: &OpenVault, placed: Vec<(TreePath, Slot)>, links: Links) -> Result<()> {
    let mut links = Some(links);
    for (path, slot) in placed {
        let place = open.place(&path)?;
        let records = links.take().unwrap_or_default();
        let grafted = match slot {
            Slot::Own(entry) => open.tree().graft(
                place.parent,
                &place.name,
                StoredTree {
                    entry,
                    links: records,
                },
            ),
            Slot::Link(id) => open.tree().graft_link(place.parent, &place.name, id, records),
        };
        grafted.map_err(|error| open.fail(&path, error))?;
    }
    Ok(())
}
