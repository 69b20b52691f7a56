//! Quota, audit, stats, gc, prune and fsck.

use avfs_testkit::TestEnv;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use agentvfs::VaultName;
use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::seed::{path, remove, write};

#[test]
fn a_quota_is_set_shown_obeyed_and_removed() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "12345")]);
    assert_snapshot!(sandbox.run("quota set --bytes 10 --files 3"), @"
    status 0
    --- data
    --- talk
    web may hold 10 B in 3 entries
    ");
    assert_snapshot!(sandbox.run("quota show"), @"
    status 0
    --- data
                   USED       LIMIT  USED%
    bytes           5 B        10 B    50%
    entries           1           3    33%
    --- talk
    ");
    let open = vault.begin().unwrap();
    let refused = open.write_bytes(&path("b"), b"123456").unwrap_err();
    assert_eq!(refused.code(), "quota-bytes");
    drop(open);
    let quota = sandbox.object("quota set --bytes none --json");
    assert_eq!(
        (&quota["bytes_limit"], &quota["files_limit"]),
        (&Value::Null, &3.into())
    );
    assert_eq!(
        (&quota["bytes_used"], &quota["files_used"]),
        (&5.into(), &1.into())
    );
    assert!(
        sandbox
            .run("quota set --files 0")
            .contains("warning: it already exceeds this limit")
    );
    for line in ["quota set", "quota set --bytes big", "quota set --files -1"] {
        assert_eq!(sandbox.bad(line).0, 2, "{line}");
    }
}

fn entries(data: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(data)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn the_audit_log_is_one_object_per_line_oldest_first() {
    let sandbox = Sandbox::new();
    sandbox.seed("web", &[("a", "1"), ("b", "2")]);
    let all = entries(&sandbox.data("audit"));
    let actions: Vec<&str> = all
        .iter()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    assert_eq!(actions, ["create", "write", "write"]);
    assert_eq!(
        (&all[2]["kind"], &all[2]["detail"]),
        (&"audit-entry".into(), &"/b".into())
    );
    assert_eq!(all[2]["previous"], all[1]["hash"]);
    assert_eq!(entries(&sandbox.data("audit -n 1")), all[2..]);
    assert_eq!(entries(&sandbox.data("audit --json")), all);
    assert_eq!(sandbox.data("audit --since 2100-01-01"), b"");
    assert_eq!(sandbox.data("audit --store"), b"");
}

#[test]
fn follow_goes_on_with_what_comes() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[]);
    let mut command = Command::new(sandbox.avfs().get_program());
    command
        .args(["audit", "--follow"])
        .env_clear()
        .envs(&TestEnv::of_home(sandbox.path("home")));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["action"], "create");
    write(&vault, "a", b"1");
    assert_eq!(next()["action"], "write");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_whole_log_is_verified_and_its_end_can_be_kept_elsewhere() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1")]);
    let head = String::from_utf8(sandbox.data("audit verify")).unwrap();
    assert_eq!(head.trim(), vault.info().unwrap().audit_head);
    write(&vault, "a", b"2");
    let verified = sandbox.object(&format!("audit verify --json --expect {}", head.trim()));
    assert_eq!(
        (&verified["vault"], &verified["entries"]),
        (&"web".into(), &3.into())
    );
    assert_eq!(
        sandbox.bad("audit verify --expect 00"),
        (6, "audit-broken".to_owned())
    );
    assert_eq!(sandbox.object("audit verify --store --json")["entries"], 0);
}

/// Changes a record of the store directly in its database, with or without a matching checksum.
fn tamper(sandbox: &Sandbox, statement: &str) {
    let database = rusqlite::Connection::open(sandbox.store().join("store.db")).unwrap();
    assert_eq!(database.execute(statement, []).unwrap(), 1, "{statement}");
}

#[test]
fn a_changed_or_missing_record_is_found() {
    let cases = [
        (
            "UPDATE refs SET value = replace(value, '/b', '/x') WHERE key LIKE 'audit/%3'",
            "damaged",
        ),
        ("DELETE FROM refs WHERE key LIKE 'audit/%2'", "audit-broken"),
        ("DELETE FROM refs WHERE key LIKE 'audit/%3'", "audit-broken"),
    ];
    for (statement, expected) in cases {
        let sandbox = Sandbox::new();
        sandbox.seed("web", &[("a", "1"), ("b", "2")]);
        tamper(&sandbox, statement);
        let (status, code) = sandbox.bad("audit verify");
        assert_eq!(status, 6, "{statement}");
        assert!(code.starts_with(expected), "{statement}: {code}");
        assert!(sandbox.run("fsck").starts_with("status 6\n"), "{statement}");
    }
}

