//! Runs that an ordinary user starts. If the test runs as root, it starts them as such a user.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::kit::{STAGE, is_root};

const NOBODY: u32 = 65_534;

/// A directory that an ordinary user owns, with a copy of the launching program.
struct Ordinary {
    place: TempDir,
}

impl Ordinary {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        std::fs::copy(STAGE, place.path().join("launch")).unwrap();
        std::fs::create_dir(place.path().join("w")).unwrap();
        if is_root() {
            chown(place.path().join("w"), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Self { place }
    }

    fn launch(&self, launcher: &str, script: &str) -> Output {
        let program = self.place.path().join("launch");
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"])
                .arg(program);
            command
        } else {
            Command::new(program)
        };
        command
            .current_dir("/")
            .arg(launcher)
            .arg(self.place.path().join("w"))
            .args(["sh", "-c", script])
            .output()
            .unwrap()
    }
}

#[track_caller]
fn said(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn an_ordinary_user_has_the_same_sandbox() {
    let user = Ordinary::new();
    let script = "id -un; pwd; echo x > made; grep -E '^(CapEff|NoNewPrivs|Seccomp:)' /proc/self/status; ls /root /etc/shadow 2>/dev/null; ls -A /home";
    let expected = "agent\n/workspace\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nagent\n";
    for launcher in ["bubblewrap", "processes"] {
        let output = user.launch(launcher, &format!("{script}; true"));
        assert_eq!(said(&output), expected, "{launcher}");
    }
    assert_eq!(
        std::fs::read_to_string(user.place.path().join("w/made")).unwrap(),
        "x\n"
    );
}

#[test]
fn exit_codes_come_through() {
    let user = Ordinary::new();
    for launcher in ["bubblewrap", "landlock", "processes"] {
        assert_eq!(
            user.launch(launcher, "exit 42").status.code(),
            Some(42),
            "{launcher}"
        );
        assert_eq!(
            user.launch(launcher, "kill -9 $$").status.code(),
            Some(137),
            "{launcher}"
        );
    }
}

#[test]
fn an_ordinary_user_without_bubblewrap_can_use_landlock() {
    let user = Ordinary::new();
    let output = user.launch(
        "landlock",
        "echo x > made; cat made; cat /etc/shadow /root/x 2>/dev/null; git --version | cut -d' ' -f1",
    );
    assert_eq!(said(&output), "x\ngit\n");
}

#[test]
fn without_control_groups_places_in_memory_hold_no_more_than_the_limit_of_memory() {
    let user = Ordinary::new();
    let output = user.launch(
        "bubblewrap",
        "df -B1 --output=size /tmp /dev/shm $HOME | tail -n +2",
    );
    let sizes: Vec<u64> = said(&output)
        .lines()
        .map(|line| line.trim().parse().unwrap())
        .collect();
    let memory = avfs_exec::RunLimits::default().memory.unwrap();
    assert!(
        sizes.len() == 3 && sizes.iter().sum::<u64>() <= memory,
        "{sizes:?}"
    );
}
