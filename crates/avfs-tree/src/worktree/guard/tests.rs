//! Every call of the tree is on one of two lists: calls that check the rules, each of which is tried, and
//! calls that need no check, with the reason. A new call is on neither, and this test fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use avfs_core::rules::{Rule, Rules};
use avfs_core::{Content, Entry, LinkId, Meta, Root, TreePath};
use avfs_store::MemoryStore;

use super::*;
use crate::objects::Objects;
use crate::worktree::{BaseTree, NewEntry, SetAttr, SystemClock};

/// A tree with a file, a directory and a symbolic link, and a door to it without any permission.
struct Shut {
    host: WorkTree,
    door: WorkTree,
    file: Ino,
    directory: Ino,
    symlink: Ino,
}

fn name(text: &str) -> EntryName {
    EntryName::new(text.as_bytes()).unwrap()
}

fn tree() -> WorkTree {
    let objects = Objects::new(Arc::new(MemoryStore::new()));
    let root = Root {
        directory: Entry::empty_directory(Meta::default()),
        links: None,
        totals: Totals::default(),
    };
    WorkTree::in_memory(objects, BaseTree { root, inodes: None }, Arc::new(SystemClock)).unwrap()
}

impl Shut {
    fn new() -> Shut {
        let host = tree();
        let make = |text: &str, new: NewEntry| host.create(Ino::ROOT, &name(text), new).unwrap().ino;
        let file = make("file", NewEntry::file(0o644));
        host.set_xattr(file, b"user.a", b"1").unwrap();
        let directory = make("directory", NewEntry::directory(0o755));
        let symlink = make("symlink", NewEntry::symlink(b"file"));
        let door = host.another_door();
        door.set_rules(Rules::new(Vec::new()).unwrap());
        Shut {
            host,
            door,
            file,
            directory,
            symlink,
        }
    }

    fn at(&self, text: &str) -> EntryPlace {
        EntryPlace::new(Ino::ROOT, name(text))
    }
}

type Try = fn(&Shut) -> Result<(), FsError>;

fn stored() -> StoredTree {
    StoredTree {
        entry: Entry::empty_directory(Meta::default()),
        links: Vec::new(),
    }
}

