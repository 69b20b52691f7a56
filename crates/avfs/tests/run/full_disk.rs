//! The disk of the store gets full while a program runs.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use avfs_testkit::{SmallDisk, noise};
use serde_json::Value;

use crate::project::Project;

const DISK: u64 = 96 << 20;

/// As large as fits into a journal, and not once more as objects.
const BIG: &str = "head -c 60M /dev/urandom >big; echo dd=$?; echo x >late; echo late=$?";

/// A project, and a store on a disk of its own.
struct Ground<'a> {
    project: Project,
    disk: &'a Path,
}

impl Ground<'_> {
    fn store(&self) -> PathBuf {
        self.disk.join("store")
    }

    fn avfs(&self, words: &[&str]) -> Command {
        let mut command = self.project.avfs(words);
        command.env("AVFS_HOME", self.store());
        command
    }

    fn ran(&self, words: &[&str]) -> (Option<i32>, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = self.avfs(words).output().unwrap();
        let told = [stdout, stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat();
        (status.code(), told)
    }

    #[track_caller]
    fn good(&self, words: &[&str]) -> String {
        let (status, told) = self.ran(words);
        assert_eq!(status, Some(0), "{words:?}: {told}");
        told
    }

    /// Runs a program whose output does not fit.
    fn overfill(&self, name: &str) -> String {
        let (status, told) = self.ran(&["run", "--name", name, "--", "bash", "-c", BIG]);
        assert_eq!(status, Some(7), "{told}");
        assert!(told.contains("dd=0\nlate=0\n"), "{told}");
        told
    }

    /// Mounts of ours below the store.
    fn mounted(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let below = self.store().display().to_string();
        table
            .lines()
            .filter(|line| line.contains(&below))
            .map(str::to_owned)
            .collect()
    }

    fn state_of(&self, task: &str) -> Value {
        let body: Value = serde_json::from_str(&self.good(&["--json", "tasks"])).unwrap();
        let tasks = body["tasks"].as_array().unwrap().clone();
        tasks
            .into_iter()
            .find(|body| body["name"] == task)
            .unwrap_or_default()
    }

    /// Not a byte is left.
    fn fill(&self) {
        let mut ballast = File::options()
            .append(true)
            .create(true)
            .open(self.disk.join("ballast"))
            .unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            while ballast.write_all(&noise(1, size)).is_ok() {}
        }
    }
}

