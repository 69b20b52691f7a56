//! Which names of a tree stand for the same file.

use std::collections::{BTreeSet, HashMap};

use avfs_core::{EntryKind, LinkId, TreePath};
use avfs_tree::{ReadError, TreeReader};

#[derive(Default)]
pub(super) struct Names {
    links: HashMap<TreePath, LinkId>,
    groups: HashMap<LinkId, BTreeSet<TreePath>>,
}

impl Names {
    /// Walks those directories only that hold names of files with several.
    pub fn of(reader: &TreeReader) -> Result<Names, ReadError> {
        let mut names = Names::default();
        let mut pending = vec![(TreePath::root(), reader.root().directory.clone())];
        while let Some((directory, entry)) = pending.pop() {
            for found in reader.list_entry(&directory, &entry)? {
                let (name, found) = found?;
                let path = directory.join(&name);
                match (found.link, &found.entry.kind) {
                    (Some((link, _)), _) => names.add(path, link),
                    (None, EntryKind::Directory { below, .. }) if below.links > 0 => {
                        pending.push((path, found.entry));
                    }
                    _ => {}
                }
            }
        }
        Ok(names)
    }

    fn add(&mut self, path: TreePath, link: LinkId) {
        self.groups.entry(link).or_default().insert(path.clone());
        self.links.insert(path, link);
    }

    /// Every name of a file that has several.
    pub fn paths(&self) -> impl Iterator<Item = &TreePath> {
        self.links.keys()
    }

    /// All the names of the file at `path`, this one included.
    pub fn of_path(&self, path: &TreePath) -> BTreeSet<TreePath> {
        let group = self.links.get(path).and_then(|link| self.groups.get(link));
        group.cloned().unwrap_or_else(|| BTreeSet::from([path.clone()]))
    }
}
