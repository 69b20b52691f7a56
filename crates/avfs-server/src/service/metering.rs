//! What sandboxes use, measured from time to time. It is kept in memory only.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::error::ServiceResult;
use super::sandbox::Sandbox;
use super::threads::on_a_thread;
use crate::clock::UnixMillis;

/// How long two measurements are apart, at least.
const APART_MS: i64 = 5000;
/// How many are kept of a sandbox: those of an hour.
const KEPT: usize = 720;

/// What a sandbox used at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measurement {
    /// Milliseconds since 1970.
    pub at: i64,
    /// The part of one processor that its processes used since the measurement before: 1 is all of it.
    pub cpu: f64,
    /// Bytes of memory, with what the kernel keeps of files.
    pub memory: u64,
    /// Of these, what the kernel keeps of files.
    pub cache: u64,
    /// Bytes of its files, when somebody last asked.
    pub disk: u64,
}

/// The last measurements of a sandbox.
#[derive(Default)]
pub(super) struct Meter(Mutex<Metered>);

#[derive(Default)]
struct Metered {
    kept: VecDeque<Measurement>,
    /// The processor time at the last measurement.
    cpu: Duration,
}

impl Sandbox {
    /// Its measurements, of which the last is from just now.
    pub async fn measurements(self: &Arc<Sandbox>) -> ServiceResult<Vec<Measurement>> {
        let sandbox = Arc::clone(self);
        on_a_thread(move || {
            // Whoever asks wants to know about its files as well, which the rounds do not look at: that costs a snapshot.
            let disk = sandbox
                .vault()
                .alone()
                .reader()?
                .totals()
                .unwrap_or_default()
                .bytes;
            sandbox.measure();
            let mut metered = sandbox.meter().0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(last) = metered.kept.back_mut() {
                last.disk = disk;
            }
            Ok(metered.kept.iter().copied().collect())
        })
        .await
    }

    /// Measures what it uses, unless that was done a moment ago.
    pub(super) fn measure(&self) {
        let now = UnixMillis::now().0;
        let mut metered = self.meter().0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = metered.kept.back().map(|last| last.at);
        if last.is_some_and(|last| (last..last + APART_MS).contains(&now)) {
            return;
        }
        let used = self.with_open(|open| {
            let cpu = open.usage().cpu.unwrap_or_default();
            (cpu, open.memory().unwrap_or_default())
        });
        let (cpu, memory) = used.unwrap_or_default();
        metered.add(now, cpu, (memory.used, memory.cache));
    }
}

impl Metered {
    fn add(&mut self, at: i64, cpu: Duration, (memory, cache): (u64, u64)) {
        let since = self.kept.back().map_or(0, |last| at - last.at);
        let disk = self.kept.back().map_or(0, |last| last.disk);
        // A sandbox that was opened again counts from the beginning.
        let used = cpu.checked_sub(self.cpu).unwrap_or(cpu);
        let share = if since > 0 {
            used.as_secs_f64() * 1000.0 / since as f64
        } else {
            0.0
        };
        self.cpu = cpu;
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(Measurement {
            at,
            cpu: share,
            memory,
            cache,
            disk,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_processors_is_that_since_the_measurement_before() {
        let mut metered = Metered::default();
        let seconds = Duration::from_secs_f64;
        for (at, cpu) in [(0, 3.0), (5000, 3.0), (10_000, 5.5), (15_000, 0.5)] {
            metered.add(at, seconds(cpu), (2, 1));
        }
        let shares: Vec<f64> = metered.kept.iter().map(|one| one.cpu).collect();
        assert_eq!(shares, [0.0, 0.0, 0.5, 0.1]);
    }

    #[test]
    fn only_the_last_measurements_are_kept() {
        let mut metered = Metered::default();
        for at in 0..KEPT as i64 + 2 {
            metered.add(at, Duration::ZERO, (0, 0));
        }
        assert_eq!((metered.kept.len(), metered.kept[0].at), (KEPT, 2));
    }
}