#[test]
fn stats_tell_what_vaults_share() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", &"x".repeat(5000))]);
    let fork = vault.fork(&[VaultName::new("fix").unwrap()]).unwrap().remove(0);
    write(&fork, "b", &vec![b'y'; 7000]);
    let stats = sandbox.object("stats --json");
    let (fix, web) = (&stats["vaults"][0], &stats["vaults"][1]);
    assert_eq!(
        (&fix["name"], &fix["logical_bytes"], &fix["files"]),
        (&"fix".into(), &12000.into(), &2.into())
    );
    assert_eq!(
        (&web["name"], &web["logical_bytes"]),
        (&"web".into(), &5000.into())
    );
    assert_eq!(fix["shared_bytes"], web["shared_bytes"]);
    assert!(fix["unique_bytes"].as_u64() > Some(0));
    let table = sandbox.run("stats web");
    assert!(
        table.contains("VAULT    ENTRIES     LOGICAL") && table.contains("4.9 KiB"),
        "{table}"
    );
    assert!(!table.contains("fix"), "{table}");
    assert_eq!(sandbox.bad("stats wbe"), (3, "unknown-vault".to_owned()));
}

#[test]
fn gc_gives_back_what_a_deleted_vault_held() {
    let sandbox = Sandbox::new();
    sandbox.seed("web", &[("a", "1")]);
    let gone = sandbox.seed("gone", &[("big", &"z".repeat(100_000))]);
    sandbox.run("search zebra");
    gone.delete(false).unwrap();
    assert_eq!(
        sandbox.object("stats --json")["vaults"].as_array().unwrap().len(),
        1
    );
    let planned = sandbox.object("gc --dry-run --json");
    assert_eq!(planned["dry_run"], true);
    assert!(planned["freed_bytes"].as_u64() > Some(0));
    let done = sandbox.object("gc --json");
    assert!(done["removed_objects"].as_u64() > Some(0), "{done}");
    assert_eq!(sandbox.object("gc --dry-run --json")["freed_bytes"], 0);
    assert_snapshot!(sandbox.run("gc"), @"
    status 0
    --- data
    --- talk
    removed 0 objects, 0 B given back
    ");
    assert!(sandbox.run("fsck").starts_with("status 0\n"));
}

#[test]
fn prune_keeps_what_the_settings_say() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1"), ("a", "2"), ("a", "3")]);
    sandbox.run("checkpoint save v1");
    write(&vault, "a", b"4");
    assert!(
        sandbox
            .run("prune --dry-run")
            .contains("all automatic snapshots stay")
    );
    let line = |arguments: &[&str]| {
        let mut avfs = sandbox.avfs();
        for key in ["ALL", "HOURLY", "DAILY"] {
            avfs.env(format!("AVFS_RETENTION_{key}"), "0s");
        }
        avfs.arg("prune").args(arguments).output().unwrap()
    };
    let planned: Value = serde_json::from_slice(&line(&["--dry-run", "--json"]).stdout).unwrap();
    assert_eq!(
        (&planned["dry_run"], &planned["vaults"][0]["name"]),
        (&true.into(), &"web".into())
    );
    let before = vault.history().entries(None, 100).unwrap().len();
    assert_eq!(before, 5, "a dry run changes nothing");
    assert!(
        sandbox
            .show(&line(&[]))
            .contains("web: 4 snapshots removed, 1 kept")
    );
    assert_eq!(vault.history().entries(None, 100).unwrap().len(), 1);
    assert_eq!(
        sandbox.object("checkpoint restore v1 --json")["changed"],
        1,
        "a checkpoint stays"
    );
}

#[test]
fn fsck_of_a_sound_store_says_so_and_damage_is_named() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1"), ("dir/b", &"b".repeat(50_000))]);
    sandbox.run("checkpoint save v1");
    remove(&vault, "a");
    let sound = sandbox.object("fsck --json");
    assert_eq!(
        (&sound["kind"], &sound["sound"], &sound["vaults"]),
        (&"fsck".into(), &true.into(), &1.into())
    );
    assert!(sandbox.run("fsck").starts_with("status 0\n"));
    drop(vault);
    flip_a_byte(&sandbox);
    let output = sandbox.avfs().args(["fsck", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &report["sound"]),
        (Some(6), &false.into()),
        "{report}"
    );
    assert!(!report["problems"].as_array().unwrap().is_empty());
    let repaired = sandbox.run("fsck --repair");
    let told = |word: &str| {
        repaired
            .lines()
            .filter(|line| line.contains(word))
            .collect::<Vec<_>>()
    };
    let affected = told("affected web:/dir/b");
    assert_eq!(affected.len(), 1, "remaining damage is reported once: {repaired}");
}

/// Damages the largest file of the store that is neither its database nor the room that it keeps for a full disk.
fn flip_a_byte(sandbox: &Sandbox) {
    let mut open = vec![sandbox.store()];
    let mut largest = (0, std::path::PathBuf::new());
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                open.push(entry);
            } else if entry
                .extension()
                .is_none_or(|end| !end.to_string_lossy().starts_with("db"))
                && !entry.ends_with("reserve")
            {
                largest = largest.max((std::fs::metadata(&entry).unwrap().len(), entry));
            }
        }
    }
    let mut bytes = std::fs::read(&largest.1).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&largest.1, bytes).unwrap();
}
