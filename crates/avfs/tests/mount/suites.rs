//! Suites for file systems. They judge for themselves, so there is nothing to compare.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::place::in_a_mount;
use crate::shell::{command, end_of, good_within};

/// A program that `scripts/test` builds beside our own.
fn tool(name: &str) -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let tool = target.join("tools/bin").join(name);
    assert!(
        tool.exists(),
        "{} is missing: scripts/test installs it",
        tool.display()
    );
    tool.to_str().unwrap().to_owned()
}

fn settings(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/mount/suites")
        .join(name)
}

/// A number that `scripts/soak` makes larger.
fn amount(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

fn limit() -> Duration {
    Duration::from_secs(amount("AVFS_SUITE_SECONDS", 240))
}

/// A directory whose path length avoids a bug of the suite, which affects one length in 127: it adds two
/// names of eleven bytes, and fills the rest of 4,095 bytes with names of 127.
fn of_good_length(dir: &Path) -> PathBuf {
    let is_good = |dir: &PathBuf| !(4095 - 22 - dir.as_os_str().len()).is_multiple_of(127);
    let found = ["pjdfstest", "pjdfstest1"]
        .map(|name| dir.join(name))
        .into_iter()
        .find(is_good)
        .unwrap();
    fs::create_dir(&found).unwrap();
    found
}

/// The number before a word of the summary.
fn count(summary: &str, word: &str) -> Option<u32> {
    let before = summary.split(word).next()?;
    before.split_whitespace().last()?.parse().ok()
}

#[test]
fn pjdfstest_finds_nothing_wrong() {
    assert!(
        rustix::process::geteuid().is_root(),
        "pjdfstest takes on other users, which only root can do"
    );
    in_a_mount(|run| {
        let elsewhere = other_file_system();
        let mut suite = command(&tool("pjdfstest"), run.aside);
        suite
            .arg("-c")
            .arg(settings("pjdfstest.toml"))
            .arg("-p")
            .arg(of_good_length(run.dir));
        suite.arg("-s").arg(elsewhere.path());
        let ended = end_of(suite, limit());
        let summary = ended
            .text
            .lines()
            .find(|line| line.starts_with("Summary"))
            .unwrap_or(&ended.text);
        assert!(ended.status.success(), "{}{summary}", failures(&ended.text));
        assert_eq!(count(summary, "failed"), Some(0), "{summary}");
        assert!(
            count(summary, "passed").is_some_and(|passed| passed >= 384),
            "{summary}"
        );
    });
}

/// For links and renames that must not leave the file system.
fn other_file_system() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// Each failed test with the reason on the next line.
fn failures(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let failed = lines.windows(2).filter(|pair| pair[0].contains("FAILED"));
    failed.map(|pair| pair.join("\n") + "\n").collect()
}

/// Random operations on one file, some of them through a mapping, each read checked against memory.
#[track_caller]
fn fsx(seed: u64) {
    in_a_mount(|run| {
        let mut fsx = command(&tool("fsx"), run.aside);
        fsx.arg("-f")
            .arg(settings("fsx.toml"))
            .args(["-S", &seed.to_string()]);
        fsx.args(["-N", &amount("AVFS_FSX_OPERATIONS", 50_000).to_string()]);
        fsx.arg("-P").arg(run.aside).arg(run.dir.join("file"));
        good_within(limit(), fsx);
    });
}

#[test]
fn fsx_reads_what_it_wrote() {
    fsx(amount("AVFS_FSX_SEED", 1));
}

#[test]
fn fsx_reads_what_it_wrote_with_another_seed() {
    fsx(amount("AVFS_FSX_SEED", 1) + 1);
}

/// Those of its class `filesystem` that work in one directory, and not on the whole machine.
const STRESSORS: &str = "access chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify fallocate fcntl \
    fiemap file-ioctl filename flock fpunch fsize fstat getdent hdd inotify iomix lease link locka lockf lockofd \
    mknod open rename symlink sync-file touch utime xattr";

#[test]
fn stress_ng_finds_nothing_wrong() {
    in_a_mount(|run| {
        let mut stress = command("stress-ng", run.aside);
        stress.arg("--temp-path").arg(run.dir).arg("--verify");
        stress.args(["--timeout", &amount("AVFS_STRESS_SECONDS", 15).to_string()]);
        for sized in ["hdd", "iomix", "fallocate", "sync-file"] {
            stress.args([&format!("--{sized}-bytes"), "16m"]);
        }
        STRESSORS
            .split_whitespace()
            .for_each(|name| _ = stress.args([&format!("--{name}"), "1"]));
        let text = good_within(limit(), stress);
        assert!(text.contains("successful run completed"), "{text}");
        assert_eq!(
            fs::read_dir(run.dir).unwrap().count(),
            0,
            "it cleans up behind itself"
        );
    });
}

#[test]
fn fio_verifies_what_it_wrote() {
    in_a_mount(|run| {
        let mut fio = command("fio", run.aside);
        let megabytes = amount("AVFS_FIO_MEGABYTES", 16);
        fio.env("DIR", run.dir)
            .env("SIZE", format!("{megabytes}m"))
            .arg(settings("verify.fio"));
        good_within(limit(), fio);
    });
}

#[test]
fn pjdfstest_output_is_understood() {
    let text = "link::a   ok\nlink::b   FAILED\n\tno such thing\nlink::c ok\n\nSummary: 1 failed, 13 skipped, 384 \
                passed, 0 expected failures, 398 total";
    let summary = text.lines().last().unwrap();
    assert_eq!(
        [count(summary, "failed"), count(summary, "passed")],
        [Some(1), Some(384)]
    );
    assert_eq!(failures(text), "link::b   FAILED\n\tno such thing\n");
}
