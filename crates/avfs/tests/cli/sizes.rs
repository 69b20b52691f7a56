//! Trees that are cheap to create: enormous holes, and directories nested more deeply than a path can
//! express. Every command that reads them has tight limits of time, memory and stack.

use avfs_testkit::TestEnv;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Mode, OFlags};

use crate::sandbox::Sandbox;

/// Reading it at 10 GB a second would take a quarter of an hour.
const HOLES: u64 = 8 << 40;
/// Deeper than a path of 4095 bytes can say.
const DEPTH: usize = 2200;
/// The limits of a command: seconds, KiB of address space, KiB of stack.
const BOUNDS: &str = "ulimit -v 3000000; ulimit -s 1024; exec timeout -s KILL 240 \"$@\"";

/// Runs a command within bounds; returns its status.
#[track_caller]
fn bounded(sandbox: &Sandbox, line: &str) -> i32 {
    let mut command = Command::new("sh");
    command
        .args(["-c", BOUNDS, "sh"])
        .arg(assert_cmd::cargo::cargo_bin!("avfs"));
    command
        .args(line.split_whitespace())
        .env_clear()
        .envs(&TestEnv::of_home(sandbox.path("home")).with_programs())
        .current_dir(sandbox.path("project/src"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr)
        .chars()
        .take(500)
        .collect::<String>();
    let status = output.status.code();
    // Above these are mistakes of the program and signals: it ran out of time, memory or stack.
    assert!(
        status.is_some_and(|status| status < 70),
        "avfs {line}: {}: {said}",
        output.status
    );
    status.unwrap()
}

#[track_caller]
fn all_good(sandbox: &Sandbox, lines: &[&str]) {
    for line in lines {
        assert_eq!(bounded(sandbox, line), 0, "avfs {line}");
    }
}

fn holes(path: &Path, at: u64, bytes: &[u8]) {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap();
    file.set_len(HOLES).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// A project with files of holes, and a task that changed all of them.
fn with_task(sandbox: &Sandbox) -> PathBuf {
    let root = sandbox.path("web");
    fs::create_dir(&root).unwrap();
    for name in ["edited", "moved", "removed", "cut", "mode"] {
        holes(&root.join(name), 1 << 40, b"host");
    }
    let dir = PathBuf::from(
        sandbox
            .good(&format!("workspace start t --from {}", root.display()))
            .trim_end(),
    );
    holes(&dir.join("edited"), 2 << 40, b"task");
    holes(&dir.join("added"), 3 << 40, b"task");
    fs::rename(dir.join("moved"), dir.join("moved-to")).unwrap();
    fs::remove_file(dir.join("removed")).unwrap();
    File::options()
        .write(true)
        .open(dir.join("cut"))
        .unwrap()
        .set_len(HOLES / 2)
        .unwrap();
    fs::set_permissions(
        dir.join("mode"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    sandbox.good("workspace stop t");
    root
}

#[test]
fn holes_of_a_task_cost_nothing_to_look_at_apply_and_undo() {
    let sandbox = Sandbox::new();
    let root = with_task(&sandbox);
    let read = |name: &str, at: u64| {
        let mut bytes = [0; 4];
        File::open(root.join(name))
            .unwrap()
            .read_exact_at(&mut bytes, at)
            .unwrap();
        bytes
    };
    all_good(
        &sandbox,
        &[
            "tasks --all",
            "tasks --all --json",
            "diff t",
            "diff t --patch",
            "diff t --stat --json",
            "review t --json",
            "apply t --dry-run",
            "apply t",
        ],
    );
    assert_eq!(
        (&read("edited", 2 << 40), &read("edited", 1 << 40)),
        (b"task", b"host")
    );
    assert_eq!(
        (&read("added", 3 << 40), &read("moved-to", 1 << 40)),
        (b"task", b"host")
    );
    all_good(
        &sandbox,
        &["tasks --all", "undo --apply 1", "apply t", "undo --apply 3"],
    );
    assert_eq!(
        (&read("edited", 2 << 40), &read("edited", 1 << 40)),
        (b"\0\0\0\0", b"host")
    );
    assert!(root.join("removed").exists() && root.join("moved").exists() && !root.join("added").exists());
    // The user changes the same files: now both sides are compared.
    holes(&root.join("edited"), 4 << 40, b"user");
    holes(&root.join("moved"), 4 << 40, b"user");
    holes(&root.join("removed"), 4 << 40, b"user");
    assert_eq!(bounded(&sandbox, "apply t"), 1, "conflicts");
    all_good(&sandbox, &["tasks --all --conflicts", "review t --json"]);
    assert_eq!(bounded(&sandbox, "sync t"), 1, "conflicts");
    all_good(&sandbox, &["diff t", "discard t --yes", "fsck", "gc"]);
}

#[test]
fn holes_of_a_vault_cost_nothing_to_look_at_and_carry() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("web");
    fs::create_dir(&root).unwrap();
    holes(&root.join("large"), 1 << 40, b"here");
    let to = |name: &str| sandbox.path(name).display().to_string();
    all_good(
        &sandbox,
        &[
            &format!("vault create v --from {} --use", root.display()),
            "vault fork v other",
            "stat large",
            "cat large --bytes 1099511627776:1099511627780 --json",
            "ls -l",
            "find",
            "tree",
            "cp large copy",
            "checkpoint save one",
            "mv copy moved",
            "log moved",
            "diff one",
            "diff one --patch",
            "checkout one copy",
            "merge other",
            "undo",
            "stats",
            "fsck",
            &format!("export {}", to("exported")),
            &format!("export {}", to("exported.tar")),
            &format!("import {} /again", to("exported.tar")),
            &format!("import {} /once-more", to("exported")),
            &format!("vault export v {}", to("vault.avfs")),
            &format!("vault import {} --name carried", to("vault.avfs")),
            "gc",
        ],
    );
    assert_eq!(
        (bounded(&sandbox, "grep here"), bounded(&sandbox, "search here")),
        (1, 1),
        "it is no text"
    );
    assert_eq!(
        bounded(&sandbox, "cat large --json"),
        2,
        "JSON is in memory as a whole"
    );
    assert_eq!(
        bounded(&sandbox, "cat large moved --bytes 0:60000000 --json"),
        2,
        "all files together"
    );
    let version = sandbox.object("stat large --json")["entries"][0]["version"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        bounded(&sandbox, &format!("write large --expect {version} new")),
        0
    );
}

/// Creates a chain of directories with a file at its end. Creating deep down costs more than moving there, so
/// it is built in pieces.
fn nest(top: &Path, depth: usize) {
    const PIECE: usize = 500;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = rustix::fs::open(top, flags, Mode::empty()).unwrap();
    let mut made = 0;
    while made < depth {
        let levels = PIECE.min(depth - made);
        rustix::fs::mkdirat(&top, "piece", Mode::RWXU).unwrap();
        let mut at = rustix::fs::openat(&top, "piece", flags, Mode::empty()).unwrap();
        for _ in 1..levels {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
        }
        match made {
            0 => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&at, "leaf", flags, Mode::RUSR).unwrap();
                rustix::io::write(&file, b"leaf\n").unwrap();
            }
            _ => rustix::fs::renameat(&top, "d", &at, "d").unwrap(),
        }
        rustix::fs::renameat(&top, "piece", &top, "d").unwrap();
        made += levels;
    }
}

#[test]
fn directories_deeper_than_paths_take_neither_stack_nor_endless_time() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("web");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("file"), "text").unwrap();
    let dir = PathBuf::from(
        sandbox
            .good(&format!("workspace start t --from {}", root.display()))
            .trim_end(),
    );
    fs::create_dir(dir.join("deep")).unwrap();
    nest(&dir.join("deep"), DEPTH);
    sandbox.good("workspace stop t");
    let to = |name: &str| sandbox.path(name).display().to_string();
    all_good(
        &sandbox,
        &[
            "tasks --all",
            "diff t",
            "diff t --json",
            "review t --json",
            "vault use web/t",
            "tree",
            "tree --json",
            "ls -R",
            "find --name leaf",
            "grep leaf",
            "tree --rule /**=write --rule /**/leaf=none",
            "checkpoint save one",
            "cp -r deep copy",
            "diff one",
            "rm -r copy",
            "mv deep moved",
            "checkout one deep",
            &format!("export {}", to("exported.tar")),
            "fsck",
        ],
    );
    assert_eq!(
        bounded(&sandbox, "search leaf"),
        1,
        "what no path names is not indexed"
    );
    // A path of the host is at most 4095 bytes long: nothing is done by half.
    assert_eq!(bounded(&sandbox, "apply t"), 1, "a conflict");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
    assert_eq!(bounded(&sandbox, &format!("export {}", to("exported"))), 8);
    all_good(&sandbox, &["discard t --yes", "gc"]);
}

