//! A shell that stays: scripts one after another in one sandbox, with one directory and one environment.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Cancel, Event, LaunchError, Launcher, Orders, Outcome, Run, Stdin};
use crate::plan::Plan;

/// Pieces of output that wait for somebody to listen. When there are more, what writes them waits.
const QUEUE: usize = 256;

const INTERRUPT_AGAIN: Duration = Duration::from_millis(100);

/// A running session. Dropping it ends everything in it.
pub struct Session {
    orders: Orders,
    cancel: Cancel,
    heard: Receiver<Heard>,
    /// The sandbox ends with the thread that started it, so it has one of its own.
    thread: Option<JoinHandle<Result<Outcome, LaunchError>>>,
    grace: Duration,
}

/// What a session says, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Done(i32),
}

/// Why a script has no status.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The shell ended: by `exit`, by a signal, or because the session was ended. `close` says how.
    #[error("the session has ended")]
    Ended,
    /// The script took too long, and what it had started was interrupted. The session goes on.
    #[error("the script took too long and was interrupted")]
    Interrupted { code: i32 },
    /// The script took too long and could not be interrupted. The session is over.
    #[error("the script took too long and could not be interrupted: the session has been ended")]
    TimedOut,
    #[error("the session cannot be started")]
    Start(#[source] io::Error),
}

impl Session {
    /// Opens a session. The command of the plan is its shell, a bash; its timeout is that of the whole session.
    pub fn open(launcher: impl Launcher + Send + 'static, plan: Plan) -> Result<Self, SessionError> {
        let (orders, cancel) =
            (Orders::new().map_err(SessionError::Start)?, Cancel::new().map_err(SessionError::Start)?);
        let (tell, heard) = sync_channel(QUEUE);
        let grace = plan.limits.grace;
        let (own_orders, own_cancel) = (orders.clone(), cancel.clone());
        let work = move || {
            let mut events = |event: Event<'_>| forward(&tell, event);
            let orders = Some(&own_orders);
            launcher.launch(Run {
                plan: &plan,
                stdin: Stdin::Nothing,
                cancel: &own_cancel,
                events: &mut events,
                orders,
            })
        };
        let thread = std::thread::Builder::new()
            .name("session".to_owned())
            .spawn(work)
            .map_err(SessionError::Start)?;
        Ok(Self { orders, cancel, heard, thread: Some(thread), grace })
    }

    /// Runs a script and tells what it says. The answer is its status.
    pub fn run(
        &mut self,
        script: impl Into<Vec<u8>>,
        timeout: Option<Duration>,
        tell: &mut dyn FnMut(&Heard),
    ) -> Result<i32, SessionError> {
        self.orders.script(script);
        if let Some(code) = self.listen(timeout, tell)? {
            return Ok(code);
        }
        // More than once, because a script may be about to start something when it is interrupted.
        let until = Instant::now() + self.grace;
        while Instant::now() < until {
            self.orders.interrupt();
            if let Some(code) = self.listen(Some(INTERRUPT_AGAIN.min(self.grace)), tell)? {
                return Err(SessionError::Interrupted { code });
            }
        }
        self.cancel.cancel();
        Err(SessionError::TimedOut)
    }

    /// A handle that ends the session from elsewhere.
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Ends the session, if it has not ended by itself, and tells how it went.
    pub fn close(mut self) -> Result<Outcome, LaunchError> {
        self.end();
        let thread = self.thread.take().expect("only `close` and `drop` take it");
        thread.join().unwrap_or_else(|_| {
            let source = io::Error::other("the thread of the session panicked");
            Err(LaunchError::System { doing: "running the session", source })
        })
    }

    /// Ends it, and lets it say what it still has to say.
    fn end(&self) {
        self.cancel.cancel();
        while self.heard.recv().is_ok() {}
    }

    /// Nothing when the time is over.
    fn listen(
        &self,
        timeout: Option<Duration>,
        tell: &mut dyn FnMut(&Heard),
    ) -> Result<Option<i32>, SessionError> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let next = match until {
                Some(until) => self.heard.recv_timeout(until.saturating_duration_since(Instant::now())),
                None => self.heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(Heard::Done(code)) => return Ok(Some(code)),
                Ok(said) => tell(&said),
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err(SessionError::Ended),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            // Nobody wants to know how it went.
            thread.join().ok();
        }
    }
}

fn forward(tell: &SyncSender<Heard>, event: Event<'_>) {
    let heard = match event {
        Event::Stdout(bytes) => Heard::Stdout(bytes.to_vec()),
        Event::Stderr(bytes) => Heard::Stderr(bytes.to_vec()),
        Event::Done(code) => Heard::Done(code),
        Event::Started | Event::Stopping(_) => return,
    };
    // A session that nobody listens to is about to be dropped.
    tell.send(heard).ok();
}
