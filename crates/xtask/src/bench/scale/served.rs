//! Information about the process that serves a mount, from itself and from the system.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Report;

/// A mount at one moment.
pub struct Served {
    pub pid: u64,
    /// How many requests took from `2^n` up to `2^(n+1)` nanoseconds.
    serve_ns: Vec<u64>,
    /// The CPU time of the process so far.
    cpu: Duration,
}

impl Served {
    pub fn parse(answer: &[u8], dir: &Path) -> Result<Served> {
        let answer: Value = serde_json::from_slice(answer).context("the answer of `avfs mounts`")?;
        let mounts = answer["mounts"].as_array().context("no list of mounts")?;
        let wanted = |mount: &&Value| mount["dir"].as_str().is_some_and(|there| Path::new(there) == dir);
        let mount = mounts
            .iter()
            .find(wanted)
            .with_context(|| format!("{} is no mount", dir.display()))?;
        let pid = mount["pid"].as_u64().context("a mount without a process")?;
        let counts = mount["serve_ns"].as_array().context("a mount without times")?;
        let serve_ns = counts.iter().filter_map(Value::as_u64).collect();
        Ok(Served {
            pid,
            serve_ns,
            cpu: cpu(pid)?,
        })
    }

    /// Memory in bytes: the current amount, and the peak.
    pub fn memory(&self) -> Result<Memory> {
        memory(self.pid)
    }

    /// The requests since an earlier moment.
    pub fn since(&self, before: &Served) -> Requests {
        let counts = self
            .serve_ns
            .iter()
            .zip(&before.serve_ns)
            .map(|(now, then)| now - then)
            .collect();
        Requests {
            counts,
            cpu: self.cpu - before.cpu,
        }
    }
}

#[derive(Clone, Copy)]
pub struct Memory {
    pub resident: u64,
    pub peak: u64,
    /// Without memory that belongs to files, such as the program itself.
    pub own: u64,
}

pub fn memory(pid: u64) -> Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    let all = || {
        Some(Memory {
            resident: field("VmRSS:")?,
            peak: field("VmHWM:")?,
            own: field("RssAnon:")?,
        })
    };
    all().context("the system does not tell the memory of a process")
}

/// User and system time: the fields after the name, which is in brackets.
fn cpu(pid: u64) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks: u64 = [11, 12]
        .iter()
        .filter_map(|index| fields.get(*index)?.parse::<u64>().ok())
        .sum();
    Ok(Duration::from_secs_f64(
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
    ))
}

/// Requests, by the duration of each.
pub struct Requests {
    counts: Vec<u64>,
    cpu: Duration,
}

impl Requests {
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The microseconds that this fraction of the requests took at most, assuming an even distribution within
    /// a bucket.
    pub fn micros(&self, share: f64) -> f64 {
        let wanted = self.total() as f64 * share;
        let mut before = 0.0;
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let behind = before + *count as f64;
            if behind >= wanted {
                let within = (wanted - before) / *count as f64;
                return (1u64 << bucket) as f64 * (1.0 + within) / 1e3;
            }
            before = behind;
        }
        0.0
    }

    /// Elapsed times, which other load on the machine lengthens, and beside them the CPU time.
    pub fn report(&self, what: &str, report: &mut Report) {
        report.add_with_goal(format!("{what}: our time, median"), self.micros(0.5), "µs", 5.0);
        report.add_with_goal(
            format!("{what}: our time, 99 of 100"),
            self.micros(0.99),
            "µs",
            50.0,
        );
        let each = self.cpu.as_secs_f64() * 1e6 / self.total().max(1) as f64;
        report.add(format!("{what}: CPU per request, kernel included"), each, "µs");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_histogram() {
        let mut counts = vec![0; 40];
        (counts[10], counts[14]) = (98, 2);
        let requests = Requests {
            counts,
            cpu: Duration::ZERO,
        };
        assert_eq!(requests.total(), 100);
        assert!(
            (1.024..2.048).contains(&requests.micros(0.5)),
            "{}",
            requests.micros(0.5)
        );
        assert!(
            (16.384..32.768).contains(&requests.micros(0.99)),
            "{}",
            requests.micros(0.99)
        );
    }
}