/// Each call that checks the rules, and an attempt to use it. Without permission, each attempt must be
/// refused.
const ASKING: &[(&str, Try)] = &[
    ("allocate", |shut| shut.door.allocate(shut.file, 10)),
    ("append", |shut| shut.door.append(shut.file, b"x").map(drop)),
    ("attr", |shut| shut.door.attr(shut.file).map(drop)),
    ("check", |shut| shut.door.check(shut.file, Level::Read)),
    ("copy", |shut| {
        shut.door.copy(shut.file, Ino::ROOT, &name("copy")).map(drop)
    }),
    ("copy_content", |shut| {
        shut.door.copy_content(shut.file, shut.file)
    }),
    ("copy_stored", |shut| {
        shut.door
            .copy_stored(&stored().entry, None, Ino::ROOT, &name("new"))
            .map(drop)
    }),
    ("create", |shut| {
        shut.door
            .create(Ino::ROOT, &name("new"), NewEntry::file(0o644))
            .map(drop)
    }),
    ("exchange", |shut| {
        shut.door.exchange(shut.at("file"), shut.at("directory"))
    }),
    ("graft", |shut| {
        shut.door.graft(Ino::ROOT, &name("new"), stored()).map(drop)
    }),
    ("graft_link", |shut| {
        shut.door
            .graft_link(Ino::ROOT, &name("new"), LinkId(77), Vec::new())
            .map(drop)
    }),
    ("link", |shut| {
        shut.door.link(shut.file, Ino::ROOT, &name("new")).map(drop)
    }),
    ("list_xattrs", |shut| shut.door.list_xattrs(shut.file).map(drop)),
    ("lookup", |shut| {
        shut.door.lookup(Ino::ROOT, &name("file")).map(drop)
    }),
    ("occupied", |shut| shut.door.occupied(shut.file).map(drop)),
    ("parent", |shut| shut.door.parent(shut.directory).map(drop)),
    ("path", |shut| shut.door.path(shut.file).map(drop)),
    ("punch_hole", |shut| shut.door.punch_hole(shut.file, 0, 1)),
    ("read", |shut| shut.door.read(shut.file, 0, &mut [0; 1]).map(drop)),
    ("read_all", |shut| shut.door.read_all(shut.file).map(drop)),
    ("read_piece", |shut| {
        shut.door.read_piece(shut.file, 0, &mut [0; 1]).map(drop)
    }),
    ("read_piece_waiting", |shut| {
        shut.door.read_piece_waiting(shut.file, 0, &mut [0; 1]).map(drop)
    }),
    ("read_directory", |shut| {
        shut.door.read_directory(shut.directory, None, 9).map(drop)
    }),
    ("read_link", |shut| shut.door.read_link(shut.symlink).map(drop)),
    ("read_names", |shut| {
        shut.door.read_names(shut.directory, None, 9).map(drop)
    }),
    ("remove_directory", |shut| {
        shut.door.remove_directory(Ino::ROOT, &name("directory"))
    }),
    ("remove_tree", |shut| {
        shut.door.remove_tree(Ino::ROOT, &name("directory"))
    }),
    ("remove_xattr", |shut| {
        shut.door.remove_xattr(shut.file, b"user.a")
    }),
    ("rename", |shut| shut.door.rename(shut.at("file"), shut.at("new"))),
    ("rename_no_replace", |shut| {
        shut.door.rename_no_replace(shut.at("file"), shut.at("new"))
    }),
    ("resolve", |shut| {
        shut.door.resolve(&TreePath::parse(b"/file").unwrap()).map(drop)
    }),
    ("seek_data", |shut| shut.door.seek_data(shut.file, 0).map(drop)),
    ("seek_hole", |shut| shut.door.seek_hole(shut.file, 0).map(drop)),
    ("set_attr", |shut| {
        shut.door
            .set_attr(
                shut.file,
                SetAttr {
                    mode: Some(0),
                    ..SetAttr::default()
                },
            )
            .map(drop)
    }),
    ("set_content", |shut| {
        shut.door.set_content(shut.file, 0, Content::Empty)
    }),
    ("set_labels", |shut| {
        shut.door.set_labels(shut.file, Labels::default())
    }),
    ("set_xattr", |shut| {
        shut.door.set_xattr(shut.file, b"user.b", b"1")
    }),
    ("fulfil_owed", |shut| shut.door.fulfil_owed(shut.file)),
    ("store_content", |shut| shut.door.store_content(shut.file)),
    ("unlink", |shut| shut.door.unlink(Ino::ROOT, &name("file"))),
    ("write", |shut| shut.door.write(shut.file, 0, b"x")),
    ("xattr", |shut| shut.door.xattr(shut.file, b"user.a").map(drop)),
];

/// Each call that does not check the rules, and why.
const NOT_ASKING: &[(&str, &str)] = &[
    ("another_door", "makes a door; its rules are its own"),
    ("asked", "counts questions"),
    ("check_fits", "is about the limits of the vault alone"),
    ("door", "is a number"),
    ("drop_journal", "is the owner's business"),
    ("fetch", "takes the id of an object, and gives nothing out"),
    ("freeze", "is the owner's business"),
    ("has_rules", "is about the rules themselves"),
    ("hold", "keeps in memory what is known already"),
    ("holding_door", "makes a door; its rules are its own"),
    ("in_memory", "makes a tree"),
    ("is_dirty", "is the owner's business"),
    ("is_dirty_beside", "is the owner's business"),
    ("is_link_taken", "is about numbers alone"),
    ("is_sync_due", "is the owner's business"),
    ("journal_len", "is the owner's business"),
    ("journaled", "makes a tree"),
    ("limits", "is about the limits of the vault alone"),
    (
        "locks",
        "is a table of numbers; what takes locks asks for the level itself",
    ),
    ("may_promise", "is about the store"),
    ("moment", "is a number"),
    ("nameless_contents", "is the owner's business"),
    ("has_left_journals", "is the owner's business"),
    ("needs_recovery", "is the owner's business"),
    ("never_waiting", "says how a door asks, not what"),
    ("objects", "is the owner's business"),
    ("occupied_space", "says nothing where something may be hidden"),
    ("prepare_name", "is the owner's business"),
    ("release", "gives back what is known already"),
    (
        "requested_paths",
        "is for the owner, who reads ahead through the rules",
    ),
    ("rules", "is about the rules themselves"),
    ("owes", "is the owner's business"),
    ("set_limits", "is the owner's business"),
    ("set_loaded_files", "is the owner's business"),
    ("set_rules", "is about the rules themselves"),
    ("exclusive", "is the owner's business"),
    ("sync", "is the owner's business"),
    ("take_moved", "is the owner's business"),
    ("totals", "is the owner's business"),
    ("unwatch", "ends notifications"),
    (
        "watch",
        "receives numbers and names that the kernel looks up again",
    ),
];

