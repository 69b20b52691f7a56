//! Trees whose objects are individually well-formed and contradict each other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use agentvfs::transfer::TransferError;
use agentvfs::{Error, Store, VaultName};
use avfs_core::chunks::{BLOB_MAX, CHUNK_SIZE, Chunk, ChunkNode, PageMap};
use avfs_core::map::{ChildNode, MapNode, MapRecord};
use avfs_core::{
    BlobId, ChunksId, Content, Entry, EntryKind, LinkId, LinkedFile, Meta, NodeId, ObjectId, ObjectKind,
    Root, Slot, Snapshot, Timestamp, Totals,
};
use avfs_store::{NewObject, RefEdit, RefRange};
use avfs_tree::inodes::InodeRecord;
use avfs_tree::{Ino, Objects};

/// Objects for a tree that someone makes up.
#[derive(Default)]
struct Forger(Vec<(ObjectKind, Vec<u8>)>);

/// A forged tree and its inode table.
type Forged = (Root, Option<NodeId>);

impl Forger {
    fn put(&mut self, kind: ObjectKind, bytes: Vec<u8>) -> ObjectId {
        let id = kind.hash(&bytes);
        self.0.push((kind, bytes));
        id
    }

    fn blob(&mut self, bytes: &[u8]) -> BlobId {
        BlobId::from_object(self.put(ObjectKind::Blob, bytes.to_vec()))
    }

    fn list(&mut self, node: &ChunkNode) -> ChunksId {
        ChunksId::from_object(self.put(ObjectKind::Chunks, node.encode()))
    }

    fn node<V: MapRecord>(&mut self, node: &MapNode<V>) -> NodeId {
        NodeId::from_object(self.put(ObjectKind::Node, node.encode()))
    }

    fn leaf<V: MapRecord>(&mut self, records: &[(&[u8], V)]) -> ChildNode {
        let node = MapNode::Leaf(
            records
                .iter()
                .map(|(key, record)| ((*key).into(), record.clone()))
                .collect(),
        );
        let last_key = records.last().unwrap().0.into();
        ChildNode {
            last_key,
            id: self.node(&node),
            records: node.records(),
            totals: node.totals(),
        }
    }

    /// A tree with these entries in its root and these linked files.
    fn tree(&mut self, entries: &[(&[u8], Slot)], links: &[(LinkId, u32)]) -> Root {
        let map = self.leaf(entries);
        let mut root = tree_of(map.id, map.totals);
        let keys: Vec<_> = links.iter().map(|(link, _)| link.key()).collect();
        let files = links.iter().map(|(_, names)| LinkedFile {
            entry: empty_file(),
            names: *names,
        });
        let records: Vec<_> = keys.iter().map(|key| &key[..]).zip(files).collect();
        root.links = (!records.is_empty()).then(|| self.leaf(&records).id);
        root
    }

    /// A tree with one file of these contents.
    fn file(&mut self, size: u64, content: Content) -> Forged {
        (self.tree(&[(b"f", Slot::Own(file(size, content)))], &[]), None)
    }

    /// A tree whose root directory has these two nodes below one of this level.
    fn split(&mut self, level: u8, children: [ChildNode; 2]) -> Forged {
        let node: MapNode<Slot> = MapNode::Inner {
            level,
            children: children.to_vec(),
        };
        let totals = node.totals();
        (tree_of(self.node(&node), totals), None)
    }
}

fn tree_of(entries: NodeId, below: Totals) -> Root {
    let kind = EntryKind::Directory {
        entries: Some(entries),
        below,
    };
    Root {
        directory: Entry {
            meta: Meta::default(),
            kind,
        },
        links: None,
        totals: below,
    }
}

fn file(size: u64, content: Content) -> Entry {
    Entry {
        meta: Meta::default(),
        kind: EntryKind::File { size, content },
    }
}

fn empty_file() -> Entry {
    file(0, Content::Empty)
}

fn own() -> Slot {
    Slot::Own(empty_file())
}

/// Puts the forged tree in the place of the empty one of a new vault.
fn store_with(forge: impl FnOnce(&mut Forger) -> Forged) -> Store {
    let store = Store::in_memory();
    let vault = store.create_vault(&VaultName::new("main").unwrap()).unwrap();
    let old = vault.head().unwrap().to_string();
    let mut forger = Forger::default();
    let (root, inodes) = forge(&mut forger);
    let snapshot = Snapshot {
        root,
        parents: Vec::new(),
        time: Timestamp::default(),
        author: "forger".into(),
        reason: String::new(),
    };
    let new = forger.put(ObjectKind::Snapshot, snapshot.encode()).to_string();
    let inodes = inodes.map_or(String::new(), |id| format!("\"inodes\":\"{id}\","));
    put_all(store.objects(), &forger);
    let doors = store.objects().store();
    for prefix in ["vault/", "history/"] {
        for (key, value) in doors.scan(&RefRange::prefix(prefix)).unwrap() {
            let text = String::from_utf8(value.clone()).unwrap().replace(&old, &new);
            let text = text.replace("\"journal\":", &format!("{inodes}\"journal\":"));
            doors.commit(&[RefEdit::replace(key, value, text)]).unwrap();
        }
    }
    store
}

