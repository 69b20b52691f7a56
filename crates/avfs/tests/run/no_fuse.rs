//! Machines on which nothing can be mounted.

use std::path::Path;
use std::process::{Command, Output};

use crate::project::Project;

/// `/dev` without FUSE: only the devices that programs need.
const WITHOUT: &str = "mount -t tmpfs none /mnt && for name in null zero full random urandom tty; do
    touch /mnt/$name && mount --bind /dev/$name /mnt/$name || exit 99; done; mount --rbind /mnt /dev || exit 99; ";
const SOMETHING_ELSE: &str = "mount --bind /dev/null /dev/fuse || exit 99; ";

fn in_a_namespace(project: &Project, prepare: &str, words: &[&str]) -> (Option<i32>, String) {
    let program: &Path = assert_cmd::cargo::cargo_bin!("avfs");
    let mut unshare = Command::new("unshare");
    let script = format!("{prepare} exec \"$@\"");
    unshare
        .args(["--mount", "--", "sh", "-c", &script, "sh"])
        .arg(program);
    let Output {
        status,
        stdout,
        stderr,
    } = project.in_project(unshare, words).output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.code(), text)
}

#[test]
fn without_fuse_the_error_names_the_reason_and_doctor() {
    for (prepare, reason) in [
        (WITHOUT, "there is no /dev/fuse"),
        (SOMETHING_ELSE, "is not the FUSE device"),
    ] {
        let project = Project::new();
        let run = ["run", "--", "true"];
        let exec = ["exec", "--vault", "box", "--", "true"];
        let (made, text) = in_a_namespace(&project, prepare, &["vault", "create", "box"]);
        assert_eq!(made, Some(0), "{text}");
        for words in [&run[..], &exec] {
            let (status, text) = in_a_namespace(&project, prepare, words);
            assert_eq!(status, Some(8), "{text}");
            assert!(
                text.contains("error: ") && text.contains(reason) && text.contains("avfs doctor"),
                "{text}"
            );
        }
    }
}

#[test]
fn doctor_looks_at_what_the_fuse_device_is() {
    let project = Project::new();
    let (status, text) = in_a_namespace(&project, SOMETHING_ELSE, &["doctor"]);
    assert_eq!(status, Some(1));
    assert!(
        text.contains("!!  fuse device: /dev/fuse is not the FUSE device"),
        "{text}"
    );
    let (status, text) = in_a_namespace(&project, WITHOUT, &["doctor"]);
    assert_eq!(status, Some(1));
    assert!(
        text.contains("!!  fuse device: /dev/fuse does not exist"),
        "{text}"
    );
}
