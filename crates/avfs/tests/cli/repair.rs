//! `avfs fsck --repair` never makes anything unreachable, and reports losses.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::seed::path;

/// Two vaults, a checkpoint and a history, all of it in the database and not in its log.
fn folded() -> Sandbox {
    let sandbox = Sandbox::new();
    for line in [
        "vault create web --use",
        "write a one",
        "checkpoint save kept",
        "write a two",
        "vault fork web fix",
        "write --vault fix a three",
    ] {
        sandbox.good(line);
    }
    let database = rusqlite::Connection::open(sandbox.store().join("store.db")).unwrap();
    database
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    sandbox
}

fn flip(place: &Path, at: usize) {
    let mut bytes = fs::read(place).unwrap();
    bytes[at] ^= 2;
    fs::write(place, bytes).unwrap();
}

/// The same without another look at the file: closing it would end the locks that this process has on it.
fn flip_in_place(place: &Path, at: u64) {
    let byte = |byte: u8| {
        format!(
            "printf '\\{byte:03o}' | dd of={} bs=1 seek={at} conv=notrunc",
            place.display()
        )
    };
    let done = std::process::Command::new("sh")
        .args(["-c", &byte(b'i' ^ 2)])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

fn check_whole(sandbox: &Sandbox, case: &str) {
    let state = |arguments: &str| sandbox.good(&format!("cat {arguments}")).trim().to_owned();
    assert_eq!(state("a"), "two", "{case}");
    assert_eq!(state("--at kept a"), "one", "{case}");
    assert_eq!(state("--at @~1 a"), "one", "{case}");
    assert_eq!(state("--vault fix a"), "three", "{case}");
}

#[test]
fn a_damaged_database_costs_no_vault_and_no_object() {
    let harms: [(&str, fn(&Path)); 5] = [
        ("header", |place| flip(place, 3)),
        ("format", |place| flip(place, 63)),
        ("first page of a table", |place| flip(place, 4096)),
        ("missing", |place| fs::remove_file(place).unwrap()),
        ("empty", |place| fs::write(place, b"").unwrap()),
    ];
    for (case, harm) in harms {
        let sandbox = folded();
        harm(&sandbox.store().join("store.db"));
        let found = sandbox.run("fsck");
        assert!(
            found.starts_with("status 6\n") && found.contains("damaged  store.db"),
            "{case}: {found}"
        );
        let repaired = sandbox.run("fsck --repair");
        assert!(
            repaired.starts_with("status 0\n") && repaired.contains("2 vaults are sound"),
            "{case}: {repaired}"
        );
        check_whole(&sandbox, case);
        assert!(sandbox.run("gc").contains("removed 0 objects"), "{case}");
        check_whole(&sandbox, case);
        assert!(
            sandbox.store().join("store.db.damaged").exists() || case == "missing",
            "{case}"
        );
    }
}

#[test]
fn a_database_that_another_process_has_open_is_not_rebuilt() {
    let sandbox = folded();
    let store = sandbox.library();
    store.vault_names().unwrap();
    flip_in_place(&sandbox.store().join("store.db"), 3);
    assert_eq!(sandbox.bad("fsck --repair"), (5, "store-busy".to_owned()));
    drop(store);
    assert!(sandbox.run("fsck --repair").starts_with("status 0\n"));
    check_whole(&sandbox, "afterwards");
}

#[test]
fn without_the_second_copy_states_become_vaults_and_gc_waits() {
    let sandbox = folded();
    for file in ["store.db", "refs.log"] {
        fs::remove_file(sandbox.store().join(file)).unwrap();
    }
    let repaired = sandbox.run("fsck --repair");
    assert!(repaired.starts_with("status 6\n"), "{repaired}");
    assert!(repaired.contains("are vaults now: recovered-1\n"), "{repaired}");
    assert!(repaired.contains("`avfs gc --after-repair`"), "{repaired}");
    let states = |sandbox: &Sandbox| {
        ["@", "@~1", "@~2"].map(|at| sandbox.good(&format!("cat --vault recovered-1 --at {at} a")))
    };
    let all = ["three\n", "two\n", "one\n"];
    assert_eq!(states(&sandbox), all);
    assert_eq!(sandbox.bad("gc"), (4, "after-repair".to_owned()));
    assert_eq!(sandbox.object("fsck --json")["may_lack_records"], true);
    sandbox.good("gc --after-repair");
    assert_eq!(states(&sandbox), all);
    sandbox.good("gc");
    assert_eq!(sandbox.object("fsck --json")["may_lack_records"], false);
}

#[test]
fn a_damaged_journal_leaves_the_history_readable_and_is_set_aside() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "one"), ("a", "two")]);
    let open = vault.open().unwrap();
    open.write_bytes(&path("synced"), b"first").unwrap();
    open.sync().unwrap();
    drop((open, vault));
    let journal = sandbox.store().join("work/0000000001/journal.1");
    flip(&journal, 30);

    for line in ["log", "cat --at @~1 a", "diff @~2 @~1", "checkpoint list"] {
        sandbox.good(line);
    }
    sandbox.good_with([
        "export",
        "--at",
        "@~1",
        &sandbox.path("out").display().to_string(),
    ]);
    assert_eq!(sandbox.bad("cat a"), (6, "damaged-journal".to_owned()));
    let found = sandbox.run("fsck");
    assert!(
        found.starts_with("status 6\n") && found.contains("journal.1 is damaged at byte 16"),
        "{found}"
    );
    let output = sandbox
        .avfs()
        .args(["fsck", "--repair", "--json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(6), "work is lost");
    let body: Value = serde_json::from_slice(&output.stdout).unwrap();
    let set_aside = &body["repaired"]["journals"][0];
    assert_eq!(
        (&set_aside["vault"], &set_aside["lost"]),
        (&"web".into(), &true.into())
    );
    assert!(Path::new(set_aside["kept"].as_str().unwrap()).exists());
    assert_eq!(sandbox.good("cat a"), "two");
    sandbox.good("fsck");
}

#[test]
fn unreadable_list_of_mounts_blocks_no_command() {
    let sandbox = Sandbox::new();
    sandbox.seed("web", &[("a", "one")]);
    sandbox.good("vault create other");
    let work = sandbox.store().join("work/0000000001");
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("mounts.json"), b"{\"half").unwrap();
    for line in ["cat a", "gc", "stats", "write a two", "vault list"] {
        sandbox.good(line);
    }
    let mounts = sandbox.run("mounts");
    assert!(
        mounts.starts_with("status 0\n") && mounts.contains("mounts.json is not readable"),
        "{mounts}"
    );
    assert_eq!(sandbox.bad("unmount /tmp").1, "not-mounted");
    let found = sandbox.run("fsck");
    assert!(
        found.starts_with("status 6\n") && found.contains("mounts.json is not readable"),
        "{found}"
    );
    let repaired = sandbox.run("fsck --repair");
    assert!(
        repaired.starts_with("status 0\n") && repaired.contains("was removed"),
        "{repaired}"
    );
    sandbox.good("fsck");
}
