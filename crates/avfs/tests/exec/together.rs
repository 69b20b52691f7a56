//! Several runs at once, and runs in vaults that are mounted elsewhere.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::ground::{is_mounted, is_running};
use crate::program::{Ended, LIMIT, await_that, end_of};
use crate::runs::{Answer, Runs};

/// A run in the background, until it is waited for or the test ends.
pub struct Going {
    child: Option<Child>,
}

impl Going {
    pub fn start(mut command: Command) -> Going {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        Going {
            child: Some(command.spawn().unwrap()),
        }
    }

    pub fn pid(&self) -> i32 {
        self.child.as_ref().unwrap().id() as i32
    }

    /// Waits for its end, and for that of its streams.
    #[track_caller]
    pub fn ended(mut self) -> Ended {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        Ended {
            status: output.status,
            out: output.stdout,
            err,
        }
    }

    #[track_caller]
    fn answer(self) -> Answer {
        Answer::of(&self.ended())
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// The mountpoints of runs that are there, of dead ones as well.
pub fn mounted_runs(runs: &Runs) -> usize {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let place = runs.ground.home().join("runs").display().to_string();
    table.lines().filter(|line| line.contains(&place)).count()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Waits, inside, until a file of the vault is there.
fn awaiting(name: &str) -> String {
    format!("until [ -e {name} ]; do sleep 0.02; done")
}

#[test]
fn two_runs_in_one_vault_see_each_other_and_neither_ends_with_the_other() {
    let runs = Runs::new();
    let first = format!("echo 1 > one; {}; echo 1 >> one", awaiting("two"));
    let second = format!(
        "{}; echo 2 > two; {}; cat one two",
        awaiting("one"),
        awaiting("go")
    );
    let first = Going::start(runs.command(&["-c", &first]));
    await_that("the first has begun", LIMIT, || {
        runs.ground.ended(&["cat", "one"]).status.success()
    });
    let second = Going::start(runs.command(&["-c", &second]));
    // It ends although it has served the second until now, which continues alone.
    let first = first.answer();
    assert_eq!((first.status, first.stderr().as_str()), (0, ""));
    runs.avfs(&["write", "go", ""]);
    let second = second.answer();
    assert_eq!(
        (second.status, second.stdout().as_str()),
        (0, "1\n1\n2\n"),
        "{:#}",
        second.value
    );
    assert_eq!(mounted_runs(&runs), 0);
    assert_eq!(runs.avfs(&["cat", "one", "two"]), "1\n1\n2\n");
    runs.ground.assert_sound();
}

#[test]
fn an_undo_of_runs_that_overlapped_names_all_of_them() {
    let runs = Runs::new();
    let first = Going::start(runs.command(&["-c", &format!("echo 1 > one; {}", awaiting("go"))]));
    await_that("the first has begun", LIMIT, || {
        runs.ground.ended(&["cat", "one"]).status.success()
    });
    assert_eq!(
        Going::start(runs.command(&["-c", "echo 2 > two"]))
            .answer()
            .status,
        0
    );
    runs.avfs(&["write", "go", ""]);
    assert_eq!(first.answer().status, 0);
    let undone = runs.ground.ended(&["undo", "--vault", "work"]);
    assert!(
        undone.err.contains("undid the runs `echo 1 > one; until "),
        "{}",
        undone.err
    );
    assert!(
        undone.err.contains("` and `echo 2 > two`, which overlapped, of "),
        "{}",
        undone.err
    );
}

#[test]
fn ten_runs_in_ten_forks_at_once() {
    let runs = Runs::new();
    runs.avfs(&["write", "base", "common"]);
    let forks: Vec<String> = (0..10).map(|number| format!("fork{number}")).collect();
    for fork in &forks {
        runs.avfs(&["vault", "fork", "work", fork]);
    }
    let going: Vec<Going> = forks
        .iter()
        .map(|fork| Going::start(runs.command(&["--vault", fork, "-c", "cat base; echo $AVFS_VAULT > own"])))
        .collect();
    for (fork, run) in forks.iter().zip(going) {
        let answer = run.answer();
        assert_eq!(
            (answer.status, answer.stdout().as_str()),
            (0, "common\n"),
            "{:#}",
            answer.value
        );
        assert_eq!(answer.changes(), ["added /own"]);
        assert_eq!(runs.avfs(&["cat", "--vault", fork, "own"]), format!("{fork}\n"));
    }
    assert_eq!(mounted_runs(&runs), 0);
    assert_eq!(runs.avfs(&["ls"]), "base\n");
}

#[test]
fn a_run_and_a_mount_see_the_same() {
    let runs = Runs::new();
    let mount = runs.ground.mount("work", "elsewhere");
    fs::write(mount.path("theirs"), "theirs\n").unwrap();
    let answer = runs.sh(
        &format!("cat theirs; echo ours > ours; {}; cat later", awaiting("later"))
            .replace("; until", "; echo later > later; until"),
    );
    assert_eq!((answer.status, answer.stdout().as_str()), (0, "theirs\nlater\n"));
    assert_eq!(fs::read_to_string(mount.path("ours")).unwrap(), "ours\n");
    assert_eq!(answer.changes(), ["added /later", "added /ours"]);
    assert!(is_mounted(&mount.dir), "the other mount stays");
    runs.avfs(&["undo"]);
    await_that("the mount has heard of it", LIMIT, || {
        !mount.path("ours").exists()
    });
    assert_eq!(runs.avfs(&["ls"]), "theirs\n");
    runs.ground.unmount(mount);
}

#[test]
fn writes_through_a_mount_during_a_run_are_visible_inside() {
    let runs = Runs::new();
    let mount = runs.ground.mount("work", "elsewhere");
    let run =
        Going::start(runs.command(&["-c", &format!("echo 1 > begun; {}; cat later", awaiting("later"))]));
    await_that("it has begun", LIMIT, || mount.path("begun").exists());
    // Renamed into place: it appears complete, in one step.
    fs::write(mount.path("part"), "from outside\n").unwrap();
    fs::rename(mount.path("part"), mount.path("later")).unwrap();
    let answer = run.answer();
    assert_eq!((answer.status, answer.stdout().as_str()), (0, "from outside\n"));
    runs.ground.unmount(mount);
}

#[test]
fn a_mount_that_is_made_during_a_run_outlives_it() {
    let runs = Runs::new();
    let run = Going::start(runs.command(&["-c", &format!("echo 1 > begun; {}", awaiting("go"))]));
    await_that("it has begun", LIMIT, || {
        runs.ground.ended(&["cat", "begun"]).status.success()
    });
    let mount = runs.ground.mount("work", "elsewhere");
    fs::write(mount.path("go"), "").unwrap();
    assert_eq!(run.answer().status, 0);
    assert_eq!(fs::read_to_string(mount.path("begun")).unwrap(), "1\n");
    fs::write(mount.path("after"), "kept\n").unwrap();
    runs.ground.unmount(mount);
    assert_eq!(runs.avfs(&["cat", "after"]), "kept\n");
}

/// Everything that runs with this word in its arguments.
pub fn processes_with(word: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_word = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
            line.split(|byte| *byte == 0)
                .any(|argument| argument == word.as_bytes())
        })
    };
    numbers.filter(has_word).filter(|pid| is_running(*pid)).collect()
}