fn put_all(objects: &Objects, forger: &Forger) {
    let new = forger.0.iter().map(|(kind, bytes)| NewObject {
        id: kind.hash(bytes),
        kind: *kind,
        bytes,
    });
    objects.store().put_many(&new.collect::<Vec<_>>()).unwrap();
}

fn export(store: &Store) -> Vec<u8> {
    let mut file = Vec::new();
    store
        .vault("main")
        .unwrap()
        .export_bundle(&mut file, "file", &mut |_| {})
        .unwrap();
    file
}

/// Asserts that a check finds the flaw, and a vault file with it is refused.
#[track_caller]
fn assert_found(expected: &str, forge: impl FnOnce(&mut Forger) -> Forged) {
    let store = store_with(forge);
    let problems = store.integrity().check(&mut |_, _| {}).unwrap().problems;
    assert!(
        problems.iter().any(|problem| problem.contains(expected)),
        "{problems:?}"
    );
    let target = Store::in_memory();
    match target.import_bundle(&mut &export(&store)[..], "file", None, &mut |_| {}) {
        Err(Error::Transfer(TransferError::BadBundle { reason, .. })) => {
            assert!(reason.contains(expected), "{reason}")
        }
        other => panic!("not refused: {:?}", other.map(|_| ())),
    }
    assert_eq!(target.vaults().unwrap().vaults, []);
}

#[track_caller]
fn assert_sound(forge: impl FnOnce(&mut Forger) -> Forged) {
    let store = store_with(forge);
    let report = store.integrity().check(&mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
    Store::in_memory()
        .import_bundle(&mut &export(&store)[..], "file", None, &mut |_| {})
        .unwrap();
}

#[test]
fn a_made_up_tree_without_contradictions_is_taken() {
    let link = LinkId(77);
    assert_sound(|forger| {
        (
            forger.tree(
                &[(b"a", Slot::Link(link)), (b"b", Slot::Link(link))],
                &[(link, 2)],
            ),
            None,
        )
    });
    assert_sound(|forger| {
        let children = [
            forger.leaf(&[(b"a", own()), (b"b", own())]),
            forger.leaf(&[(b"c", own())]),
        ];
        forger.split(1, children)
    });
    assert_sound(|forger| {
        let content = Content::Blob(forger.blob(b"four"));
        forger.file(4, content)
    });
    assert_sound(|forger| {
        let chunk = Chunk {
            id: forger.blob(&[7; 4096 + 10]),
            pages: PageMap(0b11),
        };
        let list = forger.list(&ChunkNode::Leaf(vec![(1, chunk)]));
        forger.file(CHUNK_SIZE + 4096 + 10, Content::Chunks(list))
    });
}

#[test]
fn a_link_with_the_number_of_the_root_is_found() {
    let link = LinkId(1);
    assert_found("a link has a reserved number", |forger| {
        (forger.tree(&[(b"x", Slot::Link(link))], &[(link, 1)]), None)
    });
}

#[test]
fn a_recorded_inode_number_that_is_reserved_is_found() {
    assert_found("a reserved inode number", |forger| {
        let record = InodeRecord {
            ino: Some(Ino::ROOT),
            ctime: None,
        };
        let table = forger.leaf(&[(b"p\0\0\0\0\0\0\0\x01x", record)]).id;
        (forger.tree(&[(b"x", own())], &[]), Some(table))
    });
}

#[test]
fn names_of_linked_files_that_the_table_does_not_count_are_found() {
    let (link, other) = (LinkId(77), LinkId(78));
    let names: [(&[u8], Slot); 2] = [(b"a", Slot::Link(link)), (b"b", Slot::Link(link))];
    let tables: [&[(LinkId, u32)]; 5] = [
        &[],
        &[(link, 1)],
        &[(link, 3)],
        &[(other, 2)],
        &[(link, 2), (other, 1)],
    ];
    for table in tables {
        assert_found("names of linked files", |forger| {
            (forger.tree(&names, table), None)
        });
    }
}

#[test]
fn names_of_linked_files_count_wherever_a_directory_is_shared() {
    let link = LinkId(77);
    let doubled = |names: u32| {
        move |forger: &mut Forger| {
            let mut below = Slot::Link(link);
            for _ in 0..10 {
                let map = forger.leaf(&[(b"a", below.clone()), (b"b", below)]);
                below = Slot::Own(tree_of(map.id, map.totals).directory);
            }
            (forger.tree(&[(b"top", below)], &[(link, names)]), None)
        }
    };
    assert_sound(doubled(1024));
    assert_found("names of linked files", doubled(1023));
}

#[test]
fn totals_that_are_not_those_of_the_tree_are_found() {
    assert_found("the totals above a node", |forger| {
        let mut root = forger.tree(&[(b"x", own())], &[]);
        let EntryKind::Directory { below, .. } = &mut root.directory.kind else {
            unreachable!()
        };
        below.bytes = 5;
        root.totals = *below;
        (root, None)
    });
    assert_found("the totals of a snapshot", |forger| {
        let mut root = forger.tree(&[(b"x", own())], &[]);
        root.totals.bytes = 5;
        (root, None)
    });
}

#[test]
fn a_child_that_is_not_what_its_parent_says_is_found() {
    let spoilt = |level: u8, first: &'static [u8], spoil: fn(&mut ChildNode)| {
        move |forger: &mut Forger| {
            let mut last = forger.leaf(&[(first, own()), (b"e", own())]);
            spoil(&mut last);
            let children = [forger.leaf(&[(b"b", own()), (b"c", own())]), last];
            forger.split(level, children)
        }
    };
    assert_found("the wrong depth", spoilt(2, b"d", |_| {}));
    assert_found("keys that belong before it", spoilt(1, b"a", |_| {}));
    assert_found(
        "the last key",
        spoilt(1, b"d", |child| child.last_key = b"f"[..].into()),
    );
    assert_found(
        "the number of records",
        spoilt(1, b"d", |child| child.records = 7),
    );
    assert_found(
        "the totals above a node",
        spoilt(1, b"d", |child| child.totals.inodes = 7),
    );
}

