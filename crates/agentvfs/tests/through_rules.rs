//! A vault through rules: every call of a handle is on one of two lists, those that ask the rules, which is tried with
//! each of them, and those that do not have to, with the reason. A new call is on neither, and this fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use agentvfs::patch::{FileDiff, PatchOptions, PatchStat, file_changes, write_patch};
use agentvfs::query::find::{Criteria, FindTest, find};
use agentvfs::query::grep::{Grep, GrepOptions};
use agentvfs::query::search::{Query, SearchIndex, SearchOptions, SearchScope};
use agentvfs::query::walk::WalkSelection;
use agentvfs::rules::{Label, Labels, Rule, Rules};
use agentvfs::transfer::{DirectoryExport, export_directory, export_tar};
use agentvfs::{
    CheckpointName, Error, ErrorCode, Hint, MergeOptions, OpenVault, Resolution, Result, Revision, Store,
    TreePath, Vault, WriteMode,
};
use support::{change, name, path};

fn rules(texts: &[&str]) -> Rules {
    Rules::new(texts.iter().map(|text| Rule::parse(text).unwrap()).collect()).unwrap()
}

/// A vault with two states, each with visible and hidden entries.
fn vault() -> Vault {
    let vault = Store::in_memory().create_vault(&name("web")).unwrap();
    for text in ["first", "second"] {
        let open = vault.begin().unwrap();
        for directory in ["/src", "/secret", "/listed"] {
            open.make_directory(&path(directory), true).unwrap();
        }
        for file in ["/src/a", "/secret/k", "/listed/x"] {
            open.write_bytes(&path(file), format!("{text} needle\n").as_bytes())
                .unwrap();
        }
        open.commit("write", "/src/a /secret/k /listed/x").unwrap();
    }
    vault
}

const VIEW: [&str; 3] = ["/**=write", "/secret/**=none", "/listed/**=view"];

struct Shut {
    /// Through no rule at all: nothing may be seen.
    vault: Vault,
    /// Another vault of the same kind: an open vault cannot be opened twice.
    open: OpenVault,
    past: Revision,
}

impl Shut {
    fn new() -> Shut {
        let shut = || vault().through(rules(&[]));
        let vault = shut();
        Shut {
            open: shut().begin().unwrap(),
            past: vault.revision("@~1").unwrap(),
            vault,
        }
    }
}

fn a() -> TreePath {
    path("/src/a")
}

/// Succeeds if nothing was revealed or done.
type Try = fn(&Shut) -> bool;

fn refused<T>(result: Result<T>) -> bool {
    matches!(
        result.err().map(|error| error.code()),
        Some(ErrorCode::NotFound | ErrorCode::Denied)
    )
}

fn fresh() -> CheckpointName {
    CheckpointName::new("fresh").unwrap()
}

