//! Runs as their clients see them. No program runs here: its effects are simulated on its supervisor.

use std::fs;
use std::time::Duration;

use avfs_exec::{Cancel, Stdin};
use tempfile::TempDir;

use super::{EndReason, News, RunEnd, RunStreams, RunTerminal, SupervisedRun, WindowSize};
use crate::error::{Error, TaskError};
use crate::{NewTask, Store, Task};

struct Fixture {
    _directory: TempDir,
    task: Task,
    cancel: Cancel,
}

impl Fixture {
    fn new() -> Fixture {
        let directory = TempDir::new().unwrap();
        let project = directory.path().join("web");
        fs::create_dir(&project).unwrap();
        let store = Store::open(&directory.path().join("store")).unwrap();
        let task = store
            .project(&project)
            .unwrap()
            .new_task(&NewTask::default())
            .unwrap();
        Fixture {
            _directory: directory,
            task,
            cancel: Cancel::new().unwrap(),
        }
    }

    fn begin(&self, id: &str) -> SupervisedRun {
        let streams = RunStreams::Pipes(Stdin::Nothing);
        self.task
            .runs()
            .supervise(id, "make".into(), streams, &self.cancel)
            .unwrap()
    }
}

fn ended(status: i32) -> RunEnd {
    RunEnd {
        at: None,
        status: Some(status),
        reason: EndReason::Exited,
        message: None,
    }
}

#[test]
fn a_run_is_watched_to_its_end_and_its_output_stays() {
    let fixture = Fixture::new();
    let mut run = fixture.begin("r1");
    let seen = fixture.task.runs().last().unwrap().unwrap();
    assert!(seen.is_going_on() && !seen.record().has_terminal);
    assert_eq!(seen.wait(Some(Duration::ZERO)).unwrap(), None);
    let mut watch = seen.watch().unwrap();
    run.printed(b"one\n");
    while !matches!(watch.next(None).unwrap(), Some(News::Grown)) {}
    assert_eq!(seen.output().read(0).unwrap().bytes, b"one\n");
    run.printed(b"two\n");
    run.close(ended(3));
    let end = loop {
        if let Some(News::Ended(record)) = watch.next(None).unwrap() {
            break record.end;
        }
    };
    assert_eq!(end, Some(ended(3)));
    let seen = fixture.task.runs().last().unwrap().unwrap();
    assert_eq!(seen.wait(None).unwrap().unwrap().end, Some(ended(3)));
    assert_eq!(seen.output().read(0).unwrap().bytes, b"one\ntwo\n");
}

#[test]
fn a_run_is_stopped_by_its_cancel() {
    let fixture = Fixture::new();
    let mut run = fixture.begin("r1");
    let seen = fixture.task.runs().last().unwrap().unwrap();
    let stopping = std::thread::spawn(move || seen.stop(Duration::from_secs(7)).unwrap());
    while !fixture.cancel.wait(Duration::from_secs(1)) {}
    run.close(RunEnd {
        reason: EndReason::Stopped,
        ..ended(143)
    });
    assert_eq!(stopping.join().unwrap().end.unwrap().reason, EndReason::Stopped);
    let over = fixture.task.runs().last().unwrap().unwrap();
    assert!(matches!(
        over.stop(Duration::ZERO),
        Err(Error::Task(TaskError::NotRunning { .. }))
    ));
}

#[test]
fn only_a_run_with_a_terminal_is_attached_to() {
    let fixture = Fixture::new();
    let mut run = fixture.begin("r1");
    let seen = fixture.task.runs().last().unwrap().unwrap();
    assert!(matches!(
        seen.attach(WindowSize::default()),
        Err(Error::Task(TaskError::NoTerminal { .. }))
    ));
    run.close(ended(0));
    let terminal = RunStreams::Terminal(RunTerminal::default());
    let mut run = fixture
        .task
        .runs()
        .supervise("r2", "vim".into(), terminal, &fixture.cancel)
        .unwrap();
    let seen = fixture.task.runs().last().unwrap().unwrap();
    assert!(seen.record().has_terminal && seen.record().is_detached);
    seen.attach(WindowSize::default()).unwrap();
    run.close(ended(0));
    let over = fixture.task.runs().last().unwrap().unwrap();
    assert!(matches!(
        over.attach(WindowSize::default()),
        Err(Error::Task(TaskError::NotRunning { .. }))
    ));
}

#[test]
fn a_run_whose_supervisor_was_killed_has_ended_abnormally() {
    let fixture = Fixture::new();
    let run = fixture.begin("r1");
    let place = run.shared.place.path().to_owned();
    let record = fs::read(place.join("run.json")).unwrap();
    drop(run);
    // As a killed process leaves it: no end is noted, and its lock is free.
    fs::write(place.join("run.json"), record).unwrap();
    fs::write(place.join("control"), "").unwrap();
    let seen = fixture.task.runs().last().unwrap().unwrap();
    assert_eq!(seen.record().end.as_ref().unwrap().reason, EndReason::Abnormal);
    assert!(!place.join("control").exists());
    assert_eq!(
        seen.wait(None).unwrap().unwrap().end.unwrap().reason,
        EndReason::Abnormal
    );
}

#[test]
fn the_last_runs_are_kept_and_one_that_goes_on_is_meant_first() {
    let fixture = Fixture::new();
    let mut going_on = fixture.begin("r0");
    for number in 1..=8 {
        fixture.begin(&format!("r{number}")).close(ended(number));
    }
    let ids: Vec<String> = fixture
        .task
        .runs()
        .list()
        .unwrap()
        .iter()
        .map(|run| run.record().id.clone())
        .collect();
    assert_eq!(ids, ["r8", "r7", "r6", "r5", "r4", "r0"]);
    assert_eq!(fixture.task.runs().last().unwrap().unwrap().record().id, "r0");
    going_on.close(ended(0));
    assert_eq!(fixture.task.runs().last().unwrap().unwrap().record().id, "r8");
}
