//! In and out: host directories and archives.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// A host directory with a little of everything, as `project/src` of the sandbox.
fn with_host_files() -> Sandbox {
    let sandbox = Sandbox::new();
    let host = sandbox.path("project/src");
    fs::create_dir(host.join("sub")).unwrap();
    fs::write(host.join("a"), b"bytes \xff").unwrap();
    fs::hard_link(host.join("a"), host.join("sub/b")).unwrap();
    symlink("a", host.join("link")).unwrap();
    fs::set_permissions(host.join("sub"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&host, fs::Permissions::from_mode(0o750)).unwrap();
    sandbox
}

#[test]
fn a_vault_is_made_from_a_directory_and_exported_again() {
    let sandbox = with_host_files();
    let object = sandbox.object("vault create web --from . --use --json");
    assert_eq!(
        (&object["files"], &object["report"]["files"]),
        (&4.into(), &3.into())
    );
    let root = &sandbox.object("stat / a --json")["entries"];
    assert_eq!((&root[0]["mode"], &root[1]["names"]), (&"0750".into(), &2.into()));
    assert_snapshot!(sandbox.run("export ../out"), @r"
    status 0
    --- data
    --- talk
    exported 3 files, 7 B
    ");
    let mut diff = Command::new("diff");
    diff.args(["-r", "--no-dereference"])
        .arg(sandbox.path("project/src"))
        .arg(sandbox.path("project/out"));
    assert!(diff.status().unwrap().success());
    assert_eq!(
        fs::metadata(sandbox.path("project/out/sub"))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777,
        0o700
    );
    assert_eq!(sandbox.bad("export ../out"), (4, "host-exists".into()));
    sandbox.good("export ../out --force");
}

#[test]
fn an_archive_goes_out_and_in() {
    let sandbox = with_host_files();
    sandbox.good("vault create web --from . --use");
    sandbox.good("export ../out.tar");
    assert_eq!(sandbox.bad("export ../out.tar"), (4, "host-exists".into()));
    sandbox.good("export sub ../out.tar --force");
    sandbox.good("export ../all.tar");
    let object = sandbox.object("import ../all.tar deep/copy --json");
    assert_eq!(
        (&object["path"], &object["files"]),
        (&"/deep/copy".into(), &3.into())
    );
    assert_eq!(sandbox.good("ls deep/copy"), "a\nlink\nsub\n");
    let stream = sandbox
        .avfs()
        .args(["export", "deep/copy", "-"])
        .output()
        .unwrap();
    let import = sandbox
        .avfs()
        .args(["import", "-", "again"])
        .write_stdin(stream.stdout)
        .output()
        .unwrap();
    assert!(import.status.success(), "{}", sandbox.show(&import));
    assert_eq!(sandbox.good("ls again"), "a\nlink\nsub\n");
    assert_eq!(sandbox.bad("export -"), (2, "usage".into()));
    assert_eq!(sandbox.bad("export out.tar.gz"), (2, "usage".into()));
}

#[test]
fn failed_import_changes_nothing() {
    let sandbox = with_host_files();
    assert_eq!(
        sandbox.bad("vault create web --from missing"),
        (3, "host-not-found".into())
    );
    assert_eq!(
        sandbox.bad("vault create web --from a"),
        (2, "host-not-a-directory".into())
    );
    assert_eq!(
        sandbox.object("vault list --json")["vaults"],
        serde_json::json!([])
    );
    sandbox.good("vault create web --use");
    sandbox.good("write a mine");
    let before = sandbox.object("vault info --json");
    assert_eq!(sandbox.bad("import ."), (4, "exists".into()));
    assert_eq!(sandbox.bad("import a"), (2, "bad-archive".into()));
    assert_eq!(sandbox.bad("import missing"), (3, "host-not-found".into()));
    assert_eq!(sandbox.object("vault info --json"), before);
}

#[test]
fn a_harmful_archive_is_refused_as_a_whole() {
    let sandbox = with_host_files();
    sandbox.good("vault create web --use");
    let tar = |arguments: &[&str]| {
        let mut tar = Command::new("tar");
        tar.current_dir(sandbox.path("project/src"))
            .args(["-cPf", "../bad.tar"])
            .args(arguments);
        assert!(tar.status().unwrap().success());
    };
    for arguments in [&["a", "../src/sub"][..], &["a", "--transform=s,^,/etc/,"]] {
        tar(arguments);
        assert_eq!(
            sandbox.bad("import ../bad.tar"),
            (2, "import-refused".into()),
            "{arguments:?}"
        );
        assert_eq!(sandbox.good("ls -a"), "");
    }
}

#[test]
fn a_whole_vault_travels_in_one_file() {
    let sandbox = with_host_files();
    sandbox.good("vault create web --from . --use");
    sandbox.good("write a changed");
    let object = sandbox.object("vault export web ../web.avfs --json");
    assert_eq!(
        (&object["vault"], &object["snapshots"]),
        (&"web".into(), &2.into())
    );
    assert_eq!(
        sandbox.bad("vault export web ../web.avfs"),
        (4, "host-exists".into())
    );
    sandbox.good("vault export web ../web.avfs --force");
    assert_eq!(
        sandbox.bad("vault import ../web.avfs"),
        (4, "vault-exists".into())
    );
    let object = sandbox.object("vault import ../web.avfs --name copy --json");
    assert_eq!(
        (&object["vault"], &object["snapshots"]),
        (&"copy".into(), &2.into())
    );
    assert_eq!(sandbox.good("cat a --vault copy"), "changed\n");
    assert_eq!(
        sandbox.good("cat sub/b --at @~1 --vault copy --json"),
        sandbox.good("cat sub/b --at @~1 --json")
    );
    let other = Sandbox::new();
    let stream = sandbox
        .avfs()
        .args(["vault", "export", "web", "-"])
        .output()
        .unwrap()
        .stdout;
    other
        .avfs()
        .args(["vault", "import", "-"])
        .write_stdin(stream)
        .assert()
        .success();
    assert_eq!(other.good("cat a --vault web"), "changed\n");
}

#[test]
fn a_damaged_vault_file_changes_nothing() {
    let sandbox = with_host_files();
    sandbox.good("vault create web --from . --use");
    sandbox.good("vault export web ../web.avfs");
    let file = sandbox.path("project/web.avfs");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert_eq!(sandbox.bad("vault import ../web.avfs --name copy").0, 2);
    assert_eq!(
        sandbox.bad("vault import ../missing.avfs"),
        (3, "host-not-found".into())
    );
    assert_eq!(sandbox.bad("vault import a"), (2, "bad-vault-file".into()));
    assert_eq!(sandbox.bad("ls --vault copy"), (3, "unknown-vault".into()));
}
