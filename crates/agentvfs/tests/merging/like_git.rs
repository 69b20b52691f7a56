//! Generated histories, merged here and by `git merge-tree`: the same trees where git has no conflict, and
//! conflicts where git has some. Git is configured to detect only moves of unchanged contents, and none of
//! whole directories: see docs/merge.md.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use agentvfs::{OpenVault, Store, Vault};
use avfs_testkit::Dice;
use sha1::{Digest, Sha1};

use crate::support::{change, name, path};
use crate::{kinds, merge};

const CASES: usize = 300;

/// Text and whether it can be executed, by path without a leading `/`.
type Files = BTreeMap<String, (String, bool)>;

struct Case {
    base: Files,
    ours: Files,
    theirs: Files,
    main: Vault,
    fork: Vault,
}

#[test]
fn trees_are_merged_as_git_does() {
    let seed = std::env::var("AVFS_FUZZ_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(11);
    let (store, mut dice) = (Store::in_memory(), Dice::new(seed));
    let cases: Vec<Case> = (0..CASES).map(|number| case(&store, &mut dice, number)).collect();
    let mut clean = 0;
    for (number, (case, git)) in cases.iter().zip(merged_by_git(&cases)).enumerate() {
        let report = merge(&case.main, &case.fork);
        let here = report.conflicts.is_empty().then(|| tree_id(&case.main));
        assert_eq!(
            here,
            git,
            "case {number}: {:?}\n{}",
            kinds(&report),
            described(case)
        );
        clean += usize::from(here.is_some());
    }
    assert!(
        clean > CASES / 4 && clean < CASES * 9 / 10,
        "{clean} of {CASES} were clean"
    );
}

fn described(case: &Case) -> String {
    format!(
        "base {:#?}\nours {:#?}\ntheirs {:#?}",
        case.base, case.ours, case.theirs
    )
}

fn case(store: &Store, dice: &mut Dice, number: usize) -> Case {
    let main = store.create_vault(&name(&format!("main-{number}"))).unwrap();
    let mut base = Files::new();
    for file in 0..4 + dice.below(8) {
        let at = format!("{}{file}", ["", "a/", "b/", "a/c/"][dice.below(4)]);
        base.insert(at, (text(dice), false));
    }
    change(&main, |open| {
        base.iter().for_each(|(at, (text, _))| make(open, at, text))
    });
    let fork = main.fork(&[name(&format!("fork-{number}"))]).unwrap().remove(0);
    let [ours, theirs] = [&main, &fork].map(|vault| {
        let mut files = base.clone();
        change(vault, |open| {
            (0..1 + dice.below(5)).for_each(|_| act(open, &base, &mut files, dice))
        });
        files
    });
    Case {
        base,
        ours,
        theirs,
        main,
        fork,
    }
}

/// Lines that occur nowhere else.
fn text(dice: &mut Dice) -> String {
    (0..6).map(|_| format!("{:x}\n", dice.roll())).collect()
}

fn make(open: &OpenVault, at: &str, text: &str) {
    crate::make(open, &format!("/{at}"), text);
}

/// One change, to the vault and to the list of its contents. A file is either moved or changed: git would not
/// detect both.
fn act(open: &OpenVault, base: &Files, files: &mut Files, dice: &mut Dice) {
    let known: Vec<String> = files.keys().cloned().collect();
    let Some(at) = known.get(dice.below(known.len().max(1))) else {
        return;
    };
    let full = path(&format!("/{at}"));
    match dice.below(6) {
        0 => {
            open.remove(&full, false).unwrap();
            files.remove(at);
        }
        1 => {
            let to = format!("{}moved-{}", ["", "a/", "d/"][dice.below(3)], dice.below(3));
            let unchanged = base.get(at).is_some_and(|before| before.0 == files[at].0);
            if unchanged && !files.contains_key(&to) {
                let target = path(&format!("/{to}"));
                open.make_directory(&target.split_last().unwrap().0, true)
                    .unwrap();
                open.rename(&full, &target).unwrap();
                let moved = files.remove(at).unwrap();
                files.insert(to, moved);
            }
        }
        2 => {
            let executable = !files[at].1;
            open.set_mode(&full, if executable { 0o755 } else { 0o644 })
                .unwrap();
            files.get_mut(at).unwrap().1 = executable;
        }
        3 => {
            let new = format!("{}new-{}", ["", "a/", "e/"][dice.below(3)], dice.below(2));
            let text = text(dice);
            make(open, &new, &text);
            let executable = files.get(&new).is_some_and(|(_, executable)| *executable);
            files.insert(new, (text, executable));
        }
        _ if at.contains("moved") => {}
        _ => {
            let mut lines: Vec<String> = files[at].0.lines().map(str::to_owned).collect();
            let line = dice.below(lines.len());
            lines[line] = format!("{:x}", dice.roll());
            let text = lines.join("\n") + "\n";
            make(open, at, &text);
            files.get_mut(at).unwrap().0 = text;
        }
    }
}

/// The tree that git makes of each case; none if there is a conflict.
fn merged_by_git(cases: &[Case]) -> Vec<Option<String>> {
    let directory = tempfile::tempdir().unwrap();
    git(directory.path(), &["init", "-q", "--bare"], b"");
    let mut stream = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let sides = [
            ("base", &case.base, None),
            ("ours", &case.ours, Some("base")),
            ("theirs", &case.theirs, Some("base")),
        ];
        for (side, files, parent) in sides {
            commit(
                &mut stream,
                &format!("{side}-{number}"),
                parent.map(|parent| format!("{parent}-{number}")),
                files,
            );
        }
    }
    git(directory.path(), &["fast-import", "--quiet"], &stream);
    let pairs: String = (0..cases.len())
        .map(|number| format!("ours-{number} theirs-{number}\n"))
        .collect();
    let merge = [
        "-c",
        "merge.directoryRenames=false",
        "merge-tree",
        "-X",
        "find-renames=100%",
    ];
    let merge = [&merge[..], &["--stdin", "--no-messages", "--name-only"]].concat();
    let output = git(directory.path(), &merge, pairs.as_bytes());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split('\0');
    let mut results = Vec::new();
    while let Some(status) = words.next().filter(|status| !status.is_empty()) {
        let tree = words.next().unwrap().to_owned();
        words.by_ref().take_while(|name| !name.is_empty()).for_each(drop);
        results.push((status == "1").then_some(tree));
    }
    assert_eq!(results.len(), cases.len());
    results
}