/// A number that nothing else on this machine sleeps for.
pub fn odd_time(tag: u32) -> String {
    format!("9{}.{tag}", std::process::id())
}

pub fn signal(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn nothing_survives_a_run() {
    let runs = Runs::new();
    let time = odd_time(1);
    let leaving = format!("setsid nohup sleep {time} >/dev/null 2>&1 & (setsid sh -c 'sleep {time}' &)");
    assert_eq!(runs.free(&[], &leaving).status, 0);
    assert_eq!(processes_with(&time), [0; 0], "after its end");
    assert_eq!(
        runs.free(&["--timeout", "2000"], &format!("{leaving}; sleep {time}"))
            .status,
        124
    );
    assert_eq!(processes_with(&time), [0; 0], "after its time");
    assert_eq!(mounted_runs(&runs), 0);
}

/// A run that holds on, with a job of its own.
fn holding_on(runs: &Runs, time: &str) -> Going {
    let script = format!("echo kept > kept; sync kept; setsid sleep {time} & sleep {time}");
    let run = Going::start(runs.command(&["-c", &script]));
    await_that("it runs", LIMIT, || processes_with(time).len() == 2);
    assert_eq!(mounted_runs(runs), 1, "the control");
    run
}

#[test]
fn killing_the_front_of_a_run_ends_the_run_and_clears_it_away() {
    let runs = Runs::new();
    let time = odd_time(2);
    let run = holding_on(&runs, &time);
    signal(run.pid(), Signal::KILL);
    await_that("all is gone", LIMIT, || processes_with(&time).is_empty());
    let place = runs.ground.home().join("runs");
    await_that("nothing is left", LIMIT, || {
        fs::read_dir(&place).unwrap().count() == 0
    });
    assert_eq!(mounted_runs(&runs), 0);
    assert_eq!(runs.sh("cat kept").stdout(), "kept\n");
    runs.ground.assert_sound();
}

#[test]
fn a_killed_worker_leaves_no_process_and_its_mount_goes_with_the_next_command() {
    let runs = Runs::new();
    let time = odd_time(4);
    let run = holding_on(&runs, &time);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.pid())).unwrap();
    signal(children.trim().parse().unwrap(), Signal::KILL);
    let ended = run.ended();
    let told: Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!(
        (ended.status.code(), &told["error"]["code"]),
        (Some(8), &"worker-killed".into()),
        "{told}"
    );
    await_that("all is gone", LIMIT, || processes_with(&time).is_empty());
    assert_eq!(runs.sh("cat kept").stdout(), "kept\n");
    assert_eq!(mounted_runs(&runs), 0);
    assert_eq!(fs::read_dir(runs.ground.home().join("runs")).unwrap().count(), 0);
    runs.ground.assert_sound();
}