/// The public methods of [`WorkTree`], from the source.
fn public_methods() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![source.join("worktree.rs")];
    files.extend(
        std::fs::read_dir(source.join("worktree"))
            .unwrap()
            .map(|entry| entry.unwrap().path()),
    );
    let mut methods = BTreeSet::new();
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "rs"))
    {
        let text = std::fs::read_to_string(file).unwrap();
        let mut is_inside = false;
        for line in text.lines() {
            is_inside = (is_inside || line == "impl WorkTree {") && line != "}";
            let method = line.strip_prefix("    pub fn ").filter(|_| is_inside);
            methods.extend(
                method
                    .and_then(|rest| rest.split(['(', '<']).next())
                    .map(str::to_owned),
            );
        }
    }
    methods
}

#[test]
fn every_call_of_the_tree_asks_or_has_a_reason_not_to() {
    let asking = ASKING.iter().map(|(call, _)| (*call).to_owned());
    let not_asking = NOT_ASKING.iter().map(|(call, _)| (*call).to_owned());
    let listed: BTreeSet<String> = asking.chain(not_asking).collect();
    assert_eq!(
        listed.len(),
        ASKING.len() + NOT_ASKING.len(),
        "a call is on both lists"
    );
    assert_eq!(public_methods(), listed);
}

#[test]
fn each_call_that_asks_is_refused_where_nothing_is_allowed() {
    for (call, act) in ASKING {
        let shut = Shut::new();
        let before = (shut.host.asked(), shut.host.totals());
        let refused = act(&shut);
        assert!(shut.host.asked() > before.0, "{call} did not ask");
        assert_eq!(shut.host.totals(), before.1, "{call}");
        match refused {
            Err(FsError::Hidden | FsError::Denied { .. }) => {}
            other => panic!("{call} was not refused: {other:?}"),
        }
    }
}

#[test]
fn each_call_that_asks_works_where_everything_is_allowed() {
    // A call has the same outcome through a door without rules and through one that allows everything.
    for (call, act) in ASKING.iter().filter(|(call, _)| *call != "set_labels") {
        let shut = Shut::new();
        shut.door.set_rules(Rules::unrestricted());
        let free = Shut::new();
        let free = Shut {
            door: free.host.another_door(),
            ..free
        };
        assert_eq!(format!("{:?}", act(&shut)), format!("{:?}", act(&free)), "{call}");
    }
}

#[test]
fn a_view_that_a_panic_has_broken_stays_shut() {
    let shut = Shut::new();
    shut.door.set_rules(Rules::unrestricted());
    assert!(shut.door.attr(shut.file).is_ok());
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut state = shut.door.state();
        state.with_view(shut.door.door(), |_, _| panic!("in the middle of an answer"));
    }));
    assert!(broken.is_err());
    assert!(matches!(shut.door.attr(shut.file), Err(FsError::Closed)));
    assert!(shut.host.attr(shut.file).is_ok());
}

#[test]
fn no_label_can_be_set_through_a_view() {
    let shut = Shut::new();
    shut.door
        .set_rules(Rules::new(vec![Rule::parse("/**=write").unwrap()]).unwrap());
    let refused = shut.door.set_labels(shut.file, Labels::default());
    assert!(
        matches!(refused, Err(FsError::Denied { needed: None, .. })),
        "{refused:?}"
    );
    assert!(shut.host.set_labels(shut.file, Labels::default()).is_ok());
}
