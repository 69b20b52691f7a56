//! Changing files: one command is one snapshot, or nothing.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// The entry of the history that a change made; 0: none.
fn seq(object: &Value) -> u64 {
    assert_eq!(object["snapshot"].is_null(), object["seq"].is_null(), "{object}");
    object["seq"].as_u64().unwrap_or(0)
}

#[test]
fn write_takes_text_and_standard_input() {
    let sandbox = Sandbox::with_files();
    sandbox
        .avfs()
        .args(["write", "exact"])
        .write_stdin(&b"no line end \xff"[..])
        .assert()
        .success();
    assert_eq!(
        sandbox.avfs().args(["cat", "exact"]).output().unwrap().stdout,
        b"no line end \xff"
    );
    sandbox
        .avfs()
        .args(["write", "asked-for", "-"])
        .write_stdin("as it comes")
        .assert()
        .success();
    assert_eq!(sandbox.good("cat asked-for"), "as it comes");
    sandbox.good("write notes.txt more --append");
    assert_eq!(sandbox.good("cat notes.txt"), "first\nmore\n");
    sandbox.good("write log new --append");
    let object = sandbox.object("write notes.txt again --json");
    let version = agentvfs::Version::of_bytes(b"again\n").to_string();
    assert_eq!(
        (&object["kind"], &object["path"], &object["size"]),
        (&"write".into(), &"/notes.txt".into(), &6.into())
    );
    assert_eq!(object["version"], version);
    assert!(seq(&object) > 0);
    assert_eq!(
        sandbox.run("write notes.txt once-more"),
        "status 0\n--- data\n--- talk\n"
    );
}

#[test]
fn a_stale_version_changes_nothing_and_says_both() {
    let sandbox = Sandbox::with_files();
    let version = agentvfs::Version::of_bytes(b"first\n").to_string();
    sandbox.good(&format!("write notes.txt second --expect {}", &version[..8]));
    let second = agentvfs::Version::of_bytes(b"second\n").to_string();
    let refused = sandbox.run(&format!("write notes.txt third --expect {version}"));
    assert_eq!(
        refused,
        format!(
            "status 4\n--- data\n--- talk\nerror: /notes.txt has version {second}, and you expected {version}\n\
             hint: read /notes.txt again and retry with its new version\n"
        )
    );
    assert_eq!(sandbox.good("cat notes.txt"), "second\n");
    assert_eq!(
        sandbox.bad("write notes.txt x --expect absent"),
        (4, "stale-version".into())
    );
    assert_eq!(
        sandbox.bad("write nothing x --expect 12345678"),
        (4, "stale-version".into())
    );
    assert_eq!(
        sandbox.bad("write notes.txt x --expect 12"),
        (2, "bad-name".into())
    );
    sandbox.good("write nothing x --expect absent");
}

#[test]
fn write_makes_parents_when_asked() {
    let sandbox = Sandbox::with_files();
    assert_eq!(sandbox.bad("write a/b/c text"), (3, "not-found".into()));
    sandbox.good("write -p a/b/c text");
    assert_eq!(sandbox.good("cat a/b/c"), "text\n");
    assert_eq!(
        sandbox.bad("write -p notes.txt/x text"),
        (2, "not-a-directory".into())
    );
    assert_eq!(sandbox.bad("write a text"), (2, "is-a-directory".into()));
}

#[test]
fn a_command_that_fails_in_the_middle_changes_nothing() {
    let sandbox = Sandbox::with_files();
    let before = sandbox.object("vault info --json");
    assert_eq!(sandbox.bad("rm notes.txt missing"), (3, "not-found".into()));
    assert_eq!(sandbox.bad("rm notes.txt src"), (2, "is-a-directory".into()));
    assert_eq!(sandbox.bad("rm -r /"), (2, "invalid".into()));
    assert_eq!(sandbox.bad("mkdir new src"), (4, "exists".into()));
    assert_eq!(sandbox.bad("cp notes.txt missing src"), (3, "not-found".into()));
    assert_eq!(sandbox.bad("mv notes.txt missing src"), (3, "not-found".into()));
    assert_eq!(
        sandbox.bad("chmod 600 notes.txt missing"),
        (3, "not-found".into())
    );
    assert_eq!(sandbox.bad("touch new missing/new"), (3, "not-found".into()));
    assert_eq!(sandbox.object("vault info --json"), before);
}

