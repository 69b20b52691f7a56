//! The kernel's requests to a mount. The owner counts; `avfs mounts --json` prints them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::target::settings_of_nobody;

/// Requests by their kind, since the mount was created or since another reading.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Requests {
    pub total: u64,
    pub by_opcode: BTreeMap<String, u64>,
    #[serde(skip)]
    pub serving: Serving,
}

/// How many requests took from `2^n` up to `2^(n+1)` nanoseconds to serve, for each `n`. A request that
/// another thread answers later (`fsync`, waiting for a lock) counts until it was handed over.
#[derive(Clone, Debug, Default)]
pub struct Serving(Vec<u64>);

impl Serving {
    fn parse(mount: &Value) -> Serving {
        let buckets = mount["serve_ns"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        Serving(buckets.iter().filter_map(Value::as_u64).collect())
    }

    fn since(&self, before: &Serving) -> Serving {
        let earlier = before.0.iter().copied().chain(std::iter::repeat(0));
        Serving(
            self.0
                .iter()
                .zip(earlier)
                .map(|(now, before)| now - before)
                .collect(),
        )
    }

    pub fn add(&mut self, other: &Serving) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0
            .iter_mut()
            .zip(&other.0)
            .for_each(|(sum, more)| *sum += more);
    }

    /// This fraction of the requests took less than the returned number of microseconds.
    pub fn quantile_us(&self, part: f64) -> Option<f64> {
        let total: u64 = self.0.iter().sum();
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen > 0 && seen as f64 >= total as f64 * part
        };
        let bucket = self.0.iter().position(reaches)?;
        Some(2_f64.powi(bucket as i32 + 1) / 1e3)
    }
}

impl Requests {
    /// The counters of the mount at `dir`; `None` if this avfs does not report them.
    pub fn read(avfs: &Path, home: &Path, dir: &Path) -> Result<Option<Requests>> {
        let mut mounts = Command::new(avfs);
        settings_of_nobody(&mut mounts, home);
        let output = mounts
            .args(["mounts", "--json"])
            .env("AVFS_HOME", home)
            .output()?;
        let Ok(answer) = serde_json::from_slice::<Value>(&output.stdout) else {
            return Ok(None);
        };
        Ok(mount_at(&answer, dir).and_then(Requests::parse))
    }

    fn parse(mount: &Value) -> Option<Requests> {
        let counts = mount["by_opcode"].as_object()?;
        // The value of a kind is a number, or an object that contains the number.
        let number = |count: &Value| count.as_u64().or_else(|| count["requests"].as_u64());
        let by_opcode = counts
            .iter()
            .filter_map(|(name, count)| Some((name.clone(), number(count)?)));
        let (total, serving) = (mount["requests"].as_u64()?, Serving::parse(mount));
        Some(Requests {
            total,
            by_opcode: by_opcode.collect(),
            serving,
        })
    }

    pub fn since(&self, before: &Requests) -> Requests {
        let earlier = |name: &String| before.by_opcode.get(name).copied().unwrap_or(0);
        let by_opcode = self
            .by_opcode
            .iter()
            .map(|(name, count)| (name.clone(), count - earlier(name)));
        Requests {
            total: self.total - before.total,
            by_opcode: by_opcode.filter(|(_, count)| *count > 0).collect(),
            serving: self.serving.since(&before.serving),
        }
    }
}

/// The mount with this directory, whatever the name of the field.
fn mount_at<'a>(answer: &'a Value, dir: &Path) -> Option<&'a Value> {
    let wanted = dir.to_str()?;
    let is_there = |mount: &&Value| {
        mount
            .as_object()
            .is_some_and(|fields| fields.values().any(|value| value.as_str() == Some(wanted)))
    };
    answer["mounts"].as_array()?.iter().find(is_there)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]
    use super::*;

    #[test]
    fn counters_are_found_by_directory_and_subtracted() {
        let answer = |lookups: u64| {
            serde_json::json!({ "mounts": [
                { "vault": "a", "dir": "/other", "requests": 1, "by_opcode": { "read": 1 } },
                { "vault": "b", "dir": "/here", "requests": lookups + 2, "by_opcode": {
                    "lookup": { "requests": lookups, "nanos": 900 }, "read": 2,
                } },
            ] })
        };
        let at = |answer: &Value| Requests::parse(mount_at(answer, Path::new("/here")).unwrap()).unwrap();
        let difference = at(&answer(7)).since(&at(&answer(4)));
        assert_eq!(difference.total, 3);
        assert_eq!(difference.by_opcode, BTreeMap::from([("lookup".to_owned(), 3)]));
        assert!(mount_at(&answer(1), Path::new("/nowhere")).is_none());
    }
    #[test]
    fn quantiles_are_the_upper_ends_of_their_buckets() {
        let serving = |buckets: &[u64]| Serving::parse(&serde_json::json!({ "serve_ns": buckets }));
        let mut all = serving(&[0, 0, 150, 3]).since(&serving(&[0, 0, 100, 2]));
        all.add(&serving(&[0, 0, 48, 0, 1]));
        assert_eq!(all.quantile_us(0.5), Some(0.008));
        assert_eq!(all.quantile_us(0.99), Some(0.016));
        assert_eq!(all.quantile_us(1.0), Some(0.032));
        assert_eq!(serving(&[0, 0]).quantile_us(0.5), None);
    }
}
