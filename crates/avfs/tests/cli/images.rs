//! Images: imported, listed, shown, saved and deleted.

use std::fs;
use std::process::Command;

use crate::sandbox::Sandbox;

/// A small root directory, as `rootfs.tar.gz` of the sandbox.
fn with_root() -> Sandbox {
    let sandbox = Sandbox::new();
    let root = sandbox.path("project/src/root");
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    fs::write(root.join("etc/os-release"), "ID=small\n").unwrap();
    fs::write(root.join("usr/bin/tool"), "#!\n").unwrap();
    fs::hard_link(root.join("usr/bin/tool"), root.join("usr/bin/alias")).unwrap();
    let mut tar = Command::new("tar");
    tar.current_dir(&root)
        .args(["-czf", "../rootfs.tar.gz", "--owner=0", "--group=42", "."]);
    assert!(tar.status().unwrap().success());
    sandbox
}

#[test]
fn an_image_is_imported_listed_shown_saved_and_deleted() {
    let sandbox = with_root();
    let made = sandbox.object("image import rootfs.tar.gz --json");
    assert_eq!(
        (&made["name"], &made["layers"], &made["report"]["files"]),
        (&"rootfs".into(), &1.into(), &3.into())
    );
    let owner = &sandbox.object("stat --vault rootfs etc/os-release --json")["entries"][0];
    assert_eq!((&owner["uid"], &owner["gid"]), (&0.into(), &42.into()));
    assert_eq!(
        sandbox.bad("image import rootfs.tar.gz"),
        (4, "vault-exists".into())
    );
    // Two imports of the same files are the same tree.
    sandbox.good("image import root --name directory");
    sandbox.good("image save rootfs copy");
    let names: Vec<String> = sandbox.object("image list --json")["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|image| image["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["copy", "directory", "rootfs"]);
    assert!(sandbox.good("image list").contains("rootfs"));
    let shown = sandbox.object("image show rootfs --json");
    assert_eq!(
        (&shown["os"], &shown["source"]),
        (&"linux".into(), &"rootfs.tar.gz".into())
    );
    sandbox.good("image delete rootfs --yes");
    assert_eq!(sandbox.bad("image show rootfs"), (3, "unknown-image".into()));
    // What was saved from it needs it no longer.
    assert_eq!(sandbox.good("cat --vault copy etc/os-release"), "ID=small\n");
    assert_eq!(sandbox.bad("image delete web --yes"), (3, "unknown-image".into()));
}

#[test]
fn a_vault_is_no_image_until_it_is_saved_as_one() {
    let sandbox = with_root();
    sandbox.good("vault create web --from root");
    assert_eq!(sandbox.bad("image show web"), (3, "unknown-image".into()));
    sandbox.good("image save web system");
    assert_eq!(
        sandbox.object("image show system --json")["source"],
        "vault 'web'"
    );
}

#[test]
fn a_hostile_or_too_large_image_makes_nothing() {
    let sandbox = with_root();
    let hostile = sandbox.path("project/src/hostile.tar");
    let mut tar = Command::new("tar");
    tar.current_dir(sandbox.path("project/src")).args([
        "-cf",
        "hostile.tar",
        "--absolute-names",
        "--transform=s,^,../,",
        "root/etc",
    ]);
    assert!(tar.status().unwrap().success());
    assert!(hostile.exists());
    assert_eq!(
        sandbox.bad("image import hostile.tar"),
        (2, "import-refused".into())
    );
    assert_eq!(
        sandbox.bad("image import rootfs.tar.gz --max-bytes 1k"),
        (2, "too-large".into())
    );
    fs::write(sandbox.path("project/src/noise"), [7; 2000]).unwrap();
    assert_eq!(sandbox.bad("image import noise"), (2, "bad-archive".into()));
    assert_eq!(
        sandbox.object("image list --json")["images"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    assert_eq!(
        sandbox.object("vault list --json")["vaults"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
}
