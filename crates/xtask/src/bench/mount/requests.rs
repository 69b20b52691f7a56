//! What the kernel asked of a mount. The owner counts; `avfs mounts --json` tells.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

/// Requests by their kind, since the mount was made or since another reading.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Requests {
    pub total: u64,
    pub by_opcode: BTreeMap<String, u64>,
}

impl Requests {
    /// The counters of the mount at `dir`; nothing if this avfs does not tell.
    pub fn read(avfs: &Path, home: &Path, dir: &Path) -> Result<Option<Requests>> {
        let output = Command::new(avfs).args(["mounts", "--json"]).env("AVFS_HOME", home).output()?;
        let Ok(answer) = serde_json::from_slice::<Value>(&output.stdout) else { return Ok(None) };
        Ok(mount_at(&answer, dir).and_then(Requests::parse))
    }

    fn parse(mount: &Value) -> Option<Requests> {
        let counts = mount["by_opcode"].as_object()?;
        let by_opcode = counts.iter().filter_map(|(name, count)| Some((name.clone(), count.as_u64()?)));
        Some(Requests { total: mount["requests"].as_u64()?, by_opcode: by_opcode.collect() })
    }

    pub fn since(&self, before: &Requests) -> Requests {
        let earlier = |name: &String| before.by_opcode.get(name).copied().unwrap_or(0);
        let by_opcode = self.by_opcode.iter().map(|(name, count)| (name.clone(), count - earlier(name)));
        Requests {
            total: self.total - before.total,
            by_opcode: by_opcode.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// The mount whose directory this is, whatever the field is called.
fn mount_at<'a>(answer: &'a Value, dir: &Path) -> Option<&'a Value> {
    let wanted = dir.to_str()?;
    let is_there = |mount: &&Value| {
        mount.as_object().is_some_and(|fields| fields.values().any(|value| value.as_str() == Some(wanted)))
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
                { "vault": "b", "dir": "/here", "requests": lookups + 2, "by_opcode": { "lookup": lookups, "read": 2 } },
            ] })
        };
        let at = |answer: &Value| Requests::parse(mount_at(answer, Path::new("/here")).unwrap()).unwrap();
        let difference = at(&answer(7)).since(&at(&answer(4)));
        assert_eq!(difference.total, 3);
        assert_eq!(difference.by_opcode, BTreeMap::from([("lookup".to_owned(), 3)]));
        assert!(mount_at(&answer(1), Path::new("/nowhere")).is_none());
    }
}
