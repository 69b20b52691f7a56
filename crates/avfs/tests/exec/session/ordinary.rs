//! A session that an ordinary user starts: root does so in the place of one.

use avfs_testkit::TestEnv;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Command, Output};

use rustix::fs::FlockOperation;

/// The user `nobody`: `fusermount3` serves only users that have a name.
const UID: u32 = 65_534;

const DEVICE: &str = "/dev/fuse";

/// Lets everybody open `/dev/fuse` for a while. One test at a time does so.
struct OpenDevice {
    mode: u32,
    _lock: File,
}

impl OpenDevice {
    fn new() -> OpenDevice {
        let lock = File::open(DEVICE).expect("/dev/fuse is needed, and root to open it");
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let mode = lock.metadata().unwrap().mode();
        fs::set_permissions(DEVICE, Permissions::from_mode(0o666)).unwrap();
        OpenDevice { mode, _lock: lock }
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        drop(fs::set_permissions(
            DEVICE,
            Permissions::from_mode(self.mode & 0o7777),
        ));
    }
}

struct User {
    home: tempfile::TempDir,
    _device: OpenDevice,
}

impl User {
    fn new() -> User {
        let home = tempfile::tempdir().unwrap();
        fs::copy(assert_cmd::cargo::cargo_bin!("avfs"), home.path().join("avfs")).unwrap();
        chown(home.path(), Some(UID), Some(UID)).unwrap();
        User {
            home,
            _device: OpenDevice::new(),
        }
    }

    fn run(&self, words: &[&str]) -> Output {
        let uid = UID.to_string();
        let mut setpriv = Command::new("setpriv");
        setpriv
            .args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--"])
            .arg(self.home.path().join("avfs"));
        setpriv
            .args(words)
            .current_dir(self.home.path())
            .env_clear()
            .envs(&TestEnv::of_home(self.home.path()).with_programs());
        setpriv.output().unwrap()
    }

    #[track_caller]
    fn good(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        drop(self.run(&["session", "stop", "--all"]));
    }
}

#[test]
fn an_ordinary_user_has_sessions_that_do_the_same() {
    let user = User::new();
    user.good(&["vault", "create", "web", "--use"]);
    let id = user.good(&["session", "start"]);
    let line = |line: &str| user.run(&["session", "exec", id.trim(), "-c", line]);
    assert_eq!(
        line("mkdir a; cd a; x=1; f() { echo f$x; }; echo out; echo err >&2; (exit 7)")
            .status
            .code(),
        Some(7)
    );
    assert_eq!(
        line("id -un; pwd; f; echo $?; echo text > file").stdout,
        b"agent\n/workspace/a\nf1\n0\n"
    );
    assert_eq!(user.good(&["cat", "a/file"]), "text\n");
    let late = user.run(&[
        "session",
        "exec",
        id.trim(),
        "--timeout",
        "200",
        "-c",
        "sleep 1000; echo never",
    ]);
    assert_eq!((late.status.code(), late.stdout), (Some(124), Vec::new()));
    assert_eq!(
        line("while read x; do :; done; echo $PWD").stdout,
        b"/workspace/a\n"
    );
    assert_eq!(line("exec >&-; echo lost").status.code(), Some(1));
    assert_eq!(line("sleep 1000 & echo bg").stdout, b"bg\n");
    assert_eq!(line("exit 9").status.code(), Some(9));
    assert_eq!(
        user.run(&["session", "exec", id.trim(), "-c", "true"])
            .status
            .code(),
        Some(3)
    );
}
