//! Progress of a command: the end of its output, from time to time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use agentvfs::exec::RunWatch;
use agentvfs::exec::sandbox::RunEvent;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;

use crate::reply::shown;

/// How often a client is told, at most.
const PERIOD: Duration = Duration::from_millis(500);
/// How much of the output it is told.
const TAIL: usize = 1_000;

/// The end of the output of a command, gathered on the thread that waits for it.
#[derive(Clone, Default)]
pub(crate) struct OutputTail(Arc<Mutex<Vec<u8>>>);

impl OutputTail {
    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&bytes[bytes.len().saturating_sub(2 * TAIL)..]);
        let excess = tail.len().saturating_sub(TAIL);
        tail.drain(..excess);
    }

    fn text(&self) -> String {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown(&String::from_utf8_lossy(&tail))
    }
}

impl RunWatch for OutputTail {
    fn event(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Stdout(bytes) | RunEvent::Stderr(bytes) => self.push(bytes),
            RunEvent::Started | RunEvent::Stopping(_) | RunEvent::Refused(_) => {}
        }
    }
}

/// Tells the client of a command as long as this future is polled.
pub(crate) async fn tell(peer: Peer<RoleServer>, token: Option<ProgressToken>, tail: OutputTail) {
    let Some(token) = token else {
        return std::future::pending().await;
    };
    let began = Instant::now();
    let mut ticks = tokio::time::interval(PERIOD);
    // The first tick is at once, when there is nothing to tell.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let mut progress = ProgressNotificationParam::new(token.clone(), began.elapsed().as_secs_f64());
        progress.message = Some(tail.text());
        // A client that can no longer be told ends the connection, which ends the command.
        let _ = peer.notify_progress(progress).await;
    }
}