#[test]
fn a_file_that_is_not_as_long_as_it_says_is_found() {
    assert_found("not as long as their file says", |forger| {
        let content = Content::Blob(forger.blob(b"four"));
        forger.file(5, content)
    });
    let chunked = |size: u64, stored: usize, slot: u8, pages: u16| {
        move |forger: &mut Forger| {
            let chunk = Chunk {
                id: forger.blob(&vec![7; stored]),
                pages: PageMap(pages),
            };
            let list = forger.list(&ChunkNode::Leaf(vec![(slot, chunk)]));
            forger.file(size, Content::Chunks(list))
        }
    };
    assert_found(
        "not as long as their file says",
        chunked(BLOB_MAX * 2, 4095, 0, 1),
    );
    assert_found("behind the end of its file", chunked(CHUNK_SIZE, 4096, 1, 1));
    assert_found("behind the end of its file", chunked(4096, 8192, 0, 0b11));
    assert_found(
        "a chunk list has the wrong depth",
        chunked(CHUNK_SIZE * 257, 4096, 0, 1),
    );
}

/// Flips a bit of these bytes in the packs of a store.
fn damage(home: &std::path::Path, wanted: &[u8]) {
    for pack in std::fs::read_dir(home.join("packs")).unwrap() {
        let pack = pack.unwrap().path();
        let mut bytes = std::fs::read(&pack).unwrap();
        if let Some(position) = bytes.windows(wanted.len()).position(|window| window == wanted) {
            bytes[position + 10] ^= 1;
            return std::fs::write(&pack, bytes).unwrap();
        }
    }
    panic!("the bytes are in no pack");
}

#[test]
fn a_damaged_file_twenty_thousand_directories_down_is_named() {
    let secret = b"at the bottom of it all, where only a patient reader comes".repeat(20);
    let forged = store_with(|forger| {
        let content = Content::Blob(forger.blob(&secret));
        let mut below = Slot::Own(file(secret.len() as u64, content));
        for _ in 0..20_000 {
            let map = forger.leaf(&[(b"d", below)]);
            below = Slot::Own(tree_of(map.id, map.totals).directory);
        }
        (forger.tree(&[(b"d", below)], &[]), None)
    });
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    store
        .import_bundle(&mut &export(&forged)[..], "file", None, &mut |_| {})
        .unwrap();
    assert!(store.integrity().check(&mut |_, _| {}).unwrap().is_sound());
    drop(store);
    damage(home.path(), &secret);

    let report = Store::open(home.path())
        .unwrap()
        .integrity()
        .check(&mut |_, _| {})
        .unwrap();
    let depths: Vec<usize> = report
        .affected
        .iter()
        .map(|found| found.path.components().count())
        .collect();
    assert_eq!(depths, [20_001]);
}