/// Each call that reveals or changes something of the contents of a vault, and an attempt to use it.
const ASKING: &[(&str, Try)] = &[
    ("Vault::audit", |shut| refused(shut.vault.audit(0, 9))),
    ("Vault::begin", |shut| {
        refused(shut.vault.begin().unwrap().stat(&a()))
    }),
    ("Vault::change", |shut| {
        refused(
            shut.vault
                .change("x", "", |open| open.write_bytes(&path("/new"), b"x")),
        )
    }),
    ("VaultMerges::conflicts", |shut| refused(shut.vault.conflicts())),
    ("Vault::delete", |shut| refused(shut.vault.clone().delete(true))),
    ("VaultHistory::delete_checkpoint", |shut| {
        refused(shut.vault.delete_checkpoint("old"))
    }),
    ("VaultHistory::export", |shut| {
        refused(shut.vault.export_bundle(&mut Vec::new(), "here", &mut |_| {}))
    }),
    ("VaultImage::delete", |shut| {
        refused(shut.vault.clone().image().delete())
    }),
    ("VaultHistory::for_each_entry", |shut| {
        let mut silent = true;
        shut.vault
            .history()
            .for_each_entry(|entry| {
                silent &= !entry.action.contains('/');
                Ok(true)
            })
            .unwrap();
        silent
    }),
    ("Vault::fork", |shut| refused(shut.vault.fork(&[name("other")]))),
    ("Vault::fork_at", |shut| {
        refused(shut.vault.fork_at(&shut.past, &[name("other")]))
    }),
    ("VaultHistory::entries", |shut| {
        shut.vault
            .history()
            .entries(None, 9)
            .unwrap()
            .iter()
            .all(|entry| !entry.action.contains('/'))
    }),
    ("VaultHistory::last_undo", |shut| {
        shut.vault
            .history()
            .last_undo()
            .unwrap()
            .is_none_or(|entry| !entry.action.contains('/'))
    }),
    ("VaultHistory::next_undo", |shut| {
        shut.vault
            .history()
            .next_undo()
            .unwrap()
            .is_none_or(|entry| !entry.action.contains('/'))
    }),
    ("Vault::info", |shut| {
        (shut.vault.info().unwrap().files, shut.vault.info().unwrap().bytes) == (0, 0)
    }),
    ("VaultMerges::merge", |shut| {
        refused(shut.vault.merge(&[&vault()], &MergeOptions::default()))
    }),
    ("Vault::log_place", |shut| shut.vault.log_place().is_err()),
    ("Vault::open", |_| {
        refused(vault().through(rules(&[])).open().unwrap().stat(&a()))
    }),
    ("Vault::open_to_read", |_| {
        refused(vault().through(rules(&[])).open_to_read().unwrap().stat(&a()))
    }),
    ("VaultHistory::path_history", |shut| {
        shut.vault.history().path_history(&a(), 9).unwrap().is_empty()
    }),
    ("Vault::reader", |shut| {
        shut.vault.reader().unwrap().find(&a()).is_err()
    }),
    ("Vault::reader_at", |shut| {
        shut.vault
            .reader_at(shut.past.snapshot)
            .unwrap()
            .find(&a())
            .is_err()
    }),
    ("VaultHistory::redo", |shut| refused(shut.vault.redo())),
    ("Vault::rename", |shut| refused(shut.vault.rename(&name("other")))),
    ("VaultMerges::resolve", |shut| {
        refused(shut.vault.resolve(&a(), &Resolution::Ours))
    }),
    ("VaultHistory::restore", |shut| {
        refused(shut.vault.restore(&shut.past, ""))
    }),
    ("VaultHistory::restore_paths", |shut| {
        refused(shut.vault.restore_paths(&shut.past, &[a()], "x", ""))
    }),
    ("Vault::revision", |shut| {
        let named = ["@", "@~1", "web", "web:@~1"].map(|text| shut.vault.revision(text).unwrap());
        named
            .iter()
            .all(|revision| revision.reader().unwrap().find(&a()).is_err())
    }),
    ("VaultImage::save", |shut| {
        refused(shut.vault.image().save(&name("other")))
    }),
    ("VaultPolicy::set", |shut| refused(shut.vault.set_policy(None))),
    ("Vault::set_quota", |shut| {
        refused(shut.vault.set_quota(None, None))
    }),
    ("Vault::store_rules", |shut| refused(shut.vault.store_rules(None))),
    ("VaultHistory::undo", |shut| refused(shut.vault.undo())),
    ("Vault::verify_audit", |shut| {
        refused(shut.vault.verify_audit(None))
    }),
    ("Revision::diff", |shut| {
        shut.past
            .diff(&shut.vault.revision("@").unwrap())
            .unwrap()
            .is_empty()
    }),
    ("Revision::reader", |shut| {
        shut.past.reader().unwrap().find(&a()).is_err()
    }),
    ("OpenVault::children", |shut| {
        refused(shut.open.children(&path("/src")))
    }),
    ("OpenVault::copy", |shut| {
        refused(shut.open.copy(&a(), &path("/copy"), true))
    }),
    ("OpenVault::exists", |shut| !shut.open.exists(&a()).unwrap()),
    ("OpenVault::graft", |shut| {
        refused(shut.open.graft(&path("/new"), stored(shut)))
    }),
    ("OpenVault::graft_into", |shut| {
        refused(shut.open.graft_into(&path("/"), stored(shut)))
    }),
    ("OpenVault::hard_link", |shut| {
        refused(shut.open.hard_link(&a(), &path("/new")))
    }),
    ("OpenImports::directory", |shut| {
        let place = tempfile::tempdir().unwrap();
        refused(shut.open.imports().directory(place.path(), &path("/new"), &()))
    }),
    ("OpenImports::tar", |shut| {
        refused(shut.open.imports().tar(&[0; 1024][..], &path("/new"), &()))
    }),
    ("OpenVault::labels", |shut| refused(shut.open.labels(&a()))),
    ("OpenVault::make_directory", |shut| {
        refused(shut.open.make_directory(&path("/new"), true))
    }),
    ("OpenVault::read", |shut| refused(shut.open.read(&a()))),
    ("OpenVault::remove", |shut| refused(shut.open.remove(&a(), true))),
    ("OpenVault::rename", |shut| {
        refused(shut.open.rename(&a(), &path("/new")))
    }),
    ("OpenVault::rename_no_replace", |shut| {
        refused(shut.open.rename_no_replace(&a(), &path("/new")))
    }),
    ("OpenVault::set_labels", |shut| {
        refused(shut.open.set_labels(&a(), Labels::default()))
    }),
    ("OpenVault::replace_xattrs", |shut| {
        refused(shut.open.replace_xattrs(&a(), b"user.", &[]))
    }),
    ("OpenVault::set_mode", |shut| {
        refused(shut.open.set_mode(&a(), 0o600))
    }),
    ("OpenVault::set_mtime", |shut| {
        refused(shut.open.set_mtime(&a(), Default::default()))
    }),
    ("OpenVault::stat", |shut| refused(shut.open.stat(&a()))),
    ("OpenVault::symlink", |shut| {
        refused(shut.open.symlink(b"x", &path("/new")))
    }),
    ("OpenImports::take", |shut| {
        let stored = shut
            .open
            .imports()
            .store_tar(&[0; 1024][..], &path("/new"), &())
            .unwrap();
        refused(shut.open.imports().take(&path("/new"), &stored))
    }),
    ("OpenVault::truncate", |shut| refused(shut.open.truncate(&a(), 0))),
    ("OpenVault::write", |shut| {
        refused(
            shut.open
                .write(&path("/new"), &mut &b"x"[..], WriteMode::Replace, None),
        )
    }),
    ("OpenVault::write_bytes", |shut| {
        refused(shut.open.write_bytes(&a(), b"x"))
    }),
];

