//! Trees that cost nothing to make: enormous holes, and directories nested more deeply than a path can say. Every command
//! that looks at them has little time, memory and stack.

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
/// What a command may take: seconds, KiB of address space, KiB of stack.
const BOUNDS: &str = "ulimit -v 3000000; ulimit -s 1024; exec timeout -s KILL 240 \"$@\"";

/// Runs a command within bounds; returns its status.
#[track_caller]
fn bounded(sandbox: &Sandbox, line: &str) -> i32 {
    let mut command = Command::new("sh");
    command.args(["-c", BOUNDS, "sh"]).arg(assert_cmd::cargo::cargo_bin!("avfs"));
    command.args(line.split_whitespace()).env_clear().env("PATH", "/usr/bin:/bin");
    command.env("HOME", sandbox.path("home")).current_dir(sandbox.path("project/src"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).chars().take(500).collect::<String>();
    let status = output.status.code();
    // Above these are mistakes of the program and signals: it ran out of time, memory or stack.
    assert!(status.is_some_and(|status| status < 70), "avfs {line}: {}: {said}", output.status);
    status.unwrap()
}

#[track_caller]
fn all_good(sandbox: &Sandbox, lines: &[&str]) {
    for line in lines {
        assert_eq!(bounded(sandbox, line), 0, "avfs {line}");
    }
}

fn holes(path: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
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
    let dir = PathBuf::from(sandbox.good(&format!("workspace start t --from {}", root.display())).trim_end());
    holes(&dir.join("edited"), 2 << 40, b"task");
    holes(&dir.join("added"), 3 << 40, b"task");
    fs::rename(dir.join("moved"), dir.join("moved-to")).unwrap();
    fs::remove_file(dir.join("removed")).unwrap();
    File::options().write(true).open(dir.join("cut")).unwrap().set_len(HOLES / 2).unwrap();
    fs::set_permissions(dir.join("mode"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    sandbox.good("workspace stop t");
    root
}

#[test]
fn holes_of_a_task_cost_nothing_to_look_at_apply_and_undo() {
    let sandbox = Sandbox::new();
    let root = with_task(&sandbox);
    let read = |name: &str, at: u64| {
        let mut bytes = [0; 4];
        File::open(root.join(name)).unwrap().read_exact_at(&mut bytes, at).unwrap();
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
    assert_eq!((&read("edited", 2 << 40), &read("edited", 1 << 40)), (b"task", b"host"));
    assert_eq!((&read("added", 3 << 40), &read("moved-to", 1 << 40)), (b"task", b"host"));
    all_good(&sandbox, &["tasks --all", "undo --apply 1", "apply t", "undo --apply 3"]);
    assert_eq!((&read("edited", 2 << 40), &read("edited", 1 << 40)), (b"\0\0\0\0", b"host"));
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
    assert_eq!((bounded(&sandbox, "grep here"), bounded(&sandbox, "search here")), (1, 1), "it is no text");
    assert_eq!(bounded(&sandbox, "cat large --json"), 2, "JSON is in memory as a whole");
    assert_eq!(bounded(&sandbox, "cat large moved --bytes 0:60000000 --json"), 2, "all files together");
    let version = sandbox.object("stat large --json")["entries"][0]["version"].as_str().unwrap().to_owned();
    assert_eq!(bounded(&sandbox, &format!("write large --expect {version} new")), 0);
}

/// Makes a chain of directories with a file at its end, and one in each of the first ten.
fn nest(top: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(top, flags, Mode::empty()).unwrap();
    for _ in 0..DEPTH {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&at, "leaf", flags, Mode::RUSR).unwrap();
    rustix::io::write(&file, b"leaf\n").unwrap();
}

#[test]
fn directories_deeper_than_paths_take_neither_stack_nor_endless_time() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("web");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("file"), "text").unwrap();
    let dir = PathBuf::from(sandbox.good(&format!("workspace start t --from {}", root.display())).trim_end());
    fs::create_dir(dir.join("deep")).unwrap();
    nest(&dir.join("deep"));
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
    assert_eq!(bounded(&sandbox, "search leaf"), 1, "what no path names is not indexed");
    // A path of the host is at most 4095 bytes long: nothing is done by half.
    assert_eq!(bounded(&sandbox, "apply t"), 1, "a conflict");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
    assert_eq!(bounded(&sandbox, &format!("export {}", to("exported"))), 8);
    all_good(&sandbox, &["discard t --yes", "gc"]);
}
