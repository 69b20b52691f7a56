//! How runs end, and that nothing is left of them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::project::{Project, good};

/// Longer than anything takes on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_status_is_the_programs_own_and_a_task_goes_on() {
    let project = Project::new();
    let ended = project
        .avfs(&["run", "--name", "one", "--", "sh", "-c", "echo more >new; exit 7"])
        .output();
    assert_eq!(ended.unwrap().status.code(), Some(7));
    let ended = project
        .avfs(&["run", "--task", "one", "--", "sh", "-c", "cat new; kill -TERM $$"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), "more\n");
    assert_eq!(ended.status.code(), Some(128 + 15));
    let log = good(&mut project.avfs(&["audit", "--vault", "one"]));
    assert!(log.contains("exit 7") && log.contains("exit 143"), "{log}");
}

#[test]
fn without_a_terminal_a_program_reads_and_writes_pipes() {
    let project = Project::new();
    let mut run = project.avfs(&["run", "--", "sh", "-c", "tty; cat; echo aside >&2"]);
    let mut run = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut run.stdin.take().unwrap(), b"typed\n").unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "not a tty\ntyped\n");
    assert!(String::from_utf8(output.stderr).unwrap().contains("aside\n"));
}

#[test]
fn a_killed_front_leaves_nothing() {
    for signal in [Signal::KILL, Signal::TERM] {
        let project = Project::new();
        let mut run = project.avfs(&["run", "--", "agent", "hold"]);
        let mut run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(run.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "ready");
        let runs = project.store().join("runs");
        assert_eq!(fs::read_dir(&runs).unwrap().count(), 1);
        kill_process(Pid::from_child(&run), signal).unwrap();
        run.wait().unwrap();
        let start = Instant::now();
        while fs::read_dir(&runs).unwrap().count() > 0 {
            assert!(start.elapsed() < PATIENCE, "{signal:?}: the run is still there");
            std::thread::yield_now();
        }
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        assert!(
            !mounts.contains(&*project.home().to_string_lossy()),
            "{signal:?}: {mounts}"
        );
    }
}

#[test]
fn a_killed_supervisor_is_reported_with_the_task_and_how_to_look_at_it() {
    let project = Project::new();
    let mut run = project.avfs(&["run", "--name", "fix", "--", "agent", "hold"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(run.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.id())).unwrap();
    let worker = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
    kill_process(worker, Signal::KILL).unwrap();
    let ended = run.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(8), "{told}");
    assert!(
        told.contains("error: task fix: the process that did the work was killed by signal 9")
            && told.contains("hint: `avfs diff fix` shows what was done until then"),
        "{told}"
    );
    good(&mut project.avfs(&["diff", "fix"]));
}

#[test]
fn a_long_run_keeps_the_repository_even_if_the_host_takes_it_away() {
    let project = Project::new();
    let packs = project.root().join(".git/objects/pack");
    fs::create_dir_all(&packs).unwrap();
    let pack: Vec<u8> = (0..1_u32 << 19).flat_map(|number| number.to_le_bytes()).collect();
    fs::write(packs.join("one.pack"), &pack).unwrap();
    let mut run = project.avfs(&[
        "run",
        "--",
        "sh",
        "-c",
        "echo ready; read go; cat .git/objects/pack/one.pack",
    ]);
    let mut run = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(run.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let start = Instant::now();
    while size_of(&project.store().join("packs")) < pack.len() as u64 {
        assert!(start.elapsed() < PATIENCE, "the repository was not taken");
        std::thread::yield_now();
    }
    fs::remove_dir_all(project.root().join(".git")).unwrap();
    run.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut read = Vec::new();
    output.read_to_end(&mut read).unwrap();
    assert!(read == pack, "{} bytes of {}", read.len(), pack.len());
    assert!(run.wait().unwrap().success());
}

fn size_of(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files
        .map(|file| file.metadata().map_or(0, |file| file.len()))
        .sum()
}

#[test]
fn successful_run_is_applied_if_requested() {
    let project = Project::new();
    let script = |status: u8| format!("echo applied >work.txt; exit {status}");
    let run = |status: u8| {
        let script = script(status);
        project
            .avfs(&["run", "--apply-on-success", "--", "sh", "-c", &script])
            .output()
            .unwrap()
    };
    assert_eq!(run(1).status.code(), Some(1));
    assert_eq!(project.read("web/work.txt"), "as it was\n");
    let ended = run(0);
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    assert_eq!(project.read("web/work.txt"), "applied\n");
}

#[test]
fn in_json_an_apply_is_a_part_of_the_runs_object() {
    let project = Project::new();
    let run = |flags: &[&str], script: &str| {
        let words = [
            &["run", "--json", "--apply-on-success"],
            flags,
            &["--", "sh", "-c", script],
        ]
        .concat();
        let output = project.avfs(&words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["kind"], "run", "{text}");
        (output.status.code(), object["apply"].clone())
    };
    let (status, apply) = run(&[], "cat work.txt; echo applied >work.txt");
    assert_eq!(
        (status, &apply["files"][0]["action"]),
        (Some(0), &"replaced".into())
    );
    assert_eq!(project.read("web/work.txt"), "applied\n");
    let (status, apply) = run(&[], "exit 3");
    assert_eq!((status, apply.is_null()), (Some(3), true));
    assert_eq!(
        run(&["--name", "later"], "cat work.txt; echo task >work.txt; exit 1").0,
        Some(1)
    );
    fs::write(project.root().join("work.txt"), "mine\n").unwrap();
    let (status, apply) = run(&["--task", "later"], "true");
    assert_eq!(
        (status, &apply["error"]["code"]),
        (Some(1), &"apply-conflicts".into())
    );
    assert_eq!(project.read("web/work.txt"), "mine\n");
}

#[test]
fn limits_that_hold_for_each_process_alone_are_told_before_and_after() {
    let project = Project::new();
    let run = |words: &[&str]| {
        let words = [&["run", "--name", words[0]], &words[1..]].concat();
        String::from_utf8(project.avfs_as_nobody(&project.root(), &words).stderr).unwrap()
    };
    let told = run(&[
        "one", "--memory", "1G", "--pids", "4000", "--", "sh", "-c", "exit 3",
    ]);
    let before = "memory is limited per process only";
    assert!(told.contains(before), "{told}");
    assert!(
        told.contains("it may have reached --memory or --pids: a limit per process is not reported\n"),
        "{told}"
    );
    let told = run(&["two", "--memory", "1G", "--", "true"]);
    assert!(
        told.contains(before) && !told.contains("may have reached"),
        "{told}"
    );
    let told = run(&["three", "--", "false"]);
    assert!(
        !told.contains(before) && !told.contains("may have reached"),
        "{told}"
    );
}
