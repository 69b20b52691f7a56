//! Those who put objects, and the one who sweeps: one excludes the others.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::door::{Pin, StoreError};

/// How long a pin waits for a sweep to end, which takes no disk.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct MemoryPins {
    holders: Mutex<PinCounts>,
    changed: Condvar,
}

#[derive(Default)]
struct PinCounts {
    pins: usize,
    is_swept: bool,
}

/// Counts for as long as it lives.
struct HeldPin(Arc<MemoryPins>);

/// Keeps pins away for as long as it lives.
pub(super) struct SweepTurn(Arc<MemoryPins>);

impl MemoryPins {
    pub(crate) fn pin(self: &Arc<Self>) -> Result<Pin, StoreError> {
        let is_free = |holders: &PinCounts| !holders.is_swept;
        let mut holders = self.wait(PATIENCE, "the store (garbage collection is running)", is_free)?;
        holders.pins += 1;
        Ok(Pin::new(HeldPin(Arc::clone(self))))
    }

    pub(crate) fn exclusive(self: &Arc<Self>, timeout: Duration) -> Result<SweepTurn, StoreError> {
        let is_free = |holders: &PinCounts| !holders.is_swept && holders.pins == 0;
        let mut holders = self.wait(timeout, "the store (someone is writing to it)", is_free)?;
        holders.is_swept = true;
        Ok(SweepTurn(Arc::clone(self)))
    }

    fn wait(
        &self,
        timeout: Duration,
        what: &str,
        is_free: impl Fn(&PinCounts) -> bool,
    ) -> Result<MutexGuard<'_, PinCounts>, StoreError> {
        let (holders, _) = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |holders| !is_free(holders))
            .expect("no panic happens while the pins are locked");
        if is_free(&holders) {
            return Ok(holders);
        }
        Err(StoreError::Busy {
            what: what.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, PinCounts> {
        self.holders
            .lock()
            .expect("no panic happens while the pins are locked")
    }
}

impl Drop for HeldPin {
    fn drop(&mut self) {
        self.0.lock().pins -= 1;
        self.0.changed.notify_all();
    }
}

impl Drop for SweepTurn {
    fn drop(&mut self) {
        self.0.lock().is_swept = false;
        self.0.changed.notify_all();
    }
}
