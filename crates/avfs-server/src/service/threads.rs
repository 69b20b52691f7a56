//! Calls of the library, which may wait for a disk or a lock.

use std::future::Future;
use std::sync::Arc;

use agentvfs::ErrorKind;
use tokio::sync::Semaphore;

use super::error::{ServiceError, ServiceResult};

/// How many threads may wait for the library.
pub(crate) const THREADS: usize = 512;
/// How many of them may work for one tenant at the same time. Its other calls wait in turn, and hold no thread meanwhile.
const OF_ONE_TENANT: usize = 32;
/// How many of those that write to clients, and wait for them. They hold up nothing else of the tenant.
const STREAMS: usize = 8;

tokio::task_local! {
    static SHARE: Share;
}

/// The threads that work for a tenant.
#[derive(Clone)]
pub(crate) struct Share {
    calls: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Share {
        Share {
            calls: Arc::new(Semaphore::new(OF_ONE_TENANT)),
            streams: Arc::new(Semaphore::new(STREAMS)),
        }
    }
}

impl Share {
    /// Does work of which every call of [`on_a_thread`] counts.
    pub(crate) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        SHARE.scope(self, work).await
    }

    /// That of the request which is answered; none, if it is of nobody. A stream that is sent after the answer has begun
    /// is no part of it any more, and has to keep it.
    pub(super) fn current() -> Option<Share> {
        SHARE.try_with(Share::clone).ok()
    }
}

/// Runs work on a thread that may wait. What takes as long as a command does not belong here: the threads are shared.
pub async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> ServiceResult<T> + Send + 'static,
) -> ServiceResult<T> {
    on_a_thread_of(Share::current(), work).await
}

pub(super) async fn on_a_thread_of<T: Send + 'static>(
    share: Option<Share>,
    work: impl FnOnce() -> ServiceResult<T> + Send + 'static,
) -> ServiceResult<T> {
    let turn = match share {
        // Nobody closes it.
        Some(share) => share.calls.acquire_owned().await.ok(),
        None => None,
    };
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        // The work goes on when nobody waits for it any more, and takes up its place as long.
        drop(turn);
        done
    });
    match done.await {
        Ok(done) => done,
        // One request that panics is one failed request.
        Err(error) => Err(ServiceError::new(
            "internal",
            ErrorKind::Internal,
            format!("the request failed: {error}"),
        )),
    }
}

/// Runs work that writes to a client, on a thread that waits for it. Others of the tenant begin when there is a place.
pub(crate) fn stream_on_a_thread(work: impl FnOnce() + Send + 'static) {
    let share = Share::current();
    tokio::spawn(async move {
        let turn = match share {
            Some(share) => share.streams.acquire_owned().await.ok(),
            None => None,
        };
        tokio::task::spawn_blocking(move || {
            work();
            drop(turn);
        });
    });
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_tenant_whose_calls_hang_holds_up_no_other() {
        let (hanging, other) = (Share::default(), Share::default());
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let mut calls = Vec::new();
        for _ in 0..OF_ONE_TENANT + 1 {
            let held = Arc::clone(&held);
            let call = on_a_thread_of(Some(hanging.clone()), move || {
                // It ends when the sender is gone.
                let _ = held.lock().unwrap().recv();
                Ok(())
            });
            calls.push(tokio::spawn(call));
        }
        while hanging.calls.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        other.scope(on_a_thread(|| Ok(()))).await.unwrap();
        assert!(calls.iter().all(|call| !call.is_finished()));
        drop(release);
        for call in calls {
            call.await.unwrap().unwrap();
        }
        assert_eq!(hanging.calls.available_permits(), OF_ONE_TENANT);
    }

    #[tokio::test]
    async fn streams_that_hang_hold_up_no_call() {
        let share = Share::default();
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let begin = async {
            for _ in 0..STREAMS * 2 {
                let held = Arc::clone(&held);
                stream_on_a_thread(move || {
                    // It ends when the sender is gone.
                    let _ = held.lock().unwrap().recv();
                });
            }
        };
        share.clone().scope(begin).await;
        while share.streams.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        share.clone().scope(on_a_thread(|| Ok(()))).await.unwrap();
        drop(release);
    }

    #[tokio::test]
    async fn a_call_that_panics_is_one_failed_call() {
        let failed = on_a_thread(|| -> ServiceResult<()> { panic!("on purpose") }).await;
        assert_eq!(failed.unwrap_err().code, "internal");
        on_a_thread(|| Ok(())).await.unwrap();
    }
}