fn git(directory: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    output
}

fn commit(stream: &mut Vec<u8>, branch: &str, parent: Option<String>, files: &Files) {
    let mut put = |text: String| stream.extend(text.into_bytes());
    put(format!(
        "commit refs/heads/{branch}\ncommitter t <t> 1 +0000\ndata 0\n"
    ));
    if let Some(parent) = parent {
        put(format!("from refs/heads/{parent}\ndeleteall\n"));
    }
    for (at, (text, executable)) in files {
        let mode = if *executable { "100755" } else { "100644" };
        put(format!("M {mode} inline {at}\ndata {}\n{text}\n", text.len()));
    }
}

/// The git object id of the tree of a vault.
fn tree_id(vault: &Vault) -> String {
    let id = directory_id(vault, "").unwrap_or_else(|| object_id("tree", b""));
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// For a directory with files in it; git knows no others.
fn directory_id(vault: &Vault, at: &str) -> Option<Vec<u8>> {
    let reader = vault.reader().unwrap();
    let mut rows = Vec::new();
    for listed in reader.list(&path(&format!("/{at}"))).unwrap() {
        let (entry, found) = listed.unwrap();
        let name = String::from_utf8(entry.as_bytes().to_vec()).unwrap();
        let below = if at.is_empty() {
            name.clone()
        } else {
            format!("{at}/{name}")
        };
        if found.entry.is_directory() {
            // Git sorts a directory as if its name ended with a slash.
            rows.extend(directory_id(vault, &below).map(|id| (format!("{name}/"), "40000", name, id)));
            continue;
        }
        let mode = if found.entry.meta.mode & 0o111 != 0 {
            "100755"
        } else {
            "100644"
        };
        let id = object_id("blob", &reader.read(&path(&format!("/{below}"))).unwrap());
        rows.push((name.clone(), mode, name, id));
    }
    rows.sort();
    let bytes = rows
        .iter()
        .flat_map(|(_, mode, name, id)| [format!("{mode} {name}\0").as_bytes(), &id[..]].concat());
    let bytes: Vec<u8> = bytes.collect();
    (!bytes.is_empty()).then(|| object_id("tree", &bytes))
}

fn object_id(kind: &str, bytes: &[u8]) -> Vec<u8> {
    let mut hasher = Sha1::new();
    hasher.update(format!("{kind} {}\0", bytes.len()));
    hasher.update(bytes);
    hasher.finalize().to_vec()
}
