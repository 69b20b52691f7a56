//! The end of a request or a connection, for threads that wait for commands.

use agentvfs::Error;
use agentvfs::exec::sandbox::Cancel;
use tokio_util::sync::CancellationToken;

/// Cancels a command when its request or its connection ends, and when this is dropped: the future of a request is dropped
/// when nobody waits for it any longer. A command that has ended by then is not touched.
pub(crate) struct Cancelling {
    cancel: Cancel,
    task: tokio::task::JoinHandle<()>,
}

impl Cancelling {
    pub fn when(cancel: &Cancel, request: CancellationToken, connection: CancellationToken) -> Cancelling {
        let cancelled = cancel.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = request.cancelled() => {}
                () = connection.cancelled() => {}
            }
            cancelled.cancel();
        });
        Cancelling {
            cancel: cancel.clone(),
            task,
        }
    }
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        self.task.abort();
        self.cancel.cancel();
    }
}

/// A way to cancel one command.
pub(crate) fn cancel() -> Result<Cancel, Error> {
    Cancel::new().map_err(|source| Error::Host {
        action: "making",
        place: "an event".into(),
        source,
    })
}
