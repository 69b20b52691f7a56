//! A user of this machine with the projects in a home of their own, in a mount namespace in which `/home/dev` is that home.
//!
//! The namespace lets virtual environments and build outputs keep the absolute paths that they were made with, gives the
//! users a name without changing `/etc/passwd`, and has a `/dev/fuse` as most systems have it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const HOME: &str = "/home/dev";

/// Creates the namespace, reports it, and keeps it until standard input ends.
const HOLDER: &str = r#"
    mount --bind "$1/home" /home
    mount --bind "$1/passwd" /etc/passwd
    mount --bind "$2" /home/dev/.rustup
    mount --bind "$3/bin" /home/dev/.cargo/bin
    mknod "$1/fuse" c 10 229
    chmod 666 "$1/fuse"
    mount --bind "$1/fuse" /dev/fuse
    echo ready
    cat >/dev/null
"#;

#[derive(Clone, Copy)]
pub struct User {
    uid: u32,
}

impl User {
    pub const ROOT: User = User { uid: 0 };
    pub const FIRST: User = User { uid: 1000 };
    pub const SECOND: User = User { uid: 1001 };
}

pub struct Scene {
    place: tempfile::TempDir,
    user: User,
    holder: Child,
}

impl Scene {
    pub fn new(user: User) -> Scene {
        let place = tempfile::tempdir().unwrap();
        let made = projects().join("home");
        assert!(
            made.is_dir(),
            "{} is missing: scripts/real-projects makes it",
            made.display()
        );
        good(Command::new("cp").arg("-a").arg(&made).arg(place.path()));
        fs::create_dir(place.path().join("home/dev/bin")).unwrap();
        fs::copy(
            assert_cmd::cargo::cargo_bin!("avfs"),
            place.path().join("home/dev/bin/avfs"),
        )
        .unwrap();
        let passwd = fs::read_to_string("/etc/passwd").unwrap();
        let named = format!("dev-{0}:x:{0}:{0}::{HOME}:/bin/bash\n", user.uid);
        let passwd = if user.uid == 0 { passwd } else { passwd + &named };
        fs::write(place.path().join("passwd"), passwd).unwrap();
        let owner = format!("{0}:{0}", user.uid);
        good(
            Command::new("chown")
                .args(["-hR", &owner])
                .arg(place.path().join("home/dev")),
        );
        good(Command::new("chmod").args(["755"]).arg(place.path()));
        let holder = hold(place.path());
        Scene { place, user, holder }
    }

    /// Runs a line of bash as the user, in a directory of the home.
    pub fn bash(&self, directory: &str, line: &str) -> Output {
        let uid = self.user.uid.to_string();
        let namespace = format!("--mount=/proc/{}/ns/mnt", self.holder.id());
        let mut command = Command::new("nsenter");
        command.arg(namespace).args([
            "setpriv",
            "--reuid",
            &uid,
            "--regid",
            &uid,
            "--clear-groups",
            "--",
        ]);
        command.args(["bash", "-c", &format!("cd {HOME}/{directory} && {line}")]);
        command.env_clear().env("HOME", HOME).env("LANG", "C.UTF-8");
        command.env(
            "PATH",
            format!("{HOME}/bin:{HOME}/.cargo/bin:/usr/local/bin:/usr/bin:/bin"),
        );
        if let Some(transport) = std::env::var_os("AVFS_MOUNT_TRANSPORT") {
            command.env("AVFS_MOUNT_TRANSPORT", transport);
        }
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// The same for a line that must succeed: its standard output, and its standard error.
    #[track_caller]
    pub fn good(&self, directory: &str, line: &str) -> (String, String) {
        let output = self.bash(directory, line);
        let [out, err] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        let ended = output.status;
        assert!(
            ended.success(),
            "{line}\n{out}{err}{:?} {:?}",
            ended.code(),
            ended.signal()
        );
        (out, err)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
        // Read-only files of a task can prevent the removal of its directory.
        let _ = Command::new("chmod")
            .args(["-R", "u+w"])
            .arg(self.place.path())
            .output();
    }
}

fn hold(place: &Path) -> Child {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    let of = |name: &str, below: &str| std::env::var_os(name).map_or_else(|| home.join(below), PathBuf::from);
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--mount",
        "--propagation",
        "private",
        "bash",
        "-euc",
        HOLDER,
        "holder",
    ]);
    unshare
        .arg(place)
        .args([of("RUSTUP_HOME", ".rustup"), of("CARGO_HOME", ".cargo")]);
    let mut holder = unshare
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(holder.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert_eq!(said, "ready\n", "the namespace could not be made");
    holder
}

/// The projects from `scripts/real-projects`, beside the build directory.
fn projects() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .unwrap()
        .join("projects")
}

#[track_caller]
fn good(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