#[test]
fn ending_avfs_ends_the_command_and_still_prints_the_answer() {
    let runs = Runs::new();
    for (tag, ending) in [
        (30, Signal::TERM),
        (31, Signal::INT),
        (32, Signal::HUP),
        (33, Signal::QUIT),
    ] {
        let (time, file) = (odd_time(tag), format!("file{tag}"));
        let script = format!("echo begun; echo 1 > {file}; sleep {time}");
        let run = Going::start(runs.command(&["-c", &script]));
        await_that("it runs", LIMIT, || !processes_with(&time).is_empty());
        signal(run.pid(), ending);
        let answer = run.answer();
        assert_eq!(
            (answer.status, answer.stdout().as_str()),
            (128 + 15, "begun\n"),
            "{:#}",
            answer.value
        );
        assert_eq!(answer.changes(), [format!("added /{file}")]);
        assert_eq!(processes_with(&time), [0; 0]);
    }
}

#[test]
fn a_signal_to_the_worker_means_the_same() {
    let runs = Runs::new();
    let time = odd_time(5);
    let run = holding_on(&runs, &time);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.pid())).unwrap();
    signal(children.trim().parse().unwrap(), Signal::TERM);
    let answer = run.answer();
    assert_eq!(
        (answer.status, answer.changes()),
        (128 + 15, vec!["added /kept".to_owned()])
    );
}

#[test]
fn reading_and_writing_by_other_commands_goes_on_during_a_run() {
    let runs = Runs::new();
    let run = Going::start(runs.command(&["-c", &format!("echo 1 > begun; {}; cat given", awaiting("go"))]));
    await_that("it has begun", LIMIT, || {
        runs.ground.ended(&["cat", "begun"]).status.success()
    });
    runs.avfs(&["write", "given", "by a command"]);
    runs.avfs(&["write", "go", ""]);
    let answer = run.answer();
    assert_eq!((answer.status, answer.stdout().as_str()), (0, "by a command\n"));
    let listed = shown(&runs.ground.home().join("runs"));
    assert_eq!(fs::read_dir(listed).unwrap().count(), 0);
    let soon = Duration::from_secs(20);
    await_that("the vault is free", soon, || {
        end_of(runs.ground.command(&["gc"]), b"").status.success()
    });
}
