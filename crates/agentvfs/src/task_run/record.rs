//! The records of the runs of a task: for each a directory in the task's directory, with its properties, its
//! outcome and its output. The process that supervises a run holds a lock there for as long as it lives.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use avfs_core::Timestamp;
use avfs_exec::launch::StopReason;
use avfs_exec::limits::ReachedLimit;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::client::TaskRun;
use crate::control::place;
use crate::error::{Error, Result};
use crate::exec::{ProgramEnd, RunError};
use crate::record::{encode, time};
use crate::task::Task;

/// Below the place of a task.
const RUNS: &str = "runs";
const LOCK: &str = "lock";
const RECORD: &str = "run.json";
/// How many ended runs are kept for each task, beside the one to which commands refer.
const KEPT: usize = 5;

/// The status that a shell shows for a program that was killed.
const KILLED: i32 = 128 + 9;

/// The properties of a run, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its id.
    pub id: String,
    /// The name of the task's vault.
    pub task: String,
    /// The name of the task everywhere.
    pub vault: String,
    /// The command, as one line.
    pub command: String,
    /// When it began.
    #[serde(with = "time")]
    pub since: Timestamp,
    /// The process that supervises it.
    pub pid: u32,
    /// Whether the program has a terminal that can be attached to.
    pub has_terminal: bool,
    /// Whether it was started in the background, or the terminal from which it was started has left.
    pub is_detached: bool,
    /// How it ended; `None` while it goes on, or if it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Unknown for a run whose supervisor was killed.
    #[serde(with = "optional_time", default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The status that a shell would show; `None` if the program never ran, or its end was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    /// Why it ended.
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
    /// It was asked to end.
    Stopped,
    /// It had used up its time.
    TimeLimit,
    /// It had used up its memory.
    MemoryLimit,
    /// It had used up its processor time.
    CpuLimit,
    /// It could not be started, or its changes could not be stored.
    Failed,
    /// The process that supervised it was killed, or the machine was switched off.
    Abnormal,
}

impl EndReason {
    /// Killed for want of memory, or ended for another reason.
    pub fn of(end: &ProgramEnd) -> EndReason {
        let process = &end.process;
        match process.stopped {
            Some(StopReason::Timeout) => EndReason::TimeLimit,
            Some(StopReason::CpuTime) => EndReason::CpuLimit,
            Some(StopReason::Cancelled) => EndReason::Stopped,
            Some(StopReason::ServerGone) => EndReason::Abnormal,
            None if process.limits_hit.contains(&ReachedLimit::Memory) && process.status() == KILLED => {
                EndReason::MemoryLimit
            }
            None => EndReason::Exited,
        }
    }

    /// Its name in JSON.
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
    pub(super) fn of(ended: &Result<ProgramEnd, RunError>, now: Timestamp) -> RunEnd {
        match ended {
            Ok(end) => RunEnd {
                at: Some(now),
                status: Some(end.process.status()),
                reason: EndReason::of(end),
                message: None,
            },
            Err(error) => {
                let message = Some(avfs_core::with_causes(error));
                RunEnd {
                    at: Some(now),
                    status: None,
                    reason: EndReason::Failed,
                    message,
                }
            }
        }
    }

    pub(super) fn abnormal() -> RunEnd {
        RunEnd {
            at: None,
            status: None,
            reason: EndReason::Abnormal,
            message: None,
        }
    }
}

/// An active one, or else the detached one that ended last, or else the newest. A run that was started in a
/// terminal was seen there: if there is a detached run, the user more likely means that one.
fn meant(runs: Vec<TaskRun>) -> Option<TaskRun> {
    let rank = |run: &TaskRun| {
        let record = run.record();
        let ended = record.end.as_ref().map(|end| end.at.unwrap_or(record.since));
        // Detached runs that have ended are ordered by their ends, all others by their starts.
        let time = ended.filter(|_| record.is_detached).unwrap_or(record.since);
        (ended.is_none(), record.is_detached, time)
    };
    runs.into_iter().max_by_key(rank)
}

/// The programs that run in a task, or have run in it.
#[derive(Clone, Copy)]
pub struct TaskRuns<'a> {
    pub(crate) task: &'a Task,
}

impl TaskRuns<'_> {
    /// The stored runs of the task, the newest first. A run whose supervisor was killed is recorded as ended.
    pub fn list(&self) -> Result<Vec<TaskRun>> {
        let Some(place) = self.runs_place() else {
            return Ok(Vec::new());
        };
        let listing = match fs::read_dir(&place) {
            Ok(listing) => listing,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(host("listing", &place, source)),
        };
        let places = listing.flatten().map(|entry| entry.path());
        // A run that is being created has no record yet.
        let mut runs: Vec<TaskRun> = places.filter_map(|place| self.at(place).ok()).collect();
        runs.sort_by(|one, other| other.record().id.cmp(&one.record().id));
        Ok(runs)
    }

    /// The run that commands about "the run of the task" mean.
    pub fn last(&self) -> Result<Option<TaskRun>> {
        Ok(meant(self.list()?))
    }

    fn at(&self, place: PathBuf) -> io::Result<TaskRun> {
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
        Ok(TaskRun::new(record, place, self.task.vault().store().patience()))
    }

    fn runs_place(&self) -> Option<PathBuf> {
        let work = self.task.vault().store().work();
        Some(work.existing_of_vault(self.task.vault().id())?.join(RUNS))
    }

    /// Makes the place of a new run, and removes those of old ones.
    pub(super) fn make_run_place(&self, id: &str) -> Result<RunPlace> {
        let vault = self.task.vault();
        let runs = vault.store().work().of_vault(vault.id())?.join(RUNS);
        let mut ended = self.list()?;
        ended.retain(|run| run.record().end.is_some());
        let last = meant(ended.clone()).map(|run| run.record().id.clone());
        let is_last = |run: &TaskRun| Some(&run.record().id) == last.as_ref();
        for old in ended.iter().skip(KEPT - 1).filter(|run| !is_last(run)) {
            // If it cannot be removed now, it is removed with the task.
            let _ = fs::remove_dir_all(old.place());
        }
        let place = runs.join(id);
        let made = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
            let lock = File::create(place.join(LOCK))?;
            // Locked before any other process can see a record of it, which without a lock would count as
            // abandoned.
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
    Error::Host {
        action,
        place: place.display().to_string(),
        source,
    }
}

mod optional_time {
    use avfs_core::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Wrapped(#[serde(with = "crate::record::time")] Timestamp);

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(Wrapped).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<Wrapped>::deserialize(deserializer)?.map(|Wrapped(time)| time))
    }
}