/// Each call that need not ask, and why.
const SILENT: &[(&str, &str)] = &[
    ("VaultHistory::checkpoint", "tells a name and a moment"),
    ("Vault::alone", "makes a handle that reaches less"),
    ("VaultHistory::checkpoints", "tells names and moments"),
    (
        "VaultRuns::exec",
        "mounts the vault through the rules of the handle",
    ),
    (
        "VaultMounts::ask_owner",
        "mounts the vault through the rules of the handle",
    ),
    ("Vault::head", "tells an id"),
    (
        "VaultSessions::hold",
        "mounts the vault through the rules of the handle",
    ),
    (
        "VaultMounts::mount",
        "mounts the vault through the rules of the handle",
    ),
    (
        "VaultRuns::open_sandbox",
        "mounts the vault through the rules of the handle",
    ),
    ("Vault::id", "tells a number"),
    ("Vault::ask_owner", "finds a process, as `live_owner` does"),
    ("Vault::live_owner", "tells of a process"),
    ("Vault::look_at_owner", "finds a process, as `live_owner` does"),
    ("VaultMounts::list", "tells of mounts"),
    ("Vault::name", "tells the vault's own name"),
    ("Vault::rules", "tells the rules themselves"),
    ("VaultSessions::list", "tells of sessions, as the store does"),
    (
        "Vault::rules_for_programs",
        "tells rules, which are about names that need not exist",
    ),
    (
        "VaultApprovals::forget_saved_rule",
        "about commands, and not about files",
    ),
    ("VaultRuns::own_path", "tells a directory of the host"),
    (
        "VaultApprovals::policy_here",
        "about commands, and not about files",
    ),
    ("VaultPolicy::in_force", "about commands, and not about files"),
    ("VaultSessions::question", "about commands, and not about files"),
    (
        "VaultApprovals::saved_rules",
        "about commands, and not about files",
    ),
    (
        "VaultHistory::save_automatic_checkpoint",
        "gives a name to a state, whatever is in it",
    ),
    (
        "VaultHistory::save_checkpoint",
        "gives a name to a state, whatever is in it",
    ),
    (
        "Vault::store",
        "the way back to everything, for callers that hold a store anyway",
    ),
    (
        "Vault::stored_rules",
        "tells rules, which are about names that need not exist",
    ),
    ("Vault::through", "makes a handle"),
    ("Vault::through_stored", "makes a handle"),
    (
        "VaultImage::info",
        "tells of a vault what `info` does, and of an image what its maker says",
    ),
    (
        "VaultImage::fork_root",
        "copies the root directory of an image, which has no file of the vault",
    ),
    (
        "VaultImage::root_on",
        "opens the root directory of an image, which has no file of the vault",
    ),
    ("Vault::unmerged_forks", "tells names of vaults"),
    (
        "Vault::unrestricted",
        "the way back to everything, for callers that hold a store anyway",
    ),
    ("OpenVault::commit", "stores a change that was checked before"),
    (
        "OpenVault::imports",
        "leads to a part, whose calls are listed here",
    ),
    ("OpenVault::hold_objects", "keeps objects without revealing them"),
    ("OpenVault::save", "stores a change that was checked before"),
    ("OpenVault::settle", "stores a change that was checked before"),
    (
        "OpenImports::store_directory",
        "stores objects that only `take` inserts",
    ),
    (
        "OpenImports::store_tar",
        "stores objects that only `take` inserts",
    ),
    ("OpenVault::sync", "stores a change that was checked before"),
    ("OpenVault::tree", "is the door itself, which asks"),
    ("OpenVault::vault", "tells of the handle"),
];

