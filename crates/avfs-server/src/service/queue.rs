//! The commands of a tenant: so many run, so many wait, and others are refused at once.

use std::sync::Arc;

use agentvfs::ErrorKind;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::{ServiceError, ServiceResult};

/// A queue with a bound.
pub(super) struct Queue {
    running: Arc<Semaphore>,
    /// Those that run are counted as well.
    admitted: Arc<Semaphore>,
}

/// A place among the commands that run.
pub(super) struct Turn {
    _running: OwnedSemaphorePermit,
    _admitted: OwnedSemaphorePermit,
}

impl Queue {
    pub fn new(running: usize, waiting: usize) -> Queue {
        Queue {
            running: Arc::new(Semaphore::new(running)),
            admitted: Arc::new(Semaphore::new(running + waiting)),
        }
    }

    /// Waits for a place, unless too many wait already.
    pub async fn turn(&self) -> ServiceResult<Turn> {
        let busy = |_| {
            ServiceError::new(
                "too-many-commands",
                ErrorKind::Busy,
                "too many commands run and wait; try again when some of them have ended",
            )
        };
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(busy)?;
        let running = Arc::clone(&self.running).acquire_owned().await;
        Ok(Turn {
            _running: running.map_err(|_| ServiceError::ending())?,
            _admitted: admitted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commands_wait_for_a_place_and_too_many_are_refused() {
        let queue = Arc::new(Queue::new(1, 1));
        let first = queue.turn().await.unwrap();
        let second = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.turn().await.map(drop) }
        });
        while queue.admitted.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(queue.turn().await.err().unwrap().code, "too-many-commands");
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap().unwrap();
        queue.turn().await.unwrap();
    }
}
