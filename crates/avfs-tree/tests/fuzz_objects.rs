//! Every decoder of stored values, fed with damaged input: the result is an error or the canonical value,
//! never a panic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use avfs_core::chunks::{Chunk, ChunkNode, PageMap};
use avfs_core::map::{ChildNode, MapNode, MapRecord};
use avfs_core::{
    BlobId, ChunksId, Content, Entry, EntryKind, Label, LinkId, LinkedFile, Meta, NodeId, Root, Slot,
    Snapshot, SnapshotId, Timestamp, Totals, Xattrs,
};
use avfs_testkit::fuzz;
use avfs_tree::Ino;
use avfs_tree::inodes::InodeRecord;

fn meta() -> Meta {
    let labels = [Label::new("private").unwrap()].into_iter().collect();
    let mut xattrs = Xattrs::default();
    xattrs.set(b"user.a", b"value");
    xattrs.set(b"user.b", b"");
    let mtime = Timestamp {
        seconds: -1,
        nanos: 999_999_999,
    };
    Meta {
        mode: 0o4755,
        uid: 1000,
        gid: u32::MAX,
        mtime,
        xattrs,
        labels,
    }
}

fn entries() -> Vec<Entry> {
    let totals = Totals {
        inodes: 3,
        bytes: 1 << 40,
        links: 1,
    };
    let kinds = [
        EntryKind::File {
            size: 0,
            content: Content::Empty,
        },
        EntryKind::File {
            size: 7,
            content: Content::Blob(BlobId::of(b"7")),
        },
        EntryKind::File {
            size: 1 << 33,
            content: Content::Chunks(ChunksId::of(b"c")),
        },
        EntryKind::Directory {
            entries: None,
            below: Totals::default(),
        },
        EntryKind::Directory {
            entries: Some(NodeId::of(b"n")),
            below: totals,
        },
        EntryKind::Symlink {
            target: b"../x"[..].into(),
        },
        EntryKind::Fifo,
        EntryKind::Socket,
        EntryKind::CharDevice { device: 0x103 },
        EntryKind::BlockDevice { device: u64::MAX },
    ];
    let plain = Meta {
        mode: 0o644,
        ..Meta::default()
    };
    kinds
        .into_iter()
        .flat_map(|kind| {
            [meta(), plain.clone()].map(|meta| Entry {
                meta,
                kind: kind.clone(),
            })
        })
        .collect()
}

fn node_seeds<V: MapRecord>(records: Vec<V>, key: impl Fn(usize) -> Vec<u8>) -> Vec<Vec<u8>> {
    let keyed: Vec<(Box<[u8]>, V)> = records
        .into_iter()
        .enumerate()
        .map(|(index, record)| (key(index).into(), record))
        .collect();
    let child = |index: usize| ChildNode {
        last_key: key(index).into(),
        id: NodeId::of(b"child"),
        records: 64,
        totals: Totals {
            inodes: 64,
            bytes: 99,
            links: 0,
        },
    };
    let inner: MapNode<V> = MapNode::Inner {
        level: 2,
        children: (0..3).map(child).collect(),
    };
    vec![
        MapNode::Leaf(keyed[..1].to_vec()).encode(),
        MapNode::Leaf(keyed).encode(),
        inner.encode(),
    ]
}

fn check_node<V: MapRecord + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(node) = MapNode::<V>::decode(bytes) {
        assert_eq!(node.encode(), bytes, "only the canonical form is accepted");
    }
}

#[test]
fn directories() {
    let mut slots: Vec<Slot> = entries().into_iter().map(Slot::Own).collect();
    slots.push(Slot::Link(LinkId(77)));
    let seeds = node_seeds(slots, |index| format!("name {index:03}").into_bytes());
    assert!(fuzz(&seeds, check_node::<Slot>) > 1000);
}

#[test]
fn link_tables() {
    let files: Vec<LinkedFile> = entries()
        .into_iter()
        .filter(|entry| !entry.is_directory())
        .map(|entry| LinkedFile { entry, names: 2 })
        .collect();
    let seeds = node_seeds(files, |index| (index as u64 + 1).to_be_bytes().to_vec());
    assert!(fuzz(&seeds, check_node::<LinkedFile>) > 1000);
}

#[test]
fn inode_tables() {
    let time = Timestamp { seconds: 5, nanos: 6 };
    let records = vec![
        InodeRecord {
            ino: None,
            ctime: None,
        },
        InodeRecord {
            ino: Some(Ino(99)),
            ctime: None,
        },
        InodeRecord {
            ino: Some(Ino(u64::MAX)),
            ctime: Some(time),
        },
    ];
    let seeds = node_seeds(records, |index| format!("p{index:09}").into_bytes());
    assert!(fuzz(&seeds, check_node::<InodeRecord>) > 1000);
}

#[test]
fn chunk_lists() {
    let chunk = |index: u8| {
        (
            index,
            Chunk {
                id: BlobId::of(&[index]),
                pages: PageMap(0x8001),
            },
        )
    };
    let leaf = ChunkNode::Leaf((0..5).map(chunk).collect());
    let children = vec![(0, ChunksId::of(b"a")), (255, ChunksId::of(b"b"))];
    let seeds = [leaf.encode(), ChunkNode::Inner { level: 3, children }.encode()];
    let check = |bytes: &[u8]| {
        if let Ok(node) = ChunkNode::decode(bytes) {
            assert_eq!(node.encode(), bytes);
        }
    };
    assert!(fuzz(&seeds, check) > 1000);
}

#[test]
fn snapshots() {
    let snapshot = Snapshot {
        root: Root {
            directory: entries().into_iter().find(Entry::is_directory).unwrap(),
            links: Some(NodeId::of(b"links")),
            totals: Totals {
                inodes: 9,
                bytes: 9,
                links: 9,
            },
        },
        parents: vec![SnapshotId::of(b"a"), SnapshotId::of(b"b")],
        time: Timestamp { seconds: 1, nanos: 2 },
        author: "someone".into(),
        reason: "write /a".into(),
    };
    let check = |bytes: &[u8]| {
        if let Ok(snapshot) = Snapshot::decode(bytes) {
            assert_eq!(snapshot.encode(), bytes);
        }
    };
    assert!(fuzz(&[snapshot.encode()], check) > 1000);
}
