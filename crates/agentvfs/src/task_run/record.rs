//! What is kept of the runs of a task: for each a directory in the task's place, with what it is, how it ended and what it
//! printed. The process that supervises a run holds a lock there for as long as it lives.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use avfs_core::Timestamp;
use avfs_exec::launch::Stop;
use avfs_exec::limits::Limit;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::client::TaskRun;
use crate::control::place;
use crate::error::{Error, Result};
use crate::exec::{ProgramEnd, ProgramError};
use crate::owner::work_directory;
use crate::record::{encode, time};
use crate::task::Task;

/// Below the place of a task.
const RUNS: &str = "runs";
const LOCK: &str = "lock";
const RECORD: &str = "run.json";
/// How many runs that have ended are kept for each task.
const KEPT: usize = 5;

/// What a shell shows for a program that was killed.
const KILLED: i32 = 128 + 9;

/// What a run is, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    pub id: String,
    pub task: String,
    /// The name of the task everywhere.
    pub vault: String,
    /// What runs, as one line.
    pub command: String,
    #[serde(with = "time")]
    pub since: Timestamp,
    /// The process that supervises it.
    pub pid: u32,
    /// Whether the program has a terminal that can be attached to.
    pub has_terminal: bool,
    /// Whether it was started in the background, or the terminal that it was started from has left.
    pub is_detached: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Not known of a run whose supervisor was killed.
    #[serde(with = "optional_time", default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// What a shell would show; nothing if the program never ran, or nobody saw its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    pub reason: EndReason,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// By itself, or by a signal of its own.
    Exited,
    /// It was told to end.
    Stopped,
    TimeLimit,
    MemoryLimit,
    CpuLimit,
    /// It could not be started, or what it did could not be stored.
    Failed,
    /// The process that supervised it was killed, or the machine was switched off.
    Abnormal,
}

impl EndReason {
    /// Killed for want of memory, or ended for another reason.
    pub fn of(end: &ProgramEnd) -> EndReason {
        match end.stopped {
            Some(Stop::Timeout) => EndReason::TimeLimit,
            Some(Stop::CpuTime) => EndReason::CpuLimit,
            Some(Stop::Cancelled) => EndReason::Stopped,
            None if end.limits_hit.contains(&Limit::Memory) && end.status == KILLED => EndReason::MemoryLimit,
            None => EndReason::Exited,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            EndReason::Exited => "exited",
            EndReason::Stopped => "stopped",
            EndReason::TimeLimit => "time-limit",
            EndReason::MemoryLimit => "memory-limit",
            EndReason::CpuLimit => "cpu-limit",
            EndReason::Failed => "failed",
            EndReason::Abnormal => "abnormal",
        }
    }
}

impl RunEnd {
    pub(super) fn of(ended: &Result<ProgramEnd, ProgramError>, now: Timestamp) -> RunEnd {
        match ended {
            Ok(end) => {
                RunEnd { at: Some(now), status: Some(end.status), reason: EndReason::of(end), message: None }
            }
            Err(error) => {
                let message = Some(avfs_core::with_causes(error));
                RunEnd { at: Some(now), status: None, reason: EndReason::Failed, message }
            }
        }
    }

    pub(super) fn abnormal() -> RunEnd {
        RunEnd { at: None, status: None, reason: EndReason::Abnormal, message: None }
    }
}

impl Task {
    /// The runs of the task that are kept, the newest first. A run whose supervisor was killed is noted as ended.
    pub fn runs(&self) -> Result<Vec<TaskRun>> {
        let Some(place) = self.runs_place() else { return Ok(Vec::new()) };
        let listing = match fs::read_dir(&place) {
            Ok(listing) => listing,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(host("listing", &place, source)),
        };
        let places = listing.flatten().map(|entry| entry.path());
        // One that is being made has no record yet.
        let mut runs: Vec<TaskRun> = places.filter_map(|place| self.run_at(place).ok()).collect();
        runs.sort_by(|one, other| other.record().id.cmp(&one.record().id));
        Ok(runs)
    }

    /// The run that commands about "the run of the task" mean: one that goes on, or else the newest.
    pub fn last_run(&self) -> Result<Option<TaskRun>> {
        let mut runs = self.runs()?;
        let going_on = runs.iter().position(|run| run.record().end.is_none());
        Ok(match (going_on, runs.is_empty()) {
            (_, true) => None,
            (at, false) => Some(runs.swap_remove(at.unwrap_or(0))),
        })
    }

    fn run_at(&self, place: PathBuf) -> io::Result<TaskRun> {
        let mut record = read(&place)?;
        if record.end.is_none()
            && let Some(_lock) = lock_if_free(&place)?
        {
            // It may have ended properly a moment ago.
            record = read(&place)?;
            if record.end.is_none() {
                record.end = Some(RunEnd::abnormal());
                write(&place, &record)?;
                place::remove_from(&place)?;
            }
        }
        Ok(TaskRun::new(record, place, self.vault().store().patience()))
    }

    fn runs_place(&self) -> Option<PathBuf> {
        Some(work_directory(self.vault().store().home()?, self.vault().id()).join(RUNS))
    }

    /// Makes the place of a new run, and removes those of old ones.
    pub(super) fn make_run_place(&self, id: &str) -> Result<RunPlace> {
        let runs = self.runs_place().ok_or(Error::NoPlaceForRuns)?;
        let ended: Vec<TaskRun> = self.runs()?.into_iter().filter(|run| run.record().end.is_some()).collect();
        for old in ended.iter().skip(KEPT - 1) {
            // What cannot be removed is removed with the task.
            let _ = fs::remove_dir_all(old.place());
        }
        let place = runs.join(id);
        let made = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
            let lock = File::create(place.join(LOCK))?;
            rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            Ok(lock)
        };
        let lock = made().map_err(|source| host("making", &place, source))?;
        Ok(RunPlace { place, _lock: lock })
    }
}

/// The place of a run that this process supervises.
#[derive(Debug)]
pub(super) struct RunPlace {
    place: PathBuf,
    _lock: File,
}

impl RunPlace {
    pub(super) fn path(&self) -> &Path {
        &self.place
    }

    pub(super) fn write(&self, record: &RunRecord) -> Result<()> {
        write(&self.place, record).map_err(|source| host("writing", &self.place, source))
    }
}

/// The lock of a run that no process supervises.
fn lock_if_free(place: &Path) -> io::Result<Option<File>> {
    let lock = File::open(place.join(LOCK))?;
    let is_free = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    Ok(is_free.then_some(lock))
}

fn write(place: &Path, record: &RunRecord) -> io::Result<()> {
    let (file, draft) = (place.join(RECORD), place.join("run.new"));
    fs::write(&draft, encode(record))?;
    fs::rename(&draft, &file)
}

pub(super) fn read(place: &Path) -> io::Result<RunRecord> {
    Ok(serde_json::from_slice(&fs::read(place.join(RECORD))?)?)
}

pub(super) fn host(action: &'static str, place: &Path, source: io::Error) -> Error {
    Error::Host { action, place: place.display().to_string(), source }
}

mod optional_time {
    use avfs_core::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Wrapped(#[serde(with = "crate::record::time")] Timestamp);

    pub fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(Wrapped).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<Wrapped>::deserialize(deserializer)?.map(|Wrapped(time)| time))
    }
}
