//! Checkpoints, history, and the ways back.

use avfs_store::{EmbeddedStore, OpenOptions, RefEdit, RefStore};
use insta::assert_snapshot;

use crate::sandbox::Sandbox;
use crate::seed::{contents, path, remove, write};

#[test]
fn a_checkpoint_is_saved_listed_shown_and_deleted() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a.txt", "one\n"), ("src/b.txt", "two\n")]);
    assert_snapshot!(sandbox.scrubbed("checkpoint save v1 -m first"), @"
    status 0
    --- data
    v1
    --- talk
    kept snapshot ID: 8 B in 3 files and directories
    ");
    write(&vault, "a.txt", b"changed\n");
    remove(&vault, "src/b.txt");
    write(&vault, "c.txt", b"new\n");
    sandbox.run("checkpoint save v2");
    assert_snapshot!(sandbox.scrubbed("checkpoint list"), @"
    status 0
    --- data
    NAME  SNAPSHOT      AGE             ABOUT
    v2    ID  just now
    v1    ID  just now        first
    --- talk
    ");
    assert_snapshot!(without_saver(&sandbox.scrubbed("checkpoint show v1")), @"
    status 0
    --- data
    v1  ID
    saved WHEN by WHO, entry 3 of the history
    3 files, 8 B

        first

    2 files changed since the beginning of the vault
    added  a.txt
    added  src/b.txt
    --- talk
    ");
    let shown = sandbox.run("checkpoint show v2");
    assert!(
        shown.contains("3 files changed since v1\nmodified  a.txt\nadded     c.txt\nremoved   src/b.txt\n"),
        "{shown}"
    );
    assert_snapshot!(sandbox.scrubbed("checkpoint delete v1"), @"
    status 0
    --- data
    --- talk
    deleted checkpoint v1 (snapshot ID)
    ");
    assert_eq!(
        sandbox.bad("checkpoint show v1"),
        (3, "unknown-checkpoint".to_owned())
    );
}

/// Removes the time and the author of a checkpoint.
fn without_saver(text: &str) -> String {
    let (before, rest) = text.split_once("saved ").unwrap();
    let (saver, after) = rest.split_once(", entry ").unwrap();
    assert!(saver.contains(" by "), "{saver}");
    format!("{before}saved WHEN by WHO, entry {after}")
}

#[test]
fn checkpoints_without_a_name_are_named_by_the_time_and_never_clash() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1")]);
    for _ in 0..3 {
        let name = String::from_utf8(sandbox.data("checkpoint save -q")).unwrap();
        let digits = name
            .trim()
            .strip_prefix("cp-")
            .unwrap()
            .split('-')
            .map(str::len)
            .collect::<Vec<_>>();
        assert!(digits.starts_with(&[8, 6]), "{name}");
    }
    assert_eq!(vault.checkpoints().unwrap().len(), 3);
}

#[test]
fn a_taken_or_bad_name_changes_nothing() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1")]);
    sandbox.run("checkpoint save v1");
    assert_eq!(
        sandbox.bad("checkpoint save v1"),
        (4, "checkpoint-exists".to_owned())
    );
    assert_eq!(sandbox.bad("checkpoint save a/b"), (2, "bad-name".to_owned()));
    assert_eq!(
        sandbox.bad("checkpoint delete v1 v9"),
        (3, "unknown-checkpoint".to_owned())
    );
    assert_eq!(
        vault.checkpoints().unwrap().len(),
        1,
        "one unknown name, and none is deleted"
    );
}

#[test]
fn an_unknown_checkpoint_gets_a_suggestion() {
    let sandbox = Sandbox::new();
    sandbox.seed("web", &[("a", "1")]);
    sandbox.run("checkpoint save before-upgrade");
    assert_snapshot!(sandbox.run("checkpoint show before-upgrad"), @"
    status 3
    --- data
    --- talk
    error: vault 'web' has no checkpoint 'before-upgrad'
    hint: did you mean 'before-upgrade'?
    ");
    assert_snapshot!(sandbox.run("checkpoint restore befor-upgrade"), @"
    status 3
    --- data
    --- talk
    error: 'befor-upgrade' is neither a checkpoint of vault 'web', nor a vault, nor a snapshot of it
    hint: did you mean 'before-upgrade'?
    ");
    assert_eq!(
        sandbox.bad("checkpoint restore nonsense"),
        (3, "unknown-revision".to_owned())
    );
}

#[test]
fn a_restore_and_its_undo_give_the_same_bytes() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1"), ("dir/b", "2")]);
    let first = contents(&vault.reader().unwrap());
    sandbox.run("checkpoint save v1");
    write(&vault, "a", b"other");
    remove(&vault, "dir");
    write(&vault, "new", b"new");
    let second = contents(&vault.reader().unwrap());
    let restored = sandbox.object("checkpoint restore v1 --json");
    assert_eq!(
        (&restored["kind"], &restored["from"]),
        (&"restored".into(), &"v1".into())
    );
    assert_eq!(restored["snapshot"], vault.head().unwrap().to_string());
    assert_eq!(contents(&vault.reader().unwrap()), first);
    assert_snapshot!(sandbox.scrubbed("undo"), @"
    status 0
    --- data
    --- talk
    undid change 7 in vault 'web': restore v1 (3 files)
    `avfs redo` does it again
    ");
    assert_eq!(contents(&vault.reader().unwrap()), second);
    assert_snapshot!(sandbox.scrubbed("checkpoint restore @"), @"
    status 0
    --- data
    --- talk
    nothing to do: everything is as in @
    ");
}

#[test]
fn single_paths_come_back_from_a_checkpoint_and_from_another_vault() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1"), ("b", "1"), ("dir/c", "1")]);
    sandbox.run("checkpoint save v1");
    for file in ["a", "b", "dir/c"] {
        write(&vault, file, b"2");
    }
    assert_snapshot!(sandbox.scrubbed("checkpoint restore v1 --path a --path dir"), @"
    status 0
    --- data
    --- talk
    2 files from v1, now snapshot ID (`avfs undo` undoes it)
    ");
    let read = |file: &str| vault.reader().unwrap().read(&path(file)).unwrap().to_vec();
    assert_eq!([read("a"), read("b"), read("dir/c")], [b"1", b"2", b"1"]);
    sandbox.seed("fix", &[("a", "from fix")]);
    sandbox.run("checkout fix: a --vault web");
    assert_eq!(read("a"), b"from fix");
    assert_eq!(
        sandbox.bad("checkout fix: nowhere --vault web"),
        (3, "not-found".to_owned())
    );
    assert_eq!(
        sandbox.bad("checkout v1 .. --vault web"),
        (2, "bad-name".to_owned())
    );
}

#[test]
fn revert_goes_to_the_last_checkpoint_or_to_the_fork_base() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1")]);
    assert_snapshot!(sandbox.run("revert a"), @"
    status 4
    --- data
    --- talk
    error: vault 'web' has no checkpoint to go back to
    hint: save one with `avfs checkpoint save NAME`
    ");
    let name = agentvfs::VaultName::new("fix").unwrap();
    let fork = vault.fork(&[name]).unwrap().remove(0);
    write(&fork, "a", b"2");
    let read = || fork.reader().unwrap().read(&path("a")).unwrap().to_vec();
    assert_eq!(sandbox.object("revert a --vault fix --json")["changed"], 1);
    assert_eq!(read(), b"1");
    write(&fork, "a", b"3");
    sandbox.run("checkpoint save v3 --vault fix");
    write(&fork, "a", b"4");
    sandbox.run("revert a --vault fix");
    assert_eq!(read(), b"3");
}

#[test]
fn undo_reverts_step_by_step_and_says_when_nothing_is_left() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1"), ("a", "2"), ("a", "3")]);
    assert_snapshot!(sandbox.run("undo --steps 2"), @"
    status 0
    --- data
    --- talk
    undid change 4 in vault 'web': write /a (1 file)
    undid change 3 in vault 'web': write /a (1 file)
    `avfs redo` does it again
    ");
    assert_eq!(&vault.reader().unwrap().read(&path("a")).unwrap()[..], b"1");
    assert_snapshot!(sandbox.run("undo -s 5"), @"
    status 1
    --- data
    --- talk
    undid change 2 in vault 'web': write /a (1 file)
    `avfs redo` does it again
    warning: only 1 change could be undone
    ");
    assert_eq!(sandbox.bad("undo"), (4, "nothing-to-undo".to_owned()));
}

#[test]
fn the_log_tells_what_happened_newest_first() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1"), ("b", "22")]);
    sandbox.run("checkpoint save v1");
    write(&vault, "a", b"333");
    remove(&vault, "a");
    assert_snapshot!(sandbox.scrubbed("log"), @"
    status 0
    --- data
    5  ID  just now        seed      rm /a
    4  ID  just now        seed      write /a
    3  ID  just now        seed      write /b  [v1]
    2  ID  just now        seed      write /a
    1  ID  just now        seed      create
    --- talk
    ");
    assert_snapshot!(sandbox.scrubbed("log a"), @"
    status 0
    --- data
    5  ID  just now        seed        removed  rm /a
    4  ID  just now        seed            3 B  write /a
    2  ID  just now        seed            1 B  write /a
    --- talk
    ");
    let log = sandbox.object("log -n 2 --json");
    let actions: Vec<&str> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    assert_eq!(
        (log["kind"].as_str(), actions),
        (Some("log"), vec!["rm /a", "write /a"])
    );
    let versions = sandbox.object("log a --json");
    let sizes: Vec<Option<u64>> = versions["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| version["size"].as_u64())
        .collect();
    assert_eq!(
        (versions["path"].as_str(), sizes),
        (Some("/a"), vec![None, Some(3), Some(1)])
    );
    assert_eq!(sandbox.bad("log nowhere"), (3, "not-found".to_owned()));
}

#[test]
fn a_name_that_steers_a_terminal_is_escaped_in_the_log() {
    let sandbox = Sandbox::new();
    sandbox.seed("web", &[("\u{1b}[31mred", "1")]);
    let log = sandbox.run("log");
    assert!(
        log.contains("write /\\u{1b}[31mred") && !log.contains('\u{1b}'),
        "{log}"
    );
}

#[test]
fn the_beginning_of_an_id_must_say_which() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1")]);
    let id = vault.history().entries(None, 1).unwrap()[0].snapshot.to_string();
    assert_eq!(
        sandbox.object(&format!("checkpoint restore {} --json", &id[..6]))["changed"],
        0
    );
    assert_eq!(sandbox.bad(&format!("checkpoint restore {}", &id[..5])).0, 3);
    let no_such = if id.starts_with("000000") {
        "ffffff"
    } else {
        "000000"
    };
    assert_eq!(
        sandbox.bad(&format!("checkout {no_such} a")),
        (3, "unknown-revision".to_owned())
    );
    add_twin(&sandbox, vault.id(), &id);
    assert_snapshot!(sandbox.run(&format!("checkout {} a", &id[..8])).replace(&id[..8], "DIGITS"), @"
    status 2
    --- data
    --- talk
    error: 'DIGITS' could be several snapshots of vault 'web'
    hint: give more digits of the id
    ");
}

/// Adds an entry to the history whose snapshot has an id with the same beginning. Such an id cannot be
/// chosen, so the snapshot does not exist.
fn add_twin(sandbox: &Sandbox, vault: agentvfs::VaultId, id: &str) {
    let store = EmbeddedStore::open(&sandbox.store(), OpenOptions::default()).unwrap();
    let key = |seq: u64| format!("history/{vault}/{seq:012}");
    let record = String::from_utf8(store.read(&key(2)).unwrap().unwrap()).unwrap();
    let last = if id.ends_with('0') { "1" } else { "0" };
    let twin = record.replace(id, &format!("{}{last}", &id[..63]));
    store
        .commit(&[RefEdit::create(key(3), twin.into_bytes())])
        .unwrap();
}

#[test]
fn lines_with_a_mistake_are_refused() {
    let sandbox = Sandbox::new();
    for line in [
        "log --graph src",
        "undo --steps 0",
        "checkpoint",
        "checkout v1",
        "revert",
        "log ..",
    ] {
        assert_eq!(sandbox.bad(line).0, 2, "{line}");
    }
    assert_eq!(sandbox.bad("log"), (2, "no-vault".to_owned()));
    assert_eq!(
        sandbox.bad("log --vault nowhere"),
        (3, "unknown-vault".to_owned())
    );
}