/// Runs a command that may use this many KiB of memory, and a minute of CPU time; its output is discarded.
#[track_caller]
fn within_memory(sandbox: &Sandbox, memory: usize, line: &str) -> i32 {
    let bounds = format!("ulimit -d {memory}; ulimit -t 60; exec \"$@\" >/dev/null");
    let mut command = Command::new("sh");
    command
        .args(["-c", &bounds, "sh"])
        .arg(assert_cmd::cargo::cargo_bin!("avfs"));
    command
        .args(line.split_whitespace())
        .env_clear()
        .envs(&TestEnv::of_home(sandbox.path("home")).with_programs())
        .current_dir(sandbox.path("web"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr)
        .chars()
        .take(500)
        .collect::<String>();
    let status = output.status.code();
    assert!(
        status.is_some_and(|status| status < 70),
        "avfs {line}: {}: {said}",
        output.status
    );
    status.unwrap()
}

/// Ten thousand files in one directory need 40,000 KiB; whole paths of as many levels would need 400,000.
#[test]
fn ten_thousand_nested_directories_take_memory_of_their_number_and_not_its_square() {
    let (levels, memory) = (10_000, 110_000);
    let sandbox = Sandbox::new();
    let root = sandbox.path("web");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("file"), "text").unwrap();
    let dir = PathBuf::from(
        sandbox
            .good(&format!("workspace start t --from {}", root.display()))
            .trim_end(),
    );
    fs::create_dir(dir.join("deep")).unwrap();
    nest(&dir.join("deep"), levels);
    sandbox.good("workspace stop t");
    for line in [
        "status",
        "tasks",
        "diff t",
        "diff t --patch",
        "diff t --stat --json",
        "review t --json",
        "tree --vault web/t",
        "ls --vault web/t deep",
        "find --name leaf --vault web/t",
        "grep leaf --vault web/t",
        "stats",
        "gc",
        "fsck",
    ] {
        assert_eq!(within_memory(&sandbox, memory, line), 0, "avfs {line}");
    }
    let tasks = sandbox.object("tasks --all --json");
    assert_eq!(
        tasks["tasks"][0]["changed"]["added"], 1,
        "the file at the end counts"
    );
    assert_eq!(
        within_memory(&sandbox, memory, "apply t --dry-run"),
        1,
        "a conflict"
    );
    assert_eq!(within_memory(&sandbox, memory, "apply t"), 1, "a conflict");
    assert_eq!(within_memory(&sandbox, memory, "discard t --yes"), 0);
    assert_eq!(within_memory(&sandbox, memory, "gc"), 0);
}
