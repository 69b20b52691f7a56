//! The lock between processes that put objects and garbage collection: `gc.lock`.

use std::fs::{File, TryLockError};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::door::{Pin, StoreError};
use crate::embedded::failure::io_failure;
use crate::embedded::layout::StoreLayout;

/// The interval at which a waiting process polls the lock. A blocking lock call could not be given a time
/// limit without a signal.
pub(crate) const POLL: Duration = Duration::from_millis(5);

/// Pins of one process: they share one lock, taken by the first and released by the last.
#[derive(Default)]
pub(crate) struct ProcessPins {
    shared: Mutex<Weak<File>>,
}

impl ProcessPins {
    pub(crate) fn pin(&self, layout: &StoreLayout, timeout: Duration) -> Result<Pin, StoreError> {
        let mut shared = self
            .shared
            .lock()
            .expect("no panic happens while the pins are locked");
        if let Some(lock) = shared.upgrade() {
            return Ok(Pin::new(lock));
        }
        let lock = Arc::new(wait_for(
            layout,
            timeout,
            "the store (garbage collection is running)",
            |file| file.try_lock_shared(),
        )?);
        *shared = Arc::downgrade(&lock);
        Ok(Pin::new(lock))
    }
}

/// Takes the lock exclusively: without any pins.
pub(crate) fn lock_exclusively(layout: &StoreLayout, timeout: Duration) -> Result<File, StoreError> {
    wait_for(
        layout,
        timeout,
        "the store (someone is writing to it)",
        File::try_lock,
    )
}

fn wait_for(
    layout: &StoreLayout,
    timeout: Duration,
    what: &str,
    try_lock: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<File, StoreError> {
    let file = layout.open_gc_lock()?;
    let end = Instant::now() + timeout;
    loop {
        match try_lock(&file) {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(io_failure("locking", "gc.lock", source)),
            Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                return Err(StoreError::Busy {
                    what: what.to_owned(),
                });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(POLL),
        }
    }
}
