//! Trees for tests, built from lists of paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use avfs_core::map::{self, Edits};
use avfs_core::{
    BlobId, Content, Entry, EntryKind, EntryName, LinkId, LinkedFile, Meta, Root, Slot, Timestamp, Totals,
    TreePath,
};
use avfs_store::MemoryStore;
use avfs_tree::content::ContentBuilder;
use avfs_tree::{ObjectWriter, Objects, TreeReader};

pub(crate) fn path(raw: &str) -> TreePath {
    TreePath::parse(raw.as_bytes()).unwrap()
}

pub(crate) fn memory() -> Objects {
    Objects::new(Arc::new(MemoryStore::new()))
}

/// An entry for a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FixtureItem {
    File {
        bytes: Vec<u8>,
        executable: bool,
    },
    Symlink(Vec<u8>),
    EmptyDirectory,
    Fifo,
    /// A file whose bytes are not in the store.
    Lost,
    /// One of several names of a file.
    Linked(u64),
}

impl FixtureItem {
    pub(crate) fn file(bytes: impl Into<Vec<u8>>) -> FixtureItem {
        FixtureItem::File {
            bytes: bytes.into(),
            executable: false,
        }
    }

    pub(crate) fn program(bytes: impl Into<Vec<u8>>) -> FixtureItem {
        FixtureItem::File {
            bytes: bytes.into(),
            executable: true,
        }
    }
}

pub(crate) type Items = BTreeMap<TreePath, FixtureItem>;

/// A tree in a store.
pub(crate) struct FixtureTree {
    pub(crate) reader: TreeReader,
}

impl FixtureTree {
    pub(crate) fn of(files: &[(&str, &str)]) -> FixtureTree {
        FixtureTree::in_store(&memory(), files)
    }

    pub(crate) fn in_store(objects: &Objects, files: &[(&str, &str)]) -> FixtureTree {
        let items = files
            .iter()
            .map(|(name, text)| (path(name), FixtureItem::file(*text)));
        FixtureTree::build(objects, &items.collect(), &BTreeMap::new())
    }

    pub(crate) fn of_items(objects: &Objects, items: &[(&str, FixtureItem)]) -> FixtureTree {
        let items = items.iter().map(|(name, item)| (path(name), item.clone()));
        FixtureTree::build(objects, &items.collect(), &BTreeMap::new())
    }

    /// Builds a tree; `linked` holds the bytes of the files with several names.
    pub(crate) fn build(objects: &Objects, items: &Items, linked: &BTreeMap<u64, Vec<u8>>) -> FixtureTree {
        let writer = ObjectWriter::new(objects);
        let mut links = Edits::new();
        for (id, bytes) in linked {
            let names = items
                .values()
                .filter(|item| **item == FixtureItem::Linked(*id))
                .count() as u32;
            let entry = entry_of(objects, &writer, &FixtureItem::file(bytes.clone()));
            links.insert(LinkId(*id).key().into(), Some(LinkedFile { entry, names }));
        }
        let mut sink = &writer;
        let links = map::apply(objects, &mut sink, None, &links).unwrap();
        let below: Vec<(&[u8], &FixtureItem)> =
            items.iter().map(|(path, item)| (path.as_bytes(), item)).collect();
        let directory = directory_of(objects, &writer, &below);
        writer.flush().unwrap();
        let EntryKind::Directory { below, .. } = &directory.kind else {
            unreachable!()
        };
        let totals = below.plus(links.as_ref().map(|links| links.totals).unwrap_or_default());
        let root = Root {
            directory,
            links: links.map(|links| links.id),
            totals,
        };
        FixtureTree {
            reader: TreeReader::new(objects.clone(), root),
        }
    }
}

fn meta(mode: u32) -> Meta {
    Meta {
        mode,
        mtime: Timestamp {
            seconds: 1_700_000_000,
            nanos: 0,
        },
        ..Meta::default()
    }
}

fn entry_of(objects: &Objects, writer: &ObjectWriter, item: &FixtureItem) -> Entry {
    match item {
        FixtureItem::File { bytes, executable } => {
            let mut builder = ContentBuilder::new(objects, writer);
            builder.push(bytes).unwrap();
            let (size, content) = builder.finish().unwrap();
            let mode = if *executable { 0o755 } else { 0o644 };
            Entry {
                meta: meta(mode),
                kind: EntryKind::File { size, content },
            }
        }
        FixtureItem::Symlink(target) => Entry {
            meta: meta(0o777),
            kind: EntryKind::Symlink {
                target: target[..].into(),
            },
        },
        FixtureItem::EmptyDirectory => Entry::empty_directory(meta(0o755)),
        FixtureItem::Lost => {
            let content = Content::Blob(BlobId::of(b"lost"));
            Entry {
                meta: meta(0o644),
                kind: EntryKind::File { size: 4, content },
            }
        }
        FixtureItem::Fifo => Entry {
            meta: meta(0o644),
            kind: EntryKind::Fifo,
        },
        FixtureItem::Linked(_) => unreachable!("a linked file is a slot of its own"),
    }
}

/// The directory with these entries, given by sorted paths as seen from it.
fn directory_of(objects: &Objects, writer: &ObjectWriter, below: &[(&[u8], &FixtureItem)]) -> Entry {
    let mut edits: Edits<Slot> = Edits::new();
    let mut groups: BTreeMap<&[u8], Vec<(&[u8], &FixtureItem)>> = BTreeMap::new();
    for (path, item) in below {
        match path.iter().position(|byte| *byte == b'/') {
            Some(slash) => groups
                .entry(&path[..slash])
                .or_default()
                .push((&path[slash + 1..], item)),
            None => {
                let slot = match item {
                    FixtureItem::Linked(id) => Slot::Link(LinkId(*id)),
                    other => Slot::Own(entry_of(objects, writer, other)),
                };
                edits.insert(EntryName::new(path).unwrap().as_bytes().into(), Some(slot));
            }
        }
    }
    for (name, group) in groups {
        edits.insert(
            name.into(),
            Some(Slot::Own(directory_of(objects, writer, &group))),
        );
    }
    let mut sink = writer;
    let root = map::apply(objects, &mut sink, None, &edits).unwrap();
    let below = root.as_ref().map_or(Totals::default(), |root| root.totals);
    let kind = EntryKind::Directory {
        entries: root.map(|root| root.id),
        below,
    };
    Entry {
        meta: meta(0o755),
        kind,
    }
}
