use std::collections::{BTreeMap, BTreeSet};

use avfs_testkit::Dice;
use avfs_tree::{BaseTree, InodeKind, validate};

use super::*;
use crate::error::FileError;
use crate::record::{Head, VaultRecord};
use crate::{Store, Vault, VaultName};

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

/// A vault with its first state, from which two sides go on.
struct Fork {
    vault: Vault,
    base: VaultRecord,
}

impl Fork {
    fn new(steps: &str) -> Fork {
        let vault = Store::in_memory()
            .create_vault(&VaultName::new("main").unwrap())
            .unwrap();
        let empty = vault.record().unwrap().0;
        let start = Fork { vault, base: empty };
        let base = start.side(steps);
        Fork { base, ..start }
    }

    /// The state that one side makes of the base.
    fn side(&self, steps: &str) -> VaultRecord {
        let open = OpenVault::scratch(self.vault.clone(), self.base.clone()).unwrap();
        steps
            .split(", ")
            .filter(|step| !step.is_empty())
            .for_each(|step| {
                // A random step may be one that cannot be done.
                let _ = perform(&open, step);
            });
        self.stored(open.tree().freeze().unwrap().base())
    }

    fn stored(&self, base: &BaseTree) -> VaultRecord {
        let logged = self.vault.logged("test", "", None);
        let snapshot = self
            .vault
            .store()
            .put_snapshot(base.root.clone(), Vec::new(), &logged)
            .unwrap();
        let head = Head {
            snapshot,
            inodes: base.inodes,
            journal: 0,
            conflicts: None,
        };
        VaultRecord {
            head,
            ..self.base.clone()
        }
    }

    fn base_of(&self, record: &VaultRecord) -> BaseTree {
        self.vault.base_of(&record.head).unwrap()
    }

    fn number(&self, record: &VaultRecord, at: &str) -> u64 {
        let open = OpenVault::scratch(self.vault.clone(), record.clone()).unwrap();
        open.stat(&path(at)).unwrap().ino.0
    }

    /// Brings `ours` onto `theirs`: the new state, or the path where they met.
    fn merged(&self, ours: &VaultRecord, theirs: &VaultRecord) -> Result<VaultRecord, String> {
        let onto = OpenVault::scratch(self.vault.clone(), theirs.clone()).unwrap();
        let (base, given) = (self.base_of(&self.base), self.base_of(ours));
        match bring_onto(&onto, base, given) {
            Ok(()) => Ok(self.stored(onto.tree().freeze().unwrap().base())),
            Err(Error::File(FileError::Overtaken { path: Some(path), .. })) => Err(path.to_string()),
            Err(error) => panic!("{error}"),
        }
    }

