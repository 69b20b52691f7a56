//! Resource usage of a control group: for a whole run, or for one command after another.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{LimitsBy, MemoryNow, ReachedLimit, RunUsage};

/// The files with the counters of a group. Outlives the group, and then counts nothing.
#[derive(Clone, Debug)]
pub(crate) struct LimitGauge {
    pub(super) by: LimitsBy,
    pub(super) memory: PathBuf,
    pub(super) pids: PathBuf,
    pub(super) cpu: Option<PathBuf>,
}

impl LimitGauge {
    pub(crate) fn by(&self) -> LimitsBy {
        self.by
    }

    /// CPU time so far, of all processes that were ever in the group.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let directory = self.cpu.as_ref()?;
        match self.by {
            LimitsBy::CgroupV2 => value_of(directory, "cpu.stat", "usage_usec").map(Duration::from_micros),
            LimitsBy::CgroupV1 => number_in(directory, "cpuacct.usage").map(Duration::from_nanos),
            LimitsBy::Rlimits => None,
        }
    }

    pub(crate) fn usage(&self) -> RunUsage {
        RunUsage {
            cpu: self.cpu(),
            memory: number_in(&self.memory, self.peak()),
        }
    }

    /// The memory in use.
    pub(crate) fn memory_now(&self) -> Option<MemoryNow> {
        let (used, cache) = match self.by {
            LimitsBy::CgroupV2 => ("memory.current", "file"),
            LimitsBy::CgroupV1 | LimitsBy::Rlimits => ("memory.usage_in_bytes", "cache"),
        };
        Some(MemoryNow {
            used: number_in(&self.memory, used)?,
            cache: value_of(&self.memory, "memory.stat", cache)?,
        })
    }

    /// The limits that were reached.
    pub(crate) fn hit(&self) -> Vec<ReachedLimit> {
        hits(self.counts(), [0; 2])
    }

    /// Starts counting from here.
    pub(crate) fn start_lap(&self) -> GaugeLap {
        let peak = self
            .reset_peak()
            .and_then(|file| Ok((number_of(&file)?, file)))
            .ok();
        GaugeLap {
            gauge: self.clone(),
            cpu: self.cpu(),
            counts: self.counts(),
            peak,
        }
    }

    fn peak(&self) -> &'static str {
        match self.by {
            LimitsBy::CgroupV2 => "memory.peak",
            LimitsBy::CgroupV1 | LimitsBy::Rlimits => "memory.max_usage_in_bytes",
        }
    }

    /// Resets the peak of memory usage. Version 2 does so for this descriptor only, since Linux 6.12.
    fn reset_peak(&self) -> io::Result<File> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .open(self.memory.join(self.peak()))?;
        file.write_all(b"0")?;
        Ok(file)
    }

    /// How often memory ran out, and how often a process could not be started.
    fn counts(&self) -> [u64; 2] {
        let events = match self.by {
            LimitsBy::CgroupV2 => "memory.events",
            LimitsBy::CgroupV1 | LimitsBy::Rlimits => "memory.oom_control",
        };
        let memory = value_of(&self.memory, events, "oom_kill");
        [memory, value_of(&self.pids, "pids.events", "max")].map(Option::unwrap_or_default)
    }
}

/// One of several commands in a group.
#[derive(Debug)]
pub(crate) struct GaugeLap {
    gauge: LimitGauge,
    cpu: Option<Duration>,
    counts: [u64; 2],
    /// The memory in use at its start, and the file with its peak.
    peak: Option<(u64, File)>,
}

impl GaugeLap {
    /// The usage since its start, including everything that ran in parallel.
    pub(crate) fn end(&self) -> (RunUsage, Vec<ReachedLimit>) {
        let hit = hits(self.gauge.counts(), self.counts);
        let memory = self.peak.as_ref().and_then(|(before, file)| {
            // Memory that the shell, its jobs and its files held before does not count for this command. If
            // memory ran out, all of it counts.
            let others = if hit.contains(&ReachedLimit::Memory) {
                0
            } else {
                *before
            };
            Some(number_of(file).ok()?.saturating_sub(others))
        });
        (
            RunUsage {
                cpu: self.cpu_since(self.gauge.cpu()),
                memory,
            },
            hit,
        )
    }

    /// The same for a group that is gone, from its final usage.
    pub(crate) fn end_with(&self, all: &RunUsage) -> RunUsage {
        RunUsage {
            cpu: self.cpu_since(all.cpu),
            memory: all.memory,
        }
    }

    fn cpu_since(&self, now: Option<Duration>) -> Option<Duration> {
        Some(now?.saturating_sub(self.cpu?))
    }
}

fn hits(now: [u64; 2], before: [u64; 2]) -> Vec<ReachedLimit> {
    let limits = [ReachedLimit::Memory, ReachedLimit::Pids]
        .into_iter()
        .zip(now.into_iter().zip(before));
    limits
        .filter(|(_, (now, before))| now > before)
        .map(|(limit, _)| limit)
        .collect()
}

fn number_of(file: &File) -> io::Result<u64> {
    let mut bytes = [0; 32];
    let count = file.read_at(&mut bytes, 0)?;
    let text = std::str::from_utf8(&bytes[..count]).map_err(io::Error::other)?;
    text.trim().parse().map_err(io::Error::other)
}

fn number_in(directory: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(directory.join(file)).ok()?.trim().parse().ok()
}

/// The number after `key` in a file of lines `key number`.
fn value_of(directory: &Path, file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(directory.join(file)).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lap_counts_from_its_start() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().to_owned();
        let put = |file: &str, text: &str| fs::write(path.join(file), text).unwrap();
        put("cpuacct.usage", "5000000\n");
        put("memory.max_usage_in_bytes", "96");
        put("memory.oom_control", "oom_kill 1\n");
        put("pids.events", "max 2\n");
        let (memory, pids) = (path.clone(), path.clone());
        let gauge = LimitGauge {
            by: LimitsBy::CgroupV1,
            memory,
            pids,
            cpu: Some(path.clone()),
        };
        assert_eq!(gauge.hit(), [ReachedLimit::Memory, ReachedLimit::Pids]);
        let lap = gauge.start_lap();
        // A kernel would report the current usage; in this file the first digit was overwritten.
        assert_eq!(
            fs::read_to_string(path.join("memory.max_usage_in_bytes")).unwrap(),
            "06"
        );
        put("cpuacct.usage", "8000000\n");
        put("memory.max_usage_in_bytes", "4096\n");
        put("pids.events", "max 3\n");
        let used = RunUsage {
            cpu: Some(Duration::from_millis(3)),
            memory: Some(4090),
        };
        assert_eq!(lap.end(), (used, vec![ReachedLimit::Pids]));
        put("memory.oom_control", "oom_kill 2\n");
        let used = RunUsage {
            memory: Some(4096),
            ..used
        };
        assert_eq!(lap.end(), (used, vec![ReachedLimit::Memory, ReachedLimit::Pids]));
    }
}
