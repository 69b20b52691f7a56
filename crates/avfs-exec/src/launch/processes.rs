//! The processes of a sandbox that stays open, for the thread that supervises it.
//!
//! That thread serves all of them: it reads their output, writes pending input, handles the reports of the
//! stage and enforces timeouts. Callers on other threads lock one process to look at it or to wait for it,
//! and send orders to the stage through the [`OrderOutbox`]. Lock order: the table before a process, and no other
//! two locks together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{CommandEnd, StopReason};
use crate::plan::RunLimits;
use crate::terminal::TerminalSize;
use avfs_inside::{ProcessReport, SignalOrder, SignalTarget, SpawnOrder, SpawnStep, StageOrder};

mod events;
mod outbox;
mod poller;
mod process;

pub use events::{OutputEvent, OutputEvents, OutputSoFar};
use outbox::OrderOutbox;
use poller::{PollToken, Poller};
pub(crate) use process::{NotWritten, ProcessEnds, ProcessHandle, ProcessPhase};

/// How many ended processes are remembered, and how many bytes of their output.
const MOST_ENDED: usize = 256;
const MOST_ENDED_BYTES: usize = 64 << 20;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    /// A process that was killed together with its sandbox has ended by `SIGKILL`.
    pub end: CommandEnd,
    /// Why it was ended early.
    pub stopped: Option<StopReason>,
    /// How long it ran.
    pub duration: Duration,
}

impl ProcessEnd {
    /// The status that a shell would show.
    pub fn status(&self) -> i32 {
        self.end.status()
    }
}

/// A checked specification of a process to start.
pub(crate) struct CheckedProcess {
    pub(crate) command: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    pub(crate) terminal: Option<TerminalSize>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) output_bytes: usize,
}

/// Why an order was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotOrdered {
    /// The sandbox has ended.
    Over,
    /// Too many orders wait for the stage already.
    Busy,
}

/// All processes of the sandbox.
#[derive(Debug)]
pub(crate) struct ProcessTable {
    poller: Arc<Poller>,
    outbox: OrderOutbox,
    state: Mutex<TableState>,
    changed: Condvar,
    grace: Duration,
}

#[derive(Debug)]
struct TableState {
    standing: TablePhase,
    /// The last number that was assigned. Numbers are never reused.
    last: u64,
    processes: BTreeMap<u64, Arc<ProcessHandle>>,
    /// In the order in which they ended.
    ended: VecDeque<u64>,
    deadlines: BTreeSet<(Instant, u64, TimeoutMeasure)>,
    /// How often processes were to be stopped, and how often that was done.
    pauses: (u64, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TablePhase {
    Opening,
    Open,
    Over,
}

/// The action when the time of a process is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TimeoutMeasure {
    Terminate,
    Kill,
}

impl ProcessTable {
    pub(crate) fn new(limits: &RunLimits) -> io::Result<Self> {
        let state = TableState {
            standing: TablePhase::Opening,
            last: 0,
            processes: BTreeMap::new(),
            ended: VecDeque::new(),
            deadlines: BTreeSet::new(),
            pauses: (0, 0),
        };
        let poller = Arc::new(Poller::new()?);
        Ok(Self {
            outbox: OrderOutbox::new(Arc::clone(&poller)),
            poller,
            state: Mutex::new(state),
            changed: Condvar::new(),
            grace: limits.grace,
        })
    }

    /// Waits until processes can be started. Returns false if that never happens.
    pub(crate) fn wait_until_open(&self) -> bool {
        let state = lock(&self.state);
        // A sandbox that fails to start goes from `Opening` to `Over`, so this always ends.
        let opening = |state: &mut TableState| state.standing == TablePhase::Opening;
        let state = self.changed.wait_while(state, opening);
        state.unwrap_or_else(PoisonError::into_inner).standing == TablePhase::Open
    }

    pub(crate) fn all(&self) -> Vec<Arc<ProcessHandle>> {
        lock(&self.state).processes.values().cloned().collect()
    }

    pub(crate) fn find(&self, id: u64) -> Option<Arc<ProcessHandle>> {
        lock(&self.state).processes.get(&id).cloned()
    }

