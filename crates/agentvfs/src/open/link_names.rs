//! Which names of a tree refer to the same file.

use std::collections::{BTreeSet, HashMap};

use avfs_core::{Entry, EntryKind, EntryName, LinkId, NodeId, Slot, TreePath};
use avfs_tree::{ReadError, TreeReader, link_bearing_slots};

#[derive(Default)]
pub(crate) struct LinkNames {
    links: HashMap<TreePath, LinkId>,
    groups: HashMap<LinkId, BTreeSet<TreePath>>,
}

impl LinkNames {
    /// Walks those directories only that hold names of files with several.
    pub(crate) fn of(reader: &TreeReader) -> Result<LinkNames, ReadError> {
        let mut names = LinkNames::default();
        let mut pending = vec![(TreePath::root(), entries_of(&reader.root().directory))];
        while let Some((directory, entries)) = pending.pop() {
            let slots = link_bearing_slots(reader.objects(), entries);
            let slots = slots.map_err(|source| ReadError::Object {
                path: directory.clone(),
                source,
            })?;
            for (name, slot) in slots {
                let Ok(name) = EntryName::new(&name) else { continue };
                match slot {
                    Slot::Link(link) => {
                        let path = directory.join(&name);
                        if !reader.has_rules() || reader.find(&path).is_ok() {
                            names.add(path, link);
                        }
                    }
                    Slot::Own(entry) => pending.push((directory.join(&name), entries_of(&entry))),
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
    pub(crate) fn paths(&self) -> impl Iterator<Item = &TreePath> {
        self.links.keys()
    }

    /// All the names of the file at `path`, this one included.
    pub(crate) fn of_path(&self, path: &TreePath) -> BTreeSet<TreePath> {
        let group = self.links.get(path).and_then(|link| self.groups.get(link));
        group.cloned().unwrap_or_else(|| BTreeSet::from([path.clone()]))
    }
}

fn entries_of(entry: &Entry) -> Option<NodeId> {
    match entry.kind {
        EntryKind::Directory { entries, .. } => entries,
        _ => None,
    }
}
