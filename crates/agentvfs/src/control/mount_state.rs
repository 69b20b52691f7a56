//! The mounts of a vault as its owner tells of them, and as the list on the disk has them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::protocol::Bytes;

/// One mount of a vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRecord {
    /// The mount point.
    #[serde(with = "host_path")]
    pub dir: PathBuf,
    /// How it was mounted, as [`MountOptions::words`](crate::mount::MountOptions::words).
    pub options: Vec<String>,
    /// The process that serves it.
    pub pid: u32,
}

impl MountRecord {
    /// A mount that this process serves.
    pub fn ours(dir: &Path, options: &[String]) -> MountRecord {
        MountRecord {
            dir: dir.to_owned(),
            options: options.to_vec(),
            pid: std::process::id(),
        }
    }
}

/// A mount, and its requests so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountState {
    /// Where it is, and how it was mounted.
    #[serde(flatten)]
    pub record: MountRecord,
    /// Which way requests come from the kernel.
    pub transport: String,
    /// How many requests it has answered.
    pub requests: u64,
    /// The same for each kind of request.
    pub by_opcode: BTreeMap<String, u64>,
    /// How many requests took from `2^n` up to `2^(n+1)` nanoseconds to serve, for each `n`.
    pub serve_ns: Vec<u64>,
    /// How many requests needed data that was not in memory, and were answered later.
    #[serde(default)]
    pub deferred: u64,
    /// The memory of the process that serves it, with all its other mounts.
    pub memory_bytes: u64,
}

/// What is left of a mount that was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unmounted {
    /// Nothing: no process can use it any longer.
    Wholly,
    /// The directory is free. Processes that still have the mount, through open files or in a mount namespace
    /// of their own, are served until they are done.
    Here,
}

mod host_path {
    use serde::{Deserializer, Serializer};

    use super::*;

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        Bytes::of_host(path).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        let path = Bytes::deserialize(deserializer)?.to_host();
        path.ok_or_else(|| serde::de::Error::custom("not the bytes of a path"))
    }
}