fn stored(shut: &Shut) -> avfs_tree::StoredTree {
    let root = shut
        .open
        .vault()
        .unrestricted()
        .reader()
        .unwrap()
        .root()
        .directory
        .clone();
    avfs_tree::StoredTree {
        entry: root,
        links: Vec::new(),
    }
}

/// The public methods of the handles, as the source has them.
fn public_calls() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut calls = BTreeSet::new();
    for file in files_below(&source) {
        if file.ends_with(PARTS) {
            continue;
        }
        let mut handle = None;
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            match line
                .strip_prefix("impl ")
                .and_then(|rest| rest.strip_suffix(" {"))
            {
                Some(name) => handle = Some(name.trim_end_matches("<'_>").to_owned()),
                None if line == "}" => handle = None,
                None => {}
            }
            let Some(handle) = handle.as_deref().filter(|name| HANDLES.contains(name)) else {
                continue;
            };
            if let Some(rest) = line.strip_prefix("    pub fn ") {
                let end = rest.find(['(', '<']).unwrap();
                calls.insert(format!("{handle}::{}", &rest[..end]));
            }
        }
    }
    calls
}

fn files_below(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

const HANDLES: [&str; 12] = [
    "Vault",
    "VaultApprovals",
    "VaultHistory",
    "VaultImage",
    "VaultMerges",
    "VaultMounts",
    "VaultPolicy",
    "VaultRuns",
    "VaultSessions",
    "Revision",
    "OpenVault",
    "OpenImports",
];

/// Leads from a vault to its parts, and passes calls on to them.
const PARTS: &str = "vault_parts.rs";

#[test]
fn every_part_of_a_vault_is_among_the_handles() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(PARTS);
    let text = std::fs::read_to_string(file).unwrap();
    let parts: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("    pub fn ")?.strip_suffix("<'_> {"))
        .filter_map(|signature| signature.split_once("(&self) -> "))
        .map(|(_, part)| part)
        .collect();
    assert!(parts.len() > 5, "{parts:?}");
    let unknown: Vec<&&str> = parts.iter().filter(|part| !HANDLES.contains(part)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_call_asks_or_is_listed_with_its_reason() {
    let listed = ASKING
        .iter()
        .map(|(name, _)| *name)
        .chain(SILENT.iter().map(|(name, _)| *name));
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    assert_eq!(public_calls(), listed);
}

#[test]
fn without_any_rule_nothing_is_revealed_or_done() {
    for (name, attempt) in ASKING {
        let shut = Shut::new();
        let before = shut.vault.head().unwrap();
        assert!(attempt(&shut), "{name}");
        assert_eq!(shut.vault.head().unwrap(), before, "{name} has changed something");
        assert!(!shut.open.tree().is_dirty(), "{name} has changed something");
    }
}

#[test]
fn the_same_calls_work_where_the_rules_allow_them() {
    let seen = vault().through(rules(&VIEW));
    let open = seen.begin().unwrap();
    open.write_bytes(&a(), b"third").unwrap();
    open.make_directory(&path("/new/deep"), true).unwrap();
    open.rename(&a(), &path("/new/b")).unwrap();
    open.commit("change", "").unwrap();
    assert_eq!(
        &seen.begin().unwrap().read(&path("/new/b")).unwrap()[..],
        b"third"
    );
    let back = seen
        .restore_paths(&seen.revision("@~1").unwrap(), &[path("/src")], "checkout", "")
        .unwrap();
    assert_eq!(back.changed, 2, "the file, and the time of its directory");
    assert_eq!(&seen.begin().unwrap().read(&a()).unwrap()[..], b"second needle\n");
    assert_eq!(
        &vault().begin().unwrap().read(&path("/secret/k")).unwrap()[..],
        b"second needle\n"
    );
}

#[test]
fn making_a_hidden_name_is_refused_whether_it_exists_or_not() {
    let open = vault().through(rules(&VIEW)).begin().unwrap();
    for file in ["/secret/k", "/secret/new"] {
        let refusals = [
            open.write_bytes(&path(file), b"x").unwrap_err(),
            open.symlink(b"x", &path(file)).unwrap_err(),
            open.copy(&a(), &path(file), false).unwrap_err(),
        ];
        // The directory is hidden as well: its entries look like missing ones.
        let texts = refusals.map(|error| (error.code(), error.to_string().replace(file, "")));
        assert!(texts.iter().all(|(code, _)| *code == "not-found"), "{texts:?}");
    }
    let open = vault()
        .through(rules(&["/**=write", "**/k=none"]))
        .begin()
        .unwrap();
    for file in ["/secret/k", "/src/k"] {
        assert_eq!(
            open.write_bytes(&path(file), b"x").unwrap_err().code(),
            "denied",
            "{file}"
        );
        assert!(!open.exists(&path(file)).unwrap(), "{file}");
    }
}

#[test]
fn a_refusal_carries_the_level_and_the_way_to_the_rule() {
    let open = vault()
        .through(rules(&["/**=write", "/src/**=read"]))
        .begin()
        .unwrap();
    let error = open.write_bytes(&a(), b"x").unwrap_err();
    let text = avfs_core::with_causes(&error);
    assert_eq!(
        text,
        "/src/a in vault 'web': the rules give read there, and this takes write"
    );
    assert_eq!(
        error.hint(),
        Some(Hint::ExplainRule {
            path: "/src/a".to_owned()
        })
    );
}

#[test]
fn a_directory_is_copied_without_what_may_not_be_read() {
    let vault = vault();
    let seen = vault.through(rules(&[
        "/**=write",
        "/secret/**=none",
        "/listed/**=view",
        "/copy/**=write",
    ]));
    change(&seen, |open| {
        open.copy(&path("/src"), &path("/copy"), true).unwrap();
        open.copy(&path("/listed"), &path("/copy/listed"), true).unwrap();
    });
    change(&vault, |open| open.write_bytes(&path("/src/.env"), b"x").unwrap());
    let seen = vault.through(rules(&["/**=write", "**/.env=none"]));
    change(&seen, |open| {
        open.copy(&path("/src"), &path("/again"), true).unwrap();
        let refused = open.remove(&path("/src"), true).unwrap_err();
        assert_eq!(refused.code(), "not-empty");
    });
    let open = vault.begin().unwrap();
    let children = |at: &str| {
        open.children(&path(at))
            .unwrap()
            .iter()
            .map(TreePath::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(children("/copy"), ["/copy/a", "/copy/listed"]);
    assert_eq!(children("/copy/listed"), Vec::<String>::new());
    assert_eq!(children("/again"), ["/again/a"]);
    assert_eq!(children("/src"), ["/src/.env", "/src/a"], "nothing was removed");
}

#[test]
fn a_directory_that_other_rules_hold_for_is_moved_by_copying() {
    let vault = vault();
    let seen = vault.through(rules(&["/**=write", "/new/private/**=none"]));
    change(&seen, |open| {
        drop(open.rename(&path("/src"), &path("/new")).unwrap())
    });
    let open = vault.begin().unwrap();
    assert_eq!(&open.read(&path("/new/a")).unwrap()[..], b"second needle\n");
    assert!(!open.exists(&path("/src")).unwrap());
    open.make_directory(&path("/src/private"), true).unwrap();
    open.remove(&path("/new"), true).unwrap();
    open.commit("change", "").unwrap();
    let refused = seen
        .change("mv", "", |open| open.rename(&path("/src"), &path("/new")))
        .unwrap_err();
    assert_eq!(refused.code(), "denied");
    assert!(!vault.begin().unwrap().exists(&path("/new")).unwrap());
}

#[test]
fn differences_patches_and_counts_leave_out_what_is_hidden() {
    let seen = vault().through(rules(&VIEW));
    let (from, to) = (seen.revision("@~1").unwrap(), seen.revision("@").unwrap());
    let mut changes = Vec::new();
    let (old, new) = (from.reader().unwrap(), to.reader().unwrap());
    old.diff(&new, &TreePath::root(), &mut |change| {
        changes.push(change);
        Ok(())
    })
    .unwrap();
    let files = file_changes(changes);
    let shown: Vec<String> = files
        .iter()
        .map(|file| format!("{} {}", file.status.letter(), file.path()))
        .collect();
    assert_eq!(shown, ["M /listed/x", "M /src/a"]);
    let mut patch = Vec::new();
    let options = PatchOptions::default();
    let report = write_patch(seen.store().objects(), &files, &options, &mut patch).unwrap();
    assert_eq!(report.omitted, [path("/listed/x")]);
    let patch = String::from_utf8(patch).unwrap();
    assert!(
        patch.contains("+second needle") && !patch.contains("secret") && !patch.contains("listed"),
        "{patch}"
    );
    let stat = PatchStat::of(seen.store().objects(), &files[0], &options).unwrap();
    assert!(matches!(stat, PatchStat::Binary { .. }), "{stat:?}");
    let diff = FileDiff::compute(seen.store().objects(), &files[0], &options).unwrap();
    assert!(!format!("{diff:?}").contains("needle"));
}

#[test]
fn searches_find_only_what_may_be_read() {
    let seen = vault().through(rules(&VIEW));
    let reader = seen.reader().unwrap();
    let everything = WalkSelection::everything();
    let criteria = Criteria::new(Vec::new());
    let found: Vec<String> = find(&reader, &TreePath::root(), &everything, &criteria)
        .unwrap()
        .map(|visit| visit.unwrap().path.to_string())
        .collect();
    assert_eq!(found, ["/", "/listed", "/listed/x", "/src", "/src/a"]);

    let options = GrepOptions {
        patterns: vec!["needle".into()],
        ..GrepOptions::default()
    };
    let grep = Grep::new(options).unwrap();
    let mut lines = Vec::new();
    let summary = grep
        .run(&reader, &[TreePath::root()], &mut |event| {
            lines.push(format!("{event:?}"));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(
        (
            summary.files_searched,
            summary.files_matched,
            summary.files_failed
        ),
        (1, 1, 0),
        "{lines:?}"
    );
    let named = grep.run(&reader, &[path("/listed/x")], &mut |_| {
        std::ops::ControlFlow::Continue(())
    });
    assert!(
        named
            .unwrap_err()
            .to_string()
            .contains("the rules give view there")
    );

    let place = tempfile::tempdir().unwrap();
    let index = SearchIndex::open(place.path()).unwrap();
    let (query, options) = (Query::parse("needle").unwrap(), SearchOptions::default());
    let whole = seen.unrestricted().reader().unwrap();
    let scope = |reader| SearchScope {
        key: "web",
        parent: None,
        reader,
    };
    assert_eq!(
        index.search(scope(&whole), &query, options).unwrap().hits.len(),
        3
    );
    let results = index.search(scope(&reader), &query, options).unwrap();
    let hits: Vec<String> = results.hits.iter().map(|hit| hit.path.to_string()).collect();
    assert_eq!(
        (hits, results.foreign, results.hits[0].score),
        (vec!["/src/a".to_owned()], 0, 1.0)
    );
}

#[test]
fn a_directory_with_hidden_files_only_is_found_as_an_empty_one() {
    let vault = vault();
    let seen = vault.through(rules(&["/**=read", "**/k=none"]));
    let reader = seen.reader().unwrap();
    let criteria = Criteria::new(vec![FindTest::Empty]);
    let everything = WalkSelection::everything();
    let found: Vec<String> = find(&reader, &TreePath::root(), &everything, &criteria)
        .unwrap()
        .map(|visit| visit.unwrap().path.to_string())
        .collect();
    assert_eq!(found, ["/secret"]);
}

#[test]
fn exports_hold_what_may_be_read_and_tell_of_the_rest_that_is_listed() {
    let reader = vault().through(rules(&VIEW)).reader().unwrap();
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("out");
    let report = export_directory(&reader, &TreePath::root(), &to, &DirectoryExport::default(), &()).unwrap();
    assert_eq!(
        std::fs::read_to_string(to.join("src/a")).unwrap(),
        "second needle\n"
    );
    assert!(!to.join("secret").exists() && !to.join("listed/x").exists());
    let skipped: Vec<String> = report.skipped.iter().map(ToString::to_string).collect();
    assert_eq!(skipped, ["listed/x: the rules do not let it be read"]);
    let mut archive = Vec::new();
    let report = export_tar(&reader, &TreePath::root(), &mut archive, &()).unwrap();
    assert_eq!((report.files, report.skipped.len()), (1, 1));
    let text = String::from_utf8_lossy(&archive);
    assert!(!text.contains("secret") && !text.contains("listed/x"));
    let named = export_tar(&reader, &path("/listed/x"), Vec::new(), &()).unwrap_err();
    assert_eq!(Error::from(named).code(), "denied");
}

#[test]
fn restore_of_an_unreadable_file_is_refused() {
    let vault = vault();
    let seen = vault.through(rules(&VIEW));
    let past = seen.revision("@~1").unwrap();
    let listed = seen
        .restore_paths(&past, &[path("/listed")], "checkout", "")
        .unwrap_err();
    assert_eq!(listed.code(), "denied");
    let secret = seen
        .restore_paths(&past, &[path("/secret/k")], "checkout", "")
        .unwrap_err();
    assert_eq!(secret.code(), "not-found");
    assert_eq!(
        &vault.begin().unwrap().read(&path("/listed/x")).unwrap()[..],
        b"second needle\n"
    );
}

#[test]
fn file_unreadable_in_the_past_is_not_restored_as_empty() {
    let vault = vault();
    let closed: Labels = [Label::new("closed").unwrap()].into_iter().collect();
    change(&vault, |open| open.set_labels(&a(), closed).unwrap());
    change(&vault, |open| {
        open.set_labels(&a(), Labels::default()).unwrap();
        open.write_bytes(&a(), b"now").unwrap();
    });
    let seen = vault.through(rules(&["/**=write", "label:closed=view@1"]));
    let past = seen.revision("@~1").unwrap();
    for top in ["/src/a", "/src", "/"] {
        let refused = seen
            .restore_paths(&past, &[path(top)], "checkout", "")
            .unwrap_err();
        assert_eq!(refused.code(), "denied", "{top}");
        assert_eq!(&vault.begin().unwrap().read(&a()).unwrap()[..], b"now", "{top}");
    }
}

#[test]
fn a_root_that_is_only_passed_through_comes_back_where_something_may() {
    let vault = vault();
    let seen = vault.through(rules(&["/src/**=write"]));
    let past = seen.revision("@~1").unwrap();
    assert_eq!(
        seen.restore_paths(&past, &[path("/")], "checkout", "")
            .unwrap()
            .changed,
        1
    );
    let open = vault.begin().unwrap();
    assert_eq!(&open.read(&a()).unwrap()[..], b"first needle\n");
    assert_eq!(&open.read(&path("/secret/k")).unwrap()[..], b"second needle\n");
}

#[test]
fn stored_rules_hold_until_they_are_taken_away_and_go_along_with_a_fork() {
    let vault = vault();
    let list: Vec<Rule> = VIEW.iter().map(|text| Rule::parse(text).unwrap()).collect();
    vault.store_rules(Some(&list)).unwrap();
    assert_eq!(vault.stored_rules().unwrap().unwrap(), list);
    let fork = vault.fork(&[name("fork")]).unwrap().remove(0);
    for vault in [&vault, &fork] {
        let seen = vault.through_stored().unwrap();
        assert!(seen.reader().unwrap().find(&path("/secret/k")).is_err());
        assert!(vault.reader().unwrap().find(&path("/secret/k")).is_ok());
    }
    fork.store_rules(None).unwrap();
    let from_fork = fork.through_stored().unwrap();
    assert!(from_fork.reader().unwrap().find(&path("/secret/k")).is_ok());
    let other = from_fork.revision("web:").unwrap();
    assert!(
        other.reader().unwrap().find(&path("/secret/k")).is_err(),
        "the other vault has its own rules"
    );
}

#[test]
fn rules_that_cannot_be_decided_by_are_not_stored() {
    let vault = vault();
    let many: Vec<Rule> = (0..6000)
        .map(|index| Rule::parse(&format!("/{index}=read")).unwrap())
        .collect();
    assert_eq!(vault.store_rules(Some(&many)).unwrap_err().code(), "bad-rules");
    assert_eq!(vault.stored_rules().unwrap(), None);
}

#[test]
fn labels_hide_and_follow() {
    let vault = vault();
    let private: Labels = [Label::new("private").unwrap()].into_iter().collect();
    change(&vault, |open| {
        open.set_labels(&path("/src"), private.clone()).unwrap()
    });
    let view = rules(&["/**=write", "label:private=none"]);
    let hidden = |vault: &Vault, at: &str| {
        let seen = vault.through(view.clone());
        let stored = seen.reader().unwrap().find(&path(at)).is_err();
        assert_eq!(stored, !seen.begin().unwrap().exists(&path(at)).unwrap(), "{at}");
        stored
    };
    assert!(hidden(&vault, "/src") && hidden(&vault, "/src/a") && !hidden(&vault, "/listed"));
    change(&vault, |open| {
        drop(open.rename(&path("/src"), &path("/moved")).unwrap())
    });
    assert!(hidden(&vault, "/moved/a"), "a label follows a rename");
    let fork = vault.fork(&[name("fork")]).unwrap().remove(0);
    assert!(hidden(&fork, "/moved/a"), "a label follows a fork");
    change(&vault, |open| open.remove(&path("/moved"), true).unwrap());
    vault
        .restore_paths(&vault.revision("@~1").unwrap(), &[path("/moved")], "checkout", "")
        .unwrap();
    assert!(hidden(&vault, "/moved/a"), "a label comes back");
    let mut file = Vec::new();
    vault.export_bundle(&mut file, "file", &mut |_| {}).unwrap();
    let (copy, _) = vault
        .store()
        .import_bundle(&mut &file[..], "file", Some(&name("copy")), &mut |_| {})
        .unwrap();
    assert!(hidden(&copy, "/moved/a"), "a label is in a vault file");
    change(&vault, |open| {
        open.set_labels(&path("/moved"), Labels::default()).unwrap()
    });
    assert!(!hidden(&vault, "/moved/a"));
    vault.undo().unwrap();
    assert!(hidden(&vault, "/moved/a"), "an undo brings the label back");
}

#[test]
fn restore_through_rules_keeps_labels() {
    let vault = vault();
    let draft: Labels = [Label::new("draft").unwrap()].into_iter().collect();
    change(&vault, |open| open.set_labels(&a(), draft.clone()).unwrap());
    let seen = vault.through(rules(&["/**=write"]));
    change(&seen, |open| open.remove(&a(), false).unwrap());
    seen.restore_paths(&seen.revision("@~1").unwrap(), &[a()], "checkout", "")
        .unwrap();
    assert_eq!(vault.begin().unwrap().labels(&a()).unwrap(), draft);
}

#[test]
fn a_checkpoint_can_be_named_through_rules() {
    let seen = vault().through(rules(&VIEW));
    seen.save_checkpoint(&fresh(), None).unwrap();
    assert_eq!(seen.checkpoints().unwrap().len(), 1);
}
