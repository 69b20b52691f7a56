//! An ordinary user mounts by `fusermount3`.

use std::fs;

use rustix::process::Signal;

use crate::ground::{Mount, is_mounted, is_running, signal};
use crate::ordinary::User;
use crate::program::{LIMIT, await_that, end_of};

#[test]
fn an_ordinary_user_mounts_works_and_unmounts() {
    let user = User::new();
    let mount = user.mount();
    user.sh("cd place; mkdir -p a/b; echo one >a/b/c; mv a/b/c d; ln -s d e; test \"$(cat e)\" = one");
    assert_eq!(user.avfs(&["cat", "d"]), "one\n");
    assert!(fs::metadata(mount.path("d")).is_err(), "not even root is let in");
    user.avfs(&["unmount", "place"]);
    assert!(!is_mounted(&mount.dir));
    mount.await_server_end();
    assert_eq!(user.avfs(&["cat", "d"]), "one\n");
}

#[test]
fn changes_in_a_directory_of_an_ordinary_user_ask_for_no_attributes_of_it() {
    const FILES: u64 = 50;
    let user = User::new();
    let mount = user.mount();
    user.sh("cd place; echo first >first");
    let asked = || -> u64 {
        let mounts: serde_json::Value = serde_json::from_str(&user.avfs(&["mounts", "--json"])).unwrap();
        mounts["mounts"][0]["by_opcode"]["getattr"].as_u64().unwrap_or(0)
    };
    let before = asked();
    let each = |what: &str| format!("for i in $(seq {FILES}); do {what}; done");
    user.sh(&format!(
        "cd place; {}; {}; {}",
        each(": >file$i"),
        each("mv -n file$i moved$i"),
        each("rm -f moved$i")
    ));
    // Except for a few that the programs send themselves: `mv -n` examines each file.
    assert!(
        asked() - before < 2 * FILES,
        "{} of {}",
        asked() - before,
        3 * FILES
    );
    // The server refuses operations that the modes do not allow.
    user.sh("cd place; mkdir d; echo x >d/f; chmod 555 d; ! rm -f d/f 2>/dev/null; ! touch d/g 2>/dev/null");
    user.sh(
        "cd place; chmod 444 d/f; ! echo y 2>/dev/null >>d/f; test \"$(cat d/f)\" = x; chmod 755 d; rm -rf d",
    );
    user.avfs(&["unmount", "place"]);
    mount.await_server_end();
}

#[test]
fn leftovers_of_an_ordinary_users_dead_server_are_cleaned_up() {
    let user = User::new();
    for round in 0..3 {
        let mount = user.mount();
        user.sh(&format!("echo {round} >place/file; sync place/file"));
        mount.kill_server();
        assert_eq!(user.avfs(&["cat", "file"]), format!("{round}\n"));
        assert!(!is_mounted(&mount.dir), "round {round}");
    }
    user.avfs(&["fsck"]);
}

#[test]
fn an_ordinary_user_unmounts_what_is_in_use_by_force() {
    let user = User::new();
    let mount = user.mount();
    let mut sitting = user
        .command("/bin/sh".as_ref(), &["-c", "cd place; exec sleep 1000"])
        .spawn()
        .unwrap();
    let inside = format!("/proc/{}/cwd", sitting.id());
    await_that("it sits there", LIMIT, || {
        fs::read_link(&inside).is_ok_and(|dir| dir == mount.dir)
    });
    let ended = end_of(user.command(&user.program(), &["unmount", "place"]), b"");
    assert!(ended.err.contains("is in use"), "{}", ended.err);
    user.avfs(&["unmount", "place", "--force"]);
    assert!(!is_mounted(&mount.dir));
    assert!(is_running(mount.server), "who sits there is still served");
    signal(sitting.id() as i32, Signal::KILL);
    sitting.wait().unwrap();
    mount.await_server_end();
}

#[test]
fn an_ordinary_user_may_not_let_others_in_unless_the_system_says_so() {
    let settings = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if settings.lines().any(|line| line.trim() == "user_allow_other") {
        println!("this system allows it");
        return;
    }
    let user = User::new();
    user.sh("mkdir place");
    let _guard = Mount::guarding(user.dir());
    let words = ["mount", "work", "place", "--allow-other"];
    let ended = end_of(user.command(&user.program(), &words), b"");
    assert!(!ended.status.success());
    assert!(
        ended.err.contains("user_allow_other") && ended.err.contains("/etc/fuse.conf"),
        "{}",
        ended.err
    );
    assert!(!is_mounted(&user.dir()));
    user.avfs(&["mounts"]);
    user.avfs(&["mount", "work", "place"]);
    user.avfs(&["unmount", "place"]);
}
