//! Bad input and bad luck: a clear error with a stable code, and nothing changed.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;
use avfs_testkit::TestEnv;

#[test]
fn an_unknown_vault_gets_a_suggestion() {
    let sandbox = Sandbox::with_files();
    assert_snapshot!(sandbox.run("ls --vault wbe"), @r"
    status 3
    --- data
    --- talk
    error: there is no vault 'wbe'
    hint: did you mean 'web'?
    ");
    assert_snapshot!(sandbox.run("vault use wbe --json"), @r#"
    status 3
    --- data
    {"schema_version":2,"kind":"error","error":{"code":"unknown-vault","message":"there is no vault 'wbe'","hint":"did you mean 'web'?"}}
    --- talk
    "#);
}

#[test]
fn without_a_vault_the_error_says_how_to_choose_one() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run("ls"), @r"
    status 2
    --- data
    --- talk
    error: no vault is chosen
    hint: name one with --vault, or choose one with `avfs vault use NAME`
    ");
    let output = sandbox
        .avfs()
        .env_remove("HOME")
        .args(["ls", "--json"])
        .output()
        .unwrap();
    assert!(
        sandbox.show(&output).contains("\"no-home\""),
        "{}",
        sandbox.show(&output)
    );
}

#[test]
fn names_that_no_vault_can_hold_are_refused() {
    let sandbox = Sandbox::with_files();
    let before = sandbox.object("vault info --json");
    let long = "x".repeat(256);
    for path in ["..", "a/../b", &long, &"d/".repeat(2100)] {
        for command in ["ls", "mkdir", "touch", "rm", "cat"] {
            assert_eq!(
                sandbox.bad(&format!("{command} {path}")),
                (2, "bad-name".into()),
                "{command} {path}"
            );
        }
        assert_eq!(sandbox.bad(&format!("write {path} text")), (2, "bad-name".into()));
        assert_eq!(
            sandbox.bad(&format!("mv notes.txt {path}")),
            (2, "bad-name".into())
        );
    }
    for name in ["a/b", ".x", "-x", &"v".repeat(101)] {
        assert_eq!(sandbox.bad(&format!("vault create -- {name}")).0, 2);
    }
    assert_eq!(sandbox.object("vault info --json"), before);
    sandbox.good(&format!("touch {}", &long[1..]));
}

#[test]
fn a_vault_that_someone_else_has_open_is_busy_and_can_be_read() {
    let sandbox = Sandbox::with_files();
    let vault = agentvfs::Store::open(&sandbox.store())
        .unwrap()
        .vault("web")
        .unwrap();
    let open = vault.begin().unwrap();
    let run = |line: &str| {
        let output = sandbox
            .avfs()
            .env("AVFS_WAIT", "0s")
            .args(line.split(' '))
            .output()
            .unwrap();
        sandbox
            .show(&output)
            .replace(&std::process::id().to_string(), "PID")
    };
    assert_snapshot!(run("write notes.txt second"), @r"
    status 5
    --- data
    --- talk
    error: vault 'web' is in use by process PID
    hint: try again when it has finished
    ");
    assert_snapshot!(run("cat notes.txt"), @r"
    status 0
    --- data
    first
    --- talk
    ");
    assert!(run("vault delete web --yes").starts_with("status 5"));
    assert!(run("vault delete web --force web").starts_with("status 0"));
    open.write_bytes(&agentvfs::TreePath::parse(b"x").unwrap(), b"lost")
        .unwrap();
    let lost = open.commit("write", "/x").unwrap_err();
    assert_eq!(lost.code(), "unknown-vault");
}

#[test]
fn a_waiting_command_goes_on_when_the_vault_is_free() {
    let sandbox = Sandbox::with_files();
    let vault = agentvfs::Store::open(&sandbox.store())
        .unwrap()
        .vault("web")
        .unwrap();
    let open = vault.begin().unwrap();
    let program = sandbox.avfs();
    let mut command = std::process::Command::new(program.get_program());
    command
        .args(["write", "notes.txt", "second"])
        .env_clear()
        .envs(&TestEnv::of_home(sandbox.path("home")));
    let mut child = command.spawn().unwrap();
    assert!(child.try_wait().unwrap().is_none());
    drop(open);
    assert!(child.wait().unwrap().success());
    assert_eq!(sandbox.good("cat notes.txt"), "second\n");
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let sandbox = Sandbox::with_files();
    let database = rusqlite::Connection::open(sandbox.store().join("store.db")).unwrap();
    database.pragma_update(None, "user_version", 4711).unwrap();
    drop(database);
    assert_eq!(sandbox.bad("ls"), (8, "newer-store".into()));
    assert_eq!(sandbox.bad("write notes.txt x"), (8, "newer-store".into()));
    assert!(
        sandbox
            .run("ls")
            .contains("hint: use the version of avfs that created it, or a newer one")
    );
}

#[test]
fn a_damaged_object_is_named_and_not_served() {
    let sandbox = Sandbox::with_files();
    let packs: Vec<_> = std::fs::read_dir(sandbox.store().join("packs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    for pack in packs
        .iter()
        .filter(|pack| pack.extension().is_some_and(|extension| extension == "pack"))
    {
        let mut bytes = std::fs::read(pack).unwrap();
        bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
        std::fs::write(pack, bytes).unwrap();
    }
    let (status, code) = sandbox.bad("cat notes.txt");
    assert_eq!(status, 6, "{code}");
    assert!(sandbox.run("ls").contains("fsck"));
}

#[test]
fn a_flipped_bit_in_the_log_of_the_database_is_named_and_fsck_puts_it_back() {
    let sandbox = Sandbox::with_files();
    let log = sandbox.store().join("store.db-wal");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[32 + 24 + 4000] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    assert_eq!(sandbox.bad("cat notes.txt").0, 6);
    assert!(
        sandbox
            .run("cat notes.txt")
            .contains("store.db-wal is damaged: frame 1 ")
    );
    assert!(sandbox.run("fsck").contains("store.db-wal is damaged: frame 1 "));
    let repaired = sandbox.run("fsck --repair");
    assert!(repaired.contains("are sound"), "{repaired}");
    assert!(!repaired.contains("lost"), "{repaired}");
    assert_eq!(sandbox.good("cat notes.txt"), "first\n");
    sandbox.good("fsck");
}

#[test]
fn an_error_names_the_flag_that_would_have_helped() {
    let sandbox = Sandbox::new();
    sandbox.seed("web", &[("docs/a", "1")]);
    sandbox.good("vault export web web.avfs");
    let dir = sandbox.path("mounted");
    std::fs::create_dir(&dir).unwrap();
    sandbox.good(&format!("mount web {}", dir.display()));
    for (line, hint) in [
        (
            "cp docs copy",
            "hint: `avfs cp -r` copies a directory with everything in it",
        ),
        (
            "mkdir x/y/z",
            "hint: `avfs mkdir -p` creates missing directories too",
        ),
        (
            "write x/y text",
            "hint: `avfs write -p` creates missing directories too",
        ),
        (
            "vault import web.avfs",
            "hint: `--name NAME` gives it another name",
        ),
        (
            "vault delete web --yes",
            "hint: it is mounted: `avfs unmount ROOT/mounted` first",
        ),
        ("exec", "error: there is no command to run"),
    ] {
        let shown = sandbox.run(line);
        assert!(shown.contains(hint), "{line}: {shown}");
    }
    sandbox.good(&format!("unmount {}", dir.display()));
    sandbox.good("vault delete web --yes");
}
