//! Measuring times: medians of several runs, and the disk's own fsync as the yardstick beside them.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

/// The median of `runs` timings of `work`, each after an untimed `prepare`.
pub fn median<T>(
    runs: usize,
    mut prepare: impl FnMut(usize) -> Result<T>,
    mut work: impl FnMut(T) -> Result<()>,
) -> Result<Duration> {
    let mut times = Vec::with_capacity(runs);
    for run in 0..runs {
        let input = prepare(run)?;
        let start = Instant::now();
        work(input)?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}

/// One append and fdatasync on the same disk: the yardstick for everything that is durable.
pub struct Fsync {
    file: File,
}

/// A time, and the duration of an fdatasync just before and after.
pub struct Durable {
    pub time: Duration,
    pub fsync: Duration,
}

impl Durable {
    pub fn in_fsyncs(&self) -> f64 {
        self.time.as_secs_f64() / self.fsync.as_secs_f64()
    }
}

impl Fsync {
    pub fn new(dir: &Path) -> Result<Fsync> {
        Ok(Fsync {
            file: File::create(dir.join("fsync.probe"))?,
        })
    }

    fn take(&self) -> Result<Duration> {
        let mut file = &self.file;
        median(
            9,
            |_| Ok(()),
            |()| {
                file.write_all(&[7; 4096])?;
                Ok(file.sync_data()?)
            },
        )
    }

    /// Measures a time between two measurements of the yardstick.
    pub fn beside(&self, work: impl FnOnce() -> Result<Duration>) -> Result<Durable> {
        let before = self.take()?;
        let time = work()?;
        Ok(Durable {
            time,
            fsync: (before + self.take()?) / 2,
        })
    }
}

/// Bytes of all files below a directory.
pub fn disk_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(bytes)
}

/// The private memory of this process, in bytes.
pub fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib: u64 = line
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .unwrap_or("0")
        .trim()
        .parse()?;
    Ok(kib * 1024)
}

pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