    /// Starts a process. The outcome is recorded in the process.
    pub(crate) fn spawn(
        &self,
        wanted: CheckedProcess,
        ends: ProcessEnds,
        inner: Vec<OwnedFd>,
    ) -> Result<Arc<ProcessHandle>, NotOrdered> {
        let CheckedProcess {
            command,
            env,
            cwd,
            terminal,
            timeout,
            output_bytes,
        } = wanted;
        let process = {
            let mut state = lock(&self.state);
            if state.standing != TablePhase::Open {
                return Err(NotOrdered::Over);
            }
            state.last += 1;
            let id = state.last;
            let poller = Arc::clone(&self.poller);
            let process = Arc::new(ProcessHandle::new(
                id,
                command,
                timeout,
                output_bytes,
                ends,
                poller,
            ));
            // Before the order is sent: its report could arrive on the supervisor's thread before this
            // function returns.
            state.processes.insert(id, Arc::clone(&process));
            process
        };
        let order = SpawnOrder {
            id: process.id,
            command: process.command.clone(),
            env,
            cwd,
            terminal,
        };
        match self.outbox.post(&StageOrder::Spawn(order), inner) {
            Ok(()) => Ok(process),
            Err(error) => {
                // Nothing was started, so no report will ever end it.
                self.forget(process.id);
                Err(error)
            }
        }
    }

    /// Removes a process from the list. A running process continues, and its reports are ignored.
    pub(crate) fn forget(&self, id: u64) -> bool {
        let process = {
            let mut state = lock(&self.state);
            state.ended.retain(|ended| *ended != id);
            state.processes.remove(&id)
        };
        // After the table's lock is released: the order of locks is the table before a process.
        process.is_some_and(|process| {
            process.let_go();
            true
        })
    }

    pub(crate) fn signal(&self, id: u64, signal: i32, target: SignalTarget) -> Result<(), NotOrdered> {
        let order = SignalOrder { id, signal, target };
        self.outbox.post(&StageOrder::Signal(order), Vec::new())
    }

    /// Stops every process, and waits until each has been told. Returns false if the stage does not answer.
    pub(crate) fn pause(&self, patience: Duration) -> Result<bool, NotOrdered> {
        // Orders and answers are counted under one lock, so that each caller waits for its own.
        let mut state = lock(&self.state);
        if state.standing != TablePhase::Open {
            return Err(NotOrdered::Over);
        }
        self.outbox.post(&StageOrder::Pause, Vec::new())?;
        state.pauses.0 += 1;
        let own = state.pauses.0;
        let waits = |state: &mut TableState| state.standing == TablePhase::Open && state.pauses.1 < own;
        let waited = self.changed.wait_timeout_while(state, patience, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.standing {
            TablePhase::Open => Ok(state.pauses.1 >= own),
            TablePhase::Opening | TablePhase::Over => Err(NotOrdered::Over),
        }
    }

    /// Has every process that is stopped go on.
    pub(crate) fn resume(&self) -> Result<(), NotOrdered> {
        self.outbox.post(&StageOrder::Continue, Vec::new())
    }
}

/// Called by the supervisor of the sandbox, in its thread.
impl ProcessTable {
    /// Orders can be sent from now on, over this socket.
    pub(super) fn open(&self, socket: OwnedFd) {
        self.outbox.open(socket);
        let mut state = lock(&self.state);
        // A sandbox that was closed meanwhile stays closed.
        if state.standing == TablePhase::Opening {
            state.standing = TablePhase::Open;
        }
        self.changed.notify_all();
    }

    /// Sends an order in its turn, if orders can be sent.
    pub(super) fn order(&self, order: &StageOrder) -> bool {
        self.outbox.post(order, Vec::new()).is_ok()
    }

    /// Readable while there is something to handle.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }

