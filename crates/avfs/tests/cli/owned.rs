//! Every verb on a vault that another process serves: here, the test itself.

use std::sync::Arc;
use std::time::Duration;

use agentvfs::{Error, NoMounts, OpenVault, Rhythm, ServedVault, Store};
use avfs_core::TreePath;

use crate::sandbox::Sandbox;

/// A vault `web` with files, and its owner, which takes no snapshot by itself.
fn served() -> (Sandbox, ServedVault) {
    let sandbox = Sandbox::with_files();
    let vault = Store::open(&sandbox.store()).unwrap().vault("web").unwrap();
    let never = Duration::from_secs(1 << 30);
    let rhythm = Rhythm {
        quiet: never,
        busy: never,
        ..Rhythm::default()
    };
    let log = Arc::new(|error: &Error| panic!("{error}"));
    let served =
        ServedVault::start(Arc::new(vault.open().unwrap()), Arc::new(NoMounts), rhythm, log).unwrap();
    (sandbox, served)
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

fn write(owner: &ServedVault, at: &str, text: &str) {
    owner.open().write_bytes(&path(at), text.as_bytes()).unwrap();
}

fn holds(owner: &ServedVault, at: &str) -> Option<String> {
    let open: &OpenVault = owner.open();
    open.exists(&path(at))
        .unwrap()
        .then(|| String::from_utf8(open.read(&path(at)).unwrap().to_vec()).unwrap())
}

#[test]
fn present_state_includes_unstored_changes_of_the_owner() {
    let (sandbox, owner) = served();
    let mut round = 0;
    let lines = [
        "cat new.txt",
        "ls",
        "tree",
        "stat new.txt",
        "diff @~1 @ --patch",
        "grep needle",
        "find --name new.txt",
        "search needle",
        "log new.txt",
        "export --force new.txt -",
    ];
    for line in lines {
        round += 1;
        write(&owner, "/new.txt", &format!("needle {round}\n"));
        let shown = sandbox.good(line);
        let fresh = shown.contains(&format!("needle {round}"));
        assert!(
            fresh || shown.contains("new.txt") || line.starts_with("log"),
            "{line}: {shown}"
        );
        assert!(
            !owner.open().tree().is_dirty(),
            "{line} did not ask for the present state"
        );
    }
    for line in [
        "vault list",
        "vault info",
        "stats",
        "quota show",
        "checkpoint save now",
        "log",
        "gc",
    ] {
        write(&owner, "/new.txt", "again");
        sandbox.good(line);
        assert!(
            !owner.open().tree().is_dirty(),
            "{line} did not ask for the present state"
        );
    }
    write(&owner, "/new.txt", "forked");
    sandbox.good("vault fork web other");
    assert_eq!(sandbox.good("--vault other cat new.txt"), "forked");
    sandbox.good("fsck");
    sandbox.good("prune");
    sandbox.good("audit");
    sandbox.good("audit verify");
}

#[test]
fn change_of_the_vault_changes_the_owners_tree() {
    let (sandbox, owner) = served();
    write(&owner, "/unsaved", "1");
    sandbox.good("write notes.txt second");
    assert_eq!(holds(&owner, "/notes.txt").unwrap(), "second\n");
    sandbox.good("write notes.txt third --append");
    assert_eq!(holds(&owner, "/notes.txt").unwrap(), "second\nthird\n");
    sandbox.good("mkdir -p a/b");
    sandbox.good("cp notes.txt a/b");
    sandbox.good("mv a/b/notes.txt a/moved.txt");
    assert_eq!(holds(&owner, "/a/moved.txt").unwrap(), "second\nthird\n");
    sandbox.good("ln a/moved.txt a/linked.txt");
    sandbox.good("chmod 600 a/linked.txt");
    assert_eq!(owner.open().stat(&path("/a/moved.txt")).unwrap().meta.mode, 0o600);
    sandbox.good("touch empty");
    assert_eq!(holds(&owner, "/empty").unwrap(), "");
    sandbox.good("rm -r a");
    assert_eq!(holds(&owner, "/a/moved.txt"), None);
    std::fs::write(sandbox.path("project/host.txt"), "host").unwrap();
    sandbox.good_with([
        "import".as_ref(),
        sandbox.path("project").as_os_str(),
        "in".as_ref(),
    ]);
    assert_eq!(holds(&owner, "/in/host.txt").unwrap(), "host");
    sandbox.good("undo");
    assert_eq!(holds(&owner, "/in/host.txt"), None);
    sandbox.good("quota set --bytes 100");
    let refused = owner.open().write_bytes(&path("/big"), &[0; 200]).unwrap_err();
    assert_eq!(refused.code(), "quota-bytes");
    assert_eq!(holds(&owner, "/unsaved").unwrap(), "1");
}

#[test]
fn the_ways_back_go_through_the_owner() {
    let (sandbox, owner) = served();
    sandbox.good("checkpoint save good");
    write(&owner, "/notes.txt", "bad");
    write(&owner, "/src/main.rs", "bad");
    sandbox.good("checkout good notes.txt");
    assert_eq!(holds(&owner, "/notes.txt").unwrap(), "first\n");
    assert_eq!(holds(&owner, "/src/main.rs").unwrap(), "bad");
    sandbox.good("revert src");
    assert_eq!(holds(&owner, "/src/main.rs").unwrap(), "main\n");
    write(&owner, "/notes.txt", "bad again");
    sandbox.good("checkpoint restore good");
    assert_eq!(holds(&owner, "/notes.txt").unwrap(), "first\n");
    sandbox.good("undo");
    assert_eq!(holds(&owner, "/notes.txt").unwrap(), "bad again");
    assert_eq!(
        sandbox.bad("write notes.txt x --expect 00000000").1,
        "stale-version"
    );
}

#[test]
fn a_vault_is_renamed_under_its_owner_and_not_deleted() {
    let (sandbox, owner) = served();
    assert_eq!(sandbox.bad("vault delete web --yes"), (5, "vault-busy".into()));
    sandbox.good("vault rename web site");
    write(&owner, "/a", "1");
    assert_eq!(sandbox.good("--vault site cat a"), "1");
    owner.close().unwrap();
    sandbox.good("vault delete site --yes");
}