fn on_small_disk(name: &str, test: impl FnOnce(&Ground<'_>)) {
    SmallDisk::with(&format!("full_disk::{name}"), DISK, |disk| {
        test(&Ground {
            project: Project::new(),
            disk,
        });
    });
}

#[test]
fn a_run_that_cannot_be_stored_leaves_no_mount_and_says_what_helps() {
    on_small_disk(
        "a_run_that_cannot_be_stored_leaves_no_mount_and_says_what_helps",
        |ground| {
            let told = ground.overfill("half");
            assert_eq!(ground.mounted(), Vec::<String>::new());
            for words in [
                "task 'half' is not stored",
                "room for about 61 MiB",
                "`avfs discard half` drops it",
            ] {
                assert!(told.contains(words), "{words}: {told}");
            }
            // Going on with it is refused for the same reason, and leaves as little.
            let (status, told) = ground.ran(&["run", "--task", "half", "--", "true"]);
            assert_eq!((status, ground.mounted()), (Some(7), Vec::new()), "{told}");
            assert!(told.contains("task 'half' is not stored"), "{told}");
            assert_eq!(fs::read_dir(ground.store().join("runs")).unwrap().count(), 0);
            let half = ground.state_of("half");
            assert_eq!(half["state"], "unreadable", "{half}");
            assert!(half["trouble"].as_str().unwrap().contains("not stored"), "{half}");
            // Others go on.
            ground.good(&["run", "--name", "other", "--", "sh", "-c", "echo new >new"]);
            assert_eq!(ground.state_of("other")["state"], "unmerged");
        },
    );
}

#[test]
fn unstored_changes_are_stored_once_there_is_room() {
    on_small_disk("unstored_changes_are_stored_once_there_is_room", |ground| {
        fs::write(ground.disk.join("ballast"), vec![0; 60 << 20]).unwrap();
        let small = BIG.replace("60M", "20M");
        let (status, told) = ground.ran(&["run", "--name", "half", "--", "bash", "-c", &small]);
        assert_eq!(status, Some(7), "{told}");
        assert_eq!(ground.ran(&["diff", "half"]).0, Some(7));
        fs::remove_file(ground.disk.join("ballast")).unwrap();
        let told = ground.good(&["diff", "half", "--stat"]);
        assert!(told.contains("big") && told.contains("late"), "{told}");
        ground.good(&["fsck"]);
    });
}

#[test]
fn work_that_cannot_be_stored_is_discarded_without_a_byte_of_room() {
    on_small_disk(
        "work_that_cannot_be_stored_is_discarded_without_a_byte_of_room",
        |ground| {
            ground.good(&[
                "run",
                "--name",
                "old",
                "--",
                "sh",
                "-c",
                "head -c 8M /dev/urandom >old",
            ]);
            ground.good(&["discard", "old", "--yes"]);
            ground.overfill("half");
            ground.fill();
            // Garbage is collected, and the contents of the journal are not lost by it.
            let told = ground.good(&["gc"]);
            assert!(told.contains("8.0 MiB given back"), "{told}");
            ground.fill();
            assert!(ground.good(&["tasks"]).contains("unreadable"));
            ground.good(&["discard", "half", "--yes"]);
            assert_eq!(ground.state_of("half"), Value::Null);
            // The room of the journal is free again.
            ground.good(&["gc"]);
            ground.good(&[
                "run",
                "--name",
                "next",
                "--",
                "sh",
                "-c",
                "head -c 4M /dev/urandom >new",
            ]);
            ground.good(&["fsck"]);
        },
    );
}

#[test]
fn a_vault_whose_work_cannot_be_stored_is_deleted_without_a_byte_of_room() {
    on_small_disk(
        "a_vault_whose_work_cannot_be_stored_is_deleted_without_a_byte_of_room",
        |ground| {
            ground.overfill("half");
            ground.fill();
            ground.good(&["vault", "delete", "web/half", "--yes"]);
            assert_eq!(ground.state_of("half"), Value::Null);
            ground.good(&["fsck"]);
        },
    );
}

#[test]
fn a_mount_that_a_run_left_is_gone_after_the_next_command() {
    on_small_disk(
        "a_mount_that_a_run_left_is_gone_after_the_next_command",
        |ground| {
            ground.good(&["run", "--name", "some", "--", "sh", "-c", "echo new >new"]);
            // As a run leaves it that died after it had removed its lock.
            let place = ground.store().join("runs/r1/workspace");
            for (words, told) in [(vec!["mounts"], "nothing is mounted"), (vec!["tasks"], "some")] {
                leave_mount(&place);
                assert_eq!(ground.mounted().len(), 1);
                assert!(ground.good(&words).contains(told));
                assert_eq!(
                    (ground.mounted(), place.exists()),
                    (Vec::new(), false),
                    "{words:?}"
                );
            }
            leave_mount(&place);
            let told = ground.good(&["unmount", place.to_str().unwrap()]);
            assert!(told.contains("is unmounted"), "{told}");
            assert_eq!(ground.mounted(), Vec::<String>::new());
        },
    );
}

/// A mount of ours without a server.
fn leave_mount(place: &Path) {
    fs::create_dir_all(place).unwrap();
    let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let fd = device.as_raw_fd();
    let options = CString::new(format!("fd={fd},rootmode=40000,user_id=0,group_id=0")).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("avfs:web/some", place, "fuse.avfs", flags, &*options).unwrap();
}