    /// Reads and writes what is possible, one piece of each stream.
    pub(super) fn attend(&self) -> io::Result<()> {
        for token in self.poller.ready()? {
            match token {
                PollToken::Outbox => self.outbox.flush(),
                PollToken::Of(id, side) => {
                    if let Some(process) = self.find(id) {
                        process.attend(side);
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles a report of the stage. Reports about unknown or ended processes change nothing.
    pub(super) fn hear(&self, report: ProcessReport, outer: Option<OwnedFd>) {
        match report {
            ProcessReport::Spawned { id, pid, .. } => {
                let Some(process) = self.find(id) else { return };
                if let Err(error) = process.hear_started(pid, outer) {
                    // It runs, but without observers. Others continue.
                    self.signal(id, libc::SIGKILL, SignalTarget::Session).ok();
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    self.hear_failed(id, SpawnStep::Process, errno);
                    return;
                }
                if let Some(deadline) = process.timeout.and_then(|time| Instant::now().checked_add(time)) {
                    lock(&self.state)
                        .deadlines
                        .insert((deadline, id, TimeoutMeasure::Terminate));
                }
            }
            ProcessReport::SpawnFailed { id, step, errno } => self.hear_failed(id, step, errno),
            ProcessReport::Exited { id, code } => self.hear_ended(id, CommandEnd::Exited(code)),
            ProcessReport::Signaled { id, signal } => self.hear_ended(id, CommandEnd::Signaled(signal)),
        }
    }

    /// The oldest order to stop was carried out.
    pub(super) fn hear_paused(&self) {
        lock(&self.state).pauses.1 += 1;
        self.changed.notify_all();
    }

    fn hear_failed(&self, id: u64, step: SpawnStep, errno: i32) {
        let Some(process) = self.find(id) else { return };
        if process.phase() == ProcessPhase::Starting {
            // A process that never ran is not listed among the ended ones.
            lock(&self.state).processes.remove(&id);
            process.hear_failed(step, errno);
        }
    }

    fn hear_ended(&self, id: u64, end: CommandEnd) {
        let Some(process) = self.find(id) else { return };
        if let ProcessPhase::Ended(_) = process.phase() {
            return;
        }
        // Its remaining output is read there, before its end is reported.
        process.hear_ended(end);
        let mut state = lock(&self.state);
        // If it was stopped, its remaining processes are still killed; otherwise a second measure must not
        // end them.
        state
            .deadlines
            .retain(|(_, of, measure)| *of != id || *measure == TimeoutMeasure::Kill);
        state.ended.push_back(id);
        state.forget_oldest();
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        lock(&self.state).deadlines.first().map(|(at, ..)| *at)
    }

    /// Ends processes whose time is up: first they are asked to end, with their group; then all of their
    /// session is killed.
    pub(super) fn keep_to_deadlines(&self, now: Instant) {
        while let Some((id, measure)) = self.take_due(now) {
            let (signal, target) = match measure {
                TimeoutMeasure::Terminate => (libc::SIGTERM, SignalTarget::Group),
                TimeoutMeasure::Kill => (libc::SIGKILL, SignalTarget::Session),
            };
            if measure == TimeoutMeasure::Terminate {
                if let Some(process) = self.find(id) {
                    process.stop(StopReason::Timeout);
                }
                lock(&self.state)
                    .deadlines
                    .insert((now + self.grace, id, TimeoutMeasure::Kill));
            }
            // A stage that cannot be reached is ended with the sandbox.
            self.signal(id, signal, target).ok();
        }
    }

    /// Ends the sandbox and everything in it early.
    pub(super) fn stop_all(&self, stop: StopReason) {
        for process in self.all() {
            // Only a note: the stage ends them all, and each then shows why.
            process.stop(stop);
        }
    }

    fn take_due(&self, now: Instant) -> Option<(u64, TimeoutMeasure)> {
        let mut state = lock(&self.state);
        let due = *state.deadlines.first()?;
        let (at, id, measure) = due;
        if at > now {
            return None;
        }
        state.deadlines.remove(&due);
        Some((id, measure))
    }

    /// Nothing of the sandbox is left. Processes that had not ended were killed with it.
    pub(crate) fn close(&self, stopped: Option<StopReason>) {
        self.outbox.close();
        let all = {
            let mut state = lock(&self.state);
            state.standing = TablePhase::Over;
            state.deadlines.clear();
            self.changed.notify_all();
            // Cloned, because closing a process takes its lock and wakes its waiters.
            state.processes.clone()
        };
        for process in all.into_values() {
            process.close(stopped);
        }
    }
}

impl TableState {
    /// Forgets the processes that ended first, if there are many. A process whose output is still being
    /// written is kept.
    fn forget_oldest(&mut self) {
        let kept = |id: &u64| self.processes.get(id).map_or(0, |process| process.kept());
        let mut bytes: usize = self.ended.iter().map(kept).sum();
        let mut surplus = self.ended.len().saturating_sub(MOST_ENDED);
        let processes = &mut self.processes;
        self.ended.retain(|id| {
            let Some(process) = processes.get(id) else {
                return false;
            };
            if (surplus == 0 && bytes <= MOST_ENDED_BYTES) || !process.is_done() {
                return true;
            }
            surplus = surplus.saturating_sub(1);
            // Both limits hold after this loop, apart from processes whose output is still being written.
            bytes = bytes.saturating_sub(process.kept());
            processes.remove(id);
            false
        });
    }
}

/// A table that a panicking thread left is still usable.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn table() -> (ProcessTable, UnixStream) {
        let table = ProcessTable::new(&RunLimits::default()).unwrap();
        let (socket, stage) = UnixStream::pair().unwrap();
        table.open(socket.into());
        (table, stage)
    }

    fn spawn(table: &ProcessTable, timeout: Option<Duration>) -> Arc<ProcessHandle> {
        let wanted = CheckedProcess {
            command: vec!["x".into()],
            env: Vec::new(),
            cwd: "/".into(),
            terminal: None,
            timeout,
            output_bytes: 16,
        };
        table.spawn(wanted, ProcessEnds::default(), Vec::new()).unwrap()
    }

    fn spawned(id: u64) -> ProcessReport {
        ProcessReport::Spawned {
            id,
            pid: 2,
            has_terminal: false,
        }
    }

    #[test]
    fn reports_of_unknown_or_repeated_numbers_change_nothing() {
        let (table, _stage) = table();
        let process = spawn(&table, None);
        let other = process.id + 1;
        let failed = |id| ProcessReport::SpawnFailed {
            id,
            step: SpawnStep::Program,
            errno: 2,
        };
        for report in [
            spawned(other),
            failed(other),
            ProcessReport::Exited { id: other, code: 1 },
        ] {
            table.hear(report, None);
            assert_eq!(process.phase(), ProcessPhase::Starting);
        }
        table.hear(spawned(process.id), None);
        table.hear(
            ProcessReport::Exited {
                id: process.id,
                code: 3,
            },
            None,
        );
        let ended = process.phase();
        assert!(matches!(ended, ProcessPhase::Ended(end) if end.end == CommandEnd::Exited(3)));
        for report in [
            spawned(process.id),
            failed(process.id),
            ProcessReport::Signaled {
                id: process.id,
                signal: 9,
            },
        ] {
            table.hear(report, None);
            assert_eq!(process.phase(), ended, "{report:?}");
        }
        assert_eq!(table.all().len(), 1);
    }

    #[test]
    fn end_of_the_sandbox_reaches_starting_and_running_processes() {
        let (table, _stage) = table();
        let (starting, running) = (spawn(&table, None), spawn(&table, None));
        table.hear(spawned(running.id), None);
        table.close(Some(StopReason::Timeout));
        assert!(matches!(starting.phase(), ProcessPhase::Failed { .. }));
        let ProcessPhase::Ended(end) = running.phase() else {
            panic!("it still runs")
        };
        assert_eq!(
            (end.end, end.stopped),
            (CommandEnd::Signaled(libc::SIGKILL), Some(StopReason::Timeout))
        );
        assert!(!table.wait_until_open());
    }

    #[test]
    fn deadlines_end_with_their_processes_unless_these_were_stopped() {
        let (table, _stage) = table();
        let [quick, slow] = [(); 2].map(|()| spawn(&table, Some(Duration::from_secs(60))));
        for process in [&quick, &slow] {
            table.hear(spawned(process.id), None);
        }
        let exited = |id| ProcessReport::Exited { id, code: 0 };
        table.hear(exited(quick.id), None);
        let first = table.next_deadline().unwrap();
        table.keep_to_deadlines(first);
        let second = table.next_deadline().unwrap();
        assert_eq!(second, first + RunLimits::default().grace);
        // The processes that it left behind are killed all the same.
        table.hear(exited(slow.id), None);
        let ProcessPhase::Ended(end) = slow.phase() else {
            panic!("it still runs")
        };
        assert_eq!(end.stopped, Some(StopReason::Timeout));
        assert_eq!(table.next_deadline(), Some(second));
        table.keep_to_deadlines(second);
        assert_eq!(table.next_deadline(), None);
    }
}
