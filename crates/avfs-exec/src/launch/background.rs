//! A run that continues beside its caller.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::{Cancel, LaunchError, LaunchOutcome};

/// The thread that executes a plan. Nothing of the run is left when this is dropped.
#[derive(Debug)]
pub(crate) struct BackgroundRun {
    thread: Option<JoinHandle<Result<LaunchOutcome, LaunchError>>>,
    cancel: Cancel,
    /// Readable once it is over.
    over: Arc<OwnedFd>,
}

impl BackgroundRun {
    /// Starts a thread that waits for its run until the end. A sandbox ends with the thread that created it,
    /// so this one does nothing else.
    pub(crate) fn start(
        name: &str,
        carry_out: impl FnOnce(&Cancel) -> Result<LaunchOutcome, LaunchError> + Send + 'static,
    ) -> Result<Self, LaunchError> {
        let system = LaunchError::system;
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from);
        let over = Arc::new(event().map_err(system("making an event"))?);
        let cancel = Cancel::new().map_err(system("making an event"))?;
        let (cancelling, ending) = (cancel.clone(), EndBell(Arc::clone(&over)));
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            // Also on a panic.
            let _ending = ending;
            carry_out(&cancelling)
        });
        Ok(Self {
            thread: Some(thread.map_err(system("starting a thread"))?),
            cancel,
            over,
        })
    }

    pub(crate) fn over(&self) -> &Arc<OwnedFd> {
        &self.over
    }

    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Waits for the end, and returns whether it came.
    pub(crate) fn wait(&self, patience: Option<Duration>) -> bool {
        let until = patience.and_then(|patience| Instant::now().checked_add(patience));
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [PollFd::new(&*self.over, PollFlags::IN)];
            match poll(&mut fds, timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                ready => return ready.is_ok_and(|ready| ready > 0),
            }
        }
    }

    /// Ends it, if it has not ended.
    pub(crate) fn end(&mut self) {
        if self.thread.is_some() {
            // The caller does not want the outcome.
            self.finish().ok();
        }
    }

    /// The outcome. Ends the run, if it has not ended.
    pub(crate) fn finish(&mut self) -> Result<LaunchOutcome, LaunchError> {
        let gone = || LaunchError::system("watching the sandbox")(io::Error::other("its thread is gone"));
        if !self.wait(Some(Duration::ZERO)) {
            self.cancel.cancel();
        }
        let thread = self.thread.take().ok_or_else(gone)?;
        thread.join().map_err(|_| gone())?
    }
}

impl Drop for BackgroundRun {
    fn drop(&mut self) {
        self.end();
    }
}

struct EndBell(Arc<OwnedFd>);

impl Drop for EndBell {
    fn drop(&mut self) {
        // It fails only after 2^64 calls.
        rustix::io::write(&*self.0, &1_u64.to_ne_bytes()).ok();
    }
}
