//! The output of commands: complete, in order, bounded, and never waited for.

use avfs_exec::launch::CommandEnd;
use avfs_exec::{RunEvent, RunLimits, SandboxPlan, Stdin};

use crate::kit::{Workspace, is_held, launch, launch_with, prints, run, stderr, stdout};

#[test]
fn bytes_arrive_as_they_were_written() {
    let outcome = run(r"printf '\000\377\033[31m\n\r'; printf '\376' >&2");
    assert_eq!(outcome.stdout.head, b"\0\xff\x1b[31m\n\r");
    assert_eq!(outcome.stderr.head, b"\xfe");
}

#[test]
fn a_flood_is_counted_and_its_ends_are_kept() {
    let limits = RunLimits {
        output_bytes: 1000,
        ..RunLimits::default()
    };
    let script = "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last";
    let outcome = launch(&SandboxPlan {
        limits,
        ..Workspace::new().shell(script)
    });
    assert_eq!(outcome.end, CommandEnd::Exited(0));
    assert_eq!(outcome.stdout.total, 5_000_012);
    assert!(outcome.stdout.truncated());
    assert!(outcome.stdout.head.starts_with(b"first\nxxx") && outcome.stdout.head.len() == 500);
    assert!(outcome.stdout.tail.ends_with(b"xxx\nlast\n") && outcome.stdout.tail.len() == 500);
}

#[test]
fn output_is_reported_as_it_comes() {
    let mut told = (Vec::new(), Vec::new(), 0);
    let workspace = Workspace::new();
    let plan = workspace.shell("echo out; echo err >&2");
    launch_with(&plan, Stdin::Nothing, &mut |event| match event {
        RunEvent::Started => told.2 += 1,
        RunEvent::Stdout(bytes) => told.0.extend_from_slice(bytes),
        RunEvent::Stderr(bytes) => told.1.extend_from_slice(bytes),
        other @ (RunEvent::Stopping(_) | RunEvent::Refused(_)) => panic!("{other:?}"),
    });
    assert_eq!(
        (told.0.as_slice(), told.1.as_slice(), told.2),
        (&b"out\n"[..], &b"err\n"[..], 1)
    );
}

#[test]
fn a_command_that_closes_its_streams_is_still_waited_for() {
    let workspace = Workspace::new();
    let outcome = launch(&workspace.shell("exec >&- 2>&-; sleep 0.2; touch late; exit 7"));
    assert_eq!(outcome.end, CommandEnd::Exited(7));
    assert!(workspace.path().join("late").exists());
}

#[test]
fn a_process_that_keeps_the_pipe_does_not_keep_the_run() {
    let workspace = Workspace::new();
    let fifo = workspace.fifo("held");
    let outcome = launch(&workspace.shell("sleep 999 3>held & echo done"));
    assert_eq!(
        (outcome.end, stdout(&outcome).as_str()),
        (CommandEnd::Exited(0), "done\n")
    );
    assert!(!is_held(&fifo));
}

#[test]
fn the_streams_can_be_opened_by_name() {
    assert_eq!(
        prints("echo one > /dev/stdout; echo two > /proc/self/fd/1; echo three | tee /dev/stderr"),
        "one\ntwo\nthree\n"
    );
    assert_eq!(stderr(&run("echo err > /dev/stderr")), "err\n");
}