#[test]
fn nothing_to_change_leaves_no_snapshot() {
    let sandbox = Sandbox::with_files();
    for line in [
        "mkdir -p src",
        "rm -f missing",
        "touch -c missing",
        "chmod 644 notes.txt",
        "mv notes.txt notes.txt",
    ] {
        let object = sandbox.object(&format!("{line} --json"));
        assert_eq!(seq(&object), 0, "{object}");
    }
}

#[test]
fn directories_are_made_and_removed() {
    let sandbox = Sandbox::with_files();
    assert_eq!(
        sandbox.object("mkdir -p a/b c --json")["paths"],
        json!([{"path": "/a/b"}, {"path": "/c"}])
    );
    sandbox.good("write a/b/f text");
    let object = sandbox.object("rm -rf a missing --json");
    assert_eq!(object["paths"], json!([{"path": "/a"}]));
    assert!(seq(&object) > 0);
    assert_eq!(sandbox.good("ls"), "c\nlink\nnotes.txt\nsrc\n");
}

#[test]
fn copies_and_moves_go_into_directories() {
    let sandbox = Sandbox::with_files();
    assert_eq!(sandbox.bad("cp src copy"), (2, "is-a-directory".into()));
    let object = sandbox.object("cp -r src copy --json");
    assert_eq!(object["entries"], json!([{"from": "/src", "to": "/copy"}]));
    assert_eq!(sandbox.good("cat copy/main.rs"), "main\n");
    let object = sandbox.object("mv notes.txt copy/main.rs src --json");
    let moved = json!([
        {"from": "/notes.txt", "to": "/src/notes.txt"},
        {"from": "/copy/main.rs", "to": "/src/main.rs"}
    ]);
    assert_eq!(object["entries"], moved);
    assert_eq!(
        sandbox.bad("mv src/main.rs src/notes.txt nowhere"),
        (2, "not-a-directory".into())
    );
    assert_eq!(
        sandbox.bad("mv -n src/main.rs src/notes.txt"),
        (4, "exists".into())
    );
    assert_eq!(sandbox.bad("mv src src/below"), (2, "into-itself".into()));
    assert_eq!(sandbox.bad("cp -r src src/below"), (2, "into-itself".into()));
    sandbox.good("mv src/main.rs src/notes.txt");
    assert_eq!(sandbox.good("cat src/notes.txt"), "main\n");
}

#[test]
fn links_are_of_two_sorts() {
    let sandbox = Sandbox::with_files();
    let object = sandbox.object("ln notes.txt src --json");
    assert_eq!(
        (&object["path"], &object["target"]),
        (&"/src/notes.txt".into(), &"/notes.txt".into())
    );
    sandbox.good("write src/notes.txt changed");
    assert_eq!(sandbox.good("cat notes.txt"), "changed\n");
    assert_eq!(sandbox.object("stat notes.txt --json")["entries"][0]["names"], 2);
    let object = sandbox.object("ln -s ../any/thing away --json");
    assert_eq!(
        (&object["symbolic"], &object["target"]),
        (&true.into(), &"../any/thing".into())
    );
    assert_eq!(sandbox.bad("ln src x"), (2, "is-a-directory".into()));
    assert_eq!(sandbox.bad("ln ../x x"), (2, "bad-name".into()));
    assert_eq!(sandbox.bad("ln -s x notes.txt"), (4, "exists".into()));
}

#[test]
fn modes_are_octal_or_symbolic() {
    let sandbox = Sandbox::with_files();
    let object = sandbox.object("chmod -R go-r,u+x / --json");
    let changed = object["entries"].as_array().unwrap();
    assert!(
        changed.contains(&json!({"path": "/src/main.rs", "mode": "0700"})),
        "{object}"
    );
    assert!(!object.to_string().contains("/link"), "{object}");
    assert_snapshot!(sandbox.run("chmod 600 link"), @r"
    status 2
    --- data
    --- talk
    error: /link is a symbolic link, which has no permissions of its own
    hint: name what it points to
    ");
    assert_eq!(sandbox.bad("chmod 9 notes.txt"), (2, "usage".into()));
}

#[test]
fn touch_makes_files_and_sets_times() {
    let sandbox = Sandbox::with_files();
    sandbox.good_with(["touch", "-d", "2026-05-01T12:30:00Z", "notes.txt", "new"]);
    let object = sandbox.object("stat notes.txt new --json");
    for entry in object["entries"].as_array().unwrap() {
        assert_eq!(entry["mtime"], "2026-05-01T12:30:00Z");
    }
    sandbox.good("touch new");
    assert_ne!(
        sandbox.object("stat new --json")["entries"][0]["mtime"],
        "2026-05-01T12:30:00Z"
    );
}