    fn shown(&self, record: &VaultRecord) -> Shown {
        let open = OpenVault::scratch(self.vault.clone(), record.clone()).unwrap();
        let mut shown = Shown::default();
        let mut pending = vec![TreePath::root()];
        let mut numbers: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        while let Some(at) = pending.pop() {
            let attr = open.stat(&at).unwrap();
            let what = match attr.kind {
                InodeKind::Directory => {
                    pending.extend(open.children(&at).unwrap());
                    format!("{:o}/", attr.meta.mode)
                }
                _ => {
                    numbers.entry(attr.ino.0).or_default().insert(at.to_string());
                    format!(
                        "{:o} {}",
                        attr.meta.mode,
                        String::from_utf8_lossy(&open.read(&at).unwrap())
                    )
                }
            };
            shown.entries.insert(at.to_string(), what);
        }
        shown.groups = numbers.into_values().filter(|names| names.len() > 1).collect();
        shown
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Shown {
    entries: BTreeMap<String, String>,
    /// The names of each file with several.
    groups: BTreeSet<BTreeSet<String>>,
}

impl Shown {
    fn group(&self, at: &str) -> BTreeSet<String> {
        self.groups
            .iter()
            .find(|group| group.contains(at))
            .cloned()
            .unwrap_or_default()
    }
}

fn perform(open: &OpenVault, step: &str) -> Result<()> {
    match step.split(' ').collect::<Vec<_>>()[..] {
        ["write", at, text] => open.write_bytes(&path(at), text.as_bytes()),
        ["mkdir", at] => open.make_directory(&path(at), false),
        ["rm", at] => open.remove(&path(at), true),
        ["mv", from, to] => open.rename(&path(from), &path(to)).map(drop),
        ["ln", from, to] => open.hard_link(&path(from), &path(to)),
        ["chmod", at, mode] => open.set_mode(&path(at), u32::from_str_radix(mode, 8).unwrap()),
        _ => panic!("unknown step {step}"),
    }
}

/// Both sides go on from `base`; `expect` is the new state, or where they met.
#[track_caller]
fn check(base: &str, ours: &str, theirs: &str, expect: &str) {
    let fork = Fork::new(base);
    let found = match fork.merged(&fork.side(ours), &fork.side(theirs)) {
        Err(met) => format!("met at {met}"),
        Ok(merged) => {
            let entries = fork.shown(&merged).entries;
            let shown = entries
                .iter()
                .filter(|(at, _)| *at != "/")
                .map(|(at, what)| format!("{at} {what}"));
            shown.collect::<Vec<_>>().join(", ")
        }
    };
    assert_eq!(found, expect);
}

#[test]
fn different_files_are_both_there() {
    check(
        "write /a 1, write /b 1",
        "write /a 2",
        "write /b 3",
        "/a 644 2, /b 644 3",
    );
    check(
        "mkdir /d",
        "write /d/x 1",
        "write /d/y 2",
        "/d 755/, /d/x 644 1, /d/y 644 2",
    );
    check("write /a 1", "rm /a", "write /b 2", "/b 644 2");
    check(
        "mkdir /d, write /d/f 1",
        "mv /d /e",
        "write /g 2",
        "/e 755/, /e/f 644 1, /g 644 2",
    );
    check("write /a 1", "rm /a", "rm /a", "");
}

#[test]
fn one_file_is_not() {
    check("write /a 1", "write /a 2", "write /a 3", "met at /a");
    check("write /a 1", "rm /a", "write /a 3", "met at /a");
    check("write /a 1", "chmod /a 600", "rm /a", "met at /a");
    check("", "write /a 1", "write /a 1", "met at /a");
    check("", "mkdir /a", "mkdir /a", "met at /a");
}

#[test]
fn nothing_is_put_into_what_the_other_side_removed() {
    check("mkdir /d", "write /d/x 1", "rm /d", "met at /d");
    check("mkdir /d", "rm /d", "write /d/x 1", "met at /d");
    check(
        "mkdir /d, mkdir /d/e",
        "write /d/e/x 1",
        "mv /d /f",
        "met at /d/e",
    );
    check("mkdir /d", "rm /d, write /d file", "write /d/x 1", "met at /d");
}

#[test]
fn attributes_of_a_directory_come_from_the_side_that_changed_them() {
    check("mkdir /d", "chmod /d 700", "write /d/x 1", "/d 700/, /d/x 644 1");
    check("mkdir /d", "write /d/x 1", "chmod /d 700", "/d 700/, /d/x 644 1");
    check("mkdir /d", "chmod /d 700", "chmod /d 700", "/d 700/");
    check("mkdir /d", "chmod /d 700", "chmod /d 750", "met at /d");
}

#[test]
fn a_file_with_several_names_is_one_file() {
    let linked = "write /a 1, ln /a /b";
    check(linked, "write /a 2", "write /c 3", "/a 644 2, /b 644 2, /c 644 3");
    check(linked, "write /a 2", "write /b 3", "met at /a");
    check(linked, "write /a 2", "ln /a /c", "met at /a");
    check(linked, "ln /a /c", "write /b 2", "met at /a");
    check("write /a 1", "ln /a /c", "write /a 2", "met at /a");
    check(linked, "rm /b", "write /c 3", "/a 644 1, /c 644 3");
}

#[test]
fn moved_entry_keeps_its_inode_number() {
    let fork = Fork::new("mkdir /d, write /d/f 1, write /d/g 1, write /a 1, write /b 1");
    let ours = fork.side("mv /d /e, rm /e/g, write /e/f 2, mv /a /b");
    let merged = fork.merged(&ours, &fork.side("write /other 3")).unwrap();
    let entries = fork.shown(&merged).entries;
    assert_eq!(
        entries.keys().map(String::as_str).collect::<Vec<_>>(),
        ["/", "/b", "/e", "/e/f", "/other"]
    );
    for (from, to) in [("/d", "/e"), ("/d/f", "/e/f"), ("/a", "/b")] {
        assert_eq!(
            fork.number(&merged, to),
            fork.number(&fork.base, from),
            "{from} to {to}"
        );
    }
}

const NAMES: [&str; 7] = ["/a", "/b", "/d", "/d/x", "/d/y", "/d/e", "/d/e/z"];

fn random_steps(dice: &mut Dice, count: usize) -> String {
    let name = |dice: &mut Dice| NAMES[dice.below(NAMES.len())];
    let steps = (0..count).map(|_| match dice.below(9) {
        0..4 => format!("write {} {}", name(dice), dice.below(1000)),
        4 => format!("mkdir {}", name(dice)),
        5 => format!("rm {}", name(dice)),
        6 => format!("mv {} {}", name(dice), name(dice)),
        7 => format!("ln {} {}", name(dice), name(dice)),
        _ => format!("chmod {} {:o}", name(dice), 0o600 + dice.below(64)),
    });
    steps.collect::<Vec<_>>().join(", ")
}

/// Each path is as the side has it that changed it, and so are its other names.
fn check_random(seed: u64) -> bool {
    let mut dice = Dice::new(seed);
    let mut steps = |most: usize| {
        let count = 1 + dice.below(most);
        random_steps(&mut dice, count)
    };
    let (before, ours, theirs) = (steps(15), steps(5), steps(2));
    let fork = Fork::new(&before);
    let (our_state, their_state) = (fork.side(&ours), fork.side(&theirs));
    let Ok(merged) = fork.merged(&our_state, &their_state) else {
        return false;
    };
    let story = format!("seed {seed}: {before} | {ours} | {theirs}");
    let [base, ours, theirs, found] =
        [&fork.base, &our_state, &their_state, &merged].map(|record| fork.shown(record));
    let all: BTreeSet<&String> = [&base, &ours, &theirs]
        .iter()
        .flat_map(|shown| shown.entries.keys())
        .collect();
    for at in all {
        let side = |shown: &Shown| (shown.entries.get(at).cloned(), shown.group(at));
        let (was, our, their) = (side(&base), side(&ours), side(&theirs));
        let expected = if our == was { their } else { our };
        assert_eq!(side(&found), expected, "{at} in {story}");
    }
    let state = (merged.head.snapshot, merged.head.inodes);
    let flaws = validate(fork.vault.store().objects(), [state], 1);
    assert!(flaws.is_empty(), "{story}");
    true
}

#[test]
fn random_changes_of_two_sides_are_all_there_or_refused() {
    let start = Dice::fresh_seed() % 1_000_000_000;
    let done = (start..start + 1_000).filter(|seed| check_random(*seed)).count();
    assert!(
        (100..980).contains(&done),
        "{done} of 1000 from seed {start} were brought together"
    );
}
